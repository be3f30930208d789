"""Checking somebody else's implementation: what is brought in which form, what is found, and what it says."""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

import reference_numpy
from equivalence_tests import candidate_torch, checking, diagnosis, failing_case
from equivalence_tests.candidate import adapt, with_leading
from equivalence_tests.cases import Case
from equivalence_tests.check_command import main
from equivalence_tests.checking import Settings, check, check_backward, examine
from equivalence_tests.checks import draw_case
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.loading import load_function
from equivalence_tests.mistakes import MISTAKES, as_implementation
from equivalence_tests.ops import OPS
from equivalence_tests.report import show
from equivalence_tests.request import Request

HERE = Path(__file__).parent / "candidates"
FEW = 40  # cases: enough for what these tests ask


def brought(file: str, name: str):
    return load_function(f"{HERE / file}:{name}")


def checked(file: str, name: str, like: str, backward: str = "", **settings):
    given = brought(file, backward) if backward else None
    return check(brought(file, name), like, backward=given, cases=FEW, **settings)


# In which form it comes


@pytest.mark.parametrize(
    ("file", "name", "like", "backward", "kind"),
    [
        ("numpy_ones.py", "softmax", "softmax", "", "forward"),
        ("numpy_ones.py", "softmax", "softmax", "softmax_gradient", "functional"),
        ("numpy_ones.py", "softmax", "softmax", "softmax_of_output", "functional"),
        ("numpy_ones.py", "attention", "attention", "", "pair"),
        ("torch_ones.py", "attention", "attention", "", "autograd"),
        ("torch_ones.py", "Tanh", "tanh", "", "autograd"),
        ("torch_ones.py", "Norm", "layer_norm", "", "autograd"),
        ("torch_ones.py", "eight", "layer_norm", "", "autograd"),
        ("torch_ones.py", "dense", "linear", "", "autograd"),
        ("torch_ones.py", "Projected", "self_attention", "", "autograd"),
        ("torch_ones.py", "hand_written", "layer_norm", "", "pair"),
        ("library_ones.py", "softmax", "softmax", "", "forward"),
    ],
)
def test_a_right_one_agrees_in_every_form(file, name, like, backward, kind):
    report = checked(file, name, like, backward)
    assert report.verdict == "agrees", str(report)
    assert report.kind == kind
    assert report.cases >= FEW
    assert report.findings == ()


TWINS = [(twin, op) for op in OPS for twin in ("reference_numpy", "torch_impl") if not OPS[op].model]


@pytest.mark.parametrize(("twin", "op"), [*TWINS, ("reference_numpy", "generative_rnn"), ("torch_impl", "gpt_loss")])
def test_both_twins_agree(twin, op):
    report = check(load_function(f"{twin}:{op}"), op, cases=8)
    assert report.verdict == "agrees", str(report)


def test_a_model_comes_as_a_class():
    assert check(load_function("torch_impl:GPT"), "gpt", cases=8).passed


@pytest.mark.parametrize(
    ("file", "name", "like", "backward", "tensor"),
    [
        ("numpy_ones.py", "softmax", "softmax", "softmax_diagonal", "dX"),
        ("numpy_ones.py", "attention", "attention", "unscaled_backward", "dQ"),
        ("torch_ones.py", "WrongTanh", "tanh", "", "dX"),
    ],
)
def test_a_wrong_gradient_is_wrong_in_every_form(file, name, like, backward, tensor):
    report = checked(file, name, like, backward)
    assert report.verdict == "wrong"
    assert report.counterexample is not None
    assert report.counterexample.wrong.startswith(tensor)
    assert report.findings


def test_the_missing_scale_is_named():
    first = checked("numpy_ones.py", "attention", "attention", "unscaled_backward").findings[0]
    assert first.kind == "factor"
    assert first.stage in ("dOmega", "scale")


def test_a_backward_may_come_alone():
    def doubled(dA, cache):
        A, axis = cache
        return 2 * A * (dA - (A * dA).sum(axis, keepdims=True))

    assert check_backward(lambda dA, cache: doubled(dA, cache) / 2, "softmax", cases=FEW).passed
    assert not check_backward(doubled, "softmax", cases=FEW).passed


def test_a_forward_alone_says_that_gradients_are_not_checked():
    report = checked("numpy_ones.py", "softmax", "softmax")
    assert [note.code for note in report.notes] == ["forward_alone"]


@pytest.mark.parametrize("name", ["single", "only_single"])
def test_who_computes_in_float32_only_is_judged_in_float32(name):
    report = checked("numpy_ones.py", name, "softmax")
    assert report.verdict == "agrees"
    assert report.dtypes == ("float32",)
    assert "one_dtype_only" in [note.code for note in report.notes]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_judged_on_request(dtype):
    assert checked("torch_ones.py", "attention", "attention", dtype=dtype).dtypes == (dtype,)


