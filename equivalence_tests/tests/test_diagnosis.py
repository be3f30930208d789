"""The diagnosis names the term: of mistakes that it knows, of mistakes that it does not, and none of what is right."""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import reference_numpy
from equivalence_tests import variants
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.checks import draw_case
from equivalence_tests.diagnosis import Library, explain
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis
from equivalence_tests.diagnosis.plain import evaluate
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.implementations import Implementation
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.mistakes import MISTAKES, quiet
from equivalence_tests.mistakes.naming import naming_of
from equivalence_tests.mistakes.vocabulary import KINDS, STAGES
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS

NOTHING_KNOWN = ()


@cache
def case(op, index):
    return draw_case(OPS[op], 0, index)


def seen_of(op, forward=None, backward=None, cases=range(12), dtypes=("float64", "float32")):
    right = getattr(reference_numpy, op), getattr(reference_numpy, f"{op}_backward", None)
    functions = {op: forward or right[0], f"{op}_backward": backward or right[1]}
    implementation = Implementation("candidate", SimpleNamespace(**functions), True, ("float64", "float32"))
    with quiet():
        return [observe(implementation, OPS[op], case(op, i), dtype, i) for i in cases for dtype in dtypes]


def first(op, forward=None, backward=None, **options):
    return diagnosed(op, seen_of(op, forward, backward, **options))[0]


def diagnosed(op, seen, **options):
    with quiet():
        findings = explain(OPS[op], seen, **{"library": NOTHING_KNOWN, **options})
    for finding in findings:  # each can be said, and counted
        assert all(finding.say(language) for language in LANGUAGES)
        assert finding.kind in KINDS
    return findings


# What is right


@pytest.mark.parametrize("op", [name for name, op in OPS.items() if not op.model])
def test_nothing_is_found_in_what_is_right(op):
    assert diagnosed(op, seen_of(op, cases=range(4))) == []


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "attention", "rnn"])
def test_nothing_is_found_in_right_variants(op):
    for name in variants.VARIANTS[op]:
        variant = variants.implementation(op, name)
        seen = [observe(variant, OPS[op], case(op, i), dtype, i) for i in range(2) for dtype in variant.dtypes]
        assert diagnosed(op, seen) == []


@pytest.mark.parametrize("op", OPS)
def test_unedited_lines_give_the_formula(op):
    """Through plain numbers the formula answers what it answers over bounded ones."""
    for i in range(2):
        rounded = case(op, i).rounded(PRECISIONS["float64"])
        exact = OPS[op].exact(rounded, PRECISIONS["float64"])
        plain = evaluate(OPS[op], rounded, PRECISIONS["float64"], Editing(OPS[op], rounded))
        for name, truth in exact.items():
            finite = np.isfinite(truth.value)
            apart = np.abs(np.where(finite, plain[name] - np.where(finite, truth.value, 0), 0))
            assert (
                apart <= 16 * truth.budget() + 1e-12 * np.abs(np.where(finite, truth.value, 0)).max(initial=0)
            ).all()


# A factor


def unscaled(dC, cache):
    dA = reference_numpy.dropout(dC @ cache.V.mT, cache.keep, cache.p)[0]
    dS = cache.A * (dA - (cache.A * dA).sum(-1, keepdims=True))
    return dS @ cache.K, dS.mT @ cache.Q, reference_numpy.dropout(cache.A, cache.keep, cache.p)[0].mT @ dC


def test_the_root_of_c_that_is_missing_in_the_backward_is_named():
    plain = [i for i in range(60) if "scale" not in case("attention", i).options][:8]
    finding = first("attention", backward=unscaled, cases=plain)
    assert (finding.code, finding.stage, finding.kind) == ("missing_factor", "dOmega", "factor")
    assert finding.numbers["named"] == "sqrt(c)"
    assert finding.numbers["missing"] == "1/sqrt(c)"
    widths = {case("attention", i).operands["Q"].shape[-1] for i in plain}
    assert round(finding.numbers["factor"] ** 2) in widths
    assert finding.sure
    assert "1/sqrt(c)" in finding.say("en")
    assert "1/sqrt(c)" in finding.say("es")


