"""What all the pictures share: a colour for each contestant, labels at the ends of lines, axes without ballast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.units import round_duration, short

# The eight colours of Okabe and Ito, which everybody tells apart; yellow is left out, as a line on white it is not seen.
COLOURS = {
    "numpy fast": "#0072b2",
    "numpy reference": "#56b4e9",
    "torch eager": "#d55e00",
    "torch sdpa": "#e69f00",
    "torch compile": "#cc79a7",
    "transformers": "#404040",
    "numpy": "#0072b2",  # a library itself, its matrix products and copies
    "torch": "#d55e00",
}
BROUGHT = "#009e73"  # the user's own
# Of a whole, light enough for black letters; the last is the rest.
PARTS = ("#56b4e9", "#e69f00", "#44c09c", "#dd9cbb", "#f0e442", "#e88a4f", "#b8b8b8")
GREY = "#606060"
VARIANTS = {"chunked": "P", "flash": "v", "math": "^", "efficient": "<", "cudnn": ">", "graph": "X"}  # by marker


class NoPicture(Exception):
    """What a picture needs and the result file does not hold, in one sentence."""


@dataclass(frozen=True)
class Look:
    colour: str
    dashes: str
    marker: str


def family(contestant: str) -> str:
    """Who it is, wherever it runs and whatever its variant; a contestant of the user's is a family of its own."""
    name = contestant.replace(" cuda", "")
    return next((known for known in COLOURS if name.startswith(known)), contestant)


def look(contestant: str, device: str = "cpu") -> Look:
    """The same in every picture: the colour says who, open dashes say on a GPU, dots a variant (a back end, a loss)."""
    on_gpu = device == "cuda" or " cuda" in contestant
    name, who = contestant.replace(" cuda", ""), family(contestant)
    if who not in COLOURS:
        return Look(BROUGHT, "-", "D")
    variant = name != who
    marker = next((VARIANTS[word] for word in VARIANTS if word in name), "v")
    dashes = {(False, False): "-", (True, False): "--", (False, True): ":", (True, True): "-."}[on_gpu, variant]
    return Look(COLOURS[who], dashes, marker if variant else "s" if on_gpu else "o")


def ink(colour: str) -> str:
    """The same hue, dark enough for letters on white."""
    red, green, blue = (0.72 * part for part in to_rgb(colour))
    return to_hex((red, green, blue))


def plain(axes: Axes, title: str = "") -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def logarithmic(axes: Axes, x: Sequence[float], xlabel: str) -> None:
    """Both axes logarithmic, with ticks at the sizes measured."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted(set(x))
    step = -(-len(sizes) // 7)
    shown = sizes[::-1][::step][::-1]
    axes.set_xticks(shown, [short(size) for size in shown], fontsize=9)
    axes.set_xticks([], minor=True)
    axes.set_xlabel(xlabel, fontsize=9)


def times(along: Axis) -> None:
    """Ticks with units, on an axis whose limits are set; in a short range 20 and 50 have a number too."""
    low, high = along.get_view_interval()
    along.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0) if high / low < 30.0 else (1.0,), numticks=12))
    along.set_major_formatter(FuncFormatter(lambda seconds, _: round_duration(seconds)))
    along.set_minor_formatter(NullFormatter())
    along.set_tick_params(labelsize=9)


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as can be to those wanted, in their order and `gap` apart, between low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[list[int]] = []  # groups of neighbours that touch
    middles: list[float] = []
    for i in order:
        placed.append([i])
        middles.append(wanted[i])
        while True:
            half = gap * (len(placed[-1]) - 1) / 2.0
            middles[-1] = min(max(middles[-1], low + half), high - half)
            if len(placed) == 1:
                break
            reach = gap * (len(placed[-2]) + len(placed[-1])) / 2.0
            if middles[-1] - middles[-2] >= reach - 1e-12:
                break
            group, _ = placed.pop(), middles.pop()
            placed[-1] += group
            middles[-1] = sum(
                wanted[j] - gap * (k - (len(placed[-1]) - 1) / 2.0) for k, j in enumerate(placed[-1])
            ) / len(placed[-1])
    places = [0.0] * len(wanted)
    for group, middle in zip(placed, middles, strict=True):
        for k, i in enumerate(group):
            places[i] = middle + gap * (k - (len(group) - 1) / 2.0)
    return places


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.055) -> None:
    """At the right edge, the name of every line in its colour, moved apart where they would touch.

    ends: x, y, name, colour of each line's last point. The limits of the axes must be what they will be.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    points = [to_axes.transform((x, y)) for x, y, _, _ in ends]
    places = spread_out([float(point[1]) for point in points], gap, 0.0, 1.0)
    for point, place, (_, _, name, colour) in zip(points, places, ends, strict=True):
        axes.annotate(
            name,
            xy=(float(point[0]), float(point[1])),
            xytext=(1.04, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=8.5,
            color=ink(colour),
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3},
        )
