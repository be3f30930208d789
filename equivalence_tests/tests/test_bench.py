"""The benchmark checks what it times, times in turn, and keeps what it has, whatever happens."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks import judge, machine, memory, session, shares, torch_contestants, verdict
from benchmarks.__main__ import _of_its_own, main
from benchmarks.contestants import prepare
from benchmarks.counting import flops_of
from benchmarks.inputs import inputs_of, sizes_of
from benchmarks.process import Process, environment
from benchmarks.rows import STATUSES, Results, Row, read
from benchmarks.session import Session
from benchmarks.suites import SUITES, Scale, works_of
from benchmarks.timing import Contestant, Plan, Race
from benchmarks.work import Work
from equivalence_tests.ops import OPS

ROOT = Path(__file__).parents[2]
OWN = Path(__file__).parent / "candidates" / "bench_ones.py"
ATTENTION = Work("attention", "attention", "forward", {"B": 1, "H": 2, "n": 8, "c": 4}, "float32")
FAST = Plan(rounds=3, most=3, seconds=0.0, sample=0.0, pause=0.0)


# From end to end


@pytest.fixture
def unsaved(monkeypatch):
    """Pictures are made, but not drawn: that takes longest, and test_bench_report does it."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **how: path.touch())


@pytest.mark.usefixtures("unsaved")
def test_a_quick_run_times_every_suite_and_every_op(tmp_path, capsys):
    asked = ["--quick", "--only", "numpy reference", "numpy fast", "numpy", "--threads", "1", "--out", str(tmp_path)]
    assert main(asked) == 0, capsys.readouterr()
    results = read(tmp_path / "results.json")
    assert {row.suite for row in results.rows} == set(SUITES)
    for name, ops in (("numpy reference", set(OPS)), ("numpy fast", set(OPS) - {"attention_stages"})):
        assert {row.work for row in results.rows if (row.suite, row.contestant) == ("ops", name)} == ops
        trained = [row for row in results.rows if (row.work, row.contestant) == ("loss against time", name)]
        assert [len(row.settings[what]) for row in trained for what in ("loss", "time")] == [3, 3]
        parts = {row.part for row in results.rows if (row.work, row.contestant) == ("gpt_step share", name)}
        assert parts >= {"products", "attention", "norms", "gelu", "loss", "embedding", "rest"}
    for row in results.rows:
        assert row.status == "ok", row
        assert len(row.seconds) == (shares.ROUNDS if row.work == shares.NAME else 3)
        assert row.minimum <= row.median
        assert 0.0 <= row.share <= 1.0
        assert 0.0 <= row.share_after <= 1.0
        assert row.checked
        assert row.device == "cpu"
    assert results.machine["cores"] >= 1
    assert results.ceilings["gemm float32"] > 0.0
    assert not results.interrupted
    assert "No GPU was timed" in capsys.readouterr().out
    assert "What this machine can do" in (tmp_path / "report.md").read_text("utf-8")


def test_the_file_holds_the_fields_of_a_row_and_nothing_else(tmp_path):
    results = Results({"cores": 2}, "gemelos bench", "abc", "2026-01-01T00:00:00+00:00")
    row = Row("ops", "gelu", "forward", {"n": 3}, "float32", "numpy reference")
    row.timed([3.0, 1.0, 2.0])
    results.rows.append(row)
    results.write(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert found["schema"] == 1
    assert set(found["rows"][0]) == {each.name for each in fields(Row)}
    assert (row.median, row.minimum, row.iqr) == (2.0, 1.0, 1.0)
    assert read(tmp_path / "a.json") == results
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"schema": 2}', '{"schema": 1, "rows": [{"speed": 3}]}'])
def test_a_file_that_is_no_result_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"a\.json") as refused:
        read(tmp_path / "a.json")
    assert "\n" not in str(refused.value)


# Who is wrong is not timed