def scaled_dK(by):
    def backward(dC, cache):
        dQ, dK, dV = reference_numpy.attention_backward(dC, cache)
        return dQ, dK * dK.dtype.type(by(cache)), dV

    return backward


@pytest.mark.parametrize(
    ("by", "code", "named"),
    [
        (lambda cache: -1.0, "wrong_sign", None),
        (lambda cache: 0.0, "missing_term", None),
        (lambda cache: 2.0, "wrong_factor", "2"),
        (lambda cache: 1.0 / cache.K.shape[-2], "wrong_factor", "1/m"),
        (lambda cache: cache.Q.shape[-2], "missing_factor", "n"),
        (lambda cache: 1.37, "wrong_factor", "1.37"),
    ],
)
def test_a_factor_is_named_from_the_sizes(by, code, named):
    finding = first("attention", backward=scaled_dK(by))
    assert (finding.code, finding.stage, finding.tensor) == (code, "dK", "dK")
    assert named is None or finding.numbers["named"] == named


# A term


def dX_of(terms):
    def backward(dY, cache):
        _dX, dscale, dshift = reference_numpy.layer_norm_backward(dY, cache)
        N, r, scale = cache
        dN = dY * scale
        return r * terms(dN, N), dscale, dshift

    return backward


def mean(X):
    return X.mean(-1, keepdims=True)


@pytest.mark.parametrize(
    ("terms", "stage", "code"),
    [
        (lambda dN, N: dN - N * mean(dN * N), "mean(dN)", "missing_term"),
        (lambda dN, N: dN - mean(dN), "dX", "missing_term"),
        (lambda dN, N: dN - mean(dN) - 2 * N * mean(dN * N), "dX", "term_twice"),
        (lambda dN, N: dN + mean(dN) - N * mean(dN * N), "mean(dN)", "wrong_sign"),
        (lambda dN, N: dN - dN.mean() - N * (dN * N).mean(), "mean(dN)", "wrong_axis"),
    ],
)
def test_the_term_of_layer_norm_is_named(terms, stage, code):
    finding = first("layer_norm", backward=dX_of(terms))
    assert (finding.code, finding.tensor) == (code, "dX")
    assert finding.stage in (stage, "mean(dN * N)", "dX")
    assert finding.sure


def whose(backward):
    findings = diagnosed("tanh", seen_of("tanh", lambda X: (np.sin(X), X), backward))
    assert findings[0].code == "other_form"
    return next(finding for finding in findings if finding.code == "gradient_of").numbers["whose"]


def test_whose_gradient_it_is_that_comes_with_a_wrong_forward():
    assert whose(lambda dY, X: dY * np.cos(X)) == "that of this wrong forward"
    assert whose(lambda dY, X: dY * (1 - np.tanh(X) ** 2)) == "that of the right forward"
    assert whose(lambda dY, X: dY * X) == "that of neither this forward nor the right one"


def test_an_unknown_constant_before_a_curve_is_fitted():
    def forward(X, axis=-1):
        return reference_numpy.softmax(X * X.dtype.type(1.37), axis)

    finding = first("softmax", forward)
    assert (finding.code, finding.kind, finding.numbers["named"]) == ("wrong_factor", "factor", "1.37")


def test_another_function_of_a_line_is_named():
    def backward(dY, Y):
        return dY * Y * (1 - Y)  # the sigmoid's

    finding = first("tanh", lambda X: (np.tanh(X), np.tanh(X)), backward)
    assert (finding.code, finding.stage, finding.kind) == ("other_form", "dX", "term")


def test_two_missing_terms_are_found_by_regression():
    finding = first("layer_norm", backward=dX_of(lambda dN, N: dN))
    assert finding.code == "missing_term"
    assert "and" in finding.numbers["term"] or finding.numbers["term"] == "dN"


# An operand, an axis, an option, a sum


