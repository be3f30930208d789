"""Both READMEs: their examples run as they stand, what they count is counted, and the Spanish one has the same figures."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.lessons import lesson_names
from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES
from equivalence_tests.ops import OPS
from equivalence_tests.tests.test_fast_mistakes import MISTAKES as FAST_MISTAKES
from equivalence_tests.variants import VARIANTS

FOLDER = Path(__file__).parents[2]
PAGES = {"en": "README.md", "es": "README.es.md"}
TEXTS = {language: (FOLDER / name).read_text("utf-8") for language, name in PAGES.items()}
README, SPANISH = TEXTS["en"], TEXTS["es"]
COUNTED = {
    "en": (
        "{mistakes} known wrong forwards and backwards, **{mistakes} caught**",
        "**{parts} caught**",
        "{variants} differently rounded right implementations",
        "{fast} mistakes of its own",
    ),
    "es": (
        "{mistakes} pasos hacia adelante y hacia atrás con errores conocidos, **{mistakes} detectados**",
        "**{parts} detectados**",
        "{variants} implementaciones correctas que redondean de otra manera",
        "{fast} errores propios",
    ),
}
# The line of a file is no figure: a kata has its text in each language, and other lines.
NUMBER = re.compile(r"(?<![\w.])(?<!\.py:)\d+(?:[,\u00a0]\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


@pytest.mark.parametrize("language", PAGES)
def test_the_examples_run(language):
    """The loss of a GPT at its beginning is near log 50 = 3.91."""
    said = []
    for example in re.findall(r"```python\n(.*?)```", TEXTS[language], re.DOTALL):
        assert len([line for line in example.splitlines() if line.strip()]) <= 15
        page = io.StringIO()
        with contextlib.redirect_stdout(page):
            exec(compile(example, PAGES[language], "exec"), {})
        said.append(page.getvalue().strip().splitlines()[-1])
    assert said == ["3.86 (12, 12)", "(2, 5, 4) (2, 7, 4) (2, 7, 3)"]


@pytest.mark.parametrize("language", PAGES)
def test_the_counts_of_mistakes_variants_and_ops(language):
    counts = {
        "mistakes": len(MISTAKES),
        "parts": len(PART_MISTAKES),
        "variants": sum(map(len, VARIANTS.values())),
        "fast": len(FAST_MISTAKES),
        "katas": len(KATAS),
        "lessons": len(lesson_names()),
    }
    page = TEXTS[language].replace("\n", " ")
    for sentence in COUNTED[language]:
        assert sentence.format(**counts) in page
    assert all(f"| `{op}` |" in TEXTS[language] for op in OPS)


@pytest.mark.parametrize("language", PAGES)
def test_the_check_says_what_is_shown(language, tmp_path):
    source, shown = re.search(
        r"```py\n# mine.py\n(.*?)```.*?```\n(mine.py:attention.*?)```", TEXTS[language], re.DOTALL
    ).groups()
    (tmp_path / "mine.py").write_text(source)
    command = [sys.executable, "-m", "equivalence_tests", "check", "mine.py:attention", "--like", "attention"]
    done = subprocess.run(
        [*command, "--lang", language],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    for part in shown.split("...\n"):
        lines = [line for line in part.splitlines() if "perhaps" not in line]
        for line in lines:
            assert " ".join(line.split()) in said


@pytest.mark.parametrize("language", PAGES)
def test_the_dojo_says_what_is_shown(language, tmp_path):
    shown = re.search(r"```\n(✗ 04_softmax_backward.py.*?)```", TEXTS[language], re.DOTALL)[1]

    def dojo(*words):
        command = [sys.executable, "-m", "equivalence_tests", "dojo", *words]
        environment = {**os.environ, "COLUMNS": "110", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
        return done.stdout

    dojo("start", "--lang", language)
    answer = tmp_path / "katas" / "04_softmax_backward.py"
    mean = "A = cache\n    return A * (dA - dA.mean(-1, keepdims=True))"
    answer.write_text(answer.read_text("utf-8").replace("raise NotImplementedError", mean), "utf-8")
    assert dojo("check", "softmax_backward") == shown


# The same in both languages


def figures(text):
    """Every number, its thousands together: 53,143 and 53 143 are 53143."""
    return [re.sub(r"[,\u00a0](?=\d{3})", "", found) for found in NUMBER.findall(text)]


def sections(page):
    """(level, heading, body) of each section; what stands in a fence is no heading."""
    found, fenced = [(1, "top", [])], False
    for line in page.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"(##+) (.*)", line)
        if heading:
            found.append((len(heading[1]), heading[2], []))
        else:
            found[-1][2].append(line)
    return found


def tables(lines):
    """The figures of every row, table by table."""
    found, before = [], ""
    for line in lines:
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            found[-1].append((line, figures(line)))
        before = line
    return found


def differences(one, other):
    """Which figure of which section, table and row stands in one page alone: a line for each."""
    said = []
    pairs = list(zip(sections(one), sections(other), strict=False))
    for (_, heading, lines), (_, theirs, others) in pairs:
        place = heading if heading == theirs else f"{heading} / {theirs}"
        mine, yours = tables(lines), tables(others)
        if [len(table) for table in mine] != [len(table) for table in yours]:
            said.append(
                f"{place}: tables of {[*map(len, mine)]} rows in one page, of {[*map(len, yours)]} in the other"
            )
        for table, its in zip(mine, yours, strict=False):
            for (row, numbers), (_, translated) in zip(table, its, strict=False):
                if numbers != translated:
                    said.append(f"{place}, row {row[:60]!r}: {apart(numbers, translated)}")
        prose, text = (
            [n for line in each if not line.startswith("|") for n in figures(line)] for each in (lines, others)
        )
        if Counter(prose) != Counter(text):
            said.append(f"{place}: {apart(prose, text)}")
    return said


def apart(one, other):
    """What one page has and the other has not."""
    mine, yours = Counter(one) - Counter(other), Counter(other) - Counter(one)
    if not mine and not yours:
        return f"{', '.join(one)} in another order in {PAGES['es']}"
    return f"{PAGES['en']} has {sorted(mine.elements())}, {PAGES['es']} has {sorted(yours.elements())}"


def test_both_pages_have_the_same_sections():
    levels = {language: [level for level, _, _ in sections(text)] for language, text in TEXTS.items()}
    headings = [tuple(heading for _, heading, _ in sections(text)) for text in TEXTS.values()]
    assert levels["en"] == levels["es"], list(zip(*headings, strict=False))


def test_both_pages_have_the_same_figures():
    assert "\n".join(differences(README, SPANISH)) == ""


def test_both_pages_have_the_same_links_flags_and_examples():
    """A link to the other page, and then each where the other has it; the same code, but for its comments."""
    links, flags, code = {}, {}, {}
    for language, page in TEXTS.items():
        links[language] = Counter(re.findall(r"\]\(([^)]*)\)", page)) - Counter(PAGES.values())
        flags[language] = set(re.findall(r"--[a-z][a-z-]*", page))
        blocks = re.findall(r"```py(?:thon)?\n(.*?)```", page, re.DOTALL)
        code[language] = [re.sub(r"\s*#.*", "", block) for block in blocks]
        other = PAGES["es" if language == "en" else "en"]
        assert f"]({other})" in "\n".join(page.splitlines()[:4])
    assert links["en"] == links["es"]
    assert flags["en"] == flags["es"]
    assert code["en"] == code["es"]


def test_a_figure_that_changes_in_one_page_alone_is_named():
    """Each number of the tables, and of the prose, changed by itself: one line that has it."""
    changed = [*re.finditer(r"(?<=\| )\d+\.\d\d(?= \|)", SPANISH), *re.finditer(r"(?<= )\d{3}(?= [a-z])", SPANISH)]
    assert len(changed) > 100
    for found in changed:
        page = f"{SPANISH[: found.start()]}{found[0]}7{SPANISH[found.end() :]}"
        (said,) = differences(README, page)
        assert f"README.md has ['{found[0]}']" in said
        assert f"README.es.md has ['{found[0]}7']" in said
