"""`gemelos verify`, as a stranger would run it, and what it says of a broken op."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from rich.console import Console

import reference_numpy
from equivalence_tests.__main__ import main as door
from equivalence_tests.implementations import load
from equivalence_tests.ops import OPS
from equivalence_tests.verify import main, verify

ROOT = Path(__file__).parents[2]
WORDS = ["the", "fat", "cat"]


@pytest.fixture(autouse=True)
def _a_short_experiment(monkeypatch):
    """The experiment on the scale has tests of its own; here it need not go to c = 4096."""
    monkeypatch.setattr("equivalence_tests.scaling.WIDTHS", (1, 16))


def run_verify(monkeypatch, tmp_path, implementations=("reference_numpy",), cases=4, width=80, ops=tuple(OPS)):
    monkeypatch.chdir(tmp_path)
    page = io.StringIO()
    say = Console(file=page, width=width, soft_wrap=True)
    code = verify(WORDS, [load(name) for name in implementations], [OPS[op] for op in ops], cases, 0, say, None)
    return code, page.getvalue()


def test_it_proves_every_op_and_writes_what_it_found(monkeypatch, tmp_path):
    code, page = run_verify(monkeypatch, tmp_path)
    assert code == 0
    last = page.strip().splitlines()[-1]
    assert last.startswith("Proved: 20 ops of reference_numpy")
    report = json.loads((tmp_path / "results/verify.json").read_text())
    assert report["schema"] == 1
    assert report["seed"] == 0
    assert {"machine", "versions", "walk", "scaling", "rows"} <= report.keys()
    assert {(row["op"], row["dtype"]) for row in report["rows"]} >= {
        (op, d) for op in OPS for d in ("float64", "float32")
    }
    assert (report["walk"]["products"], report["walk"]["transpositions"]) == (5, 1)
    for name in ("attention.png", "scaling.png"):
        assert (tmp_path / "results" / name).read_bytes().startswith(b"\x89PNG")


# One line of each op, broken: the op's module, the right line, the wrong one.
BREAKS = {
    "softmax": ("softmax", "A * (dA - (A * dA).sum(axis, keepdims=True))", "A * dA"),
    "log_softmax": ("softmax", "dY - np.exp(Y) * dY.sum(axis, keepdims=True)", "dY - np.exp(Y)"),
    "layer_norm": ("layer_norm", "dN = dY * scale\n", "dN = dY\n"),
    "linear": ("linear", "dX = dY @ weight", "dX = 2.0 * dY @ weight"),
    "relu": ("activations", "np.where(Y > 0.0, dY", "np.where(Y >= 0.0, dY"),
    "tanh": ("activations", "dY * (1.0 - Y * Y)", "dY * (1.0 - Y)"),
    "gelu": ("activations", "1.0 + 3.0 * GELU_CUBE", "1.0 + GELU_CUBE"),
    "embedding": ("embedding", "np.add.at(dweight, ids, dY)", "dweight[ids] += dY"),
    "dropout": ("dropout", "np.where(keep, X * (1.0 / (1.0 - p))", "np.where(keep, X * (1.0 / max(p, 0.1))"),
    "attention": ("attention", "    dOmega = dS * scale\n    dQ = dOmega @ K\n    dK = dOmega.mT @ Q\n    return dQ",
                  "    dOmega = dS\n    dQ = dOmega @ K\n    dK = dOmega.mT @ Q\n    return dQ"),
    "attention_stages": ("attention", "dS = A * (dA - delta)", "dS = A * dA"),
    "simple_attention": ("self_attention", "dX: Array = dQ + dK + dV", "dX: Array = dQ + dV"),
    "self_attention": ("self_attention", "C, (X, Wq, Wk, Wv, cache)", "C, (X, Wk, Wq, Wv, cache)"),
    "multi_head_attention": ("self_attention", "(*X.shape[:-1], num_heads, X.shape[-1] // num_heads), -3, -2)",
                             "(*X.shape[:-1], X.shape[-1] // num_heads, num_heads), -1, -3)"),
    "cross_entropy": ("cross_entropy", 'dloss", dloss) / M', 'dloss", dloss) / counted.size'),
    "rnn": ("rnn", "before = np.concatenate([first, H[..., :-1, :]], -2)", "before = H"),
    "gpt": ("gpt", "dX.reshape(-1, *dX.shape[-2:]).sum(0)", "dX.reshape(-1, *dX.shape[-2:]).mean(0)"),
    "gpt_loss": ("gpt", "cross_entropy(logits, targets, ignore_index)\n    return loss, (gpt_cache",
                 "cross_entropy(logits, targets, ignore_index)\n    return 2.0 * loss, (gpt_cache"),
    "generative_rnn": ("generative_rnn", "np.zeros_like(dH[..., -1, :])", "dH[..., -1, :]"),
    "generative_rnn_loss": ("generative_rnn", "cross_entropy(logits, targets, ignore_index)\n    return loss, (rnn_cache",
                            "cross_entropy(logits, targets, None)\n    return loss, (rnn_cache"),
}  # fmt: skip


# A law that holds two ops against each other cannot know which of them is wrong, and names its own.
NAMED_TOO = {
    "attention": {"attention_stages", "self_attention", "simple_attention"},
    "self_attention": {"multi_head_attention"},
    "multi_head_attention": {"self_attention"},
    "gpt": {"gpt_loss"},
    "generative_rnn": {"generative_rnn_loss"},
}


@pytest.mark.parametrize("op", OPS)
def test_one_broken_line_is_named(monkeypatch, tmp_path, op):
    module, right, wrong = BREAKS[op]
    source = (ROOT / "reference_numpy" / f"{module}.py").read_text()
    assert source.count(right) == 1, "the line to break has changed"
    broken = types.ModuleType(f"broken_{op}")
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    exec(compile(source.replace(right, wrong), f"{module}.py", "exec"), broken.__dict__)
    for name in (op, f"{op}_backward"):
        if hasattr(reference_numpy, name):
            monkeypatch.setattr(reference_numpy, name, getattr(broken, name))
    alike = [name for name in OPS if OPS[name].model == OPS[op].model]  # a model takes as long as many ops
    code, page = run_verify(monkeypatch, tmp_path, cases=8, ops=alike)
    assert code == 1
    broken = json.loads((tmp_path / "results/verify.json").read_text())["broken"]
    assert page.strip().splitlines()[-1] == f"BROKEN: {'; '.join(broken)}"
    named = {text.removesuffix(" of reference_numpy") for text in broken}
    assert {op} <= named <= {op} | NAMED_TOO.get(op, set())


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_narrow_terminal_gets_the_same_table(monkeypatch, tmp_path, width):
    few = [name for name in OPS if not OPS[name].model]
    code, page = run_verify(monkeypatch, tmp_path, cases=2, width=width, ops=few)
    assert code == 0
    assert all(name in page for name in few)


BAD_ARGUMENTS = {
    ("--text", ""): "--text: there are 0 words, expected 1 to 512",
    ("--op", "sofmax"): f"--op: sofmax came, expected one of {', '.join(OPS)}",
    ("--text", "word " * 513): "--text: there are 513 words, expected 1 to 512",
    ("--file", "absent.txt"): "--file: absent.txt cannot be read: No such file or directory",
    ("--file", "."): "--file: . cannot be read: Is a directory",
    ("--file", "latin1.txt"): "--file: latin1.txt is not UTF-8 (byte 4 is 0xf1)",
    ("--file", "empty.txt"): "--file: empty.txt holds 0 words, expected 1 to 512",
    ("--cases", "0"): "--cases: 0 came, expected at least 1",
    ("--seed", "-1"): "--seed: -1 came, expected at least 0",
    ("--implementation", "no_such_module"): "--implementation: no_such_module cannot be imported, there is no such module",
    ("--implementation", "json"): "--implementation: json has none of the ops softmax,",
    ("--device", "gpu"): "--device: gpu came, expected cpu or cuda",
    ("--implementation", "reference_numpy", "--device", "cuda"): "--device: reference_numpy is NumPy and runs on cpu,",
}  # fmt: skip


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=lambda arguments: " ".join(arguments)[:40])
def test_a_bad_argument_gives_one_line_that_names_it(monkeypatch, tmp_path, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin1.txt").write_bytes("el ni\u00f1o".encode("latin-1").replace(b"ni", b"n"))
    (tmp_path / "empty.txt").write_text(" \n")
    assert main(list(arguments)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"gemelos verify: {BAD_ARGUMENTS[arguments]}")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_an_unknown_flag_and_an_unknown_command_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--case", "x"])
    assert stopped.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
    assert door(["prove"]) == 2
    assert capsys.readouterr().err.startswith("gemelos: there is no command 'prove', expected one of verify")
    assert door([]) == 0
    assert "gemelos COMMAND" in capsys.readouterr().out


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    page = capsys.readouterr().out
    assert all(option in page for option in ("--text", "--file", "--cases", "--seed", "--implementation", "--device"))


def environment(**extra):
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def start(arguments, folder, **extra):
    command = [sys.executable, "-m", "equivalence_tests", "verify", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(**extra), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_without_torch_both_of_numpy_are_verified_alone(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    process = start(["--cases", "3"], tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "torch is not installed" in out
    assert out.strip().splitlines()[-1].startswith("Proved: 20 ops of reference_numpy, reference_numpy.fast give")


def test_a_file_in_any_script_and_a_module_of_ones_own(tmp_path):
    (tmp_path / "words.txt").write_bytes(
        b"\xef\xbb\xbf" + "el ni\u00f1o \u732b \U0001f408\r\n\u0627\u0644\u0642\u0637".encode()
    )
    (tmp_path / "mine.py").write_text(
        "from reference_numpy import softmax, softmax_backward, layer_norm, layer_norm_backward\n"
    )
    arguments = ["--file", "words.txt", "--cases", "3", "--implementation", "mine"]
    process = start(arguments, tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.strip().splitlines()[-1].startswith("Proved: 2 ops of mine give")


def test_ctrl_c_stops_it_without_a_traceback(tmp_path):
    process = start(["--cases", "100000"], tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Every op"):
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == ""
    assert out.strip().splitlines()[-1].startswith("Stopped before the end")
    assert not (tmp_path / "results").exists()


# What a module of one's own may do, and what is said of it. None of it passes, and none ends in a traceback.
STRANGE = {
    "takes_nothing": (
        "import reference_numpy as r\nfrom reference_numpy import dropout_backward\n"
        "def dropout(X): return r.dropout(X, None, 0.0)",
        1,
        "NOT JUDGED: dropout of mine: each of 3 cases",
    ),
    "exits": ("import sys\nsys.exit(0)", 2, "--implementation: mine cannot be imported, it raised SystemExit: 0"),
    "no_python": ("def softmax(", 2, "--implementation: mine cannot be imported, it raised SyntaxError"),
    "fails": ("1 / 0", 2, "--implementation: mine cannot be imported, it raised ZeroDivisionError: division by zero"),
    "interrupts": ("def tanh(X): raise KeyboardInterrupt\ntanh_backward = tanh", 1, "BROKEN: tanh of mine"),
    "own_error": ("class E(BaseException): pass\ndef tanh(X): raise E\ntanh_backward = 0", 1, "BROKEN: tanh of mine"),
    "mute_error": (
        "class E(Exception):\n def __str__(self): 1 / 0\ndef tanh(X): raise E\ntanh_backward = 0",
        1,
        "BROKEN: tanh of mine",
    ),
    "dies": (  # while another process is busy with another op
        "import os, time, reference_numpy as r\ndef tanh(X): os._exit(0)\ntanh_backward = tanh\n"
        "def softmax(X, *rest): time.sleep(0.02); return r.softmax(X, *rest)\nsoftmax_backward = r.softmax_backward",
        1,
        "BROKEN: tanh: the process that checked it",
    ),
    "prints": (
        "import reference_numpy as r\ndef tanh(X):\n print('x' * 9999)\n return r.tanh(X)\ntanh_backward = r.tanh_backward",
        1,
        "BROKEN: tanh of mine",
    ),
    "matrix": (
        "import numpy as np, reference_numpy as r\ndef tanh(X): Y, c = r.tanh(X); return Y.view(np.recarray), c\n"
        "tanh_backward = r.tanh_backward",
        1,
        "BROKEN: tanh of mine",
    ),
    "half": ("from reference_numpy import tanh\ntanh_backward = None", 1, "BROKEN: tanh of mine"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["interrupts", "dies", "exits"])
def test_a_strange_module_is_told_in_one_line(tmp_path, name):
    source, code, last = STRANGE[name]
    (tmp_path / "mine.py").write_text(source)
    arguments = ["--cases", "3", "--implementation", "mine", "--text", "one two"]
    process = start(arguments, tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode == code
    assert last in (out if code == 1 else err).strip().splitlines()[-1]
    assert len(out) < 20_000


@pytest.mark.parametrize("name", ["no_python", "fails"])
def test_a_module_that_cannot_be_imported_is_told_in_one_line(monkeypatch, tmp_path, capsys, name):
    source, code, last = STRANGE[name]
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert main(["--implementation", "mine"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"gemelos verify: {last}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("name", ["takes_nothing", "prints", "own_error", "mute_error", "matrix", "half"])
def test_a_strange_op_is_named(monkeypatch, tmp_path, name):
    source, code, last = STRANGE[name]
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    got, page = run_verify(monkeypatch, tmp_path, ["mine"], cases=3)
    assert got == code
    assert page.strip().splitlines()[-1].startswith(last)
    assert len(page) < 20_000


@pytest.mark.parametrize("name", ["", ".x", "a b", "torch-impl"])
def test_what_is_no_name_of_a_module_is_refused(capsys, name):
    assert main(["--implementation", name]) == 2
    said = capsys.readouterr().err
    assert (
        said == f"gemelos verify: --implementation: {name!r} came, expected a module's name such as torch_impl.fused\n"
    )


def test_results_that_cannot_be_written_are_told(tmp_path):
    (tmp_path / "results").write_text("a file, not a folder")
    (tmp_path / "mine.py").write_text("from reference_numpy import relu, relu_backward\n")
    arguments = ["--cases", "1", "--implementation", "mine"]
    process = start(arguments, tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err == "gemelos verify: results/ cannot be written: File exists\n"
