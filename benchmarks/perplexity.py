"""Held-out perplexity of n-grams, an RNN and a GPT over one vocabulary, the neural two after equally many tokens."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.ngrams import KneserNey
from benchmarks.perplexity_report import markdown, verdict
from benchmarks.search import QUICK, SEED, WINDOW, Plan, Run, Text, choose, settings, split, train
from benchmarks.token_losses import difference, groups, mean_losses, neural_losses, ngram_losses, whole_stories
from equivalence_tests.flags import Parser
from equivalence_tests.implementations import has_torch
from equivalence_tests.model_pictures import loss_picture
from equivalence_tests.train import one_line
from equivalence_tests.verify import machine, versions
from reference_numpy._check import Array
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import read_texts
from reference_numpy.generate import Step, generate_tokens
from reference_numpy.sampling import SamplingConfig
from reference_numpy.tokenizer import Tokenizer
from reference_numpy.train import Row, perplexity

SCHEMA = 1
ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3, "5-gram": 5}  # white space is a token: a 5-gram sees two words back
PROMPT, SAMPLES = "Habia una vez", 3
Reader = tuple[Step, int | None]  # a model for the sampler, and the most tokens that it reads at once
RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="python -m benchmarks.perplexity",
        description="Compare unigram, bigram, trigram, RNN and GPT on held-out stories: one vocabulary, the same targets, "
        "the neural two after equally many tokens and the best of equally many settings. Writes perplexity-NAME.json, .md "
        "and .png. Exit status: 0 done, 130 stopped by Ctrl-C, 2 for a wrong argument or file.",
    )
    parse.add_argument(
        "--data", help="a UTF-8 file, one story a line, or a .csv with a column text; default: the tales"
    )
    tokens = f"targets that each neural model trains on, rounded to whole epochs (default: {Plan.tokens})"
    parse.add_argument("--tokens", type=int, metavar="N", help=tokens)
    parse.add_argument(
        "--twin", choices=("torch", "numpy"), default="torch", help="who computes (default: %(default)s)"
    )
    parse.add_argument("--threads", type=int, metavar="N", help="of torch (default: its own choice)")
    parse.add_argument("--quick", action="store_true", help="a few stories and tiny models, to see that all of it runs")
    parse.add_argument("--out", type=Path, default=RESULTS, help="the folder written (default: benchmarks/results)")
    return parse


def main(argv: list[str] | None = None) -> int:
    given = parser().parse_args(argv)
    say = Console(soft_wrap=True, highlight=False)
    plan = QUICK if given.quick else Plan()
    path = Path(given.data) if given.data is not None else corpus_path()
    name = f"perplexity-{path.stem}{'-quick' if given.quick else ''}"
    try:
        check(given)
        given.out.mkdir(parents=True, exist_ok=True)  # before the work of minutes, not after it
        result, lines = compare(path, plan, given.tokens or plan.tokens, given.twin, say)
        (given.out / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
        (given.out / f"{name}.md").write_text(markdown(result, f"{name}.png"), "utf-8")
        loss_picture(lines, given.out / f"{name}.png")
    except KeyboardInterrupt:
        print("\npython -m benchmarks.perplexity: stopped; a comparison is written at its end alone", file=sys.stderr)
        return 130
    except (ValueError, OSError, MemoryError) as error:
        print(f"python -m benchmarks.perplexity: {one_line(error)}", file=sys.stderr)
        return 2
    for sentence in verdict(result):
        say.print(sentence, markup=False)
    say.print(
        f"Wrote {', '.join(f'{name}.{suffix}' for suffix in ('json', 'md', 'png'))} into {given.out}", markup=False
    )
    return 0


def check(given: argparse.Namespace) -> None:
    for flag, value in (("--tokens", given.tokens), ("--threads", given.threads)):
        if value is not None and value < 1:
            raise ValueError(f"{flag}: {value} came, expected at least 1")
    if given.twin == "numpy":
        if given.threads is not None:
            raise ValueError(
                "--threads: it came with --twin numpy, expected with torch (NumPy's: OPENBLAS_NUM_THREADS)"
            )
        return
    if not has_torch():
        raise ValueError("--twin: torch is not installed, expected numpy (or pip install 'gemelos[torch]')")
    if given.threads is not None:
        import torch

        torch.set_num_threads(given.threads)


def compare(
    path: Path, plan: Plan, tokens: int, twin: str, say: Console
) -> tuple[dict[str, Any], dict[str, list[Row]]]:
    """Everything, as it goes into the JSON; and the curves of the picture."""
    text = split(read_texts(path)[: plan.stories])
    epochs = max(1, round(tokens / text.train.num_tokens))
    described = description(path, text)
    say.print(f"{path.name}: " + ", ".join(f"{key} {value}" for key, value in described["train"].items()), markup=False)
    losses, models, steps = count_ngrams(text, say)
    runs = settings(text, plan, epochs, twin)
    for run in runs:
        train(run, text, say)
    best = {family: choose([run for run in runs if run.family == family]) for family in ("rnn", "gpt")}
    for family, run in best.items():
        label = family.upper()
        losses[label] = {name: neural_losses(run.learner, part) for name, part in text.parts().items()}
        models[label] = {"kind": family, "parameters": run.num_parameters, "run": runs.index(run)}
        steps[label] = (run.learner.step, WINDOW if family == "gpt" else None)
    result = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "twin": twin,
        "threads": thread_count(twin),
        "data": described,
        "settings": {**asdict(plan), "tokens": tokens, "epochs": epochs, "window": WINDOW, "seed": SEED},
        "models": {name: {**model, **table_row(losses, name, text)} for name, model in models.items()},
        "first_two": first_two(losses),
        "runs": [run.described() for run in runs],
        "chosen_by": "the validation loss after the last epoch",
        **samples(steps, text.train.tokenizer, plan),
    }
    return result, curves(best, losses["trigram"])


def description(path: Path, text: Text) -> dict[str, Any]:
    """The name alone of the file: where it lies is nobody's business."""
    found: dict[str, Any] = {
        "name": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "vocabulary": text.train.tokenizer.vocab_size,
        "min_frequency": 2,
        "options": text.train.tokenizer.options(),
    }
    for name, data in text.parts().items():
        stories = len(whole_stories(data))
        unknown = round(data.unknown_rate, 5)
        found[name] = {"stories": stories, "windows": len(data), "targets": data.num_tokens, "unknown rate": unknown}
    masks = groups(whole_stories(text.test), text.train.tokenizer, WINDOW)
    found["test groups"] = {name: int(mask.sum()) for name, mask in masks.items()}
    return found


