"""Public reports of wrong or unstable results, as tests: the small input of each, and the right answer to the digit.

The number of the report stands in the docstring. Every implementation runs them. A right value is held twice: the formula
must give its printed digits, to half a unit of the last one, and the implementation must agree with the formula within the
budget. Upstream gradients are random unless the report gives them, so that what it does not print is judged too.
"""

import math
from typing import Any

import numpy as np
import pytest

from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.checks import draw_case
from equivalence_tests.implementations import Implementation, NotOffered, Tensor, run
from equivalence_tests.judge import judge, judge_tensor
from equivalence_tests.ops import OPS
from equivalence_tests.stages import AS_IT_IS, STORED

BOTH = ("float64", "float32")
DIGITS = 6  # behind the point, as most reports print them
NO, YES = False, True
INF = math.inf


def case(op: str, operands: dict[str, Any], options: Any = None, upstream: Any = None) -> Case:
    """Lists become arrays; an upstream gradient that the report does not give is random."""
    operands = {name: np.asarray(x, None if name in ("ids", "targets") else np.float64) for name, x in operands.items()}
    options = {name: np.asarray(x, _kind(name)) if isinstance(x, list) else x for name, x in (options or {}).items()}
    if upstream is None and OPS[op].differentiable:
        name = f"d{OPS[op].outputs[0]}"
        upstream = {name: np.random.default_rng(5).standard_normal(_shape(op, operands))}
    upstream = {name: np.asarray(x, np.float64) for name, x in (upstream or {}).items()}
    return Case(operands, options, upstream)


def _kind(name: str) -> Any:
    return np.bool_ if name in ("mask", "keep") else np.float64


def _shape(op: str, operands: dict[str, Array]) -> tuple[int, ...]:
    """Of the output."""
    first, *others = operands.values()
    width = {"attention": "V", "self_attention": "Wv", "multi_head_attention": "Wo"}.get(op)
    if width:
        return (*first.shape[:-1], operands[width].shape[-1])
    if op == "cross_entropy":
        return ()
    if op == "embedding":
        return (*first.shape, others[0].shape[-1])
    return (*first.shape[:-1], len(others[0])) if op == "linear" else first.shape


def offered(implementation: Implementation, op: str, given: Case) -> bool:
    """Whether there is something to test: the fused kernels are three ops, and know neither keep nor p."""
    if not implementation.offers(op):
        return False
    return "fused" not in implementation.name or not {"keep", "p"} & given.options.keys()


def values(implementation: Implementation, op: str, given: Case, dtype: str = "float64") -> dict[str, Array]:
    """Every output and gradient as it was answered."""
    answer = run(implementation, OPS[op], given.rounded(PRECISIONS[dtype]), dtype)
    return {name: tensor.value for name, tensor in answer.items()}


def prove(
    implementation: Implementation,
    op: str,
    given: Case,
    right: dict[str, Any],
    dtypes: tuple[str, ...] = BOTH,
    digits: int = DIGITS,
) -> None:
    """The formula has the printed digits, and the implementation agrees with it: in what is printed and in all the rest."""
    if not offered(implementation, op, given):
        return
    for dtype in (dtype for dtype in dtypes if dtype in implementation.dtypes):
        precision = PRECISIONS[dtype]
        rounded = given.rounded(precision)
        exact = OPS[op].exact(rounded, precision)
        answer = run(implementation, OPS[op], rounded, dtype)
        wrong = [judgement.wrong for judgement in judge(answer, exact, precision).values() if judgement.wrong]
        assert not wrong, f"{dtype}: {wrong[0]}"
        for name, printed in right.items():
            printed = np.asarray(printed, np.float64)
            half = 0.5 * 10.0**-digits
            budget = exact[name].budget()
            truth, got = exact[name].value.astype(np.float64), answer[name].value
            assert printed.shape == truth.shape
            # A number such as ln 3 is rounded to the format before anybody sees it: hence the budget in both lines.
            assert (np.abs(truth - printed) <= half + budget).all(), f"{dtype}: {name} is {truth}"
            assert (np.abs(got - printed) <= half + budget).all(), f"{dtype}: {name} is {got}"


def still(n: int, m: int) -> dict[str, Any]:
    """Queries and keys of 0: every score is 0, and attention takes means."""
    return {"Q": np.zeros((n, 2)), "K": np.zeros((m, 2)), "V": np.arange(1.0, m + 1)[:, None]}


def weighing(scores: list[float], **options: Any) -> Case:
    """One query with these scores; V = 1, so that C is the row of weights."""
    m = len(scores)
    operands = {"Q": [[1.0]], "K": [[score] for score in scores], "V": np.eye(m)}
    return case("attention", operands, {"scale": 1.0, **options})


# Masks


def test_a_query_without_keys_gets_zeros_and_hands_back_zeros(implementation):
    """MSK-01"""
    operands = {"Q": np.eye(2), "K": np.eye(2), "V": [[1, 2], [3, 4]]}
    given = case("attention", operands, {"mask": [[NO, NO], [YES, YES]]}, {"dC": np.ones((2, 2))})
    right = {
        "C": [[0, 0], [2.339523, 3.339523]],
        "dQ": [[0, 0], [-0.625594, 0.625594]],
        "dK": [[0, -0.625594], [0, 0.625594]],
        "dV": [[0.330238, 0.330238], [0.669762, 0.669762]],
    }
    prove(implementation, "attention", given, right)


