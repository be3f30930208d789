"""A command that reads and writes .npy files: in C, and as badly behaved as can be."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import SeededDraws
from equivalence_tests.checks import draw_case
from equivalence_tests.files import (
    CommandFailed,
    CommandImplementation,
    command_candidate,
    command_implementation,
    offers_of,
    parse_command,
)
from equivalence_tests.implementations import NotOffered, as_upstream, check_offer, prepared
from equivalence_tests.laws.patterns import case_of
from equivalence_tests.npy import write_npy
from equivalence_tests.observe import Observation, observe
from equivalence_tests.ops import OPS, Op

ATTENTION_IN_C = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { double *data; long shape[8]; int axes, bytes; long size; } Array;

static FILE *file_of(const char *folder, const char *name, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    return fopen(path, mode);
}

static Array read_array(const char *folder, const char *name) {  /* no data if there is no such file */
    Array a = {0};
    FILE *file = file_of(folder, name, "rb");
    if (!file) return a;
    unsigned char start[10];
    if (fread(start, 1, 10, file) != 10) exit(3);
    int length = start[8] + 256 * start[9];
    char header[70000];
    if (fread(header, 1, length, file) != (size_t)length) exit(3);
    header[length] = 0;
    char *at = strchr(strstr(header, "'shape'"), '(') + 1;
    a.size = 1;
    while (*at != ')') {
        a.size *= a.shape[a.axes++] = strtol(at, &at, 10);
        while (*at == ',' || *at == ' ') at++;
    }
    char *kind = strstr(strstr(header, "'descr'") + 7, "'") + 2;  /* behind the sign of the byte order */
    a.bytes = kind[1] - '0';
    a.data = malloc(sizeof(double) * (a.size + 1));
    for (long i = 0; i < a.size; i++) {
        char raw[8];
        if (fread(raw, 1, a.bytes, file) != (size_t)a.bytes) exit(3);
        if (kind[0] == 'b') a.data[i] = raw[0];
        else if (kind[0] == 'i') { long long x; memcpy(&x, raw, 8); a.data[i] = (double)x; }
        else if (a.bytes == 4) { float x; memcpy(&x, raw, 4); a.data[i] = x; }
        else memcpy(&a.data[i], raw, 8);
    }
    fclose(file);
    return a;
}

static void write_array(const char *folder, const char *name, const double *data, const Array *like) {
    FILE *file = file_of(folder, name, "wb");
    char header[128], shape[100] = "";
    for (int i = 0; i < like->axes; i++) sprintf(shape + strlen(shape), "%ld,", like->shape[i]);
    memset(header, ' ', 118);
    int used = sprintf(header, "{'descr': '<f%d', 'fortran_order': False, 'shape': (%s), }", like->bytes, shape);
    header[used] = ' ';
    header[117] = '\n';
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fwrite(header, 1, 118, file);
    for (long i = 0; i < like->size; i++) {
        float small = (float)data[i];
        if (like->bytes == 4) fwrite(&small, 4, 1, file); else fwrite(&data[i], 8, 1, file);
    }
    fclose(file);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    Array Q = read_array(words[1], "Q"), K = read_array(words[1], "K"), V = read_array(words[1], "V");
    Array dC = read_array(words[1], "dC"), causal = read_array(words[1], "causal");
    Array offset = read_array(words[1], "query_offset");
    long n = Q.shape[Q.axes - 2], c = Q.shape[Q.axes - 1], m = K.shape[K.axes - 2], e = V.shape[V.axes - 1];
    double scale = SCALE;
    double *C = calloc(dC.size, 8), *dQ = calloc(Q.size, 8), *dK = calloc(K.size, 8), *dV = calloc(V.size, 8);
    double *A = calloc(m, 8), *dA = calloc(m, 8);
    for (long row = 0; row < Q.size / c; row++) {
        long block = row / n, i = row % n, keys = m;
        if (causal.data && causal.data[0]) keys = i + 1 + (offset.data ? (long)offset.data[0] : 0);
        keys = keys < 0 ? 0 : keys > m ? m : keys;
        const double *q = Q.data + row * c, *dc = dC.data + row * e;
        double top = -INFINITY, total = 0, delta = 0;
        for (long j = 0; j < keys; j++) {
            A[j] = 0;
            for (long k = 0; k < c; k++) A[j] += q[k] * K.data[(block * m + j) * c + k];
            A[j] *= scale;
            if (A[j] > top) top = A[j];
        }
        for (long j = 0; j < keys; j++) total += A[j] = exp(A[j] - top);
        for (long j = 0; j < keys; j++) {
            A[j] /= total;
            dA[j] = 0;
            for (long k = 0; k < e; k++) {
                double v = V.data[(block * m + j) * e + k];
                C[row * e + k] += A[j] * v;
                dA[j] += dc[k] * v;
                dV[(block * m + j) * e + k] += A[j] * dc[k];
            }
            delta += A[j] * dA[j];
        }
        for (long j = 0; j < keys; j++) {
            double domega = A[j] * (dA[j] - delta) * SCALE_BACK;
            for (long k = 0; k < c; k++) {
                dQ[row * c + k] += domega * K.data[(block * m + j) * c + k];
                dK[(block * m + j) * c + k] += domega * q[k];
            }
        }
    }
    write_array(words[2], "C", C, &dC);
    write_array(words[2], "dQ", dQ, &Q);
    write_array(words[2], "dK", dK, &K);
    write_array(words[2], "dV", dV, &V);
    return 0;
}
"""
RIGHT_SCALE = ("-DSCALE=(1/sqrt((double)c))", "-DSCALE_BACK=scale")


