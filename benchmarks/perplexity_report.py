"""The comparison in words and Markdown: who wins, by how much, and what one needs to find out why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_numpy.train import perplexity

Result = dict[str, Any]
MAIN = ("unigram", "bigram", "trigram", "RNN", "GPT")


def markdown(result: Result, picture: str) -> str:
    """The whole report: the verdict, the table, the reasons, the search, the samples. picture: the name of its file."""
    parts = [
        f"# Perplexity on held-out stories of {result['data']['name']}",
        "\n".join(f"* {sentence}" for sentence in verdict(result)),
        _main_table(result),
        _conditions(result),
        "## Where the loss is",
        "Nats per token on the test set, and on the training set after the last step with nothing dropped. The tokens of "
        "a group are the same for all models. The RNN and the GPT read windows that begin anew at a cut.",
        _groups_table(result),
        "## The search",
        "Chosen by the validation loss after the last epoch, at equal tokens seen; the best epoch is shown beside it.",
        _search_table(result),
        f"![Loss after each step, and on the validation set after each epoch]({picture})",
        "## Samples",
        f"{_sampling(result)} As they came out.",
        *(_samples(name, texts) for name, texts in result["samples"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def verdict(result: Result) -> list[str]:
    """What the figures say, whoever wins."""
    models, two = result["models"], result["first_two"]
    order = sorted(models, key=lambda name: float(models[name]["test"]["loss"]))
    ranking = ", ".join(f"{name} {models[name]['test']['perplexity']:.2f}" for name in order)
    said = [
        f"Test perplexity per token, from the best: {ranking}.",
        f"The best is the {two['best']}: {_gap(two)} the {two['second']}{_settled(two)}.",
    ]
    for name in ("trigram", "RNN"):
        gap = models[name]["test_loss_minus_gpt"]
        beats = "beats" if gap["mean"] > 0.0 else "does not beat"
        said.append(f"The GPT {beats} the {name}: {_gap(gap)} it{_settled(gap)}.")
        if gap["mean"] <= 0.0:
            said.append(_why(result, name))
    return said + [_overfitting(result["runs"], family) for family in ("rnn", "gpt")]


def _gap(gap: dict[str, Any]) -> str:
    """gap: of another model's loss, over this one's."""
    if gap["mean"] == 0.0:
        return "the same loss as"
    return f"{abs(gap['mean']):.4f} nats per token {'below' if gap['mean'] > 0.0 else 'above'}"


def _settled(gap: dict[str, Any]) -> str:
    error = gap["standard_error"]
    if error is None:
        return " (one test story: no standard error)"
    open_question = ", so these stories do not settle it" if abs(gap["mean"]) <= 2.0 * error else ""
    return f" (standard error over stories {error:.4f}{open_question})"


def _why(result: Result, name: str) -> str:
    """Where the GPT loses against a model that it does not beat, and whether it learns too little or too much by heart."""
    gpt, other = result["models"]["GPT"], result["models"][name]
    counts, total = result["data"]["test groups"], result["data"]["test"]["targets"]
    gaps = [
        f"{group} {own - other['test']['by_group'][group]:+.3f} ({counts[group] / total:.0%} of the tokens)"
        for group, own in gpt["test"]["by_group"].items()
        if own is not None
    ]
    own, theirs = gpt["train"]["loss"], other["train"]["loss"]
    little, much = "it has not learnt the training stories as well", "it has learnt them better, but less carries over"
    fit = f"on the training set {own:.3f} against {theirs:.3f}: {little if own > theirs else much}"
    return f"Why not the {name}, in nats per token above it: {', '.join(gaps)}; {fit}."


def _overfitting(runs: list[dict[str, Any]], family: str) -> str:
    own = [run for run in runs if run["family"] == family]
    last = len(own[0]["curve"])
    rose = sum(run["best_epoch"] < last for run in own)
    label, settings = family.upper(), f"of the {len(own)} settings"
    if rose == 0:
        return f"{label}: in none {settings} did the validation loss rise before the end: more tokens might help."
    if rose == len(own):
        return f"{label}: in all {settings} the validation loss rose before the end: it overfits."
    return f"{label}: in {rose} {settings} the validation loss rose before the end."


def _main_table(result: Result) -> str:
    head = ("model", "size", "validation perplexity", "test perplexity", "nats per token above the GPT")
    rows = []
    models = result["models"]
    for name in (*MAIN, *(name for name in models if name not in MAIN)):
        model = models[name]
        what = "n-grams" if model["kind"] == "n-gram" else "parameters"
        gap, error = model["test_loss_minus_gpt"]["mean"], model["test_loss_minus_gpt"]["standard_error"]
        spread = "" if error is None else f" ± {error:.4f}"
        shown = "-" if name == "GPT" else f"{gap:+.4f}{spread}"
        held = [f"{model[part]['perplexity']:.2f}" for part in ("validation", "test")]
        rows.append((name, f"{model['parameters']:,} {what}", *held, shown))
    note = "±: standard error over stories. White space is a token: the trigram sees one word back, the 5-gram two."
    return f"{_table(head, rows)}\n\n{note}"


def _conditions(result: Result) -> str:
    data, settings = result["data"], result["settings"]
    head = ("part", "stories", "targets", "unknown rate")
    rows = [
        (name, f"{data[name]['stories']:,}", f"{data[name]['targets']:,}", f"{data[name]['unknown rate']:.2%}")
        for name in ("train", "validation", "test")
    ]
    run = result["runs"][0]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    machine = f"{result['machine']['system']}, {result['machine']['cores']} cores, {result['threads']} threads"
    return "\n\n".join(
        (
            f"One vocabulary of {data['vocabulary']:,} tokens (those seen at least {data['min_frequency']} times in the "
            "training stories, and four special ones); <UNK> is predicted as any other token, so no figure may be held "
            "against one over another vocabulary. Every token of every story but <BOS> is a target, the same for all.",
            _table(head, rows),
            f"The n-grams read the training stories once; the RNN and the GPT train on {run['tokens_seen']:,} tokens, "
            f"{settings['epochs']} times the training set, in the same batches: AdamW, gradients clipped at norm 1, "
            f"{run['training']['warmup_steps']} steps of warm-up, then a cosine to 0. {result['twin']} twin, {machine}; "
            f"{versions}; SHA-256 of the text {data['sha256'][:16]}...",
        )
    )


def _groups_table(result: Result) -> str:
    models = result["models"]
    counts, total = result["data"]["test groups"], result["data"]["test"]["targets"]
    head = ("model", "all", *(f"{group} ({count / total:.0%})" for group, count in counts.items()), "all, training set")
    rows = [
        (
            name,
            _nats(model["test"]["loss"]),
            *(_nats(model["test"]["by_group"][group]) for group in counts),
            _nats(model["train"]["loss"]),
        )
        for name, model in models.items()
    ]
    return _table(head, rows)


def _search_table(result: Result) -> str:
    chosen = {model["run"] for model in result["models"].values() if "run" in model}
    head = ("model", "learning rate", "parameters", "last validation", "best validation", "training", "seconds")
    rows = []
    for n, run in enumerate(result["runs"]):
        config = run["config"]
        depth = f", {config['num_layers']} layers, dropout {config['dropout']}" if run["family"] == "gpt" else ""
        rows.append(
            (
                f"{run['family'].upper()}, width {config['embedding_dim']}{depth}{' (chosen)' if n in chosen else ''}",
                f"{run['training']['learning_rate']:g}",
                f"{run['parameters']:,}",
                f"{perplexity(run['last_validation_loss']):.2f}",
                f"{perplexity(run['best_validation_loss']):.2f} (epoch {run['best_epoch']})",
                f"{perplexity(run['train_loss']):.2f}",
                f"{run['seconds']:.0f}",
            )
        )
    return f"{_table(head, rows)}\n\nPerplexities; the seconds are those of training with a validation every epoch."


def _sampling(result: Result) -> str:
    sampling = result["sampling"]
    return (
        f"Temperature {sampling['temperature']:g}, top-k {sampling['top_k']}, repetition penalty "
        f"{sampling['repetition_penalty']:g}, at most {sampling['max_tokens']} tokens, prompt “{result['prompt']}”, "
        "one sampler for all, a seed for each text."
    )


def _samples(name: str, texts: list[str]) -> str:
    return f"**{name}**\n\n" + "\n".join(f"{n}. {' '.join(text.split())}" for n, text in enumerate(texts, 1))


def _nats(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