def test_the_gradient_of_the_scores_is_clean_where_nothing_may_be_attended(implementation):
    """MSK-02"""
    operands = {"Q": np.zeros((2, 3)), "K": np.zeros((2, 3)), "V": np.eye(2), "dC": [[1, 2], [1, 2]]}
    given = case("attention_stages", operands, {"bias": [[-INF, -INF], [0, 1]]})
    right = {"A": [[0, 0], [0.268941, 0.731059]], "dS": [[0, 0], [-0.196612, 0.196612]]}
    prove(implementation, "attention_stages", given, right)


def test_causal_and_padding_together_leave_an_empty_row_and_no_nan(implementation):
    """MSK-04"""
    rng = np.random.default_rng(0)
    operands = {"Q": rng.standard_normal((2, 3)), "K": rng.standard_normal((2, 3)), "V": [[1, 2], [3, 4]]}
    given = case("attention", operands, {"mask": [[NO, YES]], "causal": True})
    prove(implementation, "attention", given, {"C": [[0, 0], [3, 4]]}, dtypes=(*BOTH, "float16", "bfloat16"))


def test_true_in_a_mask_means_may_attend(implementation):
    """MSK-07"""
    operands = still(3, 3) | {"V": [[1], [2], [4]]}
    ones = np.ones((3, 3), bool)
    given = case("attention", operands, {"mask": np.tril(ones)})
    prove(implementation, "attention", given, {"C": [[1], [1.5], [2.333333]]})
    given = case("attention", operands, {"mask": np.triu(ones, 1)})  # what the other convention would pass
    prove(implementation, "attention", given, {"C": [[3], [4], [0]]})


def test_a_boolean_mask_selects_and_is_not_added(implementation):
    """MSK-08"""
    prove(implementation, "attention", weighing([3.0, 3.0], mask=[[YES, NO]]), {"C": [[1, 0]]})


def test_a_mask_of_integers_is_refused(implementation):
    """MSK-08"""
    given = weighing([3.0, 3.0], mask=np.array([[1, 0]]))
    with pytest.raises(TypeError, match=r"mask has dtype int64, expected bool"):
        values(implementation, "attention", given)


def test_a_forbidden_key_gets_nothing_however_well_it_matches(implementation):
    """MSK-09"""
    prove(implementation, "attention", weighing([0.0, 12.0], mask=[[YES, NO]]), {"C": [[1, 0]]})
    prove(implementation, "attention", weighing([0.0, 1200.0], mask=[[YES, NO]]), {"C": [[1, 0]]})


def test_masked_scores_are_out_of_the_sum(implementation):
    """MSK-11"""
    right = {"C": [[0.268941, 0.731059, 0]]}
    prove(implementation, "attention", weighing([1.0, 2.0, 3.0], mask=[[YES, YES, NO]]), right)


@pytest.mark.parametrize("dtype", BOTH)
def test_changing_a_masked_key_changes_nothing(implementation, dtype):
    """MSK-11"""
    rng = np.random.default_rng(1)
    operands = {"Q": rng.standard_normal((3, 4)), "K": rng.standard_normal((5, 4)), "V": rng.standard_normal((5, 2))}
    mask = [[YES, YES, NO, YES, NO]]
    one = values(implementation, "attention", case("attention", operands, {"mask": mask}), dtype)
    changed = {name: x.copy() for name, x in operands.items()}
    changed["K"][[2, 4]] *= -3.0
    changed["V"][[2, 4]] += 100.0
    other = values(implementation, "attention", case("attention", changed, {"mask": mask}), dtype)
    for name in ("C", "dQ", "dK", "dV"):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_mask_of_each_sample_serves_all_its_heads(implementation):
    """MSK-12: two samples of length 1 and 2, two heads"""
    V = np.arange(8.0).reshape(2, 2, 2, 1)  # (B, H, m, 1)
    operands = {"Q": np.zeros((2, 2, 1, 3)), "K": np.zeros((2, 2, 2, 3)), "V": V}
    mask = np.array([[YES, NO], [YES, YES]]).reshape(2, 1, 1, 2)
    right = {"C": [[[[0]], [[2]]], [[[4.5]], [[6.5]]]]}
    prove(implementation, "attention", case("attention", operands, {"mask": mask}), right)


def test_a_bias_counts_for_every_key(implementation):
    """POS-06"""
    operands = {"Q": np.zeros((1, 3)), "K": np.zeros((4, 3)), "V": np.eye(4)}
    given = case("attention", operands, {"bias": [[0.0, -1.0, -2.0, -3.0]]})
    prove(implementation, "attention", given, {"C": [[0.643914, 0.236883, 0.087144, 0.032059]]})


@pytest.mark.parametrize("option", [{"bias": [[0.0]]}, {"mask": [[YES]]}], ids=["bias", "mask"])
def test_a_key_axis_of_1_is_refused(implementation, option):
    """POS-06"""
    given = case("attention", {"Q": np.zeros((1, 3)), "K": np.zeros((4, 3)), "V": np.eye(4)}, option)
    with pytest.raises(ValueError, match=r"has shape \(1, 1\), expected a shape that broadcasts to \(1, 4\)"):
        values(implementation, "attention", given)


# What a row stores


def filled(fill: float) -> Case:
    """The queries and keys are the unit vectors; a bias fills every row with one number."""
    operands = {"Q": np.eye(2), "K": np.eye(2), "V": [[1, 2], [3, 4]]}
    return case("attention", operands, {"bias": [[fill, fill]] * 2}, {"dC": np.ones((2, 2))})