def count_ngrams(
    text: Text, say: Console
) -> tuple[dict[str, dict[str, list[Array]]], dict[str, Row], dict[str, Reader]]:
    """The losses of every n-gram model on every part, what the report says of the model, and its step for the sampler."""
    tokenizer = text.train.tokenizer
    losses: dict[str, dict[str, list[Array]]] = {}
    models: dict[str, Row] = {}
    steps: dict[str, Reader] = {}
    special = {"vocab_size": tokenizer.vocab_size, "bos_id": tokenizer.bos_id, "pad_id": tokenizer.pad_id}
    for name, order in ORDERS.items():
        model = KneserNey(whole_stories(text.train), order, **special)
        losses[name] = {part: ngram_losses(model, data) for part, data in text.parts().items()}
        models[name] = {"kind": "n-gram", "parameters": model.num_ngrams, "discounts": model.discounts}
        steps[name] = (model.step, None)
        found = perplexity(float(np.concatenate(losses[name]["validation"]).mean()))
        say.print(f"{name}: {model.num_ngrams:,} n-grams, validation perplexity {found:.2f}", style="bold")
    return losses, models, steps


def table_row(losses: dict[str, dict[str, list[Array]]], name: str, text: Text) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, data in text.parts().items():
        masks = groups(whole_stories(data), text.train.tokenizer, WINDOW)
        every = float(np.concatenate(losses[name][part]).mean())
        by_group = mean_losses(losses[name][part], masks)
        found[part] = {"loss": every, "perplexity": perplexity(every), "by_group": by_group}
    return {**found, "test_loss_minus_gpt": gap(losses, name, "GPT")}


def gap(losses: dict[str, dict[str, list[Array]]], name: str, base: str) -> dict[str, float | None]:
    mean, error = difference(losses[name]["test"], losses[base]["test"])
    return {"mean": mean, "standard_error": error}


def first_two(losses: dict[str, dict[str, list[Array]]]) -> dict[str, Any]:
    """The best model on the test set, the next one, and how far apart they are."""
    best, second, *_ = sorted(losses, key=lambda name: float(np.concatenate(losses[name]["test"]).mean()))
    return {"best": best, "second": second, **gap(losses, second, best)}


def samples(steps: dict[str, Reader], tokenizer: Tokenizer, plan: Plan) -> dict[str, Any]:
    """Three texts of every model through the one sampler; from nothing, if the vocabulary knows no word of the prompt."""
    prompt = PROMPT if tokenizer.decode_text(tokenizer.encode(PROMPT)).strip() else ""
    sampling = SamplingConfig(max_tokens=plan.max_tokens)  # 0.8, 50 and 1.01: source 2's

    def text(step: Step, window: int | None, seed: int) -> str:
        (one,) = generate_tokens(step, tokenizer, prompt, sampling, seed=seed, context_window=window)
        return one

    texts = {name: [text(*reader, seed) for seed in range(SAMPLES)] for name, reader in steps.items()}
    return {"prompt": prompt, "sampling": asdict(sampling), "samples": texts}


def curves(best: dict[str, Run], trigram: dict[str, list[Array]]) -> dict[str, list[Row]]:
    """The chosen two as they were trained, and the trigram's losses as level lines."""
    ends = (1, max(row["step"] for run in best.values() for row in run.rows))
    level = {name: float(np.concatenate(trigram[name]).mean()) for name in ("train", "validation")}
    lines: list[Row] = [{"step": at, "loss": level["train"]} for at in ends]
    lines += [{"step": at, "held_out_loss": level["validation"]} for at in ends]
    return {**{name.upper(): run.rows for name, run in best.items()}, "trigram": lines}


def thread_count(twin: str) -> int | str:
    if twin == "numpy":
        return os.environ.get("OPENBLAS_NUM_THREADS", "as NumPy chose")
    import torch

    return torch.get_num_threads()


if __name__ == "__main__":
    raise SystemExit(main())
