"""The error arithmetic is sound line by line, not vacuous, and covers what once was rejected though it was right."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from equivalence_tests import row_budgets, variants
from equivalence_tests.arithmetic import ORACLE, PRECISIONS, RUNS, Bounded, Perturbed, round_to
from equivalence_tests.cases import Case
from equivalence_tests.checks import agreement, draw_case
from equivalence_tests.implementations import Tensor, load, run
from equivalence_tests.judge import judge_tensor
from equivalence_tests.ops import OPS
from equivalence_tests.stages import AS_IT_IS, STORED

SINGLE, DOUBLE = PRECISIONS["float32"], PRECISIONS["float64"]

# The same line twice: over bounded numbers, and as float32 computes it.
LINES = {
    "add": (lambda x, y: x + y, np.add),
    "subtract": (lambda x, y: x - y, np.subtract),
    "multiply": (lambda x, y: x * y, np.multiply),
    "divide": (lambda x, y: x / (y * y + 0.5), lambda x, y: x / (y * y + np.float32(0.5))),
    "constant over": (lambda x, y: 0.3 / (y * y + 0.7), lambda x, y: np.float32(0.3) / (y * y + np.float32(0.7))),
    "product": (lambda x, y: x @ y.mT, lambda x, y: x @ y.T),
    "biased product": (lambda x, y: (x @ y.mT).plus(y[:, 0], 6), lambda x, y: y[:, 0] + x @ y.T),
    "sum": (lambda x, y: (x * y).sum(-1), lambda x, y: (x * y).sum(-1)),
    "mean": (lambda x, y: (x + y).mean(-1), lambda x, y: (x + y).mean(-1, keepdims=True)),
    "exp": (lambda x, y: (x - y).exp(), lambda x, y: np.exp(x - y)),
    "log": (lambda x, y: (x * x + 0.25).log(), lambda x, y: np.log(x * x + np.float32(0.25))),
    "tanh": (lambda x, y: (x + y).tanh(), lambda x, y: np.tanh(x + y)),
    "sqrt": (lambda x, y: (x * x + y * y).sqrt(), lambda x, y: np.sqrt(x * x + y * y)),
    "reverse": (lambda x, y: 1.0 - x * y, lambda x, y: np.float32(1.0) - x * y),
    "negative": (lambda x, y: -(x - y), lambda x, y: -(x - y)),
    "selected": (lambda x, y: (x * y).where(np.eye(5, 6) > 0), lambda x, y: np.where(np.eye(5, 6) > 0, x * y, 0)),
}


@pytest.mark.parametrize("line", LINES)
@given(seed=st.integers(0, 2**32 - 1), magnitude=st.sampled_from([1.0, 1e-3, 30.0]))
def test_what_float32_computes_lies_within_the_bound(line, seed, magnitude):
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((2, 5, 6)) * magnitude).astype(np.float32)
    exact, single = LINES[line]
    with np.errstate(over="ignore"):  # exp(100): infinite in float32, and then nothing is promised
        bound = exact(Bounded(x, SINGLE), Bounded(y, SINGLE))
        got = single(x, y)
    assert got.dtype == np.float32
    assert (np.abs(got.astype(ORACLE) - bound.value) <= bound.budget()).all()


@pytest.mark.parametrize("line", [line for line in LINES if line != "selected"])
def test_the_bound_is_used_to_more_than_a_hundredth(line):
    largest = 0.0
    for seed in range(50):
        x, y = np.random.default_rng(seed).standard_normal((2, 5, 6)).astype(np.float32)
        exact, single = LINES[line]
        bound = exact(Bounded(x, SINGLE), Bounded(y, SINGLE))
        largest = max(largest, float((np.abs(single(x, y) - bound.value) / bound.budget()).max()))
    assert 0.01 < largest <= 1.0


def test_beyond_the_largest_number_nothing_is_promised():
    large = Bounded([200.0], PRECISIONS["float16"])
    assert np.isfinite((large * 300.0).error).all()
    assert np.isinf((large * 400.0).error).all()
    with np.errstate(invalid="ignore"):
        assert np.isinf((large * 400.0 * 0.0).error).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_rounding_to_bfloat16_is_torchs(seed):
    import torch

    X = np.random.default_rng(seed).standard_normal(50) * 10.0 ** np.random.default_rng(seed).integers(-30, 30, 50)
    expected = torch.from_numpy(X).float().to(torch.bfloat16).double().numpy()
    assert np.array_equal(round_to(X, PRECISIONS["bfloat16"]), expected)


def test_perturbed_runs_differ_by_about_the_unit():
    rng = np.random.default_rng(0)
    x = Perturbed.start(np.ones((3, 4)), rng, 1e-6, 1e-6)
    spread = (x * 2.0).value - 2.0
    assert spread.shape == (RUNS, 3, 4)
    assert np.allclose(np.abs(spread), 2e-6, rtol=1e-6)  # the step itself, to first order
    product = (x @ Perturbed.start(np.ones((5, 4)), rng, 1e-6, 1e-6).mT).value - 4.0
    assert 1e-6 < np.abs(product).max() < 4 * (1 + 2 * np.sqrt(5)) * 1e-6


# What once was rejected though it was right, and why it is not any more.


def verdicts(op, implementation, operands, upstream, dtype, options=None):
    case = Case(operands, options or {}, upstream).rounded(PRECISIONS[dtype])
    exact = OPS[op].exact(case, PRECISIONS[dtype])
    found = agreement(load(implementation), OPS[op], case, exact, dtype)
    return {name: verdict.wrong for name, verdict in found.items() if verdict.wrong}


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 7), far=st.sampled_from([4e4, -300.0, 1e6]))
@example(seed=0, d=5, far=4e4)
def test_a_constant_row_far_from_zero(implementation, seed, d, far):
    """N and mean(dN N) are 0, and so is the first-order error of their product: the second order is all there is."""
    if not implementation.offers("layer_norm"):
        return
    rng = np.random.default_rng(seed)
    operands = {"X": np.full((2, d), far), "scale": rng.standard_normal(d), "shift": rng.standard_normal(d)}
    for dtype in implementation.dtypes:
        assert verdicts("layer_norm", implementation.name, operands, {"dY": rng.standard_normal((2, d))}, dtype) == {}


@given(seed=st.integers(0, 2**32 - 1))
def test_a_bias_that_is_the_first_term_of_the_sum(implementation, seed):
    """With a large bias every partial sum of torch's one call is rounded at the bias' size."""
    if not implementation.offers("linear"):
        return
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((3, 8))
    X = rng.standard_normal((4, 8))
    operands = {"X": X, "weight": weight, "bias": -(X @ weight.T)[0]}
    for dtype in implementation.dtypes:
        assert verdicts("linear", implementation.name, operands, {"dY": rng.standard_normal((4, 3))}, dtype) == {}


@given(seed=st.integers(0, 2**32 - 1))
def test_a_context_that_is_stored_in_half_precision_before_delta(implementation, seed):
    """The fused backward takes delta = sum(dC C) from the C that it stored; many wide heads, V as wide as K."""
    if not implementation.offers("attention"):
        return
    rng = np.random.default_rng(seed)
    Q, K, V, dC = rng.standard_normal((4, 2, 3, 4, 16))
    for dtype in implementation.dtypes:
        assert verdicts("attention", implementation.name, {"Q": Q, "K": K, "V": V}, {"dC": dC}, dtype) == {}


@pytest.mark.parametrize("variant", ["query, key and value in one product", "attention key by key"])
def test_a_models_delta_from_the_context_where_one_key_has_it_all(variant):
    """With one key dA - delta is 0: what is left is the rounding of sum dC C, where another has that of sum A dA."""
    for index in (9, 33):  # one token, wide heads
        drawn = draw_case(OPS["gpt"], 77, index)
        assert drawn.operands["ids"].shape[-1] == 1
        for dtype in ("float64", "float32"):
            case = drawn.rounded(PRECISIONS[dtype])
            exact = OPS["gpt"].exact(case, PRECISIONS[dtype])
            found = agreement(variants.implementation("gpt", variant), OPS["gpt"], case, exact, dtype)
            assert [verdict.wrong for verdict in found.values() if verdict.wrong] == []


def test_a_gradient_that_cancels_keeps_its_budget_and_one_that_rounding_takes_has_none():
    """With one token that of the queries is zero, whatever rounding makes of it; a layer norm's may be lost altogether."""
    half = PRECISIONS["bfloat16"]
    for index in (9, 33):
        exact = OPS["gpt"].exact(draw_case(OPS["gpt"], 77, index).rounded(half), half)
        truth = exact["dblocks.0.attention.query.weight"]
        assert np.abs(truth.value).max() < 1e-15  # what long double leaves of it
        assert 0 < truth.budget().max() < np.inf
    lost = OPS["gpt"].exact(draw_case(OPS["gpt"], 1032, 27).rounded(half), half)
    assert np.isinf(lost["dtoken_embedding.weight"].budget()).all()
    assert np.isfinite(lost["dlm_head.weight"].budget()).all()