@pytest.mark.parametrize("fill", [-1e9, float(np.finfo(np.float32).min)])
def test_a_bias_that_fills_a_row_leaves_its_weights(implementation, fill):
    """Each weight of a row is 1/2 in float32, where the sum keeps nothing of the scores; dQ is not twice as large."""
    if "fused" in implementation.name:
        return
    given = filled(fill)
    if implementation.offers("attention"):
        half = values(implementation, "attention", given, "float32")
        np.testing.assert_allclose(half["dQ"], [[-(0.5**0.5), 0.5**0.5]] * 2, rtol=1e-6)
        np.testing.assert_allclose(half["dV"], np.ones((2, 2)), rtol=1e-6)
    prove(implementation, "attention", given, {}, dtypes=(*BOTH, "float16", "bfloat16"))


def test_torchs_fused_kernels_store_a_log_sum_exp(implementation):
    """On the CPU: the logarithm of 2 is lost beside -1e9, and each weight of the backward is 1. The ordinary budget is
    exceeded, and the wider one says nothing of it."""
    if implementation.name != "torch_impl.fused" or implementation.device != "cpu":
        return
    given = filled(-1e9).rounded(PRECISIONS["float32"])
    answer = run(implementation, OPS["attention"], given, "float32")
    np.testing.assert_allclose(answer["dQ"].value, [[-(2.0**0.5), 2.0**0.5]] * 2, rtol=1e-6)
    exact, wider = (OPS["attention"].exact(given, PRECISIONS["float32"], stage) for stage in (AS_IT_IS, STORED))
    assert judge(answer, exact, PRECISIONS["float32"])["dQ"].wrong
    judgement = judge(answer, exact, PRECISIONS["float32"], lambda: wider)["dQ"]
    assert (judgement.wrong, judgement.tolerated) == ("", "stored_log_sum_exp")
    assert not implementation.ordinary


@pytest.mark.parametrize("v", [1e4, 1e7, 1e8])
def test_two_equal_logits_share_the_gradient(implementation, v):
    """pytorch 11752"""
    given = case("cross_entropy", {"logits": [[v, v]], "targets": [0]}, {}, {"dloss": 1})
    prove(implementation, "cross_entropy", given, {"loss": 0.693147, "dlogits": [[-0.5, 0.5]]})


# Causal alignment


@pytest.mark.parametrize(("offset", "right"), [(0, [[1], [1.5]]), (3, [[2.5], [3]])], ids=["top-left", "bottom-right"])
def test_the_offset_says_where_the_triangle_starts(implementation, offset, right):
    """CAU-01"""
    given = case("attention", still(2, 5), {"causal": True, "query_offset": offset})
    prove(implementation, "attention", given, {"C": right})


@pytest.mark.parametrize(("offset", "right"), [(2, [[3]]), (0, [[1]])], ids=["bottom-right", "top-left"])
def test_a_decoding_step_sees_the_whole_buffer_if_it_stands_at_its_end(implementation, offset, right):
    """CAU-02"""
    operands = still(1, 3) | {"V": [[1], [2], [6]]}
    given = case("attention", operands, {"causal": True, "query_offset": offset})
    prove(implementation, "attention", given, {"C": right})


def test_a_decoding_step_is_the_last_row_of_the_full_forward(implementation):
    """CAU-02"""
    rng = np.random.default_rng(2)
    operands = {"Q": rng.standard_normal((5, 3)), "K": rng.standard_normal((5, 3)), "V": rng.standard_normal((5, 2))}
    full = case("attention", operands, {"causal": True})
    step = case("attention", operands | {"Q": operands["Q"][-1:]}, {"causal": True, "query_offset": 4})
    for dtype in BOTH:
        rows = [values(implementation, "attention", given, dtype)["C"][-1] for given in (full, step)]
        budget = OPS["attention"].exact(step.rounded(PRECISIONS[dtype]), PRECISIONS[dtype])["C"].budget()[-1]
        assert (np.abs(rows[0] - rows[1]) <= 2 * budget).all()


@pytest.mark.parametrize(("causal", "right"), [(True, [[1], [1.5], [2.333333]]), (False, [[2.333333]] * 3)])
def test_causal_means_nothing_from_the_future(implementation, causal, right):
    """CAU-04"""
    given = case("attention", still(3, 3) | {"V": [[1], [2], [4]]}, {"causal": causal})
    prove(implementation, "attention", given, {"C": right})


@pytest.mark.parametrize("op", ["self_attention", "multi_head_attention"])
@pytest.mark.parametrize("dtype", BOTH)
def test_editing_a_token_leaves_what_comes_before_it(implementation, op, dtype):
    """CAU-04"""
    rng = np.random.default_rng(3)
    operands = {"X": rng.standard_normal((5, 3)), **{name: rng.standard_normal((3, 4)) for name in ("Wq", "Wk", "Wv")}}
    options: dict[str, Any] = {"causal": True}
    if op == "multi_head_attention":
        operands["Wo"] = rng.standard_normal((4, 6))
        options["num_heads"] = 2
    before = values(implementation, op, case(op, operands, options), dtype)[OPS[op].outputs[0]]
    edited = operands["X"].copy()
    edited[3] = -edited[3]
    after = values(implementation, op, case(op, operands | {"X": edited}, options), dtype)[OPS[op].outputs[0]]
    np.testing.assert_array_equal(before[:3], after[:3])
    assert not np.array_equal(before[3:], after[3:])


# Scale and heads


