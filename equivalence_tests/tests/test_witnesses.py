"""Independent witnesses: complex steps, the adjoint identity, many-digit arithmetic, torch's own compositions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from equivalence_tests import many_digits, many_digits_models
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case, is_floating
from equivalence_tests.checks import draw_case
from equivalence_tests.implementations import Implementation, load
from equivalence_tests.ops import OPS
from equivalence_tests.proof import MOST_STEPS, differentiable_elements
from equivalence_tests.tests.draws import HypothesisDraws
from equivalence_tests.tests.test_table import by_place
from equivalence_tests.witnesses import adjoint_gap, complex_step, hear_witnesses
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import rnn_shapes
from reference_numpy.gpt import gpt_keep_shapes, gpt_shapes

DIFFERENTIABLE = {name: op for name, op in OPS.items() if op.differentiable}
DOUBLE = PRECISIONS["float64"]
REFERENCE = load("reference_numpy")


SMALL = [pytest.param(op, id=name) for name, op in DIFFERENTIABLE.items() if not op.model]
MODELS = [pytest.param(op, id=name) for name, op in DIFFERENTIABLE.items() if op.model]


def assert_witnesses(op, case):
    said = hear_witnesses(REFERENCE, op, case, op.exact(case, DOUBLE), 0)
    assert {name: each.wrong for name, each in said.items() if each.wrong} == {}


@pytest.mark.parametrize("op", SMALL)
@settings(max_examples=8)
@given(data=st.data(), hard=st.booleans())
def test_complex_steps_and_the_adjoint_identity_hold_within_the_budget(op, data, hard):
    assert_witnesses(op, op.draw(HypothesisDraws(data.draw), hard).rounded(DOUBLE))


@pytest.mark.parametrize("index", range(2))
@pytest.mark.parametrize("op", MODELS)
def test_complex_steps_and_the_adjoint_identity_hold_for_the_models(op, index):
    """A step for every element of every parameter, so the smallest cases, one of them hard."""
    cases = (draw_case(op, 20, i).rounded(DOUBLE) for i in range(index, 200, 2))
    assert_witnesses(op, next(case for case in cases if differentiable_elements(op, case) <= MOST_STEPS // 2))


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_most_tensors_of_the_well_conditioned_strategy_are_judged_to_1e_13(op):
    """`hear_witnesses` holds a tensor to 1e-13 where its budget allows that; this must not be an empty promise."""
    tensors, close = 0, 0
    for index in range(0, -(-60 // op.every), 2):
        case = draw_case(op, 2, index).rounded(DOUBLE)
        exact = op.exact(case, DOUBLE)
        for name in op.gradient_names(case):
            truth = exact[f"d{name}"]
            scale = float(np.abs(truth.value).max())
            tensors += 1
            close += bool((truth.budget() <= 1e-13 * scale).all()) or scale == 0.0
    assert close >= 2 * tensors / 3


@pytest.mark.parametrize("op", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_the_adjoint_identity_sees_a_gradient_that_is_wrong_in_one_place(op):
    """One element off by a thousandth: <J^T u, v> moves by that times v, far more than the budget."""
    import types

    def backward(dY, cache):
        gradients = REFERENCE.backward(op.name)(dY, cache)
        wrong = list(by_place(gradients).values())[-1]
        wrong.flat[int(np.abs(wrong).argmax())] *= 1.001  # the gradients are nobody else's
        return gradients

    module = types.SimpleNamespace(**{op.name: REFERENCE.forward(op.name), f"{op.name}_backward": backward})
    broken = Implementation("wrong", module, True, ("float64",))
    case = next(c for c in (draw_case(op, 4, i).rounded(DOUBLE) for i in range(0, 40, 2)) if alive(op, c))
    gap, allowed, _ = adjoint_gap(broken, op, case, op.exact(case, DOUBLE), np.random.default_rng(0))
    assert gap > allowed


def alive(op, case):
    """The last gradient is not 0 (dropout with p = 1 has nothing to get wrong)."""
    exact = op.exact(case, DOUBLE)
    return float(np.abs(exact[f"d{op.gradient_names(case)[-1]}"].value).max()) > 1e-3


def test_complex_steps_do_not_depend_on_the_backward():
    """The same numbers come out with a module that has no right backward at all."""
    import types

    op = OPS["layer_norm"]
    case = draw_case(op, 0, 0).rounded(DOUBLE)
    module = types.SimpleNamespace(layer_norm=REFERENCE.forward("layer_norm"), layer_norm_backward=None)
    alone = complex_step(Implementation("forward alone", module, True, ("float64",)), op, case)
    both = complex_step(REFERENCE, op, case)
    assert all(np.array_equal(alone[name][0], both[name][0]) for name in both)


def small(op, index):
    """A case with few elements, since loops over many-digit numbers are slow; for relu none at the kink."""
    for attempt in range(500):
        case = draw_case(op, 100 + index, 2 * attempt + index % 2).rounded(DOUBLE)
        at_kink = op.name == "relu" and bool((case.operands["X"] == 0.0).any())
        if sum(v.size for v in case.operands.values()) <= 16 and not at_kink:
            return case
    raise AssertionError("no small case in 500")


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("op", SMALL)
def test_many_digits_confirm_every_exact_value_to_extended_precision(op, index):
    """What the table calls exact is: to the extended precision's own share of the budget, against 450 digits."""
    assert_many_digits(op, small(op, index))


