"""The league: every policy is the rule that it says it is, and can both accept and reject."""

import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

import reference_numpy
from equivalence_tests.cases import Case
from equivalence_tests.implementations import Implementation, prepared
from equivalence_tests.league import comparing, descent, differences, standings
from equivalence_tests.league.__main__ import main
from equivalence_tests.league.calls import REFERENCE, expected
from equivalence_tests.league.configurations import RICH, USUAL, Configuration, rich, usual
from equivalence_tests.league.picture import league_picture
from equivalence_tests.league.policies import policies
from equivalence_tests.league.report import as_json, report
from equivalence_tests.league.standings import Standing, Tally, rejects, unchecked
from equivalence_tests.mistakes import MISTAKES, quiet
from equivalence_tests.ops import OPS
from equivalence_tests.variants import VARIANTS

POLICIES = {policy.name: policy for policy in policies()}
NOT_MODELS = [op for op in RICH if not OPS[op].model]
LOOKS_AT_OUTPUTS = "fixed 1e-2, outputs only"


def pair(op, forward=None, backward=None):
    """The reference with one of its two functions replaced."""
    functions = {
        op: forward or getattr(reference_numpy, op),
        f"{op}_backward": backward or getattr(reference_numpy, f"{op}_backward"),
    }
    return Implementation(op, type("Pair", (), {k: staticmethod(f) for k, f in functions.items()}), True, ("float64",))


def tanh_case(X, dY):
    case = Case({"X": np.array(X)}, {}, {"dY": np.array(dY)})
    return Configuration("usual", OPS["tanh"], case)


# The configurations


def test_every_op_with_a_backward_has_both_configurations():
    assert list(RICH) == list(USUAL) == [op for op in OPS if op != "attention_stages"]


@pytest.mark.parametrize("op", RICH)
def test_the_usual_case_is_what_people_test(op):
    case = usual(op).case
    assert not set(case.options) - {"keep", "p", "config", "num_heads"}
    assert ("keep" in case.options) == (op == "dropout")
    assert all(bool((value == 1).all()) for name, value in case.operands.items() if name.endswith("scale"))
    assert all(bool((value == 0).all()) for name, value in case.operands.items() if name.endswith("shift"))
    if "ids" in case.operands:
        assert len(np.unique(case.operands["ids"])) == case.operands["ids"].size
    assert all(bool((value == 1).all()) for value in usual(op, ones=True).case.upstream.values())


@pytest.mark.parametrize("op", RICH)
def test_the_rich_case_hides_nothing(op):
    """As the comment beside RICH promises; every gradient says something."""
    case = rich(op).case
    assert "broadcast" not in case.layouts.values()
    assert set(case.layouts.values()) != {"contiguous"}
    arrays = [*case.operands.values(), *case.upstream.values()]
    assert all(size > 1 for array in arrays for size in array.shape)
    assert not case.hard
    if "ids" in case.operands:
        embedding = next(value for name, value in case.operands.items() if name.endswith("weight"))
        assert len(np.unique(case.operands["ids"])) < case.operands["ids"].size
        assert op.startswith("gpt") or len(np.unique(case.operands["ids"])) < len(embedding)
    if "attention" in op and op != "simple_attention":
        assert {"mask", "bias", "causal", "query_offset", "scale", "keep", "p"} <= case.options.keys()
        n, m = case.options["keep"].shape[-2:]
        visible = np.arange(m) <= np.arange(n)[:, None] + case.options["query_offset"]
        for mask in (visible, case.options["mask"], case.options["keep"]):
            assert mask.any()
            assert not mask.all()
    assert 0.0 < case.options.get("p", 0.5) < 1.0
    for gradient in expected(rich(op), "float64").values():
        assert float((gradient != 0).mean()) > 0.1


# Every policy accepts what is right and rejects what is grossly wrong


@pytest.mark.parametrize("name", POLICIES)
def test_the_reference_is_accepted(name):
    """By gradcheck on models only with the few numbers of the usual configuration: a large Jacobian takes seconds."""
    policy = POLICIES[name]
    with quiet():
        for op in RICH:
            configurations = [usual(op, policy.sums), rich(op)]
            if policy.judge is differences.gradcheck and OPS[op].model:
                configurations = []
            assert [rejects(policy, REFERENCE, each) for each in configurations] == [""] * len(configurations), op


