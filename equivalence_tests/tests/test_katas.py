"""Every kata: its start fails, its solution passes, its sources are whole, in both languages."""

import ast
import re
from pathlib import Path

import pytest

from equivalence_tests.dojo import by_op, sources
from equivalence_tests.dojo.cells import read_cells
from equivalence_tests.dojo.katas import KATAS, KINDS
from equivalence_tests.dojo.matrix import judged_text
from equivalence_tests.dojo.message_faults import message_faults
from equivalence_tests.dojo.sources import FOLDER, parse, source_of
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.mistakes import quiet
from equivalence_tests.ops import OPS
from equivalence_tests.parts import PARTS

each = pytest.mark.parametrize("kata", KATAS, ids=lambda kata: kata.name)
MOST_LINES = 15


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """What a start and a solution are worth shows in the first cases; `gemelos dojo matrix` draws them all."""
    monkeypatch.setattr(by_op, "CASES", 24)


def judged(kata, text):
    with quiet():
        return judged_text(kata, text, "tried")


@each
def test_the_start_fails_in_faultless_words(kata):
    verdict = judged(kata, source_of(kata).start)
    assert not verdict.passed
    assert message_faults(kata, verdict) == []


@each
def test_the_solution_passes(kata):
    verdict = judged(kata, source_of(kata).solution)
    assert verdict.passed, verdict.say("en")


@each
def test_the_shape_still_has_gaps(kata):
    ast.parse(source_of(kata).shape)
    assert "..." in source_of(kata).shape


@each
def test_the_learners_file_is_python_whose_docstring_is_the_task(kata):
    for language in LANGUAGES:
        tree = ast.parse(source_of(kata).file(language))
        assert ast.get_docstring(tree).splitlines()[0] == source_of(kata).title(language)
        assert "\\" not in source_of(kata).task[language]


@each
def test_both_languages_are_there_and_differ(kata):
    source = source_of(kata)
    for text in (source.task, source.nudge, *(wrong.sentence for wrong in source.mistakes)):
        assert text["en"] != text["es"]
        assert all(text.values())


@each
def test_at_most_so_many_lines_are_to_be_written(kata):
    source = source_of(kata)
    given = {line.strip() for line in source.start.splitlines()}
    written = [
        line
        for line in source.solution.splitlines()
        if line.strip() and line.strip() not in given and not line.strip().startswith(("#", "import", "from"))
    ]
    assert len(written) <= MOST_LINES, written


def test_the_table_and_the_sources_are_the_same():
    assert {path.stem for path in FOLDER.glob("*.py")} == {kata.name for kata in KATAS}
    assert len({kata.name for kata in KATAS}) == len(KATAS) >= 30


@each
def test_a_row_names_what_there_is(kata):
    assert kata.kind in KINDS
    assert kata.like in ("", *OPS)
    assert kata.part in ("", *PARTS)
    judges = [bool(kata.like), bool(kata.part), bool(source_of(kata).check), not kata.function]
    assert sum(judges) == 1, judges
    assert re.fullmatch(r"|steps|memory|statements=\d+", kata.limit)
    assert (FOLDER.parent / f"{kata.lesson}.py").exists() or not list(FOLDER.parent.glob("*.py"))


@each
def test_a_kata_of_its_own_check_foresees_mistakes(kata):
    source = source_of(kata)
    if source.check or not kata.function:
        assert len(source.mistakes) >= 3


@each
def test_the_foreseen_mistakes_are_caught_and_named(kata):
    for wrong in source_of(kata).mistakes:
        verdict = judged(kata, wrong.code)
        assert not verdict.passed
        assert verdict.sentence == wrong.sentence, verdict.say("en")
        assert message_faults(kata, verdict) == []


WHOLE = Path(FOLDER / "softmax_backward.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WHOLE.replace('part="start"', 'part="begin"'), "a cell's part is 'begin'"),
        (WHOLE.replace('part="solution"', 'part="shape"'), "part 'shape': 2 cells"),
        (WHOLE.replace('part="nudge" lang="es"', 'part="nudge" lang="en"'), "part 'nudge': prose in"),
        (WHOLE.replace('part="task" lang="es"', 'part="task" lang="fr"'), "part 'task': prose in"),
        (WHOLE + '\n# %% [markdown] part="mistake" lang="en"\n# Wrong.\n', "a sentence came without"),
        ("", "there is no cell of part 'start'"),
    ],
)
def test_a_source_that_is_not_whole_is_refused(text, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        parse(text)


def test_a_source_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "FOLDER", tmp_path)
    sources.source_of.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"softmax\.py"):
            source_of(next(kata for kata in KATAS if kata.name == "softmax"))
    finally:
        sources.source_of.cache_clear()


def test_cells_are_read_as_they_stand():
    cells = read_cells(WHOLE)
    assert [cell.part for cell in cells][:3] == ["task", "task", "start"]