def test_an_operand_that_stands_in_the_place_of_another():
    def forward(X, scale, shift, epsilon=1e-5):
        Y, cache = reference_numpy.layer_norm(X, scale, shift, epsilon)
        return Y, (cache, Y.copy())

    def backward(dY, cache):
        dX, _dscale, dshift = reference_numpy.layer_norm_backward(dY, cache[0])
        return dX, (dY * cache[1]).sum(tuple(range(dY.ndim - 1))), dshift

    finding = first("layer_norm", forward, backward)
    assert (finding.code, finding.stage, finding.numbers["got"]) == ("wrong_operand", "dscale", "Y")


def test_a_softmax_over_the_queries():
    def backward(dA, cache):
        A, _axis = cache
        return A * (dA - (A * dA).sum())

    finding = first("softmax", backward=backward)
    assert (finding.code, finding.stage, finding.kind) == ("wrong_axis", "sum(A * dA)", "axis")


def test_an_option_that_is_not_read():
    def forward(Q, K, V, *, causal=False, **options):
        return reference_numpy.attention(Q, K, V, causal=False, **options)

    finding = first("attention", forward, cases=range(30))
    assert (finding.code, finding.stage, finding.kind) == ("option_ignored", "causal", "option")


def test_repeats_that_are_lost():
    def backward(dY, cache):
        ids, shape = cache[0], cache[1]
        dweight = np.zeros(shape if isinstance(shape, tuple) else shape.shape, dY.dtype)
        dweight[ids] += dY
        return dweight

    finding = first("embedding", backward=backward, cases=range(20))
    assert (finding.code, finding.stage, finding.kind) == ("repeats", "dweight", "accumulation")


def test_a_sum_over_the_first_axis_alone():
    def backward(dY, cache):
        gradients = list(reference_numpy.linear_backward(dY, cache))
        if len(gradients) == 3:
            gradients[2] = dY.sum(0) if dY.ndim > 1 else gradients[2]
        return tuple(gradients)

    finding = first("linear", backward=backward, cases=range(30))
    assert (finding.code, finding.stage) == ("summed_over", "dbias")


# What no edit explains


def test_an_unknown_formula_still_gets_its_worst_element():
    def backward(dY, cache):
        dX, dscale, dshift = reference_numpy.layer_norm_backward(dY, cache)
        return np.sin(3.0 * dX) + dX.astype(dX.dtype) ** 2, dscale, dshift

    findings = diagnosed("layer_norm", seen_of("layer_norm", backward=backward))
    assert findings[-1].code == "worst_element"
    assert findings[-1].tensor == "dX"
    assert findings[-1].numbers["axis"]


def test_the_affected_axis_is_told():
    def backward(dY, cache):
        dX = reference_numpy.tanh_backward(dY, cache)
        dX[..., -1] = np.sin(5.0 * dX[..., -1]) + dX.dtype.type(0.1)
        return dX

    wide = [i for i in range(60) if min(case("tanh", i).operands["X"].shape) > 1]
    findings = diagnosed("tanh", seen_of("tanh", backward=backward, cases=wide))
    assert findings[-1].numbers["axis"] == "axis -1: the last"


def test_what_is_wrong_only_with_an_option_is_told_so():
    def forward(Q, K, V, *, keep=None, p=0.0, **options):
        C, cache = reference_numpy.attention(Q, K, V, keep=keep, p=p, **options)
        return (C if keep is None or keep.all() else np.sin(C) + C.dtype.type(0.3)), cache

    codes = [f.code for f in diagnosed("attention", seen_of("attention", forward, cases=range(24)))]
    assert "only_with" in codes


def test_a_lower_precision_inside_is_told_by_its_digits():
    def forward(X, axis=-1):
        A, cache = reference_numpy.softmax(X.astype(np.float32), axis)
        return A.astype(X.dtype), (cache[0].astype(X.dtype), axis)

    findings = diagnosed("softmax", seen_of("softmax", forward, cases=range(0, 12, 2)))
    accuracy = next(finding for finding in findings if finding.code == "accuracy")
    assert 5.0 < accuracy.numbers["digits"] < 9.0
    assert accuracy.kind == "precision"