@pytest.mark.parametrize(
    ("on_query", "on_key", "scale"),
    [(1.0, 1.0, None), (2**-0.25, 2**-0.25, 1.0), (2**-0.5, 1.0, 1.0), (1.0, 2**-0.5, 1.0)],
    ids=["on the scores", "a root on each", "on the query", "on the key"],
)
def test_the_scale_counts_once_wherever_it_is_applied(implementation, on_query, on_key, scale):
    """SCL-03"""
    operands = {
        "Q": on_query * np.array([[3.0, 1.0]]),
        "K": on_key * np.array([[2.0, -1.0]]),
        "V": [[1.0, 2.0, 3.0]],
        "dC": [[0.3, -0.5, 0.7]],
    }
    given = case("attention_stages", operands, {"scale": scale})
    prove(implementation, "attention_stages", given, {"scaled": [[3.535534]]})


def attending_itself(X: Array, num_heads: int, Wo: Array) -> Case:
    """Every token attends to itself alone and V = X, so that Y shows which numbers of X a head was given."""
    d = X.shape[-1]
    rng = np.random.default_rng(4)
    operands = {"X": X, "Wq": rng.standard_normal((d, d)), "Wk": rng.standard_normal((d, d)), "Wv": np.eye(d), "Wo": Wo}
    mask = np.eye(X.shape[-2], dtype=bool)
    return case("multi_head_attention", operands, {"num_heads": num_heads, "mask": mask})


def test_heads_are_merged_token_by_token(implementation):
    """HED-01: the values 0 ... 7 of (B, H, n, c) = (1, 2, 2, 2)"""
    merged = np.array([[[0.0, 1, 4, 5], [2, 3, 6, 7]]])
    prove(implementation, "multi_head_attention", attending_itself(merged, 2, np.eye(4)), {"Y": merged})


def test_a_head_is_a_slice_of_the_features(implementation):
    """HED-02"""
    X = np.arange(16.0).reshape(1, 4, 4)
    right = {"Y": [[[0, 1], [4, 5], [8, 9], [12, 13]]]}
    prove(implementation, "multi_head_attention", attending_itself(X, 2, np.eye(4)[:, :2]), right)


def test_samples_and_heads_are_not_swapped(implementation):
    """HED-04"""
    X = np.array([[[1.0, 2.0]], [[3.0, 4.0]]])  # (B, n, H c) = (2, 1, 2)
    prove(implementation, "multi_head_attention", attending_itself(X, 2, np.eye(2)), {"Y": X})


def test_a_sample_alone_is_what_it_is_in_a_batch(implementation):
    """HED-04"""
    rng = np.random.default_rng(6)
    operands = {"X": rng.standard_normal((3, 2, 4)), **{n: rng.standard_normal((4, 6)) for n in ("Wq", "Wk", "Wv")}}
    operands["Wo"] = rng.standard_normal((6, 5))
    given = case("multi_head_attention", operands, {"num_heads": 3})
    alone = case("multi_head_attention", operands | {"X": operands["X"][:1]}, {"num_heads": 3})
    for dtype in BOTH:
        rows = [values(implementation, "multi_head_attention", one, dtype)["Y"][0] for one in (given, alone)]
        budget = OPS["multi_head_attention"].exact(alone.rounded(PRECISIONS[dtype]), PRECISIONS[dtype])["Y"].budget()
        assert (np.abs(rows[0] - rows[1]) <= 2 * budget[0]).all()


def test_attention_hands_back_each_gradient_to_its_own(implementation):
    """HED-05"""
    operands = {"Q": [[1, 0]], "K": [[1, 2], [3, 0]], "V": [[1, 0], [0, 2]]}
    right = {
        "dQ": [[0.222488, -0.222488]],
        "dK": [[-0.111244, 0], [0.111244, 0]],
        "dV": [[0.195570, 0.195570], [0.804430, 0.804430]],
    }
    prove(implementation, "attention", case("attention", operands, {}, {"dC": [[1, 1]]}), right)


@pytest.mark.parametrize(("causal", "right"), [(False, [[1], [1]]), (True, [[1.5], [0.5]])])
def test_the_backward_is_causal_only_if_the_forward_was(implementation, causal, right):
    """HED-06"""
    operands = still(2, 2) | {"V": [[1], [3]]}
    given = case("attention", operands, {"causal": causal}, {"dC": [[1], [1]]})
    prove(implementation, "attention", given, {"dV": right})


# Softmax


@pytest.mark.parametrize(
    ("axis", "right"),
    [
        (-1, [[0.25, 0.75], [0.5, 0.5]]),
        (1, [[0.25, 0.75], [0.5, 0.5]]),
        (-2, [[0.5, 0.75], [0.5, 0.25]]),
        (0, [[0.5, 0.75], [0.5, 0.25]]),
    ],
)
def test_softmax_runs_along_its_axis(implementation, axis, right):
    """SMX-01"""
    scores = [[0.0, math.log(3.0)], [0.0, 0.0]]
    prove(implementation, "softmax", case("softmax", {"X": scores}, {"axis": axis}), {"A": right})


def test_the_jacobian_of_softmax_has_all_its_entries(implementation):
    """SMX-03"""
    given = case("softmax", {"X": np.log([0.2, 0.3, 0.5])}, {}, {"dA": [1, 0, 0]})
    prove(implementation, "softmax", given, {"dX": [0.16, -0.06, -0.10]})


def test_a_constant_upstream_gradient_vanishes_in_softmax(implementation):
    """SMX-03"""
    given = case("softmax", {"X": np.log([0.2, 0.3, 0.5])}, {}, {"dA": [1, 1, 1]})
    prove(implementation, "softmax", given, {"dX": [0, 0, 0]})


