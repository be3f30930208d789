"""The lessons: both languages run from start to end, say the same in the same order, and open as notebooks."""

import ast
import importlib
import re
from typing import Any

import nbformat
import numpy as np
import pytest

from equivalence_tests.dojo import lessons
from equivalence_tests.dojo.cells import in_language
from equivalence_tests.dojo.witness import budget_used, complex_step
from reference_numpy import softmax, softmax_backward

jupytext: Any = importlib.import_module("jupytext")  # it has no types
NAMES = lessons.lesson_names()
both = pytest.mark.parametrize("language", lessons.LANGUAGES)
every = pytest.mark.parametrize("name", NAMES)


def test_the_course_is_numbered_without_a_gap():
    assert [int(name[:2]) for name in NAMES] == list(range(1, len(NAMES) + 1))
    assert len(NAMES) >= 7


@both
@every
def test_a_lesson_runs_from_start_to_end(name, language):
    done = lessons.run_lesson(name, language)
    assert done.returncode == 0, done.stderr


@every
def test_each_prose_cell_is_followed_by_its_twin(name):
    cells = lessons.lesson_cells(name)
    prose = [(i, cell) for i, cell in enumerate(cells) if cell.prose and cell.language]
    assert [cell.language for _, cell in prose] == ["en", "es"] * (len(prose) // 2)
    assert all(i + 1 == j for (i, _), (j, _) in zip(prose[::2], prose[1::2], strict=True))
    assert not any(cell.language or cell.part for cell in cells if not cell.prose)


@every
def test_twins_have_the_same_formulas_headings_and_katas(name):
    for one, other in zip(*(in_prose(name, language) for language in lessons.LANGUAGES), strict=True):
        assert formulas(one) == formulas(other), one.splitlines()[0]
        for mark in (r"^#+ ", r"^\* "):
            english, spanish = (re.findall(mark, text, re.MULTILINE) for text in (one, other))
            assert english == spanish, one.splitlines()[0]


def formulas(text):
    """The displayed ones, but for the words and the space in them."""
    found = re.findall(r"\$\$.*?\$\$", text, re.DOTALL)
    return [re.sub(r"\\text\{.*?\}|\s", "", formula) for formula in found]


def in_prose(name, language):
    return [cell.text for cell in in_language(lessons.lesson_cells(name), language) if cell.prose]


@every
def test_a_lesson_begins_with_its_title_and_ends_in_katas_that_exist(name):
    for language in lessons.LANGUAGES:
        prose = in_prose(name, language)
        assert prose[0].startswith("# ")
        assert prose[-1].startswith("## Katas\n")
    katas = lessons.lesson_katas(name)
    assert katas
    assert [kata for kata in katas if not (lessons.FOLDER / "katas" / f"{kata}.py").is_file()] == []


@both
@every
def test_a_lesson_opens_as_a_valid_notebook_with_as_many_cells(name, language, tmp_path):
    path = lessons.write_lesson(name, language, tmp_path, notebook=True)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = in_language(lessons.lesson_cells(name), language)
    told = [(cell.cell_type == "markdown", cell.source) for cell in notebook.cells]
    assert told == [(cell.prose, cell.text) for cell in cells]
    assert jupytext.reads(lessons.lesson_script(name, language), fmt="py:percent").cells[0].source == cells[0].text


def test_the_languages_share_the_code():
    for name in NAMES:
        trees = [ast.dump(ast.parse(lessons.lesson_script(name, language))) for language in lessons.LANGUAGES]
        assert trees[0] == trees[1]


def test_a_lesson_that_fails_warns_or_wants_torch_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "FOLDER", tmp_path / "reference_numpy" / "lessons")
    lessons.FOLDER.mkdir(parents=True)
    for number, code in enumerate(("assert False", "import warnings; warnings.warn('so')", "import torch"), 1):
        (lessons.FOLDER / f"{number:02}_broken.py").write_text(f"# %%\n{code}\n", "utf-8")
    said = [lessons.run_lesson(name, "en").stderr.splitlines()[-1] for name in lessons.lesson_names()]
    assert [line.split(":")[0] for line in said] == ["AssertionError", "UserWarning", "ModuleNotFoundError"]


def test_what_somebody_wrote_is_not_overwritten(tmp_path):
    path = lessons.write_lesson(NAMES[0], "es", tmp_path)
    assert lessons.write_lesson(NAMES[0], "es", tmp_path) == path
    path.write_text("mine", "utf-8")
    with pytest.raises(ValueError, match="ya existe"):
        lessons.write_lesson(NAMES[0], "es", tmp_path)
    assert path.read_text("utf-8") == "mine"


def test_without_jupytext_there_is_a_clear_message(monkeypatch):
    monkeypatch.setitem(lessons.sys.modules, "jupytext", None)
    with pytest.raises(ValueError, match="pip install jupytext"):
        lessons.lesson_notebook(NAMES[0], "en")


def test_a_wrong_name_says_which_lessons_there_are():
    with pytest.raises(ValueError, match="01_projections"):
        lessons.lesson_cells("softmax")


def test_complex_steps_and_budgets_tell_a_right_gradient_from_a_wrong_one():
    rng = np.random.default_rng(0)
    X, dA = rng.standard_normal((2, 3, 5))
    A, cache = softmax(X)
    dX = softmax_backward(dA, cache)
    given = {"X": X, "dA": dA}
    step = complex_step(lambda X: softmax(X)[0], X, dA)
    assert budget_used("softmax", given, A=A, dX=dX) <= 1.0
    assert 0.0 < budget_used("softmax", given, dX=step) <= 1.0
    assert budget_used("softmax", given, dX=dX * (1.0 + 2.0**-40)) > 1.0
    with pytest.raises(ValueError, match="holds nan"):
        budget_used("softmax", given, dX=np.full_like(dX, np.nan))
    with pytest.raises(ValueError, match="shape"):
        budget_used("softmax", given, dX=dX[:1])
    with pytest.raises(ValueError, match="float32"):
        budget_used("softmax", given, dX=dX.astype(np.float32))
    with pytest.raises(ValueError, match="no 'dQ'"):
        budget_used("softmax", given, dQ=dX)


def test_each_kata_is_named_at_the_end_of_its_lesson():
    from equivalence_tests.dojo.katas import KATAS

    assert [kata.name for kata in KATAS if kata.name not in lessons.lesson_katas(kata.lesson)] == []
