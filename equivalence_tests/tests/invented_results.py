"""A result file as no machine gave it: random, plausible rows, to test what is made from one."""

from __future__ import annotations

import functools
import pickle

import numpy as np

from benchmarks.bars import DECODE, RECURRENCE, RNN, SOURCE, STEP, TINY, TORCH
from benchmarks.rows import Results, Row

FAST, REFERENCE = "numpy fast", "numpy reference"
SPEED = {
    FAST: 1.0,
    REFERENCE: 3.4,
    "torch eager": 2.3,
    "torch sdpa": 2.15,
    "torch compile": 2.05,
    "torch eager, chunked loss": 2.4,
    "torch sdpa, chunked loss": 2.2,
    "torch compile, chunked loss": 2.1,
    "transformers": 2.9,
    "torch sdpa flash": 1.05,
    "torch sdpa math": 3.1,
    "torch sdpa efficient": 1.4,
}
MACHINE = {
    "processor": "Invented 9000, avx512f",
    "cores": 2,
    "memory": 2**35,
    "blas": [{"library": "openblas", "kernel": "SkylakeX", "threads": 2}],
    "gpu": None,
}


class Invention:
    """Rows of one work get a common noise in each round, as on a machine that is shared."""

    def __init__(self, seed: int = 0, rounds: int = 11) -> None:
        self.rng = np.random.default_rng(seed)
        self.rounds = rounds
        self.rows: list[Row] = []

    def add(self, suite, work, part, sizes, seconds, contestants, dtype="float32", device="cpu", **more):
        noise = 1.0 + 0.15 * self.rng.random(self.rounds) ** 2
        for name in contestants:
            factor = SPEED.get(name.replace(" cuda", ""), 2.0) * (0.02 if device == "cuda" else 1.0)
            own = 1.0 + 0.02 * self.rng.standard_normal(self.rounds)
            row = Row(suite, work, part, dict(sizes), dtype, name, device, **more)
            row.timed([float(s) for s in seconds * factor * noise * own])
            row.share, row.share_after = (float(s) for s in self.rng.uniform(0.05, 0.5, 2))
            row.error = float(self.rng.uniform(0.3, 9.0))
            row.checked = "whole"
            row.peak_bytes = int(4e6 + 7e8 * seconds * factor)
            self.rows.append(row)
        return self.rows[-len(contestants) :]

    def status(self, suite, work, part, sizes, contestant, status, why, device="cpu"):
        self.rows.append(Row(suite, work, part, dict(sizes), "float32", contestant, device, status, why))


def invented(seed: int = 0, gpu: bool = False) -> Results:
    """Every suite of the benchmark, small; with rows that are wrong, out of memory and without a GPU. Anew each time."""
    found: Results = pickle.loads(_invented(seed, gpu))
    return found


@functools.cache
def _invented(seed: int, gpu: bool) -> bytes:
    made = Invention(seed)
    _train(made)
    _attention(made, gpu)
    _crossover(made, gpu)
    for cache, factor in ((True, 1.0), (False, 20.0)):
        more = {"bytes": 3.2e10, "tokens": 64, "settings": {"cache": cache, "tokens": 64}}
        both, sizes = [FAST, "transformers"], {"B": 1, "n": 32, **DECODE.sizes}
        made.add("generate", "generate", "generate", sizes, 0.7 * factor, both, **more)
    made.add("recurrence", "rnn", "forward+backward", RECURRENCE.sizes, 0.039, [FAST, "torch eager"])
    for work, n in (("softmax", 2**18), ("layer_norm", 2**20), ("linear", 2**22)):
        work_done = {"flops": 1.0 * n * (200.0 if work == "linear" else 1.0), "bytes": 8.0 * n}
        made.add("ops", work, "forward", {"n": n}, n * 2e-9, [FAST, REFERENCE, "torch eager"], **work_done)
    for dtype, factor in (("float64", 2.0), ("tf32", 0.6), ("bfloat16", 0.5)):
        made.add(
            "train",
            "gpt_step",
            "step",
            {**STEP.sizes, "dropout": 0.0},
            0.7 * factor,
            [FAST, "torch eager"],
            dtype=dtype,
        )
    made.status("ops", "gelu", "forward", {"n": 4096}, "mine.py:gelu", "wrong", "Y is 41 times its budget off.")
    ceilings = {"gemm float32 numpy": 4.65e11, "gemm float32 torch": 1.9e11, "gemm float32": 4.65e11}
    ceilings |= {"gemv float32": 5.8e10, "copy numpy": 1.4e10, "copy torch": 1.2e10, "copy": 1.4e10}
    machine = {**MACHINE, "gpu": {"name": "NVIDIA H200", "memory": 2**37} if gpu else None}
    results = Results(
        machine, "gemelos bench --full", "0" * 40, "2026-01-02T03:04:05+00:00", 431.0, False, ceilings, made.rows
    )
    return pickle.dumps(results)