@pytest.fixture(scope="module")
def kept():
    """A session whose judge and whose processes of contestants stay; the machine's facts nobody asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "facts", lambda threads: {})
        with Session(FAST, 1, ["bench"]) as session:
            yield session


@pytest.fixture
def here(kept):
    """It, on a machine without a GPU and with nothing measured yet."""
    kept.only, kept.own, kept.results.rows = ("numpy reference",), None, []
    kept.results.machine = {"torch": {}, "gpu": None}
    return kept


def own_row(here, name):
    here.own = (f"{OWN}:{name}", "attention")
    here.measure(ATTENTION, lambda at: None, lambda row: None)
    reference, row = here.results.rows
    assert (reference.status, len(reference.seconds)) == ("ok", 3)
    return row


def test_the_users_own_contestant_is_checked_and_timed(here):
    row = own_row(here, "attention")
    assert row.status == "ok", row.why
    assert 0.0 < row.share < 1.0
    assert len(row.seconds) == 3
    assert row.median > 0.0


@pytest.mark.parametrize("name", ["one_scaled_wrongly", "one_row_wrong"])
def test_a_wrong_kernel_is_refused_and_not_timed(here, name):
    row = own_row(here, name)
    assert row.status == "wrong"
    assert row.share > 1.0
    assert (row.seconds, row.median) == ([], None)
    assert row.why.startswith("C: ")


def test_who_becomes_wrong_while_it_is_timed_has_no_time(here):
    row = own_row(here, "right_at_first")
    assert row.status == "wrong"
    assert row.share < 1.0 < row.share_after
    assert row.seconds == []
    assert "after timing" in row.why


@pytest.mark.usefixtures("unsaved")
def test_a_wrong_kernel_ends_the_command_with_1_and_a_file_is_reported_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(machine, "facts", lambda threads: {"torch": None, "gpu": None})
    asked = ["attention", "--quick", "--only", "numpy", "--add", f"{OWN}:one_row_wrong", "--like", "attention"]
    assert main([*asked, "--threads", "1", "--out", str(tmp_path)]) == 1
    assert "Wrong, and not timed" in capsys.readouterr().out
    assert {row.status for row in read(tmp_path / "results.json").rows if "bench_ones" in row.contestant} >= {"wrong"}
    assert main(["report", str(tmp_path / "results.json"), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "report.md").read_bytes() == (tmp_path / "report.md").read_bytes()


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("interrupted", 0), ("failed", 1), ("out of memory", 1)])
def test_an_added_contestant_that_failed_is_told_by_the_exit_status(status, code, capsys):
    rows = [Row("attention", "attention", "forward", {}, "float32", name, status=status) for name in ("mine", "other")]
    results = SimpleNamespace(rows=rows)
    assert _of_its_own(results, "mine") == code
    assert ("mine was not timed" in capsys.readouterr().out) == bool(code)
    assert _of_its_own(results, None) == 0


@pytest.mark.parametrize(
    ("name", "status"), [("greedy", "out of memory"), ("killed", "out of memory"), ("raising", "failed")]
)
def test_no_memory_and_failures_are_rows_and_the_rest_goes_on(here, name, status):
    row = own_row(here, name)
    assert row.status == status
    assert row.why
    assert not row.seconds


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("small", [True, False])
def test_a_wrong_gradient_of_a_model_is_refused_and_a_right_one_is_not(dtype, small, monkeypatch):
    """What is not small is judged by a slice, and by the error of each whole tensor."""
    monkeypatch.setattr(judge, "MANY", 2**22 if small else 0)
    work = Work("train", "gpt_step", "step", {**sizes_of("gpt", 2, 2, 8, 4, 11), "dropout": 0.1}, dtype)
    inputs, options = inputs_of(work)
    right = judge.truth_of(work, inputs, options)
    assert (right.slice is None) == small
    prepared = prepare("numpy reference", work, inputs, options)
    prepared.run()
    outputs = prepared.outputs()
    assert not verdict.compare(outputs, right.whole, right, work).wrong
    name = "dblocks.1.attention.query.weight"
    wrong = {**outputs, name: outputs[name] * outputs[name].dtype.type(1.001)}
    found = verdict.compare(wrong, right.whole, right, work)
    assert found.wrong
    assert name in found.why
    assert verdict.compare({**outputs, name: outputs[name] * np.nan}, right.whole, right, work).wrong
    other = {**outputs, name: outputs[name].astype("float16")}
    assert verdict.compare(other, right.whole, right, work).wrong
    missing = {key: value for key, value in outputs.items() if key != name}
    assert verdict.compare(missing, right.whole, right, work).wrong


def test_a_slice_judges_what_the_whole_is_too_large_for(monkeypatch):
    monkeypatch.setattr(judge, "MANY", 0)
    work = Work("train", "gpt_step", "step", {**sizes_of("gpt", 3, 2, 40, 4, 1100), "dropout": 0.1}, "float32")
    inputs, options = inputs_of(work)
    right = judge.truth_of(work, inputs, options)
    assert right.slice is not None
    assert right.checked == "2 sequences of 32 tokens; whole: rms against float64 and the textbook's"
    prepared = prepare("numpy reference", *right.slice)
    prepared.run()
    assert not verdict.compare(prepared.outputs(), right.sliced, right, right.slice[0]).wrong


def test_attention_of_the_inputs_themselves_is_no_identity():
    """Where each token sees itself alone the textbook errs by nothing, and who loses a few roundings was called wrong."""
    work = Work("ops", "simple_attention", "forward+backward", {"B": 2, "n": 128, "d": 384}, "float32")
    inputs, options = inputs_of(work)
    right = judge.truth_of(work, inputs, options)
    everyone = [prepare(f"numpy {name}", work, inputs, options) for name in ("reference", "fast")]
    everyone.append(torch_contestants.prepare("torch sdpa", work, inputs, options))
    for each in everyone:
        each.run()
        found = verdict.compare(each.outputs(), right.whole, right, work)
        assert 0.0 < found.share < 1.0, found.why


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("at", [0, 700])
def test_a_long_attention_is_judged_at_its_own_size(causal, at):
    """Of one row and of one key that are sampled; the share is that of the table's budget, and not far below it."""
    work = Work("attention", "attention", "forward+backward", {"B": 1, "H": 2, "n": 1600, "c": 4}, "float32",
                extra={"causal": causal})  # fmt: skip
    inputs, options = inputs_of(work)
    right = judge.truth_of(work, inputs, options)
    assert "sampled" in right.checked
    prepared = prepare("numpy reference", work, inputs, options)
    prepared.run()
    outputs = prepared.outputs()
    found = verdict.compare(outputs, right.whole, right, work)
    assert 0.05 < found.share < 0.5  # the textbook itself errs by an eighth of what is allowed
    for name in outputs:
        wrong = outputs[name].copy()
        rows = right.whole[name].at[-1]
        wrong[..., rows[len(rows) * at // 1600], :] *= np.float32(1.001)
        assert verdict.compare({**outputs, name: wrong}, right.whole, right, work).worst == name


def test_the_budget_of_a_sampled_key_is_the_tables_own():
    """Where both can be had: the tiles' bound is the table's, within a tenth."""
    from benchmarks import judge_attention
    from equivalence_tests.cases import Case

    work = Work("attention", "attention", "forward+backward", {"B": 1, "H": 1, "n": 300, "c": 8}, "float32")
    inputs, options = inputs_of(work)
    precision = judge.precision_of("float32")
    sampled = judge_attention.sampled(work, inputs, options, precision)
    wide = {name: X.astype(np.float64) for name, X in inputs.items()}
    upstream = {"dC": wide.pop("dC")}
    whole = OPS["attention"].exact(Case(wide, options, upstream), precision)
    for name, found in sampled.items():
        assert np.allclose(found.exact, whole[name].value[found.at].astype(np.float64), rtol=1e-9, atol=1e-12)
        ratio = found.budget / whole[name].budget()[found.at]
        assert 0.9 < ratio.min() <= ratio.max() < 1.1


def test_generated_tokens_are_judged_and_a_near_tie_is_forgiven():
    work = Work("generate", "generate", "generate", {"B": 2, "H": 2, "n": 4, "c": 4, "d": 8, "L": 1, "v": 40}, "float32",
                extra={"tokens": 5, "cache": True})  # fmt: skip
    inputs, options = inputs_of(work)
    right = judge.truth_of(work, inputs, options)
    for cache in (True, False):
        prepared = prepare("numpy reference", work, inputs, {**options, "cache": cache})
        prepared.run()
        outputs = prepared.outputs()
        assert not verdict.compare(outputs, right.whole, right, work).wrong
    ids = outputs["ids"].copy()
    ids[1, 2] = (ids[1, 2] + 1) % 40
    assert verdict.compare({**outputs, "ids": ids}, right.whole, right, work).wrong
    right.gaps[1, 2, ids[1, 2]] = right.whole["logits"].rms
    assert not verdict.compare({**outputs, "ids": ids}, right.whole, right, work).wrong


def test_a_contestant_may_not_take_the_whole_memory(here, monkeypatch):
    """Its allocation fails, and nothing else does."""
    monkeypatch.setattr(memory, "available", lambda: 1_500_000_000)
    row = own_row(here, "hungry")
    assert (row.status, row.seconds) == ("out of memory", [])


# How they are timed


class Told:
    """A process that remembers what it was asked, and by whom."""

    def __init__(self, name, log, stop_at=None):
        self.name, self.log, self.stop_at = name, log, stop_at

    def ask(self, command, limit, **arguments):
        self.log.append((self.name, command))
        if command == "prepare":
            return {"status": "ok", "why": "", "share": 0.5, "error": 1.0, "checked": "whole", "seconds": 1.0}
        if command == "finish":
            return {"peak_bytes": 5, "share": 0.25, "why": ""}
        if self.log.count((self.name, "run")) == self.stop_at:
            raise KeyboardInterrupt
        return {"seconds": float(len(self.log))}


def race(log, plan, stop_at=None, names="ABC"):
    contestants = [Contestant(name) for name in names]
    return Race(ATTENTION, contestants, Path("truth"), lambda each: Told(each.name, log, stop_at), plan)


def test_rounds_go_from_one_contestant_to_the_next():
    log = []
    found = race(log, Plan(seconds=0.0, pause=0.0))
    found.run(lambda at: None)
    assert [name for name, command in log if command == "run"] == list("ABC") * 10
    assert [command for _, command in log[:3] + log[-3:]] == ["prepare"] * 3 + ["finish"] * 3
    for i, row in enumerate(found.rows):
        assert row.seconds == [4.0 + i + 3.0 * j for j in range(10)]
        assert (row.share, row.share_after, row.peak_bytes, row.status) == (0.5, 0.25, 5, "ok")


def test_rounds_are_ten_unless_they_are_long():
    plan = Plan()
    assert plan.rounds_of(1e-3) == 30
    assert plan.rounds_of(5.0) == 10
    assert plan.rounds_of(20.0) == 5
    assert plan.rounds_of(500.0) == 3


def test_who_is_stopped_keeps_its_samples():
    log = []
    found = race(log, Plan(seconds=0.0, pause=0.0), stop_at=4)
    with pytest.raises(KeyboardInterrupt):
        found.run(lambda at: None)
    found.stop()
    assert [len(row.seconds) for row in found.rows] == [3, 3, 3]
    assert {row.status for row in found.rows} == {"interrupted"}
    assert all(row.why and row.median for row in found.rows)


PROGRAM = """
import sys
from benchmarks import machine
from benchmarks.__main__ import main

machine.facts = lambda threads: {"torch": None, "gpu": None}  # a process of its own, that imports torch
sys.exit(main())
"""


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    command = [sys.executable, "-u", "-c", PROGRAM, "attention", "--only", "numpy reference", "numpy"]
    command += ["--quick", "--sizes", *["1,1,8,4"] * 300, "--out", str(tmp_path)]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    while "attention, attention forward+backward" not in said:
        said += running.stdout.readline()
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert running.returncode == 130, rest
    assert "Stopped; what was measured is" in rest
    results = read(tmp_path / "results.json")
    assert results.interrupted
    measured = [row for row in results.rows if row.suite == "attention" and row.status == "ok"]
    assert measured
    assert all(row.median for row in measured)
    assert {row.status for row in results.rows} <= set(STATUSES)


# In what they are timed


def test_a_worker_chooses_its_own_kernel_and_has_all_threads(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = environment(7)
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & set(found)
    assert {found[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {"7"}
    assert os.environ["OPENBLAS_CORETYPE"] == "Prescott"


def test_a_worker_says_which_kernel_ran_and_what_it_held(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    work = Work("ops", "softmax", "forward", {"B": 1, "n": 1000, "m": 2000}, "float32")
    process = Process(1)
    try:
        assert process.ask("decide", 60, work=work, truth=str(tmp_path / "truth")) == {}
        told = process.ask(
            "prepare", 60, contestant="numpy reference", work=work, truth=str(tmp_path / "truth"), slice=True
        )
        assert told["status"] == "ok"
        assert told["kernels"]
        assert "Prescott" not in str(told["kernels"])
        assert process.ask("run", 60, repeats=2)["seconds"] > 0.0
        array = 8e6  # bytes; X, dA and A are held, and at most a few more while A is computed
        assert 2 * array < process.ask("finish", 60)["peak_bytes"] < 9 * array
    finally:
        process.end()


def test_gpu_rows_stand_where_there_is_no_gpu(here, monkeypatch):
    monkeypatch.setattr(
        session, "torch_ones", lambda work: [Contestant("torch cuda eager", "cuda"), Contestant("torch eager")]
    )
    here.only = ()
    here.results.machine["torch"] = None
    here.measure(ATTENTION, lambda at: None, lambda row: None)
    here.results.machine["torch"] = {}
    here.only = ("torch cuda eager",)
    here.measure(ATTENTION, lambda at: None, lambda row: None)
    rows = [row for row in here.results.rows if row.contestant.startswith("torch")]
    assert [(row.contestant, row.status) for row in rows] == [
        ("torch cuda eager", "not installed"),
        ("torch eager", "not installed"),
        ("torch cuda eager", "no GPU"),
    ]
    assert all(row.why and not row.seconds and row.median is None for row in rows)


# What can be asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["atention"], "there is no suite 'atention', did you mean 'attention'?"),
        (["--sizes", "1,2,3"], "--sizes: '1,2,3' came, expected B,H,n,c such as 8,6,256,64"),
        (
            ["--only", "numpy refrence"],
            "--only: there is no contestant 'numpy refrence', did you mean 'numpy reference'?",
        ),
        (["--add", "mine.py:f"], "--add and --like belong together: a function, and the op that it is like"),
        (
            ["--add", "mine.py:f", "--like", "atention"],
            "--like: 'atention' is not in the table, did you mean 'attention'?",
        ),
        (["--add", "nowhere/mine.py:f", "--like", "attention"], "there is no file nowhere/mine.py"),
        (["--seconds", "0"], "--seconds: 0 came, expected seconds above 0"),
        (["--threads", "0"], "--threads: 0 came, expected more than 0"),
        (["recurrence", "--sizes", "1,2,8,4"], "recurrence: nothing to time there with these flags"),
        (["--quick", "--full"], "argument --full: not allowed with argument --quick (see gemelos bench --help)"),
        (["report", "nowhere.json"], "No such file or directory"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_the_command_is_a_door_and_the_wheel_has_none(monkeypatch, capsys):
    from equivalence_tests import __main__ as door

    with pytest.raises(SystemExit) as helped:
        door.main(["bench", "--help"])
    assert helped.value.code == 0
    assert "gemelos bench" in capsys.readouterr().out
    monkeypatch.setattr(door, "from_checkout", lambda: False)
    assert door.main(["bench"]) == 2
    told = capsys.readouterr().err
    assert "checkout" in told
    assert told.count("\n") == 1


def test_the_steps_of_the_source_are_counted_as_the_rules_say():
    """Per token 6 N + 6 L d n: N without the token table, the head once."""
    (work,) = [
        each for each in works_of("train", Scale(full=True)) if each.sizes.get("v") == 60_198 and "L" in each.sizes
    ]
    N = 6 * (4 * 384 * 384 + 8 * 384 * 384) + 60_198 * 384
    assert flops_of(work) == 32 * 256 * (6 * N + 6 * 6 * 384 * 256)


def test_every_suite_has_works_at_every_scale():
    for scale in (Scale(), Scale(quick=True), Scale(full=True)):
        for suite in SUITES:
            works = works_of(suite, scale)
            assert works
            assert all(work.suite == suite for work in works)
            assert len({repr(work) for work in works}) == len(works)