def test_a_long_sum_over_a_batch(implementation):
    """dW_ih of the RNN adds up 300 steps: partial sums as large as the whole round more than its terms do."""
    if not implementation.offers("rnn"):
        return
    for seed in range(5):
        rng = np.random.default_rng(seed)
        shapes = {"X": (10, 6, 5, 8), "W_ih": (7, 8), "W_hh": (7, 7), "b_ih": (7,), "b_hh": (7,)}
        operands = {name: 0.3 * rng.standard_normal(shape) for name, shape in shapes.items()}
        upstream = {"dH": rng.standard_normal((10, 6, 5, 7)), "dh_last": rng.standard_normal((10, 6, 7))}
        for dtype in implementation.dtypes:
            assert verdicts("rnn", implementation.name, operands, upstream, dtype) == {}


@given(
    seed=st.integers(0, 2**32 - 1),
    fill=st.sampled_from([-1e4, -1e7, -1e9, -3e38]),
    dtype=st.sampled_from(["float64", "float32"]),
    first=st.booleans(),
)
def test_a_huge_bias_has_two_right_answers_and_no_others(seed, fill, dtype, first):
    """Rounded after the bias is added, or differences first: both are within the budget, a weight of 1 for all is not."""
    rng = np.random.default_rng(seed)
    Q, K = rng.standard_normal((2, 3, 4))
    bias = np.full((3, 3), fill)
    V, dC = np.eye(3), rng.standard_normal((3, 3))
    case = Case({"Q": Q, "K": K, "V": V}, {"bias": bias, "scale": 1.0}, {"dC": dC}).rounded(PRECISIONS[dtype])
    exact = OPS["attention"].exact(case, PRECISIONS[dtype])["C"]
    q, k, b = (x.astype(dtype) for x in (case.operands["Q"], case.operands["K"], case.options["bias"]))
    S = q @ k.T if first else q @ k.T + b
    E = np.exp(S - S.max(-1, keepdims=True))
    assert (np.abs(E / E.sum(-1, keepdims=True) - exact.value) <= exact.budget()).all()
    if abs(fill) * PRECISIONS[dtype].unit > 1.0:
        assert (exact.budget() < 1.0 - exact.value).any()


