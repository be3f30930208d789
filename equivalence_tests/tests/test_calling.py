"""How a candidate is called: its framework, its cache, integers, numbers, names, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from equivalence_tests.candidate import FEW_CASES, adapt
from equivalence_tests.checking import Settings, check, draw
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.frameworks import frameworks_of
from equivalence_tests.implementations import NotOffered
from equivalence_tests.loading import load_function
from equivalence_tests.observe import observe
from equivalence_tests.probing import probe
from equivalence_tests.restrictions import restrictions

HERE = Path(__file__).parent / "candidates"
FEW = 16


def brought(spec: str):
    return load_function(f"{HERE / spec}" if ".py:" in spec else spec)


def checked(spec: str, like: str, backward: str = "", cases: int = FEW):
    return check(brought(spec), like, backward=brought(backward) if backward else None, cases=cases)


@pytest.mark.parametrize("name", ["c", "A", "Y", "out", "X"])
def test_the_cache_is_passed_whatever_the_backward_calls_it(name):
    report = checked("calling_ones.py:softmax", "softmax", f"calling_ones.py:softmax_of_{name}")
    assert (report.verdict, report.kind) == ("agrees", "pair"), str(report)


@pytest.mark.parametrize(
    ("forward", "backward", "like", "kind"),
    [
        ("attention", "attention_of_C", "attention", "pair"),
        ("attention", "attention_of_operands", "attention", "functional"),
        ("exponential", "exponential_of_output", "softmax", "pair"),
        ("loss", "loss_backward", "cross_entropy", "pair"),
        ("table", "table_backward", "embedding", "pair"),
    ],
)
def test_a_right_pair_agrees_however_it_is_called(forward, backward, like, kind):
    """The second parameter may have an output's name; a number is a Python float; operands go by their names."""
    report = checked(f"calling_ones.py:{forward}", like, f"calling_ones.py:{backward}")
    assert (report.verdict, report.kind) == ("agrees", kind), str(report)


@pytest.mark.parametrize(
    ("spec", "like"),
    [
        ("calling_ones.py:softmax_needs_dim", "softmax"),
        ("calling_ones.py:norm_of_five", "layer_norm"),
        ("torch.nn.functional:layer_norm", "layer_norm"),
        ("torch.nn.functional:softmax", "softmax"),
    ],
)
def test_what_a_signature_insists_on_is_filled_in(spec, like):
    report = checked(spec, like)
    assert report.passed, str(report)
    assert report.cases == 2 * FEW  # none is left out for an option that it does not name


@pytest.mark.parametrize(
    ("name", "like", "framework"),
    [
        ("attention", "attention", "torch"),
        ("attention_with_numpy", "attention", "torch"),
        ("by_methods", "softmax", "torch"),
        ("by_a_helper", "tanh", "torch"),
        ("by_a_star", "tanh", "torch"),
        ("over_numpy", "softmax", "numpy"),
    ],
)
def test_the_framework_is_found_by_trying(name, like, framework):
    report = checked(f"torch_called.py:{name}", like)
    assert (report.verdict, report.framework) == ("agrees", framework), str(report)


@pytest.mark.parametrize(("name", "like", "framework"), [("softmax", "softmax", "torch"), ("square", "relu", "numpy")])
def test_a_file_that_imports_nothing_is_tried(name, like, framework):
    """What works with arrays of NumPy too counts as NumPy's."""
    assert adapt(brought(f"by_no_library.py:{name}"), like).framework == framework


def test_a_numpy_function_is_not_called_to_find_its_framework():
    assert frameworks_of(brought("naughty_ones.py:hangs")) == ("numpy",)
    assert frameworks_of(brought("numpy_ones.py:attention")) == ("numpy",)


