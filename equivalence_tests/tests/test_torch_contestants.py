"""What torch is timed with is right, says what it cannot do, and is imported only when it is prepared."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import torch_impl
from benchmarks import torch_contestants, torch_runs
from benchmarks.inputs import case_of, inputs_of, sizes_of
from benchmarks.torch_contestants import names, prepare
from benchmarks.work import NotHere, OutOfMemory, Work
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case
from equivalence_tests.implementations import NotOffered, Tensor
from equivalence_tests.judge import judge
from equivalence_tests.ops import OPS

GPT = {"B": 2, "n": 5, "d": 6, "H": 2, "c": 3, "L": 2, "v": 11, "dropout": 0.0}
RNN = {"B": 2, "n": 5, "d": 6, "v": 11}
LOSSES = {"gpt_step": "gpt_loss", "rnn_step": "generative_rnn_loss"}
COMPILES = ("torch compile", "torch compile, chunked loss")


def work_of(name, part="step", dtype="float64", **extra):
    sizes = {"gpt_step": GPT, "generate": GPT, "rnn_step": RNN}.get(name) or sizes_of(name, 2, 2, 7, 3, 11)
    return Work("ops", name, part, sizes, dtype, extra=extra)


def answers_of(contestant, work):
    prepared = prepare(contestant, work, *inputs_of(work))
    prepared.run()
    first = prepared.outputs()
    prepared.run()
    again = prepared.outputs()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    return first


def faults(work, found):
    """What the table says of the answers, of those that the part has."""
    op = OPS[LOSSES.get(work.work, work.work)]
    arrays, options = inputs_of(work)
    if work.work in LOSSES:
        arrays = arrays | {"dloss": np.asarray(1.0)}
    operands, upstream = case_of(op, arrays)
    precision = PRECISIONS[work.dtype]
    wide = [
        {n: X.astype(np.float64) if X.dtype.kind == "f" else X for n, X in some.items()}
        for some in (operands, upstream)
    ]
    case = Case(wide[0], options, wide[1]).rounded(precision)
    exact = op.exact(case, precision)
    outputs = set(op.outputs)
    parts = {"forward": outputs, "backward": exact.keys() - outputs}
    expected = {name: exact[name] for name in parts.get(work.part, exact.keys())}
    answer = {name: Tensor(X.astype(np.float64), work.dtype) for name, X in found.items()}
    return [judgement.wrong for judgement in judge(answer, expected, precision).values() if judgement.wrong]


def works_of_ops(dtypes=("float64", "float32", "bfloat16")):
    for op in OPS.values():
        for part in ("forward", "backward", "forward+backward") if op.differentiable else ("forward",):
            for dtype in dtypes:
                yield work_of(op.name, part, dtype)


@pytest.mark.parametrize("contestant", [name for name in names("cpu") if name not in COMPILES])
def test_every_op_in_every_part_agrees_with_the_table(contestant):
    judged = 0
    for work in works_of_ops():
        try:
            found = answers_of(contestant, work)
        except NotOffered:
            continue
        assert not faults(work, found), work
        judged += 1
    if "chunked" not in contestant and contestant != "transformers":
        assert judged >= 3 * 3 * 3


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("contestant", [name for name in names("cpu") if name not in COMPILES])
def test_every_training_step_agrees_with_the_table(contestant, name):
    for dtype in ("float64", "float32"):
        work = work_of(name, dtype=dtype)
        try:
            found = answers_of(contestant, work)
        except NotOffered:
            assert contestant == "transformers" or name == "rnn_step"
            continue
        assert not faults(work, found)


def test_a_wrong_answer_would_be_seen():
    work = work_of("gpt_step", dtype="float32")
    found = answers_of("torch sdpa", work)
    name = "dblocks.1.norm_1.scale"
    assert faults(work, found | {name: found[name] * 1.001})


def test_compiled_is_what_is_timed_under_that_name(monkeypatch):
    """By a backend that needs no C++ compiler: which ops and steps go through torch.compile, and that they still agree."""
    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return graph.forward

    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: original(function, backend=backend))
    torch._dynamo.reset()
    works = [work_of("gelu", "forward+backward", "float32"), work_of("attention", "forward", "float32")]
    for work in [*works, work_of("gpt_step", dtype="float32")]:
        before = len(graphs)
        assert not faults(work, answers_of("torch compile", work))
        assert len(graphs) == before + 1


@pytest.mark.parametrize(("backend", "fused"), [("flash", True), ("math", False)])
def test_the_backend_in_a_name_is_the_one_that_runs(backend, fused):
    work = work_of("attention", "forward", "float32", causal=True)
    prepared = prepare(f"torch sdpa {backend}", work, *inputs_of(work))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        prepared.run()
    called = {event.key for event in profile.key_averages()}
    assert ("aten::_scaled_dot_product_flash_attention_for_cpu" in called) == fused


@pytest.mark.parametrize("lead", [(2,), (2, 3), ()])
@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_every_option_of_attention_means_what_it_means_in_the_twin(kind, lead):
    rng = torch.Generator().manual_seed(4)
    Q, K, V = (torch.randn((*lead, 5, 3), generator=rng, dtype=torch.float64) for _ in range(3))
    offset, mask = {"causal": True, "query_offset": 2}, torch.rand(5, 5, generator=rng) < 0.5
    for options in ({"scale": 0.3}, {"causal": True, "scale": 2.0}, offset, {"mask": mask}, {"bias": mask.double()}):
        got = torch_runs.function_of("attention", kind, "float64", options)(Q, K, V, **options)
        torch.testing.assert_close(got, torch_impl.attention(Q, K, V, **options), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_dropout_is_offered_by_those_who_take_the_masks(dtype):
    work = Work("train", "gpt_step", "step", GPT | {"dropout": 0.3}, dtype)
    losses = {}
    for contestant in names("cpu"):
        if contestant in COMPILES:
            continue
        try:
            losses[contestant] = float(answers_of(contestant, work)["loss"])
        except NotOffered:
            assert "sdpa" in contestant or contestant == "transformers"
    assert losses.keys() == {"torch eager", "torch eager, chunked loss"}
    one, other = losses.values()
    assert abs(one - other) < (1e-12 if dtype == "float64" else 2**-8) * one


@pytest.mark.parametrize("cache", [True, False])
def test_everybody_generates_the_same_tokens(cache):
    work = work_of("generate", "generate", "float32", tokens=6, cache=cache)
    found = {}
    for contestant in names("cpu"):
        try:
            found[contestant] = answers_of(contestant, work)["ids"]
        except NotOffered:
            continue
    assert len(found) == 2 + cache  # transformers decodes with its cache alone
    for ids in found.values():
        assert ids.shape == (2, 6)
        assert np.array_equal(ids, found["torch eager"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without CUDA says")
@pytest.mark.parametrize("contestant", names("cuda"))
def test_without_a_gpu_its_contestants_say_so(contestant):
    work = work_of("gpt_step", dtype="float32")
    inputs, options = inputs_of(work)
    with pytest.raises(NotHere, match="no GPU that torch can use") as caught:
        prepare(contestant, work, inputs, options)
    assert caught.value.status == "no GPU"


def test_tf32_and_copies_are_cudas_alone():
    for work in (work_of("gpt_step", dtype="tf32"), work_of("softmax", "copy to device", "float32")):
        for contestant in names("cpu"):
            with pytest.raises(NotOffered):
                prepare(contestant, work, *inputs_of(work))


def test_no_memory_is_said_as_such():
    class Greedy(torch_runs.Timed):
        def compute(self):
            return {"Y": torch.empty(1 << 50)}

    with pytest.raises(OutOfMemory, match="memory"):
        Greedy("cpu").run()


def test_the_names_need_no_torch():
    code = "import sys, benchmarks.torch_contestants as t; t.names('cuda'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_contestant_is_said():
    with pytest.raises(ValueError, match="'torch fast' came, expected one of torch eager, torch sdpa"):
        torch_contestants.prepare("torch fast", work_of("relu", "forward"), {}, {})
