"""The pictures of gradients: the numbers drawn are those of the gradients, and red is exactly what is wrong."""

import dataclasses
import importlib
import json

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import reference_numpy
from equivalence_tests import gradient_pictures, jacobian
from equivalence_tests.__main__ import main
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.candidate import adapt
from equivalence_tests.cases import Case
from equivalence_tests.gradient_pictures import (
    RED,
    attention_gradient_picture,
    jacobian_picture,
    norms_picture,
    place,
    told_apart,
)
from equivalence_tests.implementations import has_torch
from equivalence_tests.jacobian import MOST_COLUMNS, MOST_ROWS, jacobians, small_failing_case
from equivalence_tests.mistakes import MISTAKES
from equivalence_tests.parts.training import DATA
from equivalence_tests.train import ATTENTION, GRADIENTS, LOG, TWINS, make_learner
from equivalence_tests.training_gradients import Measured, attention_gradients, is_measured
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.corpus import corpus_path
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import gpt_loss, init_gpt
from reference_numpy.learner import NumpyLearner
from reference_numpy.train import TrainingConfig, train_model

attention_module = importlib.import_module("reference_numpy.attention")  # the name itself is the function's
SIZE = DATA.tokenizer.vocab_size
CONFIGS = {
    "gpt": GPTConfig(SIZE, 30, 6, 2, 2, 3, 2, 0.3),
    "tied": GPTConfig(SIZE, 30, 6, 1, 2, 3, 2, 0.3, tied_head=True),
    "rnn": RNNConfig(SIZE, 7),
}
SETTINGS = TrainingConfig(epochs=3, batch_size=2, seq_length=30, accumulation=2, clip_norm=0.5)


def initial(config, dtype=np.float64):
    return (init_gpt if isinstance(config, GPTConfig) else init_rnn)(config, np.random.default_rng(3), dtype)


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn, to be looked into."""
    drawn = []
    right = gradient_pictures.new_figure
    monkeypatch.setattr(gradient_pictures, "new_figure", lambda *size: drawn.append(right(*size)) or drawn[-1])
    return drawn


# Norms


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("twin", TWINS)
def test_the_norms_are_those_of_the_gradients_worked_out_anew(twin, name):
    """Of both batches of a step together, before they are clipped, every parameter's own."""
    config = CONFIGS[name]
    params = initial(config)
    measured = Measured(make_learner(twin, config, {n: p.copy() for n, p in params.items()}, {}, "cpu"))
    anew = NumpyLearner(config, params)
    right, rows = measured.gather, []

    def gather(*arguments):
        anew.gather(*arguments)
        return right(*arguments)

    measured.gather = gather
    train_model(measured, DATA, SETTINGS, stop=1, watch=rows.append)
    assert list(measured.found) == list(params)
    for parameter, gradient in anew._gathered.items():
        # Sums of at most some hundred products: the twins' gradients differ by less than 1,000 roundoffs.
        assert measured.found[parameter] == pytest.approx(np.linalg.norm(gradient), rel=1e-13, abs=0.0)
    whole = np.sqrt(sum(norm**2 for norm in measured.found.values()))
    assert rows[0]["norm"] == pytest.approx(whole, rel=1e-13, abs=0.0)
    assert rows[0]["norm"] > SETTINGS.clip_norm


def test_a_norm_is_taken_in_float64_of_every_number():
    """1e-30 squared is 0 in float32; the array is longer than what is squared at once."""
    learner = NumpyLearner(CONFIGS["rnn"], initial(CONFIGS["rnn"]))
    learner._gathered = {"tiny": np.full(20001, 1e-30, np.float32), "view": np.arange(12.0).reshape(3, 4).T}
    expected = {name: np.linalg.norm(array.astype(np.float64)) for name, array in learner._gathered.items()}
    assert learner.norms() == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_a_few_hundred_steps_are_measured_whatever_the_length():
    assert all(is_measured(step) for step in range(1, 64))
    counts = {total: sum(map(is_measured, range(1, total + 1))) for total in (63, 2_500, 100_000)}
    assert counts[63] == 63
    assert counts[100_000] <= 450
    late = [step for step in range(50_000, 100_001) if is_measured(step)]
    assert len(late) >= 20  # to the end of a long training
    assert set(np.diff(late)) <= {1024, 2048}