@pytest.mark.parametrize(
    ("spec", "like", "types"),
    [
        ("torch.nn.functional:embedding", "embedding", "uint8"),
        ("torch_called.py:rows", "embedding", "uint8"),
        ("torch_called.py:flat_loss", "cross_entropy", "int32"),
    ],
)
def test_integers_come_in_a_type_that_the_framework_takes(spec, like, types):
    report = checked(spec, like)
    assert report.passed, str(report)
    assert [(n.code, n.numbers["types"]) for n in report.notes] == [("integers_widened", types)]


def test_ids_that_overflow_in_numpy_are_a_mistake_all_the_same():
    report = check(lambda ids, weight: weight[(ids * ids.dtype.type(100)) // 100], "embedding", cases=FEW)
    assert report.verdict == "wrong"


@pytest.mark.parametrize(("name", "passed"), [("draws_weights", True), ("drops_at_random", False)])
def test_weights_that_are_drawn_and_not_used_touch_nothing(name, passed):
    like = "linear" if passed else "relu"
    report = checked(f"calling_ones.py:{name}", like)
    assert report.passed is passed, str(report)
    assert ("draws_unused" in [note.code for note in report.notes]) is passed


@pytest.mark.parametrize("name", ["norm_backward", "norm_backward_with_none", "norm_backward_of_two"])
def test_the_gradients_that_come_back_are_judged(name):
    report = checked("calling_ones.py:norm", "layer_norm", f"calling_ones.py:{name}")
    assert report.passed, str(report)
    assert [(n.code, n.numbers["names"]) for n in report.notes] == [("gradients_not_returned", "dX")]
    wrong = checked("calling_ones.py:norm", "layer_norm", f"calling_ones.py:{name}_twice")
    assert wrong.verdict == "wrong"
    assert wrong.findings


def test_a_backward_that_may_be_called_once_has_a_forward_for_each_call():
    report = checked("calling_ones.py:relu_of_a_graph", "relu")
    assert report.passed, str(report)
    assert [note.code for note in report.notes] == ["backward_once"]


def test_the_number_of_heads_may_come_with_the_call():
    module = brought("torch_called.py:heads")
    assert check(module, "multi_head_attention", cases=8).passed


# What it refuses


@pytest.mark.parametrize(
    ("spec", "code", "told"),
    [
        ("calling_ones.py:without_both", "refuses_together", ("mask", "causal")),
        ("torch.nn.functional:scaled_dot_product_attention", "refuses_together", ("mask", "causal")),
        ("calling_ones.py:without_mask", "refuses_option", ("mask",)),
        ("calling_ones.py:square_only", "takes_equal", ("m", "n")),
        ("calling_ones.py:batched_only", "takes_lead", (1,)),
        ("calling_ones.py:contiguous_only", "takes_contiguous", ()),
        ("calling_ones.py:powers_of_two", "takes_powers", ("c",)),
    ],
)
def test_a_refusal_is_found_and_the_rest_is_judged(spec, code, told):
    candidate = adapt(brought(spec), "attention")
    seen = observed(candidate)
    (found,) = restrictions("attention", seen)
    assert (found.code, found.names or found.numbers) == (code, told)
    assert len({found.finding(3).say(language) for language in LANGUAGES}) == 2
    rest = observed(candidate.refusing([found]))
    assert rest
    assert not any(each.wrong for each in rest)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("torch.nn.functional:scaled_dot_product_attention", "refuses_together"),
        ("calling_ones.py:contiguous_only", "takes_contiguous"),
    ],
)
def test_a_report_says_what_is_refused_and_agrees_on_the_rest(spec, code):
    report = checked(spec, "attention", cases=40)
    assert report.verdict == "agrees", str(report)
    assert code in [note.code for note in report.notes]


def test_a_fixed_number_of_axes_is_another_convention():
    report = checked("calling_ones.py:batched_only", "attention", cases=24)
    assert (report.verdict, [each.code for each in report.conventions]) == ("another convention", ["convention_axes"])


@pytest.mark.parametrize(("spec", "like"), [("torch.nn:RNN", "rnn"), ("calling_ones.py:of_strings", "softmax")])
def test_what_raises_on_every_case_is_not_judged(spec, like):
    report = checked(spec, like)
    assert (report.verdict, report.exit_code) == ("not judged", 2), str(report)
    assert report.findings[0].code == "never_answers"