def small_model(op, tied):
    """Two tokens, one block of two heads of width 1, and with a tied head some dropout and an ignored target."""
    rng = np.random.default_rng(tied)
    if op.name.startswith("gpt"):
        sizes = {"context_window": 3, "num_layers": 1, "num_heads": 2, "head_dim": 1, "ff_factor": 1}
        config = GPTConfig(vocab_size=2, embedding_dim=3, dropout=0.3, tied_head=tied, **sizes)
        shapes = gpt_shapes(config)
    else:
        config = RNNConfig(vocab_size=2, embedding_dim=3)
        shapes = rnn_shapes(config)
    operands = {name: rng.standard_normal(shape) for name, shape in shapes.items()} | {"ids": np.array([1, 0])}
    options = {"config": config}
    if tied and op.name.startswith("gpt"):
        options["keep"] = {name: rng.random(s) < 0.7 for name, s in gpt_keep_shapes(config, (2,)).items()}
    if op.scalar:
        operands["targets"] = np.array([1, 0])
        options |= {"ignore_index": 1} if tied else {}
        return Case(operands, options, {"dloss": np.array(-1.7)})
    return Case(operands, options, {"dlogits": rng.standard_normal((2, 2))})


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("op", MODELS)
def test_many_digits_confirm_every_exact_value_of_a_model(op, tied):
    assert op.name in many_digits_models.__dict__
    assert_many_digits(op, small_model(op, tied))


def assert_many_digits(op, case):
    exact = op.exact(case, DOUBLE)
    operands = dict(case.operands)
    options = dict(case.options)
    outputs = many_digits.forward(op.name, operands, options)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    answers = dict(zip(op.outputs, outputs, strict=True))
    upstream = tuple(case.upstream.values())
    for name in op.gradient_names(case):
        dY = upstream if len(upstream) > 1 else upstream[0]
        answers[f"d{name}"] = many_digits.gradient(op.name, operands, options, dY, name)
    share = 2.0 * float(np.finfo(np.longdouble).eps) / np.finfo(np.float64).eps  # of the float64 budget
    for name, digits in answers.items():
        truth = exact[name]
        error = np.abs(many_digits.to_longdouble(digits) - truth.value).astype(np.float64)
        # The measured budget has a smaller constant than the bound: its oracle errs by the same recurrence.
        assert (error <= share * truth.budget() + np.finfo(np.float64).tiny).all(), name


def test_many_digits_know_pi():
    """The witness works with more digits than it is asked for."""
    X = np.array([[1.0, 2.0]])
    A = many_digits.forward("softmax", {"X": X}, {})
    with mp.workdps(60):
        assert abs(A[0, 0] - 1 / (1 + mp.e)) < mp.mpf(10) ** -55


# --- torch's own compositions ---------------------------------------------------------------------------------------


def agrees(got, exact, name):
    """Torch's composition in float64 within the budget of the same formula."""
    error = np.abs(got.detach().numpy().astype(np.longdouble) - exact[name].value).astype(np.float64)
    assert (error <= exact[name].budget()).all(), name