def test_a_learner_that_is_measured_trains_as_one_that_is_not():
    """To the last bit, and from any step on it measures the same steps."""
    found = {}
    for twin in TWINS:
        plain, watched, begun = (
            make_learner(twin, CONFIGS["gpt"], initial(CONFIGS["gpt"]), {}, "cpu") for _ in range(3)
        )
        train_model(plain, DATA, SETTINGS)
        norms = []
        whole = Measured(watched)
        train_model(whole, DATA, SETTINGS, watch=lambda row, whole=whole, norms=norms: norms.append(whole.found))
        assert all(np.array_equal(p, plain.snapshot()[0][name]) for name, p in watched.snapshot()[0].items())
        train_model(Measured(begun), DATA, SETTINGS, stop=2)
        again = []
        rest = Measured(begun, 2)
        train_model(rest, DATA, SETTINGS, step=2, watch=lambda row, rest=rest, again=again: again.append(rest.found))
        assert again == norms[2:]
        assert rest.taken == whole.taken == len(norms)
        found[twin] = norms
    assert len({len(norms) for norms in found.values()}) == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_every_gradient_has_a_line_of_its_own(name, figures, tmp_path):
    """A place that no other has; its line holds the norms of the log over the steps, and the scale is logarithmic."""
    names = list(initial(CONFIGS[name]))
    places = [place(each) for each in names]
    assert len(set(places)) == len(names)
    rng = np.random.default_rng(0)
    norms = [dict(zip(names, 10.0 ** rng.uniform(-5, 2, len(names)), strict=True)) for _ in range(3)]
    rows = [{"step": step, "norms": each} for step, each in zip((1, 2, 4), norms, strict=True)]
    rows.insert(2, {"step": 3, "loss": 1.0})
    norms_picture(rows, tmp_path / "norms.png")
    assert (tmp_path / "norms.png").read_bytes().startswith(b"\x89PNG")
    axes = [each for each in figures[0].axes if each.lines]
    drawn = {tuple(line.get_ydata()) for each in axes for line in each.lines}
    assert drawn == {tuple(row["norms"][each] for row in rows if "norms" in row) for each in names}
    assert {tuple(line.get_xdata()) for each in axes for line in each.lines} == {(1, 2, 4)}
    for each in axes:
        looks = [(tuple(to_rgb(line.get_color())), line.get_linestyle()) for line in each.lines]
        assert len(set(looks)) == len(looks)
        assert each.get_yscale() == "log"
    told = {text.get_text() for legend in [*figures[0].legends, axes[-1].get_legend()] for text in legend.get_texts()}
    assert {each.line for each in places} <= told


def test_a_gradient_of_zero_leaves_a_gap(figures, tmp_path):
    rows = [{"step": step, "norms": {"lm_head.bias": norm}} for step, norm in ((1, 1.0), (2, 0.0), (3, 2.0))]
    norms_picture(rows, tmp_path / "norms.png")
    assert np.isnan(figures[0].axes[0].lines[0].get_ydata()).tolist() == [False, True, False]


# Attention


def attention_case(name):
    config = dataclasses.replace(CONFIGS[name], context_window=7)
    rng = np.random.default_rng(1)
    params = {key: 3.0 * p + 0.1 * rng.standard_normal(p.shape) for key, p in initial(config).items()}
    ids = rng.integers(0, SIZE, 6)
    return config, params, ids[:-1], ids[1:]


@pytest.mark.parametrize("name", ["gpt", "tied"])
def test_the_gradients_of_attention_are_what_complex_steps_say(name, monkeypatch):
    """An entry of A, or of the scores before the softmax, moved by 1e-20 i, in each block and head."""
    config, params, ids, targets = attention_case(name)
    found = attention_gradients(params, ids, targets, config)
    assert len(found) == config.num_layers
    n, step = len(ids), 1e-20
    dropout, softmax = attention_module.dropout, attention_module._softmax_over
    moved = {key: p.astype(np.complex128) for key, p in params.items()}
    for which in ("dA", "dS"):
        for block, head, i, j in np.ndindex(config.num_layers, config.num_heads, n, n):
            if j > i:
                assert found[block].dS[head, i, j] == 0.0
                continue
            calls = []

            def move(X, *rest, which=which, at=(head, i, j), block=block, calls=calls):
                calls.append(1)
                if len(calls) == block + 1:
                    X = X.copy()
                    X[at] += step * 1j
                return (dropout if which == "dA" else softmax)(X, *rest)

            monkeypatch.setattr(attention_module, "dropout" if which == "dA" else "_softmax_over", move)
            loss, _ = gpt_loss(moved, ids, targets, config)
            monkeypatch.undo()
            assert len(calls) == config.num_layers
            expected = loss.imag / step
            scale = np.abs(getattr(found[block], which)).max()
            assert abs(getattr(found[block], which)[head, i, j] - expected) <= 1e-13 * scale, (which, block, head, i, j)


