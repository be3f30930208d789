"""Small scripts for the parts that are classes, that keep something, or that work on files: each says what it saw."""

from __future__ import annotations

import string
import tempfile
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import attempt, global_state
from equivalence_tests.parts.checkpoint import no_room
from equivalence_tests.parts.checkpoint_example import MOMENTS, example, folder_of_its_own
from equivalence_tests.parts.decoding import _copy, _drawn
from equivalence_tests.parts.generate import Reader
from equivalence_tests.parts.text import FRAGILE
from equivalence_tests.parts.training import DATA, Scribe
from reference_numpy.sampling import SamplingConfig
from reference_numpy.tokenizer import Tokenizer
from reference_numpy.train import TrainingConfig

Script = Callable[[Any], Any]
Row = tuple[str, str, Script]

# Tokenizer


def _special(tokenizer: Any) -> list[int]:
    return [tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id]


def _encoded(corpus: list[str], text: str, part: Any) -> Any:
    return part(corpus).encode(text)


def _round_trip(text: str, part: Any) -> Any:
    tokenizer = part.from_texts([text])
    ids = tokenizer.encode(text)
    return {"ids": ids, "decode": tokenizer.decode(ids)}


def _read_by_people(text: str, part: Any) -> Any:
    tokenizer = part.from_texts([text])
    return tokenizer.decode_text([*_special(tokenizer), *tokenizer.encode(text), *_special(tokenizer)])


def _vocabulary(texts: tuple[str, ...], least: int, part: Any) -> Any:
    found = part.from_texts(texts, min_frequency=least) if least > 1 else part.from_texts(texts)
    return found.vocabulary


def _with_option(option: str, text: str, part: Any) -> Any:
    tokenizer = part([], **{option: True} if option else {})
    return tokenizer.prepare(text)


def _same_again(option: str, part: Any) -> Any:
    first = part(["El", "el", "niño"], **{option: True})
    return dict(sorted(first.options().items()))


def _prompted(option: str, part: Any) -> Any:
    tokenizer = part(["él", "el", "año"], **{option: True})
    return [tokenizer.encode(text) for text in ("ÉL", "él", unicodedata.normalize("NFD", "él"), "el", "AÑO")]


def _decoded_outside(id: int, part: Any) -> Any:
    tokenizer = part(["a", "b"])
    return [attempt(lambda way=way: repr(way([0, id])))[:12] for way in (tokenizer.decode, tokenizer.decode_text)]  # type: ignore[misc]


LETTERS = "".join(
    f"{letter}," for letter in np.random.default_rng(1).permutation([*string.ascii_letters, "ñ", "é", "0"])
)
TOKENIZER: tuple[Row, ...] = (
    ("the_example_of_the_source", "Tokenizer(['a', 'b']).bos_id ... pad_id", lambda part: _special(part(["a", "b"]))),
    *(
        ("every_unknown_token_is_one_unk", f"Tokenizer({corpus}).encode({text!r})", partial(_encoded, corpus, text))
        for corpus, text in (
            (["a", "b"], "b"),
            (["a", " "], "a b"),
            (["a", " "], " a "),
            (["1", "9"], "1991"),
            (["ñ", "año", "a", "o"], "año"),
            (["<", ">", "EOS", "BOS"], "<EOS>"),
            (["a"], "\ufeffa"),
            (["a", "\n", "\r", "\r\n"], "a\r\na\n"),
            (["e", "é"], "e\u0301"),
            (["dijo_él", ".", "«"], "«dijo_él."),
        )
    ),
    *(
        (
            "decoding_undoes_encoding",
            f"t = Tokenizer.from_texts([{text!r}]); t.encode, t.decode",
            partial(_round_trip, text),
        )
        for text in FRAGILE
    ),
    *(
        ("readers_see_no_special_token_and_all_text", f"t.decode_text(special + t.encode({text!r}) + special)", each)
        for text, each in ((text, partial(_read_by_people, text)) for text in ("a", "<UNK> a <PAD>"))
    ),
    *(
        (
            "the_vocabulary_is_sorted_and_nothing_else",
            f"Tokenizer.from_texts({list(texts)}, min_frequency={least})",
            each,
        )
        for texts, least, each in (
            (texts, least, partial(_vocabulary, texts, least))
            for texts, least in (
                (("b b a",), 1),
                (("b", "a b"), 2),
                (("b b b", "a a", "c"), 2),
                (("b b b", "a a", "c"), 3),
                ((LETTERS,), 1),
            )
        )
    ),
    *(
        ("only_what_an_option_says_is_changed", f"Tokenizer([], {option}=True).prepare({text!r})", each)
        for option in ("", "lower", "strip_accents", "nfc")
        for text, each in (
            (text, partial(_with_option, option, text))
            for text in ("¿Cómo? ¡NIÑO!", "Straße", "n\u0303 e\u0301", " a ", "\ufeffa", "a\r\nb")
        )
    ),
    *(
        (
            "options_make_the_same_tokenizer_again",
            f"Tokenizer(..., {option}=True).options()",
            partial(_same_again, option),
        )
        for option in ("lower", "strip_accents", "nfc")
    ),
    *(
        ("prompts_go_through_the_options", f"Tokenizer(..., {option}=True).encode('ÉL')", partial(_prompted, option))
        for option in ("lower", "strip_accents", "nfc")
    ),
    *(
        (
            "ids_outside_the_vocabulary_are_refused",
            f"Tokenizer(['a', 'b']).decode([0, {id}])",
            partial(_decoded_outside, id),
        )
        for id in (-1, 6)
    ),
)