def _train(made: Invention) -> None:
    flops = {"flops": 2.45e11, "tokens": 2048}
    made.add("train", "gpt_step", "step", {**STEP.sizes, "dropout": 0.0}, 0.62, [FAST, REFERENCE, *TORCH], **flops)
    made.add("train", "gpt_step", "step", {**STEP.sizes, "dropout": 0.1}, 0.71, [FAST, "torch eager"], **flops)
    made.add("train", "gpt_step", "step", SOURCE.sizes, 5.1, [FAST, "torch eager"], flops=1.9e12, tokens=8192)
    made.add("train", "gpt_step", "step", {**TINY.sizes, "v": 64}, 1.6e-4, [FAST, "torch eager"], tokens=16)
    made.add("train", "rnn_step", "step", RNN.sizes, 4.2, [FAST, *RNN.others], tokens=8192)
    share = {FAST: (0.26, 0.12, 0.05, 0.07, 0.09), "torch eager": (0.55, 0.3, 0.14, 0.2, 0.12)}
    parts = ("linear", "attention", "layer_norm", "gelu", "cross_entropy")
    for name, seconds in share.items():
        for part, each in zip(parts, seconds, strict=True):
            row = Row("train", "gpt_step share", part, STEP.sizes, "float32", name, median=each)
            made.rows.append(row)
        loss = [8.9 * float(np.exp(-step / 40.0)) + 3.0 + 0.05 * float(made.rng.random()) for step in range(200)]
        times = [sum(seconds) * (step + 1) for step in range(200)]
        settings = {"loss": loss, "time": times}
        made.rows.append(Row("train", "loss against time", "step", STEP.sizes, "float32", name, settings=settings))


def _attention(made: Invention, gpu: bool) -> None:
    names = [FAST, REFERENCE, "torch eager", "torch sdpa", "torch sdpa flash", "torch sdpa math", "torch compile"]
    for part, factor in (("forward", 1.0), ("forward+backward", 3.4)):
        for n in (64, 256, 1024, 2048, 4096, 8192):
            sizes = {"B": 1, "H": 8, "n": n, "c": 64}
            whole = [REFERENCE, "torch eager", "torch sdpa math"] if n > 4096 else []
            seconds = factor * (2e-5 + 5.2e-9 * n * n)
            work = {"flops": factor * 2.0 * 8 * n * n * 128, "bytes": factor * 16.0 * 8 * n * 64}
            made.add("attention", "attention", part, sizes, seconds, [x for x in names if x not in whole], **work)
            for name in whole:
                made.status("attention", "attention", part, sizes, name, "out of memory", "It needs 17 GB.")
            if gpu:
                made.add("attention", "attention", part, sizes, seconds, ["torch cuda sdpa"], device="cuda")
            else:
                made.status("attention", "attention", part, sizes, "torch cuda sdpa", "no GPU", "No CUDA.", "cuda")
    made.add("attention", "attention", "forward+backward", {"B": 1, "H": 1, "n": 65536, "c": 64}, 0.9, [FAST])


def _crossover(made: Invention, gpu: bool) -> None:
    for n in (16, 64, 256, 1024, 4096):
        sizes = {"n": n, "d": 64}
        seconds = 1e-5 + 1e-10 * n * n * 64
        made.add("crossover", "self_attention", "forward+backward", sizes, seconds, [FAST, "torch eager"])
        if not gpu:
            made.status(
                "crossover",
                "self_attention",
                "forward+backward",
                sizes,
                "torch cuda eager",
                "no GPU",
                "No CUDA.",
                "cuda",
            )
            continue
        for part, own in (
            ("forward+backward", seconds + 4e-3),
            ("copy to device", 5e-4 + n * 1e-7),
            ("copy to host", 4e-4),
        ):
            made.add("crossover", "self_attention", part, sizes, own, ["torch cuda eager"], device="cuda")