def test_attention_stands_beside_its_gradient(figures, tmp_path):
    config, params, ids, targets = attention_case("gpt")
    found = attention_gradients(params, ids, targets, config)
    words = ["<BOS>", "el", " ", "gato$", "\n"]
    attention_gradient_picture(words, found, tmp_path / "attention.png")
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    maps = [each for each in figures[0].axes if each.images]
    shown = [np.asarray(each.images[0].get_array()) for each in maps][: 2 * config.num_layers * config.num_heads]
    expected = [
        getattr(block, which)[head] for block in found for head in range(config.num_heads) for which in ("A", "dS")
    ]
    assert len(shown) == len(expected)
    assert all(np.array_equal(one, other) for one, other in zip(shown, expected, strict=True))
    titles = [each.get_title() for each in maps[0::2]][: config.num_layers * config.num_heads]
    assert titles == [f"A, block {b}, head {h}" for b in (1, 2) for h in (1, 2)]


# Jacobians


def softmax(X):
    A = np.exp(X - X.max(-1, keepdims=True))
    A /= A.sum(-1, keepdims=True)
    return A, A


CASE = Case({"X": np.array([[0.3, -1.0, 2.0], [1.0, 0.5, 0.0]])}, {}, {"dA": np.ones((2, 3))})


def softmax_candidate(backward):
    return adapt(softmax, "softmax", backward=backward)


def right_backward(dA, cache):
    return cache * (dA - (cache * dA).sum(-1, keepdims=True))


def test_the_true_jacobian_of_a_softmax_is_diag_of_a_minus_a_a():
    found = jacobians(softmax_candidate(right_backward), CASE)
    A, _ = softmax(CASE.operands["X"])
    expected = np.zeros((6, 6))
    for row in range(2):
        part = slice(3 * row, 3 * row + 3)
        expected[part, part] = np.diag(A[row]) - np.outer(A[row], A[row])
    assert np.abs(found.true - expected).max() <= 4.0 * 2.0**-53
    assert not found.wrong.any()
    assert found.labels[0] == [f"A[{i}, {j}]" for i in range(2) for j in range(3)]
    assert found.labels[1] == [f"X[{i}, {j}]" for i in range(2) for j in range(3)]


def columns_by_complex_steps(op, case, names):
    """d outputs / d operands, an operand's entry at a time."""
    columns = []
    for name in names:
        for index in np.ndindex(case.operands[name].shape):
            operands = {key: X.astype(np.complex128) if X.dtype.kind == "f" else X for key, X in case.operands.items()}
            operands[name][index] += 1e-20j
            Y, _ = getattr(reference_numpy, op)(*operands.values(), **case.options)
            Ys = Y if isinstance(Y, tuple) else (Y,)
            columns.append(np.concatenate([np.ravel(np.imag(y)) / 1e-20 for y in Ys]))
    return np.array(columns).T


def numbers(**shapes):
    rng = np.random.default_rng(5)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


SMALL = {
    "layer_norm": Case(numbers(X=(2, 3), scale=3, shift=3), {}, {"dY": np.ones((2, 3))}),
    "linear": Case(numbers(X=(2, 3), weight=(2, 3)), {}, {"dY": np.ones((2, 2))}),
    "attention": Case(numbers(Q=(3, 2), K=(3, 2), V=(3, 1)), {"causal": True}, {"dC": np.ones((3, 1))}),
    "cross_entropy": Case(
        {**numbers(logits=(3, 4)), "targets": np.array([1, 9, 3])}, {"ignore_index": 9}, {"dloss": np.asarray(2.0)}
    ),
    "rnn": Case(
        numbers(X=(2, 2), W_ih=(2, 2), W_hh=(2, 2), b_ih=2, b_hh=2), {}, {"dH": np.ones((2, 2)), "dh_last": np.ones(2)}
    ),
}


