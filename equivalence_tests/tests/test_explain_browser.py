"""The page of a head of attention in a real browser: what it shows, what an entry tells, and every way to use it."""

import itertools
import math
import re

import numpy as np
import pytest

from equivalence_tests.explain.head import TEMPERATURES, drawn, states
from equivalence_tests.explain.page import page
from equivalence_tests.explain.steps import AXES, STEPS
from equivalence_tests.explain.texts import table
from equivalence_tests.tests.chromium import PROGRAMS, Browser, installed

PROGRAM = installed()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason=f"no browser is installed, expected one of {', '.join(PROGRAMS)}"
)

MINUS, TIMES = "\u2212", "\u00d7"
WORDS = ["el", "gato", "vio", "al", "gato"]
LABELS = ["el", "gato₂", "vio", "al", "gato₅"]
D, C, SEED = 3, 2, 5
NAMES = [step.name for step in STEPS]
CELLS = """[...document.querySelectorAll("#stage td[data-name]")].map(
    (td) => [td.dataset.name, Number(td.dataset.i), Number(td.dataset.j), td.textContent])"""
MARKED = """[...document.querySelectorAll("#stage td.left, #stage td.right")].map(
    (td) => [td.dataset.name, Number(td.dataset.i), Number(td.dataset.j)])"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(PROGRAM, tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explain.html"
    path.write_text(page(drawn(WORDS, SEED, D, C)), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def long_url(tmp_path_factory):
    words = [
        "una",
        "docena",
        "de",
        "palabras",
        "que",
        "no",
        "son",
        "cortas",
        "extraordinariamente",
        "ni",
        "mucho",
        "menos",
    ]
    path = tmp_path_factory.mktemp("page") / "long.html"
    path.write_text(page(drawn(words, d=8, c=8)), "utf-8")
    return path.as_uri()


def at(url, **wanted):
    return f"{url}#{'&'.join(f'{name}={value}' for name, value in wanted.items())}"


def step_at(name):
    return NAMES.index(name)


def cell(name, i, j):
    return f'#stage td[data-name="{name}"][data-i="{i}"][data-j="{j}"]'


def number(shown):
    return float(shown.replace(MINUS, "-").replace("∞", "inf"))


def agrees(shown, wanted):
    """The number in a cell is the value, rounded to the places that are shown; a 0 without places is exact."""
    if shown == "0" or math.isinf(wanted):
        return number(shown) == wanted
    places = len(shown.partition(".")[2])
    return abs(number(shown) - wanted) <= 0.5 * 10.0**-places * (1 + 1e-9)


def matrix_of(found, name, row):
    return found.matrices["J"][row] if name == "J" else found.matrices[name]


def found_state(causal, scaled, temperature):
    all_states = states(drawn(WORDS, SEED, D, C))
    (one,) = [s for s in all_states if (s.causal, s.scaled, s.temperature) == (causal, scaled, temperature)]
    return one


@pytest.mark.parametrize(
    ("causal", "scaled", "temperature"),
    [(False, True, 1.0), (True, True, 1.0), (True, False, 0.25), (False, False, 4.0)],
)
def test_the_page_shows_the_reference_s_numbers_at_every_step(browser, url, causal, scaled, temperature):
    browser.open(url)
    if causal:
        browser.click("#causal")
    if not scaled:
        browser.click("#scaled")
    while browser.evaluate("document.querySelector('#degrees').textContent") != f"T = {temperature:g}":
        browser.press("t")
    found = found_state(causal, scaled, temperature)
    for name in NAMES:
        assert browser.evaluate("document.querySelector('#place b').textContent") == name
        cells = browser.evaluate(CELLS)
        assert {each[0] for each in cells} >= set(STEPS[step_at(name)].makes)
        for matrix, i, j, shown in cells:
            assert agrees(shown, matrix_of(found, matrix, 1)[i, j]), (name, matrix, i, j, shown)
        for matrix in {each[0] for each in cells}:
            whole = [(i, j) for each, i, j, _ in cells if each == matrix]
            rows, columns = found.matrices[matrix].shape[-2:]
            expected = {(i, j) for i in range(rows) for j in range(columns)}
            if name == "J" and matrix != "J":
                expected = {(1, j) for j in range(columns)}
            assert set(whole) == expected, (name, matrix)
        browser.press("n")


# What a step computes, once more with whole matrices: which entries matter is found by moving every one of them.
OPERATIONS = {
    "Q": lambda m: m["X"] @ m["Wq"],
    "K": lambda m: m["X"] @ m["Wk"],
    "V": lambda m: m["X"] @ m["Wv"],
    "Omega": lambda m: m["Q"] @ m["K"].T,
    "scaled": lambda m: m["Omega"] * 0.5,
    "masked": lambda m: np.where(np.tri(len(WORDS)), m["scaled"], -np.inf),
    "A": lambda m: np.exp(m["masked"]) / np.exp(m["masked"]).sum(-1, keepdims=True),
    "C": lambda m: m["A"] @ m["V"],
    "dA": lambda m: m["dC"] @ m["V"].T,
    "J": lambda m: np.diag(m["A"][1]) - np.outer(m["A"][1], m["A"][1]),
    "delta": lambda m: (m["A"] * m["dA"]).sum(-1, keepdims=True),
    "dS": lambda m: m["A"] * (m["dA"] - m["delta"]),
    "dOmega": lambda m: m["dS"] * 0.5,
    "dQ": lambda m: m["dOmega"] @ m["K"],
    "dK": lambda m: m["dOmega"].T @ m["Q"],
    "dV": lambda m: m["A"].T @ m["dC"],
    "dX": lambda m: m["dQ"] @ m["Wq"].T + m["dK"] @ m["Wk"].T + m["dV"] @ m["Wv"].T,
    "dWq": lambda m: m["X"].T @ m["dQ"],
    "dWk": lambda m: m["X"].T @ m["dK"],
    "dWv": lambda m: m["X"].T @ m["dV"],
}


def movers(name, matrices, i, j):
    """The entries of the step's operands that move entry (i, j) of its result when they are moved."""
    operation = OPERATIONS[name]
    shows = [re.sub(r"(\[row\])?(\^T)?$", "", token) for token in STEPS[step_at(name)].shows.split()]
    before, found = operation(matrices)[i, j], set()
    for operand in {each for each in shows if each in AXES} - {name, "dS" if name == "J" else ""}:
        if name == "J" and operand != "A":
            continue
        for place in np.ndindex(matrices[operand].shape):
            moved = matrices[operand].copy()
            moved[place] += 0.5
            if operation({**matrices, operand: moved})[i, j] != before:
                found.add((operand, *place))
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_pointing_at_an_entry_shows_exactly_the_entries_that_made_it(browser, url, name):
    """With the causal mask, and below its first row, in which a lone weight is 1 whatever its score."""
    browser.open(at(url, step=step_at(name), causal=1))
    rng = np.random.default_rng(0)  # nothing is 0 by chance, nor by the mask: a hidden weight is a factor all the same
    matrices = {key: rng.standard_normal(M.shape) for key, M in found_state(True, True, 1.0).matrices.items()}
    matrices["masked"] = np.where(np.tri(len(WORDS)), matrices["masked"], -np.inf)
    rows, columns = matrices[name].shape[-2:]
    for i, j in sorted({(1, 0), (1, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)}):
        browser.hover(cell(name, i, j))
        assert browser.evaluate("document.querySelector('#stage td.active').dataset.name") == name
        marked = {tuple(each) for each in browser.evaluate(MARKED)}
        assert marked == movers(name, matrices, i, j), (name, i, j)