@pytest.mark.parametrize("index", range(8))
def test_multi_head_attention_is_torchs_own_module(index):
    import torch

    op = OPS["multi_head_attention"]
    rng = np.random.default_rng(index)
    B, n, H, c = 2, 5, 3, 4
    d = H * c
    X, dY = rng.standard_normal((2, B, n, d))
    Wq, Wk, Wv, Wo = rng.standard_normal((4, d, d)) / math.sqrt(d)
    mask = rng.random((n, n)) < 0.7
    mask |= np.eye(n, dtype=bool)
    operands = {"X": X, "Wq": Wq, "Wk": Wk, "Wv": Wv, "Wo": Wo}
    exact = op.exact(Case(operands, {"num_heads": H, "mask": mask}, {"dY": dY}), DOUBLE)
    module = torch.nn.MultiheadAttention(d, H, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.from_numpy(np.concatenate([Wq.T, Wk.T, Wv.T])))
        module.out_proj.weight.copy_(torch.from_numpy(Wo.T))
    x = torch.from_numpy(X).requires_grad_()
    Y, _ = module(x, x, x, attn_mask=torch.from_numpy(~mask), need_weights=False)
    Y.backward(torch.from_numpy(dY))
    agrees(Y, exact, "Y")
    agrees(x.grad, exact, "dX")
    agrees(module.out_proj.weight.grad.T, exact, "dWo")
    for name, rows in zip(("dWq", "dWk", "dWv"), module.in_proj_weight.grad.chunk(3), strict=True):
        agrees(rows.T, exact, name)


@pytest.mark.parametrize("index", range(8))
def test_the_rnn_is_torchs_own_module(index):
    import torch

    op = OPS["rnn"]
    case = next(
        c for c in (draw_case(op, index, i) for i in range(100)) if c.operands["X"].ndim == 3 and "h0" in c.operands
    )
    case = case.rounded(DOUBLE)
    exact = op.exact(case, DOUBLE)
    X, W_ih, W_hh, b_ih, b_hh, h0 = (torch.from_numpy(v).requires_grad_() for v in case.operands.values())
    module = torch.nn.RNN(X.shape[-1], W_ih.shape[0], batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), (W_ih, W_hh, b_ih, b_hh), strict=True):
            parameter.copy_(value)
    H, last = module(X, h0[None])
    torch.autograd.backward((H, last[0]), tuple(torch.from_numpy(v) for v in case.upstream.values()))
    agrees(H, exact, "H")
    agrees(last[0], exact, "h_last")
    agrees(X.grad, exact, "dX")
    agrees(h0.grad, exact, "dh0")
    for name, parameter in zip(("dW_ih", "dW_hh", "db_ih", "db_hh"), module.parameters(), strict=True):
        agrees(parameter.grad, exact, name)


def test_the_norm_and_the_attention_of_torchs_encoder_layer():
    """norm_first: x + attention(norm(x)), the feed-forward switched off by a zero weight; forward and dX."""
    import torch

    rng = np.random.default_rng(0)
    n, H, c = 5, 2, 3
    d = H * c
    layer = torch.nn.TransformerEncoderLayer(
        d, H, dim_feedforward=7, dropout=0.0, bias=True, batch_first=True, norm_first=True, dtype=torch.float64
    )
    values = {name: rng.standard_normal(tuple(p.shape)) for name, p in layer.named_parameters()}
    for name in values:
        if ("bias" in name and "norm" not in name) or name.startswith("linear2"):
            values[name] = np.zeros_like(values[name])
    layer.load_state_dict({name: torch.from_numpy(v) for name, v in values.items()})
    X, dY = rng.standard_normal((2, 1, n, d))
    x = torch.from_numpy(X).requires_grad_()
    Y = layer(x)
    Y.backward(torch.from_numpy(dY))

    from reference_numpy import layer_norm, layer_norm_backward, multi_head_attention, multi_head_attention_backward

    N, norm_cache = layer_norm(X, values["norm1.weight"], values["norm1.bias"])
    Wq, Wk, Wv = (np.ascontiguousarray(w.T) for w in np.split(values["self_attn.in_proj_weight"], 3))
    C, cache = multi_head_attention(N, Wq, Wk, Wv, np.ascontiguousarray(values["self_attn.out_proj.weight"].T), H)
    dN = multi_head_attention_backward(dY, cache)[0]
    dX = dY + layer_norm_backward(dN, norm_cache)[0]
    # 200 roundoffs of the scale: two compositions of about 40 lines, sums of length 6; measured, 9.
    allowed = 200 * 2.0**-53
    assert np.abs(X + C - Y.detach().numpy()).max() <= allowed * np.abs(Y.detach().numpy()).max()
    assert np.abs(dX - x.grad.numpy()).max() <= allowed * np.abs(dX).max()


def test_every_floating_operand_is_rounded_before_it_is_judged():
    for op in OPS.values():
        case = draw_case(op, 0, 1).rounded(PRECISIONS["bfloat16"])
        for value in (*case.operands.values(), *case.upstream.values(), *case.options.values()):
            if is_floating(value):
                mantissa, _ = np.frexp(np.where(np.isfinite(value), value, 0.0))
                assert np.array_equal(np.round(mantissa * 256), mantissa * 256)