@pytest.mark.parametrize("dtype", BOTH)
def test_softmax_leaves_its_upstream_gradient_to_others(implementation, dtype):
    """SMX-04: of pairs alone; in torch the gradient is autograd's own"""
    if not implementation.pairs:
        return
    _, cache = implementation.forward("softmax")(np.log(np.array([0.2, 0.3, 0.5], dtype)))
    upstream = np.array([1.0, 0.0, 0.0], dtype)
    implementation.backward("softmax")(upstream, cache)
    np.testing.assert_array_equal(upstream, [1, 0, 0])


@pytest.mark.parametrize("dtype", BOTH)
def test_log_softmax_of_nothing_but_minus_infinity_is_nan(implementation, dtype):
    """SMX-06: what such a row should mean is for attention to say"""
    given = case("log_softmax", {"X": [[0, 0], [-INF, -INF]]})
    if not offered(implementation, "log_softmax", given):
        return
    Y = values(implementation, "log_softmax", given, dtype)["Y"]
    assert (np.abs(Y[0] + 0.693147) <= 0.5e-6 + PRECISIONS[dtype].unit).all()
    assert np.isnan(Y[1]).all()


@pytest.mark.parametrize("dtype", BOTH)
def test_a_gradient_is_selected_and_not_multiplied_by_0(implementation, dtype):
    """SMX-09: 0 times infinity would be NaN"""
    given = case("relu", {"X": [-1, 2]}, {}, {"dY": [INF, 3]})
    if offered(implementation, "relu", given):
        np.testing.assert_array_equal(values(implementation, "relu", given, dtype)["dX"], [0, 3])
    given = case("gelu", {"X": [100]}, {}, {"dY": [1]})
    prove(implementation, "gelu", given, {"Y": [100], "dX": [1]}, dtypes=(dtype,))


# Layer norm


def normalising(X: Any, upstream: Any = None, **options: Any) -> Case:
    """Scale 1 and shift 0: Y is what was normalised."""
    d = np.shape(X)[-1]
    return case("layer_norm", {"X": X, "scale": np.ones(d), "shift": np.zeros(d)}, options, upstream)


def test_the_variance_is_biased_and_epsilon_under_the_root(implementation):
    """LNM-02"""
    given = normalising([1, 0, 0, 0], epsilon=1e-5)
    prove(implementation, "layer_norm", given, {"Y": [1.732005, -0.577335, -0.577335, -0.577335]})


def test_a_large_mean_does_not_swallow_the_variance(implementation):
    """LNM-03"""
    right = {"Y": [-1.341635, -0.447212, 0.447212, 1.341635]}
    prove(implementation, "layer_norm", normalising([40000, 40001, 40002, 40003]), right)


ONE_FEATURE = {"X": [[1e6]], "scale": [2], "shift": [3]}


@pytest.mark.parametrize("dtype", BOTH)
def test_one_feature_is_normalised_to_0(implementation, dtype):
    """LNM-04: Y and dshift of every implementation; dscale and dX of pairs alone, the next test says why"""
    given = case("layer_norm", ONE_FEATURE, {}, {"dY": [[1]]})
    if not offered(implementation, "layer_norm", given):
        return
    answer = values(implementation, "layer_norm", given, dtype)
    assert answer["dshift"] == 1
    if implementation.pairs:
        assert [float(answer[name].item()) for name in ("Y", "dscale", "dX")] == [3, 0, 0]


def test_torch_is_no_witness_for_one_feature(implementation):
    """LNM-04: its statistics round, and a difference of 0 becomes one of 0.02 at 1e6 in float32"""
    if implementation.name != "torch_impl" or implementation.device != "cpu":
        return
    answer = values(implementation, "layer_norm", case("layer_norm", ONE_FEATURE, {}, {"dY": [[1]]}), "float32")
    assert answer["dscale"] == 7.203125


HUGE = [1e30, 2e30, 3e30, 4e30]


def test_huge_rows_are_normalised_in_float64(implementation):
    """LNM-05"""
    right = {"Y": [-1.341641, -0.447214, 0.447214, 1.341641]}
    prove(implementation, "layer_norm", normalising(HUGE), right, dtypes=("float64",))


def test_beyond_1e19_float32_is_out_of_range_for_layer_norm(implementation):
    """LNM-05: the documented limit of both twins; squared deviations overflow and nothing sensible is left"""
    if not offered(implementation, "layer_norm", normalising(HUGE)):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        Y = values(implementation, "layer_norm", normalising(HUGE), "float32")["Y"]
    assert not Y.any() or np.isnan(Y).all()
    right = {"Y": [-1.341641, -0.447214, 0.447214, 1.341641]}
    prove(implementation, "layer_norm", normalising([1e18, 2e18, 3e18, 4e18]), right)


def test_a_row_is_normalised_along_its_features(implementation):
    """LNM-08"""
    right = {"Y": [[-1.224736, 0, 1.224736], [-1.224743, 0, 1.224743]]}
    prove(implementation, "layer_norm", normalising([[1, 2, 3], [4, 6, 8]]), right)


def test_the_gradient_of_layer_norm_needs_no_mean_of_what_is_normalised(implementation):
    """LNM-10: that mean is 0; dX is r (g - mean(g) - N mean(g N)) as it stands, here for g = [1, 0, 0]"""
    X, g = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 0.0])
    r = 1.0 / math.sqrt(14.0 / 9.0 + 1e-5)
    N = (X - 7.0 / 3.0) * r
    right = {"Y": N, "dX": r * (g - g.mean() - N * (g * N).mean())}
    prove(implementation, "layer_norm", normalising(X, {"dY": g}), right, digits=14)