def test_pointing_at_the_row_of_dS_shows_its_jacobian_and_dA(browser, url):
    browser.open(at(url, step=step_at("J")))
    browser.hover(cell("dS", 1, 3))
    n = len(WORDS)
    marked = {tuple(each) for each in browser.evaluate(MARKED)}
    assert marked == {("J", 3, k) for k in range(n)} | {("dA", 1, k) for k in range(n)}


def with_bound(numbers):
    """The value of an equation's right-hand side, and how far the rounding of each of its numbers can have moved it."""
    found = [float(each) for each in re.findall(r"\d[\d.]*(?:e-?\d+)?", numbers)]
    template = re.sub(r"\d[\d.]*(?:e-?\d+)?", "{}", numbers)

    def evaluated(values):
        return eval(template.format(*(f"({value!r})" for value in values)), {"exp": math.exp})

    value = evaluated(found)
    moved = [evaluated([*found[:k], x * (1 + 5e-4), *found[k + 1 :]]) - value for k, x in enumerate(found)]
    return value, 1.05 * sum(map(abs, moved))


@pytest.mark.parametrize("causal", [0, 1])
def test_the_equation_with_its_numbers_gives_the_entry(browser, url, causal):
    found = found_state(bool(causal), True, 1.0)
    browser.open(at(url, causal=causal), prefers_reduced_motion="reduce")
    for name in OPERATIONS:
        browser.evaluate(f"go({step_at(name)})")
        M = matrix_of(found, name, 1)
        for i, j in {(1, 0), (len(M) - 1, M.shape[1] - 1)}:
            browser.hover(cell(name, i, j))
            told = browser.evaluate("document.querySelector('#explanation .numbers').textContent")
            numbers = told.removeprefix("= ").replace(MINUS, "-").replace(TIMES, "*")
            value, bound = with_bound(numbers)
            assert abs(value - M[i, j]) <= bound + 5e-4 * abs(M[i, j]), (name, i, j, told)
            shown = number(browser.evaluate("document.querySelector('#explanation .value strong').textContent"))
            assert abs(shown - M[i, j]) <= 5e-4 * abs(M[i, j])