@pytest.mark.parametrize("op", SMALL)
def test_a_right_jacobian_is_that_of_complex_steps_and_nothing_of_it_is_red(op, tmp_path):
    """All outputs by all operands: one row for each number of the output, one column for each of the operands."""
    case = SMALL[op].rounded(PRECISIONS["float64"])
    found = jacobians(adapt(getattr(reference_numpy, op), op), case)
    names = [name for name, X in case.operands.items() if X.dtype.kind == "f"]
    expected = columns_by_complex_steps(op, case, names)
    assert found.true.shape == expected.shape == tuple(map(len, found.labels))
    assert np.abs(found.true - expected).max() <= 1e-14 * np.abs(expected).max()
    assert not found.wrong.any()
    assert jacobian_picture(found.found, found.true, found.allowed, tmp_path / "j.png", found.labels) == 0


def test_an_operand_alone_is_a_part_of_the_whole():
    candidate = adapt(reference_numpy.layer_norm, "layer_norm")
    whole, part = (
        jacobians(candidate, SMALL["layer_norm"]),
        jacobians(candidate, SMALL["layer_norm"], operands=["scale"]),
    )
    assert part.labels[1] == ["scale[0]", "scale[1]", "scale[2]"]
    assert np.array_equal(part.true, whole.true[:, 6:9])


def texts_of(figure):
    return {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in figure.axes[0].texts}


def test_red_is_exactly_what_is_wrong(figures, tmp_path):
    """One entry of the backward is off by a thousandth, one is no number; the others are right."""

    def backward(dA, cache):
        dX = right_backward(dA, cache)
        dX[0, 1] += 1e-3 * dA[0, 2]
        if dA[1, 0]:
            dX[1, 2] = np.nan
        return dX

    found = jacobians(softmax_candidate(backward), CASE)
    assert np.argwhere(found.wrong).tolist() == [[2, 1], [3, 5]]
    assert jacobian_picture(found.found, found.true, found.allowed, tmp_path / "j.png", found.labels) == 2
    colours = np.asarray(figures[0].axes[0].images[0].get_array())[..., :3]
    red = np.abs(colours - np.array(to_rgb(RED))).max(-1) < 1e-9
    assert np.argwhere(red).tolist() == [[2, 1], [3, 5]]
    texts = texts_of(figures[0])
    assert {at for at, text in texts.items() if "≠" in text} == {(2, 1), (3, 5)}
    assert texts[2, 1] == f"{found.found[2, 1]:.3g}\n≠ {found.true[2, 1]:.3g}"
    assert texts[3, 5].startswith("nan\n≠ ")
    assert texts[0, 0] == f"{found.true[0, 0]:.3g}"
    assert "≠  2 / 36" in figures[0].get_suptitle()


def test_what_rounding_explains_is_not_red():
    """Right up to the budget, wrong beyond it."""
    true = np.array([[1.0, 2.0]])
    allowed = np.array([[1e-3, 1e-3]])
    for shift, count in ((0.9e-3, 0), (1.1e-3, 1)):
        found = true + np.array([[0.0, shift]])
        assert int(gradient_pictures.outside(found, true, allowed).sum()) == count


def test_two_numbers_are_told_apart():
    assert told_apart(0.25, 0.5) == ("0.25", "0.5")
    assert told_apart(0.123456789, 0.123456780) == ("0.12345679", "0.12345678")
    assert told_apart(float("nan"), 1.0) == ("nan", "1")


def test_a_large_jacobian_lists_what_is_furthest_off(figures, tmp_path):
    true = np.zeros((30, 20))
    found = true.copy()
    found[4, 7], found[9, 1] = 0.5, -2.0
    assert jacobian_picture(found, true, true + 1e-9, tmp_path / "j.png") == 2
    lines = figures[0].get_suptitle().splitlines()
    assert lines[1:] == ["∂Y[9] / ∂X[1] = -2 ≠ 0", "∂Y[4] / ∂X[7] = 0.5 ≠ 0"]


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "attention", "cross_entropy"])
def test_a_small_case_shows_every_backward_that_is_wrong(op, tmp_path):
    """Nothing to show of a right one; of the known wrong ones, a case whose Jacobian is wrong and can be read."""
    assert small_failing_case(adapt(getattr(reference_numpy, op), op)) is None
    shown = 0
    for mistake in [each for each in MISTAKES.values() if each.op == op and each.backward and not each.accepts]:
        candidate = adapt(mistake.forward or getattr(reference_numpy, op), op, backward=mistake.backward)
        case = small_failing_case(candidate)
        if case is None:
            continue
        found = jacobians(candidate, case)
        assert found.wrong.any()
        assert found.true.shape[0] <= MOST_ROWS
        assert found.true.shape[1] <= MOST_COLUMNS
        shown += 1
    assert shown >= 3


