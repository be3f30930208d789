"""The language models at the source's sizes, at their beginning, as modules, and what their loss and probabilities are."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference_numpy as reference
import torch_impl
from equivalence_tests.arithmetic import ORACLE, PRECISIONS
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.implementations import load, run
from equivalence_tests.ops import OPS
from equivalence_tests.small_models import IGNORED, LOSSES, VOCABULARY, WINDOW, model_case
from reference_numpy import GPTConfig, RNNConfig, dropout_masks, init_gpt, init_rnn
from reference_numpy._parameters import part
from reference_numpy.generative_rnn import rnn_shapes
from reference_numpy.gpt import gpt_keep_shapes, gpt_shapes
from torch_impl.gpt import load_parameters

DOUBLE = PRECISIONS["float64"]
SOURCE = 60_198  # tokens in the source's vocabulary
SMALL = GPTConfig(
    vocab_size=11, context_window=7, embedding_dim=6, num_layers=2, num_heads=2, head_dim=5, ff_factor=3, dropout=0.3
)
SMALL_RNN = RNNConfig(vocab_size=11, embedding_dim=6)
TWINS = ["reference_numpy", "torch_impl"]


def drawn(model, seed, lead=(2,), **options):
    return model_case(model, SeededDraws(np.random.default_rng(seed)), "float64", lead, **options)


def parameters(case):
    return {name: value for name, value in case.operands.items() if "." in name}


# Sizes


def test_the_models_have_as_many_parameters_as_the_sources():
    for shapes, config, count in (
        (gpt_shapes, GPTConfig(SOURCE), 57_028_902),
        (rnn_shapes, RNNConfig(SOURCE), 46_587_942),
    ):
        assert sum(math.prod(shape) for shape in shapes(config).values()) == count
        with torch.device("meta"):
            module = torch_impl.GPT(config) if shapes is gpt_shapes else torch_impl.GenerativeRNN(config)
        assert sum(parameter.numel() for parameter in module.parameters()) == count


@pytest.mark.parametrize("tied", [False, True])
def test_the_modules_have_the_names_and_shapes_of_the_flat_dict_in_its_order(tied):
    config = replace(SMALL, tied_head=tied)
    for module, shapes in (
        (torch_impl.GPT(config), gpt_shapes(config)),
        (torch_impl.GenerativeRNN(SMALL_RNN), rnn_shapes(SMALL_RNN)),
    ):
        found = {name: tuple(value.shape) for name, value in module.state_dict().items()}
        assert list(found.items()) == list(shapes.items())
    assert ("lm_head.weight" in gpt_shapes(config)) is not tied


# The beginning


def test_a_seed_begins_both_twins_with_the_same_numbers():
    for init, config, module in (
        (init_gpt, SMALL, torch_impl.GPT(SMALL, seed=3)),
        (init_gpt, replace(SMALL, tied_head=True), torch_impl.GPT(replace(SMALL, tied_head=True), seed=3)),
        (init_rnn, SMALL_RNN, torch_impl.GenerativeRNN(SMALL_RNN, seed=3)),
    ):
        params = init(config, np.random.default_rng(3))
        state = module.state_dict()
        assert state.keys() == params.keys()
        assert all(np.array_equal(state[name].numpy(), params[name]) for name in params)
        other = init(config, np.random.default_rng(4))
        assert any(not np.array_equal(other[name], params[name]) for name in params)


def test_a_model_begins_in_float32_with_float64_rounded():
    for init, config in ((init_gpt, SMALL), (init_rnn, SMALL_RNN)):
        wide = init(config, np.random.default_rng(0), np.float64)
        narrow = init(config, np.random.default_rng(0))
        for name, value in wide.items():
            assert (value.dtype, narrow[name].dtype) == (np.float64, np.float32)
            assert np.array_equal(value.astype(np.float32), narrow[name])


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_begins_as_it_says(tied):
    """N(0, s^2): the mean of n squares is s^2 (1 +- 5 sqrt(2 / n)), five of its deviations."""
    config = GPTConfig(300, context_window=40, embedding_dim=64, num_layers=3, num_heads=2, head_dim=24, tied_head=tied)
    embedded = 0.02 if tied else 0.1
    for name, value in init_gpt(config, np.random.default_rng(0), np.float64).items():
        if name.endswith(("scale", "shift", "bias")):
            assert (value == (1.0 if name.endswith("scale") else 0.0)).all(), name
        elif name == "position_embedding.weight":
            t, w = 7, 10000.0 ** (-20 / 64)
            assert np.allclose(value[t, 20:22], [embedded * math.sin(t * w), embedded * math.cos(t * w)], rtol=1e-14)
            turned = np.diff(np.angle(value[:, ::2] + 1j * value[:, 1::2]), axis=0) % (2.0 * math.pi)
            assert np.ptp(turned, axis=0).max() < 1e-12  # a step is one rotation, wherever it is taken
        else:
            end = name.endswith(("attention.projection.weight", "feed_forward.contract.weight"))
            own = {"token_embedding.weight": embedded**2, "lm_head.weight": 0.02**2}
            variance = own.get(name, 1.0 / (3.0 * value.shape[1])) / (6.0 if end else 1.0)
            assert abs((value**2).mean() / variance - 1.0) < 5.0 * math.sqrt(2.0 / value.size), name


@pytest.mark.parametrize("width", [1, 2, 5])
def test_any_width_begins(width):
    config = GPTConfig(9, context_window=6, embedding_dim=width, num_layers=1, num_heads=1, head_dim=2)
    positions = init_gpt(config, np.random.default_rng(0))["position_embedding.weight"]
    assert (positions[0, ::2] == 0.0).all()
    assert len({row.tobytes() for row in positions}) == 6


def first_loss_is_near(loss, variance, classes, counted):
    """|loss - log v| where a logit varies by at most `variance`, and every target has a row of its own.

    loss = log mean exp(logits) - the target's logit + log v. The first is at most variance / 2 on average, and varies by
    sqrt(expm1(variance) / v) at most; the second by sqrt(variance / counted): five deviations of each.
    """
    spread = math.sqrt(math.expm1(variance) / classes) + math.sqrt(variance / counted)
    return abs(float(loss) - math.log(classes)) <= variance / 2.0 + 5.0 * spread


@pytest.mark.parametrize("seed", range(3))
def test_the_first_loss_is_near_log_v(seed):
    rng = np.random.default_rng(seed)
    classes, n = 500, 32
    targets = rng.permutation(classes)[: 4 * n].reshape(4, n)
    ids = rng.integers(0, classes, (4, n))
    config = GPTConfig(classes, context_window=n, embedding_dim=64, num_layers=2, num_heads=2, head_dim=32)
    loss, _ = reference.gpt_loss(init_gpt(config, rng), ids, targets, config)
    assert first_loss_is_near(
        loss, 0.02**2 * config.embedding_dim, classes, targets.size
    )  # a normed row has length sqrt(d)
    small = RNNConfig(classes, embedding_dim=64)
    loss, _ = reference.generative_rnn_loss(init_rnn(small, rng), ids, targets, small)
    assert first_loss_is_near(loss, (1.0 + 1.0 / 64) / 3.0, classes, targets.size)  # states below 1, and a bias
    far = init_gpt(config, rng) | {"lm_head.weight": rng.standard_normal((classes, 64)).astype(np.float32)}
    assert not first_loss_is_near(reference.gpt_loss(far, ids, targets, config)[0], 0.0256, classes, targets.size)


# Dropout


def test_the_masks_are_one_stream_in_the_order_of_the_forward():
    masks = dropout_masks(SMALL, (4, 5), np.random.default_rng(1))
    assert {name: mask.shape for name, mask in masks.items()} == gpt_keep_shapes(SMALL, (4, 5))
    assert list(masks) == [
        "embedding",
        "blocks.0.attention",
        "blocks.0.feed_forward",
        "blocks.1.attention",
        "blocks.1.feed_forward",
    ]
    assert masks["embedding"].shape == (4, 5, 6)
    assert masks["blocks.1.attention"].shape == (4, 2, 5, 5)
    stream = np.random.default_rng(1).random(sum(mask.size for mask in masks.values()), dtype=np.float32)
    assert np.array_equal(np.concatenate([mask.ravel() for mask in masks.values()]), stream >= 0.3)


def test_the_masks_drop_as_many_as_they_should():
    """Within five deviations of a binomial; all is kept with p = 0."""
    for p in (0.1, 0.5, 0.9):
        config = replace(SMALL, dropout=p)
        for mask in dropout_masks(config, (40, 7), np.random.default_rng(0)).values():
            assert mask.dtype == bool
            assert abs(mask.mean() - (1.0 - p)) < 5.0 * math.sqrt(p * (1.0 - p) / mask.size)
    assert all(
        mask.all() for mask in dropout_masks(replace(SMALL, dropout=0.0), (3, 4), np.random.default_rng(0)).values()
    )


# The modules


def assert_within(got, truth, name):
    """Torch's answer in float64, within the budget of the exact one."""
    value = got.detach().numpy() if isinstance(got, torch.Tensor) else np.asarray(got)
    assert value.shape == truth.value.shape, name
    assert (np.abs(value.astype(ORACLE) - truth.value) <= truth.budget()).all(), name