def test_what_a_signature_does_not_name_is_listed():
    report = checked("numpy_ones.py", "attention", "attention")
    assert report.not_checked == ("mask", "bias", "query_offset", "scale", "keep", "p")
    assert "with causal" in [row.name for row in report.rows]


def test_torchs_own_names_of_options_are_understood():
    report = checked("torch_ones.py", "attention", "attention")
    assert "mask" not in report.not_checked


def test_an_option_can_be_left_out():
    function = load_function("torch.nn.functional:scaled_dot_product_attention")
    together = check(function, "attention", cases=FEW)
    assert together.passed  # it refuses a mask beside is_causal: the report says so, and judges the rest
    assert "refuses_together" in [note.code for note in together.notes]
    left = check(function, "attention", cases=FEW, without=["causal"])
    assert left.passed
    assert "refuses_together" not in [note.code for note in left.notes]


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("linear_with_bias", "linear"),
        ("rnn_with_state", "rnn"),
        ("masked_attention", "attention"),
        ("loss_without_padding", "cross_entropy"),
    ],
)
def test_what_a_signature_insists_on_is_always_given(name, like):
    """No law calls it without; nobody is wrong for having no default."""
    report = checked("numpy_ones.py", name, like)
    assert (report.passed, report.kind) == (True, "pair"), str(report)


# Conventions and sizes


def test_other_axes_and_an_inverted_mask_are_translated():
    right = {"layout": "bnhc", "mask_true": "drops"}
    assert checked("numpy_ones.py", "heads_third", "attention", **right).passed
    assert not checked("numpy_ones.py", "heads_third", "attention", layout="bnhc").passed
    assert not checked("numpy_ones.py", "heads_third", "attention", layout="bhnc", mask_true="drops").passed


def test_a_number_of_leading_axes_can_be_asked_for():
    told = checked("numpy_ones.py", "of_matrices", "attention")
    assert [(each.code, each.numbers["lead"]) for each in told.conventions] == [("convention_axes", 0)]
    assert not told.passed
    assert checked("numpy_ones.py", "of_matrices", "attention", lead=0).passed


@pytest.mark.parametrize(
    "op", ["attention", "layer_norm", "embedding", "cross_entropy", "dropout", "multi_head_attention"]
)
@pytest.mark.parametrize("lead", [0, 1, 2])
def test_a_case_with_other_leading_axes_is_still_one_of_the_op(op, lead):
    for index in range(30):
        try:
            case = with_leading(draw_case(OPS[op], 0, index), op, lead)
        except NotOffered:
            continue
        observed = checking.observe(REFERENCES[op].implementation, OPS[op], case, "float64")
        assert observed.wrong == ""


REFERENCES = {
    op: adapt(load_function(f"reference_numpy:{op}"), op)
    for op in ("attention", "layer_norm", "embedding", "cross_entropy", "dropout", "multi_head_attention")
}


def test_sizes_can_be_fixed():
    assert not checked("numpy_ones.py", "sixty_four", "attention").passed
    assert checked("numpy_ones.py", "sixty_four", "attention", sizes={"c": 64}).passed


# What cheats or errs oddly

HARMLESS = [
    ("raises", "raises"),
    ("changes_its_input", "known_mistake"),
    ("changes_its_input_where_it_may", "conduct"),
    ("returns_its_input", ""),
    ("same_buffer_twice", "conduct"),
    ("unwritten_memory", ""),
    ("nan_everywhere", ""),
    ("wrong_dtype", "wrong_dtype"),
    ("python_list", "wrong_dtype"),
    ("nothing", "wrong_dtype"),
    ("remembers_by_shape", ""),
    ("wrong_after_300_calls", ""),
    ("every_other_call_rounds_up", "other_answer"),
    ("depends_on_time", ""),
    ("system_exit", "raises"),
    ("prints", "conduct"),
]


@pytest.mark.parametrize(
    ("name", "code"), [("a_view_of_its_input", "convention_in_place"), ("always_double", "convention_dtype")]
)
def test_what_is_done_by_design_is_another_convention(name, code):
    report = check(brought("naughty_ones.py", name), "softmax", cases=FEW)
    assert (report.verdict, report.exit_code) == ("another convention", 3), str(report)
    assert [each.code for each in report.conventions] == [code]
    accepted = check(brought("naughty_ones.py", name), "softmax", cases=FEW, accept=["all"])
    assert (accepted.verdict, accepted.exit_code) == ("agrees", 0)


@pytest.mark.parametrize(("name", "code"), HARMLESS)
def test_nobody_passes_by_cheating(name, code):
    report = check(brought("naughty_ones.py", name), "softmax")
    assert report.verdict == "wrong"
    assert report.findings
    if code:
        assert report.findings[0].code == code
    assert report.findings[0].say("en") != report.findings[0].say("es")