# The contract


def test_exceptions_dtypes_and_shapes():
    def raises(X):
        raise RuntimeError("no such luck")

    def wide(X):
        Y, cache = reference_numpy.tanh(X)
        return Y.astype(np.float64), cache

    def flat(X):
        Y, cache = reference_numpy.tanh(X)
        return Y.reshape(-1), cache

    assert "raises" in [f.code for f in diagnosed("tanh", seen_of("tanh", raises))]
    assert first("tanh", wide).code == "wrong_dtype"
    assert "wrong_shape" in [f.code for f in diagnosed("tanh", seen_of("tanh", flat))]


def test_conduct_is_said_when_the_values_are_right():
    findings = diagnosed("tanh", seen_of("tanh"), conduct=Misconduct("backward_changes_cache"))
    assert [(f.code, f.stage, f.kind) for f in findings] == [("conduct", "backward", "conduct")]
    assert findings[0].say("es") == "el paso hacia atrás cambia su caché"


def test_a_broken_law_is_said():
    findings = diagnosed("tanh", seen_of("tanh"), broken_laws=("refuses_bad_input",))
    assert [f.code for f in findings] == ["law_broken"]


# Stages at hand


def test_the_first_wrong_stage_is_named_and_its_consequences_are_not():
    def stages(Q, K, V, dC=None, **options):
        s = reference_numpy.attention_stages(Q, K, V, dC, **options)
        A = s.A * s.A.dtype.type(1.5)  # wrong, and what follows follows from it
        dropped = reference_numpy.dropout(A, options.get("keep"), options.get("p", 0.0))[0]
        return s._replace(A=A, C=dropped @ V)

    findings = diagnosed("attention_stages", seen_of("attention_stages", stages))
    assert findings[0].stage == "A"
    placed = next(finding for finding in findings if finding.code == "first_wrong_stage")
    assert placed.tensor == "A"


def test_a_second_wrong_stage_is_named_too_and_what_follows_from_the_first_is_not():
    def stages(Q, K, V, dC=None, **options):
        options.pop("mask", None)  # wrong; the map and all that follows are right given the masked scores
        s = reference_numpy.attention_stages(Q, K, V, dC, **options)
        return s._replace(dV=s.dV * s.dV.dtype.type(2.0))  # wrong as well

    findings = diagnosed("attention_stages", seen_of("attention_stages", stages, cases=range(20)))
    assert (findings[0].code, findings[0].stage) == ("option_ignored", "masked")
    placed = {finding.tensor: finding.code for finding in findings if finding.code.endswith("wrong_stage")}
    assert placed == {"masked": "first_wrong_stage", "dV": "wrong_stage"}


# The library


@pytest.mark.parametrize("id", ["M056", "LNM-02c", "B05", "R08", "C12", "M102"])
def test_a_known_mistake_is_named_and_placed_without_itself(id):
    mistake = MISTAKES[id]
    naming = naming_of(mistake, Library([m for m in MISTAKES.values() if m.op == mistake.op]))
    assert naming.right, naming.named
    assert naming.findings[0].stage in STAGES[mistake.op]
    assert id == "M102" or naming.placed


def test_a_hypothesis_edits_one_line_and_leaves_the_rest():
    rounded = case("layer_norm", 0).rounded(PRECISIONS["float64"])
    doubled = Hypothesis("", "", edits=(Edit("dN", "", lambda x, _: x * 2.0),))
    right = evaluate(OPS["layer_norm"], rounded, PRECISIONS["float64"], Editing(OPS["layer_norm"], rounded))
    edited = doubled.answer(OPS["layer_norm"], rounded, "float64")
    assert np.array_equal(edited["Y"], right["Y"])
    assert np.array_equal(edited["dscale"], right["dscale"])
    assert np.allclose(edited["dX"], 2.0 * right["dX"], rtol=1e-12)
    assert math.isfinite(float(edited["dX"].sum()))
