"""What is installed, what it needs, and which way imports run."""

import ast
import inspect
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from equivalence_tests.ops import OPS

ROOT = Path(__file__).parents[2]
LESSONS = ROOT / "reference_numpy" / "lessons"
PACKAGES = ("reference_numpy", "torch_impl", "equivalence_tests")

# Importing any of these fails, as if it were not installed.
BLOCK = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {blocked!r}:
            raise ModuleNotFoundError('No module named ' + repr(name), name=name)
sys.meta_path.insert(0, Block())
"""


def python(code, folder, path=ROOT):
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_numpy_twin_needs_numpy_alone(tmp_path):
    blocked = ("torch", "matplotlib", "rich", "hypothesis", "pytest", "mpmath", "scipy", "threadpoolctl")
    code = BLOCK.format(blocked=blocked) + (
        "import numpy as np, reference_numpy as r\n"
        "X = np.ones((2, 3))\n"
        "C, cache = r.attention(X, X, X)\n"
        "print(r.attention_backward(C, cache)[2].shape)"
    )
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "(2, 3)\n"), done.stderr


def test_the_table_needs_no_torch_for_the_numpy_twin(tmp_path):
    code = BLOCK.format(blocked=("torch", "hypothesis", "pytest", "mpmath")) + (
        "from equivalence_tests.checks import find_fault\n"
        "from equivalence_tests.implementations import available\n"
        "from equivalence_tests.ops import OPS\n"
        "found = available()\n"
        "print([each.name for each in found], "
        "[find_fault(found[0], op, cases=2, dtypes=('float64',)) for op in OPS.values()])"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['reference_numpy', 'reference_numpy.fast'] [{', '.join(['None'] * 20)}]\n"


def imports(path):
    """The top-level names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize(
    ("package", "above"),
    [
        ("reference_numpy", {"torch", "torch_impl", "equivalence_tests", "benchmarks", "hypothesis", "matplotlib"}),
        ("torch_impl", {"equivalence_tests", "benchmarks", "hypothesis", "matplotlib"}),
        ("equivalence_tests", {"benchmarks"}),
    ],
)
def test_imports_run_one_way(package, above):
    for path in (ROOT / package).rglob("*.py"):
        if path.parent != Path(__file__).parent and LESSONS not in path.parents:  # the tests look at everything
            assert not above & set(imports(path)), path


def test_lessons_and_katas_import_what_a_learner_has():
    """Lessons are scripts, not modules of a package: they may look at the kit and draw, but need no torch."""
    paths = list(LESSONS.rglob("*.py"))
    assert paths
    for path in paths:
        beyond = set(imports(path)) - sys.stdlib_module_names - {"numpy", "reference_numpy"}
        assert beyond <= (set() if path.parent != LESSONS else {"matplotlib", "equivalence_tests"}), path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("gemelos-*.whl")
    return path


def test_the_wheel_holds_the_three_packages_and_nothing_else_at_top_level(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == set(PACKAGES)
    assert len(names) == 4


def test_the_wheel_works_from_another_folder(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys, reference_numpy\n"
        "assert 'site' in reference_numpy.__file__, reference_numpy.__file__\n"
        "from equivalence_tests.__main__ import main\n"
        "sys.exit(main([]))"
    )
    done = python(code, tmp_path, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert "gemelos COMMAND" in done.stdout


def test_every_public_name_is_documented_and_every_op_has_its_pair():
    import reference_numpy

    for name in reference_numpy.__all__:
        assert getattr(reference_numpy, name).__doc__, name
    backwards = {name.removesuffix("_backward") for name in reference_numpy.__all__ if name.endswith("_backward")}
    assert set(reference_numpy.__all__) >= backwards | OPS.keys()
    assert OPS.keys() - backwards == {"attention_stages"}


def test_the_fast_twin_has_every_name_of_the_reference_documented_and_as_a_pair():
    """Two names more: loss and gradients at once. What it does not speed up is the reference's own."""
    import reference_numpy
    from reference_numpy import fast

    assert set(fast.__all__) == {*reference_numpy.__all__, "gpt_loss_gradients", "generative_rnn_loss_gradients"}
    assert all(getattr(fast, name).__doc__ for name in fast.__all__)
    for name in reference_numpy.__all__:
        ours, theirs = getattr(fast, name), getattr(reference_numpy, name)
        assert ours is theirs or ours.__module__.startswith("reference_numpy.fast."), name
        if not inspect.isclass(ours):
            mine, other = (inspect.signature(each).parameters.values() for each in (ours, theirs))
            assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in other], name


def test_the_twins_have_the_same_functions_in_files_of_the_same_name():
    """Every op and every step; what knows no framework is one and the same."""
    import reference_numpy
    import torch_impl

    both = {name for name in reference_numpy.__all__ if name in torch_impl.__all__}
    assert both >= OPS.keys() | {"gpt_step", "generative_rnn_step"}
    for name in both:
        ours, theirs = getattr(reference_numpy, name), getattr(torch_impl, name)
        assert ours is theirs or ours.__module__.split(".")[1] == theirs.__module__.split(".")[1], name
