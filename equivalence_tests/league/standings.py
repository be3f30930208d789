"""The league itself: every mistake and every right variant, before every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import reference_numpy
from equivalence_tests import variants
from equivalence_tests.checks import attempt
from equivalence_tests.implementations import Implementation, plain
from equivalence_tests.league.configurations import RICH, Configuration, rich, usual
from equivalence_tests.league.ours import TABLE_DTYPES, caught_by_the_table, rejected_by_the_table
from equivalence_tests.league.policies import Policy, policies
from equivalence_tests.mistakes import MISTAKES, Mistake, quiet
from equivalence_tests.ops import OPS

TABLE = "Gemelos, the whole table"


@dataclass
class Tally:
    """Of those that were tried, the ids that were hit and those that were missed."""

    hit: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def count(self, id: str, hit: object) -> None:
        (self.hit if hit else self.missed).append(id)

    @property
    def of(self) -> int:
        return len(self.hit) + len(self.missed)

    def __str__(self) -> str:
        return f"{len(self.hit)}/{self.of}" if self.of else "-"


@dataclass
class Standing:
    """A policy's row: mistakes caught on the usual and on the rich configuration; by dtype, right variants rejected.

    `rejections` says which, where and why. The whole table has no usual configuration; its cases are counted as rich.
    """

    name: str
    rule: str
    usual: Tally = field(default_factory=Tally)
    rich: Tally = field(default_factory=Tally)
    right: dict[str, Tally] = field(default_factory=dict)
    rejections: list[str] = field(default_factory=list)


def mistakes_of(ops: Sequence[str]) -> list[Mistake]:
    """Those of ops with a backward, which every policy can judge."""
    return [mistake for mistake in MISTAKES.values() if mistake.op in ops]


def run(ops: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None) -> list[Standing]:
    """One row for each policy, the whole table last. `progress` is told how many of how many are judged.

    `ops` are names of the table's ops that have a backward (None: all). ValueError for another name. A mistake that lies
    in accepting bad input is the whole table's alone: equality with the reference can be asked on good input only.
    """
    ops = list(RICH) if ops is None else list(ops)
    for op in ops:
        check_op(op)
    league = [(policy, Standing(policy.name, policy.rule)) for policy in policies()]
    table = Standing(TABLE, "Agreement and conduct on up to 200 cases of the table, and every law.")
    wrong = mistakes_of(ops)
    right = [(op, variant) for op in ops for variant in variants.VARIANTS.get(op, ())]
    with quiet():
        for done, mistake in enumerate(wrong, 1):
            _judge_mistake(mistake, league)
            table.rich.count(mistake.id, caught_by_the_table(mistake))
            if progress is not None:
                progress(done, len(wrong) + len(right))
        for done, (op, variant) in enumerate(right, len(wrong) + 1):
            _judge_right(op, variant, league)
            for dtype in TABLE_DTYPES:
                _count_right(table, f"{op}: {variant}", dtype, [rejected_by_the_table(OPS[op], variant, dtype)])
            if progress is not None:
                progress(done, len(wrong) + len(right))
    return [*(standing for _, standing in league), table]


def check_op(op: str) -> None:
    if op in RICH:
        return
    if op in OPS:
        raise ValueError(f"--op: {op} has no backward of its own, expected one of {', '.join(RICH)}")
    near = get_close_matches(op, RICH, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"--op: {op} came, expected one of {', '.join(RICH)}{hint}")


def _judge_mistake(mistake: Mistake, league: Sequence[tuple[Policy, Standing]]) -> None:
    if mistake.accepts:
        return
    implementation = unchecked(mistake)
    for policy, standing in league:
        standing.usual.count(mistake.id, rejects(policy, implementation, usual(mistake.op, policy.sums)))
        standing.rich.count(mistake.id, rejects(policy, implementation, rich(mistake.op)))


def rejects(policy: Policy, implementation: Implementation, configuration: Configuration) -> str:
    """The first dtype in which a policy turns an implementation away, and what it says; or nothing."""
    return next(filter(None, (_said(policy, implementation, configuration, dtype) for dtype in policy.dtypes)), "")


def _said(policy: Policy, implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    what = attempt(partial(policy.judge, implementation, configuration, dtype))
    return what and f"{configuration.name}, {dtype}: {what}"


def _judge_right(op: str, variant: str, league: Sequence[tuple[Policy, Standing]]) -> None:
    implementation = variants.implementation(op, variant, checked=False)
    for policy, standing in league:
        for dtype in policy.dtypes:
            configurations = (usual(op, policy.sums), rich(op))
            said = [_said(policy, implementation, each, dtype) for each in configurations]
            _count_right(standing, implementation.name, dtype, said)


def _count_right(standing: Standing, name: str, dtype: str, said: list[str]) -> None:
    standing.right.setdefault(dtype, Tally()).count(name, any(said))
    standing.rejections.extend(f"{name}; {what}" for what in said if what)


def unchecked(mistake: Mistake) -> Implementation:
    """The mistake as a pair on its own: `as_implementation` runs the reference before it, to refuse bad input, and takes
    twice the time."""
    op = mistake.op
    broken: Any = mistake.forward or getattr(reference_numpy, op)
    broken_backward: Any = mistake.backward or getattr(reference_numpy, f"{op}_backward")

    @wraps(broken)
    def forward(*operands: Any, **options: Any) -> Any:
        return broken(*operands, **{name: plain(value) for name, value in options.items()})

    @wraps(broken_backward)
    def backward(dY: Any, cache: Any) -> Any:
        return broken_backward(plain(dY), cache)

    pair = {op: forward, f"{op}_backward": backward}
    return Implementation(mistake.id, SimpleNamespace(**pair), True, ("float64", "float32"))
