"""torch's fastest training step: the same loss and gradients, whatever the settings."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.checks import agreement, draw_case
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.ops import OPS
from equivalence_tests.run_torch import from_torch, to_torch
from reference_numpy import GPTConfig, RNNConfig, dropout_masks, init_gpt, init_rnn
from torch_impl import chunked_cross_entropy, cross_entropy, gpt_loss, linear
from torch_impl.training_step import StepSettings, training_step

CONFIG = GPTConfig(13, context_window=7, embedding_dim=6, num_layers=2, num_heads=2, head_dim=5, dropout=0.3)
SETTINGS = {
    "composed": StepSettings("composed"),
    "sdpa": StepSettings(),
    "flash": StepSettings("flash"),
    "math": StepSettings("math"),
    "chunked": StepSettings(loss_rows=3),
    "composed, chunked by one": StepSettings("composed", loss_rows=1),
}
LOSSES = ("gpt_loss", "generative_rnn_loss")


def answers_of(settings):
    """The step as an implementation of the table's losses. Its upstream gradient is 1: the case's comes afterwards."""

    def answers(op, case, dtype):
        options, layouts = case.options, case.layouts
        if options.get("keep") is not None and settings.attention != "composed":
            raise NotOffered("keep")

        def tensor(name, X):
            return to_torch(X, dtype, "cpu", layouts.get(name, "contiguous"))

        params = {name: tensor(name, case.operands[name]) for name in op.gradient_names(case)}
        given = [tensor(name, case.operands[name]) for name in ("ids", "targets")]
        keep = options.get("keep")
        if keep is not None:
            given.append({name: torch.from_numpy(np.array(mask)) for name, mask in keep.items()})
        loss, grads = training_step(options["config"], params, settings, options.get("ignore_index"))(*given)
        dloss = float(case.upstream["dloss"])
        return {"loss": from_torch(loss)} | {f"d{name}": from_torch(each * dloss) for name, each in grads.items()}

    return answers


def implementation(settings):
    module = SimpleNamespace(**dict.fromkeys(LOSSES))
    return Implementation("a training step", module, False, ("float64", "float32"), answers=answers_of(settings))


@cache
def cases_of(loss, dtype):
    """Rounded cases and their exact answers, worked out once: all settings are judged on the same ones."""
    cases = [draw_case(OPS[loss], 5, index).rounded(PRECISIONS[dtype]) for index in range(12)]
    return [(case, OPS[loss].exact(case, PRECISIONS[dtype])) for case in cases if case.operands["ids"].size]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_setting_agrees_with_the_table(loss, name, dtype):
    op, judged = OPS[loss], 0
    for case, exact in cases_of(loss, dtype):
        try:
            found = agreement(implementation(SETTINGS[name]), op, case, exact, dtype)
        except NotOffered:
            continue
        for judgement in found.values():
            assert not judgement.wrong
        judged += not any(judgement.ill for judgement in found.values())
    assert judged >= 3


def numbers(config=CONFIG, shape=(3, 5), dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    made = (init_gpt if isinstance(config, GPTConfig) else init_rnn)(config, rng, dtype)
    params = {name: torch.from_numpy(X) for name, X in made.items()}
    ids, targets = (torch.from_numpy(rng.integers(0, config.vocab_size, shape)) for _ in range(2))
    return params, ids, targets


def largest_difference(some, others):
    """Relative to each tensor's largest element."""
    return max(float((some[name] - others[name]).abs().max() / others[name].abs().max()) for name in others)