@pytest.mark.parametrize("name", [each for each in POLICIES if each != LOOKS_AT_OUTPUTS])
@pytest.mark.parametrize("op", NOT_MODELS)
def test_a_negated_gradient_is_rejected(name, op):
    right = getattr(reference_numpy, f"{op}_backward")

    def negated(dY, cache):
        gradients = right(dY, cache)
        return tuple(-each for each in gradients) if isinstance(gradients, tuple) else -gradients

    with quiet():
        for configuration in (usual(op), rich(op)):
            assert rejects(POLICIES[name], pair(op, backward=negated), configuration)


def test_who_looks_at_outputs_alone_sees_no_gradient_and_every_output():
    policy = POLICIES[LOOKS_AT_OUTPUTS]

    def wrong(X):
        Y, cache = reference_numpy.tanh(X)
        return Y + 0.1, cache

    assert rejects(policy, pair("tanh", forward=wrong), usual("tanh"))
    assert not rejects(policy, pair("tanh", backward=lambda dY, cache: np.full_like(dY, np.nan)), usual("tanh"))


@pytest.mark.parametrize("name", POLICIES)
def test_what_raises_is_rejected(name):
    def raises(X):
        raise RuntimeError("no")

    assert "RuntimeError" in rejects(POLICIES[name], pair("tanh", forward=raises), usual("tanh"))


def test_a_sum_loss_accepts_a_softmax_gradient_of_zeros_and_a_random_upstream_does_not():
    zeros = pair("softmax", backward=lambda dA, cache: np.zeros_like(dA))
    assert comparing.by_allclose(zeros, usual("softmax", ones=True), "float64") == ""
    assert comparing.by_allclose(zeros, usual("softmax", ones=False), "float64")


# Each rule on numbers worked out by hand


def test_allclose_is_relative_to_the_reference():
    configuration = tanh_case([0.5], [1.0])
    slope = 1.0 - math.tanh(0.5) ** 2
    for excess, wrong in ((0.99, False), (1.01, True)):
        off = slope + excess * (1e-8 + 1e-5 * slope)
        answer = comparing.by_allclose(
            pair("tanh", backward=lambda *_, off=off: np.array([off])), configuration, "float64"
        )
        assert bool(answer) == wrong


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [1.0, 1e-3, 0.0, 300.0])
def test_assert_close_is_torch_s(dtype, value):
    rtol, atol = comparing.ASSERT_CLOSE[dtype]
    for excess in (0.0, 0.9, 1.1, 3.0):
        got = np.array([value + excess * (atol + rtol * abs(value)), 1.0]).astype(dtype)
        want = np.array([value, 1.0]).astype(dtype)
        try:
            torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(want))
            accepted = True
        except AssertionError:
            accepted = False
        assert comparing.assert_close(got, want) == accepted


def test_assert_close_wants_equal_dtypes_and_shapes_and_no_nan():
    one = np.ones((2, 1))
    assert not comparing.assert_close(one.astype(np.float32), one)
    assert not comparing.assert_close(one, np.ones((2, 2)))
    assert not comparing.assert_close(np.full(1, np.nan), np.full(1, np.nan))


def test_a_hundredth_is_absolute_for_small_numbers():
    configuration = tanh_case([4.0], [1.0])  # the slope is 0.0013
    zero = pair("tanh", backward=lambda dY, cache: np.zeros_like(dY))
    assert comparing.by_a_hundredth(zero, configuration, "float32") == ""
    assert comparing.by_a_hundredth(zero, tanh_case([0.0], [1.0]), "float32")


def test_the_cosine_of_a_scaled_array_is_1():
    assert comparing.cosine(np.array([3.0, 4.0]), np.array([4.0, 3.0])) == pytest.approx(24.0 / 25.0, rel=1e-15)
    assert comparing.cosine(np.array([[3.0], [4.0]]), np.array([30.0, 40.0])) == pytest.approx(1.0, rel=1e-15)
    assert comparing.cosine(np.zeros(2), np.ones(2)) == 0.0
    doubled = pair("tanh", backward=lambda dY, cache: 2.0 * reference_numpy.tanh_backward(dY, cache))
    assert comparing.by_cosine(doubled, usual("tanh"), "float32") == ""


