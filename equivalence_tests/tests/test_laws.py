"""Every law holds for every implementation; and for every law there is a broken implementation that it catches."""

import functools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_numpy
from equivalence_tests.cases import SeededDraws
from equivalence_tests.checks import LAW_DRAWS, attempt
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.laws import DEVIATIONS, LAWS, common
from equivalence_tests.laws.axes import NAN_STAYS
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.ops import MODEL_EVERY, OPS
from equivalence_tests.small_models import GPTS, LOSSES, MODELS, RNNS
from equivalence_tests.tests.draws import HypothesisDraws

EXAMPLES = max(settings().max_examples // 5, 2)  # of every law, in every dtype
ALL = [pytest.param(op, law, id=f"{op}-{law.__name__}") for op, laws in LAWS.items() for law in laws]
SMALL = [each for each in ALL if each.values[0] not in MODELS]
OF_MODELS = [each for each in ALL if each.values[0] in MODELS]


@pytest.mark.parametrize(("op", "law"), SMALL)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_law_holds(op, law, implementation, data):
    assert_law(op, law, implementation, data)


@pytest.mark.parametrize(("op", "law"), OF_MODELS)
@settings(max_examples=max(EXAMPLES // MODEL_EVERY, 2))
@given(data=st.data())
def test_law_of_a_model_holds(op, law, implementation, data):
    assert_law(op, law, implementation, data)


def assert_law(op, law, implementation, data):
    if not implementation.offers(op):
        return
    for dtype in implementation.dtypes:
        try:
            what = law(implementation, dtype, HypothesisDraws(data.draw))
        except NotOffered:
            continue
        assert not what, f"{dtype}: {what}"


def test_every_op_has_laws_of_its_own():
    assert LAWS.keys() == OPS.keys()
    for op, laws in LAWS.items():
        names = [law.__name__ for law in laws]
        assert len(set(names)) == len(names) >= 3, op
        assert all(law.__doc__ for law in laws), op


def test_every_deviation_is_of_a_law():
    names = {law.__name__ for laws in LAWS.values() for law in laws}
    assert {law for _, law in DEVIATIONS} <= names


def test_every_deviation_is_still_there(implementation, monkeypatch):
    """A law that an implementation keeps by now is no deviation."""
    monkeypatch.setattr(common, "DEVIATIONS", {})
    for op, law in [(op, law) for op, laws in LAWS.items() for law in laws]:
        if (implementation.label, law.__name__) in DEVIATIONS:
            assert any(first_faults(implementation, law)), (op, law.__name__)


def first_faults(implementation, law):
    """What a law says of the draws that `find_fault` takes, in every dtype."""
    return [
        attempt(functools.partial(law, implementation, dtype, SeededDraws(np.random.default_rng([0, index]))))
        for dtype in implementation.dtypes
        for index in range(LAW_DRAWS)
    ]


# Broken implementations: one function of the reference, or its backward, with one change.


def kept(function):
    """The signature of the function that is changed."""
    return functools.wraps(function)


def inputs(op, change):
    """The forward of changed operands: `change` takes and returns them all."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **options):
        changed = change(*operands)
        return right(
            *(a.astype(b.dtype) if isinstance(b, np.ndarray) else a for a, b in zip(changed, operands, strict=True)),
            **options,
        )

    return {op: forward}


def options(op, change):
    """The forward with changed options: `change` takes the operands and the options and returns the options."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **given):
        return right(*operands, **change(operands, given))

    return {op: forward}


def without(op, *names):
    """The forward that ignores some of its options."""
    return options(op, lambda _, given: {name: value for name, value in given.items() if name not in names})


def output(op, change):
    """The forward whose output is changed: `change` takes it, the operands and the options."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **given):
        Y, cache = right(*operands, **given)
        return cast(change(Y, *operands, **given), Y), cache

    return {op: forward}


def cast(changed, like):
    if isinstance(changed, tuple):
        return tuple(cast(a, b) for a, b in zip(changed, like, strict=True))
    return (
        np.asarray(changed).astype(like.dtype)[()] if isinstance(like, np.generic) else np.asarray(changed, like.dtype)
    )


def gradient(op, change, index=0):
    """The backward with one gradient changed."""
    right = getattr(reference_numpy, f"{op}_backward")

    def backward(dY, cache):
        gradients = right(dY, cache)
        if isinstance(gradients, dict):
            return gradients | {index: change(gradients[index]).astype(gradients[index].dtype)}
        if not isinstance(gradients, tuple):
            return change(gradients).astype(gradients.dtype)
        changed = list(gradients)
        changed[index] = change(changed[index]).astype(changed[index].dtype)
        return tuple(changed)

    return {f"{op}_backward": backward}


def backward(op, function):
    return {f"{op}_backward": function}


def stage(name, change):
    right = reference_numpy.attention_stages

    @kept(right)
    def stages(*operands, **given):
        result = right(*operands, **given)
        return result._replace(**{name: change(result).astype(result.C.dtype)})

    return {"attention_stages": stages}


def floats(op, factor):
    """Every floating operand multiplied by a number that `factor` makes of the first operand."""

    def change(*operands):
        floating = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in operands]
        return [x * factor(operands[0]) if yes else x for x, yes in zip(operands, floating, strict=True)]

    return inputs(op, change)


def no_empty_batch(op):
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **given):
        if any(isinstance(operand, np.ndarray) and operand.size == 0 for operand in operands[:2]):
            raise ValueError(f"{op}: an operand is empty")
        return right(*operands, **given)

    return {op: forward}


def swallows(op):
    """Whatever is wrong becomes an error of another kind."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **given):
        try:
            return right(*operands, **given)
        except (TypeError, ValueError):
            raise RuntimeError("something is wrong") from None

    return {op: forward}


def careless(op):
    """Whatever is wrong with the upstream gradient becomes an error of another kind."""
    right = getattr(reference_numpy, f"{op}_backward")

    def backward(dY, cache):
        try:
            return right(dY, cache)
        except (TypeError, ValueError):
            raise RuntimeError("something is wrong") from None

    return {f"{op}_backward": backward}


def without_nan(op, *names):
    """NaN in the operands named by their place, or in the options named, is taken for 0."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(*operands, **given):
        cleaned = (np.nan_to_num(x, posinf=np.inf, neginf=-np.inf) if i in names else x for i, x in enumerate(operands))
        chosen = {
            name: np.nan_to_num(x, posinf=np.inf, neginf=-np.inf) if name in names else x for name, x in given.items()
        }
        return right(*cleaned, **chosen)

    return {op: forward}


def low_is_masked(operands, given):
    """Whatever a bias puts below -10000 is a mask."""
    if "bias" in given:
        return {**given, "bias": np.where(given["bias"] < -1e4, -np.inf, given["bias"]).astype(operands[0].dtype)}
    return given


def zeros_for_none():
    right = reference_numpy.attention_stages

    @kept(right)
    def stages(*operands, **given):
        result = right(*operands, **given)
        return type(result)(*(0.0 * result.C if stage is None else stage for stage in result))

    return {"attention_stages": stages}


def squared(X, *rest):
    return X * np.abs(X), *rest


def ramp(X, axis):
    """0.1, 0.2, ... along an axis."""
    shape = [1] * X.ndim
    shape[axis] = X.shape[axis]
    return 0.1 * np.arange(1.0, X.shape[axis] + 1).reshape(shape)


def placed(axis):
    return lambda X, *rest: (X + ramp(X, axis), *rest)


def one_pass_layer_norm(Y, X, scale, shift, epsilon=1e-5):
    mu = X.mean(-1, keepdims=True)
    var = np.maximum((X * X).mean(-1, keepdims=True) - mu * mu, 0)
    return scale * (X - mu) / np.sqrt(var + epsilon) + shift


def epsilon_outside(Y, X, scale, shift, epsilon=1e-5):
    return scale * (X - X.mean(-1, keepdims=True)) / (X.std(-1, keepdims=True) + epsilon) + shift


def all_ignored_is_nan(logits, targets, ignore_index=None):
    if (targets == ignore_index).all():
        loss, cache = reference_numpy.cross_entropy(logits, np.zeros_like(targets))
        return loss * np.nan, cache
    return reference_numpy.cross_entropy(logits, targets, ignore_index)


def last_repeat_only(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)
    dweight[ids] = dY
    return dweight


def erf_form(Y, X):
    return X * np.vectorize(lambda x: 0.5 + 0.5 * math.erf(x / math.sqrt(2.0)))(X)


def cube_overflows(dY, cache):
    X, _ = cache
    slope = math.sqrt(2.0 / math.pi)
    with np.errstate(all="ignore"):
        t = np.tanh(slope * (X + 0.044715 * X * X * X))
        return dY * (0.5 * (1 + t) + 0.5 * X * (1 - t * t) * slope * (1 + 3 * 0.044715 * X * X))


def mask_from_output(X, keep, p):
    Y, _ = reference_numpy.dropout(X, keep, p)
    return Y, (X, keep & (Y != 0) if keep is not None else None, p)


def filled(op, fill):
    """The mask as a finite number that is added to the scores."""

    def change(operands, given):
        mask = given.pop("mask", None)
        if mask is None:
            return given
        bias = np.where(mask, 0, fill).astype(operands[0].dtype)
        return {**given, "bias": bias + given.get("bias", operands[0].dtype.type(0))}

    return options(op, change)


def scaled_by(op, width):
    """The default scale from a width that is not the head's."""
    return options(op, lambda operands, given: {"scale": 1.0 / math.sqrt(width(*operands)), **given})


def bias_before_scaling(operands, given):
    if "bias" in given and "scale" in given:
        return {**given, "bias": (given["bias"] * given["scale"]).astype(operands[0].dtype)}
    return given


def without_infinity(operands, given):
    return {name: np.where(np.isneginf(x), 0, x).astype(x.dtype) if name == "bias" else x for name, x in given.items()}


def interleaved(X, Wq, Wk, Wv, Wo, num_heads):
    columns = np.arange(Wq.shape[1]).reshape(-1, num_heads).T.ravel()
    return X, Wq[:, columns], Wk[:, columns], Wv[:, columns], Wo, num_heads


def state_of_ones(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    if h0 is None:
        H, cache = reference_numpy.rnn(X, W_ih, W_hh, b_ih, b_hh, np.ones((*X.shape[:-2], len(W_hh)), X.dtype))
        return H, (*cache[:3], None, cache[4])
    return reference_numpy.rnn(X, W_ih, W_hh, b_ih, b_hh, h0)


def parameter(op, name, change):
    """A model one of whose parameters is changed: `change` takes it, the ids and the configuration."""
    right = getattr(reference_numpy, op)

    @kept(right)
    def forward(params, ids, *targets, **given):
        if name not in params:
            return right(params, ids, *targets, **given)
        value = change(params[name], ids, given["config"])
        return right(params | {name: value.astype(params[name].dtype)}, ids, *targets, **given)

    return {op: forward}


def half_of_a_tied_gradient(op):
    right = getattr(reference_numpy, f"{op}_backward")

    def backward(dY, cache):
        grads = right(dY, cache)
        if "lm_head.weight" not in grads:
            grads["token_embedding.weight"] *= 0.5
        return grads

    return {f"{op}_backward": backward}


def kept_are_not_divided(operands, given):
    return {**given, "config": replace(given["config"], dropout=0.0)}


def embedding_of(op):
    return "token_embedding.weight" if op in GPTS else "embedding.weight"


def plus(x):
    return x + 0.1


def larger(x, *_, **__):
    return 1.1 * x


BROKEN = {
    **{
        (op, name): value
        for op in ("softmax", "log_softmax")
        for name, value in {
            "a_shift_of_a_row_changes_nothing": inputs(op, squared),
            "permuting_the_entries_permutes_the_answer": inputs(op, placed(-1)),
            "any_axis_is_as_good": without(op, "axis"),
            "the_gradient_sums_to_0": gradient(op, plus),
            "a_row_of_minus_infinity_is_nan": output(op, lambda Y, X, axis=-1: np.nan_to_num(Y)),
        }.items()
    },
    ("softmax", "rows_sum_to_1"): output("softmax", larger),
    ("softmax", "a_constant_upstream_gives_0"): backward("softmax", lambda dA, cache: cache[0] * dA),
    ("log_softmax", "its_exponential_sums_to_1"): output("log_softmax", larger),
    ("log_softmax", "a_named_entry_pulls_its_own_row"): gradient("log_softmax", larger),
    ("layer_norm", "a_shift_of_a_row_changes_nothing"): inputs("layer_norm", squared),
    ("layer_norm", "the_gradient_sums_to_0"): gradient("layer_norm", plus),
    ("layer_norm", "the_gradient_of_the_shift_is_the_sum_of_dY"): gradient("layer_norm", larger, 2),
    ("layer_norm", "one_feature_is_all_shift"): gradient("layer_norm", lambda g: g + 1e-7, 1),
    ("layer_norm", "mean_0_and_variance_1"): output(
        "layer_norm", lambda Y, X, *_, **__: Y * math.sqrt(1 - 1 / X.shape[-1])
    ),
    ("layer_norm", "a_large_mean_does_not_cancel"): output("layer_norm", one_pass_layer_norm),
    ("layer_norm", "epsilon_stands_inside_the_root"): output("layer_norm", epsilon_outside),
    ("layer_norm", "an_epsilon_of_0_is_0"): options(
        "layer_norm", lambda _, given: {"epsilon": max(given["epsilon"], 1e-12)} if "epsilon" in given else given
    ),
    ("linear", "linear_is_additive"): inputs("linear", squared),
    ("linear", "linear_of_0_is_the_bias"): output("linear", lambda Y, X, W, b=None: Y if b is None else Y + b),
    ("linear", "a_selecting_weight_selects"): gradient("linear", larger),
    ("cross_entropy", "uniform_logits_give_log_v"): output("cross_entropy", lambda Y, *_, **__: Y / math.log(2.0)),
    ("cross_entropy", "rows_of_the_gradient_sum_to_0"): gradient("cross_entropy", plus),
    ("cross_entropy", "an_ignored_row_is_as_if_deleted"): output(
        "cross_entropy", lambda Y, X, targets, ignore_index=None: Y * (targets != ignore_index).mean()
    ),
    ("cross_entropy", "doubling_dloss_doubles_the_gradient"): backward(
        "cross_entropy", lambda dloss, cache: reference_numpy.cross_entropy_backward(dloss**2, cache)
    ),
    ("cross_entropy", "a_shift_of_a_row_changes_nothing"): inputs("cross_entropy", squared),
    ("cross_entropy", "every_row_twice_is_the_same_loss"): output(
        "cross_entropy", lambda Y, X, targets, **_: Y * targets.size
    ),
    ("cross_entropy", "an_unlikely_target_has_a_large_loss"): output(
        "cross_entropy", lambda Y, *_, **__: np.minimum(Y, 700.0)
    ),
    ("cross_entropy", "nan_in_a_counted_row_is_nan"): output("cross_entropy", lambda Y, *_, **__: np.nan_to_num(Y)),
    ("cross_entropy", "all_ignored_is_an_error"): {"cross_entropy": all_ignored_is_nan},
    ("embedding", "rows_not_named_have_no_gradient"): gradient("embedding", plus),
    ("embedding", "a_lookup_is_a_product_with_onehot"): backward("embedding", last_repeat_only),
    ("embedding", "permuting_the_ids_permutes_the_rows"): output("embedding", lambda Y, *_: Y + ramp(Y, 1)),
    ("embedding", "no_id_counts_from_the_end"): inputs("embedding", lambda ids, weight: (ids % len(weight), weight)),
    **{(op, "entry_by_entry"): floats(op, lambda X: 1.0 + float(np.abs(X).mean())) for op in ("relu", "tanh", "gelu")},
    **{(op, "nan_stays_in_its_entry"): output(op, lambda Y, *_: np.nan_to_num(Y)) for op in ("relu", "tanh", "gelu")},
    ("relu", "positive_passes_and_the_rest_is_0"): backward("relu", lambda dY, Y: np.where(Y >= 0, dY, 0)),
    ("relu", "however_large_it_passes"): output("relu", lambda Y, X: np.minimum(Y, 10000)),
    ("tanh", "tanh_is_odd"): inputs("tanh", lambda X: [plus(X)]),
    ("tanh", "tanh_ends_at_1"): output("tanh", larger),
    ("gelu", "gelu_of_both_signs_differs_by_X"): inputs("gelu", lambda X: [plus(X)]),
    ("gelu", "gelu_has_the_tanh_form"): output("gelu", erf_form),
    ("gelu", "gelu_far_out_is_relu"): backward("gelu", cube_overflows),
    ("dropout", "kept_are_scaled_and_the_rest_is_0"): {"dropout": mask_from_output},
    ("dropout", "p_of_1_gives_zeros"): output("dropout", lambda Y, X, keep, p: np.where(keep, X, 0) if p == 1.0 else Y),
    ("dropout", "p_of_0_only_selects"): output("dropout", lambda Y, X, keep, p: X if p == 0.0 else Y),
    ("attention", "permuting_keys_and_values_changes_nothing"): inputs(
        "attention", lambda Q, K, V: (Q, K + ramp(K, -2), V)
    ),
    ("attention", "permuting_queries_permutes_the_answer"): inputs("attention", placed(-2)),
    ("attention", "only_the_product_of_Q_and_K_matters"): inputs("attention", squared),
    ("attention", "linear_in_V"): inputs("attention", lambda Q, K, V: (Q, K, V * np.abs(V))),
    ("attention", "one_key_is_all_there_is"): output("attention", larger),
    ("attention", "context_lies_between_the_values"): output("attention", lambda C, *_, **__: 2 * C),
    ("attention", "no_scores_no_preference"): without("attention", "mask"),
    ("attention", "one_vector_on_all_keys_changes_nothing"): inputs("attention", lambda Q, K, V: (Q, K * np.abs(K), V)),
    ("attention", "gradients_of_the_keys_sum_to_0"): gradient("attention", plus, 1),
    ("attention", "queries_and_keys_share_one_gradient"): gradient("attention", larger, 0),
    ("attention", "values_and_context_share_one_gradient"): gradient("attention", larger, 2),
    ("attention", "the_scale_is_one_over_root_c"): scaled_by("attention", lambda Q, K, V: V.shape[-1]),
    ("attention", "a_scale_is_honoured"): without("attention", "scale"),
    ("attention", "a_bias_is_one_more_feature"): options("attention", bias_before_scaling),
    ("attention", "dropout_does_not_renormalise"): options("attention", lambda _, given: {**given, "p": 0.0}),
    ("attention", "nan_in_a_query_stays_in_its_row"): output("attention", lambda C, *_, **__: np.nan_to_num(C)),
    ("attention", "a_finite_bias_is_no_mask"): options("attention", low_is_masked),
    ("attention", "nan_in_a_bias_stays_in_its_row"): without_nan("attention", "bias"),
    ("attention", "nan_in_a_key_reaches_who_may_look"): without_nan("attention", 1),
    ("attention", "nan_in_a_value_stays_in_its_column"): without_nan("attention", 2),
    ("attention", "a_future_token_changes_nothing_before_it"): without("attention", "causal"),
    ("attention", "a_future_token_gets_no_gradient_from_the_past"): without("attention", "causal"),
    ("attention", "causal_is_a_mask"): without("attention", "query_offset"),
    ("attention", "prefill_is_step_by_step_decoding"): without("attention", "query_offset"),
    ("attention", "a_masked_key_has_no_gradient"): without("attention", "mask"),
    ("attention", "changing_a_masked_key_changes_nothing"): without("attention", "mask"),
    ("attention", "a_masked_key_far_above_gets_nothing"): filled("attention", -100.0),
    ("attention", "an_empty_row_is_0"): filled("attention", -1e9),
    ("attention", "a_bias_of_minus_infinity_is_a_mask"): options("attention", without_infinity),
    ("attention_stages", "rows_of_dS_sum_to_0"): stage("dS", lambda s: s.A * s.dA),
    ("attention_stages", "the_stages_are_those_of_attention"): stage("dK", lambda s: larger(s.dK)),
    ("attention_stages", "delta_is_the_sum_of_dC_and_C"): stage("delta", lambda s: larger(s.delta)),
    ("attention_stages", "masked_scores_are_minus_infinity"): stage("masked", lambda s: np.maximum(s.masked, -1e9)),
    ("attention_stages", "without_dC_there_is_no_backward"): zeros_for_none(),
    **{
        (op, "permuting_the_tokens_permutes_the_answer"): inputs(op, placed(-2))
        for op in ("simple_attention", "self_attention", "multi_head_attention")
    },
    **{
        (op, "a_future_token_changes_nothing_before_it"): without(op, "causal")
        for op in ("self_attention", "multi_head_attention")
    },
    **{(op, "an_empty_row_is_0"): filled(op, -1e9) for op in ("self_attention", "multi_head_attention")},
    ("simple_attention", "simple_attention_is_attention_of_X"): inputs("simple_attention", lambda X: [0.7 * X]),
    ("simple_attention", "context_lies_between_the_tokens"): output("simple_attention", lambda C, X: 2 * C),
    ("self_attention", "projections_come_before_attention"): gradient("self_attention", larger, 0),
    ("multi_head_attention", "heads_do_not_meet"): inputs("multi_head_attention", interleaved),
    ("multi_head_attention", "one_head_is_self_attention"): gradient("multi_head_attention", larger, 4),
    ("multi_head_attention", "the_scale_is_that_of_a_head"): scaled_by(
        "multi_head_attention", lambda X, Wq, *_: Wq.shape[1]
    ),
    ("rnn", "two_parts_are_the_whole"): gradient("rnn", lambda dh0: 0.0 * dh0, -1),
    ("rnn", "permuting_the_batch_permutes_the_answer"): inputs("rnn", placed(0)),
    ("rnn", "no_state_is_a_state_of_0"): {"rnn": state_of_ones},
    ("rnn", "both_biases_have_one_gradient"): gradient("rnn", larger, 4),
    ("rnn", "the_first_state_is_one_more_input"): gradient("rnn", larger, -1),
    ("rnn", "a_step_is_the_equation"): inputs(
        "rnn", lambda X, W_ih, W_hh, b_ih, b_hh, *h0: (X, W_ih, W_hh, b_ih, 0 * b_hh, *h0)
    ),
    ("rnn", "the_past_does_not_see_the_future"): inputs("rnn", lambda X, *rest: (X + X.mean(-2, keepdims=True), *rest)),
    **{
        (op, name): value
        for op in GPTS
        for name, value in {
            "a_tied_head_is_the_embedding_twice": half_of_a_tied_gradient(op),
            "a_block_that_adds_nothing_is_no_block": parameter(op, "norm.scale", lambda w, ids, c: w * c.num_layers),
            "permuting_the_heads_changes_nothing": parameter(
                op, "blocks.0.attention.query.weight", lambda w, ids, c: w * (1.0 + ramp(w, 0))
            ),
            "keeping_all_only_divides_by_1_minus_p": options(op, kept_are_not_divided),
            "dropping_all_leaves_the_last_shift": without(op, "keep"),
            "both_embeddings_get_one_sum": gradient(op, larger, "position_embedding.weight"),
            "one_number_on_the_residual_path_changes_nothing": gradient(
                op, plus, "blocks.0.attention.projection.weight"
            ),
        }.items()
    },
    **{
        (op, name): value
        for op in MODELS
        for name, value in {
            "a_leading_axis_of_1_changes_nothing": parameter(
                op, "lm_head.bias", lambda b, ids, c: b * (1.0 + ids.ndim / 8)
            ),
            "rows_not_named_have_no_gradient": gradient(op, plus, embedding_of(op)),
            "permuting_the_vocabulary_permutes_the_answer": parameter(
                op, "lm_head.weight", lambda w, ids, c: w * (1.0 + ramp(w, 0))
            ),
            "refuses_bad_input": swallows(op),
            "backward_refuses_a_wrong_upstream": careless(op),
        }.items()
    },
    **{
        (op, name): value
        for op in MODELS
        if op not in LOSSES
        for name, value in {
            "the_past_does_not_see_the_future": parameter(op, "lm_head.bias", lambda b, ids, c: b + ids.mean()),
            "sequences_do_not_meet": parameter(op, "lm_head.bias", lambda b, ids, c: b + ids.size / 10),
            "a_leading_axis_may_be_0": no_empty_batch(op),
            "the_heads_bias_gets_the_sum_of_dlogits": gradient(op, larger, "lm_head.bias"),
        }.items()
    },
    **{
        (op, name): value
        for op in LOSSES
        for name, value in {
            "a_batch_is_the_mean_of_its_sequences": output(op, lambda Y, params, ids, *_, **__: Y * len(ids)),
            "the_gradient_of_the_heads_bias_sums_to_0": gradient(op, plus, "lm_head.bias"),
            "a_head_of_0_gives_log_v": output(op, lambda Y, *_, **__: Y / math.log(2.0)),
            "padding_at_the_end_changes_nothing": output(
                op, lambda Y, params, ids, targets, config, ignore_index=None: Y * (targets != ignore_index).mean()
            ),
            "the_loss_is_the_cross_entropy_of_the_logits": output(op, larger),
            "doubling_dloss_doubles_the_gradient": {
                f"{op}_backward": lambda dloss, cache, op=op: getattr(reference_numpy, f"{op}_backward")(
                    dloss**2, cache
                )
            },
        }.items()
    },
    **{(op, "both_biases_have_one_gradient"): gradient(op, larger, "rnn.bias_hh_l0") for op in RNNS},
    ("generative_rnn", "the_first_logits_are_the_equation"): parameter(
        "generative_rnn", "rnn.bias_hh_l0", lambda b, ids, c: 0.0 * b
    ),
    **{(op, "a_leading_axis_of_1_changes_nothing"): floats(op, lambda X: 1.0 + X.ndim / 8) for op in PATTERNS},
    **{(op, "refuses_bad_input"): swallows(op) for op in PATTERNS},
    **{(op, "backward_refuses_a_wrong_upstream"): careless(op) for op in PATTERNS if OPS[op].differentiable},
    **{(op, "nan_stays_in_its_sample"): without_nan(op, 0) for op in NAN_STAYS},
    **{(op, "a_leading_axis_may_be_0"): no_empty_batch(op) for op in PATTERNS if op != "cross_entropy"},
    **{
        (op, "batches_are_independent"): floats(op, lambda X: 1.0 + float(np.abs(X).mean()))
        for op in PATTERNS
        if op != "cross_entropy"
    },
}


def broken(functions):
    right = {name: getattr(reference_numpy, name) for name in reference_numpy.__all__}
    return Implementation("broken", SimpleNamespace(**right | functions), True, ("float64", "float32"))


def test_every_law_has_a_broken_implementation():
    assert BROKEN.keys() == {(op, law.__name__) for op, laws in LAWS.items() for law in laws}


@pytest.mark.parametrize(("op", "law"), ALL)
def test_law_catches_a_broken_implementation(op, law):
    """Within the draws that `find_fault` takes, in one of the dtypes."""
    assert any(first_faults(broken(BROKEN[op, law.__name__]), law))