def tensors(values):
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in values.items()}


@pytest.mark.parametrize("tied", [False, True])
def test_a_gpt_module_loads_the_dict_and_gives_its_logits_and_gradients(tied):
    case = drawn("gpt", 1, layers=2, tied=tied, p=0.3)
    config, ids = case.options["config"], torch.from_numpy(case.operands["ids"])
    module = torch_impl.GPT(config)
    load_parameters(module, parameters(case))
    training = module.train()(ids, tensors(case.options["keep"]))
    exact = OPS["gpt"].exact(case, DOUBLE)
    assert_within(training, exact["logits"], "logits")
    training.backward(torch.from_numpy(case.upstream["dlogits"]))
    for name, parameter in module.named_parameters():
        assert_within(parameter.grad, exact[f"d{name}"], name)
    plain = Case(case.operands, {"config": config}, case.upstream)
    evaluation = module.eval()(ids, tensors(case.options["keep"]))  # in evaluation nothing is dropped
    assert_within(evaluation, OPS["gpt"].exact(plain, DOUBLE)["logits"], "logits")


def test_an_rnn_module_loads_the_dict_and_gives_its_logits_and_gradients():
    case = drawn("generative_rnn", 1)
    module = torch_impl.GenerativeRNN(case.options["config"])
    load_parameters(module, parameters(case))
    logits = module(torch.from_numpy(case.operands["ids"]))
    logits.backward(torch.from_numpy(case.upstream["dlogits"]))
    exact = OPS["generative_rnn"].exact(case, DOUBLE)
    assert_within(logits, exact["logits"], "logits")
    for name, parameter in module.named_parameters():
        assert_within(parameter.grad, exact[f"d{name}"], name)