@pytest.mark.parametrize(("factor", "wrong"), [(0.0, False), (1.99, False), (2.01, True), (math.nan, True)])
def test_twice_the_error_is_the_largest_error_of_the_low_precision(factor, wrong):
    configuration = tanh_case([0.1, 0.7, -1.3], [0.3, 1.1, -0.9])
    truth, low = (expected(configuration, dtype, "float32")["dX"] for dtype in ("float64", "float32"))
    largest = np.abs(low - truth).max()

    def off(dY, cache):  # float64, so that it is off by this and nothing else
        return truth + factor * largest * np.array([0.0, 1.0, 0.0])

    assert bool(comparing.by_twice_the_error(pair("tanh", backward=off), configuration, "float32")) == wrong


def test_the_loss_of_a_descent_is_the_mean_square_and_so_is_its_gradient():
    Y, targets = {"Y": np.array([1.0, 3.0])}, {"Y": np.array([0.0, 1.0])}
    loss, upstream = descent._loss(Y, targets, scalar=False)
    assert loss == 2.5
    np.testing.assert_array_equal(upstream["dY"], [1.0, 2.0])
    loss, upstream = descent._loss({"loss": np.array(1.5)}, {}, scalar=True)
    assert (loss, float(upstream["dloss"])) == (1.5, 1.0)


def test_a_descent_takes_ten_steps():
    """relu on one positive number is the identity: the error shrinks by 1 - 2 step each time."""
    configuration = Configuration("usual", OPS["relu"], Case({"X": np.array([5.0])}, {}, {"dY": np.ones(1)}))
    target = float(descent._targets(configuration)["Y"][0])
    losses = descent.descend(REFERENCE, configuration, "float64", 0.25)
    assert len(losses) == 11
    np.testing.assert_allclose(losses, [((5.0 - target) * 0.5**k) ** 2 for k in range(11)], rtol=1e-9)


def test_the_loss_goes_down_with_half_the_gradient_and_not_with_its_negative():
    half = pair("linear", backward=lambda dY, cache: tuple(0.5 * g for g in reference_numpy.linear_backward(dY, cache)))
    assert descent.goes_down(half, usual("linear"), "float32") == ""
    assert descent.stays_close(half, usual("linear"), "float32")


@pytest.mark.parametrize(("apart", "wrong"), [(0.99e-2, False), (1.01e-2, True)])
def test_a_loss_is_close_within_a_hundredth(apart, wrong):
    """relu's output is off by what moves the first loss so far; later losses are smaller, and so is what it moves them."""
    configuration = Configuration("usual", OPS["relu"], Case({"X": np.array([5.0])}, {}, {"dY": np.ones(1)}))
    error = 5.0 - float(descent._targets(configuration)["Y"][0])
    off = math.sqrt(error**2 + apart) - error
    implementation = pair("relu", forward=lambda X: (X + off, (X,)), backward=lambda dY, cache: dY.copy())
    assert bool(descent.stays_close(implementation, configuration, "float64")) == wrong


# gradcheck is torch's, and JAX's rule as it is written


def as_torch(implementation, op, case):
    """A pair as a torch.autograd.Function, and its inputs, whose memory the pair is given."""
    operands, options, _ = prepared(case, "float64", writeable=True)
    names = op.gradient_names(case)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            given = operands | {name: leaf.detach().numpy() for name, leaf in zip(names, leaves, strict=True)}
            Y, ctx.cache = implementation.forward(op.name)(*op.arguments(given), **options)
            made = tuple(torch.from_numpy(np.array(each)) for each in (Y if isinstance(Y, tuple) else (Y,)))
            return made if len(made) > 1 else made[0]

        @staticmethod
        def backward(ctx, *upstream):
            given = [g.numpy() for g in upstream]
            dY = float(given[0]) if op.scalar else given[0] if len(given) == 1 else tuple(given)
            gradients = implementation.backward(op.name)(dY, ctx.cache)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            return tuple(torch.from_numpy(np.array(g)) for g in gradients)

    leaves = [torch.from_numpy(operands[name]).requires_grad_() for name in names]
    return Function.apply, leaves


def torch_says(implementation, configuration, fast=False):
    function, leaves = as_torch(implementation, configuration.op, configuration.case)
    try:
        with quiet():
            return torch.autograd.gradcheck(function, leaves, raise_exception=True, fast_mode=fast)
    except (RuntimeError, ValueError, AssertionError, TypeError):  # GradcheckError is a RuntimeError
        return False