# Cross-entropy


def test_nothing_to_count_is_an_error(implementation):
    """XEN-01: where torch has NaN"""
    operands = {"logits": [[1, 2, 3], [0, 1, 0]], "targets": [-100, -100]}
    given = case("cross_entropy", operands, {"ignore_index": -100})
    if not offered(implementation, "cross_entropy", given):
        return
    with pytest.raises(ValueError, match="targets counts 0 of its elements"):
        values(implementation, "cross_entropy", given)


def test_ignoring_leaves_out_rows_and_no_class(implementation):
    """XEN-04"""
    operands = {"logits": [[1, 2, 3], [0, 1, 0]], "targets": [0, 1]}
    given = case("cross_entropy", operands, {"ignore_index": 0}, {"dloss": 1})
    right = {"loss": 0.551445, "dlogits": [[0, 0, 0], [0.211942, -0.423883, 0.211942]]}
    prove(implementation, "cross_entropy", given, right)


def test_the_mean_is_over_what_counts(implementation):
    """XEN-06"""
    operands = {"logits": np.zeros((2, 3)), "targets": [0, -100]}
    given = case("cross_entropy", operands, {"ignore_index": -100}, {"dloss": 1})
    right = {"loss": 1.098612, "dlogits": [[-0.666667, 0.333333, 0.333333], [0, 0, 0]]}
    prove(implementation, "cross_entropy", given, right)


def test_the_loss_takes_logits(implementation):
    """XEN-07: with probabilities in their place it would not fall below 0.55"""
    operands = {"logits": [[10, 0, 0]], "targets": [0]}
    prove(implementation, "cross_entropy", case("cross_entropy", operands), {"loss": 0.0000908}, digits=7)


def test_an_unlikely_target_has_a_finite_loss(implementation):
    """XEN-08"""
    operands = {"logits": [[1000, 0, -1000]], "targets": [2]}
    given = case("cross_entropy", operands, {}, {"dloss": 1})
    prove(implementation, "cross_entropy", given, {"loss": 2000, "dlogits": [[1, 0, -1]]})


# Embedding and tying


def test_id_0_is_an_id_like_any_other(implementation):
    """EMB-05"""
    operands = {"ids": [0, 1], "weight": [[1, 2], [3, 4], [5, 6]]}
    given = case("embedding", operands, {}, {"dY": [[7, 8], [9, 10]]})
    prove(implementation, "embedding", given, {"Y": [[1, 2], [3, 4]], "dweight": [[7, 8], [9, 10], [0, 0]]})


def test_a_repeated_id_adds_up(implementation):
    """EMB-03, without its padding"""
    given = case("embedding", {"ids": [1, 1, 3], "weight": np.eye(4, 2)}, {}, {"dY": [[1, 2], [10, 20], [100, 200]]})
    prove(implementation, "embedding", given, {"dweight": [[0, 0], [11, 22], [0, 0], [100, 200]]})


def test_tied_weights_get_the_gradient_of_both_uses(implementation):
    """EMB-06"""
    W = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    loss = case("cross_entropy", {"logits": W[:1] @ W.T, "targets": [2]}, {}, {"dloss": 1})
    prove(implementation, "cross_entropy", loss, {"loss": 0.861995})
    if not offered(implementation, "linear", loss):
        return
    dlogits = values(implementation, "cross_entropy", loss)["dlogits"]
    head = case("linear", {"X": W[:1], "weight": W}, {}, {"dY": dlogits})
    prove(implementation, "linear", head, {"dweight": [[0.422319, 0], [0.155362, 0], [-0.577681, 0]]}, ("float64",))
    into = values(implementation, "linear", head)
    rows = case("embedding", {"ids": [0], "weight": W}, {}, {"dY": into["dX"]})
    right = {"dweight": [[-0.155362, -0.422319], [0, 0], [0, 0]]}
    prove(implementation, "embedding", rows, right, ("float64",))
    total = into["dweight"] + values(implementation, "embedding", rows)["dweight"]
    assert (np.abs(total[0] - [0.266956, -0.422319]) <= 1.1e-6).all()  # two numbers printed to half a unit of 1e-6 each


# Broadcasting


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4), (1, 2, 4)])
def test_the_gradient_of_a_bias_is_summed_over_every_leading_axis(implementation, shape):
    """BRD-01"""
    X = np.random.default_rng(7).standard_normal((*shape[:-1], 3))
    operands = {"X": X, "weight": np.ones((4, 3)), "bias": np.zeros(4)}
    given = case("linear", operands, {}, {"dY": np.arange(8.0).reshape(shape)})
    prove(implementation, "linear", given, {"dbias": [4, 6, 8, 10]})


def test_an_axis_of_1_is_restored(implementation):
    """BRD-02"""
    given = case("linear", {"X": [[2], [2]], "weight": [[2]]}, {}, {"dY": [[1], [1]]})
    prove(implementation, "linear", given, {"dX": [[2], [2]], "dweight": [[4]]})


def elman(X: Any, W_ih: Any, W_hh: Any, dH: Any, dh_last: Any, **h0: Any) -> Case:
    """A network with one unit (or as many as W_ih has rows) and biases of 0."""
    operands = {"X": X, "W_ih": W_ih, "W_hh": W_hh, "b_ih": np.zeros(len(W_ih)), "b_hh": np.zeros(len(W_ih)), **h0}
    return case("rnn", operands, {}, {"dH": dH, "dh_last": dh_last})


