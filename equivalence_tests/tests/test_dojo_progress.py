"""Progress survives anything: a kill at any moment, two writers at once, a broken or foreign file."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from equivalence_tests.dojo import progress
from equivalence_tests.dojo.progress import Progress, State

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from equivalence_tests.dojo import progress

folder, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def one_more(before):
    state = before.of(name)
    return before.with_state(name, replace(state, attempts=state.attempts + 1, last={"en": "x" * 20000}))
print("ready", flush=True)
for _ in range(times):
    progress.update(folder, one_more)
"""


def writer(folder, name, times):
    command = [sys.executable, "-c", WRITER, str(folder), name, str(times)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)


def test_what_is_written_is_read_again(tmp_path):
    kept = Progress("es", {"softmax": State(True, 3, 2, {}), "rnn": State(False, 1, 0, {"en": "a", "es": "á"})})
    assert progress.update(tmp_path, lambda _: kept) == kept
    assert progress.read(tmp_path) == kept
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == [progress.NAME]


def test_a_kill_at_any_moment_loses_nothing_that_was_kept(tmp_path):
    counts = []
    for wait in (0.0, 0.001, 0.003, 0.01, 0.02, 0.05):
        process = writer(tmp_path, "softmax", 10_000)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        counts.append(progress.read(tmp_path).of("softmax").attempts)
    assert counts == sorted(counts)
    assert counts[-1] > 0
    after = progress.update(tmp_path, lambda before: before.with_state("rnn", State(True)))  # no lock is left behind
    assert after.of("softmax").attempts == counts[-1]
    assert after.of("rnn").passed


def test_two_who_write_at_once_lose_no_attempt(tmp_path):
    both = [writer(tmp_path, "softmax", 60), writer(tmp_path, "softmax", 60)]
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert progress.read(tmp_path).of("softmax").attempts == 120


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"katas": {}}',
        '{"gemelos_dojo": 2, "language": "en", "katas": {}}',
        '{"gemelos_dojo": 1, "language": "fr", "katas": {}}',
        '{"gemelos_dojo": 1, "language": "en", "katas": {"softmax": {"passed": "yes"}}}',
        '{"gemelos_dojo": 1, "language": "en", "katas": {"softmax": {"attempts": -1}}}',
        '{"gemelos_dojo": 1, "language": "en", "katas": {"softmax": {"speed": 1}}}',
        '{"gemelos_dojo": 1, "language": "en", "katas": [1]}',
        "[" * 100_000,
    ],
)
def test_a_broken_or_foreign_file_is_one_line_and_is_put_aside(tmp_path, text):
    (tmp_path / progress.NAME).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"progress\.json") as told:
        progress.read(tmp_path)
    assert "\n" not in str(told.value)
    aside = progress.put_aside(tmp_path)
    assert aside.read_text(encoding="utf-8") == text
    assert progress.read(tmp_path) == Progress()


def test_what_is_put_aside_never_takes_the_place_of_another(tmp_path):
    for text in ("one", "two"):
        (tmp_path / progress.NAME).write_text(text, encoding="utf-8")
        progress.put_aside(tmp_path)
    assert sorted(path.read_text() for path in tmp_path.glob(f"{progress.NAME}.broken-*")) == ["one", "two"]


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path):
    progress.update(tmp_path, lambda before: replace(before, language="es"))
    with pytest.raises(ZeroDivisionError):
        progress.update(tmp_path, lambda before: 1 / 0)
    assert json.loads((tmp_path / progress.NAME).read_text())["language"] == "es"
