"""The policies of equality in the league, and where each rule stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from equivalence_tests.implementations import Implementation, has_torch
from equivalence_tests.league import comparing, descent, differences, ours
from equivalence_tests.league.configurations import Configuration

BOTH, SINGLE, DOUBLE = ("float64", "float32"), ("float32",), ("float64",)


@dataclass(frozen=True)
class Policy:
    """A rule that says of an implementation, on one configuration in one dtype, what is wrong, or nothing.

    It rejects what it finds wrong, or what raises, in any of its dtypes. `sums` is the loss `Y.sum()`: on the usual
    configuration the upstream gradient is ones.
    """

    name: str
    judge: Callable[[Implementation, Configuration, str], str]
    dtypes: tuple[str, ...]
    sums: bool = False

    @property
    def rule(self) -> str:
        """What it does, with the source."""
        return " ".join((self.judge.__doc__ or "").split())


def policies() -> list[Policy]:
    """All of them; without torch the one that needs bfloat16 is left out."""
    found = [
        Policy("sum loss, allclose", comparing.by_allclose, BOTH, sums=True),
        Policy("assert_close", comparing.by_assert_close, BOTH),
        Policy("gradcheck", differences.gradcheck, DOUBLE),
        Policy("gradcheck, fast mode", differences.gradcheck_fast, DOUBLE),
        Policy("JAX check_grads", differences.check_grads, BOTH),
        Policy("fixed 1e-2", comparing.by_a_hundredth, SINGLE),
        Policy("fixed 1e-2, outputs only", comparing.by_a_hundredth_on_outputs, SINGLE),
        Policy("cosine of 0.99", comparing.by_cosine, SINGLE),
        Policy("loss goes down", descent.goes_down, SINGLE),
        Policy("loss within 1e-2", descent.stays_close, SINGLE),
        Policy("twice the float32 error", comparing.by_twice_the_error, SINGLE),
        Policy("twice the bfloat16 error", comparing.by_twice_the_error, ("bfloat16",)),
        Policy("Gemelos, this one case", ours.within_the_budget, BOTH),
    ]
    return [policy for policy in found if "bfloat16" not in policy.dtypes or has_torch()]
