"""Every op of every implementation: agreement within the budget in every dtype, and how the pairs behave."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import LAYOUTS, SeededDraws
from equivalence_tests.checks import agreement, attempt, conduct, draw_case, find_fault
from equivalence_tests.implementations import Implementation, NotOffered, Tensor, lay_out, load, parameters, run
from equivalence_tests.judge import judge
from equivalence_tests.ops import OPS
from equivalence_tests.tests.draws import HypothesisDraws

REFERENCE = load("reference_numpy")


def offered(implementation, op):
    """The fused module has three ops; a row that it does not offer has nothing to test."""
    return implementation.offers(op.name)


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@given(data=st.data(), hard=st.booleans())
def test_every_output_and_gradient_agrees_within_the_budget(implementation, op, data, hard):
    if not offered(implementation, op):
        return
    case = op.draw(HypothesisDraws(data.draw), hard)
    for dtype in implementation.dtypes:
        rounded = case.rounded(PRECISIONS[dtype])
        exact = op.exact(rounded, PRECISIONS[dtype])
        try:
            verdicts = agreement(implementation, op, rounded, exact, dtype)
        except NotOffered:
            continue
        assert [v.wrong for v in verdicts.values() if v.wrong] == []


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@given(data=st.data())
def test_small_arrays_of_bounded_floats_agree_too(implementation, op, data):
    if not offered(implementation, op):
        return
    case = op.draw(HypothesisDraws(data.draw, floats=True), False)
    for dtype in implementation.dtypes:
        rounded = case.rounded(PRECISIONS[dtype])
        try:
            verdicts = agreement(implementation, op, rounded, op.exact(rounded, PRECISIONS[dtype]), dtype)
        except NotOffered:
            continue
        assert [v.wrong for v in verdicts.values() if v.wrong] == []


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
@given(data=st.data(), hard=st.booleans())
def test_a_pair_changes_nothing_repeats_itself_shares_no_memory_and_is_linear(implementation, op, data, hard):
    if not implementation.pairs:
        return
    case = op.draw(HypothesisDraws(data.draw), hard)
    for dtype in implementation.dtypes:
        rounded = case.rounded(PRECISIONS[dtype])
        assert conduct(implementation, op, rounded, op.exact(rounded, PRECISIONS[dtype]), dtype) == ""


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_torch_changes_none_of_its_operands(implementation, op):
    if implementation.pairs or not offered(implementation, op):
        return
    import torch

    from equivalence_tests.run_torch import to_torch

    for index in range(6):
        case = draw_case(op, 1, index)
        operands = [to_torch(v, "float64", implementation.device) for v in case.operands.values()]
        options = {
            name: to_torch(v, "float64", implementation.device) if isinstance(v, np.ndarray) else v
            for name, v in case.options.items()
        }
        before = [operand.clone() for operand in operands]
        if not options.keys() <= (parameters(implementation.forward(op.name)) or options.keys()):
            continue
        Y = implementation.forward(op.name)(*operands, **options)
        outputs = Y if isinstance(Y, tuple) else (Y,)
        assert all(torch.equal(a, b) for a, b in zip(operands, before, strict=True))
        storages = {operand.untyped_storage().data_ptr() for operand in operands}
        assert not any(y.untyped_storage().data_ptr() in storages for y in outputs if y.numel())


WRONG_GRADIENTS = {
    "zeros": np.zeros_like,
    "negative": np.negative,
    "double": lambda g: 2.0 * g,
    "NaN": lambda g: np.full_like(g, np.nan),
}


def with_gradient(op, replace):
    """The reference, with its gradients passed through `replace(gradients, dY, operands)`."""
    operands = []

    def forward(*args, **options):
        operands[:] = [arg for arg in args if isinstance(arg, np.ndarray)]
        return REFERENCE.forward(op.name)(*args, **options)

    def backward(dY, cache):
        gradients = REFERENCE.backward(op.name)(dY, cache)
        several = isinstance(gradients, tuple)
        replaced = replace(list(gradients) if several else [gradients], dY, operands)
        return tuple(replaced) if several else replaced[0]

    module = types.SimpleNamespace(**{op.name: forward, f"{op.name}_backward": backward})
    return Implementation("replaced", module, True, ("float64", "float32"))


DIFFERENTIABLE = {name: op for name, op in OPS.items() if op.differentiable}


def first_fault(op, replace, cases=40):
    implementation = with_gradient(op, replace)
    for index in range(cases):
        case = draw_case(op, 5, index).rounded(PRECISIONS["float64"])
        exact = op.exact(case, PRECISIONS["float64"])
        what = attempt(lambda case=case, exact=exact: agreement(implementation, op, case, exact, "float64"))
        what = what or attempt(lambda case=case, exact=exact: conduct(implementation, op, case, exact, "float64"))
        if what:
            return what
    return ""


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("wrong", WRONG_GRADIENTS)
def test_a_wrong_gradient_in_any_position_fails(op, wrong):
    for position in range(len(op.differentiable)):

        def replace(gradients, dY, operands, position=position):
            if position < len(gradients):
                gradients[position] = WRONG_GRADIENTS[wrong](gradients[position])
            return gradients

        assert first_fault(op, replace), f"{wrong} in place of d{op.differentiable[position]} passed"


TWO_AXES = [(name, i) for name, op in DIFFERENTIABLE.items() for i in range(len(op.differentiable))]


@pytest.mark.parametrize(("name", "position"), TWO_AXES)
def test_a_transposed_gradient_fails_wherever_there_are_two_axes(name, position):
    op = OPS[name]
    seen = []

    def replace(gradients, dY, operands):
        if position < len(gradients) and gradients[position].ndim >= 2:
            seen.append(position)
            gradients[position] = np.ascontiguousarray(np.swapaxes(gradients[position], -1, -2))
        return gradients

    fault = first_fault(op, replace)
    assert fault or not seen, f"the transpose of d{op.differentiable[position]} passed"


def written_into(target, gradient):
    """The gradient's numbers in the memory of `target`, where they fit; else None."""
    base = target if target.base is None else target.base
    if base.dtype != gradient.dtype or base.size < gradient.size or not base.flags.c_contiguous:
        return None
    base.flags.writeable = True
    view = base.reshape(-1)[: gradient.size].reshape(gradient.shape)
    view[...] = gradient
    return view


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("where", ["upstream gradient", "operand", "other gradient"])
def test_a_right_gradient_in_memory_that_is_not_its_own_fails(op, where):
    shared = []

    def replace(gradients, dY, operands):
        if where == "other gradient":
            first, *others = gradients
            room = np.zeros(sum(g.size for g in gradients) + 1)
            for i, g in enumerate(others, 1):  # side by side in one array, the last beginning inside the first
                gradients[i] = written_into(room[first.size - 1 :] if g is others[-1] else room.copy(), g)
            if others and first.size:
                gradients[0] = room[: first.size].reshape(first.shape)
                gradients[0].flat[:-1] = first.flat[:-1]
                shared.append(True)
            return gradients
        targets = operands if where == "operand" else dY if isinstance(dY, tuple) else (dY,)
        for target in targets:
            view = written_into(target, gradients[0]) if isinstance(target, np.ndarray) else None
            if view is not None:
                gradients[0] = view
                shared.append(True)
                break
        return gradients

    fault = first_fault(op, replace)
    assert fault or not shared, "shared memory passed"
    if where == "operand":
        assert shared
    if where == "other gradient":
        assert bool(shared) == (len(op.differentiable) > 1)


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_returning_the_upstream_gradient_itself_fails_even_where_it_is_right(op):
    """A view, not a copy: wherever a gradient equals dY (dropout of nothing, one row of a bias), the numbers are right."""
    seen = []

    def replace(gradients, dY, operands):
        for i, g in enumerate(gradients):
            for upstream in dY if isinstance(dY, tuple) else (dY,):
                if (
                    isinstance(upstream, np.ndarray)
                    and upstream.size == g.size
                    and np.array_equal(upstream.ravel(), g.ravel())
                ):
                    gradients[i] = upstream.reshape(g.shape)
                    seen.append(bool(np.shares_memory(gradients[i], upstream)))
        return gradients

    fault = first_fault(op, replace, cases=60)
    assert not any(seen) or "shares memory" in fault


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_an_error_of_a_hundred_roundoffs_in_one_element_fails(op):
    """The budget is not a wide gate: an error of 100 u of the largest element is seen within a few cases."""

    def replace(gradients, dY, operands):
        g = gradients[0] = gradients[0].copy()
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


def test_the_reference_has_no_fault_in_any_check():
    for op in OPS.values():
        assert find_fault(REFERENCE, op, cases=10, seed=11) is None
