"""The README's example runs as it stands, and what it counts is counted."""

import contextlib
import io
import re
from pathlib import Path

from equivalence_tests.mistakes import MISTAKES
from equivalence_tests.ops import OPS
from equivalence_tests.variants import VARIANTS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_example_of_a_pair_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        exec(compile(example, "README.md", "exec"), {})
    assert page.getvalue().strip().splitlines()[-1] == "(2, 5, 4) (2, 7, 4) (2, 7, 3)"


def test_the_counts_of_mistakes_variants_and_ops():
    assert f"{len(MISTAKES)} known wrong forwards and backwards, **{len(MISTAKES)} caught**" in README
    assert f"{sum(map(len, VARIANTS.values()))} differently rounded right implementations" in README
    assert all(f"| `{op}` |" in README for op in OPS)
