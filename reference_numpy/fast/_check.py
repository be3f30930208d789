"""What the fast functions ask beyond the reference."""

from __future__ import annotations

from reference_numpy._check import Array


def only_real(op: str, **operands: Array) -> None:
    """The reference lets complex numbers through, for a witness; nothing here does."""
    for name, array in operands.items():
        if array.dtype.kind == "c":
            raise TypeError(f"{op}: {name} has dtype {array.dtype}, expected float32 or float64")