def compiled(folder: Path, *defines: str) -> str:
    """The command of the C program."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "this test needs a C compiler, cc or gcc"
    source, program = folder / "my_attention.c", folder / "my_attention"
    source.write_text(ATTENTION_IN_C)
    subprocess.run([compiler, "-O1", *defines, str(source), "-o", str(program), "-lm"], check=True)
    return f"{program} DIR_IN DIR_OUT"


def observations(implementation: CommandImplementation, op: Op, dtype: str, wanted: int) -> list[Observation]:
    """The first cases of the table that the command can be asked for."""
    seen: list[Observation] = []
    for index in range(4000):
        try:
            seen.append(observe(implementation, op, draw_case(op, 0, index), dtype, index))
        except NotOffered:
            continue
        if len(seen) == wanted:
            break
    assert len(seen) == wanted
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_c_program_agrees(tmp_path, dtype):
    implementation = command_implementation(
        compiled(tmp_path, *RIGHT_SCALE), OPS["attention"], ("causal", "query_offset")
    )
    seen = observations(implementation, OPS["attention"], dtype, 40)
    assert [each.wrong for each in seen] == [""] * 40
    assert any(each.case.options.get("causal") for each in seen)
    assert not implementation.command.ignored


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_c_program_without_its_scale_is_caught(tmp_path, dtype):
    implementation = command_implementation(compiled(tmp_path, "-DSCALE=1", "-DSCALE_BACK=1"), OPS["attention"])
    assert any(each.verdicts["C"].wrong for each in observations(implementation, OPS["attention"], dtype, 10))


def test_a_c_program_without_the_scale_in_its_backward_is_caught_by_its_gradients(tmp_path):
    implementation = command_implementation(compiled(tmp_path, RIGHT_SCALE[0], "-DSCALE_BACK=1"), OPS["attention"])
    seen = observations(implementation, OPS["attention"], "float32", 10)
    wrong = {name for each in seen for name, verdict in each.verdicts.items() if verdict.wrong}
    assert wrong == {"dQ", "dK"}


# Commands in Python: slow to start, so each test starts few.


def script(folder: Path, body: str) -> str:
    """A command whose program is the body of a Python script; `into` and `out` are its folders."""
    path = folder / "candidate.py"
    head = "import os, sys, time, pathlib\ninto, out = map(pathlib.Path, sys.argv[1:])\n"
    path.write_text(head + body)
    return f"{sys.executable} {path} DIR_IN DIR_OUT"


def shell(folder: Path, body: str) -> str:
    """A command whose program is a shell script; $1 and $2 are its folders."""
    path = folder / "candidate.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{path} DIR_IN DIR_OUT"


def relu_case(dtype="float32"):
    return case_of("relu", SeededDraws(np.random.default_rng(0)), dtype, (2, 3)).rounded(PRECISIONS[dtype])


def answer_of(command: str, op: str = "relu", time_limit: float = 10.0, dtype: str = "float32"):
    implementation = command_implementation(command, OPS[op], (), time_limit)
    assert implementation.answers is not None
    return implementation.answers(OPS[op], relu_case(dtype), dtype)


def fails(command: str, *said: str, time_limit: float = 10.0) -> None:
    with pytest.raises(CommandFailed) as caught:
        answer_of(command, time_limit=time_limit)
    assert "\n" not in str(caught.value)
    for each in said:
        assert each in str(caught.value)


def test_operands_options_and_upstream_arrive_as_plain_arrays(tmp_path):
    """In C order, whatever the case's layout; in the dtype; integers as int64; numbers without axes."""
    keep = tmp_path / "seen"
    keep.mkdir()
    command = shell(tmp_path, f'cp "$1"/* {keep}; cp "$1/Q.npy" "$2/C.npy"')
    op = OPS["attention"]
    implementation = command_implementation(command, op, offers_of(op))
    case = case_of("attention", SeededDraws(np.random.default_rng(0)), "float32", (2,), ("mask", "keep"))
    case.options.update(causal=True, query_offset=np.int64(1), scale=np.float64(0.3))
    case = replace(case, layouts={"Q": "transposed", "K": "strided", "mask": "transposed"})
    implementation.answers(op, case.rounded(PRECISIONS["float32"]), "float32")
    found = {path.stem: np.load(path) for path in keep.iterdir()}
    assert found.keys() == {"Q", "K", "V", "dC", "mask", "keep", "p", "causal", "query_offset", "scale"}
    for name in ("Q", "K", "V"):
        assert found[name].dtype == np.float32
        assert found[name].flags.c_contiguous
        np.testing.assert_array_equal(found[name], case.operands[name])
    assert found["mask"].dtype == found["causal"].dtype == bool
    assert (found["query_offset"].shape, found["query_offset"].dtype) == ((), np.int64)
    assert (found["scale"].shape, found["scale"].dtype, found["p"].dtype) == ((), np.float64, np.float64)
    assert all(b"'fortran_order': False" in path.read_bytes() for path in keep.iterdir())