def test_a_sum_that_is_exact_in_every_order_has_no_error():
    X, Y = Bounded(np.full((2, 3), 1000.0), SINGLE), Bounded(np.full((3, 4), -0.25), SINGLE)
    assert row_budgets.exact_product(X, Y, 0.25).all()
    assert not row_budgets.exact_product(X, Y, 0.5).any()  # its root, on X and on Y, is rounded
    assert row_budgets.exact_product(Bounded(np.ones((2, 3)) / 3.0, SINGLE), Y, 0.0).all()
    tenths = Bounded(np.full((2, 3), np.float32(0.1)), SINGLE)
    assert not row_budgets.exact_product(tenths, tenths.mT, 1.0).any()
    assert not row_budgets.exact_product(Bounded(X.value, SINGLE, 1e-3), Y, 0.25).any()


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "cross_entropy", "attention", "gpt_loss"])
def test_the_wider_budget_is_wider_and_has_the_same_values(op):
    found = False
    for index in range(8 if OPS[op].model else 20):
        case = draw_case(OPS[op], 3, index).rounded(SINGLE)
        ordinary, wider = (OPS[op].exact(case, SINGLE, stage) for stage in (AS_IT_IS, STORED))
        for name, truth in ordinary.items():
            assert np.array_equal(truth.value, wider[name].value, equal_nan=True) or OPS[op].model
            found |= bool((wider[name].budget() > 1.5 * truth.budget()).any())
            assert OPS[op].model or (wider[name].budget() >= truth.budget()).all(), name
    assert found


def test_a_tensor_of_subnormal_scale_is_judged():
    truth = Bounded(np.array([1e-310]), DOUBLE, DOUBLE.tiny)
    verdict = judge_tensor("Y", Tensor(np.array([0.0]), "float64"), truth, DOUBLE)
    assert verdict.wrong == ""
    assert verdict.ill


def test_an_ill_conditioned_budget_is_no_agreement():
    truth = Bounded(np.array([1.0]), SINGLE, 1e-3)
    verdict = judge_tensor("Y", Tensor(np.array([1.0], np.float32), "float32"), truth, SINGLE)
    assert verdict.ill
    assert not judge_tensor(
        "Y", Tensor(np.array([1.0], np.float32), "float32"), Bounded([1.0], SINGLE, 1e-4), SINGLE
    ).ill


def test_one_id_gives_a_row_of_its_own(implementation):
    """weight[id] would be a view of the table."""
    if not implementation.offers("embedding"):
        return
    case = Case({"ids": np.asarray(1), "weight": np.arange(6.0).reshape(3, 2)}, {}, {"dY": np.array([0.5, 2.0])})
    answer = run(implementation, OPS["embedding"], case, "float64")
    assert np.array_equal(answer["Y"].value, [2.0, 3.0])
    assert np.array_equal(answer["dweight"].value, [[0, 0], [0.5, 2.0], [0, 0]])
    if implementation.pairs:
        weight = case.operands["weight"]
        assert not np.shares_memory(implementation.forward("embedding")(np.asarray(1), weight)[0], weight)


def test_every_budget_of_a_case_is_finite_or_says_that_it_is_not():
    for op in OPS.values():
        for index in range(-(-20 // op.every)):
            case = draw_case(op, 9, index).rounded(DOUBLE)
            for name, truth in op.exact(case, DOUBLE).items():
                assert (truth.budget() >= 0).all(), name
                assert not np.isnan(truth.budget()).any(), name
