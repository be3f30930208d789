"""The lessons: find them, write one in a language as a script or as a notebook, run one as its test does."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import reference_numpy
from equivalence_tests.dojo.cells import Cell, as_script, in_language, read_cells

FOLDER = Path(reference_numpy.__file__).parent / "lessons"
LANGUAGES = ("en", "es")

NO_JUPYTEXT = {
    "en": "jupytext writes the notebooks and is not installed: pip install jupytext",
    "es": "jupytext escribe los cuadernos y no está instalado: pip install jupytext",
}
TAKEN = {
    "en": "{path} is there already, with other contents: move it away first",
    "es": "{path} ya existe, con otro contenido: primero cámbialo de sitio",
}
# No lesson may need torch, so it is out of reach.
RUN = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"


def lesson_names() -> list[str]:
    """`01_projections` and so on, in the order of the course."""
    return sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.py"))


def lesson_cells(name: str) -> list[Cell]:
    """The cells of a lesson, in every language. ValueError for a name that is none."""
    if name not in lesson_names():
        raise ValueError(f"{name!r} is no lesson, there are {', '.join(lesson_names())}")
    return read_cells((FOLDER / f"{name}.py").read_text("utf-8"))


def lesson_katas(name: str) -> list[str]:
    """The katas that a lesson ends in: the names between backticks in its last cell."""
    return re.findall(r"`(\w+)`", lesson_cells(name)[-1].text)


def lesson_script(name: str, language: str) -> str:
    """A lesson in one language, as a percent-format script."""
    return as_script(in_language(lesson_cells(name), language))


def lesson_notebook(name: str, language: str) -> str:
    """The same as the JSON of a notebook. ValueError if jupytext is not installed."""
    try:
        jupytext: Any = importlib.import_module("jupytext")
    except ModuleNotFoundError:
        raise ValueError(NO_JUPYTEXT[language]) from None
    notebook = jupytext.reads(lesson_script(name, language), fmt="py:percent")
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    written: str = jupytext.writes(notebook, fmt="ipynb")
    return written


def write_lesson(name: str, language: str, folder: Path, notebook: bool = False) -> Path:
    """Write a lesson into a folder and return its path. ValueError rather than overwrite what somebody wrote there."""
    text = lesson_notebook(name, language) if notebook else lesson_script(name, language)
    path = folder / f"{name}{'.ipynb' if notebook else '.py'}"
    if path.exists() and path.read_text("utf-8") != text:
        raise ValueError(TAKEN[language].format(path=path))
    path.write_text(text, "utf-8")
    return path


def run_lesson(name: str, language: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a lesson from start to end in a process of its own, warnings being errors and pictures going nowhere."""
    warnings = ("-W", "error", "-W", "ignore:FigureCanvasAgg is non-interactive:UserWarning")
    paths = [str(FOLDER.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": os.pathsep.join(paths)}
    with TemporaryDirectory() as folder:
        path = write_lesson(name, language, Path(folder))
        command = [sys.executable, *warnings, "-c", RUN, str(path)]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
