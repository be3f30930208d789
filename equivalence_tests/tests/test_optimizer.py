"""AdamW against torch and its equations, clipping, and the learning rate: laws, known mistakes, and the edges."""

import copy
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_numpy
from equivalence_tests.arithmetic import ORACLE, PRECISIONS
from equivalence_tests.checks import attempt
from equivalence_tests.mistakes import clipping as clipping_mistakes
from equivalence_tests.mistakes import optimizer as adamw_mistakes
from equivalence_tests.mistakes import quiet
from equivalence_tests.mistakes import schedule as schedule_mistakes
from equivalence_tests.parts import clipping, optimizer, schedule
from equivalence_tests.parts.adamw_budget import SETTINGS, SHAPES, STEPS, training, truth
from equivalence_tests.parts.optimizer import followed
from reference_numpy import fast
from reference_numpy.optimizer import adamw_step, clip_gradients, learning_rate

PARTS = optimizer.PARTS | clipping.PARTS | schedule.PARTS
MISTAKES = adamw_mistakes.MISTAKES + clipping_mistakes.MISTAKES + schedule_mistakes.MISTAKES
LAWS = [(part, law) for part, laws in PARTS.items() for law in laws]
VALUES = [(part, law) for part, law in LAWS if "refuses" not in law.__name__ and part != "learning_rate"]

LISTED = "M113 M114 M116 M117 M119 M120 M122 M123 M126 M128 M129 M131 M132"
LISTED += " ADW-01 ADW-03 ADW-04 ADW-05 ADW-06 ADW-08 CLP-01"


def torch_adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    """One step of torch.optim.AdamW, made anew each time from our state and read back into it."""
    import torch

    tensors = {name: torch.nn.Parameter(torch.from_numpy(np.array(p))) for name, p in params.items()}
    adamw = torch.optim.AdamW(list(tensors.values()), lr, betas, epsilon, weight_decay)
    for name, tensor in tensors.items():
        tensor.grad = torch.from_numpy(np.array(grads[name]))
        if state:
            adamw.state[tensor] = {moment: torch.from_numpy(state[moment][name]) for moment in optimizer.MOMENTS}
            adamw.state[tensor]["step"] = torch.tensor(float(state["step"]))
    adamw.step()
    first = not state
    state["step"] = state.get("step", 0) + 1
    for moment in optimizer.MOMENTS if first else ():
        state[moment] = {name: adamw.state[tensor][moment].numpy() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        params[name][...] = tensor.detach().numpy()


def torch_clip_gradients(grads, max_norm):
    """clip_grad_norm_ on copies; one array under two names is one parameter, as torch would have it."""
    import torch

    tensors = {id(g): torch.nn.Parameter(torch.zeros(())) for g in grads.values()}
    for g in grads.values():
        tensors[id(g)] = torch.nn.Parameter(torch.from_numpy(np.zeros_like(g)))
        tensors[id(g)].grad = torch.from_numpy(np.array(g))
    norm = torch.nn.utils.clip_grad_norm_(list(tensors.values()), max_norm)
    arrays = {key: tensor.grad.numpy() for key, tensor in tensors.items()}
    return {name: arrays[id(g)] for name, g in grads.items()}, float(norm)


TORCH: dict[str, Any] = {"adamw_step": torch_adamw_step, "clip_gradients": torch_clip_gradients}
# torch sums the squares as they are, in the gradients' own format.
TORCH_OVERFLOWS = ("clips_by_one_norm_over_all", "leaves_small_gradients_as_they_are", "never_overflows")


@pytest.mark.parametrize("twin", [reference_numpy, fast], ids=["reference", "fast"])
@pytest.mark.parametrize(("part", "law"), LAWS, ids=[law.__name__ for _, law in LAWS])
def test_the_law_holds(part, law, twin):
    assert law(getattr(twin, part)) == ""


@pytest.mark.parametrize(("part", "law"), VALUES, ids=[law.__name__ for _, law in VALUES])
def test_the_law_holds_for_torch(part, law):
    with quiet():
        wrong = law(TORCH[part])
    if law.__name__ in TORCH_OVERFLOWS:
        assert "e-30" in wrong or "e-324" in wrong or "1e+38" in wrong
    else:
        assert wrong == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.id for mistake in MISTAKES])
