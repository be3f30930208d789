"""The README's example runs as it stands, and what it counts is counted."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES
from equivalence_tests.ops import OPS
from equivalence_tests.tests.test_fast_mistakes import MISTAKES as FAST_MISTAKES
from equivalence_tests.variants import VARIANTS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_examples_run():
    """The loss of a GPT at its beginning is near log 50 = 3.91."""
    said = []
    for example in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        assert len([line for line in example.splitlines() if line.strip()]) <= 15
        page = io.StringIO()
        with contextlib.redirect_stdout(page):
            exec(compile(example, "README.md", "exec"), {})
        said.append(page.getvalue().strip().splitlines()[-1])
    assert said == ["3.86 (12, 12)", "(2, 5, 4) (2, 7, 4) (2, 7, 3)"]


def test_the_counts_of_mistakes_variants_and_ops():
    assert f"{len(MISTAKES)} known wrong forwards and backwards, **{len(MISTAKES)} caught**" in README
    assert f"**{len(PART_MISTAKES)} caught**" in README
    assert f"{sum(map(len, VARIANTS.values()))} differently rounded right implementations" in README
    assert f"{len(FAST_MISTAKES)} mistakes of its own" in README
    assert all(f"| `{op}` |" in README for op in OPS)


def test_the_check_says_what_is_shown(tmp_path):
    source, shown = re.search(
        r"```py\n# mine.py\n(.*?)```.*?```\n(mine.py:attention.*?)```", README, re.DOTALL
    ).groups()
    (tmp_path / "mine.py").write_text(source)
    command = [sys.executable, "-m", "equivalence_tests", "check", "mine.py:attention", "--like", "attention"]
    done = subprocess.run(
        command,
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
