"""What a run takes, in which order, within which time and memory; and where the time of a step goes."""

import inspect
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import choice, memory, shares, timing, training
from benchmarks.bars import BARS
from benchmarks.contestants import prepare
from benchmarks.contests import least_speedup
from benchmarks.counting import flops_of
from benchmarks.inputs import inputs_of
from benchmarks.judge import truth_of
from benchmarks.line_times import line_times
from benchmarks.process import environment
from benchmarks.rows import Results
from benchmarks.session import names
from benchmarks.suites import SUITES, Scale, works_of
from benchmarks.suites.train import BAR, TINY
from benchmarks.timing import APART, Contestant, Plan, Race
from benchmarks.work import Work
from equivalence_tests import arithmetic
from equivalence_tests.implementations import NotOffered
from reference_numpy.fast import _rows, _small
from reference_numpy.self_attention import multi_head_attention, multi_head_attention_backward

WORKS = [work for suite in SUITES for work in works_of(suite, Scale(full=True))]
ATTENTION = Work("attention", "attention", "forward", {"B": 1, "H": 2, "n": 8, "c": 4}, "float32")
STEP = Work("train", "gpt_step", "step", TINY, "float32")


def asked(*arguments):
    return command.parser().parse_args(arguments)


# The bars first


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.title}: {bar.asked}")
def test_every_bar_has_its_work_and_its_contestants(bar):
    """Exactly one, unless it is about every n from one on; with the very names that rows will have."""
    found = [work for work in WORKS if bar in choice.bars_of(work)]
    assert len(found) == 1 or (bar.measure is least_speedup and {work.sizes["n"] for work in found} >= {2048, 16384})
    for work in found:
        takes_part = {name for name in names() if choice.takes_part(name, work, asked("--bars"))}
        assert takes_part >= {bar.contest.ours, *bar.contest.others}


def test_the_bars_come_first_and_can_be_had_alone():
    alone, all_of_them = (choice.ordered(WORKS, asked(flag)) for flag in ("--bars", "--full"))
    assert all_of_them[: len(alone)] == alone
    assert sorted(map(repr, all_of_them)) == sorted(map(repr, WORKS))
    assert (
        {work.work for work in alone[:2]}
        == {work.work for work in alone if work.suite == "roofline"}
        == {"gemm", "gemv"}
    )
    sizes = [flops_of(work) for work in alone[2:]]
    assert sizes == sorted(sizes)
    assert choice.ordered(WORKS, asked()) == WORKS
    assert choice.followed(alone).sizes == BAR


# Time


def test_the_default_run_has_less_than_ten_minutes():
    assert set(choice.MINUTES) == set(SUITES)
    assert sum(choice.MINUTES.values()) <= 9.0
    ends = [choice.end_of(suite, asked()) for suite in SUITES]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(60.0 * sum(choice.MINUTES.values()))
    assert choice.end_of("ops", asked("--full")) == choice.end_of("ops", asked("ops")) == float("inf")


class Recorded:
    """A session that remembers what it was asked to measure."""

    def __init__(self, began):
        self.began, self.measured = began, []
        self.results = Results({}, "", "", "")

    def contestants(self, work):
        return [Contestant("A")]

    def measure(self, work, watch, row, until):
        self.measured.append(work)


def test_no_work_begins_after_the_time_of_its_suite_and_the_rest_has_its_own(tmp_path, capsys):
    late = Work("ops", "gelu", "forward", {"n": 3}, "float32")
    session = Recorded(time.monotonic() - choice.end_of("attention", asked()) - 1.0)
    command._measure(session, [ATTENTION, ATTENTION, late], asked("--out", str(tmp_path)))
    assert session.measured == [late]
    assert "2 of 3 works were not begun, their time was over: attention" in capsys.readouterr().out
    assert (tmp_path / "results.json").exists()


# Memory


class Sized:
    """A process that says what it holds while it waits and while it runs."""

    def __init__(self, name, log, held=0, peak=0, fails_beside=False):
        self.name, self.log, self.held, self.peak, self.fails = name, log, held, peak, fails_beside

    def ask(self, command, limit, **arguments):
        self.log.append((self.name, command))
        if command == "prepare":
            self.limit = limit
            if self.fails and not any(at == ("A", "end") for at in self.log):
                return {"status": "out of memory", "why": "no room"}
            held = {"held": self.held, "peak": self.peak}
            return {"status": "ok", "why": "", "share": 0.5, "error": 1.0, "checked": "", "seconds": 1.0, **held}
        return {"peak_bytes": 5, "share": 0.25, "why": ""} if command == "finish" else {"seconds": 1.0}

    def end(self):
        self.log.append((self.name, "end"))


def race(processes, plan=Plan(seconds=0.0, pause=0.0), **more):  # noqa: B008 (it is frozen)
    contestants = [Contestant(each.name) for each in processes]
    by_name = {each.name: each for each in processes}
    return Race(ATTENTION, contestants, Path("truth"), lambda each: by_name[each.name], plan, **more)


@pytest.mark.parametrize("how", [{"held": 12, "peak": 13}, {"fails_beside": True}])
def test_who_has_no_room_beside_the_others_is_timed_alone(monkeypatch, how):
    monkeypatch.setattr(memory, "free", lambda: 20)
    log = []
    found = race([Sized("A", log, 3, 10), Sized("B", log, **how), Sized("C", log, 5, 6)])
    found.run(lambda at: None)
    runs = [name for name, command in log if command == "run"]
    assert runs == ["A", "C"] * 10 + ["B"] * 10
    assert log.index(("A", "end")) < [at for at, each in enumerate(log) if each == ("B", "prepare")][1]
    assert {row.contestant: (row.status, row.why) for row in found.rows} == {
        "A": ("ok", ""), "C": ("ok", ""), "B": ("ok", APART)}  # fmt: skip