def test_bfloat16_travels_as_float32_numbers(tmp_path):
    command = shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"; cp "$1/dY.npy" "$2/dX.npy"')
    answer = answer_of(command, dtype="bfloat16")
    assert answer["Y"].dtype == "bfloat16"
    np.testing.assert_array_equal(answer["Y"].value, relu_case("bfloat16").operands["X"])


def test_a_model_comes_with_its_config_and_its_parameters_by_name(tmp_path):
    body = """
import json
import numpy as np
import reference_numpy as r
config = r.GPTConfig(**json.loads((into / "config.json").read_text()))
arrays = {p.name[:-4]: np.load(p) for p in into.glob("*.npy")}
params = {k: v for k, v in arrays.items() if "." in k and not k.startswith("keep.")}
keep = {k[5:]: v for k, v in arrays.items() if k.startswith("keep.")} or None
loss, cache = r.gpt_loss(params, arrays["ids"], arrays["targets"], config, keep=keep)
np.save(out / "loss.npy", loss)
for k, v in r.gpt_loss_backward(arrays["dloss"].item(), cache).items():
    np.save(out / f"d{k}.npy", v)
"""
    op = OPS["gpt_loss"]
    implementation = command_implementation(script(tmp_path, body), op, ("keep",))
    [seen] = observations(implementation, op, "float32", 1)
    assert seen.wrong == ""


def test_numbers_without_axes_reach_a_loss_and_its_gradient(tmp_path):
    body = """
import numpy as np
import reference_numpy as r
loss, cache = r.cross_entropy(np.load(into / "logits.npy"), np.load(into / "targets.npy"))
np.save(out / "loss.npy", loss)
np.save(out / "dlogits.npy", r.cross_entropy_backward(np.load(into / "dloss.npy").item(), cache))
"""
    op = OPS["cross_entropy"]
    implementation = command_implementation(script(tmp_path, body), op)
    [seen] = observations(implementation, op, "float32", 1)
    assert seen.wrong == ""