def test_a_hidden_entry_says_who_may_not_see_whom(browser, url):
    browser.open(at(url, step=step_at("masked"), causal=1, language="es"))
    browser.hover(cell("masked", 1, 2))
    told = browser.evaluate("document.querySelector('#explanation').textContent")
    assert "«vio» viene después de «gato₂»" in told
    assert MINUS + "∞" in told
    hidden = browser.evaluate(
        "[...document.querySelectorAll('#stage td.hidden')].map((td) => [td.dataset.i, td.dataset.j])"
    )
    assert {(int(i), int(j)) for i, j in hidden} == {(i, j) for i, j in itertools.combinations(range(len(WORDS)), 2)}


def test_pointing_at_an_operand_shows_what_it_goes_into(browser, url):
    browser.open(at(url, step=step_at("C")))
    browser.hover(cell("V", 2, 1))
    used = browser.evaluate(
        "[...document.querySelectorAll('td.used')].map((td) => [td.dataset.name, td.dataset.i, td.dataset.j])"
    )
    assert used == [["C", str(i), "1"] for i in range(len(WORDS))]
    assert "5" in browser.evaluate("document.querySelector('#explanation .note').textContent")


@pytest.mark.parametrize("causal", [0, 1])
def test_every_entry_of_every_matrix_can_be_pointed_at(browser, url, causal):
    browser.open(at(url, causal=causal), prefers_reduced_motion="reduce")
    for name in NAMES:
        told = browser.evaluate(
            f"go({step_at(name)}); [...document.querySelectorAll('#stage td[data-name]')].map((td) => {{"
            "choose(entryOf(td)); return document.querySelector('#explanation').children.length; })"
        )
        assert all(lines >= 2 for lines in told), name
    assert browser.complaints == []


def test_pointing_at_a_number_of_the_equation_shows_where_it_stands(browser, url):
    browser.open(at(url, step=step_at("Omega")))
    browser.hover(cell("Omega", 2, 3))
    for k in range(C):
        for side, wanted in (("left", ["Q", "2", str(k)]), ("right", ["K", "3", str(k)])):
            browser.hover(f"#explanation .{side}[data-j='{k}']")
            pointed = browser.evaluate("[...document.querySelectorAll('td.pointed')].map((td) => ({...td.dataset}))")
            assert [list(each.values()) for each in pointed] == [wanted]
    assert browser.evaluate("document.querySelector('#explanation .entry-name').textContent") == "Omega[vio, al]"


def test_the_lines_of_the_reference_stand_beside_the_entry(browser, url):
    browser.open(at(url, step=step_at("dS")))
    told = browser.evaluate("document.querySelector('#lines').textContent")
    assert "dS = A * (dA - delta)" in told
    assert "reference_numpy/attention.py, line " in told


