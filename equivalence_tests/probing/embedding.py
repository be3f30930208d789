"""The conventions of an embedding: order of arguments, padding, ids out of range, repeated ids."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Refused, Subject, arrays_of, converted, guarded, of_shape

ALIASES = {
    "ids": ("input", "indices", "idx", "input_ids", "index", "tokens", "x"),
    "weight": ("weights", "W", "table", "embeddings", "matrix", "E"),
    "padding_idx": ("padding_id", "pad_id", "pad_token_id", "pad", "padding"),
}
V, D = 4, 3
WEIGHT = np.arange(1.0, V * D + 1).reshape(V, D)
IDS = np.array([2, 0, 2])


class Table:
    """The function or module, with ids and weight in whatever order."""

    def __init__(self, function: Any) -> None:
        self.function, self.subject = function, Subject(function, ALIASES, ("ids", "weight"))
        self.weight, self.swapped, self.factor = WEIGHT, False, 1.0
        if self.subject.module:
            self.own = next(function.parameters())
            self.weight = np.arange(1.0, self.own.numel() + 1).reshape(self.own.shape)
            self.own.data.copy_(converted(self.weight, "torch", "float64"))

    def values(self, ids: Array, weight: Any = None) -> dict[str, Any]:
        if self.subject.module:
            return {"ids": ids}
        weight = self.weight if weight is None else weight
        return {"ids": weight, "weight": ids} if self.swapped else {"ids": ids, "weight": weight}

    def __call__(self, ids: Any, **options: Any) -> Array:
        Y = self.subject(**self.values(np.asarray(ids)), **options)[0]
        return of_shape(Y, *np.shape(ids), self.weight.shape[1])

    def gradient(self, ids: Array, dY: Array, **options: Any) -> Array | None:
        """dweight, by autograd or by the backward that stands beside the function; None if there is neither."""
        if self.subject.framework == "torch":
            return self._by_autograd(ids, dY, options)
        name, module = getattr(self.function, "__name__", ""), sys.modules.get(getattr(self.function, "__module__", ""))
        backward = getattr(module, f"{name}_backward", None)
        answer = self.subject.raw(**self.values(ids), **options)
        if backward is None or not isinstance(answer, tuple) or len(answer) != 2:
            return None
        gradients = arrays_of(guarded(backward, converted(dY, "numpy", self.subject.dtype), answer[1]))
        return next((g for g in gradients if g.shape == self.weight.shape), self.weight * np.nan)

    def _by_autograd(self, ids: Array, dY: Array, options: dict[str, Any]) -> Array:
        weight = (
            self.own if self.subject.module else converted(self.weight, "torch", self.subject.dtype).requires_grad_()
        )
        weight.grad = None
        Y = self.subject.raw(**self.values(ids, weight), **options)
        guarded(Y.backward, converted(dY, "torch", self.subject.dtype))
        found = arrays_of(weight.grad)
        weight.grad = None
        if not found:
            raise Refused("its gradient is None")
        return found[0]


def probe_embedding(function: Any) -> list[Convention]:
    """Order, factor, padding forward and backward, repeats, range. Refused if no call is answered."""
    table = Table(function)
    order, factor = _order(table)
    if not order.told:
        return [order]
    padding, options = _padding_id(table)
    pads = [_padded_row(table, padding, options), _padded_gradient(table, padding, options)]
    return [order, factor, padding, *pads, _repeats(table, padding), _negative(table), _beyond(table)]


def _order(table: Table) -> tuple[Convention, Convention]:
    """Which argument comes first, and whether rows are multiplied by sqrt(d)."""
    rows = table.weight[IDS]
    given = {"ids": IDS, "weight[0]": table.weight[0]}
    alternatives = {"none": rows, "root": rows * np.sqrt(rows.shape[1])}
    first: Refused | None = None
    for table.swapped in (False, True):
        try:
            Y = table.subject.settle(table.values(IDS))[1][0]
        except Refused as refused:
            first = first or refused
            if table.subject.module:
                break
            continue
        factor = choose("embedding_factor", Y, alternatives, given, roundoff=table.subject.roundoff)
        names = list(table.subject.parameters or {})
        ids = table.subject.names.get("weight" if table.swapped else "ids")
        first_of_all = names.index(ids) == 0 if ids in names else not table.swapped
        answer = "module" if table.subject.module else "ids_first" if first_of_all else "weight_first"
        if factor.told:
            table.factor = float(np.sqrt(rows.shape[1])) if factor.answer == "root" else 1.0
            return Convention("embedding_order", answer, given, {"Y": Y}), factor
    if first is not None and table.swapped:
        raise first
    return Convention("embedding_order", "unmatched", given), Convention("embedding_factor", "unmatched", given)


def _padding_id(table: Table) -> tuple[Convention, dict[str, Any]]:
    """The padding id: one that is given, or a module's own."""
    own = getattr(table.function, "padding_idx", None) if table.subject.module else table.subject.default("padding_idx")
    if "padding_idx" in table.subject.names:
        answer = "option" if own is None else "default"
        return Convention("padding_id", answer, {}, {}, {"index": 2 if own is None else own}), {"padding_idx": 2}
    if own is not None:
        return Convention("padding_id", "own", {}, {}, {"index": own}), {}
    still = [i for i in range(len(table.weight)) if not table(np.array([i])).any()]
    if still:
        return Convention("padding_id", "own", {"ids": still}, {"Y": "0"}, {"index": still[0]}), {}
    return Convention("padding_id", "none", {"ids": f"0 .. {len(table.weight) - 1}"}, {"rows of 0": "none"}), {}