def test_the_gradients_of_the_parameters_stand_before_the_activation(implementation):
    """BRD-05"""
    given = elman([[1]], [[0.5]], [[0]], [[1]], [0])
    prove(implementation, "rnn", given, {"dW_ih": [[0.786448]], "db_ih": [0.786448], "db_hh": [0.786448]})


# Dropout


def test_a_kept_0_is_kept(implementation):
    """DRP-04"""
    given = case("dropout", {"X": [0, 0, 2, 2]}, {"keep": [NO, YES, NO, YES], "p": 0.5}, {"dY": [1, 1, 1, 1]})
    prove(implementation, "dropout", given, {"Y": [0, 0, 0, 4], "dX": [0, 2, 0, 2]})


@pytest.mark.parametrize(
    ("p", "keep", "right"),
    [(1.0, [YES, YES], [0, 0]), (1.0, [NO, NO], [0, 0]), (0.0, [YES, YES], [1, 2]), (0.0, [YES, NO], [1, 0])],
)
def test_at_the_ends_of_its_range_p_drops_all_or_scales_nothing(implementation, p, keep, right):
    """DRP-05"""
    given = case("dropout", {"X": [1, 2]}, {"keep": keep, "p": p}, {"dY": [1, 2]})
    prove(implementation, "dropout", given, {"Y": right, "dX": right})


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_probability_outside_0_to_1_is_refused(implementation, p):
    """DRP-05"""
    given = case("dropout", {"X": [1, 2]}, {"keep": [YES, NO], "p": p})
    if not offered(implementation, "dropout", given):
        return
    with pytest.raises(ValueError, match="dropout: p is"):
        values(implementation, "dropout", given)


def test_p_is_the_probability_of_being_dropped(implementation):
    """DRP-06: draws of 0.05, 0.5 and 0.95 at p = 0.1"""
    keep = np.array([0.05, 0.5, 0.95]) >= 0.1
    given = case("dropout", {"X": [9, 9, 9]}, {"keep": keep, "p": 0.1})
    prove(implementation, "dropout", given, {"Y": [0, 10, 10]})


def test_a_mask_follows_the_indices_and_not_the_memory(implementation):
    """DRP-07"""
    keep = np.triu(np.ones((3, 3), bool))
    given = case("dropout", {"X": np.arange(9.0).reshape(3, 3)}, {"keep": keep, "p": 0.2})
    given.layouts["X"] = "transposed"
    prove(implementation, "dropout", given, {"Y": [[0, 1.25, 2.5], [0, 5, 6.25], [0, 0, 10]]})


# Activations


def test_gelu_is_the_tanh_form(implementation):
    """ACT-01"""
    given = case("gelu", {"X": [1.0]}, {}, {"dY": [1.0]})
    prove(implementation, "gelu", given, {"Y": [0.841192], "dX": [1.082964]})


@pytest.mark.parametrize("x", [2.699, -2.699])
def test_gelu_is_furthest_from_the_erf_form_at_2_7(implementation, x):
    """ACT-01"""
    by_erf = 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))
    prove(implementation, "gelu", case("gelu", {"X": [x]}), {"Y": [by_erf + 4.732e-4]}, digits=7)


def test_gelu_far_out_is_relu(implementation):
    """ACT-02: of pairs alone, the next test says why"""
    if not implementation.pairs:
        return
    for dtype in BOTH:
        answer = values(implementation, "gelu", case("gelu", {"X": [1e20, -1e20]}, {}, {"dY": [1, 1]}), dtype)
        np.testing.assert_array_equal(answer["Y"], np.array([1e20, 0], dtype))
        np.testing.assert_array_equal(answer["dX"], [1, 0])


def test_torch_is_no_witness_for_gelu_far_out(implementation):
    """ACT-02: in float32 the inner derivative overflows, and 0 times infinity is NaN"""
    if implementation.name != "torch_impl" or implementation.device != "cpu":
        return
    answer = values(implementation, "gelu", case("gelu", {"X": [1e20, -1e20]}, {}, {"dY": [1, 1]}), "float32")
    assert np.isnan(answer["dX"]).all()


def test_the_negative_tail_of_gelu(implementation):
    """ACT-05: the report's number is the erf form's; in the tanh form 1 + t cancels, in both twins, as the budget says

    The fast twin has the gate as a sigmoid, 1 / (1 + exp(2 u)): it keeps the digits that exp leaves it, 2 u of them.
    """
    given = case("gelu", {"X": [-6.0]}, {}, {"dY": [1.0]})
    u = math.sqrt(2.0 / math.pi) * (6.0 + 0.044715 * 216.0)
    prove(implementation, "gelu", given, {"Y": [-6.0 / (1.0 + math.exp(2.0 * u))]}, digits=15)
    if offered(implementation, "gelu", given) and implementation.device == "cpu":
        (Y,) = values(implementation, "gelu", given, "float32")["Y"]
        kept = -6.0 / (1.0 + math.exp(2.0 * u)) if implementation.name == "reference_numpy.fast" else 0.0
        assert abs(Y - kept) <= 4.0 * (2.0 * u + 4.0) * 2.0**-24 * abs(kept)


def test_the_gradient_of_tanh_is_that_of_its_input(implementation):
    """ACT-06"""
    prove(implementation, "tanh", case("tanh", {"X": [0.5]}, {}, {"dY": [2]}), {"dX": [1.572895]})


# Backward through time


