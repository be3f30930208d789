"""`python -m equivalence_tests.kills`: trainings that are killed at random moments and taken up again.

SIGKILL cannot be caught: whatever the process was doing, it is gone. After every kill the checkpoint must load, and in the
end the killed training must have written the same checkpoint and the same log, to the last byte, as one left in peace.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from equivalence_tests.flags import Parser
from equivalence_tests.implementations import has_torch
from equivalence_tests.train import CHECKPOINT, LOG, TWINS
from reference_numpy.checkpoint import load_checkpoint
from reference_numpy.corpus import corpus_path

KILLS = 50
EARLY = 5  # one kill in so many may come before the first step: while the process starts, reads, resumes
TRAINING = (
    "--epochs 2 --embedding-dim 16 --head-dim 8 --num-heads 2 --num-layers 1 --seq-length 33 --context-window 32 "
)
TRAINING += "--batch-size 8 --checkpoint-every 2 --min-frequency 3"


class Damaged(Exception):
    """A kill lost a checkpoint or changed the result."""


def command(twin: str, data: Path, folder: Path, resume: bool) -> list[str]:
    """The one command line of all these trainings."""
    start = [sys.executable, "-m", "equivalence_tests", "train", "--twin", twin, "--out", str(folder)]
    if resume:
        return [*start, "--resume"]
    return [*start, "--data", str(data), *TRAINING.split()]


def environment() -> dict[str, str]:
    """One thread each: the arrays are tiny."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def in_peace(twin: str, data: Path, folder: Path) -> dict[str, bytes]:
    """What an uninterrupted training writes."""
    subprocess.run(command(twin, data, folder, False), env=environment(), capture_output=True, check=True)
    return {name: (folder / name).read_bytes() for name in (CHECKPOINT, LOG)}


def killed(twin: str, data: Path, folder: Path, chance: random.Random) -> bool:
    """Start or resume, and kill at a random moment; whether it was killed before it ended by itself."""
    path = folder / CHECKPOINT
    log = folder / LOG
    before = log.stat().st_mtime_ns if log.exists() else 0
    process = subprocess.Popen(
        command(twin, data, folder, path.exists()), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        if chance.randrange(EARLY):  # wait for the first step
            while process.poll() is None and (log.stat().st_mtime_ns if log.exists() else 0) <= before:
                time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.6))
    finally:
        process.kill()
        _, said = process.communicate()
    if process.returncode not in (0, -9):
        raise Damaged(f"the training ended with {process.returncode}: {said.decode(errors='replace').strip()[-300:]}")
    if path.exists():
        try:
            load_checkpoint(path)
        except ValueError as error:
            raise Damaged(str(error)) from None
    return process.returncode != 0


def try_twin(twin: str, kills: int, seed: int, bar: Progress) -> int:
    """Kill until `kills` kills are done, training after training; how many trainings that took."""
    chance, done, trainings = random.Random(seed), 0, 0
    task = bar.add_task(twin, total=kills)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "tales.txt"
        data.write_text("".join(corpus_path().read_text("utf-8").splitlines(keepends=True)[:60]), "utf-8")
        expected = in_peace(twin, data, Path(place) / "peace")
        while done < kills:
            folder = Path(place) / f"killed-{trainings}"
            while done < kills and killed(twin, data, folder, chance):
                done += 1
                bar.advance(task)
            if not (folder / CHECKPOINT).exists() or done == kills:  # left in peace for what remains
                resume = (folder / CHECKPOINT).exists()
                subprocess.run(command(twin, data, folder, resume), env=environment(), capture_output=True, check=True)
            trainings += 1
            for name, content in expected.items():
                if (folder / name).read_bytes() != content:
                    raise Damaged(f"after {done} kills {name} differs from that of an uninterrupted training")
    return trainings


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="python -m equivalence_tests.kills",
        description="Kill small trainings with SIGKILL at random moments, resume them, and compare what they write in "
        "the end with an uninterrupted training, byte by byte; every twin. "
        "Exit status: 0 if nothing was lost, 1 if something was.",
    )
    parse.add_argument("--kills", type=int, default=KILLS, help="of each twin (default: %(default)s)")
    parse.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    return parse


def main(argv: list[str] | None = None) -> int:
    given = parser().parse_args(argv)
    if given.kills < 1:
        print(f"kills: --kills: {given.kills} came, expected at least 1", file=sys.stderr)
        return 2
    say = Console(soft_wrap=True, highlight=False)
    twins = TWINS if has_torch() else TWINS[:2]
    try:
        with Progress(console=say, transient=True, disable=not say.is_terminal) as bar:
            for twin in twins:
                trainings = try_twin(twin, given.kills, given.seed, bar)
                bar.console.print(
                    f"{twin}: {given.kills} kills in {trainings} trainings, no checkpoint lost, no bit changed"
                )
    except Damaged as error:
        say.print(f"DAMAGED: {error}", style="bold red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