def test_a_dict_of_other_keys_or_shapes_is_not_loaded():
    params = init_gpt(SMALL, np.random.default_rng(0))
    for wrong in (
        {name: value for name, value in params.items() if name != "norm.scale"},
        params | {"extra": params["norm.scale"]},
        params | {"norm.scale": np.ones(7, np.float32)},
    ):
        with pytest.raises(RuntimeError):
            load_parameters(torch_impl.GPT(SMALL), wrong)


def test_in_evaluation_every_block_shows_its_attention():
    """Rows are weights, of the past alone; and they are those of the NumPy twin's cache."""
    case = drawn("gpt", 2, layers=2)
    config, ids = case.options["config"], case.operands["ids"]
    module = torch_impl.GPT(config).eval()
    load_parameters(module, parameters(case))
    module(torch.from_numpy(ids))
    _, cache = reference.gpt(parameters(case), ids, config)
    for block, (_, attention_cache, _, _) in zip(module.blocks, cache[3], strict=True):
        A, ours = block.attention.attn_matrix.numpy(), attention_cache[-1].A
        n = ids.shape[1]
        assert A.shape == ours.shape == (2, config.num_heads, n, n)
        assert not A[..., ~np.tri(n, dtype=bool)].any()
        assert np.array_equal(A > 0, ours > 0)
        assert (np.abs(A.sum(-1) - 1.0) <= (n + 4) * DOUBLE.unit).all()  # the budget of a softmax, summed
        assert np.array_equal(A.argsort(-1), ours.argsort(-1))


