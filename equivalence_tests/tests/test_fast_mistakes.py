"""Mistakes in the fast twin itself, each one line of its source replaced: the table catches them in tiles of two or three.

A mistake whose line is not there any more, or is there twice, fails: whoever changes the line finds another mistake.
"""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from equivalence_tests.checks import attempt
from equivalence_tests.parts.clipping import PARTS as CLIPPING
from equivalence_tests.parts.decoding import PARTS as DECODING
from equivalence_tests.parts.optimizer import PARTS as ADAMW
from equivalence_tests.tests.fast_settings import FUSED, TINY, as_implementation, first_fault, fused, set_to
from equivalence_tests.tests.test_model_witnesses import (
    assert_within,
    config_of,
    exact_block,
    random_parameters,
    run_block,
)
from reference_numpy.transformer_block import transformer_block_shapes

FOLDER = Path(__file__).parents[2] / "reference_numpy" / "fast"
PARTS = {**CLIPPING, **ADAMW, "gpt_step": DECODING["gpt_step"]}
ATTENTION, GPT = ("attention",), ("gpt_loss",)
MODELS = ("gpt_loss", "generative_rnn_loss")

# What goes wrong: the file, the right line, the wrong one, and the ops or parts of which one at least must say so.
MISTAKES = {
    # attention in tiles
    "delta is not subtracted": (
        "_tiles", "_with_column(dc, -delta)", "_with_column(dc, 0.0)", ATTENTION),
    "delta is not subtracted where there is dropout": (
        "_tiles", "                D -= delta[..., None]\n", "", ATTENTION),
    "delta is taken of dC alone": (
        "_tiles", "np.vecdot(dc, C[..., rows, :])", "dc.sum(-1)", ATTENTION),
    "dQ is not scaled": ("_tiles", "        dQ_rows *= options.scale\n", "", ATTENTION),
    "dK is not scaled": ("_tiles", "_product(D.mT, q)", "_product(D.mT, Q[..., rows, :])", ATTENTION),
    "dQ is of the last tile of keys alone": ("_tiles", "dQ_rows += _product(", "dQ_rows[...] = _product(", ATTENTION),
    "dK is of the last tile of queries alone": (
        "_tiles", "dK[..., keys, :] += _product(", "dK[..., keys, :] = _product(", ATTENTION),
    "dV is of the last tile of queries alone": (
        "_tiles", "dV[..., keys, :] += _product(", "dV[..., keys, :] = _product(", ATTENTION),
    "the diagonal is one key too far": (
        "_tiles", "first_hidden = rows.start + options.query_offset + 1",
        "first_hidden = rows.start + options.query_offset + 2",
        ATTENTION),
    "the diagonal tile is not masked": (
        "_tiles", "if options.causal and first_hidden < keys.stop:",
        "if options.causal and first_hidden <= keys.start:",
        ATTENTION),
    "the diagonal forgets where its tile begins": (
        "_tiles", "_upper(*future.shape[-2:], start - first_hidden)", "_upper(*future.shape[-2:], 0)", ATTENTION),
    "the last tile of keys is left out": (
        "_tiles", "min(m, rows.stop + options.query_offset)", "min(m, rows.start + options.query_offset)", ATTENTION),
    "what was summed is not rescaled": ("_tiles", "            acc *= shrunk[..., None]\n", "", ATTENTION),
    "the total is not rescaled": ("_tiles", "            total *= shrunk\n", "", ATTENTION),
    "the maximum forgets the tiles before": ("_tiles", "here = np.maximum(S.max(-1), top)", "here = S.max(-1)",
        ATTENTION),
    "the bias is of the first keys": (
        "_tiles", "S += options.bias[..., rows, keys]", "S += options.bias[..., rows, : S.shape[-1]]", ATTENTION),
    "the mask is of the first queries": (
        "_tiles", "options.mask[..., rows, keys]", "options.mask[..., : S.shape[-2], keys]", ATTENTION),
    "an empty row is divided by 0": ("_tiles", "    total[total == 0.0] = 1.0  # an empty row\n", "", ATTENTION),
    "an empty row keeps a maximum of -inf": ("_tiles", "    top[np.isneginf(top)] = 0.0\n", "", ATTENTION),
    "a weight is not divided by its row's sum": (
        "_tiles", "np.divide(1.0, total, out=share[..., rows])", "share[..., rows] = 1.0", ATTENTION),
    "a row's maximum and sum are one number": (
        "_tiles", "tops[..., rows] = top\n    np.divide(1.0, total, out=share[..., rows])",
        "tops[..., rows] = top + np.log(total)\n    share[..., rows] = 1.0", ATTENTION),
    "the sum of a row whose maximum is replaced stays": (
        "_tiles", "    total[sunk] *= math.exp(SMALL_SCORE)\n", "", ATTENTION),
    "dropout does not grow what it keeps": ("_tiles", "acc *= options.grown", "acc *= 1.0", ATTENTION),
    "dropout's slope is not grown": ("_tiles", "                D *= options.grown\n", "", ATTENTION),
    "dV knows no dropout": ("_tiles", "                A *= kept\n", "", ATTENTION),
    "any score is small": (
        "_tiles", "lengths * reach <= SMALL_SCORE", "lengths * reach <= np.inf", ATTENTION),
    "a share of the queries is lost": (
        "attention", "(dQ, dK.sum(0), dV.sum(0))", "(dQ, dK[:-1].sum(0), dV.sum(0))", ATTENTION),
    "a share has the tiles of another": ("attention", "tiles[share::shares]", "tiles[:: max(shares, 1)]", ATTENTION),
    "groups of heads overlap": (
        "attention", "[slice(start, start + step) for start", "[slice(max(start - 1, 0), start + step) for start",
        ATTENTION),
    # a block, and the model
    "the norm's shift is not folded in": (
        "_block", 'projections_bias = W @ block["norm_1.shift"]',
        'projections_bias = 0.0 * (W @ block["norm_1.shift"])', GPT),
    "the second norm's shift has no gradient of the bias": (
        "_block", "return dW, dscale, dbias @ W", "return dW, dscale, dbias @ dW", GPT),
    "a folded weight's gradient forgets the shift": (
        "_block", "    dW += np.multiply(dbias[:, None]", "    np.multiply(dbias[:, None]", GPT),
    "the residual gradient is overwritten": ("_block", "        dX[rows] += dN[rows]\n",
        "        dX[rows] = dN[rows]\n", GPT),
    "the slope is of the first rows": (
        "_block", "partial(_multiply, here, saved.slope[rows])", "partial(_multiply, here, saved.slope)", GPT),
    "dK and dV are added to what was there": (
        "_block", "        here[:, here.shape[1] // 3 :] = 0.0", "        here[:, here.shape[1] // 2 :] = 0.0", GPT),
    "a thread's share of a block is lost": ("gpt", "                mine += theirs\n", "                pass\n", GPT),
    "every thread has the first one's masks": (
        "gpt", "config.num_heads, n, n)[sequences]", "config.num_heads, n, n)[: sequences.stop - sequences.start]",
        GPT),
    "positions are of the last sequence": (
        "gpt", "dX.reshape(-1, n, d).sum(0)", "dX.reshape(-1, n, d)[-1]", GPT),
    "a tied matrix has the head's gradient alone": (
        "gpt", 'grads["token_embedding.weight"] += dhead', 'grads["token_embedding.weight"] = dhead', GPT),
    # the head
    "dweight is of the last piece of the logits": (
        "_head", "dweight[classes] += Z.T @ Y", "dweight[classes] = Z.T @ Y", MODELS),
    "dbias is of the last piece of the logits": (
        "_head", "dbias[classes] += np.ones(len(Z), Z.dtype) @ Z", "dbias[classes] = np.ones(len(Z), Z.dtype) @ Z",
        MODELS),
    "dY is of the last tile of classes": (
        "_head", "dY[rows] += Z @ weight[start:stop]", "dY[rows] = Z @ weight[start:stop]", MODELS),
    "the tiles' tops are not brought together": (
        "_head", "(factors * np.array(sums)).sum(0)", "np.array(sums).sum(0)", MODELS),
    "a tile's softmax keeps its own top": (
        "_head", "    factors /= total\n", "    factors[:] = factors[0] / total\n", MODELS),
    "an ignored row pulls at its target": (
        "_head", "Z[here, ids[here] - start] -= share[here]",
        "Z[here, ids[here] - start] -= dloss / targets.total", MODELS),
    "a target is looked for from the first class on": (
        "_head", "of_target[here] = Z[here, ids[here] - start]",
        "of_target[here] = Z[here, ids[here] - ids.min()]", MODELS),
    "ignored rows have a gradient": (
        "_head", "np.where(targets.counted[rows], dloss / targets.total, 0.0)",
        "np.full(len(targets.ids[rows]), dloss / targets.total)",
        MODELS),
    # rows
    "gelu's slope has another constant": ("_rows", "square *= 6.0 * GELU_SLOPE", "square *= 2.0 * GELU_SLOPE",
        ("gelu",)),
    "gelu's slope has no gate": ("_rows", "    slope += gate\n", "", ("gelu",)),
    "the norm's gradient forgets the mean": ("_rows", "    dN -= mean[:, None]\n", "", ("layer_norm",)),
    "the norm's gradient forgets the projection": ("_rows", "    dN -= along\n", "", ("layer_norm",)),
    "epsilon is outside the root": (
        "_rows", "    r += epsilon\n    np.sqrt(r, out=r)\n", "    np.sqrt(r, out=r)\n    r += epsilon\n",
        ("layer_norm",)),
    "dshift is of the last chunk": ("layer_norm", "dshift.sum(0)", "dshift[-1]", ("layer_norm",)),
    "dscale is of the first chunk": ("layer_norm", "dscale.sum(0)", "dscale[0]", ("layer_norm",)),
    "softmax's gradient is not centred": ("softmax", "np.vecdot(A, dA)[:, None]", "0.0 * A", ("softmax",)),
    "the shift is of the whole chunk": ("softmax", "np.subtract(X, X.max(1, keepdims=True), out=A)",
        "np.subtract(X, X[0].max(), out=A)",
        ("softmax",)),
    "repeated ids do not add up": ("embedding", "into[id] += row", "into[id] = row", ("embedding",)),
    # the recurrence
    "what comes from later steps is lost": ("rnn", "np.matmul(now, W_hh, out=dh)",
        "np.matmul(now, W_hh, out=dh); dh *= 0.0", ("rnn",)),
    "W_hh has no gradient from the first step": (
        "rnn", "    dW_hh += da[:, 0].T @ h0.reshape(B, k)\n", "", ("rnn",)),
    "the states are one step late": ("rnn", "states[:, :-1].reshape", "states[:, 1:].reshape", ("rnn",)),
    # a model so small that it has no tiles
    "a small model sees the future": ("_small", "    A += _future(n)\n", "", GPT),
    "a small model's delta is not subtracted": ("_small", "    dS -= np.vecdot(A, dS)[..., None]\n", "", GPT),
    "a small model's norm forgets the mean": ("_small", "    along += dN @ mean\n", "", GPT),
    "a small model's ignored rows have a gradient": (
        "_small", "targets.counted * (dloss / targets.total)", "np.full(len(Z), dloss / targets.total)", GPT),
    # what is there as it stands in the reference too
    "tanh's slope is 1 - Y": ("activations", "np.multiply(y, y, out=dx)", "np.copyto(dx, y)", ("tanh",)),
    "relu has a slope at 0": ("activations", "_rows.select(dx, y > 0.0)", "_rows.select(dx, y >= 0.0)", ("relu",)),
    "dropout shrinks what it keeps": ("dropout", "1.0 / (1.0 - p)", "1.0 - p", ("dropout",)),
    "the maximum and the sum of a row of logits are one number": (
        "cross_entropy", "CrossEntropyCache(logits, top, sums,",
        "CrossEntropyCache(logits, top + np.log(sums), sums / sums,",
        ("cross_entropy",)),
    "the loss's gradient forgets the maximum": (
        "cross_entropy", "np.subtract(Z[rows], top[rows][:, None], out=d)", "np.copyto(d, Z[rows])", ("cross_entropy",)),
    "dbias is of the first row": ("linear", "np.ones(len(rows), rows.dtype) @ rows", "rows[0].copy()", ("linear",)),
    "X is a query alone": ("self_attention", "    dX += dK\n", "", ("simple_attention",)),
    "the keys' weight has the queries' gradient": (
        "self_attention", "np.split(_weight_gradient(X, dQKV), 3, 1)",
        "[_weight_gradient(X, dQKV[..., : W.shape[1] // 3])] * 3",
        ("multi_head_attention",)),
    "the last state's gradient is that of all states": (
        "generative_rnn", "np.zeros_like(dH[..., -1, :])", "dH[..., -1, :]", ("generative_rnn",)),
    "a block's output is its input": ("transformer_block", "return Y.reshape(X.shape)", "return X.copy()",
        ("transformer_block",)),
    # in training and in generation
    "the second moment's correction is not rooted": (
        "optimizer", "1.0 / math.sqrt(1.0 - beta2**t)", "1.0 / (1.0 - beta2**t)", ("adamw_step",)),
    "weight decay is taken of what has moved": (
        "optimizer", "        p *= 1.0 - lr * weight_decay\n        p -= change\n",
        "        p -= change\n        p *= 1.0 - lr * weight_decay\n",
        ("adamw_step",)),
    "the norm is of the first chunk": ("optimizer", "return float(sums.sum())", "return float(sums[0])",
        ("clip_gradients",)),
    "the largest is of the largest alone, not of the smallest": (
        "optimizer", "np.negative(piece.min(initial=0.0)", "np.negative(piece.max(initial=0.0)", ("adamw_step",)),
    "an older past is grown in place": ("decoding", " and pair.taken[0] == t", "", ("gpt_step",)),
    "new tokens stand at the beginning": ("decoding", "[t : t + ids.shape[-1]]", "[: ids.shape[-1]]", ("gpt_step",)),
}  # fmt: skip


