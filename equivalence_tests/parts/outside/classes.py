"""A tokenizer and a data set of any names: what the laws ask for is looked for under the usual other names."""

from __future__ import annotations

from typing import Any

from equivalence_tests.parts.outside.adapters import Adapted
from equivalence_tests.parts.outside.calling import plan_of
from equivalence_tests.signatures import signature_of

TOKENIZER_ROLES = {
    "corpus_vocabulary": ("vocab", "vocabulary", "tokens", "words", "symbols", "corpus"),
    "lower": ("lowercase", "dolower", "dolowercase"),
    "strip_accents": ("removeaccents",),
    "nfc": ("compose",),
}
DATASET_ROLES = {
    "texts": ("stories", "documents", "docs", "data", "lines", "corpus"),
    "seq_length": ("length", "seqlen", "blocksize", "contextlength", "window", "maxlength", "maxlen", "contextwindow"),
    "tokenizer": ("tok",),
    "min_frequency": ("minfreq",),
    "lower": (),
    "strip_accents": (),
    "nfc": (),
    "truncate": (),
}
FROM_TEXTS = ("from_texts", "from_corpus", "from_text", "train", "build", "fit")
NAMES: dict[str, tuple[str, ...]] = {
    "encode": ("text_to_ids", "encode_text"),
    "decode": ("ids_to_text",),
    "decode_text": (),
    "tokens": ("tokenize", "tokenise", "split"),
    "prepare": ("normalize", "normalise", "preprocess"),
    "options": (),
    "vocabulary": ("vocab", "itos", "id_to_token"),
    "vocab_size": ("n_vocab", "size"),
    "token_to_id": ("stoi", "word_to_id", "vocab"),
    "bos_id": ("bos_token_id", "bos", "bos_idx"),
    "eos_id": ("eos_token_id", "eos", "eos_idx"),
    "unk_id": ("unk_token_id", "unk", "unk_idx"),
    "pad_id": ("pad_token_id", "pad", "pad_idx"),
    "data": ("windows", "rows", "examples", "samples"),
    "num_tokens": ("n_tokens", "num_targets"),
    "unknown_rate": ("unk_rate",),
    "tokenizer": ("tok",),
    "seq_length": ("length",),
}
SPECIAL = {"bos_id": "<BOS>", "eos_id": "<EOS>", "unk_id": "<UNK>", "pad_id": "<PAD>"}


def example_of(part: str) -> str:
    if part == "Tokenizer":
        return "a class such as Tokenizer(vocabulary) with encode(text) and decode(ids)"
    return "a class such as TextDataset(texts, seq_length) with data, len() and an index"


def adapted(part: str, cls: Any, label: str, strict: bool) -> Adapted:
    """ValueError, one line with an example, if it is no such class."""
    roles = TOKENIZER_ROLES if part == "Tokenizer" else DATASET_ROLES
    needed = ("corpus_vocabulary",) if part == "Tokenizer" else ("texts", "seq_length")
    if signature_of(cls) is None or not isinstance(cls, type):
        raise ValueError(f"{label}: it is no class, expected {example_of(part)}")
    if part == "Tokenizer" and not all(_named(cls, name) for name in ("encode", "decode")):
        raise ValueError(f"{label}: it has no encode and decode, expected {example_of(part)}")
    plan = plan_of(cls, roles, needed, label, example_of(part))
    told = Adapted(None, plan.shown(cls.__name__), plan.guessed)
    told.part = cls if strict else _Factory(cls, plan, roles, told)
    return told


def _named(own: Any, name: str) -> str:
    """The name under which something has it, or nothing."""
    return next((each for each in (name, *NAMES.get(name, ())) if hasattr(own, each)), "")


class _Factory:
    """The class: called with what its constructor takes, in the reference's words."""

    def __init__(self, cls: Any, plan: Any, roles: Any, told: Adapted) -> None:
        self.cls, self.plan, self.roles, self.told = cls, plan, roles, told

    def _options(self, taken: frozenset[str], options: dict[str, Any]) -> dict[str, Any]:
        usual = {"min_frequency": 1, "tokenizer": None}
        for name, value in options.items():
            if name not in taken and value != usual.get(name, False):
                raise self.told.missing(name)
        return {name: value for name, value in options.items() if name in taken}

    def __call__(self, *args: Any, **options: Any) -> Any:
        values = dict(zip(self.roles, args, strict=False)) | self._options(self.plan.roles, options)
        if isinstance(values.get("tokenizer"), _Own):
            values["tokenizer"] = values["tokenizer"].own
        return _Own(self.plan.call(self.cls, values), self.told)

    def from_texts(self, texts: Any, **options: Any) -> Any:
        """The class's own way to a vocabulary: of the class, or of an empty object."""
        name = next((each for each in FROM_TEXTS if hasattr(self.cls, each)), "")
        if not name:
            raise self.told.missing("from_texts")
        given = self._accepted(getattr(self.cls, name), options)
        if isinstance(vars(self.cls).get(name), classmethod | staticmethod) or name == "from_texts":
            return _Own(getattr(self.cls, name)(texts, **given), self.told)
        empty = self([])
        answer = getattr(empty.own, name)(texts, **given)
        return empty if answer is None else _Own(answer, self.told)

    def _accepted(self, function: Any, options: dict[str, Any]) -> dict[str, Any]:
        signature = signature_of(function)
        taken = frozenset(signature.parameters) if signature else frozenset(options)
        return self._options(taken, options)


class _Own:
    """An object of the class, under the reference's names."""

    def __init__(self, own: Any, told: Adapted) -> None:
        self.own, self.told = own, told

    def __getattr__(self, name: str) -> Any:
        found = _named(self.own, name)
        if name in SPECIAL and not found:
            return self._special(name)
        if name == "vocab_size" and not found:
            return len(self.vocabulary)
        if not found:
            raise self.told.missing(name)
        value = getattr(self.own, found)
        if name == "tokenizer" and not isinstance(value, _Own):
            return _same_tokenizer(value, self.told)
        if name in ("vocab_size", "num_tokens", "unknown_rate", "vocabulary") and callable(value):
            value = value()
        if name == "vocabulary" and isinstance(value, dict):
            by_id = value if all(isinstance(key, int) for key in value) else {id: token for token, id in value.items()}
            return [by_id[id] for id in sorted(by_id)]
        if name == "encode":
            return lambda text: [int(id) for id in value(text)]
        if name == "data":
            import numpy as np

            return [np.asarray(row) for row in value]
        return value

    def _special(self, name: str) -> int:
        table: Any = next(
            (getattr(self.own, each) for each in ("token_to_id", "stoi", "vocab") if hasattr(self.own, each)), {}
        )
        for token in (SPECIAL[name], SPECIAL[name].lower(), f"[{SPECIAL[name][1:-1]}]"):
            if isinstance(table, dict) and token in table:
                return int(table[token])
        raise self.told.missing(name)

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, n: int) -> Any:
        return self.own[n]


_KNOWN: dict[int, tuple[Any, _Own]] = {}


def _same_tokenizer(value: Any, told: Adapted) -> _Own:
    """One wrapper for one tokenizer, so that `is` still says what it says."""
    if id(value) not in _KNOWN:
        _KNOWN[id(value)] = (value, _Own(value, told))
    return _KNOWN[id(value)][1]