# TextDataset

WORDS = "abcdefgh"


def _tale(tokens: int) -> str:
    return " ".join(WORDS[n % 8] for n in range((tokens + 1) // 2)) + " " * (tokens % 2 == 0)


def _windows(stories: list[str], length: int, options: dict[str, Any], part: Any) -> Any:
    dataset = part(stories, length, **options)
    rows = [dataset[n] for n in range(len(dataset))]
    found = {"data": [row.tolist() for row in dataset.data], "rows": [row.tolist() for row in rows]}
    for row in rows:
        row[:] = 0
    after = [row.tolist() for row in dataset.data]
    return found | {"tokens": int(dataset.num_tokens), "unknown": float(dataset.unknown_rate), "after writing": after}


def _held_out(part: Any) -> Any:
    train = part(["el gato come"], 4)
    held = part(["el zorro come"], 4, tokenizer=train.tokenizer)
    rate = float(held.unknown_rate)
    return {"data": [row.tolist() for row in held.data], "same": held.tokenizer is train.tokenizer, "unknown": rate}


def _outside(n: int, part: Any) -> Any:
    dataset = part(["a b", "c"], 5)
    try:
        return dataset[n].tolist()
    except IndexError:
        return "IndexError"


def _option(options: dict[str, Any], part: Any) -> Any:
    dataset = part(["Él está ÉL", "él n\u0303"], 8, **options)
    return {"vocabulary": dataset.tokenizer.vocabulary, "options": dict(sorted(dataset.tokenizer.options().items()))}


DATASET: tuple[Row, ...] = (
    *(
        (
            "every_token_but_the_first_is_a_target_once",
            f"TextDataset([{_tale(tokens)!r}], {length}{', truncate=True' if options else ''})",
            partial(_windows, [_tale(tokens)], length, options),
        )
        for length in (2, 3, 5)
        for tokens in (1, 2, 3, 4, 5, 8)
        for options in ({}, {"truncate": True})  # type: dict[str, Any]
    ),
    (
        "no_window_holds_two_stories",
        "TextDataset(['a b', '', 'c d e'], 4)",
        partial(_windows, ["a b", "", "c d e"], 4, {}),
    ),
    ("a_tokenizer_given_is_used", "TextDataset(held_out, 4, tokenizer=train.tokenizer)", _held_out),
    ("the_rows_are_a_sequence", "TextDataset(['a b', 'c'], 5)[2]", partial(_outside, 2)),
    ("the_rows_are_a_sequence", "TextDataset(['a b', 'c'], 5)[-3]", partial(_outside, -3)),
    *(
        ("options_reach_the_tokenizer", f"TextDataset(..., {options})", partial(_option, options))
        for options in ({}, {"lower": True}, {"strip_accents": True}, {"nfc": True}, {"min_frequency": 2})  # type: dict[str, Any]
    ),
)

# Files of stories

FILES = (
    ("a.txt", b"a\nb\n"),
    ("a.txt", b"a\r\nb\rc"),
    ("a.txt", b" a \n\n\t\nb"),
    ("a.txt", b"\xef\xbb\xbfa\nb"),
    ("a.txt", "a\u2028b\x0cc\x85d\ne".encode()),
    ("a.txt", "n\u0303 e\u0301".encode()),
    ("a.txt", "a\nniño".encode("latin-1")),
    ("a.txt", b""),
    ("a.txt", b" \n\n"),
    ("a.txt", b"a\0b"),
    ("a.csv", b'id,text,x\r\n1,"a, b\r\ny ""c""",7\r\n2,d,8\r\n'),
    ("A.CSV", b"text\na\n"),
    ("a.csv", b"id,text\n1,a, b\n"),
    ("a.csv", b"id,story\n1,a\n"),
)


def _file(name: str, content: bytes, part: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return list(part(path))


READING: tuple[Row, ...] = tuple(
    (
        "a_story_is_a_line" if name == "a.txt" else "a_story_is_the_text_of_a_record",
        f"read_texts({name}: {content!r})",
        each,
    )
    for name, content, each in ((name, content, partial(_file, name, content)) for name, content in FILES)
)

# Steps with a past


def _continued(model: str, part: Any) -> Any:
    """Two continuations of one past, the past itself, and what the first had answered."""
    params, ids, config, _ = _drawn(model, 3, (2,))
    first, past = part(params, ids[:, :1], config, None)
    _, past = part(params, ids[:, 1:2], config, past)
    before = _copy(past)
    one, after = part(params, ids[:, 2:3], config, past)
    kept = _copy(after)
    other, _ = part(params, (ids[:, 2:3] + 1) % 5, config, past)
    last, _ = part(params, ids[:, 3:4], config, after)
    again, _ = part(params, ids[:, 2:3], config, past)
    found = {"first": first, "one": one, "other": other, "last": last, "again": again}
    return found | {"past": _copy(past), "past before": before, "after": _copy(after), "after before": kept}


def _in_steps(model: str, sizes: tuple[int, ...], tied: bool, part: Any) -> Any:
    params, ids, config, _ = _drawn(model, 2 if tied else 1, (2,), tied and model == "gpt")
    past, found, at = None, [], 0
    for size in sizes:
        logits, past = part(params, ids[..., at : at + size], config, past)
        found.append(logits)
        at += size
    return found


def _stepping(model: str, name: str, law: str, other: str) -> tuple[Row, ...]:
    return (
        *(
            (law, f"{name}: {' + '.join(map(str, sizes))} tokens{' (tied head)' if tied else ''}", each)
            for sizes, tied, each in (
                (sizes, tied, partial(_in_steps, model, sizes, tied))
                for sizes in ((1,), (2,), (4,), (1, 1), (2, 2), (1, 3), (1, 1, 1, 1))
                for tied in (False, *((True,) if model == "gpt" else ()))
            )
        ),
        (other, f"{name}: two continuations of one past", partial(_continued, model)),
    )


# Checkpoints: what comes back of what was saved


def _back(dtype: str, steps: int, part: Any) -> Any:
    with folder_of_its_own() as folder:
        saved = example(dtype, steps)
        part.save_checkpoint(folder / "c", saved)
        found = part.load_checkpoint(folder / "c")
    arrays = {"params": found.params, **{moment: found.state.get(moment, {}) for moment in MOMENTS}}
    flags = {
        kind: {name: (x.flags.writeable, x.flags.owndata, x.flags.c_contiguous) for name, x in each.items()}
        for kind, each in arrays.items()
    }
    return {
        "params": {name: _bits(x) for name, x in found.params.items()},
        "state": {"step": found.state.get("step"), **{m: {n: _bits(x) for n, x in arrays[m].items()} for m in MOMENTS}},
        "tokenizer": (found.tokenizer.vocabulary, str(found.tokenizer.options())),
        "training": repr(found.training),
        "config": repr(found.config),
        "model": found.model,
        "flags": str(flags),
    }


def _bits(x: Array) -> Any:
    return [str(x.dtype), list(x.shape), x.tobytes().hex()]


def _full_disk(part: Any) -> Any:
    """What becomes of the old checkpoint, of the folder and of the error where a new one has no room."""
    with folder_of_its_own() as folder:
        path = folder / "good"
        part.save_checkpoint(path, example(steps=1))
        large = example(steps=2)
        large.params, large.state = {"w": np.ones(4096)}, {}
        raised = "no"
        with no_room(8192):
            try:
                part.save_checkpoint(path, large)
            except OSError as error:
                raised = type(error).__name__
        whole = attempt(lambda: "" if part.load_checkpoint(path).state.get("step") == 1 else "another")
        return {"raised": raised, "old": whole[:16], "files": sorted(file.name for file in folder.iterdir())}


def _left_behind(part: Any) -> Any:
    with folder_of_its_own() as folder:
        (folder / "c.tmp").write_bytes(b"half")
        part.save_checkpoint(folder / "c", example())
        return sorted(file.name for file in folder.iterdir())


def _damaged(at: float, part: Any) -> Any:
    with folder_of_its_own() as folder:
        path = folder / "c"
        part.save_checkpoint(path, example())
        content = bytearray(path.read_bytes())
        content[int(at * (len(content) - 1))] ^= 1
        path.write_bytes(bytes(content))
        return attempt(lambda: f"accepted {part.load_checkpoint(path).model}")[:8]


def _begins(part: Any) -> Any:
    with folder_of_its_own() as folder:
        part.save_checkpoint(folder / "c", example())
        return (folder / "c").read_bytes()[:16].hex()


def _changed_file(change: str, part: Any) -> Any:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with folder_of_its_own() as folder:
        path = folder / "c"
        part.save_checkpoint(path, example())
        with safe_open(path, "numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata()
        if change == "renamed":
            tensors["model/scalar"] = tensors.pop("params/scalar")
        elif change == "added":
            tensors["ema/scalar"] = np.ones(())
        else:
            metadata["version"] = "2"
        save_file(tensors, path, metadata)
        return attempt(lambda: f"accepted {part.load_checkpoint(path).model}")[:8]


def _saved_anyway(what: str, part: Any) -> Any:
    wrong = example(steps=0)
    W = np.ones((2, 2))
    if what == "tied":
        wrong.params = {"a": W, "b": W}
    else:
        wrong.training = {"betas": (0.9, 0.999)}
    with folder_of_its_own() as folder:
        return attempt(lambda: part.save_checkpoint(folder / "c", wrong))[:12]


CHECKPOINT: tuple[Row, ...] = (
    *(
        ("comes_back_to_the_last_bit", f"load_checkpoint(saved, {dtype}, step {steps})", partial(_back, dtype, steps))
        for dtype in ("float64", "float32")
        for steps in (0, 1, 3)
    ),
    ("keeps_the_last_good_one_when_there_is_no_room", "save_checkpoint on a full disk", _full_disk),
    ("is_not_hindered_by_what_was_left_behind", "save_checkpoint beside c.tmp", _left_behind),
    ("is_a_safetensors_file", "the first 16 bytes", _begins),
    *(("refuses_a_damaged_file", f"a bit changed at {at:g}", partial(_damaged, at)) for at in (0.999, 0.97)),
    *(("refuses_a_file_with_other_tensors", f"a tensor {c}", partial(_changed_file, c)) for c in ("renamed", "added")),
    ("refuses_what_is_no_checkpoint", "version 2", partial(_changed_file, "version")),
    *(
        ("refuses_to_save_what_could_not_be_read_again", what, partial(_saved_anyway, what))
        for what in ("tied", "a tuple")
    ),
)

# Training


def _events(events: list[tuple[Any, ...]]) -> Any:
    """What a learner was asked, as numbers."""
    return [
        [x if not isinstance(x, dict) else {n: a.tobytes().hex()[:16] for n, a in x.items()} for x in e] for e in events
    ]


def _trained(
    settings: dict[str, Any], part: Any, stop: int | None = None, held: bool = False, scale: float = 1.0
) -> Any:
    config = TrainingConfig(**{"epochs": 2, "batch_size": 2, "seq_length": 30, "seed": 5} | settings)
    scribe = Scribe(scale)
    told: list[Any] = []
    options: dict[str, Any] = {"held_out": DATA} if held else {}

    def save(step: int) -> None:
        told.append(["save", step, len(scribe.of("update"))])

    def watch(row: Any) -> None:
        told.append({name: float(row[name]) for name in sorted(row) if isinstance(row[name], int | float)})

    if stop is not None:
        part(scribe, DATA, config, stop=stop, **options)
        total = part(scribe, DATA, config, step=stop, watch=watch, save=save, **options)
    else:
        total = part(scribe, DATA, config, watch=watch, save=save, **options)
    return {"events": _events(scribe.events), "told": [x for x in told if "held_out_loss" not in x], "steps": total}


def _infinite(part: Any) -> Any:
    scribe = Scribe(float("nan"))
    config = TrainingConfig(epochs=1, batch_size=2, seq_length=30, seed=5)
    raised = "no"
    try:
        part(scribe, DATA, config)
    except ValueError:
        raised = "yes"
    return {"raised": raised, "updates": len(scribe.of("update"))}


WAYS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("", {}, {}),
    ("accumulation=2", {"accumulation": 2}, {}),
    ("accumulation=2, warmup_steps=3, cosine=True", {"accumulation": 2, "warmup_steps": 3, "cosine": True}, {}),
    ("seed=6", {"seed": 6}, {}),
    ("checkpoint_every=2", {"checkpoint_every": 2}, {}),
    ("stop=3, then step=3", {"accumulation": 2, "warmup_steps": 3}, {"stop": 3}),
    ("held_out", {}, {"held": True}),
)
TRAINING: tuple[Row, ...] = (
    *(
        (
            "batches_of_a_step_weigh_as_their_tokens",
            f"train_model(learner, dataset, {shown})",
            partial(_way, settings, options),
        )
        for shown, settings, options in WAYS
        for _way in (lambda settings, options, part: _trained(settings, part, **options),)
    ),
    ("a_loss_that_is_no_number_stops_it", "train_model with a loss of NaN", _infinite),
)


def _evaluated(size: int, scale: float, part: Any) -> Any:
    scribe = Scribe(scale)
    before = global_state()
    loss, tokens = part(scribe, DATA, size)
    kinds = [event[0] for event in scribe.events]
    return {"loss": float(loss), "tokens": int(tokens), "asked": kinds, "global state": before == global_state()}


EVALUATION: tuple[Row, ...] = tuple(
    ("the_mean_is_over_tokens", f"evaluate(learner, dataset, {size})", partial(_evaluated, size, scale))
    for size in (1, 2, 3, 100)
    for scale in (1.0, 1e8 / 3.0)
)


# Generation of text: a model of 8 tokens that depends on every token and its place

TOKENS = Tokenizer(["a", "b", "c", " "])
PROMPTS = ("a", "a b", "c z a", "")
PLAIN = SamplingConfig(temperature=1.0, top_k=None, repetition_penalty=1.0, max_tokens=6)
PENALISED = SamplingConfig(0.9, 5, 0.95, 0.01, 1.7, no_repeat_ngram=2, max_tokens=6)


def _written(prompt: str, sampling: SamplingConfig, window: int | None, samples: int, part: Any) -> Any:
    step = Reader()
    told = part(step, TOKENS, prompt, sampling, seed=3, samples=samples, context_window=window)
    return {"text": list(told), "asked": [[ids, before] for ids, before in step.calls]}


WRITING: tuple[Row, ...] = tuple(
    (
        "is_what_the_reference_writes",
        f"generate_tokens(step, tokenizer, {prompt!r}, {name}, samples={samples}, context_window={window})",
        partial(_written, prompt, sampling, window, samples),
    )
    for prompt in PROMPTS
    for name, sampling in (("plain", PLAIN), ("penalised", PENALISED))
    for window in (None, 4)
    for samples in (1, 3)
)

SCRIPTS: dict[str, tuple[Row, ...]] = {
    "generate_tokens": WRITING,
    "Tokenizer": TOKENIZER,
    "TextDataset": DATASET,
    "read_texts": READING,
    "gpt_step": _stepping("gpt", "gpt_step", "steps_are_the_whole", "a_past_is_unchanged"),
    "generative_rnn_step": _stepping(
        "generative_rnn", "generative_rnn_step", "rnn_steps_are_the_whole", "a_state_is_unchanged"
    ),
    "checkpoint": CHECKPOINT,
    "train_model": TRAINING,
    "evaluate": EVALUATION,
}
