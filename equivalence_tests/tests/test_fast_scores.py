"""The fast twin on rows of equal, huge and finitely filled scores: within the ordinary budget, as the textbook.

What it recomputes in the backward rests on a row's maximum and sum, two numbers. In one, the logarithm of the sum is lost
beside a large maximum.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case
from equivalence_tests.checks import agreement
from equivalence_tests.implementations import load
from equivalence_tests.ops import OPS
from equivalence_tests.tests.fast_settings import DTYPES, TINY, set_to
from reference_numpy import GPTConfig, RNNConfig, fast, init_gpt, init_rnn

FAST = load("reference_numpy.fast")
LOWEST = float(np.finfo(np.float64).min)  # once it is rounded, that of the dtype
FILLS = [-1e4, -1e9, LOWEST]
ROWS = {"all rows": np.s_[:], "a row": np.s_[0], "a part of each row": np.s_[:, ::3]}
SOME = 2.0**9  # roundings that two ways through a whole model may be apart


def verdicts(op, operands, options, upstream, dtype, implementation=FAST):
    case = Case(operands, options, upstream).rounded(PRECISIONS[dtype])
    return agreement(implementation, OPS[op], case, OPS[op].exact(case, PRECISIONS[dtype]), dtype).values()


def attending(seed, n=6, m=64, c=8, size=1.0):
    rng = np.random.default_rng(seed)
    shapes = {"Q": (n, c), "K": (m, c), "V": (m, 5)}
    return {name: size * rng.standard_normal(s) for name, s in shapes.items()}, {"dC": rng.standard_normal((n, 5))}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("rows", ROWS)
def test_a_finite_fill_in_the_bias(rows, fill, dtype):
    operands, upstream = attending(0)
    bias = np.zeros((6, 64))
    bias[ROWS[rows]] = fill
    for sizes, threads in (({}, 1), (TINY, 2)):
        with set_to(sizes, threads):
            found = verdicts("attention", operands, {"bias": bias}, upstream, dtype)
            assert [verdict.wrong for verdict in found if verdict.wrong] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_equal_scores_far_below_0(dtype):
    """dQ was [-1.414, 1.414]: each weight was 1, so that their row had twice what it has."""
    one, V = np.eye(2, dtype=dtype), np.array([[1, 2], [3, 4]], dtype)
    lowest = float(np.finfo(dtype).min)
    for fill in (-1e9, lowest) if dtype == "float32" else (lowest,):
        _, cache = fast.attention(one, one, V, bias=np.full((2, 2), fill, dtype))
        dQ, dK, dV = fast.attention_backward(np.ones((2, 2), dtype), cache)
        np.testing.assert_allclose(dQ, [[-(0.5**0.5), 0.5**0.5]] * 2, rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(dV, np.ones((2, 2)))
        assert np.abs(dK).max() < 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2.0**7, 2.0**10])
def test_equal_huge_scores_without_a_bias(size, dtype):
    operands, upstream = attending(1, m=64)
    operands |= {"Q": np.full((6, 8), size), "K": np.full((64, 8), size)}
    found = verdicts("attention", operands, {"scale": 1.0}, upstream, dtype)
    assert [verdict.wrong for verdict in found if verdict.wrong] == []
    assert not any(verdict.ill for verdict in list(found)[:1])


@pytest.mark.parametrize("v", [1e4, 1e7, 1e8])
def test_two_equal_logits(v):
    logits, targets = np.full((1, 2), v, np.float32), np.array([0])
    dlogits = fast.cross_entropy_backward(1.0, fast.cross_entropy(logits, targets)[1])
    np.testing.assert_array_equal(dlogits, [[-0.5, 0.5]])
    found = verdicts(
        "cross_entropy", {"logits": logits.astype(float), "targets": targets}, {}, {"dloss": np.ones(())}, "float32"
    )
    assert [verdict.wrong or verdict.ill for verdict in found if verdict.wrong or verdict.ill] == []


@given(
    seed=st.integers(0, 2**32 - 1),
    fill=st.sampled_from(FILLS) | st.floats(-1e12, -1.0),
    share=st.sampled_from([0.2, 0.7, 1.0]),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
    dtype=st.sampled_from(DTYPES),
    threads=st.integers(1, 3),
)
def test_any_fill_of_any_share_agrees(seed, fill, share, size, dtype, threads):
    rng = np.random.default_rng(seed)
    operands, upstream = attending(seed, *rng.integers(1, 9, 3), size=size)
    shape = (len(operands["Q"]), len(operands["K"]))
    bias = np.where(rng.random(shape) < share, fill, rng.standard_normal(shape))
    with set_to(TINY, threads):
        found = verdicts("attention", operands, {"bias": bias, "causal": bool(seed % 2)}, upstream, dtype)
        assert [verdict.wrong for verdict in found if verdict.wrong] == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keep", [False, True])
def test_a_large_upstream_gradient_of_scores_that_are_all_low_stays_finite(dtype, keep):
    """They need no shift, and 1 / sum(exp) is about e^15: times dC it would overflow."""
    Q, K = np.full((3, 1), -3.0, dtype), np.full((4, 1), 5.0, dtype)
    V, dC = np.ones((4, 2), dtype), np.full((3, 2), np.finfo(dtype).max / 64, dtype)
    options = {"scale": 1.0, **({"keep": np.ones((3, 4), bool), "p": 0.5} if keep else {})}
    _, cache = fast.attention(Q, K, V, **options)
    _, right = reference_numpy.attention(Q, K, V, **options)
    for one, other in zip(
        fast.attention_backward(dC, cache), reference_numpy.attention_backward(dC, right), strict=True
    ):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=float(np.finfo(dtype).max) * 1e-5)


def apart(one, other):
    """The norm of the difference of two models' gradients, over the norm of one."""
    pairs = [(one[name].astype(np.longdouble), other[name].astype(np.longdouble)) for name in other]
    return float(np.sqrt(sum(((x - y) ** 2).sum() for x, y in pairs) / sum((y**2).sum() for _, y in pairs)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "size"), [("bias", 1e6), ("bias", 1e8), ("scores", 1e4), ("scores", 1e5)])
