"""The page of a head of attention, read without a browser: its numbers, its lines of source, its texts, what it holds."""

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import reference_numpy
from equivalence_tests.__main__ import COMMANDS
from equivalence_tests.explain import __main__ as command
from equivalence_tests.explain.head import MOST, TEMPERATURES, drawn
from equivalence_tests.explain.page import FOLDER, SCRIPTS, page
from equivalence_tests.explain.steps import AXES, STEPS
from equivalence_tests.explain.texts import LANGUAGES, PAGE, table
from equivalence_tests.explain.texts import STEPS as IDEAS
from equivalence_tests.walk import embed, walk
from reference_numpy import (
    GPTConfig,
    Tokenizer,
    attention_stages,
    init_gpt,
    load_checkpoint,
    save_checkpoint,
    self_attention,
    self_attention_backward,
)
from reference_numpy.checkpoint import Checkpoint
from reference_numpy.gpt import attention_maps

SENTENCE = "el gato se sentó en la alfombra"
WORDS = SENTENCE.split()


class Elements(HTMLParser):
    """Every element with its attributes, and the texts of style and script elements."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside = [], {"style": [], "script": []}
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open in self.inside:
            self.inside[self.open][-1] += data


def data_in(text):
    return json.loads(Elements(text).inside["script"][0])


def array(entries):
    return np.array([[-math.inf if entry is None else entry for entry in row] for row in entries])


def shown(data, state, name):
    """A matrix on the page; of J, the square matrices of which it holds the lower triangles."""
    entries = data["pool"][state["matrices"][name]]
    if name != "J":
        return array(entries)
    n = len(entries)
    return np.array([[[rows[max(j, k)][min(j, k)] for k in range(n)] for j in range(n)] for rows in entries])


@pytest.fixture(scope="module")
def text():
    return page(drawn(WORDS, 3), "es")


@pytest.fixture(scope="module")
def data(text):
    return data_in(text)


def test_every_number_of_every_state_is_the_reference_s(data):
    n, d, c = len(WORDS), data["d"], data["c"]
    rng = np.random.default_rng([3, 1])
    Wq, Wk, Wv = rng.standard_normal((3, d, c)) / math.sqrt(d)
    dC = rng.standard_normal((n, c))
    X = embed(WORDS, 3, d)
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    assert len(data["states"]) == 4 * len(TEMPERATURES)
    for state in data["states"]:
        scale = (1 / math.sqrt(c) if state["scaled"] else 1.0) / state["temperature"]
        options = {"causal": state["causal"], "scale": scale}
        C, cache = self_attention(X, Wq, Wk, Wv, **options)
        gradients = dict(zip(("dX", "dWq", "dWk", "dWv"), self_attention_backward(dC, cache), strict=True))
        stages = attention_stages(Q, K, V, dC, **options)._asdict()
        wanted = {"X": X, "Wq": Wq, "Wk": Wk, "Wv": Wv, "dC": dC, "Q": Q, "K": K, "V": V} | stages | gradients
        assert wanted.keys() | {"J"} == state["matrices"].keys() == AXES.keys()
        for name, M in wanted.items():
            np.testing.assert_array_equal(shown(data, state, name), M, err_msg=name)
        np.testing.assert_array_equal(shown(data, state, "C"), C)
        assert state["scale"] == scale


def test_the_default_state_is_what_the_walk_prints(data):
    walked = walk(WORDS, 3, Console(quiet=True))
    (state,) = [each for each in data["states"] if not each["causal"] and each["scaled"] and each["temperature"] == 1.0]
    np.testing.assert_array_equal(shown(data, state, "A"), walked["A"])


def test_the_jacobians_are_the_complex_step_derivatives_of_the_softmax(data):
    """Of `attention` with scale 1 over one query, whose scores a bias moves; V = 1 leaves A as it is."""
    n, tiny = len(WORDS), 1e-20
    one, identity = np.zeros((1, 1), complex), np.eye(n, dtype=complex)
    for state in data["states"]:
        masked, J = shown(data, state, "masked"), shown(data, state, "J")
        for i in range(n):
            seen = np.isfinite(masked[i])
            for k in np.flatnonzero(seen):
                bias = np.where(seen, masked[i], 0.0)[None].astype(complex)
                bias[0, k] += tiny * 1j
                keys = np.zeros((n, 1), complex)
                A, _ = reference_numpy.attention(one, keys, identity, bias=bias, mask=seen[None])
                np.testing.assert_allclose(J[i][:, k], A[0].imag / tiny, rtol=1e-12, atol=1e-15)
            assert not J[i][~seen].any()
            assert not J[i][:, ~seen].any()


def test_the_jacobian_of_a_row_times_its_dA_is_its_dS(data):
    """To the bound of the sum: n products, each rounded, and the cancellation in dA - delta."""
    for state in data["states"]:
        J, dA, dS, A = (shown(data, state, name) for name in ("J", "dA", "dS", "A"))
        bound = (2 * len(WORDS) + 8) * 2.0**-53 * (np.abs(J) @ np.abs(dA)[..., None])[..., 0]
        bound += (len(WORDS) + 8) * 2.0**-53 * A * (np.abs(dA) + (A * np.abs(dA)).sum(-1, keepdims=True))
        assert (np.abs((J @ dA[..., None])[..., 0] - dS) <= bound + 1e-300).all()


def test_every_line_of_source_stands_where_the_page_says(data):
    root = Path(reference_numpy.__file__).parent.parent
    for step in data["steps"]:
        assert step["lines"] or step["kind"] == "given", step["name"]
        for line in step["lines"]:
            file = (root / line["file"]).read_text("utf-8").splitlines()
            for offset, part in enumerate(line["text"].split("\n")):
                assert file[line["line"] - 1 + offset].strip() == part
    said = {step["name"]: [line["text"] for line in step["lines"]] for step in data["steps"]}
    assert said["Omega"] == ["Omega = Q @ K.mT"]
    assert said["dS"] == ["dS = A * (dA - delta)"]
    assert said["dX"] == ["dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T"]


def test_time_runs_forward_then_backward_and_nothing_is_used_before_it_is_there():
    known = set()
    for step in STEPS:
        names = [re.sub(r"(\[row\])?(\^T)?$", "", token) for token in step.shows.split()]
        needed = {name for name in names if name in AXES} - set(step.makes)
        assert needed <= known, step.name
        known |= set(step.makes)
    assert known == AXES.keys()
    order = [step.name for step in STEPS]
    assert order.index("C") + 1 == order.index("dC")


def test_shapes_of_products_fit(data):
    for step in data["steps"]:
        for left, right in step["terms"]:
            (a, b), (c, d) = (
                AXES[each["name"]][::-1] if each["transposed"] else AXES[each["name"]] for each in (left, right)
            )
            assert b == c, step["name"]
            assert (a, d) == AXES[step["name"]]


def test_nothing_is_fetched_and_only_what_is_inside_may_run(text):
    elements = Elements(text)
    for tag, attributes in elements.found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "a"}
        assert not attributes.keys() & {"src", "href", "style", "action", "data"}, tag
        assert not any(name.startswith("on") for name in attributes), tag
    style, script = elements.inside["style"][0], elements.inside["script"][1]
    assert set(re.findall(r"url\(.*?\)", style + script)) == {"url(#ahead)", "url(#behind)"}  # arrows of the drawing
    for banned in ("@import", "://"):
        assert banned not in style + script
    for banned in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "innerHTML", "eval("):
        assert banned not in script
    (policy,) = [a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for rule, inside in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_no_word_can_leave_its_place():
    words = ["</script><script>alert(1)</script>", "{{script}}", "<!--", "\u2028", "\ud800", "a\x1b[31m"]
    text = page(drawn(words))
    elements = Elements(text)
    assert [tag for tag, _ in elements.found].count("script") == 2
    shown = data_in(text)["words"]
    assert shown[:3] == words[:3]
    text.encode()  # a lone surrogate would not go


def test_words_that_come_again_are_told_apart():
    assert data_in(page(drawn(["la", "casa", "de", "la", "abuela"])))["words"] == ["la₁", "casa", "de", "la₄", "abuela"]


def test_a_dozen_words_make_less_than_a_megabyte():
    assert len(page(drawn([f"palabra{i}" for i in range(12)])).encode()) < 1_000_000


def test_the_same_seed_gives_the_same_page_and_another_gives_other_numbers(text):
    assert page(drawn(WORDS, 3), "es") == text
    assert data_in(page(drawn(WORDS, 4), "es"))["pool"] != data_in(text)["pool"]


@pytest.mark.parametrize("count", [1, 2, MOST])
def test_one_word_two_and_as_many_as_a_page_can_show(count):
    data = data_in(page(drawn([f"w{i}" for i in range(count)], d=1, c=1)))
    assert shown(data, data["states"][0], "A").shape == (count, count)


def test_every_sentence_is_there_in_both_languages_and_every_sentence_is_used():
    assert IDEAS.keys() == {step.name for step in STEPS}
    for key, sentences in {**PAGE, **{name: idea for name, (_, idea) in IDEAS.items()}}.items():
        assert len(sentences) == len(LANGUAGES)
        assert all(each.strip() == each != "" for each in sentences), key
        holes = [set(re.findall(r"\{(\w+)\}", each)) for each in sentences]
        assert holes[0] == holes[1], key
    script = "".join((FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    source = script + (FOLDER / "page.html").read_text("utf-8")
    used = {key for key in PAGE if f'"{key}"' in source}
    assert used | {"noscript"} == PAGE.keys()
    asked = set(re.findall(r'\btext\("(\w+)"', script)) | set(re.findall(r'data-(?:text|label)="(\w+)"', source))
    assert asked <= table()["en"].keys()


def test_the_command_writes_the_page_and_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert COMMANDS["explain"][0] == command.__name__
    assert command.main([SENTENCE, "--lang", "es", "--seed", "3"]) == 0
    written = Path("results/explain.html").read_text("utf-8")
    assert written == page(drawn(WORDS, 3), "es")
    assert '<html lang="es">' in written
    assert capsys.readouterr().out.startswith("results/explain.html (")


def test_no_torch_is_needed(tmp_path):
    code = "import sys; sys.modules['torch'] = None; from equivalence_tests.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explain", SENTENCE, "--out", str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").is_file()


def test_words_may_come_without_quotes_and_sizes_are_obeyed(tmp_path):
    out = tmp_path / "new" / "page.html"
    assert command.main([*WORDS, "--out", str(out), "--width", "5", "--head", "3"]) == 0
    data = data_in(out.read_text("utf-8"))
    assert (data["words"], data["d"], data["c"]) == (WORDS, 5, 3)


def test_open_shows_the_file_in_the_browser(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(command.webbrowser, "open", opened.append)
    out = tmp_path / "page.html"
    assert command.main([SENTENCE, "--out", str(out), "--open"]) == 0
    assert opened == [out.as_uri()]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["w"] * (MOST + 1), f"words: {MOST + 1} came, expected 1 to {MOST}"),
        ([" "], "words: 0 came"),
        (["a", "--width", "0"], "--width: 0 came, expected 1 to"),
        (["a", "--head", "99"], "--head: 99 came, expected 1 to"),
        (["a", "--seed", "-1"], "--seed: -1 came, expected at least 0"),
        (["a", "--out", "/dev/null/page.html"], "/dev/null: "),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(arguments, told, capsys):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    stories = [SENTENCE, "la alfombra se sentó en el gato"]
    tokenizer = Tokenizer.from_texts(stories)
    config = GPTConfig(
        len(tokenizer.vocabulary), context_window=20, embedding_dim=5, num_layers=2, num_heads=3, head_dim=2
    )
    params = init_gpt(config, np.random.default_rng(0))
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint("gpt", vars(config), tokenizer, params, {}, {}))
    return path


def test_the_head_of_a_trained_model_is_its_own(checkpoint, tmp_path):
    """Its causal map, at the model's own scale, is the model's."""
    out = tmp_path / "page.html"
    assert (
        command.main(
            [SENTENCE, "--checkpoint", str(checkpoint), "--block", "2", "--head-number", "3", "--out", str(out)]
        )
        == 0
    )
    data = data_in(out.read_text("utf-8"))
    saved = load_checkpoint(checkpoint)
    params = {name: array.astype(np.float64) for name, array in saved.params.items()}
    ids = np.array([saved.tokenizer.bos_id, *saved.tokenizer.encode(SENTENCE)])
    A = attention_maps(params, ids, GPTConfig(**saved.config))[1][2]
    (state,) = [each for each in data["states"] if each["causal"] and each["scaled"] and each["temperature"] == 1.0]
    np.testing.assert_allclose(shown(data, state, "A"), A, rtol=1e-13)
    assert (data["block"], data["head"], data["n"]) == (2, 3, len(ids))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--block", "3"], "--block: 3 came, expected 1 to 2"),
        (["--head-number", "0"], "--head-number: 0 came, expected 1 to 3"),
        (["--checkpoint", "absent.safetensors"], "absent.safetensors is not there"),
    ],
)
def test_what_a_trained_model_lacks_is_said_in_one_line(checkpoint, arguments, told, capsys):
    assert command.main([SENTENCE, "--checkpoint", str(checkpoint), *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