def test_nobody_holds_more_than_all_may_together(monkeypatch):
    monkeypatch.setattr(memory, "free", lambda: 10**12)
    log = []
    race([Sized("A", log, int(8e9), int(9e9)), Sized("B", log, int(12e9), int(13e9))]).run(lambda at: None)
    assert [name for name, command in log if command == "run"] == ["A"] * 10 + ["B"] * 10


def test_no_more_rounds_than_must_be_when_the_time_is_over():
    log = []
    race([Sized("A", log)], until=time.monotonic()).run(lambda at: None)
    assert log.count(("A", "run")) == Plan().least


def test_a_compile_has_a_limit_of_its_own(monkeypatch):
    plan, log = Plan(seconds=0.0, pause=0.0, compiling=7.0), []
    plain, compiled = Sized("torch eager", log), Sized("torch compile", log)
    monkeypatch.setattr(compiled, "ask", lambda *_, **__: {"status": "too slow", "why": "no answer within 7 s"})
    found = race([plain, compiled], plan)
    found.run(lambda at: None)
    assert plain.limit == plan.limit > 7.0
    assert [(row.status, row.why) for row in found.rows] == [
        ("ok", ""), ("too slow", "it was not compiled and run twice within 7 s")]  # fmt: skip
    assert environment(2)["TORCHINDUCTOR_COMPILE_THREADS"] == "1"


# Where the time goes


@pytest.mark.parametrize("few", [0, _small.FEW])
def test_the_parts_of_a_step_make_the_step(monkeypatch, few):
    monkeypatch.setattr(_small, "FEW", few)
    step, lines = line_times(partial(sorted, range(9)), shares.FOLDER)
    assert list(lines) == [("", "", 0)]
    assert lines["", "", 0] <= step
    for contestant in shares.NAMES:
        told = shares.seconds_of(prepare(contestant, STEP, *inputs_of(STEP)))
        assert {"products", "attention", "norms", "gelu", "loss", "embedding", "rest"} <= set(told["parts"])
        found = [sum(seconds) / whole for whole, *seconds in zip(told["steps"], *told["parts"].values(), strict=True)]
        assert 0.3 < max(found) <= 1.0  # the rest is the watching itself, and whatever else the machine does then


@pytest.mark.parametrize(("slow", "op"), [("gelu", "gelu"), ("normalise", "norms"), ("normalise_backward", "norms")])
def test_what_takes_longer_is_seen_to(monkeypatch, slow, op):
    monkeypatch.setattr(_small, "FEW", 0)  # the step as large models take it
    right = getattr(_rows, slow)
    prepared = prepare("numpy fast", STEP, *inputs_of(STEP))
    monkeypatch.setattr(_rows, slow, lambda *arguments: (time.sleep(0.05), right(*arguments)))
    parts = {name: min(seconds) for name, seconds in shares.seconds_of(prepared)["parts"].items()}
    assert max(parts, key=parts.__getitem__) == op
    assert parts[op] > 0.05


def test_a_line_has_its_own_time_again_when_what_it_called_returns(tmp_path):
    source = "def inner():\n    return 1\n\n\ndef outer(slow):\n    return inner() + slow()\n"
    (tmp_path / "two.py").write_text(source)
    names = {}
    exec(compile(source, str(tmp_path / "two.py"), "exec"), names)
    _, lines = line_times(lambda: names["outer"](lambda: time.sleep(0.02) or 1), tmp_path)
    seconds = {number: each for (_, _, number), each in lines.items()}
    assert seconds[2] < 0.01 < seconds[6]


def test_projections_are_products_and_what_is_beside_them_is_attention():
    """As attention they made the textbook's products look a quarter faster than they are."""
    for function in (multi_head_attention, multi_head_attention_backward):
        code, (lines, first) = function.__code__, inspect.getsourcelines(function)
        ops = [shares.op_of((code.co_filename, code.co_qualname, first + i)) for i in range(len(lines))]
        assert {op for op, line in zip(ops, lines, strict=True) if " @ W" in line} == {shares.PRODUCTS}
        assert {op for op, line in zip(ops, lines, strict=True) if "merge_heads(" in line} == {"attention"}


@pytest.mark.parametrize("op", ["gelu", "normalise", "normalise_backward"])
def test_what_is_in_the_rows_own_functions_is_no_product(op):
    """normalise takes its mean by one."""
    code = getattr(_rows, op).__code__
    found = {shares.op_of((code.co_filename, code.co_qualname, line)) for _, _, line in code.co_lines() if line}
    assert found == {"gelu" if op == "gelu" else "norms"}


def test_both_numpy_twins_lose_alike():
    textbook, fast = (training.losses(name, quick=True)["loss"] for name in shares.NAMES)
    assert len(textbook) == len(fast) == 3
    assert np.allclose(textbook, fast, rtol=1e-5)


def test_what_is_the_textbooks_own_is_not_timed_under_another_name():
    work = Work("ops", "attention_stages", "forward", {"B": 1, "H": 2, "n": 8, "c": 4}, "float32")
    prepare("numpy reference", work, *inputs_of(work))
    with pytest.raises(NotOffered, match="of its own"):
        prepare("numpy fast", work, *inputs_of(work))
    assert timing.row_of(STEP, Contestant("A")).work == "gpt_step"


def test_a_judge_leaves_the_precision_of_others_as_it_was():
    before = arithmetic.ORACLE
    truth_of(STEP, *inputs_of(STEP))
    assert arithmetic.ORACLE is before
