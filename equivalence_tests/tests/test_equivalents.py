"""What looks like a mistake and is none: confirmed with 50 digits, and accepted by every check of the table."""

import inspect
import operator

import numpy as np
import pytest
from mpmath import mp, mpf

import reference_numpy
from equivalence_tests import many_digits
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.checks import draw_case, find_fault
from equivalence_tests.implementations import as_upstream
from equivalence_tests.mistakes import MISTAKES, equivalents
from equivalence_tests.mistakes.equivalents import EQUIVALENT
from equivalence_tests.ops import OPS

EVERY = pytest.mark.parametrize("equivalent", EQUIVALENT.values(), ids=EQUIVALENT)
DIGITS, GUARD = 50, 40  # the guard pays for scores in the hundreds, whose exponentials are summed


def _binary(f, result):
    def method(self, other):
        return NotImplemented if isinstance(other, np.ndarray) else result(f(self.value, Number(other).value))

    return method


def _unary(f):
    return lambda self: Number(f(self.value))


class Number:
    """A number of many digits, as NumPy's object arrays want it: with exp, log, sqrt and tanh as methods."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value.value if isinstance(value, Number) else mpf(value)

    __add__, __radd__ = (_binary(lambda a, b: a + b, lambda x: Number(x)) for _ in range(2))
    __mul__, __rmul__ = (_binary(lambda a, b: a * b, lambda x: Number(x)) for _ in range(2))
    __sub__, __rsub__ = (_binary(f, lambda x: Number(x)) for f in (lambda a, b: a - b, lambda a, b: b - a))
    __truediv__, __rtruediv__ = (_binary(f, lambda x: Number(x)) for f in (lambda a, b: a / b, lambda a, b: b / a))
    __pow__ = _binary(lambda a, b: a**b, lambda x: Number(x))
    __eq__, __lt__, __le__ = (_binary(f, bool) for f in (operator.eq, operator.lt, operator.le))
    __gt__, __ge__ = (_binary(f, bool) for f in (operator.gt, operator.ge))
    __neg__, __abs__ = _unary(operator.neg), _unary(abs)
    __hash__ = None  # type: ignore[assignment]
    exp, log, sqrt, tanh = (_unary(f) for f in (mp.exp, mp.log, mp.sqrt, mp.tanh))


def with_digits(value):
    """Floats, in arrays or alone, as numbers of many digits; everything else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([Number(float(x)) for x in value.ravel()] + [None], object)[:-1].reshape(value.shape)
    return Number(float(value)) if isinstance(value, float) else value


def small_cases(op, count):
    """Cases of few numbers, half of them hard. A scale is given: its default is rounded to float64."""
    found, index = [], 0
    while len(found) < count:
        case = draw_case(op, 300, index).rounded(PRECISIONS["float64"])
        if sum(array.size for array in case.operands.values()) <= 18 and index % 2 == len(found) % 2:
            if (
                "scale" in inspect.signature(getattr(reference_numpy, op.name)).parameters
                and "scale" not in case.operands
            ):
                case.options["scale"] = float(case.options.get("scale", (0.7, -0.3)[len(found) % 2]))
            found.append(case)
        index += 1
    return found


@EVERY
def test_the_two_formulas_agree_to_50_digits(equivalent, monkeypatch):
    """The code itself, on numbers of many digits, against loops over 450 digits and gradients by differences."""
    op = OPS[equivalent.op]
    for case in small_cases(op, 6):
        with mp.workdps(DIGITS + GUARD):
            monkeypatch.setattr(equivalents, "SLOPE", Number(mp.sqrt(2 / mp.pi)))
            monkeypatch.setattr(equivalents, "CUBE", Number(mpf(44715) / 10**6))
            operands = [with_digits(value) for value in case.operands.values()]
            options = {name: with_digits(value) for name, value in case.options.items()}
            if "epsilon" not in options and op.name == "layer_norm":
                options["epsilon"] = Number(1e-5)
            upstream = tuple(with_digits(value) for value in case.upstream.values())
            upstream = upstream if len(op.outputs) > 1 else upstream[0]
            Y, cache = equivalent.forward(*operands, **options)
            gradients = equivalent.backward(upstream, cache)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        exact = many_digits.forward(op.name, case.operands, case.options)
        assert_same(Y if isinstance(Y, tuple) else (Y,), exact if isinstance(exact, tuple) else (exact,))
        given = as_upstream(op, case.upstream)
        for gradient, name in zip(gradients, op.gradient_names(case), strict=True):
            truth = many_digits.gradient(op.name, case.operands, case.options, given, name)
            assert_same((gradient,), (truth,))


def assert_same(ours, exact):
    for one, other in zip(ours, exact, strict=True):
        one, other = np.asarray(one, object), np.asarray(other, object)
        assert one.shape == other.shape
        with mp.workdps(DIGITS + GUARD):
            largest = max(abs(y) for y in other.ravel())
            for x, y in zip(one.ravel(), other.ravel(), strict=True):
                assert abs(Number(x).value - y) <= mpf(10) ** -DIGITS * max(largest, 1)


@EVERY
def test_the_table_accepts_it(equivalent):
    fault = find_fault(equivalent.implementation, OPS[equivalent.op], cases=24)
    assert fault is None, f"{equivalent.claim} {fault}"


@EVERY
def test_each_has_a_proof_and_names_what_it_resembles(equivalent):
    assert len(equivalent.proof) > 60
    assert equivalent.claim.endswith(".")
    assert equivalent.looks_like in MISTAKES
    assert equivalent.id not in MISTAKES


def test_every_public_report_about_an_op_that_was_wrong_itself_is_here():
    assert {each.source for each in EQUIVALENT.values()} >= {"SCL-03", "LNM-10", "RNN-01"}


def test_the_50_digits_would_see_a_difference_in_the_forty_fifth():
    X = np.array([Number(1), Number(2)], object)
    with mp.workdps(DIGITS + GUARD):
        moved = np.array([X[0], Number(2 + mpf(10) ** -45)], object)
    assert_same((X,), (np.array([mpf(1), mpf(2)], object),))
    with pytest.raises(AssertionError):
        assert_same((moved,), (np.array([mpf(1), mpf(2)], object),))
