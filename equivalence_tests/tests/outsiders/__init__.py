"""Small implementations in the styles of public code, right and wrong: what the check says of each, and of which line.

`RIGHT` has, for each function, the conventions that it follows instead of the table's. `WRONG` has changes of one line.
`python -m equivalence_tests.tests.outsiders` judges them all and prints what is not as it should be.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from equivalence_tests.checking import check
from equivalence_tests.report import Report

HERE = Path(__file__).parent
CASES = 24


@dataclass(frozen=True)
class Right:
    """`accept` names the conventions that the report has to say; `lines` are changes of one line, each a mistake."""

    file: str
    name: str
    like: str
    accept: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    own_backward: bool = True


N, L, T, C = "numpy_plain.py", "loops_and_einsum.py", "torch_plain.py", "other_conventions.py"
RIGHT = (
    Right(
        N,
        "softmax_rows",
        "softmax",
        lines=(
            ("weights = np.exp(shifted)", "weights = np.exp(2 * shifted)"),
            ("norm = np.sum(weights, axis=-1, keepdims=True)", "norm = np.sum(weights, keepdims=True)"),
            ("total = mixed.sum(-1, keepdims=True)", "total = mixed.mean(-1, keepdims=True)"),
            ("return mixed - probs * total", "return mixed"),
            ("mixed = grad * probs", "mixed = grad * probs * probs"),
        ),
    ),
    Right(
        N,
        "log_softmax_rows",
        "log_softmax",
        lines=(
            ("total = grad.sum(-1, keepdims=True)", "total = grad.mean(-1, keepdims=True)"),
            ("return grad - np.exp(logp) * total", "return grad - logp * total"),
        ),
    ),
    Right(N, "log_softmax_by_logaddexp", "log_softmax"),
    Right(N, "tanh_forward", "tanh", lines=(("slope = 1 - out * out", "slope = 1 - out"),)),
    Right(N, "relu_forward", "relu", lines=(("mask = x > 0", "mask = x > 0.1"),)),
    Right(
        N,
        "dense",
        "linear",
        lines=(
            ("db = flat.sum(axis=0)", "db = flat.mean(axis=0)"),
            ("out = x @ w.T + b", "out = x @ w.T - b"),
            ("dw = flat.T @ x.reshape(-1, x.shape[-1])", "dw = flat.T @ x.reshape(-1, x.shape[-1]) / len(flat)"),
        ),
    ),
    Right(
        N,
        "layernorm_forward",
        "layer_norm",
        lines=(
            ("inv = 1.0 / np.sqrt(var + 1e-5)", "inv = 1.0 / (np.sqrt(var) + 1e-5)"),
            ("var = np.mean(centred**2, axis=-1, keepdims=True)", "var = np.mean(centred**2, keepdims=True)"),
            ("dxhat = dout * gamma", "dxhat = dout"),
            ("dx = inv * (dxhat - mean_d - xhat * mean_dx)", "dx = inv * (dxhat - mean_d)"),
            ("mean_d = dxhat.mean(axis=-1, keepdims=True)", "mean_d = dxhat.sum(axis=-1, keepdims=True)"),
            ("dgamma = np.sum(dout * xhat, axis=axes)", "dgamma = np.sum(dout * xhat * gamma, axis=axes)"),
            ("out = gamma * xhat + beta", "out = gamma * (xhat + beta)"),
        ),
    ),
    Right(N, "lookup", "embedding", lines=(("np.add.at(dtable, tokens, dout)", "dtable[tokens] += dout"),)),
    Right(
        N,
        "attend",
        "attention",
        lines=(
            ("scores = scores / q.shape[-1] ** 0.5", "scores = scores / q.shape[-1]"),
            (
                "inner = (dweights * weights).sum(-1, keepdims=True)",
                "inner = (dweights * weights).mean(-1, keepdims=True)",
            ),
            ("dv = np.swapaxes(weights, -1, -2) @ dout", "dv = np.swapaxes(weights, -1, -2) @ dout * 2"),
            ("dq = scale * (dscores @ k)", "dq = dscores @ k"),
            ("dk = scale * (np.swapaxes(dscores, -1, -2) @ q)", "dk = -scale * (np.swapaxes(dscores, -1, -2) @ q)"),
            ("dscores = weights * (dweights - inner)", "dscores = dweights - inner"),
            ("dweights = dout @ np.swapaxes(v, -1, -2)", "dweights = dout @ np.swapaxes(v, -1, -2) / len(v)"),
        ),
    ),
    Right(
        N,
        "plain_attention",
        "simple_attention",
        lines=(
            ("dx = dx + dscores @ x", "dx = dx - dscores @ x"),
            ("dx = weights.mT @ dout", "dx = weights @ dout"),
        ),
    ),
    Right(
        N,
        "projected",
        "self_attention",
        lines=(
            ("dwk = flat.T @ dk.reshape(-1, dk.shape[-1])", "dwk = flat.T @ dq.reshape(-1, dq.shape[-1])"),
            ("v = x @ wv", "v = x @ wv * 0.5"),
        ),
    ),
    Right(
        N,
        "nll",
        "cross_entropy",
        lines=(
            ("return dloss * (probs - one_hot) / labels.size", "return dloss * (probs - one_hot)"),
            ("probs = np.exp(logp)", "probs = np.exp(logp) ** 2"),
        ),
    ),
    Right(N, "masked_dropout", "dropout"),
    Right(
        N,
        "gelu_tanh",
        "gelu",
        lines=(
            (
                "slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x**2)",
                "slope = 0.7978845608028654 * (1 + 0.044715 * x**2)",
            ),
        ),
    ),
    Right(
        L,
        "attention_einsum",
        "attention",
        lines=(
            ('dk = np.einsum("...ij,...ic->...jc", ds, q)', 'dk = np.einsum("...ij,...ic->...jc", a, q)'),
            ('dv = np.einsum("...ij,...ie->...je", a, dc)', 'dv = np.einsum("...ij,...ie->...je", a * a, dc)'),
            ("a = e / e.sum(-1, keepdims=True)", "a = e / e.sum(-2, keepdims=True)"),
            ("ds = ds * q.shape[-1] ** -0.5", "ds = ds * q.shape[-1] ** 0.5"),
        ),
    ),
    Right(
        L, "attention_by_queries", "attention", lines=(("e = np.exp(s - s.max())", "e = np.exp(s - s.max()) + 1e-3"),)
    ),
    Right(
        L,
        "attention_running",
        "attention",
        lines=(
            ("total = total * old + e", "total = total + e"),
            ("out = out * old + e * v[..., j, None, :]", "out = out + e * v[..., j, None, :]"),
        ),
    ),
    Right(
        L,
        "layer_norm_rows",
        "layer_norm",
        lines=(("out[i] = (row - mean) / std * g + b", "out[i] = (row - mean) / std * (g + b)"),),
    ),
    Right(
        L,
        "layer_norm_three_terms",
        "layer_norm",
        lines=(
            (
                "dx = ivar / d * (d * dxhat - sum_d - xhat * sum_dx)",
                "dx = ivar / d * (dxhat - sum_d - xhat * sum_dx)",
            ),
            ("mu = x.sum(-1, keepdims=True) / d", "mu = x.sum(-1, keepdims=True) / (d + 1)"),
            ("db = dy.sum(lead)", "db = (dy * g).sum(lead)"),
        ),
    ),
    Right(
        L,
        "linear_einsum",
        "linear",
        lines=(('dx = np.einsum("...k,kd->...d", dy, w)', 'dx = np.einsum("...k,kd->...d", dy, w * w)'),),
    ),
    Right(
        L,
        "rnn_loop",
        "rnn",
        lines=(
            ("dz = dh * (1 - states[t] ** 2)", "dz = dh * (1 - states[t])"),
            ("dh = dz @ w_h", "dh = dz @ w_h.T"),
            ("dh = dh + d_states[..., t, :]", "dh = d_states[..., t, :]"),
        ),
    ),
    Right(L, "embedding_loop", "embedding", lines=(("d[i] += row", "d[i] = row"),)),
    Right(
        L,
        "heads_by_reshape",
        "multi_head_attention",
        lines=(("s = q @ k.mT / math.sqrt(q.shape[-1])", "s = q @ k.mT / math.sqrt(x.shape[-1])"),),
    ),
    Right(L, "heads_in_a_list", "multi_head_attention"),
    Right(T, "softmax", "softmax"),
    Right(
        T,
        "attention",
        "attention",
        lines=(("s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))", "s = q @ k.transpose(-2, -1) / q.size(-1)"),),
    ),
    Right(T, "attention_with_bias", "attention"),
    Right(
        T,
        "layer_norm",
        "layer_norm",
        lines=(("var = x.var(-1, keepdim=True, unbiased=False)", "var = x.var(-1, keepdim=True)"),),
    ),
    Right(T, "cross_entropy", "cross_entropy"),
    Right(T, "gelu", "gelu"),
    Right(T, "lookup", "embedding"),
    Right(T, "linear", "linear", lines=(("y = torch.matmul(x, w.t())", "y = torch.matmul(x, w.t()) * 1.5"),)),
    Right(
        T,
        "Softmax",
        "softmax",
        lines=(("inner = (da * a).sum(-1, keepdim=True)", "inner = (da * a).mean(-1, keepdim=True)"),),
    ),
    Right(T, "Gelu", "gelu"),
    Right(T, "Norm", "layer_norm"),
    Right(
        T,
        "Head",
        "self_attention",
        lines=(
            ("s = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5", "s = q @ k.transpose(-2, -1) * q.shape[-1] ** -1"),
        ),
    ),
    Right(C, "column_softmax", "softmax", ("columns",)),
    Right(C, "column_norm", "layer_norm", ("columns",)),
    Right(C, "column_attention", "attention", ("columns",)),
    Right(C, "rnn_time_major", "rnn", ("middle",)),
    Right(C, "attention_batch_second", "attention", ("middle",)),
    Right(C, "attention_heads_third", "attention", ("layout",)),
    Right(C, "attention_of_three_axes", "attention", ("axes",)),
    Right(C, "loss_of_rows", "cross_entropy", ("axes",)),
    Right(C, "loss_one_hot", "cross_entropy", ("one-hot",)),
    Right(C, "loss_summed", "cross_entropy", ("reduction",)),
    Right(C, "loss_of_each", "cross_entropy", ("reduction",)),
    Right(C, "softmax_in_double", "softmax", ("dtype",)),
    Right(C, "softmax_single_only", "softmax"),
    Right(C, "softmax_double_only", "softmax"),
    Right(C, "norm_small_epsilon", "layer_norm", ("epsilon",)),
    Right(C, "gelu_erf", "gelu", ("gelu-form",)),
    Right(C, "causal_always", "attention", ("causal",)),
    Right(C, "mask_of_large_negatives", "attention", ("fill",)),
    Right(C, "padding_is_true", "attention", ("mask-true",)),
    Right(C, "relu_in_place", "relu", ("in-place",)),
    Right(C, "dense_accumulating", "linear", ("accumulates",)),
    Right(C, "dense_of_weights", "linear"),
    Right("layers.py", "Linear", "linear"),
    Right("layers.py", "Softmax", "softmax"),
    Right("layers.py", "LayerNorm", "layer_norm"),
)
WRONG = tuple((right, number) for right in RIGHT for number in range(len(right.lines)))


def judged(right: Right, change: int | None = None) -> tuple[Report, int]:
    """The report on a function, or on it with one line changed; and the number of that line, 0 if there is none."""
    path, line = HERE / right.file, 0
    with tempfile.TemporaryDirectory() as folder:
        if change is not None:
            old, new = right.lines[change]
            path, line = _changed(path, Path(folder), right.name, old, new)
        module = _module(path)
        report = check(getattr(module, right.name), right.like, cases=CASES)
    return report, line


def _changed(path: Path, folder: Path, name: str, old: str, new: str) -> tuple[Path, int]:
    """A copy of the file in which the first such line behind the function's own is another."""
    text = path.read_text(encoding="utf-8").splitlines()
    kinds = (f"def {name}(", f"class {name}(")
    start = next(i for i, line in enumerate(text) if line.startswith(kinds))
    at = next(i for i in range(start, len(text)) if text[i].strip() == old)
    text[at] = text[at].replace(old, new)
    (folder / path.name).write_text("\n".join(text) + "\n", encoding="utf-8")
    return folder / path.name, at + 1