def test_an_option_that_is_not_taken_is_not_asked_for(monkeypatch):
    """Every case has it."""

    def without_sum(dA, cache):
        return cache * dA

    case = dataclasses.replace(CASE, options={"axis": -1})
    monkeypatch.setattr(jacobian, "draw_case", lambda op, seed, index: case)
    found = small_failing_case(adapt(softmax, "softmax", backward=without_sum, without=("axis",)))
    assert found is not None
    assert found.options == {}


def raises(dA, cache):
    raise RuntimeError("no\nidea")


@pytest.mark.parametrize(
    ("backward", "said"),
    [
        (raises, "raised RuntimeError: no"),
        (lambda dA, cache: cache[0], "dX has shape (3,), expected (2, 3)"),
        (lambda dA, cache: (), "dX is a NoneType, expected an array of float64"),
        (lambda dA, cache: "none", "dX is a str, expected an array of float64"),
        (lambda dA, cache: dA.astype(complex), "dX is complex128, expected an array of float64"),
    ],
)
def test_where_there_is_no_jacobian_one_line_says_why(backward, said):
    with pytest.raises(ValueError, match=r".") as raised:
        jacobians(softmax_candidate(backward), CASE)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert small_failing_case(softmax_candidate(backward)) is None


def test_a_gradient_that_does_not_come_is_named():
    candidate = adapt(reference_numpy.layer_norm, "layer_norm", backward=lambda dY, cache: (dY, dY[0]))
    with pytest.raises(ValueError, match="dshift is missing"):
        jacobians(candidate, SMALL["layer_norm"])


def test_neither_a_forward_alone_nor_a_giant_has_a_jacobian():
    with pytest.raises(ValueError, match="there is no backward"):
        jacobians(adapt(lambda X: softmax(X)[0], "softmax"), CASE)
    giant = Case({"X": np.ones((2, 99))}, {}, {"dA": np.ones((2, 99))})
    with pytest.raises(ValueError, match="has 39204 numbers, expected at most 4096"):
        jacobians(softmax_candidate(right_backward), giant)


# The commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small training of each kind, with its pictures."""
    place = tmp_path_factory.mktemp("trained")
    lines = corpus_path().read_text("utf-8").splitlines(keepends=True)[:20]
    (place / "tales.txt").write_text("".join(lines), "utf-8")
    common = ["--data", str(place / "tales.txt"), "--embedding-dim", "16", "--batch-size", "8", "--seq-length", "33"]
    gpt = ["--head-dim", "8", "--num-heads", "2", "--num-layers", "2", "--context-window", "32"]
    for model, sizes in (("gpt", gpt), ("rnn", [])):
        arguments = [*common, *sizes, "--epochs", "10", "--model", model, "--out", str(place / model)]
        assert main(["train", *arguments]) == 0
    return place


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_a_training_logs_the_norms_of_the_measured_steps_and_draws_them(folder, model):
    rows = [json.loads(line) for line in (folder / model / LOG).read_text().splitlines()]
    steps = [row for row in rows if "loss" in row]
    assert [row["step"] for row in steps if "norms" in row] == [
        row["step"] for row in steps if is_measured(row["step"])
    ]
    assert len(steps) > sum("norms" in row for row in steps) > 60
    assert not any("norms" in row for row in rows if "loss" not in row)
    for row in steps:
        if "norms" in row and "norm" in row:
            assert np.sqrt(sum(norm**2 for norm in row["norms"].values())) == pytest.approx(row["norm"], rel=1e-6)
    assert (folder / model / GRADIENTS).read_bytes().startswith(b"\x89PNG")
    assert (folder / model / ATTENTION).exists() == (model == "gpt")


def test_generate_draws_the_gradients_of_a_prompt(folder, tmp_path, capsys):
    options = ["--checkpoint", str(folder / "gpt" / "checkpoint.safetensors"), "--max-tokens", "1"]
    for twin in TWINS if has_torch() else TWINS[:2]:
        path = tmp_path / f"{twin}.png"
        assert main(["generate", *options, "--twin", twin, "--gradients", str(path)]) == 0
        assert path.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["generate", *options, "--prompt", "", "--gradients", str(tmp_path / "none.png")]) == 2
    assert "--gradients: it came with an empty prompt" in capsys.readouterr().err
    options[1] = str(folder / "rnn" / "checkpoint.safetensors")
    assert main(["generate", *options, "--gradients", str(tmp_path / "none.png")]) == 2
    assert "--gradients: it came for an rnn" in capsys.readouterr().err
