"""Other people's models, on the same numbers: torch's block and RNN, and transformers' GPT-2."""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import reference_numpy as reference
import torch_impl
from equivalence_tests import budgets, model_budgets
from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.implementations import load, run
from equivalence_tests.ops import OPS
from equivalence_tests.stages import AS_IT_IS
from reference_numpy import GPTConfig, fast
from reference_numpy.gpt import gpt_shapes
from reference_numpy.transformer_block import transformer_block_shapes
from torch_impl.gpt import load_parameters

DOUBLE = PRECISIONS["float64"]
PROJECTIONS = ("query", "key", "value")


def config_of(d, H, tied=False, layers=1):
    return GPTConfig(
        vocab_size=7,
        context_window=6,
        embedding_dim=d,
        num_layers=layers,
        num_heads=H,
        head_dim=d // H,
        ff_factor=3,
        dropout=0.0,
        tied_head=tied,
    )


def random_parameters(rng, shapes):
    """No scale near 0, no bias 0; a matrix keeps the size of what goes through it."""
    params = {}
    for name, shape in shapes.items():
        value = rng.standard_normal(shape)
        params[name] = (
            1.0 + 0.3 * value if name.endswith("scale") else value / np.sqrt(shape[-1] if value.ndim > 1 else 1)
        )
    return params


def assert_within(got, exact):
    for name, value in got.items():
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
        truth = exact[name]
        assert array.shape == truth.value.shape, name
        assert (np.abs(array.astype(ORACLE) - truth.value) <= truth.budget()).all(), name


# The block


def exact_block(params, X, dY, config):
    """The table's formula of one block, with its measured budget."""

    def formula(*operands):
        *values, X, dY = operands
        block = dict(zip(params, values, strict=True))
        Z, back_1 = model_budgets._beside(
            model_budgets._attention, "attention", X, block, "norm_1", AS_IT_IS, config, None
        )
        Y, back_2 = model_budgets._beside(
            model_budgets._feed_forward, "feed_forward", Z, block, "norm_2", AS_IT_IS, config, None
        )
        dZ, grads_2 = back_2(dY)
        dX, grads_1 = back_1(dZ)
        return {"Y": Y, "dX": dX, **{f"d{name}": g for name, g in {**grads_1, **grads_2}.items()}}

    return budgets.measured(formula, [Bounded(value, DOUBLE) for value in (*params.values(), X, dY)], DOUBLE)


def run_block(twin, params, X, dY, config):
    Y, cache = twin.transformer_block(params, X, config)
    dX, grads = twin.transformer_block_backward(dY, cache)
    return {"Y": Y, "dX": dX, **{f"d{name}": g for name, g in grads.items()}}


def torchs_layer(params, config):
    """nn.TransformerEncoderLayer with our parameters; attention's biases, which we do not have, are 0."""
    d = config.embedding_dim
    layer = torch.nn.TransformerEncoderLayer(
        d,
        config.num_heads,
        dim_feedforward=config.ff_factor * d,
        dropout=0.0,
        activation=lambda x: F.gelu(x, approximate="tanh"),
        batch_first=True,
        norm_first=True,
        dtype=torch.float64,
    )
    state = {
        "self_attn.in_proj_weight": np.concatenate([params[f"attention.{name}.weight"] for name in PROJECTIONS]),
        "self_attn.in_proj_bias": np.zeros(3 * d),
        "self_attn.out_proj.weight": params["attention.projection.weight"],
        "self_attn.out_proj.bias": np.zeros(d),
    }
    for theirs, ours in LAYER.items():
        state[theirs] = params[ours]
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    return layer


LAYER = {
    "linear1.weight": "feed_forward.expand.weight",
    "linear1.bias": "feed_forward.expand.bias",
    "linear2.weight": "feed_forward.contract.weight",
    "linear2.bias": "feed_forward.contract.bias",
    **{f"norm{i}.weight": f"norm_{i}.scale" for i in (1, 2)},
    **{f"norm{i}.bias": f"norm_{i}.shift" for i in (1, 2)},
}


@pytest.mark.parametrize("seed", range(4))
def test_the_block_is_torchs_encoder_layer_with_the_norm_first(seed):
    rng = np.random.default_rng(seed)
    config = config_of(*((6, 2), (4, 1), (6, 3), (8, 2))[seed])
    params = random_parameters(rng, transformer_block_shapes(config))
    n = 5
    X, dY = rng.standard_normal((2, 3, n, config.embedding_dim))
    exact = exact_block(params, X, dY, config)
    for twin in (reference, fast):
        assert_within(run_block(twin, params, X, dY, config), exact)
    ours = torch_impl.TransformerBlock(config)
    load_parameters(ours, params)
    x = torch.from_numpy(X).requires_grad_()
    y = ours(x)
    y.backward(torch.from_numpy(dY))
    assert_within({"Y": y, "dX": x.grad, **{f"d{name}": p.grad for name, p in ours.named_parameters()}}, exact)
    layer = torchs_layer(params, config)
    x = torch.from_numpy(X).requires_grad_()
    y = layer(x, src_mask=torch.ones(n, n).triu(1).bool())
    y.backward(torch.from_numpy(dY))
    found = {f"d{ours}": dict(layer.named_parameters())[theirs].grad for theirs, ours in LAYER.items()}
    packed = layer.self_attn.in_proj_weight.grad.chunk(3)
    found |= {f"dattention.{name}.weight": rows for name, rows in zip(PROJECTIONS, packed, strict=True)}
    found["dattention.projection.weight"] = layer.self_attn.out_proj.weight.grad
    assert found.keys() | {"Y", "dX"} == exact.keys()
    assert_within({"Y": y, "dX": x.grad, **found}, exact)


# The RNN