def run(*arguments: str):
    command = [sys.executable, "-m", "equivalence_tests", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("hidden", [np.nan, -np.inf, np.inf])
def test_what_is_no_finite_number_must_come_again_as_it_was(hidden):
    """A second answer with a number where the first had none is another answer, even if 0 is all that is left of NaN."""
    calls = []

    def forgetful(X):
        calls.append(X)
        return torch.relu(X) + X if len(calls) == 1 else torch.nan_to_num(torch.relu(X) + X)

    implementation = Implementation("forgetful", SimpleNamespace(relu=forgetful), False, ("float32",))
    case = Case({"X": np.array([[1.0, hidden, -2.0]])}, {}, {"dY": np.ones((1, 3))})
    said = candidate_torch.conduct(implementation, OPS["relu"], case, None, "float32")
    assert said.code == "answers_differently"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hangs", "does not come back"),
        ("exits", "exit status 3"),
        ("ends_with_0", "exit status 0"),
        ("crashes", "SIGABRT"),
        ("interrupts", "KeyboardInterrupt"),
        ("writes_to_the_descriptor", "bytes"),
        ("wrong_after_300_calls", "depends on earlier calls"),
    ],
)
def test_nobody_takes_the_command_down(name, says, tmp_path):
    done = run(f"{HERE / 'naughty_ones.py'}:{name}", "--like", "softmax", "--time-limit", "2", "--out", str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert says in " ".join(done.stdout.split())
    assert done.stderr == ""


def test_a_right_one_agrees_in_a_process_of_its_own():
    done = run(f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--json", "--cases", str(FEW))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "agrees"
    assert report["properties"][-1] == {
        "name": "answers the same in a fresh process",
        "cases": 60,
        "wrong": 0,
        "what": "",
        "share": 0.0,
        "units": 0.0,
    }


def test_no_torch_is_needed(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('there is no torch', name='torch')")
    pair = f"{HERE / 'numpy_ones.py'}:attention"
    command = [sys.executable, "-m", "equivalence_tests", "check", pair, "--like", "attention", "--cases", "20"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    command += ["--backward", f"{HERE / 'numpy_ones.py'}:unscaled_backward", "--out", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1/sqrt(c) is missing" in " ".join(done.stdout.split())


# The counterexample

SCRIPTS = [
    ("numpy_ones.py", "softmax", "softmax", "softmax_diagonal"),
    ("numpy_ones.py", "attention", "attention", "unscaled_backward"),
    ("torch_ones.py", "WrongTanh", "tanh", None),
    ("naughty_ones.py", "returns_its_input", "softmax", None),
]


@pytest.mark.parametrize(("file", "name", "like", "backward"), SCRIPTS)
def test_a_counterexample_replays_in_a_fresh_process(file, name, like, backward, tmp_path):
    spec = f"{HERE / file}:{name}"
    other = f"{HERE / file}:{backward}" if backward else None
    request = Request(spec, like, other)
    candidate = request.candidate()
    report = examine(candidate, Settings(cases=FEW))
    assert report.counterexample is not None
    _, script = failing_case.write(tmp_path, candidate, report.counterexample, request)
    assert len(Path(script).read_text().splitlines()) <= 15
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_layout_that_matters_is_in_the_script(tmp_path):
    spec = f"{HERE / 'numpy_ones.py'}:heads_third"
    request = Request(spec, "attention", layout="bnhc")
    candidate = request.candidate()
    report = examine(candidate, Settings(cases=FEW, conventions=False))
    assert report.counterexample is not None
    _, script = failing_case.write(tmp_path, candidate, report.counterexample, request)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_counterexamples_are_small(monkeypatch):
    """The median over the mistakes of attention and self-attention that show in values: n <= 3, c <= 2, B = H = 1."""
    monkeypatch.setattr(diagnosis, "explain", lambda *_, **__: [])  # half the time, and not asked for here
    sizes = []
    for mistake in [each for each in MISTAKES.values() if each.op in ("attention", "self_attention")][::10]:
        report = examine(candidate_of(mistake), Settings(cases=FEW, conventions=False))
        if report.counterexample is not None:
            case = report.counterexample.case
            first = next(iter(case.operands.values()))
            width = case.operands.get("K", case.operands.get("Wq")).shape[-1]
            sizes.append((first.shape[-2], width, int(np.prod(first.shape[:-2]))))
    n, c, lead = (statistics.median(column) for column in zip(*sizes, strict=True))
    assert len(sizes) > 6
    assert n <= 3
    assert c <= 2
    assert lead == 1


def candidate_of(mistake):
    module = as_implementation(mistake).module
    backward = getattr(module, f"{mistake.op}_backward", None)
    return adapt(getattr(module, mistake.op), mistake.op, backward=backward, label=mistake.id)


# Errors of use


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py:f", "--like", "softmax"], "there is no file nowhere.py"),
        ([f"{HERE / 'numpy_one.py'}:f", "--like", "softmax"], "did you mean"),
        ([f"{HERE / 'numpy_ones.py'}:sofmax", "--like", "softmax"], "did you mean 'softmax'?"),
        (["numpy_ones.py", "--like", "softmax"], "expected FILE.py:NAME or package.module:NAME"),
        (["no_such_module:f", "--like", "softmax"], "cannot be imported"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "sofmax"], "did you mean 'softmax'?"),
        ([f"{HERE / 'numpy_ones.py'}:two_operands", "--like", "attention"], "takes 2 operands, attention has Q, K, V"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--cases", "0"], "--cases: 0 came"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--sizes", "c"], "--sizes: 'c' came"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--without", "mask"], "has no option 'mask'"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--layout", "bnhc"], "softmax has no heads' axis"),
        ([f"{HERE / 'numpy_ones.py'}:softmax", "--like", "softmax", "--device", "cuda"], "--device"),
        ([f"{HERE / 'torch_ones.py'}:odd", "--like", "layer_norm"], "Conv1d has the parameters"),
        ([f"{HERE / 'numpy_ones.py'}:np", "--like", "softmax"], "is a module, expected a function"),
    ],
)
def test_an_error_of_use_is_one_line(arguments, says, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert says in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


def test_a_parameter_that_is_nothing_of_the_op_is_named():
    with pytest.raises(ValueError, match="takes 0 operands"):
        adapt(brought("numpy_ones.py", "keyword_forward"), "embedding")


# What it says


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("width", [50, 80, 120])
def test_the_report_fits_the_terminal(language, width):
    page = io.StringIO()
    report = checked("numpy_ones.py", "attention", "attention", "unscaled_backward")
    show(report, Console(file=page, width=width), language)
    assert max(len(line) for line in page.getvalue().splitlines()) <= width
    assert ("está mal" if language == "es" else "wrong") in page.getvalue().splitlines()[0]


def test_the_same_seed_gives_the_same_report():
    one, other = (checked("numpy_ones.py", "softmax", "softmax", "softmax_diagonal", seed=3) for _ in range(2))
    assert {**one.as_json(), "seconds": 0} == {**other.as_json(), "seconds": 0}


# Programs, dumps, and ops that the table does not know

PROGRAM = """
import sys
import numpy as np

into, out = sys.argv[1:]
X, dA = np.load(f"{into}/X.npy"), np.load(f"{into}/dA.npy")
E = np.exp(X - X.max(-1, keepdims=True))
A = E / E.sum(-1, keepdims=True)
np.save(f"{out}/A.npy", A)
np.save(f"{out}/dX.npy", A * (dA - FACTOR * (A * dA).sum(-1, keepdims=True)))
"""


@pytest.mark.parametrize(("factor", "code"), [("1", 0), ("2", 1)])
def test_a_program_is_checked_through_files(factor, code, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace("FACTOR", factor))
    words = f"{sys.executable} {tmp_path / 'program.py'} DIR_IN DIR_OUT"
    done = run("--command", words, "--like", "softmax", "--cases", "12", "--dtype", "float32", "--out", str(tmp_path))
    assert done.returncode == code, done.stdout + done.stderr
    if code:
        replayed = [sys.executable, str(tmp_path / "counterexample.py")]
        assert subprocess.run(replayed, capture_output=True, timeout=60, check=False).returncode == 1


@pytest.mark.parametrize(("changed", "code"), [("", 0), ("dS", 1)])
def test_a_dump_is_judged_without_running_anything(changed, code, tmp_path, capsys):
    rng = np.random.default_rng(0)
    Q, K, V, dC = (rng.standard_normal((2, 5, 4)) for _ in range(4))
    stages = reference_numpy.attention_stages(Q, K, V, dC, causal=True)
    arrays = {"Q": Q, "K": K, "V": V, "dC": dC, **stages._asdict()}
    arrays |= {changed: 2.0 * arrays[changed]} if changed else {}
    np.savez(tmp_path / "dump.npz", **arrays)
    assert main([str(tmp_path / "dump.npz"), "--like", "attention", "--options", "causal"]) == code
    said = " ".join(capsys.readouterr().out.split())
    assert f"--like attention: {'wrong => dS is 2 times' if code else 'agrees'}" in said


@pytest.mark.parametrize(("backward", "code"), [("softmax_gradient", 0), ("softmax_diagonal", 1)])
def test_an_op_is_checked_without_a_reference(backward, code):
    pair = f"{HERE / 'numpy_ones.py'}:softmax", "--backward", f"{HERE / 'numpy_ones.py'}:{backward}"
    done = run(*pair, "--laws-only", "--shapes", "x: ... n")
    assert done.returncode == code, done.stdout + done.stderr
