"""Right functions of several lines, in several styles, and what is changed in one line of each to make a known mistake."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """`changes` are pairs of a text that stands once in the source, and what a mistake has in its place."""

    name: str
    like: str
    source: str
    changes: tuple[tuple[str, str], ...]
    without: tuple[str, ...] = ()

    def changed(self, number: int) -> tuple[str, int]:
        """The source with that mistake, and its line."""
        old, new = self.changes[number]
        if self.source.count(old) != 1:
            raise ValueError(f"{self.name}: {old!r} stands {self.source.count(old)} times, expected once")
        return self.source.replace(old, new), self.source[: self.source.index(old)].count("\n") + 1