def test_a_backward_that_raises_on_every_case_is_wrong():
    report = checked("calling_ones.py:softmax", "softmax", "calling_ones.py:raises_backward")
    assert report.verdict == "wrong"


@pytest.mark.parametrize("name", ["fails_on_one_key", "misses_a_name"])
def test_a_slip_is_no_refusal(name):
    candidate = adapt(brought(f"calling_ones.py:{name}"), "attention")
    seen = observed(candidate)
    assert any(each.raised for each in seen)
    assert restrictions("attention", seen) == []


def test_a_law_does_not_ask_for_what_is_refused():
    candidate = adapt(brought("calling_ones.py:without_mask"), "attention")
    (found,) = restrictions("attention", observed(candidate))
    forward = candidate.refusing([found]).implementation.forward("attention")
    Q = np.ones((2, 3))
    assert forward(Q, Q, Q).shape == (2, 3)
    with pytest.raises(NotOffered):
        forward(Q, Q, Q, mask=np.ones((2, 2), bool))


def observed(candidate, count: int = 40):
    seen = []
    with np.errstate(all="ignore"):
        for index in range(count):
            try:
                case, _ = draw(candidate, Settings(), index)
                seen.append(observe(candidate.implementation, candidate.op, case, "float32", index))
            except NotOffered:
                continue
    return seen


# Frameworks that compile


@pytest.mark.parametrize(("backward", "verdict"), [("softmax_gradient", "agrees"), ("softmax_without_sum", "wrong")])
def test_a_framework_that_compiles_is_given_few_shapes_and_no_strides(backward, verdict):
    compiled = brought("library_ones.py:softmax").__globals__["al"].compiled
    compiled.clear()
    report = checked("library_ones.py:softmax", "softmax", f"library_ones.py:{backward}", cases=400)
    assert report.verdict == verdict, str(report)
    assert {"few_shapes", "contiguous_passed"} <= {note.code for note in report.notes}
    if verdict == "agrees":
        assert report.cases == 2 * FEW_CASES
        assert len({each for each in compiled if each[0] == "exp"}) <= 16  # 5 of the cases, 9 of laws


@pytest.mark.parametrize(
    ("name", "op", "asked", "answer"),
    [
        ("norm_of_five", "layer_norm", "epsilon_option", "taken"),
        ("needs_causal", "self_attention", "heads_scale", "head"),
    ],
)
def test_the_probe_fills_in_what_a_signature_insists_on(name, op, asked, answer):
    found = {each.name: each.answer for each in probe(brought(f"calling_ones.py:{name}"), op)}
    assert found[asked] == answer


# Layers


@pytest.mark.parametrize(
    ("name", "like", "verdict"),
    [
        ("Linear", "linear", "agrees"),
        ("WrongLinear", "linear", "wrong"),
        ("dense", "linear", "agrees"),
        ("Affine", "linear", "agrees"),
        ("LayerNorm", "layer_norm", "agrees"),
        ("eight", "layer_norm", "agrees"),
        ("Embedding", "embedding", "agrees"),
        ("Relu", "relu", "agrees"),
        ("SoftmaxWithLoss", "cross_entropy", "agrees"),
    ],
)
def test_a_layer_of_a_course_is_a_pair(name, like, verdict):
    report = checked(f"layer_ones.py:{name}", like)
    assert report.verdict == verdict, str(report)
    assert "layer" in [note.code for note in report.notes]


@pytest.mark.parametrize(
    ("name", "like", "says"),
    [("Strange", "relu", "'flavour' is not known"), ("Relu", "linear", "no attribute for weight")],
)
def test_a_layer_that_cannot_be_adapted_says_what_to_pass(name, like, says):
    with pytest.raises(ValueError, match=says):
        adapt(brought(f"layer_ones.py:{name}"), like)
