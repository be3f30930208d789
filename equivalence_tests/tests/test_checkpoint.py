"""Checkpoints: laws, known mistakes, kills at any moment, and every file that is not one."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equivalence_tests.checks import attempt
from equivalence_tests.mistakes import quiet
from equivalence_tests.mistakes.checkpoint import MISTAKES
from equivalence_tests.parts.checkpoint import PARTS
from equivalence_tests.parts.checkpoint_example import difference, example
from reference_numpy import checkpoint as module
from reference_numpy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from reference_numpy.tokenizer import Tokenizer

LAWS = PARTS["checkpoint"]
ROOT = Path(module.__file__).parents[1]
KILLS = 20

# Saves state after state, each of one number throughout; the first line says that it has begun.
SAVER = """
import sys
import numpy as np
from reference_numpy.checkpoint import Checkpoint, save_checkpoint
from reference_numpy.tokenizer import Tokenizer
start = int(sys.argv[2])
for i in range(start, start + 100_000):
    full = {name: np.full((40, 50), i, np.float32) for name in "abc"}
    m, v = ({name: p + more for name, p in full.items()} for more in (1, 2))
    state = {"step": i + 1, "exp_avg": m, "exp_avg_sq": v}
    save_checkpoint(sys.argv[1], Checkpoint("rnn", {"vocab_size": 5}, Tokenizer(["a"]), full, state, {"i": i}))
    if i == start:
        print("begun", flush=True)
