"""Every op of every implementation: agreement within the budget in every dtype, and how the pairs behave."""

import types
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import LAYOUTS, SeededDraws
from equivalence_tests.checks import agreement, attempt, conduct, draw_case, find_fault
from equivalence_tests.implementations import Implementation, NotOffered, Tensor, lay_out, load, parameters, run
from equivalence_tests.judge import judge
from equivalence_tests.ops import MODEL_EVERY, OPS
from equivalence_tests.tests.draws import HypothesisDraws

REFERENCE = load("reference_numpy")
SMALL = [pytest.param(op, id=name) for name, op in OPS.items() if not op.model]
MODELS = [pytest.param(op, id=name) for name, op in OPS.items() if op.model]
FEWER = max(settings().max_examples // MODEL_EVERY, 2)  # a model takes as long as many ops


def offered(implementation, op):
    """The fused module has three ops; a row that it does not offer has nothing to test."""
    return implementation.offers(op.name)


def assert_agreement(implementation, op, case):
    for dtype in implementation.dtypes:
        rounded = case.rounded(PRECISIONS[dtype])
        try:
            verdicts = agreement(implementation, op, rounded, op.exact(rounded, PRECISIONS[dtype]), dtype)
        except NotOffered:
            continue
        assert [v.wrong for v in verdicts.values() if v.wrong] == []


@pytest.mark.parametrize("op", SMALL)
@given(data=st.data(), hard=st.booleans())
def test_every_output_and_gradient_agrees_within_the_budget(implementation, op, data, hard):
    if offered(implementation, op):
        assert_agreement(implementation, op, op.draw(HypothesisDraws(data.draw), hard))


@pytest.mark.parametrize("op", MODELS)
@settings(max_examples=FEWER)
@given(data=st.data(), hard=st.booleans())
def test_every_output_and_gradient_of_a_model_agrees_within_the_budget(implementation, op, data, hard):
    if offered(implementation, op):
        assert_agreement(implementation, op, op.draw(HypothesisDraws(data.draw), hard))


@pytest.mark.parametrize("op", SMALL)
@given(data=st.data())
def test_small_arrays_of_bounded_floats_agree_too(implementation, op, data):
    if offered(implementation, op):
        assert_agreement(implementation, op, op.draw(HypothesisDraws(data.draw, floats=True), False))


def assert_conduct(implementation, op, case):
    for dtype in implementation.dtypes:
        rounded = case.rounded(PRECISIONS[dtype])
        assert conduct(implementation, op, rounded, op.exact(rounded, PRECISIONS[dtype]), dtype) is None


@pytest.mark.parametrize("op", SMALL)
@given(data=st.data(), hard=st.booleans())
def test_a_pair_changes_nothing_repeats_itself_shares_no_memory_and_is_linear(implementation, op, data, hard):
    if implementation.pairs and offered(implementation, op):
        assert_conduct(implementation, op, op.draw(HypothesisDraws(data.draw), hard))


@pytest.mark.parametrize("op", MODELS)
@settings(max_examples=FEWER)
@given(data=st.data(), hard=st.booleans())
def test_a_models_pair_changes_nothing_repeats_itself_shares_no_memory_and_is_linear(implementation, op, data, hard):
    if implementation.pairs and offered(implementation, op):
        assert_conduct(implementation, op, op.draw(HypothesisDraws(data.draw), hard))


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_torch_changes_none_of_its_operands(implementation, op):
    if implementation.pairs or not offered(implementation, op):
        return
    import torch

    from equivalence_tests.run_torch import to_torch

    def tensors(values):
        return {
            name: tensors(v)
            if isinstance(v, dict)
            else to_torch(v, "float64", implementation.device)
            if isinstance(v, np.ndarray)
            else v
            for name, v in values.items()
        }

    for index in range(6):
        case = draw_case(op, 1, index)
        operands, options = tensors(case.operands), tensors(case.options)
        before = {name: operand.clone() for name, operand in operands.items()}
        if not options.keys() <= (parameters(implementation.forward(op.name)) or options.keys()):
            continue
        Y = implementation.forward(op.name)(*op.arguments(operands), **options)
        outputs = Y if isinstance(Y, tuple) else (Y,)
        assert all(torch.equal(operands[name], before[name]) for name in before)
        storages = {operand.untyped_storage().data_ptr() for operand in operands.values()}
        assert not any(y.untyped_storage().data_ptr() in storages for y in outputs if y.numel())


WRONG_GRADIENTS = {
    "zeros": np.zeros_like,
    "negative": np.negative,
    "double": lambda g: 2.0 * g,
    "NaN": lambda g: np.full_like(g, np.nan),
}


def by_place(gradients):
    """Gradients as a dict: a model's by parameter, others by position."""
    if isinstance(gradients, dict):
        return dict(gradients)
    return dict(enumerate(gradients if isinstance(gradients, tuple) else (gradients,)))


def like_gradients(changed, gradients):
    """What `by_place` took apart."""
    if isinstance(gradients, dict):
        return changed
    return tuple(changed.values()) if isinstance(gradients, tuple) else changed[0]


def with_gradient(op, replace):
    """The reference, with its gradients by place passed through `replace(gradients, dY, operands)`."""
    operands = []

    def forward(*args, **options):
        params, *others = (list(arg.values()) if isinstance(arg, dict) else [arg] for arg in args)
        operands[:] = [arg for arg in sum(others, params) if isinstance(arg, np.ndarray)]
        return REFERENCE.forward(op.name)(*args, **options)

    def backward(dY, cache):
        gradients = REFERENCE.backward(op.name)(dY, cache)
        return like_gradients(replace(by_place(gradients), dY, operands), gradients)

    module = types.SimpleNamespace(**{op.name: forward, f"{op.name}_backward": backward})
    return Implementation("replaced", module, True, ("float64", "float32"))


DIFFERENTIABLE = {name: op for name, op in OPS.items() if op.differentiable}


@cache
def exact_case(name, index):
    """A case and its exact values, worked out once for all that is replaced in it."""
    case = draw_case(OPS[name], 5, index).rounded(PRECISIONS["float64"])
    return case, OPS[name].exact(case, PRECISIONS["float64"])


@cache
def places(name):
    """Every place that a gradient of the op may have."""
    op = OPS[name]
    if not op.model:
        return range(len(op.differentiable))
    return tuple(dict.fromkeys(name for index in range(40) for name in op.gradient_names(draw_case(op, 5, index))))


def first_fault(op, replace, cases=40):
    implementation = with_gradient(op, replace)
    for index in range(cases):
        case, exact = exact_case(op.name, index)
        what = attempt(lambda case=case, exact=exact: agreement(implementation, op, case, exact, "float64"))
        what = what or attempt(lambda case=case, exact=exact: conduct(implementation, op, case, exact, "float64"))
        if what:
            return what
    return ""


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("wrong", WRONG_GRADIENTS)
def test_a_wrong_gradient_in_any_position_fails(op, wrong):
    for place in places(op.name):

        def replace(gradients, dY, operands, place=place):
            if place in gradients:
                gradients[place] = WRONG_GRADIENTS[wrong](gradients[place])
            return gradients

        assert first_fault(op, replace), f"{wrong} in place of gradient {place} passed"


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_gradient_too_few_and_one_too_many_fail(op):
    for place in places(op.name):

        def without(gradients, dY, operands, place=place):
            if place in gradients:
                gradients[place] = None
            return gradients

        assert first_fault(op, without), f"no gradient {place} passed"

    def more(gradients, dY, operands):
        name = "extra.weight" if op.model else len(gradients)
        return gradients | {name: next(iter(gradients.values())).copy()}

    if op.model or len(op.differentiable) > 1:
        assert "nobody asked" in first_fault(op, more)


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_transposed_gradient_fails_wherever_there_are_two_axes(op):
    for place in places(op.name):
        if (op.model and place.endswith((".bias", ".scale", ".shift"))) or "bias_" in str(place):
            continue  # never two axes
        seen = []

        def replace(gradients, dY, operands, place=place, seen=seen):
            if place in gradients and gradients[place].ndim >= 2:
                seen.append(place)
                gradients[place] = np.ascontiguousarray(np.swapaxes(gradients[place], -1, -2))
            return gradients

        fault = first_fault(op, replace)
        assert fault or not seen, f"the transpose of gradient {place} passed"


def written_into(target, gradient):
    """The gradient's numbers in the memory of `target`, where they fit; else None."""
    base = target if target.base is None else target.base
    if base.dtype != gradient.dtype or base.size < gradient.size or not base.flags.c_contiguous:
        return None
    base.flags.writeable = True
    view = base.reshape(-1)[: gradient.size].reshape(gradient.shape)
    view[...] = gradient
    return view


def side_by_side(gradients):
    """All gradients but the first end in arrays of their own; the last one begins inside the first."""
    places = list(gradients)
    first = gradients[places[0]]
    room = np.zeros(sum(g.size for g in gradients.values()) + 1)
    for place in places[1:]:
        target = room[first.size - 1 :] if place == places[-1] else room.copy()
        gradients[place] = written_into(target, gradients[place])
    if len(places) > 1 and first.size:
        gradients[places[0]] = room[: first.size].reshape(first.shape)
        gradients[places[0]].flat[:-1] = first.flat[:-1]
        return True
    return False


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("where", ["upstream gradient", "operand"])
def test_a_right_gradient_in_memory_that_is_not_its_own_fails(op, where):
    """The first gradient of an op; of a model, that of any parameter."""
    if op.scalar and where == "upstream gradient":
        return  # a number has no memory
    for place in places(op.name) if op.model else (0,):
        shared = []

        def replace(gradients, dY, operands, place=place, shared=shared):
            if place not in gradients:
                return gradients
            targets = operands if where == "operand" else dY if isinstance(dY, tuple) else (dY,)
            for target in targets:
                view = written_into(target, gradients[place]) if isinstance(target, np.ndarray) else None
                if view is not None:
                    gradients[place] = view
                    shared.append(True)
                    break
            return gradients

        fault = first_fault(op, replace)
        assert fault or not shared, f"shared memory of gradient {place} passed"
        assert shared or where != "operand"


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_two_right_gradients_in_one_array_fail(op):
    shared = []

    def replace(gradients, dY, operands):
        shared.extend([True] * side_by_side(gradients))
        return gradients

    fault = first_fault(op, replace)
    assert fault or not shared, "shared memory passed"
    assert bool(shared) == (op.model or len(op.differentiable) > 1)


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_returning_the_upstream_gradient_itself_fails_even_where_it_is_right(op):
    """A view, not a copy: wherever a gradient equals dY (dropout of nothing, one row of a bias), the numbers are right."""
    seen = []

    def replace(gradients, dY, operands):
        for place, g in gradients.items():
            for upstream in dY if isinstance(dY, tuple) else (dY,):
                if (
                    isinstance(upstream, np.ndarray)
                    and upstream.size == g.size
                    and np.array_equal(upstream.ravel(), g.ravel())
                ):
                    gradients[place] = upstream.reshape(g.shape)
                    seen.append(bool(np.shares_memory(gradients[place], upstream)))
        return gradients

    fault = first_fault(op, replace, cases=-(-60 // op.every))
    assert not any(seen) or "shares memory" in fault


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_an_error_of_a_hundred_roundoffs_in_one_element_fails(op):
    """The budget is not a wide gate: an error of 100 u of the largest element is seen within a few cases."""

    def replace(gradients, dY, operands):
        place = next(iter(gradients))
        g = gradients[place] = gradients[place].copy()
        if g.size:
            g.flat[int(np.abs(g).argmax())] *= 1.0 + 200.0 * 2.0**-53
        return gradients

    assert first_fault(op, replace)


def test_judging_nan_against_nan_or_against_a_number_fails():
    precision = PRECISIONS["float64"]
    truth = {"Y": Bounded(np.array([0.3]), precision, 1e-16)}

    def said(value, dtype="float64"):
        return judge({"Y": Tensor(np.array(value), dtype)}, truth, precision)["Y"].wrong

    assert said([0.3]) == ""
    assert "nan" in said([np.nan])
    assert "inf" in said([np.inf])
    assert "dtype" in said([0.3], "float32")
    assert "shape" in said([[0.3]])
    assert "budget" in said([0.3 + 1e-15])
    assert "missing" in judge({}, truth, precision)["Y"].wrong
    assert (
        "nobody asked"
        in judge({"Y": Tensor(np.array([0.3]), "float64"), "dZ": Tensor(np.array(1.0), "float64")}, truth, precision)[
            "dZ"
        ].wrong
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_the_memory_and_not_the_numbers(layout):
    X = np.random.default_rng(0).standard_normal((3, 4, 5))
    if layout == "broadcast":
        X = np.broadcast_to(X[:1], X.shape).copy()
    view = lay_out(X, layout)
    assert np.array_equal(view, X)
    assert view.flags.c_contiguous == (layout == "contiguous")
    assert not np.shares_memory(view, X)


def test_most_cases_have_pairwise_different_sizes_above_one_and_often_one():
    """One in ten is square on purpose."""
    cases = [draw_case(OPS["attention"], 0, i) for i in range(200)]
    different, ones = 0, 0
    for case in cases:
        (n, c), (m, e) = case.operands["Q"].shape[-2:], case.operands["V"].shape[-2:]
        above = [size for size in (n, m, c, *((e,) if e != c else ()), *case.operands["Q"].shape[:-2]) if size > 1]
        different += len(set(above)) == len(above)
        ones += 1 in (n, m, c, e)
    assert 0.8 * len(cases) < different < len(cases)
    assert ones > 40


def test_the_same_seed_gives_the_same_case():
    for op in OPS.values():
        one, two = draw_case(op, 3, 7), draw_case(op, 3, 7)
        assert all(np.array_equal(one.operands[name], two.operands[name]) for name in one.operands)
        assert one.layouts == two.layouts


def test_an_unknown_option_is_reported_as_not_on_offer():
    fused = load("torch_impl.fused")
    op = OPS["attention"]
    rng = np.random.default_rng(0)
    case = op.draw(SeededDraws(rng), False)
    case.options.clear()
    case.options.update(keep=np.ones((*case.operands["Q"].shape[:-1], case.operands["K"].shape[-2]), bool), p=0.0)
    with pytest.raises(NotOffered, match="keep"):
        run(fused, op, case, "float64")


@pytest.mark.parametrize("op", SMALL)
def test_the_reference_has_no_fault_in_any_check(op):
    """Of the models test_mistakes says so, op by op."""
    assert find_fault(REFERENCE, op, cases=10, seed=11) is None