def contiguous(configuration):
    """torch has no reversed views."""
    return Configuration(configuration.name, configuration.op, replace(configuration.case, layouts={}))


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "attention", "rnn", "cross_entropy", "embedding"])
def test_gradcheck_accepts_what_torch_s_accepts(op):
    for configuration in (contiguous(usual(op)), contiguous(rich(op))):
        assert torch_says(REFERENCE, configuration)
        assert differences.gradcheck(REFERENCE, configuration) == ""


# Values; gradients that broadcast, or lack rows; a dtype; writing in place, forward and backward; two outputs; a loss; a
# forward that is wrong, with the backward that belongs to it and with another.
AS_TORCH = "M006 M056 M050 M002 R11 M063 M089 BRD-01 R21 E09 E11 W06 N07 M012 M012b F08 B16 D08 M081 C12 XEN-04 E06"


@pytest.mark.parametrize("id", AS_TORCH.split())
def test_gradcheck_gives_torch_s_own_verdict(id):
    implementation, op = unchecked(MISTAKES[id]), MISTAKES[id].op
    for configuration in (contiguous(usual(op)), contiguous(rich(op))):
        with quiet():
            ours = rejects(POLICIES["gradcheck"], implementation, configuration)
            fast = rejects(POLICIES["gradcheck, fast mode"], implementation, configuration)
        assert (ours == "") == torch_says(implementation, configuration), ours
        assert (fast == "") == torch_says(implementation, configuration, fast=True), fast


def test_a_bias_gradient_that_nobody_summed_passes_gradcheck_alone():
    """The engine sums it before gradcheck looks."""
    implementation = unchecked(MISTAKES["BRD-01"])
    refused = {name for name, policy in POLICIES.items() if rejects(policy, implementation, usual("linear"))}
    assert POLICIES.keys() - refused == {"gradcheck", "gradcheck, fast mode", LOOKS_AT_OUTPUTS}


@pytest.mark.parametrize("check", [differences.gradcheck, differences.gradcheck_fast])
def test_gradcheck_holds_every_entry_within_its_tolerance(check):
    """On one number the two modes are one: u = v = 1."""
    configuration = tanh_case([0.5], [1.0])
    slope = 1.0 - math.tanh(0.5) ** 2
    for excess, wrong in ((0.99, False), (1.01, True)):
        factor = 1.0 + excess * (1e-5 / slope + 1e-3)
        implementation = pair("tanh", backward=lambda dY, cache, factor=factor: factor * slope * dY)
        assert bool(check(implementation, configuration)) == wrong


@pytest.mark.parametrize("check", [differences.gradcheck, differences.gradcheck_fast])
def test_gradcheck_wants_the_same_answer_twice_and_zeros_for_zeros(check):
    calls = iter(range(1000))
    drifting = pair("tanh", backward=lambda dY, cache: reference_numpy.tanh_backward(dY, cache) + 1e-12 * next(calls))
    assert "asked for again" in check(drifting, tanh_case([0.5], [1.0]))
    shifted = pair("tanh", backward=lambda dY, cache: reference_numpy.tanh_backward(dY, cache) + 1e-12)
    assert "upstream of 0" in check(shifted, tanh_case([0.5], [1.0]))


def test_check_grads_holds_one_projection_within_its_tolerance():
    """On one number x: u v dX against u v tanh'(x), absolute and relative tolerance 1e-5."""
    configuration = tanh_case([0.5], [1.0])
    slope = 1.0 - math.tanh(0.5) ** 2
    rng = np.random.RandomState(0)
    u, v = float(rng.standard_normal(1)[0]), float(rng.standard_normal(1)[0])
    tolerance = 1e-5 + 1e-5 * abs(u * v * slope)
    for excess, wrong in ((0.9, False), (1.1, True)):
        off = slope * v + excess * tolerance / u
        implementation = pair("tanh", backward=lambda dY, cache, off=off: np.array([off]))
        assert bool(differences.check_grads(implementation, configuration, "float64")) == wrong


