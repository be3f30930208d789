"""Bad input is refused in one line that names the argument; and a refusal that says less is caught."""

from types import SimpleNamespace

import pytest

import reference_numpy
from equivalence_tests._refusal import Maker
from equivalence_tests.implementations import Implementation
from equivalence_tests.ops import OPS
from equivalence_tests.refusals import REFUSALS, right_arguments, upstream_violation, violation

ALL = [pytest.param(op, each, id=f"{op}-{each.name}") for op, refusals in REFUSALS.items() for each in refusals]


@pytest.mark.parametrize(("op", "refusal"), ALL)
def test_bad_input_is_refused(op, refusal, implementation):
    if not implementation.offers(op):
        return
    for dtype in implementation.dtypes:
        assert violation(refusal, implementation, op, dtype) == "", dtype


def test_every_op_refuses_something():
    assert REFUSALS.keys() == OPS.keys()
    for op, refusals in REFUSALS.items():
        names = [refusal.name for refusal in refusals]
        assert len(set(names)) == len(names) >= 4, op


def answering(how):
    """An implementation whose ops do `how` with any arguments."""

    def function(
        *operands,
        num_heads=None,
        axis=None,
        epsilon=None,
        ignore_index=None,
        mask=None,
        bias=None,
        query_offset=None,
        scale=None,
        keep=None,
        p=None,
        config=None,
    ):
        return how()

    return Implementation("broken", SimpleNamespace(**dict.fromkeys(OPS, function)), True, ("float64",))


def raising(error):
    def how():
        raise error

    return how


@pytest.mark.parametrize(("op", "refusal"), ALL)
def test_a_poor_refusal_is_caught(op, refusal):
    """Accepted; another error; one that names nothing; one of two lines. What says all that is asked for is not."""
    other = TypeError if refusal.error is ValueError else ValueError
    poor = {
        "accepted": answering(lambda: None),
        f"{other.__name__} instead of": answering(raising(other(f"{refusal.argument} is wrong"))),
        "without naming": answering(raising(refusal.error("something is wrong"))),
        "more than one line": answering(raising(refusal.error(f"{refusal.argument} is\nwrong"))),
    }
    for what, implementation in poor.items():
        assert what in violation(refusal, implementation, op, "float64")
    right = answering(raising(refusal.error(f"{op}: {refusal.argument} is wrong")))
    assert violation(refusal, right, op, "float64") == ""


@pytest.mark.parametrize("op", REFUSALS)
def test_a_right_call_is_accepted(op, implementation):
    """Every refusal is one change away from a call that is right: it is that change which is refused."""
    if not implementation.offers(op):
        return
    for dtype in implementation.dtypes:
        operands, options = right_arguments(op, Maker(implementation, dtype))
        implementation.forward(op)(*operands, **options)


def test_what_is_not_offered_is_not_asked_for():
    def attention(Q, K, V):
        raise AssertionError

    implementation = Implementation("small", SimpleNamespace(attention=attention), True, ("float64",))
    refusal = next(each for each in REFUSALS["attention"] if each.argument == "mask")
    assert violation(refusal, implementation, "attention", "float64") == ""


def test_what_torch_takes_is_asked_of_pairs_alone():
    def relu(X):
        raise AssertionError

    refusal = next(each for each in REFUSALS["relu"] if each.pairs_only)
    for pairs in (True, False):
        implementation = Implementation("any", SimpleNamespace(relu=relu), pairs, ("float64",))
        assert ("AssertionError instead of TypeError" in violation(refusal, implementation, "relu", "float64")) == pairs


@pytest.mark.parametrize("op", [op for op in REFUSALS if OPS[op].differentiable])
def test_a_poor_refusal_of_an_upstream_gradient_is_caught(op):
    """A backward that takes anything, one that says too little, and one that torch's autograd would be asked for."""
    poor = {"accepted": lambda: None, "without naming": raising(ValueError("no")), "instead of": raising(OSError("no"))}
    if OPS[op].scalar:
        poor["without naming"] = raising(TypeError("no"))
    for what, how in poor.items():
        functions = {op: getattr(reference_numpy, op), f"{op}_backward": lambda dY, cache, how=how: how()}
        implementation = Implementation("broken", SimpleNamespace(**functions), True, ("float64",))
        assert what in upstream_violation(implementation, op, "float64")
    assert upstream_violation(Implementation("torch", SimpleNamespace(), False, ("float64",)), op, "float64") == ""