def copied(folder, name, file="", right="", wrong=""):
    """The package under another name, with one line replaced."""
    shutil.copytree(FOLDER, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    for path in (folder / name).glob("*.py"):
        source = path.read_text("utf-8")
        if path.stem == file:
            assert source.count(right) == 1, f"the line to break has changed: {right!r}"
            source = source.replace(right, wrong)
        source = source.replace("from reference_numpy import fast", f"import {name} as fast")
        path.write_text(source.replace("reference_numpy.fast", name), "utf-8")
    return importlib.import_module(name)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for packages, forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("mistaken", "right")]:
        del sys.modules[name]


def block_fault(module):
    """A block is no row of the table: its exact values are those that torch's is held to."""
    rng = np.random.default_rng(0)
    config = config_of(6, 2)
    params = random_parameters(rng, transformer_block_shapes(config))
    X, dY = rng.standard_normal((2, 3, 5, 6))
    return attempt(lambda: assert_within(run_block(module, params, X, dY, config), exact_block(params, X, dY, config)))


def fault(module, name, small=False):
    """What the table says of an op, or its laws of a part, in tiny tiles on 3 threads; `small`: without any."""
    sizes = {size: value for size, value in TINY.items() if size != "_small.FEW" or not small}
    with set_to(sizes, 3, module.__name__):
        if name == "transformer_block":
            return block_fault(module)
        if name in PARTS:
            return next((what for law in PARTS[name] if (what := law(getattr(module, name)))), "")
        implementation = fused(module) if name in FUSED else as_implementation(module)
        return first_fault(implementation, name, conducted=False)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught(place, mistake):
    file, right, wrong, names = MISTAKES[mistake]
    module = copied(place, "mistaken", file, right, wrong)
    assert any(fault(module, name, file == "_small") for name in names)


@pytest.mark.parametrize("name", sorted({name for *_, names in MISTAKES.values() for name in names}))
def test_without_a_mistake_nothing_is_caught(place, name):
    module = copied(place, "right")
    assert module.attention.__module__ == "right.attention"
    assert fault(module, name) == ""
    assert name != "gpt_loss" or fault(module, name, small=True) == ""


def test_there_is_a_mistake_in_every_file_that_computes():
    """The others keep memory, share out work, ask what may come in: of those test_fast and test_fast_isolation speak."""
    files = {path.stem for path in FOLDER.glob("*.py")}
    assert files - {file for file, *_ in MISTAKES.values()} == {"__init__", "_check", "_memory", "_threads", "learner"}