@pytest.mark.parametrize("seed", range(4))
def test_the_rnn_is_torchs_embedding_rnn_and_linear(seed):
    from reference_numpy import RNNConfig
    from reference_numpy.generative_rnn import rnn_shapes

    rng = np.random.default_rng(seed)
    config = RNNConfig(vocab_size=7, embedding_dim=5)
    params = random_parameters(rng, rnn_shapes(config))
    ids, dlogits = rng.integers(0, 7, (3, 6)), rng.standard_normal((3, 6, 7))
    exact = OPS["generative_rnn"].exact(Case({**params, "ids": ids}, {"config": config}, {"dlogits": dlogits}), DOUBLE)
    model = torch.nn.ModuleDict(
        {
            "embedding": torch.nn.Embedding(7, 5),
            "rnn": torch.nn.RNN(5, 5, batch_first=True),
            "lm_head": torch.nn.Linear(5, 7),
        }
    ).double()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in params.items()})
    H, _ = model["rnn"](model["embedding"](torch.from_numpy(ids)))
    logits = model["lm_head"](H)
    logits.backward(torch.from_numpy(dlogits))
    assert_within({"logits": logits, **{f"d{name}": p.grad for name, p in model.named_parameters()}}, exact)
    ours, cache = reference.generative_rnn(params, ids, config)
    grads = reference.generative_rnn_backward(dlogits, cache)
    assert_within({"logits": ours, **{f"d{name}": g for name, g in grads.items()}}, exact)


# transformers' GPT-2. Its Conv1D has weights (in, out), its query, key and value are one matrix, its head has no bias.


def gpt2_names(config):
    """Their name: our names, and whether theirs is the transpose."""
    names = {
        "transformer.wte.weight": (["token_embedding.weight"], False),
        "transformer.wpe.weight": (["position_embedding.weight"], False),
        "transformer.ln_f.weight": (["norm.scale"], False),
        "transformer.ln_f.bias": (["norm.shift"], False),
    }
    if not config.tied_head:
        names["lm_head.weight"] = (["lm_head.weight"], False)
    for layer in range(config.num_layers):
        theirs, ours = f"transformer.h.{layer}", f"blocks.{layer}"
        for i in (1, 2):
            names[f"{theirs}.ln_{i}.weight"] = ([f"{ours}.norm_{i}.scale"], False)
            names[f"{theirs}.ln_{i}.bias"] = ([f"{ours}.norm_{i}.shift"], False)
        names[f"{theirs}.attn.c_attn.weight"] = ([f"{ours}.attention.{name}.weight" for name in PROJECTIONS], True)
        names[f"{theirs}.attn.c_proj.weight"] = ([f"{ours}.attention.projection.weight"], True)
        names[f"{theirs}.mlp.c_fc.weight"] = ([f"{ours}.feed_forward.expand.weight"], True)
        names[f"{theirs}.mlp.c_fc.bias"] = ([f"{ours}.feed_forward.expand.bias"], False)
        names[f"{theirs}.mlp.c_proj.weight"] = ([f"{ours}.feed_forward.contract.weight"], True)
        names[f"{theirs}.mlp.c_proj.bias"] = ([f"{ours}.feed_forward.contract.bias"], False)
    return names


@pytest.fixture(scope="module")
def gpt2():
    """The two classes, with the library's notices off; it has nothing to say that concerns us."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2Config, GPT2LMHeadModel


def as_gpt2(gpt2, params, config):
    Config, Model = gpt2
    theirs = Config(
        vocab_size=config.vocab_size,
        n_positions=config.context_window,
        n_embd=config.embedding_dim,
        n_layer=config.num_layers,
        n_head=config.num_heads,
        n_inner=config.ff_factor * config.embedding_dim,
        activation_function="gelu_new",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=1e-5,
        tie_word_embeddings=config.tied_head,
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = Model(theirs).double()
    named = dict(model.named_parameters())
    with torch.no_grad():
        for parameter in named.values():
            parameter.zero_()  # the biases of attention, which we do not have
        for name, (ours, transposed) in gpt2_names(config).items():
            joined = np.concatenate([params[each] for each in ours])
            named[name].copy_(torch.from_numpy(joined.T if transposed else joined))
    unnamed = named.keys() - gpt2_names(config).keys()
    assert all(name.endswith(("attn.c_attn.bias", "attn.c_proj.bias")) for name in unnamed)
    return model


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_gpt_is_gpt2(gpt2, seed, tied):
    rng = np.random.default_rng(seed)
    config = config_of(6, 2, tied, layers=2)
    params = random_parameters(rng, gpt_shapes(config)) | {"lm_head.bias": np.zeros(config.vocab_size)}
    ids = rng.integers(0, config.vocab_size, (3, 5))
    dlogits = rng.standard_normal((3, 5, config.vocab_size))
    case = Case({**params, "ids": ids}, {"config": config}, {"dlogits": dlogits})
    exact = OPS["gpt"].exact(case, DOUBLE)
    for twin in ("reference_numpy", "torch_impl"):
        answer = run(load(twin), OPS["gpt"], case, "float64")
        assert answer.keys() == exact.keys()
        assert_within({name: tensor.value for name, tensor in answer.items()}, exact)
    model = as_gpt2(gpt2, params, config)
    logits = model(torch.from_numpy(ids)).logits
    logits.backward(torch.from_numpy(dlogits))
    found = {"logits": logits}
    for name, (ours, transposed) in gpt2_names(config).items():
        gradient = dict(model.named_parameters())[name].grad
        rows = (gradient.T if transposed else gradient).chunk(len(ours))
        found |= {f"d{each}": row for each, row in zip(ours, rows, strict=True)}
    assert found.keys() | {"dlm_head.bias"} == exact.keys()
    assert_within(found, exact)
