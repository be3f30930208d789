"""A dump judged: right ones pass, a wrong line is named and what follows from it is not, and no file does harm."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import equivalence_tests
import reference_numpy
from equivalence_tests import dump_sample
from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded, round_to
from equivalence_tests.cases import Case
from equivalence_tests.checks import draw_case
from equivalence_tests.dump import DumpReport, check_dump, report
from equivalence_tests.dump_lines import lines_of, local_lines_of, with_infinities
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.implementations import Implementation, as_upstream, named, prepared, run
from equivalence_tests.mistakes import MISTAKES, as_implementation, quiet
from equivalence_tests.mistakes.matrix import REFERENCE
from equivalence_tests.ops import OPS, Op
from equivalence_tests.stages import AS_IT_IS, STORED
from equivalence_tests.variants import VARIANTS
from equivalence_tests.variants import implementation as variant

BACKWARD = ("dA", "delta", "dS", "dOmega", "dQ", "dK", "dV")


def arrays_of(case: Case, dtype: str) -> dict[str, Any]:
    """What goes in, by name, as somebody would write it down."""
    operands, options, upstream = prepared(case, dtype)
    arrays: dict[str, Any] = {**operands, **upstream}
    for name, value in options.items():
        if isinstance(value, dict):
            arrays |= {f"{name}.{key}": each for key, each in value.items()}
        elif name == "config":
            arrays |= vars(value)
        elif value is not None:
            arrays[name] = value
    return arrays


def judged(folder: Path, op: Op, arrays: dict[str, Any], **options: Any) -> DumpReport:
    np.savez(folder / "dump.npz", **arrays)
    return check_dump(folder / "dump.npz", op, **options)


def verdicts(found: DumpReport) -> dict[str, str]:
    return {row.name: row.verdict for row in found.rows}


def dumped(folder: Path, op: Op, implementation: Implementation, index: int, dtype: str) -> DumpReport:
    case = draw_case(op, 0, index).rounded(PRECISIONS[dtype])
    answer = {name: tensor.value for name, tensor in run(implementation, op, case, dtype).items()}
    return judged(folder, op, {**arrays_of(case, dtype), **answer})


def attention_operands(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"Q": (2, 3, 5, 8), "K": (2, 3, 7, 8), "V": (2, 3, 7, 4), "dC": (2, 3, 5, 4)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def stages_of(operands: dict[str, Array], **options: Any) -> dict[str, Array]:
    return reference_numpy.attention_stages(*operands.values(), **options)._asdict()


def without(arrays: dict[str, Any], names: str) -> dict[str, Any]:
    return {name: value for name, value in arrays.items() if name not in names.split()}


# The lines


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_the_lines_are_the_formula_with_its_budgets(op):
    """To the last bit: whoever changes a formula changes its lines."""
    for index in range(2 if op.model else 12):
        precision = PRECISIONS[("float64", "float32", "bfloat16")[index % 3]]
        case = draw_case(op, 0, index).rounded(precision)
        arrays = {**case.operands, **case.upstream}
        options = {name: value for name, value in case.options.items() if name != "bias"}
        arrays |= {"bias": case.options["bias"]} if "bias" in case.options else {}
        state: dict[str, Any] = {}
        for name, value in arrays.items():
            number = Bounded(value, precision) if value.dtype == np.float64 else value
            state[name] = with_infinities(number, number.error) if isinstance(number, Bounded) else number
        # A dump is held to the wider budget where a log-sum-exp may be stored; in attention A is judged given the scores.
        one_line = op.name in ("softmax", "log_softmax", "cross_entropy")
        exact = op.exact(case, precision, STORED if one_line else AS_IT_IS)
        bias = np.abs(case.options.get("bias", np.zeros(1)))
        told = case.options.get("scale") != 0.0 or "bias" not in case.options
        told &= not (bias[np.isfinite(bias)] >= 1e4).any()  # where the formula knows two right answers of the sum
        with np.errstate(all="ignore"):
            for line in lines_of(op, list(arrays), options):
                values = line.compute(*(state[name] for name in line.needs))
                state |= dict(zip(line.names, values if isinstance(values, tuple) else (values,), strict=True))
        for name, truth in exact.items():
            np.testing.assert_array_equal(state[name].value, truth.value)
            if told and name != "loss":  # whose log-sum-exps and logits may be added up apart: a dump has log P
                np.testing.assert_array_equal(state[name].error, truth.error)


def test_the_rnn_follows_from_its_own_states():
    case = draw_case(OPS["rnn"], 0, 4).rounded(PRECISIONS["float64"])
    precision = PRECISIONS["float64"]
    state: dict[str, Any] = {n: Bounded(v, precision) for n, v in {**case.operands, **case.upstream}.items()}
    exact = OPS["rnn"].exact(case, precision)
    state["H as dumped"] = exact["H"]
    for line in local_lines_of(OPS["rnn"], list(state), {}):
        values = line.compute(*(state[name] for name in line.needs))
        state |= dict(zip(line.names, values if isinstance(values, tuple) else (values,), strict=True))
    for name, truth in exact.items():
        assert (np.abs(state[name].value - truth.value) <= truth.budget()).all()


# Right dumps


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_a_right_dump_passes(op, tmp_path):
    for index in range(2 if op.model else 8):
        for dtype in ("float32", "float64"):
            found = dumped(tmp_path, op, REFERENCE, index, dtype)
            assert set(verdicts(found).values()) <= {"right", "ill"}, (index, dtype, found)
            assert found.findings == []
            assert found.exit_code == (0 if "right" in verdicts(found).values() else 2)


@pytest.mark.parametrize("op", ["attention", "layer_norm", "cross_entropy", "softmax", "multi_head_attention"])
def test_a_dump_of_a_right_implementation_that_rounds_differently_passes(op, tmp_path):
    for name in VARIANTS[op]:
        for index in (0, 1, 3):
            found = dumped(tmp_path, OPS[op], variant(op, name, checked=False), index, "float32")
            assert found.findings == [], (name, index)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_right_half_precision_passes_in_its_own_budget_and_not_in_float32(dtype, tmp_path):
    precision = PRECISIONS[dtype]
    operands = {name: round_to(value.astype(np.float64), precision) for name, value in attention_operands().items()}
    exact = OPS["attention_stages"].exact(Case(operands, {"causal": True}, {}), precision)
    stored = "float16" if dtype == "float16" else "float32"
    arrays = {name: round_to(each.value.astype(np.float64), precision) for name, each in exact.items()} | operands
    arrays = {name: value.astype(stored) for name, value in arrays.items()}
    halves = judged(tmp_path, OPS["attention"], arrays | {"causal": True}, dtype=dtype)
    assert set(verdicts(halves).values()) <= {"right", "ill"}
    assert "right" in verdicts(halves).values()
    if dtype == "bfloat16":
        assert judged(tmp_path, OPS["attention"], arrays | {"causal": True}).exit_code == 1
        two_bytes = {name: (value.view(np.uint32) >> 16).astype("<u2").view("V2") for name, value in arrays.items()}
        found = judged(tmp_path, OPS["attention"], two_bytes | {"causal": True})
        assert verdicts(found) == verdicts(halves)
        assert {row.dtype for row in found.rows} == {"bfloat16"}


def test_a_tensor_is_judged_in_the_coarsest_format_that_went_into_it(tmp_path):
    """A computed in float32, V and dC in float16: A keeps float32's budget, C has float16's, and so has what follows."""
    operands = attention_operands()
    operands |= {name: operands[name].astype(np.float16).astype(np.float32) for name in ("V", "dC")}
    stages = stages_of(operands)
    halves = {name: operands[name].astype(np.float16) for name in ("V", "dC")}
    halves |= {name: stages[name].astype(np.float16) for name in ("C", "dV")}
    found = judged(tmp_path, OPS["attention"], operands | stages | halves)
    assert found.exit_code == 0
    rough = stages["A"] * np.float32(1 + 2**-12)  # within float16, far beyond float32
    found = judged(tmp_path, OPS["attention"], operands | stages | halves | {"A": rough})
    assert verdicts(found)["A"] == "wrong"
    assert verdicts(found)["C"] == "right"


def test_a_fused_kernel_that_writes_down_rounded_stages_is_right(tmp_path):
    """C made from an A that was never rounded, and A written down in float32."""
    operands = attention_operands()
    wide = stages_of({name: value.astype(np.float64) for name, value in operands.items()})
    found = judged(tmp_path, OPS["attention"], operands | {n: v.astype(np.float32) for n, v in wide.items()})
    assert set(verdicts(found).values()) == {"right"}


def test_operands_that_a_coarser_format_cannot_hold_are_rounded_by_whoever_uses_them(tmp_path):
    """Float32 operands of a system that computes in bfloat16."""
    precision = PRECISIONS["bfloat16"]
    operands = attention_operands()
    rounded = {name: round_to(value.astype(np.float64), precision) for name, value in operands.items()}
    exact = OPS["attention_stages"].exact(Case(rounded, {}, {}), precision)
    stages = {name: round_to(each.value.astype(np.float64), precision).astype("f4") for name, each in exact.items()}
    found = judged(tmp_path, OPS["attention"], operands | stages, dtype="bfloat16")
    assert set(verdicts(found).values()) <= {"right", "ill"}


# Wrong lines

OTHER = np.random.default_rng(1)


def _noise(X: Array) -> Array:
    return X + OTHER.standard_normal(X.shape).astype(X.dtype) * np.float32(0.1)


LINES = ("Omega", "scaled", "masked", "A", "C", *BACKWARD)


def attention_from(wrong: str, operands: dict[str, Array]) -> dict[str, Array]:
    """Every stage of an attention in float32 that spoils one line, and computes the rest rightly from it."""
    Q, K, V, dC = operands.values()
    s: dict[str, Array] = {}

    def put(name: str, value: Array) -> None:
        s[name] = _noise(value) if name == wrong else value

    put("Omega", Q @ K.mT)
    put("scaled", s["Omega"] * np.float32(8**-0.5))
    put("masked", s["scaled"])
    E = np.exp(s["masked"] - s["masked"].max(-1, keepdims=True))
    put("A", E / E.sum(-1, keepdims=True))
    put("C", s["A"] @ V)
    put("dA", dC @ V.mT)
    put("delta", (s["A"] * s["dA"]).sum(-1, keepdims=True))
    put("dS", s["A"] * (s["dA"] - s["delta"]))
    put("dOmega", s["dS"] * np.float32(8**-0.5))
    put("dQ", s["dOmega"] @ K)
    put("dK", s["dOmega"].mT @ Q)
    put("dV", s["A"].mT @ dC)
    return s


@pytest.mark.parametrize("line", LINES)
def test_one_wrong_line_is_named_and_what_follows_from_it_is_not(line, tmp_path):
    operands = attention_operands()
    found = judged(tmp_path, OPS["attention"], operands | attention_from(line, operands))
    assert [row.name for row in found.rows if row.verdict == "wrong"] == [line]
    assert all(finding.stage == line for finding in found.findings)
    assert set(verdicts(found).values()) <= {"wrong", "follows", "right"}
    after = LINES[LINES.index(line) + 1 :]
    assert all(row.verdict == "right" for row in found.rows if row.name not in (line, *after))


@pytest.mark.parametrize("line", ["scaled", "masked", "A", "dA", "delta", "dS"])
def test_a_wrong_line_that_is_not_in_the_dump_is_among_those_named(line, tmp_path):
    """From the last one that is there."""
    operands = attention_operands()
    hidden = without(attention_from(line, operands), line)
    found = judged(tmp_path, OPS["attention"], operands | hidden)
    lines = found.findings[0].numbers["lines"].split(", ")
    assert line in lines
    assert len(lines) <= 3  # not everything before it


def test_two_wrong_lines_are_both_named(tmp_path):
    operands = attention_operands()
    stages = attention_from("A", operands)
    stages["dQ"] = _noise(stages["dQ"])
    found = judged(tmp_path, OPS["attention"], operands | stages)
    assert [row.name for row in found.rows if row.verdict == "wrong"] == ["A", "dQ"]


def test_wrong_stages_may_have_been_rounded_when_they_were_written_down(tmp_path):
    """A system that forgets its scale, computes in float64 and writes float16: two lines are wrong, and no other."""
    halves = {name: value.astype(np.float16) for name, value in attention_operands().items()}
    stages = stages_of({name: value.astype(np.float64) for name, value in halves.items()}, scale=1.0)
    found = judged(tmp_path, OPS["attention"], halves | {n: v.astype(np.float16) for n, v in stages.items()})
    assert [row.name for row in found.rows if row.verdict == "wrong"] == ["scaled", "dOmega"]


def test_what_is_right_after_a_wrong_line_is_what_the_next_is_judged_from(tmp_path):
    """A forward with another map, a backward that computes the right one again and forgets the scale."""
    operands = attention_operands()
    right, other = stages_of(operands), stages_of(operands, scale=1.0)
    stages = right | {name: other[name] for name in ("scaled", "masked", "A", "C")}
    stages |= {name: right[name] * np.float32(8**0.5) for name in ("dOmega", "dQ", "dK")}
    hidden = judged(tmp_path, OPS["attention"], operands | without(stages, "delta dS"))
    for found in (judged(tmp_path, OPS["attention"], operands | stages), hidden):
        assert [row.name for row in found.rows if row.verdict == "wrong"] == ["scaled", "dOmega"]
    found = judged(tmp_path, OPS["attention"], operands | stages)
    assert [f.tensor for f in found.findings if f.code == "dump_factor"] == ["scaled", "dOmega"]


def test_what_another_gradient_shows_to_be_right_is_not_suspected(tmp_path):
    operands = attention_operands()
    ends = {name: stages_of(operands)[name] for name in ("C", "dQ", "dK", "dV")}
    ends["dQ"] = _noise(ends["dQ"])
    found = judged(tmp_path, OPS["attention"], operands | ends)
    assert [finding.numbers["lines"] for finding in found.findings] == ["dQ"]


def test_a_softmax_over_the_queries_is_told_by_its_columns(tmp_path):
    operands = attention_operands()
    right = stages_of(operands)
    E = np.exp(right["masked"] - right["masked"].max(-2, keepdims=True))
    A = E / E.sum(-2, keepdims=True)
    found = judged(tmp_path, OPS["attention"], {**operands, **without(right, "C dA delta dS dOmega dQ dK dV"), "A": A})
    assert [finding.code for finding in found.findings] == ["dump_columns", "dump_line"]
    assert "given masked" in found.findings[1].say()


def test_a_missing_scale_is_told_as_a_factor_with_its_name(tmp_path):
    operands = attention_operands()
    stages = stages_of(operands)
    stages |= {name: stages[name] * np.float32(8**0.5) for name in ("dOmega", "dQ", "dK")}
    found = judged(tmp_path, OPS["attention"], operands | stages)
    first = found.findings[0]
    assert (first.code, first.tensor, first.sure) == ("dump_factor", "dOmega", True)
    assert first.numbers["factor"] == pytest.approx(2.8284271, rel=1e-6)
    assert "sqrt(c)" in first.say()
    ends = judged(tmp_path, OPS["attention"], operands | without(stages, "Omega scaled masked A dA delta dS dOmega"))
    assert ends.findings[0].code == "dump_shared"
    assert not ends.findings[0].sure
    assert "dOmega" in ends.findings[0].numbers["lines"]


def test_gradients_in_the_wrong_order_are_told(tmp_path):
    operands = attention_operands()
    operands["K"] = operands["K"][..., :5, :]
    operands["V"] = operands["V"][..., :5, :]
    stages = stages_of(operands)
    stages["dQ"], stages["dK"] = stages["dK"], stages["dQ"]
    assert judged(tmp_path, OPS["attention"], operands | stages).findings[0].code == "dump_swapped"


def test_a_backward_that_computes_another_map_is_told(tmp_path):
    operands = attention_operands()
    right, other = stages_of(operands, causal=True), stages_of(operands)
    ends = {name: right[name] for name in ("A", "C")} | {name: other[name] for name in ("dQ", "dK", "dV")}
    found = judged(tmp_path, OPS["attention"], operands | ends | {"causal": True})
    assert (found.findings[0].code, found.findings[0].stage) == ("dump_other", "A")


def test_nan_is_wrong_where_it_arises(tmp_path):
    operands = attention_operands()
    mask = np.ones((5, 7), bool)
    mask[2] = False
    stages = stages_of(operands, mask=mask)
    for name in ("A", "C", "delta", "dS", "dOmega", "dQ"):
        stages[name][..., 2, :] = np.nan
    stages["dK"][:], stages["dV"][:] = np.nan, np.nan
    found = judged(tmp_path, OPS["attention"], operands | stages | {"mask": mask})
    assert [row.name for row in found.rows if row.verdict == "wrong"] == ["A"]


def test_a_finite_fill_is_wrong_where_it_is_filled_in(tmp_path):
    operands = attention_operands()
    mask = np.random.default_rng(3).random((5, 7)) < 0.6
    mask[2] = False
    right = stages_of(operands, mask=mask)
    masked = np.where(mask, right["masked"], np.float32(-1e9))
    E = np.exp(masked - masked.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    found = judged(
        tmp_path, OPS["attention"], operands | {"mask": mask, "masked": masked, "A": A, "C": A @ operands["V"]}
    )
    assert verdicts(found) == {"masked": "wrong", "A": "follows", "C": "follows"}


def stages_of_mistake(mistake: Any, case: Case, dtype: str) -> dict[str, Array] | None:
    """What a mistake leaves to be written down: outputs, gradients, the map that it remembers."""
    op, implementation = OPS[mistake.op], as_implementation(mistake)
    operands, options, upstream = prepared(case, dtype)
    with quiet():
        answer = implementation.forward(op.name)(*operands.values(), **options)
        if not op.differentiable:
            return {name: each.value for name, each in named(op, case, answer, ()).items()}
        Y, cache = answer
        A = {"A": cache.A.copy()} if isinstance(cache, reference_numpy.AttentionCache) else {}
        gradients = implementation.backward(op.name)(as_upstream(op, upstream), cache)
        return A | {name: each.value for name, each in named(op, case, Y, gradients).items()}


OF_ATTENTION = [mistake for mistake in MISTAKES.values() if mistake.op in ("attention", "attention_stages")]
UNSEEN = {  # not in numbers of the right dtype, shape and operands: what a dump can tell nothing of
    "M177": "another dtype",
    "M032": "NaN in an operand",
    "POS-06": "bad input",
    "P05": "an axis of 1",
    "B16": "a second call",
}


# All gradients over the batch's size: an A of the backward that is so much smaller gives the same numbers.
AS_ANOTHER_LINE = {"Z13": "A"}


@pytest.mark.parametrize("mistake", OF_ATTENTION, ids=lambda mistake: mistake.id)
def test_every_mistake_of_attention_is_placed_at_its_line(mistake, tmp_path):
    """On the first two cases that show it: the first finding names the line, or is among the few that it leaves open."""
    op, seen = OPS[mistake.op], 0
    for index in range(40):
        case = draw_case(op, 0, index).rounded(PRECISIONS["float32"])
        unseen = np.isinf(op.exact(case, PRECISIONS["float32"])["dQ"].budget()).any()
        if mistake.backward and (unseen or case.options.get("scale") == 0.0 or case.operands["K"].shape[-2] == 1):
            continue  # dQ and dK are 0, whatever A and dS are, or nothing is promised of them
        try:
            stages = stages_of_mistake(mistake, case, "float32")
        except ValueError:  # it raises by itself where its shapes do not fit
            continue
        if any(value.dtype != np.float32 for value in stages.values()):
            break
        found = judged(tmp_path, op, {**arrays_of(case, "float32"), **stages})
        if found.exit_code == 1:
            first = found.findings[0]
            named_lines = {first.stage, *str(first.numbers.get("lines", "")).split(", ")}
            if mistake.id in AS_ANOTHER_LINE:
                named_lines = {AS_ANOTHER_LINE[mistake.id]} & named_lines and set(mistake.stages)
            assert named_lines & set(mistake.stages), (index, first, mistake.stages)
            seen += 1
        if seen == 2:
            break
    assert (seen > 0) != (mistake.id in UNSEEN)


# What is not there


def test_of_many_heads_those_are_judged_that_differ_most(tmp_path, monkeypatch):
    monkeypatch.setattr(dump_sample, "LARGEST", 600)  # two heads
    operands = attention_operands()
    mask = np.random.default_rng(4).random((2, 1, 5, 7)) < 0.7
    bias = np.random.default_rng(5).standard_normal((3, 5, 7)).astype(np.float32)
    stages = stages_of(operands, mask=mask, bias=bias)
    right = judged(tmp_path, OPS["attention"], operands | stages | {"mask": mask, "bias": bias})
    assert set(verdicts(right).values()) == {"right"}
    assert right.notes[0].startswith("2 of 6 heads are judged")
    stages["dV"] = stages["dV"].copy()
    stages["dV"][1, 1, 3, 2] += 1e-3
    found = judged(tmp_path, OPS["attention"], operands | stages | {"mask": mask, "bias": bias})
    assert [finding.tensor for finding in found.findings] == ["dV"]
    assert "(1, 1)" in found.notes[0]
    stages["dV"][0, 1, 0, 0] = np.nan
    found = judged(tmp_path, OPS["attention"], operands | stages | {"mask": mask, "bias": bias})
    assert "(0, 1), (1, 1)" in found.notes[0]


def test_without_operands_every_line_is_judged_from_those_that_are_there(tmp_path):
    operands = attention_operands()
    stages = attention_from("dS", operands)
    found = judged(tmp_path, OPS["attention"], stages | {"V": operands["V"]})
    assert verdicts(found)["A"] == "right"
    assert verdicts(found)["C"] == "right"
    assert verdicts(found)["dS"] == "wrong"
    assert {verdicts(found)[name] for name in ("Omega", "dA", "dQ", "dK", "dV")} == {"not judged"}
    missing = {row.name: row.why for row in found.rows}
    assert (missing["Omega"], missing["dV"]) == ("Q is missing", "dC is missing")


def test_a_forward_alone_is_judged(tmp_path):
    operands = attention_operands()
    found = judged(tmp_path, OPS["attention"], without(operands, "dC") | {"C": stages_of(operands)["C"]})
    assert verdicts(found) == {"C": "right"}
    for name in ("gpt", "rnn", "gpt_loss"):
        case = draw_case(OPS[name], 0, 0).rounded(PRECISIONS["float32"])
        answer = run(REFERENCE, OPS[name], case, "float32")
        outputs = {each: answer[each].value for each in OPS[name].outputs}
        arrays = {k: v for k, v in arrays_of(case, "float32").items() if k not in case.upstream}
        assert set(verdicts(judged(tmp_path, OPS[name], arrays | outputs)).values()) <= {"right", "ill"}


def test_nothing_to_judge_is_said(tmp_path):
    found = judged(tmp_path, OPS["attention"], attention_operands())
    assert found.exit_code == 2
    assert "nothing to judge" in found.notes[-1]


def test_what_a_system_does_not_write_down_is_taken_for_granted_and_told(tmp_path):
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal((3, 5)), rng.integers(0, 5, 3)
    loss, cache = reference_numpy.cross_entropy(logits, targets)
    dlogits = reference_numpy.cross_entropy_backward(1.0, cache)
    arrays = {"logits": logits, "targets": targets, "loss": loss, "dlogits": dlogits}
    found = judged(tmp_path, OPS["cross_entropy"], arrays)
    assert found.exit_code == 0
    assert "dloss is not in the dump: 1 is taken" in found.notes
    case = draw_case(OPS["rnn"], 0, 0).rounded(PRECISIONS["float32"])
    case.upstream["dh_last"][:] = 0.0
    answer = {name: each.value for name, each in run(REFERENCE, OPS["rnn"], case, "float32").items()}
    found = judged(tmp_path, OPS["rnn"], without({**arrays_of(case, "float32"), **answer}, "dh_last"))
    assert set(verdicts(found).values()) <= {"right", "ill"}
    assert "dh_last is not in the dump: 0 is taken" in found.notes


def test_options_may_be_said_beside_the_dump_and_may_not_contradict_it(tmp_path):
    operands = attention_operands()
    stages = stages_of(operands, causal=True)
    assert judged(tmp_path, OPS["attention"], operands | stages, options={"causal": True}).exit_code == 0
    assert judged(tmp_path, OPS["attention"], operands | stages).exit_code == 1
    refused(tmp_path, operands | {"causal": True}, "causal is False by what was said", options={"causal": False})
    refused(tmp_path, operands, "did you mean 'causal'?", options={"causl": True})


def test_a_number_a_row_may_lack_its_last_axis(tmp_path):
    operands = attention_operands()
    stages = stages_of(operands)
    found = judged(tmp_path, OPS["attention"], operands | stages | {"delta": stages["delta"][..., 0]})
    assert set(verdicts(found).values()) == {"right"}


@pytest.mark.parametrize("merged", [True, False])
def test_heads_may_have_their_axis_or_stand_side_by_side(merged, tmp_path):
    case = next(
        c for c in (draw_case(OPS["multi_head_attention"], 0, i) for i in range(50)) if c.options["num_heads"] > 1
    )
    case = case.rounded(PRECISIONS["float64"])
    X, Wq, Wk, Wv, _ = case.operands.values()
    heads = case.options["num_heads"]
    split = [np.stack(np.split(X @ W, heads, -1), -3) for W in (Wq, Wk, Wv)]
    options = {name: value for name, value in case.options.items() if name != "num_heads"}
    A = reference_numpy.attention_stages(*split, **options).A
    arrays = {**arrays_of(case, "float64"), "A": A, "Q": X @ Wq if merged else split[0]}
    assert verdicts(judged(tmp_path, OPS["multi_head_attention"], arrays)) == {"Q": "right", "A": "right"}
    refused(tmp_path, without(arrays, "num_heads"), "num_heads is not in the dump", op="multi_head_attention")


def test_masks_of_0_and_1_are_truth_values(tmp_path):
    operands = attention_operands()
    mask = np.random.default_rng(3).random((5, 7)) < 0.6
    arrays = operands | stages_of(operands, mask=mask)
    for dtype in (np.uint8, np.int64, np.float32):
        assert judged(tmp_path, OPS["attention"], arrays | {"mask": mask.astype(dtype)}).exit_code == 0
    refused(tmp_path, arrays | {"mask": np.where(mask, 0.0, -np.inf)}, "what is added to the scores is called bias")


def test_a_finer_dtype_than_went_in_is_told(tmp_path):
    operands = attention_operands()
    found = judged(tmp_path, OPS["attention"], operands | {"C": stages_of(operands)["C"].astype(np.float64)})
    assert found.exit_code == 0
    assert "C: float64, where float32 went in" in found.notes


def test_a_wrong_shape_is_told_and_the_rest_is_judged(tmp_path):
    operands = attention_operands()
    stages = stages_of(operands)
    found = judged(tmp_path, OPS["attention"], operands | stages | {"A": stages["A"].swapaxes(0, 1)})
    assert [finding.code for finding in found.findings] == ["wrong_shape"]
    assert verdicts(found) == {name: "wrong" if name == "A" else "right" for name in stages}


def test_the_diagnosis_is_asked_with_the_dump_as_an_observation(tmp_path):
    operands = attention_operands()
    stages = stages_of(operands)
    asked = []
    arrays = operands | {name: stages[name] for name in ("C", "dQ", "dK")} | {"dV": -stages["dV"], "causal": False}
    judged(tmp_path, OPS["attention"], arrays, explain=lambda op, seen: asked.append((op, seen)) or [])
    [(op, [observation])] = asked
    assert op.name == "attention"
    assert list(observation.case.operands) == ["Q", "K", "V"]
    assert observation.answer.keys() == observation.exact.keys() == {"C", "dQ", "dK", "dV"}
    assert "dV" in observation.wrong
    judged(tmp_path, OPS["attention"], operands | stages, explain=lambda op, seen: pytest.fail("nothing is wrong"))


# Files


def refused(folder: Path, arrays: dict[str, Any], said: str, op: str = "attention", **options: Any) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (what it says is looked at below)
        judged(folder, OPS[op], arrays, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_of_arrays_is_a_dump(tmp_path):
    operands = attention_operands()
    for name, value in (operands | {"C": stages_of(operands)["C"]}).items():
        np.save(tmp_path / f"{name}.npy", value)
    (tmp_path / "notes.txt").write_text("hello")
    found = check_dump(tmp_path, OPS["attention"])
    assert verdicts(found) == {"C": "right"}
    assert "notes.txt is no .npy file and is left out" in found.notes


def test_a_model_has_its_config_in_a_file_or_in_arrays(tmp_path):
    case = draw_case(OPS["gpt_loss"], 0, 1).rounded(PRECISIONS["float32"])
    answer = {name: each.value for name, each in run(REFERENCE, OPS["gpt_loss"], case, "float32").items()}
    arrays, config = {**arrays_of(case, "float32"), **answer}, vars(case.options["config"])
    for name, value in without(arrays, " ".join(config)).items():
        np.save(tmp_path / f"{name}.npy", value)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert set(verdicts(check_dump(tmp_path, OPS["gpt_loss"])).values()) <= {"right", "ill"}
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        check_dump(tmp_path, OPS["gpt_loss"])
    (tmp_path / "config.json").write_text(json.dumps(config | {"heads": 3}))
    with pytest.raises(ValueError, match="'heads' is no field of GPTConfig"):
        check_dump(tmp_path, OPS["gpt_loss"])
    refused(tmp_path, without(arrays, "vocab_size"), "vocab_size is not in the dump", op="gpt_loss")


def test_a_wrong_parameter_of_a_model_is_named_where_the_backward_meets_it_first(tmp_path):
    op = OPS["gpt"]
    case = next(c for c in (draw_case(op, 0, i) for i in range(20)) if c.options["config"].num_layers == 2)
    case = case.rounded(PRECISIONS["float32"])
    answer = {name: each.value for name, each in run(REFERENCE, op, case, "float32").items()}
    for name in answer:
        if name.startswith(("dblocks.0", "dblocks.1.attention", "dblocks.1.norm_1", "dtoken", "dposition")):
            answer[name] = answer[name] * np.float32(1.5)
    found = judged(tmp_path, op, {**arrays_of(case, "float32"), **answer})
    assert found.findings[0].tensor == "dblocks.1.attention.projection.weight"
    assert found.findings[0].stage == "dattention"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"K": np.zeros((2, 3, 7, 9), np.float32)}, "K has shape (2, 3, 7, 9)"),
        ({"dC": np.zeros((2, 3, 5, 5), np.float32)}, "dC has shape (2, 3, 5, 5)"),
        ({"Q": np.zeros((2, 3, 5, 8), np.int64)}, "Q has dtype int64, expected float64, float32"),
        ({"Q": np.zeros((2, 3, 5, 8), np.complex64)}, "Q has dtype complex64"),
        ({"mask": np.ones((5, 1), bool)}, "mask has shape (5, 1)"),
        ({"causal": np.ones(3, bool)}, "causal has shape (3,), expected a number"),
        ({"causal": 2}, "causal is 2, expected a truth value"),
        ({"query_offset": 0.5}, "query_offset is 0.5, expected an integer"),
        ({"p": 0.5}, "p is 0.5"),
        ({"keep": np.ones((5, 7), bool), "p": 0.5}, "keep has shape (5, 7)"),
        ({"Q": np.array(["a"])}, "expected numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_one_line(changes, said, tmp_path):
    refused(tmp_path, attention_operands() | {"C": np.zeros((2, 3, 5, 4), np.float32)} | changes, said)


def test_stages_that_do_not_fit_each_other_are_not_judged(tmp_path):
    found = judged(
        tmp_path, OPS["attention"], {"A": np.zeros((2, 3, 4)), "V": np.zeros((2, 5, 6)), "C": np.zeros((2, 3, 6))}
    )
    assert verdicts(found) == {"A": "not judged", "C": "not judged"}
    assert found.exit_code == 2


def test_an_empty_batch_is_right(tmp_path):
    operands = {name: value[:0] for name, value in attention_operands().items()}
    found = judged(tmp_path, OPS["attention"], operands | stages_of(operands))
    assert set(verdicts(found).values()) == {"right"}


def test_byte_order_and_order_in_memory_do_not_matter(tmp_path):
    operands = attention_operands()
    arrays = {name: np.asfortranarray(value.astype(">f4")) for name, value in (operands | stages_of(operands)).items()}
    assert set(verdicts(judged(tmp_path, OPS["attention"], arrays)).values()) == {"right"}


def test_an_unknown_name_is_left_out_and_told(tmp_path):
    operands = attention_operands()
    found = judged(tmp_path, OPS["attention"], operands | {"c": operands["Q"], "Omega2": operands["Q"]})
    assert any("Omega2 is nothing of attention and is left out, did you mean 'Omega'?" in note for note in found.notes)


def test_no_such_file_and_no_such_dtype_are_refused(tmp_path):
    np.savez(tmp_path / "run.npz", **attention_operands())
    with pytest.raises(ValueError, match=r"there is no file or folder .*rum\.npz, did you mean 'run\.npz'"):
        check_dump(tmp_path / "rum.npz", OPS["attention"])
    with pytest.raises(ValueError, match="--dtype: 'bfloat' came, did you mean 'bfloat16'"):
        check_dump(tmp_path / "run.npz", OPS["attention"], dtype="bfloat")


class Unpickled:
    """Would leave a mark if it were ever unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.mkdir, (self.mark,))