"""

# What saving or loading 10 million numbers adds to the peak memory, in multiples of them. Not by getrusage: its peak is
# the parent's as well.
MEASURER = """
import sys
import numpy as np
from reference_numpy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from reference_numpy.tokenizer import Tokenizer
peak = lambda: 1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
size = 40_000_000
if sys.argv[2] == "save":
    arrays = [{n: np.full(size // 48, i, np.float32) for n in "abcd"} for i in range(3)]
    state = {"step": 1, "exp_avg": arrays[1], "exp_avg_sq": arrays[2]}
    before = peak()
    save_checkpoint(sys.argv[1], Checkpoint("rnn", {"vocab_size": 5}, Tokenizer(["a"]), arrays[0], state, {}))
else:
    before = peak()
    load_checkpoint(sys.argv[1])
print((peak() - before) / size)
"""


@pytest.mark.parametrize("law", LAWS, ids=[law.__name__ for law in LAWS])
def test_the_law_holds(law):
    assert law(module) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.id for mistake in MISTAKES])
def test_every_mistake_is_caught(mistake):
    laws = [law for law in LAWS if mistake.accepts or "refuses" not in law.__name__]
    with quiet():
        assert any(attempt(partial(law, mistake.forward)) for law in laws), mistake.sentence


def test_every_listed_mistake_is_coded_once():
    ids = [mistake.id for mistake in MISTAKES]
    assert {"M173", "M174", "CKP-04"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_killed_at_any_moment_it_is_one_of_the_states_that_were_saved(tmp_path):
    path, rng, last = tmp_path / "run", np.random.default_rng(0), 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", SAVER, str(path), str(last)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            time.sleep(rng.uniform(0.0, 0.02))
            process.send_signal(signal.SIGKILL)
        found = load_checkpoint(path)
        i = found.training["i"]
        assert i >= last
        assert found.state["step"] == i + 1
        for arrays, number in ((found.params, i), (found.state["exp_avg"], i + 1), (found.state["exp_avg_sq"], i + 2)):
            assert all((array == number).all() for array in arrays.values())
        assert {file.name for file in tmp_path.iterdir()} <= {"run", "run.tmp"}
        last = i
    assert last > KILLS  # it was killed while saving, not before


def test_saving_needs_no_memory_and_loading_little_more_than_the_arrays(tmp_path):
    used = []
    for what in ("save", "load"):
        command = [sys.executable, "-c", MEASURER, str(tmp_path / "large"), what]
        used.append(float(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout))
    assert used[0] < 0.5  # nothing but what the interpreter needs; a copy of all tensors would be 1
    assert 0.9 < used[1] < 1.5  # the arrays, one of twelve once more, and what the interpreter needs


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "c"
    save_checkpoint(path, example())
    return path.read_bytes()


def refused_or_the_same(path, content):
    path.write_bytes(content)
    refusal = ""
    try:
        found = load_checkpoint(path)
    except ValueError as error:
        refusal = str(error)
    assert (str(path) in refusal and "\n" not in refusal) if refusal else difference(found, example()) == ""


HURRIED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)


@HURRIED
@given(data=st.data())
def test_any_byte_changed_is_refused_or_changes_nothing(whole, tmp_path, data):
    at, new = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    refused_or_the_same(tmp_path / "c", whole[:at] + bytes([new]) + whole[at + 1 :])


@HURRIED
@given(data=st.data())
def test_cut_or_mended_anywhere_it_is_refused(whole, tmp_path, data):
    at, skip = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 64))
    refused_or_the_same(tmp_path / "c", whole[:at])
    refused_or_the_same(tmp_path / "c", whole[:at] + whole[at + skip :])
    refused_or_the_same(tmp_path / "c", whole[:at] + whole[at : at + skip] * 2 + whole[at + skip :])


@HURRIED
@given(content=st.binary(max_size=200))
def test_noise_is_refused(tmp_path, content):
    path = tmp_path / "noise"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="noise"):
        load_checkpoint(path)


def signed(path, change):
    """A file with other metadata or tensors and the digest that belongs to it: only its own sense can give it away."""
    metadata, tensors = module._read("", path)
    del metadata["sha256"]
    change(metadata, tensors)
    metadata["sha256"] = module._digest(metadata, tensors)
    with path.open("wb") as file:
        module._write(file, metadata, tensors)


def header_of_two_bytes(dtype):
    """A safetensors file of one element, of a dtype that NumPy need not have."""
    header = json.dumps({"params/p": {"dtype": dtype, "shape": [1], "data_offsets": [0, 2]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(2)


CHANGES = {
    "a tensor too many": lambda metadata, tensors: tensors.update(more=np.ones(2)),
    "a moment too many": lambda metadata, tensors: tensors.update({"exp_avg/more": np.ones(2)}),
    "a moment missing": lambda metadata, tensors: tensors.pop("exp_avg/scalar"),
    "a moment of another shape": lambda metadata, tensors: tensors.update({"exp_avg/scalar": np.ones(2)}),
    "a moment of another dtype": lambda metadata, tensors: tensors.update({"exp_avg/scalar": np.ones((), np.float32)}),
    "no parameters": lambda metadata, tensors: [tensors.pop(name) for name in list(tensors)],
    "moments without a step": lambda metadata, tensors: metadata.update(optimizer_step="null"),
    "a step of 0": lambda metadata, tensors: metadata.update(optimizer_step="0"),
    "half a step": lambda metadata, tensors: metadata.update(optimizer_step="1.5"),
    "another vocabulary": lambda metadata, tensors: metadata.update(vocabulary='["a"]'),
    "a token twice": lambda metadata, tensors: metadata.update(vocabulary='["a", "a", "b", "c", "d"]'),
    "numbers for tokens": lambda metadata, tensors: metadata.update(vocabulary="[1, 2, 3, 4, 5]"),
    "a string for a vocabulary": lambda metadata, tensors: metadata.update(vocabulary='"abcde"'),
    "an unknown option": lambda metadata, tensors: metadata.update(tokenizer='{"upper": true}'),
    "options as a list": lambda metadata, tensors: metadata.update(tokenizer="[1]"),
    "another model": lambda metadata, tensors: metadata.update(model='"bert"'),
    "a list for a model": lambda metadata, tensors: metadata.update(model="[]"),
    "config as a list": lambda metadata, tensors: metadata.update(config="[]"),
    "training as a number": lambda metadata, tensors: metadata.update(training="1"),
    "no config": lambda metadata, tensors: metadata.pop("config"),
    "no JSON": lambda metadata, tensors: metadata.update(config="{"),
    "deep JSON": lambda metadata, tensors: metadata.update(training="[" * 100_000),
    "a newer version": lambda metadata, tensors: metadata.update(version="2"),
    "another format": lambda metadata, tensors: metadata.update(format="pt"),
    "something nobody knows": lambda metadata, tensors: metadata.update(more="1"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_well_signed_but_does_not_fit_itself_is_refused(tmp_path, change):
    path = tmp_path / "odd"
    save_checkpoint(path, example())
    signed(path, lambda metadata, tensors: None)
    assert difference(load_checkpoint(path), example()) == ""
    signed(path, change)
    with pytest.raises(ValueError, match="odd") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_the_new_file_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    """fsync of the file, then the rename, then fsync of the folder."""
    done = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("rename"), replace(*names)))
    save_checkpoint(tmp_path / "c", example())
    assert done == ["file", "rename", "folder"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_disk_that_fails_late_leaves_the_last_good_one(tmp_path, monkeypatch, broken):
    path = tmp_path / "good"
    save_checkpoint(path, example(steps=1))

    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fails)
        with pytest.raises(OSError, match=r"good.*No space left") as caught:
            save_checkpoint(path, example(steps=2))
    assert "\n" not in str(caught.value)
    assert difference(load_checkpoint(path), example(steps=1)) == ""
    assert [file.name for file in tmp_path.iterdir()] == ["good"]


def test_interrupted_it_leaves_the_last_good_one(tmp_path, monkeypatch):
    path = tmp_path / "good"
    save_checkpoint(path, example(steps=1))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(path, example(steps=2))
    assert difference(load_checkpoint(path), example(steps=1)) == ""
    assert [file.name for file in tmp_path.iterdir()] == ["good"]


def test_a_symbolic_link_stays_one_and_what_lies_under_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "disk" / "c.tmp").symlink_to(tmp_path / "precious")
    (tmp_path / "latest").symlink_to(tmp_path / "disk" / "c")
    save_checkpoint(tmp_path / "latest", example())
    assert (tmp_path / "latest").is_symlink()
    assert difference(load_checkpoint(tmp_path / "disk" / "c"), example()) == ""
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"text", "is no checkpoint, or a damaged one"),
        *((header_of_two_bytes(dtype), f"has a tensor of {dtype}") for dtype in ("BF16", "F16", "I16")),
    ],
)
def test_the_reason_of_a_refusal_is_said(tmp_path, content, reason):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        load_checkpoint(tmp_path / "c")


def test_the_tensors_are_aligned(whole):
    assert int.from_bytes(whole[:8], "little") % 8 == 0


def test_a_folder_is_not_written_over(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        save_checkpoint(tmp_path / "folder", example())
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_ordinary_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "loop"):
        with pytest.raises(ValueError, match=name):
            load_checkpoint(tmp_path / name)


def test_names_with_slashes_dots_and_spaces_come_back(tmp_path):
    names = ("", "a", "params/a", "exp_avg/a", "a/../b", "with space", "ñ", "__metadata__")
    params = {name: np.full(2, float(i)) for i, name in enumerate(names)}
    saved = Checkpoint("rnn", {"vocab_size": 4}, Tokenizer([]), params, {}, {})
    save_checkpoint(tmp_path / "c", saved)
    assert difference(load_checkpoint(tmp_path / "c"), saved) == ""
