"""Laws of the language models, of both families.

Their budgets are measured, and so cover an implementation that stores any intermediate: two calls of one may differ by the
sum of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.axes import of
from equivalence_tests.laws.bad_input import backward_refuses_a_wrong_upstream, refuses_bad_input
from equivalence_tests.laws.common import (
    Answered,
    Law,
    answer,
    differ,
    differs,
    first,
    permutation,
    summed,
    unequal,
    values_of,
)
from equivalence_tests.small_models import GPTS, LOSSES, MODELS, RNNS, TOKENS, VOCABULARY, model_case

HEAD = ("dlm_head.weight", "dlm_head.bias")


def changed(case: Case, operands: dict[str, Any] | None = None, **options: Any) -> Case:
    """The case with some operands and options exchanged."""
    return Case({**case.operands, **(operands or {})}, {**case.options, **options}, case.upstream)


def token_embedding(op: str) -> str:
    return "token_embedding.weight" if op in GPTS else "embedding.weight"


def the_past_does_not_see_the_future(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Logits before t do not depend on the tokens from t on, and give neither them nor their positions a gradient."""
    case = model_case(op, draws, dtype)
    ids, t = case.operands["ids"], draws.choice(range(1, TOKENS))
    late = np.arange(TOKENS) >= t
    new = VOCABULARY - 1  # which is not among the ids
    dlogits = np.where(late[:, None], 0.0, case.upstream["dlogits"])
    other = Case({**case.operands, "ids": np.where(late, new, ids)}, case.options, {"dlogits": dlogits})
    one, two = (answer(implementation, op, each, dtype) for each in (case, other))
    budget = (one.budget["logits"] + two.budget["logits"])[..., :t, :]
    before = differs("logits before t", two.values["logits"][..., :t, :], one.values["logits"][..., :t, :], budget)
    before = before or unequal("gradient of a future token", two.values[f"d{token_embedding(op)}"][new], 0.0)
    if before or op in RNNS:
        return before
    return unequal("gradient of a future position", two.values["dposition_embedding.weight"][t:], 0.0)


