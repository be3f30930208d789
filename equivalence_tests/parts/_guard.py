"""What becomes of errors in laws: a part that dies has broken the law, and one that must refuse must do it well."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from equivalence_tests.parts._part import Law


def told(*laws: Law) -> tuple[Law, ...]:
    """The laws, each of which says so in one line where the part raises what it should not."""
    return tuple(_told(law) for law in laws)


def _told(law: Law) -> Law:
    @wraps(law)
    def guarded(part: Any) -> str:
        try:
            return law(part)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]

    return guarded


def not_refused(call: Callable[[], Any], naming: str = "") -> str:
    """Nothing if the call raises a ValueError of one line (that names what it must), else what it did."""
    try:
        found = call()
    except ValueError as error:
        fine = "\n" not in str(error) and naming in str(error)
        return "" if fine else f"refused with {error}"
    except Exception as error:
        return f"{type(error).__name__} instead of a ValueError"
    return f"accepted as {found!r}"