def test_in_training_units_are_drawn_anew_and_in_evaluation_none_are():
    module = torch_impl.GPT(replace(SMALL, dropout=0.5))
    ids = torch.arange(7)
    assert not torch.equal(module.train()(ids), module(ids))
    assert torch.equal(module.eval()(ids), module(ids))
    still = torch_impl.GPT(replace(SMALL, dropout=0.0))
    assert torch.equal(still.train()(ids), still(ids))


def test_a_list_of_separate_heads_is_the_fused_attention_in_every_block():
    """The source's heads, each with its rows of query, key and value, concatenated and projected."""

    class Heads(torch.nn.Module):
        def __init__(self, fused, config):
            super().__init__()
            self.heads = torch.nn.ModuleList(
                torch_impl.SelfAttentionHead(config).double() for _ in range(config.num_heads)
            )
            self.projection = fused.projection
            for h, head in enumerate(self.heads):
                rows = slice(h * config.head_dim, (h + 1) * config.head_dim)
                own = {f"{x}.weight": getattr(fused, x).weight[rows].detach() for x in ("query", "key", "value")}
                head.load_state_dict(own)

        def forward(self, X, keep=None):
            return self.projection(torch.cat([head(X) for head in self.heads], -1))

    case = drawn("gpt", 3, layers=2)
    module = torch_impl.GPT(case.options["config"])
    load_parameters(module, parameters(case))
    for block in module.blocks:
        block.attention = Heads(block.attention, case.options["config"])
    logits = module(torch.from_numpy(case.operands["ids"]))
    assert_within(logits, OPS["gpt"].exact(case, DOUBLE)["logits"], "logits")


def test_what_the_module_is_given_wrong_it_refuses():
    module = torch_impl.GPT(SMALL)
    with pytest.raises(ValueError, match="ids has 8 tokens in a row, expected at most context_window = 7"):
        module(torch.zeros(1, 8, dtype=torch.int64))
    with pytest.raises(ValueError, match="ids has shape"):
        module(torch.zeros(2, 0, dtype=torch.int64))
    with pytest.raises(TypeError, match="ids"):
        module([1, 2])


