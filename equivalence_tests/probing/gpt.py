"""The conventions of a transformer: a language model or one of its blocks, as a torch module.

A module is asked through hooks: what goes into a block is made a million times as large, what comes out of the first
feed-forward product is replaced by known numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.activations import X_GELU, gelu_forms
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Subject, arrays_of, of_shape

ALIASES = {
    "ids": ("input_ids", "idx", "x", "input", "tokens", "src", "hidden_states", "X"),
    "targets": ("labels",),
}
LARGE = 1e6  # beside it what attention and feed-forward add is nothing, and float32 still holds it
LITTLE = 2.0**-8  # far above what a branch is beside LARGE, far below the residual path itself


def probe_gpt(function: Any) -> list[Convention]:
    """Norms, tied head, causality, activation, positions, biases. Refused if no call is answered."""
    subject = Subject(function, ALIASES, ("ids",))
    if not subject.module:
        from equivalence_tests.probing.gpt_function import probe_gpt_function

        return probe_gpt_function(function)
    model = Model(subject)
    found = [asked("gpt_norm", {}, lambda: _norm(model)), asked("gpt_activation", {}, lambda: _activation(model))]
    axes = asked("gpt_axes", {}, lambda: _axes(model))
    found += [axes, asked("gpt_causal", {}, lambda: _causal(model, axes)), _biases(model)]
    if not model.tables:
        return found
    last = [asked(name, {}, lambda ask=ask: ask(model)) for name, ask in ASKED_OF_MODELS.items()]  # type: ignore[misc]
    return found + last


class Model:
    """A module that takes ids, or a block that takes vectors: the call, the blocks, and what hooks see."""

    def __init__(self, subject: Subject) -> None:
        import torch

        self.torch, self.subject, self.module = torch, subject, subject.function
        self.tables = [m for m in self.module.modules() if isinstance(m, torch.nn.Embedding)]
        smallest = min((table.num_embeddings for table in self.tables), default=0)
        rng = np.random.default_rng(0)
        if self.tables:
            ids = np.array([[3, 1, 4, 1], [2, 2, 1, 5]]) % smallest
            calls = [{"ids": ids}, {"ids": ids, "targets": ids}]  # some give the last place alone without targets
        else:
            widths = {size for p in self.module.parameters() for size in p.shape}
            calls = [{"ids": rng.standard_normal((2, 4, width))} for width in sorted(widths)]
        if not self.tables or "targets" not in subject.names:
            calls = [call for call in calls if "targets" not in call]
        else:
            calls.reverse()
        place, outputs = subject.settle(*calls)
        self.options = {name: X for name, X in calls[place].items() if name != "ids"}
        self.input, self.output = calls[place]["ids"], self._logits(outputs)
        of_shape(self.output, 2, 4, self.output.shape[-1] if self.output.ndim else 0)
        self.ids = smallest
        width = self.output.shape[-1]
        tables = self._looked_up() or self.tables
        self.table = next((table for table in tables if table.num_embeddings == width), None)
        self.blocks = [self.module] if not self.tables else _blocks(self.module, torch)

    def _looked_up(self) -> list[Any]:
        """The tables that are called with the ids; none if they are not called as modules."""
        found = []

        def look(table: Any, positional: tuple[Any, ...]) -> None:
            if any(np.array_equal(array, self.input) for array in arrays_of(positional)):
                found.append(table)

        handles = [table.register_forward_pre_hook(look) for table in self.tables]
        try:
            self()
        finally:
            for handle in handles:
                handle.remove()
        return found

    def __call__(self, X: Array | None = None) -> Array:
        X = self.input if X is None else X
        given: dict[str, Any] = dict.fromkeys(("ids", *self.options), X)
        return self._logits(self.subject(**given))

    def _logits(self, outputs: list[Array]) -> Array:
        """The first output that has three axes: a loss may come before it."""
        return next((each for each in outputs if each.ndim == 3), outputs[0])

    @contextmanager
    def hooked(self, module: Any, before: Any = None, after: Any = None) -> Iterator[None]:
        """`before` maps the first argument of the module, `after` the first output; None looks only."""
        handles = []
        if before is not None:

            def enter(_: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
                if positional:
                    return (_mapped(before, positional[0]), *positional[1:]), keywords
                name = next(iter(keywords))
                return positional, keywords | {name: _mapped(before, keywords[name])}

            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        if after is not None:

            def leave(_: Any, __: Any, output: Any) -> Any:
                if isinstance(output, tuple):
                    return (_mapped(after, output[0]), *output[1:])
                return _mapped(after, output)

            handles.append(module.register_forward_hook(leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _blocks(module: Any, torch: Any) -> list[Any]:
    """The first list of modules of one class that have parts of their own; none if there is no such list."""
    for each in module.modules():
        if isinstance(each, torch.nn.ModuleList | torch.nn.Sequential):
            blocks = list(each)
            if blocks and len({type(block) for block in blocks}) == 1 and list(blocks[0].children()):
                return blocks
    return []


def _mapped(change: Any, tensor: Any) -> Any:
    changed = change(tensor)
    return tensor if changed is None else changed


def _norm(model: Model) -> Convention:
    """Whether the residual path of the first block goes through unnormalised."""
    if not model.blocks:
        return Convention("gpt_norm", "out_of_reach")
    seen: list[Array] = []

    def enlarged(factor: float) -> tuple[Array, Array]:
        seen.clear()

        def large(X: Any) -> Any:
            seen.append(arrays_of(X * factor)[0])
            return X * factor

        with model.hooked(model.blocks[0], large, lambda Y: seen.append(arrays_of(Y)[0])):
            model()
        return seen[0], seen[1]

    X, Y = enlarged(LARGE)
    twice, Y_twice = enlarged(2 * LARGE)
    given, got = {"X[0, 0]": X[0, 0][:3]}, {"Y[0, 0]": Y[0, 0][:3]}
    if np.abs(Y).max() <= LITTLE * np.abs(X).max():
        return Convention("gpt_norm", "post", given, got)
    if np.abs(Y - X).max() > LITTLE * np.abs(X).max():
        return Convention("gpt_norm", "neither", given, got)
    grows = np.abs(Y_twice - twice).max() > 1.5 * np.abs(Y - X).max() and np.abs(Y - X).max() > LARGE * 2.0**-20
    return Convention("gpt_norm", "neither" if grows else "pre", given, got)


def _activation(model: Model) -> Convention:
    """Known numbers in place of the first product of the feed-forward: what arrives at the second tells the function."""
    order: list[Any] = []
    leaves = [
        m for m in (model.blocks or [model.module])[0].modules() if getattr(getattr(m, "weight", None), "ndim", 0) == 2
    ]
    handles = [leaf.register_forward_hook(lambda m, _, output: order.append((m, output.shape[-1]))) for leaf in leaves]
    try:
        model()
    finally:
        for handle in handles:
            handle.remove()
    pairs = [
        (a, b, wide)
        for (a, wide), (b, narrow) in itertools.pairwise(order)
        if wide in b.weight.shape and narrow in a.weight.shape and wide != narrow
    ]
    if not pairs:
        return Convention("gpt_activation", "out_of_reach")
    expand, contract, wide = pairs[-1]
    values = np.resize(X_GELU, wide)
    seen: list[Array] = []

    def known(Y: Any) -> Any:
        return model.torch.zeros_like(Y) + model.torch.from_numpy(values).to(Y.dtype)

    with model.hooked(expand, None, known), model.hooked(contract, lambda X: seen.append(arrays_of(X)[0])):
        model()
    got = seen[0].reshape(-1, wide)[0][: len(X_GELU)]
    forms = gelu_forms(values[: len(X_GELU)])
    given = {"expand(X)": values[: len(X_GELU)]}
    return choose("gpt_activation", got, forms, given, "into contract", roundoff=model.subject.roundoff)


def _moved(model: Model, place: tuple[int, int]) -> Array:
    """(two axes of X): where the output changes if X changes in one place."""
    changed = model.input.copy()
    changed[place] = (changed[place] + 1) % model.ids if model.ids else -changed[place]
    with model.torch.no_grad():
        difference = np.abs(model(changed) - model.output).max(-1)
    limit = 64 * model.subject.roundoff * np.abs(model.output).max()  # a product may be summed in another order
    return np.asarray(difference > limit)


def _axes(model: Model) -> Convention:
    """A change in the first place of the first sequence reaches the places after it, and no other sequence."""
    moved = _moved(model, (0, 0))
    given, got = {"X": f"{model.input.shape}, [0, 0] changes"}, {"changed": moved}
    along, across = moved[0, 1:].any(), moved[1:, 0].any()
    if along == across:
        return Convention("gpt_axes", "unmatched", given, got)
    return Convention("gpt_axes", "batch_first" if along else "sequence_first", given, got)


def _causal(model: Model, axes: Convention) -> Convention:
    """Another last token: whether anything before it changes."""
    moved = _moved(model, (0, -1)) if axes.answer != "sequence_first" else _moved(model, (-1, 0)).T
    given = {"X": f"{model.input.shape}, the last token of the first sequence changes"}
    return Convention("gpt_causal", "no" if moved[0, :-1].any() else "yes", given, {"changed": moved[0]})


def _biases(model: Model) -> Convention:
    """Which linear layers and norms have a bias."""
    found = {"with": [], "without": []}  # type: ignore[var-annotated]
    for name, module in model.module.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if not own or module in model.tables:
            continue
        has = any("bias" in key or "shift" in key or "beta" in key for key in own)
        found["with" if has else "without"].append(name or type(module).__name__)
    answer = "all" if not found["without"] else "none" if not found["with"] else "some"
    without = ", ".join(dict.fromkeys(name.split(".")[-1] for name in found["without"])) or "none"
    with_ = ", ".join(dict.fromkeys(name.split(".")[-1] for name in found["with"])) or "none"
    return Convention("gpt_biases", answer, {"with": with_}, {"without": without}, {"without": without})


# Asked of models alone


def _tied(model: Model) -> Convention:
    """Another embedding of a token that is not there: whether its logit changes."""
    logits = model.output
    if model.table is None:
        return Convention("gpt_head", "no_head", {}, {"output": f"shape {logits.shape}"})
    absent = next(i for i in range(logits.shape[-1]) if i not in model.input)
    row = model.table.weight.data[absent]
    before = row.clone()
    row += model.torch.arange(1.0, len(row) + 1).to(row.dtype)  # not a constant: a norm's output may sum to 0
    try:
        after = model()
    finally:
        row.copy_(before)
    moved = not np.array_equal(after[..., absent], logits[..., absent])
    given = {f"embedding[{absent}]": "+ (1, 2, ..)", "ids": model.input[0]}
    got = {f"logit {absent}": logits[0, -1, absent], "then": after[0, -1, absent]}
    return Convention("gpt_head", "tied" if moved else "untied", given, got)


def _positions(model: Model) -> Convention:
    """One token four times: without positions every place gives the same."""
    ids = np.full((1, 4), 1)
    Y = model(ids)
    same = np.abs(Y[0, 1:] - Y[0, :1]).max() <= 64 * model.subject.roundoff * np.abs(Y).max()
    return Convention("gpt_positions", "no" if same else "yes", {"ids": ids[0]}, {"Y[0, :, 0]": Y[0, :, 0]})


def _last_norm(model: Model) -> Convention:
    """A thousand times the last block's output: after a norm that is the same."""
    if not model.blocks:
        return Convention("gpt_last_norm", "out_of_reach")
    before = model()
    with model.hooked(model.blocks[-1], None, lambda Y: Y * 1e3):
        after = model()
    grown = float(np.abs(after).max() / np.abs(before).max())
    given = {"the last block's output": "times 1000"}
    got = {"the model's": f"times {grown:.3g}"}
    return Convention("gpt_last_norm", "no" if grown > 30 else "yes", given, got)  # 30 is the middle between 1 and 1000


ASKED_OF_MODELS = {"gpt_head": _tied, "gpt_positions": _positions, "gpt_last_norm": _last_norm}