def test_both_ways_through_a_training_step_and_the_textbook_agree(kind, size, dtype):
    """The pair was off by 48 times the gradient's norm, and by infinity; the loss with its gradients at once was right."""
    config = GPTConfig(50, 16, 16, 2, 2, 8, 4, dropout=0.0)
    rng = np.random.default_rng(3)
    params = init_gpt(config, rng, dtype)
    ids, targets = rng.integers(0, 50, (2, 3, 16))
    if kind == "bias":
        params["lm_head.bias"] = np.full(50, size, dtype)
    else:
        params |= {name: p * p.dtype.type(size) for name, p in params.items() if ".query." in name or ".key." in name}
    loss, right = both(reference_numpy, "gpt_loss", params, ids, targets, config)
    for sizes, threads in (({}, 1), (TINY, 2)):
        with set_to(sizes, threads):
            pair_loss, pair = both(fast, "gpt_loss", params, ids, targets, config)
            loss_at_once, at_once = fast.gpt_loss_gradients(1.0, params, ids, targets, config)
        unit = PRECISIONS[dtype].unit
        assert abs(pair_loss - loss) <= SOME * unit * abs(loss)
        assert abs(loss_at_once - loss) <= SOME * unit * abs(loss)
        assert apart(pair, right) <= SOME * unit
        assert apart(at_once, right) <= SOME * unit


def both(module, op, *operands):
    loss, cache = getattr(module, op)(*operands)
    return loss, getattr(module, f"{op}_backward")(1.0, cache)


@pytest.mark.parametrize("size", [1e6, 1e8])
def test_a_recurrent_models_loss_with_a_huge_bias_of_the_head(size):
    config, rng = RNNConfig(20, 6), np.random.default_rng(4)
    params = init_rnn(config, rng, "float32") | {"lm_head.bias": np.full(20, size, np.float32)}
    ids, targets = rng.integers(0, 20, (2, 3, 5))
    _, right = both(reference_numpy, "generative_rnn_loss", params, ids, targets, config)
    with set_to(TINY, 2):
        _, pair = both(fast, "generative_rnn_loss", params, ids, targets, config)
        _, at_once = fast.generative_rnn_loss_gradients(1.0, params, ids, targets, config)
    assert apart(pair, right) <= SOME * PRECISIONS["float32"].unit
    assert apart(at_once, right) <= SOME * PRECISIONS["float32"].unit