def test_an_option_that_the_command_was_not_said_to_take_is_not_asked_for(tmp_path):
    op = OPS["attention"]
    implementation = command_implementation(shell(tmp_path, 'cp "$1/dC.npy" "$2/C.npy"'), op, ("causal",))
    case = case_of("attention", SeededDraws(np.random.default_rng(0)), "float32", (), ("mask",))
    with pytest.raises(NotOffered, match="mask"):
        implementation.answers(op, case, "float32")
    with pytest.raises(NotOffered, match="mask"):
        check_offer(implementation.forward("attention"), case)
    plain = replace(case, options={"causal": True, "query_offset": 0})  # 0 is what it would take anyhow
    assert implementation.answers(op, plain, "float32")
    with pytest.raises(NotOffered, match="query_offset"):
        implementation.answers(op, replace(case, options={"causal": True, "query_offset": 1}), "float32")


def test_a_command_of_a_forward_alone_is_seen_by_what_it_writes(tmp_path):
    forward = command_candidate(shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"'), "relu")
    assert (forward.kind, forward.op.differentiable, forward.framework) == ("forward", (), "files")
    both = command_candidate(shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"; cp "$1/dY.npy" "$2/dX.npy"'), "relu")
    assert (both.kind, both.op.differentiable) == ("files", ("X",))
    broken = command_candidate(shell(tmp_path, "exit 1"), "attention", ("mask",))
    assert broken.kind == "files"
    assert broken.not_checked == ("bias", "causal", "query_offset", "scale", "keep", "p")
    needed = command_candidate(shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"'), "dropout")
    assert needed.not_checked == ()  # without keep and p there is no dropout
    linear = command_candidate(shell(tmp_path, 'test ! -e "$1/bias.npy"; cp "$1/X.npy" "$2/Y.npy"'), "linear")
    assert (linear.kind, linear.not_checked) == ("forward", ("bias",))


def test_a_gradient_that_is_not_written_is_missing(tmp_path):
    implementation = command_implementation(shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"'), OPS["relu"])
    seen = observe(implementation, OPS["relu"], relu_case(), "float32")
    assert "dX is missing" in seen.verdicts["dX"].wrong


def test_other_files_are_ignored_and_told(tmp_path):
    implementation = command_implementation(
        shell(tmp_path, 'cp "$1/X.npy" "$2/Y.npy"; cp "$1/X.npy" "$2/Z.npy"; mkdir "$2/log"; echo hello > "$2/Y.txt"'),
        OPS["relu"],
    )
    assert implementation.answers(OPS["relu"], relu_case(), "float32").keys() == {"Y"}
    assert implementation.command.ignored == {"Z.npy", "log", "Y.txt"}


def test_a_megabyte_on_stdout_and_stderr_does_no_harm(tmp_path):
    body = 'head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; cp "$1/X.npy" "$2/Y.npy"'
    assert answer_of(shell(tmp_path, body)).keys() == {"Y"}


def test_a_failure_says_the_last_thing_that_the_command_said(tmp_path):
    fails(shell(tmp_path, "echo first >&2; echo 'no such kernel' >&2; exit 3"), "exit status 3", ": no such kernel")
    fails(shell(tmp_path, "kill -SEGV $$"), "SIGSEGV")
    fails(shell(tmp_path, "printf '\\033[31mred\\033[0m\\n\\n' >&2; exit 1"), ": [31mred[0m")
    fails(shell(tmp_path, "exit 0"), "wrote no Y.npy")
    fails(shell(tmp_path, 'rm -r "$2"'), "wrote no Y.npy")
    fails(shell(tmp_path, 'rm -r "$2"; echo > "$2"'), "wrote no Y.npy")


def test_a_program_that_the_system_cannot_start_is_told(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and nothing more")
    program.chmod(0o755)
    fails(f"{program} DIR_IN DIR_OUT", "cannot be started")


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path):
    mark = tmp_path / "alive"
    body = f"(sleep 1; echo > {mark}) & sleep 30"
    before = time.monotonic()
    fails(shell(tmp_path, body), "was not done after 0.3 s", time_limit=0.3)
    assert time.monotonic() - before < 5.0
    time.sleep(1.0)
    assert not mark.exists()


def test_children_do_not_outlive_a_command_that_came_back(tmp_path):
    mark = tmp_path / "alive"
    answer_of(shell(tmp_path, f'(sleep 0.5; echo > {mark}) & cp "$1/X.npy" "$2/Y.npy"'))
    time.sleep(0.7)
    assert not mark.exists()


def test_wrong_shapes_and_dtypes_are_judged_as_any_other_answer(tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((2, 3), np.float64))
    np.save(tmp_path / "small.npy", np.zeros((3, 2), np.float32))
    command = shell(tmp_path, f'cp {tmp_path}/wide.npy "$2/Y.npy"; cp {tmp_path}/small.npy "$2/dX.npy"')
    seen = observe(command_implementation(command, OPS["relu"]), OPS["relu"], relu_case(), "float32")
    assert "dtype float64, expected float32" in seen.verdicts["Y"].wrong
    assert "shape (3, 2), expected (2, 3)" in seen.verdicts["dX"].wrong


def test_other_byte_orders_and_fortran_order_are_read(tmp_path):
    case = relu_case()
    np.save(tmp_path / "swapped.npy", np.maximum(case.operands["X"], 0).astype(">f4"))
    gradient = np.where(case.operands["X"] > 0, case.upstream["dY"], 0).astype(np.float32)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(gradient))
    command = shell(tmp_path, f'cp {tmp_path}/swapped.npy "$2/Y.npy"; cp {tmp_path}/fortran.npy "$2/dX.npy"')
    assert observe(command_implementation(command, OPS["relu"]), OPS["relu"], case, "float32").wrong == ""


class Unpickled:
    """Would leave a mark if it were ever unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


def test_objects_are_never_unpickled(tmp_path):
    mark = tmp_path / "executed"
    np.save(tmp_path / "objects.npy", np.array([Unpickled(mark)], object), allow_pickle=True)
    fails(shell(tmp_path, f'cp {tmp_path}/objects.npy "$2/Y.npy"'), "Y.npy holds Python objects")
    assert not mark.exists()


def bad_file(folder: Path, data: bytes) -> str:
    (folder / "bad.npy").write_bytes(data)
    return shell(folder, f'cp {folder}/bad.npy "$2/Y.npy"')


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no .npy file"),
        (b"1.0, 2.0, 3.0", "is no .npy file"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"), "holds 0 bytes of numbers"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}") + bytes(23), "holds 23 bytes"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}") + bytes(25), "takes 24"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 10**9)}"), "header that cannot be read"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000)}"), "holds 0 bytes"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}") + bytes(24), "shape (-2, -3)"),
        (header("{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}") + bytes(16), "expected numbers"),
        (header("{'descr': '|V8', 'fortran_order': False, 'shape': (1,)}") + bytes(8), "expected numbers"),
        (header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}") + bytes(4), "expected numbers"),
        (header("__import__('os').mkdir('executed')"), "header that cannot be read"),
        (header("(" * 5000), "header that cannot be read"),
        (header("{}", b"\x09\x00"), "version 9.0"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "header that cannot be read"),
    ],
)
def test_a_file_that_is_no_array_is_told_in_one_line(tmp_path, data, said):
    fails(bad_file(tmp_path, data), "Y.npy", said)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    fails(shell(tmp_path, 'mkfifo "$2/Y.npy"'), "Y.npy is no file")
    fails(shell(tmp_path, 'mkdir "$2/Y.npy"'), "Y.npy is no file")
    fails(shell(tmp_path, 'ln -s /dev/zero "$2/Y.npy"'), "Y.npy is no file")
    fails(shell(tmp_path, 'ln -s Y.npy "$2/Y.npy"'), "Y.npy is no file")
    fails(shell(tmp_path, 'truncate -s 1G "$2/Y.npy"'), "more than any answer")


def test_bfloat16_of_two_bytes_is_read(tmp_path):
    X = np.array([[1.0, -2.5, 3.0]], np.float32)
    np.save(tmp_path / "half.npy", (X.view(np.uint32) >> 16).astype("<u2").view("V2"))
    answer = answer_of(shell(tmp_path, f'cp {tmp_path}/half.npy "$2/Y.npy"'), dtype="bfloat16")
    assert answer["Y"].dtype == "bfloat16"
    np.testing.assert_array_equal(answer["Y"].value, X)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "has no DIR_IN"),
        ("cat", "has no DIR_IN"),
        ("cat DIR_IN", "has no DIR_OUT"),
        ("cat 'DIR_IN DIR_OUT", "cannot be split into words"),
        ("./no_such_program DIR_IN DIR_OUT", "there is no program ./no_such_program"),
        ("DIR_IN DIR_OUT", "has no DIR_IN"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command, said):
    with pytest.raises(ValueError, match="--command") as caught:
        parse_command(command, OPS["relu"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_nearest_program_and_option_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell(tmp_path, "exit 0")
    with pytest.raises(ValueError, match=r"did you mean \./candidate\.sh\?"):
        parse_command("./candidat.sh DIR_IN DIR_OUT", OPS["attention"])
    with pytest.raises(ValueError, match=r"did you mean \./candidate\.sh\?"):
        parse_command("candidate.sh DIR_IN DIR_OUT", OPS["attention"])
    Path("candidate.sh").chmod(0o644)
    with pytest.raises(ValueError, match="may not be executed"):
        parse_command("./candidate.sh DIR_IN DIR_OUT", OPS["attention"])
    with pytest.raises(ValueError, match="did you mean 'mask'"):
        parse_command("cat DIR_IN DIR_OUT", OPS["attention"], ("masks",))
    with pytest.raises(ValueError, match="it has none"):
        parse_command("cat DIR_IN DIR_OUT", OPS["relu"], ("mask",))
    with pytest.raises(ValueError, match="--time-limit"):
        parse_command("cat DIR_IN DIR_OUT", OPS["relu"], (), float("nan"))


def test_folders_may_stand_anywhere_in_a_word(tmp_path):
    body = 'in=${1#--in=}; out=${2#--out=}; cp "$in/X.npy" "$out/Y.npy"'
    command = shell(tmp_path, body).replace("DIR_IN DIR_OUT", "--in=DIR_IN --out=DIR_OUT")
    assert answer_of(command).keys() == {"Y"}


def test_a_view_is_written_in_c_order(tmp_path):
    X = np.arange(6.0).reshape(2, 3).T
    write_npy(tmp_path / "X.npy", X, "float64")
    assert b"'fortran_order': False" in (tmp_path / "X.npy").read_bytes()
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), X)


def test_a_float16_array_keeps_its_dtype(tmp_path):
    write_npy(tmp_path / "X.npy", np.array([1.0, 2.0]), "float16")
    assert np.load(tmp_path / "X.npy").dtype == np.float16


def test_the_reference_behind_files_is_right_on_hard_cases(tmp_path):
    """What travels is what a pair is given: files answer as the reference does when it is called."""
    op, dtype = OPS["layer_norm"], "float32"
    case = draw_case(op, 0, 1).rounded(PRECISIONS[dtype])
    operands, options, upstream = prepared(case, dtype)
    Y, cache = reference_numpy.layer_norm(*operands.values(), **options)
    gradients = reference_numpy.layer_norm_backward(as_upstream(op, upstream), cache)
    expected = dict(zip(("Y", "dX", "dscale", "dshift"), (Y, *gradients), strict=True))
    body = """
import numpy as np
import reference_numpy as r
a = {p.stem: np.load(p) for p in into.glob("*.npy")}
Y, cache = r.layer_norm(a["X"], a["scale"], a["shift"], **({"epsilon": a["epsilon"].item()} if "epsilon" in a else {}))
for name, value in zip(("Y", "dX", "dscale", "dshift"), (Y, *r.layer_norm_backward(a["dY"], cache))):
    np.save(out / f"{name}.npy", value)
"""
    answer = command_implementation(script(tmp_path, body), op, ("epsilon",)).answers(op, case, dtype)
    assert answer.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(answer[name].value, value)
