"""The steps of generation on every twin: their laws, and the mistakes that they catch."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_numpy.fast
import torch_impl
from equivalence_tests.arithmetic import ORACLE, PRECISIONS
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.mistakes import quiet
from equivalence_tests.mistakes.decoding import MISTAKES
from equivalence_tests.ops import OPS
from equivalence_tests.parts.decoding import PARTS
from equivalence_tests.small_models import VOCABULARY, WINDOW, model_case

LISTED = "M164 M165"
ALL = [pytest.param(part, law, id=f"{part}-{law.__name__}") for part, laws in PARTS.items() for law in laws]
MODELS = {"gpt_step": "gpt", "generative_rnn_step": "generative_rnn"}


def of_torch(name):
    """The torch twin's step, given arrays and answering arrays."""

    def tensors(value):
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.array(value))
        return tuple(tensors(each) for each in value) if isinstance(value, tuple) else value

    def arrays(value):
        return tuple(arrays(each) for each in value) if isinstance(value, tuple) else value.numpy()

    def step(params, ids, config, past=None):
        return arrays(
            getattr(torch_impl, name)(
                {name: tensors(value) for name, value in params.items()}, tensors(ids), config, tensors(past)
            )
        )

    return step


TWINS = {
    "reference_numpy": lambda name: getattr(reference_numpy, name),
    "reference_numpy.fast": lambda name: getattr(reference_numpy.fast, name),
    "torch_impl": of_torch,
}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(("part", "law"), ALL)
def test_law_holds(part, law, twin):
    assert law(TWINS[twin](part)) == ""


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("part", PARTS)
@settings(max_examples=3)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), tied=st.booleans(), lead=st.sampled_from([(), (2,), (2, 1)]))
def test_any_cut_into_steps_gives_the_whole(part, twin, data, seed, tied, lead):
    model = MODELS[part]
    draws = SeededDraws(np.random.default_rng(seed))
    case = model_case(model, draws, "float64", lead, layers=2, tied=tied and model == "gpt")
    params = {name: value for name, value in case.operands.items() if "." in name}
    n = data.draw(st.integers(1, WINDOW))
    ids = draws.rng.integers(0, VOCABULARY, (*lead, n))
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    past, logits = None, []
    for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
        Y, past = TWINS[twin](part)(params, ids[..., start:stop], case.options["config"], past)
        logits.append(Y)
    nothing = {"dlogits": np.zeros((*ids.shape, VOCABULARY))}
    exact = OPS[model].exact(Case({**params, "ids": ids}, case.options, nothing), PRECISIONS["float64"])["logits"]
    error = np.abs(np.concatenate(logits, -2).astype(ORACLE) - exact.value)
    assert (error <= exact.budget()).all()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    with quiet():
        assert any(law(mistake.forward) for law in PARTS[mistake.op]), mistake.sentence


@pytest.mark.parametrize(("part", "law"), ALL)
def test_every_law_catches_a_mistake(part, law):
    with quiet():
        assert any(law(mistake.forward) for mistake in MISTAKES if mistake.op == part)


def test_every_listed_mistake_is_coded_and_takes_what_the_right_part_takes():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(set(ids)) == len(ids)
    for mistake in MISTAKES:
        right = [(p.name, p.kind) for p in inspect.signature(getattr(reference_numpy, mistake.op)).parameters.values()]
        assert [(p.name, p.kind) for p in inspect.signature(mistake.forward).parameters.values()] == right, mistake.id


@pytest.mark.parametrize("twin", TWINS)
def test_what_is_no_past_is_refused_by_type(twin):
    case = model_case("gpt", SeededDraws(np.random.default_rng(0)), "float64")
    params = {name: value for name, value in case.operands.items() if "." in name}
    step = TWINS[twin]("gpt_step")
    _, past = step(params, case.operands["ids"], case.options["config"])
    with pytest.raises(TypeError, match="gpt_step: past is a list"):
        step(params, case.operands["ids"][:, :1], case.options["config"], list(past))
    (K, V), *others = past
    for bad in (("x", *others), ((K,), *others), ([K, V], *others)):
        with pytest.raises(TypeError, match=r"gpt_step: past holds a (str|tuple|list), expected a pair"):
            step(params, case.operands["ids"][:, :1], case.options["config"], bad)
    for bad, error in (
        ((K.astype("float32"), V), TypeError),
        ((K[0, 0, 0], V), ValueError),
        ((K, V[..., :1]), ValueError),
    ):
        with pytest.raises(error, match=r"gpt_step: past [KV] "):
            step(params, case.operands["ids"][:, :1], case.options["config"], (bad, *others))