def test_a_keyboard_is_enough(browser, url):
    browser.open(at(url, step=step_at("Q")))

    def focused():
        return browser.evaluate("Object.values({...document.activeElement.dataset})")

    browser.evaluate("document.querySelector('#temperature').focus()")
    browser.press("Tab")
    assert focused() == ["Q", "1", "0"]  # the entry that is explained
    browser.press("ArrowRight")
    browser.press("ArrowDown")
    assert focused() == ["Q", "2", "1"]
    assert browser.evaluate("document.querySelector('#explanation .entry-name').textContent") == "Q[vio, 2]"
    browser.press("ArrowRight")  # there is no more
    assert focused() == ["Q", "2", "1"]
    browser.press("Home")
    assert focused() == ["Q", "2", "0"]
    browser.press("Tab")
    assert focused() == ["X", "0", "0"]
    browser.press("End")
    assert focused() == ["X", "0", str(D - 1)]
    browser.press("c")
    assert browser.evaluate("document.querySelector('#causal').checked")
    assert focused() == ["X", "0", str(D - 1)]  # drawn anew, and the focus is where it was
    browser.press("n")
    assert browser.evaluate("document.querySelector('#place b').textContent") == "K"
    browser.press("l")
    assert browser.evaluate("document.documentElement.lang") == "es"
    browser.click("#letters")
    browser.press("n")
    assert browser.evaluate("document.querySelector('#place b').textContent") == "K"


def test_arrows_follow_a_transposed_matrix_as_it_is_shown(browser, url):
    browser.open(at(url, step=step_at("Omega")))
    browser.evaluate(f"document.querySelector('{cell('K', 0, 0)}').focus()")
    browser.press("ArrowRight")
    assert browser.evaluate("Object.values({...document.activeElement.dataset})") == ["K", "1", "0"]
    assert browser.evaluate("document.activeElement.closest('table').getAttribute('aria-label')") == (
        f"K transposed, {C} rows, {len(WORDS)} columns"
    )


def test_play_runs_through_time_and_stops_at_the_end(browser, url):
    browser.open(at(url, step=len(STEPS) - 2))
    browser.evaluate("window.setIntervalWas = window.setInterval; window.setInterval = (f) => setIntervalWas(f, 20)")
    browser.click("#play")
    browser.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert browser.evaluate("document.querySelector('#place b').textContent") == NAMES[-1]
    assert browser.evaluate("document.querySelector('#play').textContent") == "Play"


def test_the_slider_steps_through_time(browser, url):
    browser.open(url)
    browser.evaluate("document.querySelector('#step').focus()")
    for name in NAMES[1:]:
        browser.press("ArrowRight")
        assert browser.evaluate("document.querySelector('#place b').textContent") == name
    assert browser.evaluate("document.querySelector('#step').getAttribute('aria-valuetext')").endswith(
        "dWv, Gradient of Wv"
    )


def test_the_row_of_the_jacobian_is_chosen(browser, url):
    browser.open(at(url, step=step_at("J"), causal=1))
    found = found_state(True, True, 1.0)
    for row, way in ((2, "r"), (3, "ArrowDown"), (4, "ArrowDown")):
        browser.press(way)
        browser.evaluate("document.querySelector('#row').focus()")
        for name, i, j, shown in browser.evaluate(CELLS):
            assert agrees(shown, matrix_of(found, name, row)[i, j]), (name, i, j)
        assert {i for name, i, _, _ in browser.evaluate(CELLS) if name != "J"} == {row}
        told = browser.evaluate("document.querySelector('#explanation .entry-name').textContent")
        assert told.startswith(f"dS[{LABELS[row]}, ")
    assert browser.complaints == []


def test_the_address_keeps_what_is_chosen_and_a_wrong_one_does_no_harm(browser, url):
    browser.open(at(url, step=step_at("A")))
    browser.press("c")
    browser.press("t")
    kept = browser.evaluate("location.href")
    browser.open(kept)
    assert browser.evaluate("[view.step, view.causal, view.temperature]") == [
        step_at("A"),
        True,
        TEMPERATURES.index(2.0),
    ]
    browser.open(at(url, step=999, temperature="x", row=-1, language="fr", theme="pink"))
    assert browser.evaluate("[view.step, view.row, view.language, view.theme]") == [0, 1, "en", "auto"]
    assert browser.complaints == []