def test_the_slope_of_tanh_is_multiplied(implementation):
    """RNN-01: h = 0.5 and an upstream gradient of 2"""
    given = elman([[math.atanh(0.5)]], [[1]], [[0]], [[2]], [0])
    prove(implementation, "rnn", given, {"H": [[0.5]], "db_ih": [1.5], "dX": [[1.5]]})


@pytest.mark.parametrize(
    ("n", "state", "gradient"), [(1, 1.0, 0.0), (2, 1.5, 1.0), (3, 1.75, 2.0), (7, 1.984375, 3.75)]
)
def test_the_recurrent_weight_is_reached_through_every_step(implementation, n, state, gradient):
    """RNN-02: h_t = h_{t-1} / 2 + 1 in units of 2^-20, where tanh is linear to one part in 10^11"""
    small = 2.0**-20
    given = elman(np.full((n, 1), small), [[1]], [[0.5]], np.zeros((n, 1)), [1])
    if not offered(implementation, "rnn", given):
        return
    answer = values(implementation, "rnn", given)
    assert abs(answer["h_last"][0] / small - state) < 1e-10
    assert abs(answer["dW_hh"][0, 0] / small - gradient) < 1e-10
    prove(implementation, "rnn", given, {})


def test_both_biases_get_the_same_gradient(implementation):
    """RNN-03"""
    given = elman([[1]], [[0]], [[0]], [[1]], [0])
    prove(implementation, "rnn", given, {"db_ih": [1], "db_hh": [1]})


def test_a_state_of_another_batch_is_refused(implementation):
    """RNN-04"""
    given = elman(np.ones((2, 4, 1)), [[1]], [[1]], np.ones((2, 4, 1)), np.ones((2, 1)), h0=np.ones((3, 1)))
    if not offered(implementation, "rnn", given):
        return
    with pytest.raises(ValueError, match=r"rnn: h0 has shape \(3, 1\)"):
        values(implementation, "rnn", given)


def test_the_state_of_a_sample_is_its_own(implementation):
    """RNN-05"""
    given = elman([[[1]], [[1]]], [[1]], [[1]], [[[1]], [[-2]]], [[0], [0]])
    prove(implementation, "rnn", given, {"h_last": [[0.761594], [0.761594]]})


# Dtype, NaN, and the judge


@pytest.mark.parametrize("op", OPS)
def test_the_dtype_goes_out_that_came_in(implementation, op):
    """DTY-01"""
    for dtype in implementation.dtypes:
        for index in range(3):
            rounded = draw_case(OPS[op], 0, index).rounded(PRECISIONS[dtype])
            if not implementation.offers(op):
                return
            try:
                answer = run(implementation, OPS[op], rounded, dtype)
            except NotOffered:
                continue
            assert {tensor.dtype for tensor in answer.values()} == {dtype}


@pytest.mark.parametrize("dtype", BOTH)
def test_nan_in_a_query_is_seen_in_its_row_and_nowhere_else(implementation, dtype):
    """GPU-03: torch's fused kernel hides it on the CPU, and is the one exception"""
    operands = {"Q": [[math.nan, 1], [0, 1]], "K": [[1, 0], [0, 1]], "V": np.ones((2, 2))}
    C = values(implementation, "attention", case("attention", operands), dtype)["C"]
    assert (np.abs(C[1] - 1) <= 4 * PRECISIONS[dtype].unit).all()  # two exponentials over their sum
    if "fused" in implementation.name:
        assert implementation.device != "cpu" or (C[0] == 0).all()
    else:
        assert np.isnan(C[0]).all()


def test_relu_at_its_kink_has_the_gradient_0(implementation):
    """GCK-01: the central difference says 0.5 there"""
    given = case("relu", {"X": [0, 0.01, -0.01]}, {}, {"dY": [3, 3, 3]})
    prove(implementation, "relu", given, {"dX": [0, 3, 0]})


def exactly(numbers: Any) -> Bounded:
    return Bounded(np.asarray(numbers), PRECISIONS["float32"], 1e-6)


def test_a_gradient_twice_as_large_is_told():
    """GCK-04"""
    X = np.array([0.5, -1.25, 3.0])
    judgement = judge_tensor("dX", Tensor(2.0 * X, "float32"), exactly(X), PRECISIONS["float32"])
    assert "dX[2] is 6, expected 3" in judgement.wrong


@pytest.mark.parametrize("got", [math.nan, INF, -INF])
def test_what_is_not_a_number_is_wrong_where_there_is_one(got):
    """GCK-05: abs(nan - x) > tol is False"""
    assert judge_tensor("Y", Tensor(np.array([got]), "float32"), exactly([0.3]), PRECISIONS["float32"]).wrong


@pytest.mark.parametrize("got", [0.3, math.nan, INF])
@pytest.mark.parametrize("exact", [math.nan, -INF])
def test_where_there_is_no_exact_number_nothing_is_called_agreement(got, exact):
    """GCK-05: NaN on both sides is no proof"""
    assert judge_tensor("Y", Tensor(np.array([got]), "float32"), exactly([exact]), PRECISIONS["float32"]).ill


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_either_order_of_a_cancelling_sum_is_within_the_budget(answer):
    """GPU-02: bitwise equality is no sound demand; 2e8 u is 12"""
    given = case("linear", {"X": [[1e8, 1, -1e8]], "weight": [[1, 1, 1]]})
    precision = PRECISIONS["float32"]
    exact = OPS["linear"].exact(given.rounded(precision), precision)["Y"]
    assert not judge_tensor("Y", Tensor(np.array([[answer]]), "float32"), exact, precision).wrong
    assert judge_tensor("Y", Tensor(np.array([[100.0]]), "float32"), exact, precision).wrong
