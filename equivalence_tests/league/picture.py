"""The league as horizontal bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from equivalence_tests.league.standings import Standing, Tally
from equivalence_tests.pictures import WITH, WITHOUT, new_figure

USUAL, RICH, ALL = WITHOUT, WITH, "#404040"
HALF = 0.2


def league_picture(standings: Sequence[Standing], path: str | Path) -> None:
    """The share of the mistakes that each policy catches, on both configurations, and its false alarms; as a PNG."""
    figure = new_figure(9.0, 0.56 * len(standings) + 1.4)
    axes = figure.add_subplot()
    for row, standing in enumerate(standings):
        if standing.usual.of:
            _bar(axes, row - HALF, standing.usual, USUAL)
            _bar(axes, row + HALF, standing.rich, RICH)
        else:
            _bar(axes, row, standing.rich, ALL)
    axes.set_yticks(range(len(standings)), [standing.name + _false_alarms(standing) for standing in standings])
    axes.set_ylim(len(standings) - 0.4, -0.6)
    axes.set_xlim(0.0, 112.0)
    axes.set_xticks(range(0, 101, 20), [f"{share} %" for share in range(0, 101, 20)])
    axes.set_xlabel("known mistakes caught")
    axes.spines[["top", "right"]].set_visible(False)
    bars = [axes.barh(0, 0, color=colour) for colour in (USUAL, RICH, ALL)]
    labels = ["on the usual configuration", "on a rich one", "on every case, by every law"]
    axes.legend(bars, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def _bar(axes: Axes, at: float, tally: Tally, colour: str) -> None:
    share = 100.0 * len(tally.hit) / tally.of
    axes.barh(at, share, 1.9 * HALF, color=colour)
    axes.text(share + 0.8, at, str(tally), va="center", fontsize=8)


def _false_alarms(standing: Standing) -> str:
    said = [f"{tally} right ones in {dtype}" for dtype, tally in standing.right.items() if tally.hit]
    return f"\nrejects {', '.join(said)}" if said else ""