# Loss and probabilities


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("op", LOSSES)
def test_the_mean_is_over_tokens_and_not_over_sequences(op, twin):
    """Token losses [4] and [1, 1, 1]: 7 / 4 = 1.75, where the mean of the two sequences' means is 2.5."""
    case = drawn(op, 4)
    P = np.array([np.exp(-4.0), np.exp(-1.0)])
    bias = np.log(np.append(P, np.full(VOCABULARY - 2, (1.0 - P.sum()) / (VOCABULARY - 2))))
    head = {"lm_head.weight": np.zeros_like(case.operands["lm_head.weight"]), "lm_head.bias": bias}
    padded = np.array([[0, IGNORED, IGNORED], [1, 1, 1]])
    for targets, expected in ((padded, 1.75), (np.array([[0, 0, 0], [1, 1, 1]]), 2.5)):
        options = case.options | {"ignore_index": IGNORED}
        given = Case({**case.operands, **head, "targets": targets}, options, case.upstream)
        truth = OPS[op].exact(given, DOUBLE)["loss"]
        assert abs(float(truth.value) - expected) <= 30 * DOUBLE.unit  # exp, log and a sum of 8, in float64
        loss = run(load(twin), OPS[op], given, "float64")["loss"].value
        assert_within(loss, truth, "loss")


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("model", ["gpt", "generative_rnn"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_probabilities_of_all_continuations_sum_to_1(model, twin, length):
    """p(w_1 ... w_T | BOS) by the chain rule, over all continuations of a vocabulary of 3."""
    config = GPTConfig(3, context_window=5, embedding_dim=4, num_layers=2, num_heads=1, head_dim=3, ff_factor=2)
    shapes = gpt_shapes(config)
    if model == "generative_rnn":
        config = RNNConfig(3, embedding_dim=4)
        shapes = rnn_shapes(config)
    rng = np.random.default_rng(length)
    params = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    continuations = np.array(list(itertools.product(range(3), repeat=length)))
    ids = np.concatenate([np.zeros((len(continuations), 1), np.int64), continuations[:, :-1]], -1)
    case = Case({**params, "ids": ids}, {"config": config}, {"dlogits": np.zeros((*ids.shape, 3))})
    logits = run(load(twin), OPS[model], case, "float64")["logits"].value
    P = np.take_along_axis(reference.softmax(logits)[0], continuations[..., None], -1)[..., 0]
    # whatever the logits are, the rows of a softmax sum to 1; each factor has its budget, (v + 4) u, and each product one u
    allowed = (length * (3 + 5) + len(continuations)) * DOUBLE.unit
    # but equal prefixes must have equal logits, and those of a batch may differ by the budget of each
    budget = float(OPS[model].exact(case, DOUBLE)["logits"].budget().max())
    assert abs(P.prod(-1).sum() - 1.0) <= allowed + length * math.expm1(4.0 * budget)
    assert P.shape == continuations.shape


# Odd configurations


@given(
    field=st.sampled_from(
        ["vocab_size", "context_window", "embedding_dim", "num_layers", "num_heads", "head_dim", "ff_factor"]
    ),
    bad=st.sampled_from([0, -1, 2.0, True, "3", None]),
)
def test_a_size_that_is_none_is_refused_by_name(field, bad):
    with pytest.raises((TypeError, ValueError), match=rf"^GPTConfig: {field} is ") as raised:
        replace(SMALL, **{field: bad})
    assert (raised.type is ValueError) == (isinstance(bad, int) and bad is not True)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("bad", "error"),
    [(1.0, ValueError), (-0.1, ValueError), (math.nan, ValueError), ("0", TypeError), (None, TypeError)],
)
def test_a_dropout_that_is_none_is_refused(bad, error):
    with pytest.raises(error, match="GPTConfig: dropout is "):
        replace(SMALL, dropout=bad)


def test_huge_logits_and_a_full_window_stay_finite():
    """Warnings are errors here: logits of a thousand overflow nothing."""
    case = drawn("gpt_loss", 5)
    ids = np.zeros((1, WINDOW), np.int64)
    params = parameters(case) | {"lm_head.weight": 1e3 * case.operands["lm_head.weight"]}
    for dtype in (np.float64, np.float32):
        cast = {name: value.astype(dtype) for name, value in params.items()}
        loss, cache = reference.gpt_loss(cast, ids, ids, case.options["config"])
        assert np.isfinite(loss)
        assert all(np.isfinite(g).all() and g.dtype == dtype for g in reference.gpt_loss_backward(1.0, cache).values())


def test_a_models_parts_are_the_entries_below_its_name():
    tree = {"blocks.1.a": 1, "blocks.10.a": 2, "blocks.1": 3, "blocks.1.b.c": 4}
    assert part(tree, "blocks.1") == {"a": 1, "b.c": 4}


@pytest.mark.parametrize(
    ("function", "arguments", "named"),
    [
        (init_gpt, ({}, np.random.default_rng(0)), "config"),
        (init_gpt, (SMALL, 0), "rng"),
        (init_gpt, (SMALL, np.random.default_rng(0), np.int32), "dtype"),
        (init_gpt, (SMALL, np.random.default_rng(0), "half"), "dtype"),
        (init_rnn, (SMALL, np.random.default_rng(0)), "config"),
        (init_rnn, (SMALL_RNN, None), "rng"),
        (dropout_masks, (SMALL_RNN, (2, 3), np.random.default_rng(0)), "config"),
        (dropout_masks, (SMALL, (2, 3), 7), "rng"),
        (dropout_masks, (SMALL, 3, np.random.default_rng(0)), "shape"),
        (dropout_masks, (SMALL, (), np.random.default_rng(0)), "shape"),
    ],
)
def test_a_wrong_beginning_is_named(function, arguments, named):
    with pytest.raises((TypeError, ValueError), match=f"{function.__name__}: {named}") as raised:
        function(*arguments)
    assert "\n" not in str(raised.value)