def test_check_grads_refuses_another_shape_and_lets_nan_equal_nan():
    configuration = tanh_case([0.5, 0.6], [1.0, 1.0])
    other_shape = pair("tanh", backward=lambda dY, cache: reference_numpy.tanh_backward(dY, cache)[None])
    assert "shape" in differences.check_grads(other_shape, configuration, "float64")
    nan = pair("tanh", lambda X: (X * np.nan, X), lambda dY, cache: dY * np.nan)
    assert differences.check_grads(nan, configuration, "float64") == ""


def test_check_grads_is_not_misled_by_a_backward_that_writes_into_its_upstream():
    """JAX's arrays cannot be written into: what the backward returns is all that counts."""
    assert differences.check_grads(unchecked(MISTAKES["M012"]), usual("softmax"), "float64") == ""


# The league, its table, its picture, its command


@pytest.fixture(scope="module")
def small_league():
    return standings.run(["tanh", "embedding"])


BAD_INPUT = ["M084", "E04", "E05"]


def test_every_policy_has_a_row_and_every_row_its_denominators(small_league):
    """What lies in accepting bad input is the table's alone."""
    assert [row.name for row in small_league] == [*POLICIES, standings.TABLE]
    every = {mistake.id for mistake in standings.mistakes_of(["tanh", "embedding"])}
    for row in small_league[:-1]:
        for tally in (row.usual, row.rich):
            assert sorted(tally.hit + tally.missed) == sorted(every - set(BAD_INPUT))
        assert {tally.of for tally in row.right.values()} == {4}
        assert row.rule
    assert (small_league[-1].usual.of, small_league[-1].rich.of) == (0, len(every))


def test_the_table_misses_nothing_and_rejects_nobody(small_league):
    assert small_league[-1].rich.missed == []
    assert {dtype: tally.hit for dtype, tally in small_league[-1].right.items()} == {"float64": [], "float32": []}


def test_a_right_variant_that_is_rejected_is_named_with_the_place_and_the_reason():
    """Twice the float32 error of one implementation is less than what another right one may err by."""
    policy, row = POLICIES["twice the float32 error"], Standing("name", "rule")
    for variant in VARIANTS["layer_norm"]:
        standings._judge_right("layer_norm", variant, [(policy, row)])
    assert row.right["float32"].hit
    for name in row.right["float32"].hit:
        assert any(said.startswith(f"{name}; ") and ", float32: d" in said for said in row.rejections)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_table_fits_the_terminal(small_league, width):
    page = io.StringIO()
    report(small_league, Console(file=page, width=width))
    lines = page.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    for row in small_league:
        assert any(str(row.rich) in line for line in lines)


def test_the_rows_as_json_say_what_is_missed(small_league):
    rows = json.loads(json.dumps(as_json(small_league)))
    for row, standing in zip(rows, small_league, strict=True):
        assert row["policy"] == standing.name
        assert row["rich"]["caught"] + len(row["rich"]["missed"]) == row["rich"]["of"]
        assert row["right"] == {d: {"rejected": len(t.hit), "of": 4} for d, t in standing.right.items()}
        assert row["rejections"] == standing.rejections


def test_the_picture_is_a_png(small_league, tmp_path):
    league_picture(small_league, tmp_path / "league.png")
    assert (tmp_path / "league.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_an_empty_tally_is_a_dash():
    assert str(Tally()) == "-"
    tally = Tally()
    tally.count("a", "wrong")
    tally.count("b", "")
    assert (str(tally), tally.hit, tally.missed) == ("1/2", ["a"], ["b"])
    assert str(Standing("name", "rule").rich) == "-"


def test_the_command_writes_what_it_is_asked_for(tmp_path, capsys):
    assert main(["--op", "tanh", "--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]) == 0
    shown = capsys.readouterr()
    assert "sum loss, allclose" in shown.out
    assert shown.err == ""
    told = json.loads((tmp_path / "a.json").read_text())
    assert len(told["policies"]) == len(POLICIES) + 1
    assert told["origin"].keys() == {"commit", "command", "machine", "versions", "seed", "date"}
    assert told["origin"]["command"].startswith("python -m equivalence_tests.league --op tanh")
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--op", "sofmax"], "did you mean softmax?"),
        (["--op", "attention_stages"], "attention_stages has no backward"),
        (["--plot", "a.pdf"], "a name that ends in .png"),
        (["--json", "no/such/folder/a.json"], "a file in a folder that exists"),
    ],
)
def test_errors_of_use_are_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