def _module(path: Path) -> ModuleType:
    name = f"outsider_{path.stem}_{time.monotonic_ns()}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def line_named(report: Report) -> int:
    """The line of the file that the report accuses, 0 if it accuses none."""
    found = [each.numbers["line"] for each in report.findings if each.code.startswith("own_line")]
    return int(found[0]) if found else 0


def main(words: Sequence[str] = ()) -> int:
    chosen = [each for each in RIGHT if not words or any(word in f"{each.file} {each.name}" for word in words)]
    faults, caught, named, count = 0, 0, 0, 0
    for right in chosen:
        began: Any = time.monotonic()
        report, _ = judged(right)
        found = tuple(each.numbers["accept"] for each in report.conventions)
        if report.verdict != ("another convention" if right.accept else "agrees") or found != right.accept:
            faults += 1
            first = report.findings[0].say() if report.findings else ""
            print(f"{right.file}:{right.name}: {report.verdict} {found}, expected {right.accept}: {first}", flush=True)
        for number, (_, new) in enumerate(right.lines):
            report, line = judged(right, number)
            count, caught = count + 1, caught + (report.verdict == "wrong")
            named += line_named(report) == line
            if report.verdict != "wrong" or line_named(report) != line:
                told = "; ".join(each.say() for each in report.findings[:2])
                print(
                    f"{right.name}, line {line}: {new}\n    {report.verdict}, line {line_named(report)}: {told}",
                    flush=True,
                )
        print(f"{right.name} {time.monotonic() - began:.1f} s", file=sys.stderr)
    print(f"{len(chosen) - faults} of {len(chosen)} right ones as they should be")
    print(f"{count} wrong ones: {caught} caught, {named} at their line")
    return int(faults > 0 or caught < count or named < 0.95 * count)
