"""Text to token ids and back."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import index

from reference_numpy import _arguments

SPECIAL_TOKENS = ("<BOS>", "<EOS>", "<UNK>", "<PAD>")

# A digit, a sign, a word or one white space; every character is in one of them, so joining the tokens gives the text.
_TOKEN = re.compile(r"\d|[^\w\s]|\w+|\s")
_TILDE = "\N{COMBINING TILDE}"


class Tokenizer:
    """id = position of the token in corpus_vocabulary + <BOS> <EOS> <UNK> <PAD>

    corpus_vocabulary: tokens, in the order of their ids; vocab_size counts the four special tokens as well.

    The options are applied to every text before it is cut into tokens: nfc composes (Unicode NFC), lower puts into lower
    case, strip_accents removes every mark but the tilde of n (and composes). With none of them nothing is normalised, and
    decode(encode(text)) == text as long as every token is known. The special tokens are symbols of their own, never a
    piece of text: "<BOS>" in a text is three tokens. Source 2.
    Raises TypeError for tokens that are no strings, ValueError for a token that is there twice or is a special one.
    """

    def __init__(
        self,
        corpus_vocabulary: Sequence[str],
        *,
        lower: bool = False,
        strip_accents: bool = False,
        nfc: bool = False,
    ) -> None:
        self.lower = _arguments.flag("lower", lower)
        self.strip_accents = _arguments.flag("strip_accents", strip_accents)
        self.nfc = _arguments.flag("nfc", nfc)
        self.vocabulary = [*_arguments.strings("corpus_vocabulary", corpus_vocabulary), *SPECIAL_TOKENS]
        self.vocab_size = len(self.vocabulary)
        self.token_to_id = {token: id for id, token in enumerate(self.vocabulary)}
        if len(self.token_to_id) < self.vocab_size:
            token, count = Counter(self.vocabulary).most_common(1)[0]
            if token in SPECIAL_TOKENS:
                raise ValueError(f"corpus_vocabulary: {token!r} came, expected no special token")
            raise ValueError(f"corpus_vocabulary: {token!r} came {count} times, expected every token once")
        self.bos_id, self.eos_id, self.unk_id, self.pad_id = (self.token_to_id[token] for token in SPECIAL_TOKENS)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        min_frequency: int = 1,
        lower: bool = False,
        strip_accents: bool = False,
        nfc: bool = False,
    ) -> Tokenizer:
        """The tokenizer whose vocabulary is every token seen at least min_frequency times, sorted by code points

        texts: strings, counted after the options were applied to them.

        Raises TypeError for texts that are no strings, ValueError for min_frequency below 1 or if no token is left.
        """
        min_frequency = _arguments.integer("min_frequency", min_frequency, 1)
        empty = cls([], lower=lower, strip_accents=strip_accents, nfc=nfc)
        seen = Counter(token for text in _arguments.strings("texts", texts) for token in empty.tokens(text))
        vocabulary = sorted(token for token, count in seen.items() if count >= min_frequency)
        if not vocabulary:
            raise ValueError(
                f"texts: no token is there {min_frequency} times, expected at least one (see min_frequency)"
            )
        return cls(vocabulary, **empty.options())

    def options(self) -> dict[str, bool]:
        """The options by name: Tokenizer(corpus_vocabulary, **options) is the same tokenizer again."""
        return {"lower": self.lower, "strip_accents": self.strip_accents, "nfc": self.nfc}

    def prepare(self, text: str) -> str:
        """The text after the options; applied twice, it is the same as once."""
        if not isinstance(text, str):
            raise TypeError(f"text: a {type(text).__name__} came, expected a string")
        if self.lower:  # first: its result may still want composing
            text = text.lower()
        if self.strip_accents:
            text = _without_accents(text)
        if self.nfc:
            text = unicodedata.normalize("NFC", text)
        return text

    def tokens(self, text: str) -> list[str]:
        """The tokens of the prepared text; joined, they are the prepared text."""
        return _TOKEN.findall(self.prepare(text))

    def encode(self, text: str) -> list[int]:
        """The ids of the text's tokens, unk_id for an unknown one; no <BOS> and no <EOS>."""
        return [self.token_to_id.get(token, self.unk_id) for token in self.tokens(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The tokens of the ids, joined with nothing between them; special tokens by their names

        ids: integers from 0 to vocab_size - 1, from any iterable: a list, a 1-D array, a tensor.

        Raises TypeError for what is no integer, ValueError for an id out of range, a negative one too.
        """
        return "".join(self.vocabulary[id] for id in self._checked(ids))

    def decode_text(self, ids: Iterable[int]) -> str:
        """As decode, without the special tokens: what a reader is shown."""
        first_special = self.bos_id
        return "".join(self.vocabulary[id] for id in self._checked(ids) if id < first_special)

    def _checked(self, ids: Iterable[int]) -> list[int]:
        try:
            values = list(ids)
        except TypeError:
            raise TypeError(f"ids: a {type(ids).__name__} came, expected a sequence of integers") from None
        return [self._id(value) for value in values]

    def _id(self, value: int) -> int:
        try:
            if isinstance(value, bool):  # a mask is no list of ids
                raise TypeError
            number = index(value)
        except TypeError:
            raise TypeError(f"ids: a {type(value).__name__} came, expected integers") from None
        if not 0 <= number < self.vocab_size:
            raise ValueError(f"ids: {number} came, expected integers from 0 to {self.vocab_size - 1}")
        return number


def _without_accents(text: str) -> str:
    """Decomposed, every nonspacing mark dropped but the tilde of n, and composed again: á -> a, ü -> u, ñ -> ñ."""
    kept: list[str] = []
    base = ""
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.category(character) != "Mn":
            base = character
        elif character == _TILDE and base in ("n", "N"):
            base = ""  # one tilde to an n
        else:
            continue
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))
