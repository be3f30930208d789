"""Where the tales written for this project are."""

from __future__ import annotations

from pathlib import Path

NAME = "cuentos.txt"


def corpus_path() -> Path:
    """The file of tales: beside this module where the package is installed, in data/ in a checkout."""
    installed = Path(__file__).with_name(NAME)
    return installed if installed.exists() else Path(__file__).parents[1] / "data" / NAME