@pytest.mark.parametrize("ignore_index", [None, -100, 4])
@pytest.mark.parametrize("rows", [1, 4, 15, 512])
def test_the_chunked_loss_is_the_loss_of_the_head(rows, ignore_index):
    rng = torch.Generator().manual_seed(1)
    X, weight, bias = (torch.randn(shape, generator=rng, dtype=torch.float64) for shape in ((3, 5, 6), (7, 6), (7,)))
    targets = torch.randint(0, 7, (3, 5), generator=rng)
    if ignore_index is not None:
        targets[0, :3] = ignore_index
    found = []
    for whole in (False, True):
        leaves = [each.clone().requires_grad_() for each in (X, weight, bias)]
        if whole:
            loss = cross_entropy(linear(*leaves), targets, ignore_index)
        else:
            loss = chunked_cross_entropy(*leaves, targets, ignore_index, rows)
        found.append([loss, *torch.autograd.grad(loss, leaves, torch.tensor(-1.7, dtype=torch.float64))])
    for some, other in zip(*found, strict=True):  # a few sums of at most 15 terms, in another order
        torch.testing.assert_close(some, other, rtol=0, atol=100 * torch.finfo(torch.float64).eps)


def test_the_chunked_loss_holds_no_more_logits_than_it_is_told():
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            answer = function(*args, **kwargs or {})
            if isinstance(answer, torch.Tensor):
                largest = max(largest, answer.numel())
            return answer

    X, weight, bias = torch.randn(64, 3, requires_grad=True), torch.randn(50, 3), torch.randn(50)
    with Watch():
        chunked_cross_entropy(X, weight, bias, torch.arange(64) % 50, rows=8).backward()
    assert largest == 8 * 50


@pytest.mark.parametrize("name", SETTINGS)
def test_a_step_reads_no_number_on_the_host(name):
    """Each such read would make the host wait for a GPU."""

    class NoReads(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            read = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "_to_cpu")
            assert not function.__name__.split(".")[0].endswith(read), function
            return function(*args, **kwargs or {})

    with NoReads():
        for config in (CONFIG, RNNConfig(13, 6)):
            params, ids, targets = numbers(config)
            training_step(config, params, SETTINGS[name], ignore_index=3)(ids, targets)
        params, ids, targets = numbers()
        with pytest.raises(AssertionError):  # the checks of the public loss do read
            gpt_loss(params, ids, targets, CONFIG)


def test_the_parameters_are_read_at_every_step_and_their_grad_stays():
    params, ids, targets = numbers()
    step = training_step(CONFIG, params)
    before, _ = step(ids, targets)
    params["lm_head.bias"][targets[0, 0]] += 1.0
    after, _ = step(ids, targets)
    assert before != after
    assert all(each.grad is None and not each.requires_grad for each in params.values())


def test_given_masks_drop_as_the_public_loss_does():
    params, ids, targets = numbers(dtype=np.float64)
    keep = {n: torch.from_numpy(mask) for n, mask in dropout_masks(CONFIG, (3, 5), np.random.default_rng(2)).items()}
    loss, grads = training_step(CONFIG, params, StepSettings("composed", loss_rows=4))(ids, targets, keep)
    leaves = {name: each.clone().requires_grad_() for name, each in params.items()}
    theirs = gpt_loss(leaves, ids, targets, CONFIG, keep=keep)
    expected = dict(zip(leaves, torch.autograd.grad(theirs, list(leaves.values())), strict=True))
    assert abs(float(loss - theirs.detach())) < 1e-14 * float(theirs.detach())
    assert largest_difference(grads, expected) < 1e-13  # some hundred units of roundoff
    with pytest.raises(ValueError, match="keep was given, expected none"):
        training_step(CONFIG, params)(ids, targets, keep)


@pytest.mark.parametrize("rows", [None, 4])
def test_autocast_is_bfloat16_and_no_more(rows):
    """Off by about the unit roundoff of bfloat16, 2^-8: much less would mean that it was not on."""
    params, ids, targets = numbers()
    exact, expected = training_step(CONFIG, params)(ids, targets)
    loss, grads = training_step(CONFIG, params, StepSettings(autocast=True, loss_rows=rows))(ids, targets)
    assert loss.dtype == torch.float32
    assert {each.dtype for each in grads.values()} == {torch.float32}
    assert 0 < abs(float(loss - exact)) < 2**-8 * float(exact)
    assert 2**-12 < largest_difference(grads, expected) < 16 * 2**-8