def test_both_languages_are_on_the_page(browser, url):
    browser.open(url)
    for language in ("es", "en"):
        browser.click(f"button.language[value={language}]")
        assert browser.evaluate("document.documentElement.lang") == language
        assert browser.evaluate("document.title") == table()[language]["title"]
        texts = browser.evaluate(
            "[...document.querySelectorAll('[data-text]')].map((e) => [e.dataset.text, e.textContent])"
        )
        assert texts
        assert all(shown == table()[language][key] for key, shown in texts)
        for name in NAMES:
            browser.evaluate(f"go({step_at(name)})")
            shown = browser.evaluate(
                "[...document.querySelectorAll('.step h2, .step .idea')].map((e) => e.textContent)"
            )
            wanted = [
                table()[language][f"{kind}_{name}"].replace("-∞", MINUS + "∞").replace("^T", "ᵀ")
                for kind in ("title", "idea")
            ]
            assert shown == wanted


def test_no_request_leaves_the_file_and_nothing_is_refused_by_its_policy(browser, url):
    browser.open(url)
    for name in NAMES:
        browser.evaluate(f"go({step_at(name)})")
    browser.press("a")
    assert browser.requests == [url]
    assert browser.complaints == []


@pytest.mark.parametrize(("width", "language"), [(390, "en"), (390, "es"), (768, "es"), (1440, "es")])
def test_the_page_is_never_wider_than_the_screen(browser, long_url, width, language):
    browser.open(at(long_url, language=language), width, prefers_reduced_motion="reduce")
    for name in NAMES:
        browser.evaluate(f"go({step_at(name)})")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, name
    browser.press("a")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colour) => rgb(colour).map((x) => x / 255)
    .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, k) => sum + x * [0.2126, 0.7152, 0.0722][k], 0);
  return Math.min(...[...document.querySelectorAll("#stage td[data-name]")].map((td) => {
    const style = getComputedStyle(td);
    const [low, high] = [light(style.color), light(style.backgroundColor)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_stand_out_from_their_colours_in_light_and_dark(browser, url, scheme):
    """At least 4.5 to 1, which WCAG 2 asks of text."""
    browser.open(at(url, causal=1), prefers_color_scheme=scheme)
    for name in NAMES:
        browser.evaluate(f"go({step_at(name)})")
        assert browser.evaluate(CONTRAST) >= 4.5, name


def test_light_and_dark_follow_the_system_until_one_is_chosen(browser, url):
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(url, prefers_color_scheme="light")
    light = browser.evaluate(colour)
    browser.open(url, prefers_color_scheme="dark")
    dark = browser.evaluate(colour)
    assert light != dark
    browser.evaluate("set({theme: 'light'})")
    assert browser.evaluate(colour) == light
    browser.open(at(url, theme="dark"), prefers_color_scheme="light")
    assert browser.evaluate(colour) == dark


def test_whoever_wants_no_motion_gets_none(browser, url):
    moving = "document.getAnimations().length"
    browser.open(at(url, step=step_at("A")))
    assert browser.evaluate(moving) > 0
    browser.open(at(url, step=step_at("A")), prefers_reduced_motion="reduce")
    assert browser.evaluate(moving) == 0


def test_every_control_and_every_matrix_has_a_name_for_a_screen_reader(browser, url):
    browser.open(at(url, step=step_at("J")))
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node["ignored"]:
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role, least in {"grid": 4, "button": 6, "slider": 2, "checkbox": 4, "combobox": 2, "status": 1}.items():
        assert len(roles[role]) >= least, role
        if role != "status":
            assert all(roles[role]), role
    assert roles["rowheader"]
    assert roles["columnheader"]
    heads = browser.evaluate("[...document.querySelectorAll('#stage th')].every((th) => th.scope)")
    assert heads


def test_printing_prints_every_step_and_brings_the_one_back(browser, url):
    browser.open(at(url, step=step_at("A")))
    browser.evaluate(
        "addEventListener('beforeprint', () => { window.printed = document.querySelectorAll('.step').length })"
    )
    browser.call("Page.printToPDF", printBackground=True)
    assert browser.evaluate("window.printed") == len(STEPS)
    assert browser.evaluate("document.querySelectorAll('.step').length") == 1