def _padded_row(table: Table, padding: Convention, options: dict[str, Any]) -> Convention:
    if padding.answer == "none":
        return Convention("padding_row", "no_option")
    index = int(options.get("padding_idx", padding.numbers["index"]))
    given = {"ids": [index], **options, f"weight[{index}]": table.weight[index]}

    def decide() -> Convention:
        Y = table(np.array([index]), **options)
        alternatives = {"kept": table.factor * table.weight[[index]], "zero": np.zeros((1, table.weight.shape[1]))}
        return choose("padding_row", Y, alternatives, given, roundoff=table.subject.roundoff)

    return asked("padding_row", given, decide)


def _upstream(table: Table, ids: Array) -> Array:
    return np.random.default_rng(0).integers(1, 9, (len(ids), table.weight.shape[1])) * 1.0


def _padded_gradient(table: Table, padding: Convention, options: dict[str, Any]) -> Convention:
    if padding.answer == "none":
        return Convention("padding_gradient", "no_option")
    index = int(options.get("padding_idx", padding.numbers["index"]))
    ids = np.array([index, 1 if index != 1 else 0])
    dY = _upstream(table, ids)
    given = {"ids": ids, **options, "dY[0]": dY[0]}

    def decide() -> Convention:
        dweight = table.gradient(ids, dY, **options)
        if dweight is None:
            return Convention("padding_gradient", "out_of_reach")
        got = dweight[index] / table.factor
        alternatives = {"flows": dY[0], "stopped": np.zeros_like(dY[0])}
        return choose(
            "padding_gradient", got, alternatives, given, f"dweight[{index}]", roundoff=table.subject.roundoff
        )

    return asked("padding_gradient", given, decide)


def _repeats(table: Table, padding: Convention) -> Convention:
    ids = np.array([1, 3, 1]) if padding.numbers.get("index") != 1 else np.array([0, 3, 0])
    dY = _upstream(table, ids)
    given = {"ids": ids, "dY[:, 0]": dY[:, 0]}

    def decide() -> Convention:
        dweight = table.gradient(ids, dY)
        if dweight is None:
            return Convention("embedding_repeats", "out_of_reach")
        got = dweight[ids[0]] / table.factor
        alternatives = {"added": dY[0] + dY[2], "last": dY[2], "first": dY[0], "mean": (dY[0] + dY[2]) / 2}
        return choose(
            "embedding_repeats", got, alternatives, given, f"dweight[{ids[0]}]", roundoff=table.subject.roundoff
        )

    return asked("embedding_repeats", given, decide)


def _negative(table: Table) -> Convention:
    given = {"ids": [-1]}
    weight = table.factor * table.weight

    def decide() -> Convention:
        Y = table(np.array([-1]))
        alternatives = {"from_end": weight[[-1]], "zero": weight[[0]] * 0, "first": weight[[0]]}
        return choose("negative_id", Y, alternatives, given, roundoff=table.subject.roundoff)

    return asked("negative_id", given, decide)


def _beyond(table: Table) -> Convention:
    weight = table.factor * table.weight
    given = {"ids": [len(weight)], "v": len(weight)}

    def decide() -> Convention:
        Y = table(np.array([len(weight)]))
        alternatives = {"clipped": weight[[-1]], "zero": weight[[0]] * 0, "wrapped": weight[[0]]}
        alternatives["nan"] = np.full_like(weight[[0]], np.nan)
        return choose("id_beyond", Y, alternatives, given, roundoff=table.subject.roundoff)

    return asked("id_beyond", given, decide)