def test_every_mistake_is_caught(mistake):
    laws = [law for law in PARTS[mistake.op] if mistake.accepts or "refuses" not in law.__name__]
    with quiet():
        assert any(attempt(partial(law, mistake.forward)) for law in laws), mistake.sentence


def test_every_listed_mistake_is_coded_once():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("settings", SETTINGS, ids=["defaults", "other", "no memory"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_adamw_is_torchs_over_100_steps_within_the_measured_budget(dtype, settings):
    """One torch.optim.AdamW all the way; both use some of a budget that is small beside the tensor."""
    import torch

    start, grads, rates = training(dtype)
    tensors = {name: torch.nn.Parameter(torch.from_numpy(p.copy())) for name, p in start.items()}
    names = {"betas": settings.betas, "eps": settings.epsilon, "weight_decay": settings.weight_decay}
    adamw = torch.optim.AdamW(list(tensors.values()), **names)
    ours = {(t, name): p.copy() for t, name, kind, p in followed(adamw_step, dtype, settings) if kind == "p"}
    right, used = truth(dtype, settings), {"ours": 0.0, "torch": 0.0}
    for t in range(STEPS):
        adamw.param_groups[0]["lr"] = rates[t]
        for name, tensor in tensors.items():
            tensor.grad = torch.from_numpy(grads[t][name].copy())
        adamw.step()
        for name, tensor in tensors.items():
            exact, budget = (moments.p[..., t] for moments in right[name])
            assert (budget <= math.sqrt(PRECISIONS[dtype].unit) * np.abs(exact).max(initial=0.0)).all()
            for who, p in (("ours", ours[t, name]), ("torch", tensor.detach().numpy())):
                share = np.abs(p.astype(ORACLE) - exact) / budget
                used[who] = max(used[who], float(share.max(initial=0.0)))
    assert all(0.01 < share <= 1.0 for share in used.values()), used


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [1e-3, 0.3, 30.0, 1e15])
def test_clipping_is_torchs(dtype, size):
    """Both sum the same squares, up to as many roundings as there are terms."""
    grads = clipping._gradients(dtype, size)
    ours, norm = clip_gradients(grads, 1.0)
    theirs, their_norm = torch_clip_gradients(grads, 1.0)
    share = 2 * (sum(g.size for g in grads.values()) + 8) * PRECISIONS[dtype].unit
    assert abs(norm - their_norm) <= share * norm
    for name, g in ours.items():
        assert (np.abs(g - theirs[name]) <= share * np.abs(g)).all()
        assert g.dtype == theirs[name].dtype


def test_the_norm_of_float32_gradients_is_summed_in_float64():
    grads = clipping._gradients("float32", 1.0)
    exact = clipping._exact_norm(grads)
    assert abs(clip_gradients(grads, 1.0)[1] - exact) <= (sum(g.size for g in grads.values()) + 8) * 2.0**-53 * exact


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("betas", [(0.9, 0.99), (0.0, 0.0), (0.999999, 0.9999999), (0.9, 1 - 2.0**-24)])
def test_the_largest_gradients_that_are_taken_never_overflow(dtype, betas):
    most = np.asarray(math.sqrt(np.finfo(dtype).max) / 2.0, dtype)
    params, state = {"p": np.ones(2, dtype)}, {}
    for t in range(1500):  # 0.99^1500 is 3e-7: v has come to rest, where beta2 and 1 - beta2 round apart
        adamw_step(params, {"p": np.array([most, -most if t % 2 else most])}, state, betas=betas)
    assert all(np.isfinite(array).all() for array in (params["p"], state["exp_avg"]["p"], state["exp_avg_sq"]["p"]))
    with pytest.raises(ValueError, match=r"grads\['p'\]"):
        adamw_step(params, {"p": np.array([most, most * 1.5])}, state)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_0_and_the_smallest_ones_divide_nothing_by_0(dtype):
    smallest = float(np.finfo(dtype).smallest_subnormal)
    params, state = {"p": np.ones(3, dtype)}, {}
    for epsilon in (1e-8, float(np.finfo(dtype).tiny)):
        with np.errstate(all="raise", under="ignore"):
            adamw_step(params, {"p": np.array([0.0, smallest, -smallest], dtype)}, state, epsilon=epsilon)
    assert np.isfinite(params["p"]).all()


def test_numpy_scalars_as_settings_leave_float32_as_it_is():
    start, grads, _ = training("float32")
    plain, scalars = copy.deepcopy(start), copy.deepcopy(start)
    adamw_step(plain, grads[0], {}, 0.5, (0.5, 0.25), 0.125, 0.0625)
    adamw_step(scalars, grads[0], {}, *(np.float64(0.5), np.array([0.5, 0.25]), np.float64(0.125), np.float64(0.0625)))
    for name in SHAPES:
        np.testing.assert_array_equal(plain[name], scalars[name], strict=True)
    assert clip_gradients(grads[0], np.float64(1.0))[0]["kernel"].dtype == np.float32


def test_views_of_one_array_that_do_not_overlap_are_parameters_of_their_own():
    whole = np.ones((2, 6))
    params = {"query": whole[:, :2], "key": whole[:, 2:4], "value": whole[:, 4:]}
    adamw_step(params, {name: np.ones((2, 2)) for name in params}, {}, lr=0.1, weight_decay=0.0)
    assert (np.abs(whole - 0.9) <= 1e-8).all()  # epsilon: 0.1 / (1 + 1e-8)


def test_one_gradient_may_serve_two_parameters():
    g = np.full(2, 0.5)
    params = {"bias_ih": np.ones(2), "bias_hh": np.ones(2)}
    adamw_step(params, {"bias_ih": g, "bias_hh": g}, {})
    np.testing.assert_array_equal(params["bias_ih"], params["bias_hh"])


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(st.lists(finite, max_size=4), max_size=3), st.floats(1e-300, 1e300))
def test_any_finite_gradients_are_clipped_or_refused_by_name(rows, max_norm):
    grads = {str(i): np.array(row, np.float64) for i, row in enumerate(rows)}
    exact = math.hypot(*(x for row in rows for x in row))  # correctly rounded to 1 unit, and scaled as well
    if not math.isfinite(exact):
        with pytest.raises(ValueError, match="grads"):
            clip_gradients(grads, max_norm)
        return
    clipped, norm = clip_gradients(grads, max_norm)
    u, terms = 2.0**-53, sum(map(len, rows))
    assert abs(norm - exact) <= (terms + 8) * u * exact
    reached = math.hypot(*(x for g in clipped.values() for x in g.tolist()))
    subnormal = (terms + exact) * 5e-324  # what comes out, and the factor, may be rounded to a subnormal
    assert reached <= min(max_norm, exact) * (1 + (terms + 12) * u) + subnormal


@given(st.integers(0, 60), st.integers(0, 30), st.integers(1, 60), st.floats(0.0, 1e300), st.floats(0.0, 1.0))
def test_the_rate_stays_between_0_and_peak_and_after_the_warm_up_above_floor(step, warmup, more, peak, part):
    floor = peak * part
    rate = learning_rate(step, peak=peak, warmup_steps=warmup, total_steps=warmup + more, floor=floor)
    slack = 4 * 2.0**-53 * peak  # two products and a sum, each rounded
    assert (0.0 if step < warmup else floor - slack) <= rate <= peak + slack
    assert math.isfinite(rate)


def test_a_huge_plan_is_no_obstacle():
    assert learning_rate(10**18 - 1, peak=1.0, total_steps=10**18, warmup_steps=10**9) == 0.0
    assert learning_rate(10**30, peak=1.0, total_steps=7, floor=0.5) == 0.5


def test_no_gradients_have_the_norm_0():
    assert clip_gradients({}, 1.0) == ({}, 0.0)
    clipped, norm = clip_gradients({"none": np.zeros((0, 3), np.float32)}, 1.0)
    assert norm == 0.0
    assert clipped["none"].shape == (0, 3)
