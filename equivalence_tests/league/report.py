"""The league's table as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equivalence_tests.league.standings import Standing, Tally

CAPTION = (
    "Mistakes caught, of those that a policy can judge: on the usual configuration (a batch of 2, sizes that coincide, "
    "scale 1, shift 0, distinct ids, no options) and on a rich one (every option given, sizes differ, ids repeat). "
    "attention_stages has no backward, and its mistakes are left out; mistakes that lie in accepting bad input are the "
    "whole table's alone. Last: right implementations, rounding differently, that are rejected on one of the two."
)
SHORT = {"float64": "f64", "float32": "f32", "bfloat16": "bf16"}


def report(standings: Sequence[Standing], console: Console) -> None:
    """A table of four columns, and what its numbers count."""
    table = Table("policy", pad_edge=False)
    table.add_column("usual", justify="right", no_wrap=True)
    table.add_column("rich", justify="right", no_wrap=True)
    table.add_column("right rejected")
    for standing in standings:
        name = Text(standing.name, "bold" if standing.name.startswith("Gemelos") else "")
        right = ", ".join(f"{SHORT[dtype]} {tally}" for dtype, tally in standing.right.items())
        table.add_row(name, str(standing.usual), str(standing.rich), right or "-")
    console.print(table)
    console.print(Text(CAPTION))


def as_json(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """Each policy with its rule, its counts, the mistakes that it misses, and which right implementations it rejects."""

    def plain(tally: Tally, hit: str) -> dict[str, Any]:
        return {hit: len(tally.hit), "of": tally.of}

    return [
        {
            "policy": standing.name,
            "rule": standing.rule,
            "usual": {**plain(standing.usual, "caught"), "missed": standing.usual.missed},
            "rich": {**plain(standing.rich, "caught"), "missed": standing.rich.missed},
            "right": {dtype: plain(tally, "rejected") for dtype, tally in standing.right.items()},
            "rejections": standing.rejections,
        }
        for standing in standings
    ]
