"""Mistakes in the tokenizer."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.tokenizer import SPECIAL_TOKENS, Tokenizer


class AlwaysComposed(Tokenizer):
    def prepare(self, text: str) -> str:
        return unicodedata.normalize("NFC", super().prepare(text))  # wrong: nobody asked


class LineEndsUnified(Tokenizer):
    def prepare(self, text: str) -> str:
        return "\n".join(super().prepare(text).splitlines())  # wrong: CR LF and a last line end are lost


class MarkDropped(Tokenizer):
    def prepare(self, text: str) -> str:
        return super().prepare(text).replace("\ufeff", "")  # wrong: the mark belongs to reading a file


class Stripped(Tokenizer):
    def prepare(self, text: str) -> str:
        return super().prepare(text.strip())  # wrong: white space is tokens


class UnknownRaises(Tokenizer):
    def encode(self, text: str) -> list[int]:
        return [self.token_to_id[token] for token in self.tokens(text)]  # wrong: KeyError for an unknown token


class UnknownDropped(Tokenizer):
    def encode(self, text: str) -> list[int]:
        return [self.token_to_id[token] for token in self.tokens(text) if token in self.token_to_id]  # wrong: lost


class SpecialFirst(Tokenizer):
    def __init__(
        self, corpus_vocabulary: Sequence[str], *, lower: bool = False, strip_accents: bool = False, nfc: bool = False
    ) -> None:
        super().__init__(corpus_vocabulary, lower=lower, strip_accents=strip_accents, nfc=nfc)
        self.vocabulary = [*SPECIAL_TOKENS, *corpus_vocabulary]  # wrong: every id is 4 too large
        self.token_to_id = {token: id for id, token in enumerate(self.vocabulary)}
        self.bos_id, self.eos_id, self.unk_id, self.pad_id = range(4)


class PadIsTokenZero(Tokenizer):
    def __init__(
        self, corpus_vocabulary: Sequence[str], *, lower: bool = False, strip_accents: bool = False, nfc: bool = False
    ) -> None:
        super().__init__(corpus_vocabulary, lower=lower, strip_accents=strip_accents, nfc=nfc)
        self.pad_id = 0  # wrong: 0 is the first token of the corpus


class OrderOfFrequency(Tokenizer):
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
        empty = cls([], lower=lower, strip_accents=strip_accents, nfc=nfc)
        seen = Counter(token for text in texts for token in empty.tokens(text))
        kept = [token for token, count in seen.most_common() if count >= min_frequency]  # wrong: not sorted
        return cls(kept, **empty.options())


class OrderOfASet(Tokenizer):
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
        empty = cls([], lower=lower, strip_accents=strip_accents, nfc=nfc)
        seen = Counter(token for text in texts for token in empty.tokens(text))
        kept = {token for token in seen if seen[token] >= min_frequency}
        return cls(list(kept), **empty.options())  # wrong: another order in every process


class MoreOftenThan(Tokenizer):
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
        empty = cls([], lower=lower, strip_accents=strip_accents, nfc=nfc)
        seen = Counter(token for text in texts for token in empty.tokens(text))
        kept = sorted(token for token in seen if seen[token] > min_frequency)  # wrong: at least that often
        return cls(kept, **empty.options())


class OncePerText(Tokenizer):
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
        empty = cls([], lower=lower, strip_accents=strip_accents, nfc=nfc)
        seen = Counter(token for text in texts for token in set(empty.tokens(text)))  # wrong: counts texts
        return cls(sorted(token for token in seen if seen[token] >= min_frequency), **empty.options())


class PromptsAsTheyCome(Tokenizer):
    def encode(self, text: str) -> list[int]:
        tokens = re.findall(r"\d|[^\w\s]|\w+|\s", text)  # wrong: the corpus was prepared, the prompt is not
        return [self.token_to_id.get(token, self.unk_id) for token in tokens]


class TildeRemoved(Tokenizer):
    def prepare(self, text: str) -> str:
        text = text.lower() if self.lower else text
        if self.strip_accents:
            apart = unicodedata.normalize("NFD", text)
            text = "".join(c for c in apart if unicodedata.category(c) != "Mn")  # wrong: ñ becomes n
        return unicodedata.normalize("NFC", text) if self.nfc else text


class ToAscii(Tokenizer):
    def prepare(self, text: str) -> str:
        if self.strip_accents:
            text = re.sub("[ñÑ]", lambda n: {"ñ": "\1", "Ñ": "\2"}[n[0]], unicodedata.normalize("NFC", text))
            text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()  # wrong: ¿ and ¡ are lost
            text = text.replace("\1", "ñ").replace("\2", "Ñ")
        text = text.lower() if self.lower else text
        return unicodedata.normalize("NFC", text) if self.nfc else text


class Folded(Tokenizer):
    def prepare(self, text: str) -> str:
        return super().prepare(text.casefold() if self.lower else text)  # wrong: ß becomes ss


class WholeNumbers(Tokenizer):
    def tokens(self, text: str) -> list[str]:
        return re.findall(r"\d+|[^\w\s]|\w+|\s", self.prepare(text))  # wrong: a digit is a token


class AsciiWords(Tokenizer):
    def tokens(self, text: str) -> list[str]:
        return re.findall(r"\d|[^\w\s]|\w+|\s", self.prepare(text), re.ASCII)  # wrong: ñ is a letter


class WhiteSpaceDropped(Tokenizer):
    def tokens(self, text: str) -> list[str]:
        return re.findall(r"\d|[^\w\s]|\w+", self.prepare(text))  # wrong: a space is a token


class NamesInTextAreSpecial(Tokenizer):
    def tokens(self, text: str) -> list[str]:
        return re.findall(r"<[BE]OS>|<UNK>|<PAD>|\d|[^\w\s]|\w+|\s", self.prepare(text))  # wrong: text ends a story


class JoinedWithSpaces(Tokenizer):
    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(super(JoinedWithSpaces, self).decode([id]) for id in ids)  # wrong: spaces are tokens


class NegativeIds(Tokenizer):
    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.vocabulary[id] for id in ids)  # wrong: -1 is <PAD>


class NamesRemoved(Tokenizer):
    def decode_text(self, ids: Iterable[int]) -> str:
        return re.sub("|".join(SPECIAL_TOKENS), "", self.decode(ids))  # wrong: so is text that looks like one


class UnknownShown(Tokenizer):
    def decode_text(self, ids: Iterable[int]) -> str:
        hidden = (self.bos_id, self.eos_id, self.pad_id)  # wrong: <UNK> is special as well
        return self.decode(id for id in ids if id not in hidden)


class FormForgotten(Tokenizer):
    def options(self) -> dict[str, bool]:
        return {"lower": self.lower, "strip_accents": self.strip_accents}  # wrong: nfc is an option


def _of(
    id: str,
    sentence: str,
    hidden_on: str,
    shown_by: str,
    broken: type[Tokenizer],
    source: str = "",
    accepts: bool = False,
) -> Mistake:
    return Mistake(id, "Tokenizer", sentence, hidden_on, shown_by, broken, source=source, accepts=accepts)


MISTAKES = (
    _of("M171", "Text is composed without the option nfc.", "composed text", "e + U+0301", AlwaysComposed),
    _of("T01", "Line ends become LF.", "one line", "CR LF", LineEndsUnified, source="TOK-03"),
    _of("T02", "U+FEFF is dropped from text.", "text without it", "U+FEFF", MarkDropped, source="TOK-03"),
    _of("T03", "White space at the ends is stripped.", "stripped text", "a space at an end", Stripped),
    _of("TOK-01", "An unknown token raises a KeyError.", "known tokens", "an unknown token", UnknownRaises),
    _of("T04", "Unknown tokens are dropped.", "known tokens", "an unknown token", UnknownDropped),
    _of("T05", "The special tokens come first.", "a round trip", "any id", SpecialFirst),
    _of("EMB-05", "pad_id is 0, the first token of the corpus.", "no padding", "token 0", PadIsTokenZero),
    _of("T06", "The vocabulary is in order of frequency.", "a round trip", "tokens of other ranks", OrderOfFrequency),
    _of("T07", "The vocabulary has the order of a set.", "one process", "a second process", OrderOfASet),
    _of("T08", "min_frequency is exceeded, not reached.", "no token at the edge", "one at the edge", MoreOftenThan),
    _of("T09", "min_frequency counts texts.", "a token once a text", "a token twice in a text", OncePerText),
    _of("T10", "Prompts do not go through the options.", "no options", "a prompt in capitals", PromptsAsTheyCome),
    _of("T11", "strip_accents turns ñ into n.", "text without ñ", "ñ", TildeRemoved),
    _of("T12", "strip_accents drops ¿ and ¡.", "text without them", "¿ or ¡", ToAscii),
    _of("T13", "lower folds: ß becomes ss.", "Spanish alone", "ß", Folded),
    _of("T14", "A number is one token.", "no two digits in a row", "a year", WholeNumbers),
    _of("T15", "Words are ASCII words.", "text without accents", "an accent in a word", AsciiWords),
    _of("T16", "White space is no token.", "one word", "two words", WhiteSpaceDropped),
    _of("T17", "<EOS> in a text is the special token.", "text without it", "<EOS> in a text", NamesInTextAreSpecial),
    _of("T18", "decode joins with spaces.", "one token", "two tokens", JoinedWithSpaces),
    _of("T19", "Negative ids count from the end.", "valid ids", "id -1 must raise", NegativeIds, accepts=True),
    _of("T20", "Special tokens are cut out of the text by name.", "text without <", "<PAD> in a text", NamesRemoved),
    _of("T21", "decode_text shows <UNK>.", "known tokens", "an unknown token", UnknownShown),
    _of("T22", "options() lacks nfc.", "no nfc", "a tokenizer with nfc, saved and loaded", FormForgotten),
)