def sequences_do_not_meet(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A sequence's logits are those that it has alone; a parameter's gradient is the sum over the sequences."""
    case = model_case(op, draws, dtype, (2,), p=draws.choice((None, 0.3)))
    together = answer(implementation, op, case, dtype)
    alone = [answer(implementation, op, sequence_of(case, b), dtype) for b in range(2)]
    for b, each in enumerate(alone):
        budget = together.budget["logits"][b] + each.budget["logits"]
        if text := differs(f"logits of sequence {b}", together.values["logits"][b], each.values["logits"], budget):
            return text
    return summed_gradients_differ(together, alone, 1.0)


def sequence_of(case: Case, b: int) -> Case:
    def alone(values: dict[str, Any]) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, dict):
                parts[name] = alone(value)
            else:
                shared = not isinstance(value, np.ndarray) or not value.ndim or (name in case.operands and "." in name)
                parts[name] = value if shared else value[b]
        return parts

    return Case(alone(case.operands), alone(case.options), alone(case.upstream))


def summed_gradients_differ(together: Answered, alone: list[Answered], factor: float) -> str:
    """The gradients of the whole are those of its parts, summed and multiplied."""
    gradients = [name for name in together.values if "." in name]
    return first(
        differs(
            name,
            together.values[name],
            factor * sum(each.values[name] for each in alone),
            together.budget[name] + sum(each.budget[name] for each in alone),
        )
        for name in gradients
    )


def a_leading_axis_of_1_changes_nothing(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(ids[None]) = f(ids)[None], and the gradients are the same."""
    case = model_case(op, draws, dtype, draws.choice(((2,), ())), tied=draws.choice((False, True)))
    longer_case = Case(
        {name: value if "." in name else value[None] for name, value in case.operands.items()},
        case.options,
        {name: value[None] if name == "dlogits" else value for name, value in case.upstream.items()},
    )
    plain, longer = (answer(implementation, op, each, dtype) for each in (case, longer_case))
    return first(
        differs(
            f"{name} with one more leading axis",
            longer.values[name][0] if name == "logits" else longer.values[name],
            value,
            2.0 * plain.budget[name],
        )
        for name, value in plain.values.items()
    )


def a_leading_axis_may_be_0(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Of no sequences the logits are empty and every gradient is 0."""
    lead = draws.choice(((0,), (2, 0)))
    case = model_case(op, draws, dtype, lead)
    got = values_of(implementation, op, case, dtype)
    if got["logits"].shape != (*lead, TOKENS, VOCABULARY):
        return f"logits has shape {got['logits'].shape} of ids {(*lead, TOKENS)}"
    return first(
        unequal(f"d{name} of no sequences", got[f"d{name}"], np.zeros(case.operands[name].shape))
        for name in case.operands
        if "." in name
    )


def rows_not_named_have_no_gradient(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Exactly 0 where a token is not among the ids (untied: a tied one is a class as well) and at positions beyond n."""
    case = model_case(op, draws, dtype)
    got = values_of(implementation, op, case, dtype)
    absent = ~np.isin(np.arange(VOCABULARY), case.operands["ids"])
    tokens = unequal("gradient of a token not named", got[f"d{token_embedding(op)}"][absent], 0.0)
    if tokens or op in RNNS:
        return tokens
    return unequal("gradient of a position beyond n", got["dposition_embedding.weight"][TOKENS:], 0.0)


def the_heads_bias_gets_the_sum_of_dlogits(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """The bias is added to every logit, once."""
    case = model_case(op, draws, dtype)
    got = answer(implementation, op, case, dtype)
    total, own = summed(case.upstream["dlogits"].astype(ORACLE), np.zeros(case.upstream["dlogits"].shape), (0, 1))
    return differs("dlm_head.bias", got.values["dlm_head.bias"], total, got.budget["dlm_head.bias"] + own)


def permuting_the_vocabulary_permutes_the_answer(
    op: str, implementation: Implementation, dtype: str, draws: Draws
) -> str:
    """Tokens have no order: with ids, embedding and head renamed, the logits are renamed and the loss stays."""
    case = model_case(op, draws, dtype)
    order = permutation(draws, VOCABULARY)
    renamed = np.argsort(order)
    by_token = (token_embedding(op), "lm_head.weight", "lm_head.bias")
    operands = {name: case.operands[name][order] for name in by_token}
    operands |= {name: renamed[case.operands[name]] for name in ("ids", "targets") if name in case.operands}
    upstream = {name: value[..., order] if name == "dlogits" else value for name, value in case.upstream.items()}
    plain = answer(implementation, op, case, dtype)
    other = answer(implementation, op, Case({**case.operands, **operands}, case.options, upstream), dtype)
    moves = {"logits": lambda x: x[..., order], **{f"d{name}": lambda x: x[order] for name in by_token}}
    return first(differ([name], plain, other, moves.get(name)) for name in plain.values)


def both_biases_have_one_gradient(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Only the sum of the recurrence's two biases is ever used."""
    values, budget = answer(implementation, op, model_case(op, draws, dtype), dtype)
    one, other = "drnn.bias_ih_l0", "drnn.bias_hh_l0"
    return differs(other, values[other], values[one], budget[one] + budget[other])


def the_first_logits_are_the_equation(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """logits_0 = C tanh(A emb(ids_0) + a + b) + e: there is no state before the first token, in any sequence."""
    case = model_case(op, draws, dtype)
    got = answer(implementation, op, case, dtype)
    params = {name: value.astype(ORACLE) for name, value in case.operands.items() if "." in name}
    x = params["embedding.weight"][case.operands["ids"][:, 0]]
    a = x @ params["rnn.weight_ih_l0"].T + params["rnn.bias_ih_l0"] + params["rnn.bias_hh_l0"]
    logits = np.tanh(a) @ params["lm_head.weight"].T + params["lm_head.bias"]
    own = 100 * ORACLE_UNIT * (1.0 + np.abs(params["lm_head.weight"]).sum(-1) + np.abs(params["lm_head.bias"]))
    return differs("logits of the first token", got.values["logits"][:, 0], logits, got.budget["logits"][:, 0] + own)


def laws_of(ops: tuple[str, ...], *laws: Any) -> dict[str, tuple[Law, ...]]:
    return {op: tuple(of(op, law) for law in laws) for op in ops}


_EVERY = (
    a_leading_axis_of_1_changes_nothing,
    rows_not_named_have_no_gradient,
    permuting_the_vocabulary_permutes_the_answer,
    refuses_bad_input,
    backward_refuses_a_wrong_upstream,
)
_LOGITS = (
    the_past_does_not_see_the_future,
    sequences_do_not_meet,
    a_leading_axis_may_be_0,
    the_heads_bias_gets_the_sum_of_dlogits,
)
_BY_OP = (
    laws_of(MODELS, *_EVERY),
    laws_of(tuple(op for op in MODELS if op not in LOSSES), *_LOGITS),
    laws_of(RNNS, both_biases_have_one_gradient),
    laws_of(("generative_rnn",), the_first_logits_are_the_equation),
)
LAWS: dict[str, tuple[Law, ...]] = {op: sum((laws.get(op, ()) for laws in _BY_OP), ()) for op in MODELS}