def test_the_products_of_the_chunked_loss_are_narrow_under_autocast():
    X, weight, bias = (
        torch.randn(shape, generator=torch.Generator().manual_seed(3)) for shape in ((9, 6), (7, 6), (7,))
    )
    exact = chunked_cross_entropy(X, weight, bias, torch.arange(9) % 7)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(X, weight, bias, torch.arange(9) % 7)
    assert loss.dtype == torch.float32
    assert 2**-16 * exact < abs(loss - exact) < 2**-7 * exact


@pytest.mark.parametrize(
    ("attention", "fused"), [("composed", False), ("sdpa", True), ("flash", True), ("math", False)]
)
def test_the_attention_that_was_asked_for_is_the_one_that_runs(attention, fused):
    called = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            called.add(function.__name__.split(".")[0])
            return function(*args, **kwargs or {})

    params, ids, targets = numbers()
    with Watch():
        training_step(CONFIG, params, StepSettings(attention))(ids, targets)
    assert ("_scaled_dot_product_flash_attention_for_cpu" in called) == fused


def test_what_needs_cuda_says_so():
    params, _, _ = numbers()
    for settings, said in (
        (StepSettings("cudnn"), "attention='cudnn' needs CUDA, but the parameters are on cpu"),
        (StepSettings("efficient"), "attention='efficient' needs CUDA"),
        (StepSettings(precision="tf32"), "precision='tf32' needs CUDA"),
        (StepSettings(cuda_graph=True), "cuda_graph=True needs CUDA"),
    ):
        with pytest.raises(ValueError, match=said):
            training_step(CONFIG, params, settings)


def test_wrong_settings_and_shapes_are_said():
    params, ids, targets = numbers()
    with pytest.raises(ValueError, match="attention is 'flush', expected one of composed, sdpa, flash"):
        StepSettings("flush")
    with pytest.raises(ValueError, match="precision is 'high', expected highest or tf32"):
        StepSettings(precision="high")
    with pytest.raises(ValueError, match="loss_rows is 0"):
        StepSettings(loss_rows=0)
    with pytest.raises(TypeError, match="the parameters are bfloat16, expected float32 or float64"):
        training_step(CONFIG, {name: each.bfloat16() for name, each in params.items()})
    with pytest.raises(ValueError, match=r"targets \(3, 4\)"):
        training_step(CONFIG, params)(ids, targets[:, :4])
    with pytest.raises(ValueError, match="ids has 8 tokens, expected at most 7"):
        training_step(CONFIG, params)(torch.zeros(2, 8).long(), torch.zeros(2, 8).long())
    with pytest.raises(TypeError, match=r"targets is torch\.float32"):
        chunked_cross_entropy(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4), torch.zeros(2))


def test_a_compiled_step_agrees_and_compiles_once_more_for_a_second_shape(monkeypatch):
    """By AOTAutograd and without a C++ compiler, which the benchmark needs and a test does not."""
    compiled = []

    def backend(graph, example):
        compiled.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, example)

    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: original(function, backend=backend))
    torch._dynamo.reset()
    config = replace(CONFIG, num_layers=1)
    params, _, _ = numbers(config)
    steps = [training_step(config, params, StepSettings(compiled=c)) for c in (True, False)]
    for count, shape in enumerate([(3, 5), (2, 4), (4, 6), (5, 3), (6, 7)]):
        _, ids, targets = numbers(shape=shape, seed=count)
        (loss, grads), (theirs, expected) = (step(ids, targets) for step in steps)
        assert abs(float(loss - theirs)) <= 2**-20 * float(theirs)
        assert largest_difference(grads, expected) < 2**-16  # another order of sums in float32
        assert len(compiled) == min(count + 1, 2)


def test_torch_itself_would_have_said_nan_for_no_target():
    params, ids, _ = numbers()
    nothing = torch.full_like(ids, -100)
    for settings in (StepSettings(), StepSettings(loss_rows=2)):
        assert training_step(CONFIG, params, settings, ignore_index=-100)(ids, nothing)[0].isnan()
    assert F.cross_entropy(torch.zeros(2, 3), nothing[0, :2]).isnan()
