"""The checking kit: hold an implementation of an op against the reference, and be told which term is wrong.

`check`, `check_backward`, `diagnose` and `probe` do what `gemelos check` and `gemelos probe` do, for functions at hand.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "check": "equivalence_tests.checking",
    "check_backward": "equivalence_tests.checking",
    "diagnose": "equivalence_tests.dump",
    "probe": "equivalence_tests.probing",
    "Report": "equivalence_tests.report",
    "Finding": "equivalence_tests.findings",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: the commands and the plugin need little of the kit, and torch only for torch."""
    if name not in _HOMES:
        raise AttributeError(f"equivalence_tests has no {name!r}, it exports {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
