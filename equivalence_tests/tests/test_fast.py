"""The fast twin: right in tiles of any size and on any number of threads, and the same from run to run."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence_tests.arithmetic import ORACLE, PRECISIONS
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checks import agreement, draw_case, law_fault
from equivalence_tests.implementations import load
from equivalence_tests.ops import OPS
from equivalence_tests.parts.clipping import PARTS as CLIPPING
from equivalence_tests.parts.decoding import PARTS as DECODING
from equivalence_tests.parts.optimizer import PARTS as ADAMW
from equivalence_tests.refusals import REFUSALS, violation
from equivalence_tests.small_models import VOCABULARY, WINDOW, model_case
from equivalence_tests.tests.fast_settings import DTYPES, FUSED, TINY, blas_threads, first_fault, fused, set_to
from reference_numpy import GPTConfig, RNNConfig, dropout_masks, fast, gpt_step, init_gpt, init_rnn

FAST = load("reference_numpy.fast")
PARTS = {**CLIPPING, **ADAMW, "gpt_step": DECODING["gpt_step"]}
LAWS = [pytest.param(part, law, id=f"{part}-{law.__name__}") for part, laws in PARTS.items() for law in laws]
SETTINGS = {"as it is": ({}, 1), "tiny tiles": (TINY, 1), "tiny tiles on 3 threads": (TINY, 3)}
TILED = [pytest.param(*setting, id=name) for name, setting in SETTINGS.items() if setting[0]]


@pytest.mark.parametrize(("sizes", "threads"), TILED)
@pytest.mark.parametrize("op", OPS)
def test_every_op_agrees_and_behaves_in_tiles_of_two_or_three(op, sizes, threads):
    """Its bits are the same when it is called again, with other calls in between: that is part of the conduct."""
    with set_to(sizes, threads):
        assert first_fault(FAST, op) == ""


@pytest.mark.parametrize(("sizes", "threads"), TILED)
@pytest.mark.parametrize("op", OPS)
def test_every_law_holds_in_tiles_of_two_or_three(op, sizes, threads):
    with set_to(sizes, threads):
        for dtype in DTYPES:
            assert law_fault(FAST, OPS[op], dtype, seed=1, times=1) == ""


@pytest.mark.parametrize("setting", ["as it is", "tiny tiles on 3 threads"])
@pytest.mark.parametrize("op", FUSED)
def test_loss_and_gradients_at_once_agree_and_behave_as_the_pair(op, setting):
    with set_to(*SETTINGS[setting]):
        assert first_fault(fused(fast), op) == ""
        assert law_fault(fused(fast), OPS[op], "float32", seed=0, times=1) == ""


@pytest.mark.parametrize("op", FUSED)
def test_loss_and_gradients_at_once_refuse_what_the_pair_refuses(op):
    for refusal in REFUSALS[op]:
        assert violation(refusal, fused(fast), op, "float64") == ""


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "gelu", "attention", "multi_head_attention", "cross_entropy"])
@given(data=st.data(), threads=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_tiles_of_any_size_on_any_threads_agree(op, data, threads, seed):
    assert_any_tiles(FAST, op, data, threads, seed)


@pytest.mark.parametrize("op", FUSED)
@settings(max_examples=4)
@given(data=st.data(), threads=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_a_models_tiles_of_any_size_on_any_threads_agree(op, data, threads, seed):
    assert_any_tiles(fused(fast), op, data, threads, seed)


def assert_any_tiles(implementation, op, data, threads, seed):
    sizes = {name: data.draw(st.integers(1, 20), name) for name in TINY}
    sizes |= {"_threads.PARALLEL": 0, "_small.FEW": -1}
    case = draw_case(OPS[op], seed, seed % 2)
    with set_to(sizes, threads):
        for dtype in DTYPES:
            rounded = case.rounded(PRECISIONS[dtype])
            exact = OPS[op].exact(rounded, PRECISIONS[dtype])
            verdicts = agreement(implementation, OPS[op], rounded, exact, dtype)
            assert [verdict.wrong for verdict in verdicts.values() if verdict.wrong] == []


@pytest.mark.parametrize(("sizes", "threads"), SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("part", "law"), LAWS)
def test_the_law_of_a_part_holds(part, law, sizes, threads):
    with set_to(sizes, threads):
        assert law(getattr(fast, part)) == ""


def arrays(value):
    """Every array and number in a nest of tuples and dicts, by its place."""
    if isinstance(value, np.ndarray | np.generic | float):
        return [np.asarray(value)]
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [array for each in nested for array in arrays(each)]


def bits(value):
    return [array.tobytes() for array in arrays(value)]


def work(dtype="float32", B=5, n=7, seed=0):
    """Calls that between them run every module of fast, each a function of nothing, on sizes that B and n set."""
    rng = np.random.default_rng(seed)
    config = GPTConfig(11, 9, 6, 2, 3, 2, 2, dropout=0.3)
    dropped = dropout_masks(config, (B, n), rng)
    params, recurrent = init_gpt(config, rng, dtype), init_rnn(RNNConfig(11, 6), rng, dtype)
    ids, targets = rng.integers(0, 11, (2, B, n))
    Q, K, V, dC = (rng.standard_normal((B, 3, n, 4)).astype(dtype) for _ in range(4))
    X, row = Q.reshape(-1, 4), Q[0, 0, 0]
    model, loss = (params, ids, config), (params, ids, targets, config)
    grads = {name: rng.standard_normal(p.shape).astype(dtype) for name, p in params.items()}

    def pair(op, *operands, upstream, **options):
        Y, cache = getattr(fast, op)(*operands, **options)
        return Y, getattr(fast, f"{op}_backward")(upstream, cache)

    def stepped():
        here, state = copy.deepcopy(params), {}
        for _ in range(2):
            fast.adamw_step(here, fast.clip_gradients(grads, 0.5)[0], state)
        return here, state["exp_avg"], state["exp_avg_sq"]

    return {
        "attention": lambda: pair("attention", Q, K, V, causal=True, upstream=dC),
        "softmax": lambda: pair("softmax", X, upstream=X),
        "log_softmax": lambda: pair("log_softmax", X, upstream=X),
        "gelu": lambda: pair("gelu", X, upstream=X),
        "layer_norm": lambda: pair("layer_norm", X, row, row, upstream=X),
        "cross_entropy": lambda: (
            pair("cross_entropy", X, ids.reshape(-1)[: len(X)] % 4, upstream=1.0)
            if len(X) <= ids.size
            else pair("cross_entropy", X[: ids.size], ids.reshape(-1) % 4, upstream=1.0)
        ),
        "rnn": lambda: fast.generative_rnn_loss_gradients(1.0, recurrent, ids, targets, RNNConfig(11, 6)),
        "gpt": lambda: fast.gpt(*model)[0],
        "gpt_loss": lambda: pair("gpt_loss", *loss, keep=dropped, upstream=1.0),
        "gpt_loss_gradients": lambda: fast.gpt_loss_gradients(1.0, *loss),
        "gpt_loss_gradients, dropped": lambda: fast.gpt_loss_gradients(1.0, *loss, keep=dropped),
        "gpt_step": lambda: fast.gpt_step(*model),
        "adamw_step": stepped,
    }


@pytest.mark.parametrize(("sizes", "threads"), [({}, 2), (TINY, 1), (TINY, 3)], ids=["2 threads", "tiny", "tiny, 3"])
@pytest.mark.parametrize("name", work())
def test_twenty_runs_give_the_same_bits(name, sizes, threads):
    with set_to(sizes, threads):
        right = bits(work()[name]())
        for _ in range(20):
            assert bits(work()[name]()) == right


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", work())
def test_nothing_of_a_call_changes_when_others_follow(name, dtype):
    """What memory is kept inside is not to be seen: neither by the same sizes again, nor by larger or smaller ones."""
    with set_to(TINY, 3):
        first = work(dtype)[name]()
        before = bits(first)
        for B, n, seed in ((5, 7, 1), (2, 3, 2), (6, 9, 3), (5, 7, 4)):
            for later in work(dtype, B, n, seed).values():
                others = arrays(later())
                assert not any(np.shares_memory(one, other) for one in arrays(first) for other in others)
        assert bits(first) == before
        assert bits(work(dtype)[name]()) == before


def test_threads_are_as_many_as_blas_has_and_are_left_as_they_were(monkeypatch):
    """With one there is no pool; with more there is one, BLAS is held down in it, and has its own number back."""
    from reference_numpy.fast import _threads

    asked = []
    right = _threads._pool
    monkeypatch.setattr(_threads, "_pool", lambda workers: asked.append((workers, blas_threads())) or right(workers))
    for threads in (1, 2, 3):
        with set_to(TINY, threads):
            before, asked[:] = blas_threads(), []
            for call in work().values():
                call()
            assert blas_threads() == before
            assert {each[0] for each in asked} == set(range(1, threads))
            assert all(set(held) == {1} for _, held in asked)


def drawn_gpt(seed):
    draws = SeededDraws(np.random.default_rng(seed))
    case = model_case("gpt", draws, "float64", (2,), layers=2)
    params = {name: value for name, value in case.operands.items() if "." in name}
    return params, case.options, draws.rng


@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_pasts_grow_into_branches_of_either_implementation(data, seed):
    """A step goes on from any earlier past, its own or the reference's: the logits are those of the whole branch, and no
    past changes, however often and however differently it is grown."""
    params, options, rng = drawn_gpt(seed)
    config = options["config"]
    branches = [(np.zeros((2, 0), int), None)]  # tokens so far, past
    kept = []
    for _ in range(data.draw(st.integers(1, 8))):
        before, past = data.draw(st.sampled_from(branches))
        room = WINDOW - before.shape[1]
        if not room:
            continue
        ids = rng.integers(0, VOCABULARY, (2, data.draw(st.integers(1, room))))
        step = data.draw(st.sampled_from((fast.gpt_step, fast.gpt_step, gpt_step)))
        logits, longer = step(params, ids, config, past)
        whole = np.concatenate([before, ids], 1)
        case = Case({**params, "ids": whole}, options, {"dlogits": np.zeros((*whole.shape, VOCABULARY))})
        exact = OPS["gpt"].exact(case, PRECISIONS["float64"])["logits"]
        error = np.abs(logits.astype(ORACLE) - exact.value[:, before.shape[1] :])
        assert (error <= exact.budget()[:, before.shape[1] :]).all()
        branches.append((whole, longer))
        kept.append((longer, bits(tuple(tuple(pair) for pair in longer))))
    assert all(bits(tuple(tuple(pair) for pair in past)) == was for past, was in kept)
