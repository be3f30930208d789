"""A candidate run again and again on one case, with other values in the place of its own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.implementations import Answer, run
from equivalence_tests.judge import judge_tensor
from equivalence_tests.own_line.recording import Hook, Key, Trail

ONE_RUN = 2.0  # seconds


class Runs:
    """A candidate on one case that it answers wrongly: run again and again, with other values in place of its own."""

    def __init__(self, candidate: Candidate, case: Case, dtype: str, hook: Hook, until: float) -> None:
        self.candidate, self.dtype, self.hook, self.until = candidate, dtype, hook, until
        self.precision = PRECISIONS[dtype]
        self.case = case.rounded(self.precision)
        self.exact: dict[str, Bounded] = candidate.op.exact(self.case, self.precision)
        if not candidate.op.differentiable:
            self.exact = {name: self.exact[name] for name in candidate.op.outputs}
        self.judged = tuple(self.exact)
        self.quick: dict[str, tuple[Array, Array]] = {}
        for name, truth in self.exact.items():
            exact, allowed = truth.value.astype(np.float64), truth.budget() * 1.01
            allowed = np.where(np.isfinite(exact) & np.isfinite(allowed), allowed + 1e-15 * np.abs(exact), np.inf)
            if np.isfinite(exact).all():
                self.quick[name] = exact, allowed
        self.count, self.asked, self.late = 0, 0, False
        self.raised: BaseException | None = None

    def left(self) -> bool:
        """Whether there is time left; the clock of the thread is slow to read, and is read now and then."""
        self.asked += 1
        if self.asked % 16 == 0:
            self.late = time.thread_time() > self.until
        return not self.late

    def answer(
        self, replaced: dict[Key, Callable[[Any, int], Any]] | None = None, dtype: str | None = None
    ) -> Answer | None:
        self.hook.start(replaced)
        return self._run(dtype or self.dtype)

    def watch(self, number: int, seen: Callable[[Any, dict[str, Any], dict[str, Any]], Any]) -> Answer | None:
        """A run in which one place hands its value and its frame's names to `seen`, and goes on with what comes back."""
        self.hook.start()
        self.hook.watched = {number: seen}
        return self._run(self.dtype)

    def record(self, dtype: str | None = None) -> tuple[Answer | None, dict[Key, Trail]]:
        self.hook.start(recording=True)
        answer = self._run(dtype or self.dtype)
        self.hook.recording = False
        return answer, self.hook.trails

    def _run(self, dtype: str) -> Answer | None:
        self.count += 1
        self.raised = None
        self.hook.beat()
        self.hook.until = time.monotonic() + ONE_RUN
        try:
            with (
                warnings.catch_warnings(),
                np.errstate(all="ignore"),
                redirect_stdout(StringIO()),
                redirect_stderr(StringIO()),
            ):
                warnings.simplefilter("ignore")
                return run(self.candidate.implementation, self.candidate.op, self.case, dtype)
        except BaseException as error:  # a candidate may raise anything
            reraise_interrupt(error)
            self.raised = error
            return None

    def right(self, answer: Answer | None) -> bool:
        """Whether every tensor is right; the first that is far from it is enough to say no."""
        if answer is None or any(name not in answer for name in self.judged):
            return False
        with np.errstate(all="ignore"):
            for name, (exact, allowed) in self.quick.items():
                got = answer[name].value
                if got.shape != exact.shape or not bool((np.abs(got - exact) <= allowed).all()):
                    return False
        return not self.wrong(answer)

    def moved(self, before: Answer, after: Answer | None) -> set[str] | None:
        """The tensors that are not as before; None where nothing came back."""
        if after is None or after.keys() != before.keys():
            return None
        found = set()
        for name, tensor in before.items():
            one, other = tensor.value, after[name].value
            if one.shape != other.shape:
                return None
            with np.errstate(all="ignore"):
                scale = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
                same = (np.abs(one - other) <= 1e-9 * scale) | (one == other) | ((one != one) & (other != other))
            if not bool(same.all()):
                found.add(name)
        return found

    def wrong(self, answer: Answer | None) -> set[str]:
        """The tensors that are wrong: all, where there is no answer."""
        if answer is None:
            return set(self.judged)
        return {name for name in self.judged if name not in answer or self._wrong(name, answer)}

    def _wrong(self, name: str, answer: Answer) -> bool:
        with np.errstate(all="ignore"):
            return bool(judge_tensor(name, answer[name], self.exact[name], self.precision).wrong)
