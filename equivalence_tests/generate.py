"""`gemelos generate`: text out of a checkpoint, on any twin."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console

from equivalence_tests.flags import Parser, add_flags, chosen
from equivalence_tests.gradient_pictures import attention_gradient_picture
from equivalence_tests.implementations import check_device, has_torch
from equivalence_tests.model_pictures import heads_picture, temperature_picture
from equivalence_tests.train import CHECKPOINT, CONFIGS, TWINS, check_parameters, make_learner, one_line
from equivalence_tests.training_gradients import attention_gradients
from reference_numpy.checkpoint import load_checkpoint
from reference_numpy.config import GPTConfig
from reference_numpy.generate import generate_tokens
from reference_numpy.gpt import attention_maps
from reference_numpy.learner import Learner
from reference_numpy.sampling import SamplingConfig, ban
from reference_numpy.tokenizer import Tokenizer


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="gemelos generate",
        description="Continue a prompt with a trained model. The same seed gives the same text, on any twin. The prompt "
        "is prepared as the training text was (accents, case); words that the model does not know are said. "
        "Exit status: 0 done, 2 for a wrong argument or file.",
    )
    parse.add_argument(
        "--checkpoint", type=Path, default=Path("runs/gpt") / CHECKPOINT, help="what train wrote (default: %(default)s)"
    )
    parse.add_argument("--prompt", default="Habia una vez", help='the beginning; may be empty (default: "%(default)s")')
    parse.add_argument("--samples", type=int, default=1, metavar="N", help="texts at once (default: %(default)s)")
    parse.add_argument("--seed", type=int, default=0, metavar="N", help="of the choices (default: %(default)s)")
    parse.add_argument("--twin", choices=TWINS, default="numpy", help="who computes (default: %(default)s)")
    parse.add_argument("--device", default="cpu", help="of the torch twin: cpu or cuda (default: %(default)s)")
    parse.add_argument("--ban", nargs="+", default=[], metavar="TOKEN", help="words or signs that are never chosen")
    pictures = parse.add_argument_group("pictures")
    pictures.add_argument("--maps", type=Path, metavar="PNG", help="draw where every head of a GPT looks in the prompt")
    told = "draw that beside its gradient: where every head would have to look for the prompt to be better foreseen"
    pictures.add_argument("--gradients", type=Path, metavar="PNG", help=told)
    pictures.add_argument(
        "--temperatures", type=Path, metavar="PNG", help="draw the next token's distribution at six temperatures"
    )
    add_flags(parse.add_argument_group("sampling"), SamplingConfig, leave_out=("banned",))
    return parse


def main(argv: list[str] | None = None) -> int:
    given = parser().parse_args(argv)
    say = Console(soft_wrap=True, highlight=False, markup=False)
    try:
        if given.twin == "torch":
            if not has_torch():
                raise ValueError("--twin: torch is not installed, expected numpy (or pip install 'gemelos[torch]')")
            check_device(given.device)
        elif given.device != "cpu":
            raise ValueError(f"--device: {given.device} came, expected cpu for a NumPy twin")
        for name in ("maps", "gradients", "temperatures"):
            path = getattr(given, name)
            if path is not None and path.is_dir():
                raise ValueError(f"--{name}: {path} is a folder, expected the name of a picture")
        sampling = SamplingConfig(**chosen(SamplingConfig, given, {}))
        learner, tokenizer = load(given.checkpoint, given.twin, given.device)
        banned = tuple(banned_ids(tokenizer, given.ban))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a font without emoji draws a box
            draw(given, learner, tokenizer)
        unknown = [token for token in tokenizer.tokens(given.prompt) if token not in tokenizer.token_to_id]
        texts = generate_tokens(
            learner.step,
            tokenizer,
            given.prompt,
            SamplingConfig(**{**vars(sampling), "banned": banned}),
            seed=given.seed,
            samples=given.samples,
            context_window=learner.config.context_window if isinstance(learner.config, GPTConfig) else None,
        )
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError, MemoryError) as error:
        print(f"gemelos generate: {one_line(error)}", file=sys.stderr)
        return 2
    if unknown:
        print(f"gemelos generate: the model does not know {', '.join(dict.fromkeys(unknown))}", file=sys.stderr)
    for text in texts:
        say.print(text)
    return 0


def load(path: Path, twin: str, device: str) -> tuple[Learner, Tokenizer]:
    """The model of a checkpoint, on any twin, and its tokenizer."""
    saved = load_checkpoint(path)
    try:
        config = CONFIGS[saved.model](**saved.config)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: no model of gemelos train is stored in it ({error})") from None
    check_parameters(saved, config, path)
    return make_learner(twin, config, saved.params, {}, device), saved.tokenizer


MOST_BARS = 10


def draw(given: argparse.Namespace, learner: Learner, tokenizer: Tokenizer) -> None:
    """The pictures that are asked for: of <BOS> and the prompt, cut to what the model sees at once."""
    ids = [tokenizer.bos_id, *tokenizer.encode(given.prompt)]
    if isinstance(learner.config, GPTConfig):
        ids = ids[-learner.config.context_window :]
        draw_attention(given, learner, learner.config, ids, [tokenizer.vocabulary[i] for i in ids])
    else:
        for flag in ("maps", "gradients"):
            if getattr(given, flag) is not None:
                raise ValueError(f"--{flag}: it came for an rnn, expected a gpt: an rnn has no attention")
    if given.temperatures is not None:
        never = [tokenizer.bos_id, tokenizer.unk_id, tokenizer.pad_id]
        logits = ban(learner.step(np.array([ids]), None)[0][0, -1], never)
        top = np.argsort(-logits, kind="stable")[:MOST_BARS]
        temperature_picture(given.temperatures, logits[top], [tokenizer.vocabulary[i] for i in top])


def draw_attention(
    given: argparse.Namespace, learner: Learner, config: GPTConfig, ids: list[int], names: list[str]
) -> None:
    """Where every head looks among the ids, and beside it where it would have to look."""
    if given.maps is not None:
        heads_picture(names, attention_maps(learner.snapshot()[0], np.array(ids), config), given.maps)
    if given.gradients is not None:
        if len(ids) < 2:
            raise ValueError("--gradients: it came with an empty prompt, expected at least one token to foresee")
        found = attention_gradients(learner.snapshot()[0], np.array(ids[:-1]), np.array(ids[1:]), config)
        attention_gradient_picture(names[:-1], found, given.gradients)


def banned_ids(tokenizer: Tokenizer, tokens: list[str]) -> list[int]:
    for token in tokens:
        if token not in tokenizer.token_to_id:
            raise ValueError(f"--ban: {token!r} came, expected a word or sign of the vocabulary")
    return [tokenizer.token_to_id[token] for token in tokens]