def test_objects_are_never_unpickled(tmp_path):
    mark = tmp_path / "executed"
    np.savez(tmp_path / "a.npz", allow_pickle=True, Q=np.array([Unpickled(mark)], object))
    with pytest.raises(ValueError, match=r"Q\.npy holds Python objects"):
        check_dump(tmp_path / "a.npz", OPS["attention"])
    assert not mark.exists()


def _archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _npy(value: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def test_damaged_archives_are_refused(tmp_path):
    path, whole = tmp_path / "a.npz", _archive({"Q.npy": _npy(np.ones((50, 50)))})
    spoilt = bytearray(whole)
    spoilt[60:80] = bytes(20)
    lying = _archive({"Q.npy": _npy(np.ones((3, 3)))[:-8]})
    for data in (b"", b"no archive", whole[:-30], whole[: len(whole) // 2], bytes(spoilt), lying, _npy(np.ones(3))):
        path.write_bytes(data)
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (each has a line of its own)
            check_dump(path, OPS["attention"])
        assert "\n" not in str(caught.value)


def test_a_member_that_is_no_array_is_left_out(tmp_path):
    operands = attention_operands()
    members = {f"{name}.npy": _npy(value) for name, value in (operands | stages_of(operands)).items()}
    (tmp_path / "a.npz").write_bytes(_archive(members | {"readme.txt": b"hello", "../Q2.npy": _npy(np.ones(2))}))
    found = check_dump(tmp_path / "a.npz", OPS["attention"])
    assert found.exit_code == 0
    assert len(found.notes) == 2


# What people read


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [60, 120])
def test_a_report_is_readable_in_both_languages(language, width, tmp_path):
    operands = attention_operands()
    found = judged(tmp_path, OPS["attention"], operands | attention_from("A", operands))
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    report(found, console, language)
    said = console.file.getvalue()
    assert all(len(line) <= width for line in said.splitlines())
    assert {"en": "A is wrong given masked", "es": "A está mal dado masked"}[language] in " ".join(said.split())


def test_a_report_is_json(tmp_path):
    operands = attention_operands()
    stages = attention_from("A", operands)
    stages["dQ"][:] = np.nan
    found = judged(tmp_path, OPS["attention"], operands | stages)
    read = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert [row["verdict"] for row in read["rows"]][:4] == ["right", "right", "right", "wrong"]


def test_arrays_at_hand_are_diagnosed():
    rng = np.random.default_rng(0)
    Q, K, V, dC = (rng.standard_normal((3, size)) for size in (2, 2, 4, 4))
    stages = reference_numpy.attention_stages(Q, K, V, dC, causal=True)
    right = {"Q": Q, "K": K, "V": V, "dC": dC, "A": stages.A, "dV": stages.dV}
    assert equivalence_tests.diagnose(right, "attention", causal=True).exit_code == 0
    wrong = equivalence_tests.diagnose(right | {"dV": stages.A @ dC}, "attention", causal=True)
    assert [row.name for row in wrong.rows if row.verdict == "wrong"] == ["dV"]
    with pytest.raises(ValueError, match="did you mean 'attention'"):
        equivalence_tests.diagnose(right, "atention")
