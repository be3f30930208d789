"""Laws of the GPT alone: its residual path, heads, dropout, positions and the tied head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.axes import of
from equivalence_tests.laws.common import Law, answer, differ, differs, first, permutation, summed, unequal
from equivalence_tests.laws.models import changed
from equivalence_tests.small_models import GPTS, model_case

TOKEN, POSITION = "token_embedding.weight", "position_embedding.weight"


def a_tied_head_is_the_embedding_twice(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Tied = untied with equal weights, and the one gradient is the sum of the two."""
    case = model_case(op, draws, dtype, tied=True)
    tied = answer(implementation, op, case, dtype)
    untied_case = changed(
        case, {"lm_head.weight": case.operands[TOKEN]}, config=replace(case.options["config"], tied_head=False)
    )
    untied = answer(implementation, op, untied_case, dtype)
    both = f"d{TOKEN}", "dlm_head.weight"
    total = sum(untied.values[name] for name in both)
    budget = tied.budget[both[0]] + sum(untied.budget[name] for name in both)
    others = [name for name in tied.values if name not in both]
    return differ(others, tied, untied) or differs(f"{both[0]} of a tied head", tied.values[both[0]], total, budget)


def a_block_that_adds_nothing_is_no_block(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With projection and contract 0 a block is its residual path: the model is what it is without the block."""
    case = model_case(op, draws, dtype, layers=2)
    gone = draws.choice((0, 1))
    stays = 1 - gone
    ends = ("attention.projection.weight", "feed_forward.contract.weight", "feed_forward.contract.bias")
    zeros = {f"blocks.{gone}.{name}": np.zeros_like(case.operands[f"blocks.{gone}.{name}"]) for name in ends}
    long = answer(implementation, op, changed(case, zeros), dtype)

    def short_name(name: str) -> str:
        return name.replace(f"blocks.{stays}.", "blocks.0.")

    operands = {short_name(name): v for name, v in case.operands.items() if f"blocks.{gone}." not in name}
    options = {"config": replace(case.options["config"], num_layers=1)}
    short = answer(implementation, op, Case(operands, options, case.upstream), dtype)
    return first(
        differs(f"{name} beside a block that adds nothing", value, short.values[s], long.budget[name] + short.budget[s])
        for name, value in long.values.items()
        if (s := short_name(name)) in short.values and f"blocks.{gone}." not in name
    )


def permuting_the_heads_changes_nothing(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Head h owns rows h c ... (h + 1) c - 1 of query, key and value, and those columns of the projection."""
    case = model_case(op, draws, dtype)
    config = case.options["config"]
    order = permutation(draws, config.num_heads)
    rows = (order[:, None] * config.head_dim + np.arange(config.head_dim)).ravel()
    block = "blocks.0.attention"
    owners = [f"{block}.{name}.weight" for name in ("query", "key", "value")]
    projection = f"{block}.projection.weight"
    operands = {name: case.operands[name][rows] for name in owners}
    operands[projection] = case.operands[projection][:, rows]
    plain, moved = (answer(implementation, op, each, dtype) for each in (case, changed(case, operands)))
    moves = {f"d{name}": lambda x: x[rows] for name in owners} | {f"d{projection}": lambda x: x[:, rows]}
    return first(differ([name], plain, moved, moves.get(name)) for name in plain.values)


def keeping_all_only_divides_by_1_minus_p(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With every mask True: as in evaluation, with embeddings, projection and contract divided by 1 - p = 1/4, exactly."""
    case = model_case(op, draws, dtype, p=0.75)
    kept = {name: np.ones_like(mask) for name, mask in case.options["keep"].items()}
    ends = (
        TOKEN,
        POSITION,
        "attention.projection.weight",
        "feed_forward.contract.weight",
        "feed_forward.contract.bias",
    )
    larger = {name: 4.0 * value for name, value in case.operands.items() if name.endswith(ends)}
    evaluation = Case({**case.operands, **larger}, {"config": case.options["config"]}, case.upstream)
    training, plain = (answer(implementation, op, each, dtype) for each in (changed(case, keep=kept), evaluation))
    factors = {f"d{name}": 4.0 for name in larger}
    return first(
        differs(
            f"{name} with all kept",
            value,
            factors.get(name, 1.0) * plain.values[name],
            training.budget[name] + factors.get(name, 1.0) * plain.budget[name],
        )
        for name, value in training.values.items()
    )


def dropping_all_leaves_the_last_shift(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With every mask False the norm is given 0: logits = head(shift), and nothing before it has a gradient."""
    case = model_case(op, draws, dtype, p=0.3)
    dropped = {name: np.zeros_like(mask) for name, mask in case.options["keep"].items()}
    got = answer(implementation, op, changed(case, keep=dropped), dtype)
    weight, shift, bias = (case.operands[x].astype(ORACLE) for x in ("lm_head.weight", "norm.shift", "lm_head.bias"))
    own = (len(shift) + 1) * ORACLE_UNIT * (np.abs(weight) @ np.abs(shift) + np.abs(bias))
    if op == "gpt":
        logits = np.broadcast_to(weight @ shift + bias, got.values["logits"].shape)
        if text := differs("logits with all dropped", got.values["logits"], logits, got.budget["logits"] + own):
            return text
    before = [name for name in got.values if name.startswith(("dblocks", "dtoken", "dposition", "dnorm.scale"))]
    return first(unequal(f"{name} with all dropped", got.values[name], 0.0) for name in before)


def both_embeddings_get_one_sum(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Every token is added to a position: their gradients, summed over all rows, are the same."""
    got = answer(implementation, op, model_case(op, draws, dtype), dtype)
    (tokens, allowed), (positions, more) = (
        summed(got.values[f"d{name}"], got.budget[f"d{name}"], 0) for name in (TOKEN, POSITION)
    )
    return differs("sum of the tokens' gradients", tokens, positions, allowed + more)


def one_number_on_the_residual_path_changes_nothing(
    op: str, implementation: Implementation, dtype: str, draws: Draws
) -> str:
    """Whoever reads the path normalises it first: the gradient of what is added to it sums to 0 over the features."""
    got = answer(implementation, op, model_case(op, draws, dtype, layers=draws.choice((1, 2))), dtype)
    axes = {TOKEN: -1, POSITION: -1, "feed_forward.contract.bias": 0}
    axes |= {"attention.projection.weight": 0, "feed_forward.contract.weight": 0}  # (out, in): out is the path
    for name, value in got.values.items():
        for end, axis in axes.items():
            if name.endswith(end):
                total, budget = summed(value, got.budget[name], axis)
                if text := differs(f"{name} summed over the features", total, np.zeros(total.shape), budget):
                    return text
    return ""


_LAWS = (
    a_tied_head_is_the_embedding_twice,
    a_block_that_adds_nothing_is_no_block,
    permuting_the_heads_changes_nothing,
    keeping_all_only_divides_by_1_minus_p,
    dropping_all_leaves_the_last_shift,
    both_embeddings_get_one_sum,
    one_number_on_the_residual_path_changes_nothing,
)
LAWS: dict[str, tuple[Law, ...]] = {op: tuple(of(op, law) for law in _LAWS) for op in GPTS}
