"""Where results come from: what every file of results says of itself."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]


def origin(command: Sequence[str], seed: int) -> dict[str, Any]:
    """Commit, command, machine, versions, seed and date."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    try:
        versions["gemelos"] = metadata.version("gemelos")
    except metadata.PackageNotFoundError:
        versions["gemelos"] = "absent"
    return {
        "commit": _commit(),
        "command": " ".join(command),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
    }


def _commit() -> str:
    """Of the checkout, with a plus where something in it is changed."""
    told = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
