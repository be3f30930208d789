"""Laws of the tokenizer."""

from __future__ import annotations

import string
import unicodedata
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.parts._guard import not_refused, told
from equivalence_tests.parts._part import Law

SPECIAL = ["<BOS>", "<EOS>", "<UNK>", "<PAD>"]

# Texts that a silent normalisation would change; each must come back as it was.
FRAGILE = (
    "e\u0301 y \u00e9",
    "uno\r\ndos\rtres\n",
    "\ufeffla casa",
    "  dos  espacios \t\n",
    "uno\u2028dos\x85tres\x0ccuatro",
    "12 gatos y 3,5 perros (¿o 4?)",
    "<BOS> es <EOS> texto <PAD>",
    "El Ñandú de San José, ¡qué pingüino!",
    "\ufb01n \u212b \u1e9e \u0130",
    "gato\U0001f408\u200d\u2b1b",
)


def the_example_of_the_source(part: Any) -> str:
    """Vocabulary a b c d and a space: ids 5 6 7 8 for the special tokens, 7 for the unknown e."""
    tokenizer = part(["a", "b", "c", "d", " "])
    special = [tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id]
    if (special, tokenizer.vocab_size) != ([5, 6, 7, 8], 9):
        return f"special ids {special} of {tokenizer.vocab_size}, expected [5, 6, 7, 8] of 9"
    ids = tokenizer.encode("a b c d e")
    if ids != [0, 4, 1, 4, 2, 4, 3, 4, 7]:
        return f"'a b c d e' is {ids}"
    text = tokenizer.decode(np.array(ids))
    return "" if text == "a b c d <UNK>" else f"decoded as {text!r}"


def decoding_undoes_encoding(part: Any) -> str:
    """decode(encode(text)) == text for known tokens, whatever the text; and so for decode_text."""
    for text in FRAGILE:
        tokenizer = part.from_texts([text])
        ids = tokenizer.encode(text)
        for decoded in (tokenizer.decode(ids), tokenizer.decode_text(ids)):
            if decoded != text:
                return f"{text!r} came back as {decoded!r}"
    return ""


def tokens_are_digits_signs_words_and_white_space(part: Any) -> str:
    """By an example with numbers, accents, signs and white space, against the pattern written out."""
    text = "¿Año 1999, o X2?  «Sí», dijo_él.\n"
    expected = ["¿", "Año", " ", "1", "9", "9", "9", ",", " ", "o", " ", "X2", "?", " ", " ", "«", "Sí", "»", ",", " "]
    expected += ["dijo_él", ".", "\n"]
    found = part([]).tokens(text)
    return "" if found == expected else f"{text!r} is cut into {found}"


def ids_are_places_in_the_vocabulary(part: Any) -> str:
    """The corpus' tokens keep the order given, the four special ones follow, and nothing has two ids."""
    corpus = ["z", " ", "a", "ñ", "0"]
    tokenizer = part(corpus)
    if tokenizer.vocabulary != [*corpus, *SPECIAL]:
        return f"vocabulary {tokenizer.vocabulary}"
    special = [tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id]
    if special != [5, 6, 7, 8]:
        return f"special ids {special}, expected [5, 6, 7, 8]: symbols beside the corpus' 5"
    ids = [tokenizer.encode(token) for token in corpus]
    return "" if ids == [[0], [1], [2], [3], [4]] else f"{corpus} have the ids {ids}"


def every_unknown_token_is_one_unk(part: Any) -> str:
    """Known tokens keep their ids, each unknown one becomes unk_id, and nothing is lost."""
    tokenizer = part(["abc", " ", "1"])
    ids = tokenizer.encode("abd 2 abc")
    expected = [tokenizer.unk_id, 1, tokenizer.unk_id, 1, 0]
    return "" if ids == expected else f"{ids}, expected {expected}"


def the_vocabulary_is_sorted_and_nothing_else(part: Any) -> str:
    """from_texts gives the tokens of all texts, each once, in the order of their code points."""
    letters = [*string.ascii_letters, "ñ", "é", "Ñ", "0", "9", ",", "¿", " "]
    texts = [
        "".join(f"{letter}," for letter in np.random.default_rng(1).permutation(letters)),
        ", ".join(["zorro", "a"]),
    ]
    expected = sorted({*letters, "zorro"})
    found = part.from_texts(texts).vocabulary[:-4]
    return "" if found == expected else f"vocabulary {found}, expected {expected}"


def a_token_seen_often_enough_is_kept(part: Any) -> str:
    """min_frequency counts over all texts, and a token seen exactly that often stays."""
    texts = ["tres tres", "dos dos tres", "uno"]
    spaces = 3
    for least, words in ((1, ["dos", "tres", "uno"]), (2, ["dos", "tres"]), (3, ["tres"])):
        found = part.from_texts(texts, min_frequency=least).vocabulary[:-4]
        expected = [" "] * (spaces >= least) + words
        if found != expected:
            return f"min_frequency {least}: {found}, expected {expected}"
    return ""


def prompts_go_through_the_options(part: Any) -> str:
    """What a corpus is put through, a prompt is as well: any spelling that the options make equal gets the same ids."""
    composed, apart = "Él pidió AÑO y camión", unicodedata.normalize("NFD", "Él pidió AÑO y camión")
    for options, texts in (
        ({"lower": True}, (composed, composed.upper())),
        ({"nfc": True}, (composed, apart)),
        ({"strip_accents": True}, (composed, apart, "El pidio AÑO y camion")),
        ({"lower": True, "strip_accents": True, "nfc": True}, (composed, apart.upper(), "el pidio año y camion")),
    ):
        tokenizer = part.from_texts(texts[:1], **options)
        first = tokenizer.encode(texts[0])
        for text in texts:
            if tokenizer.encode(text) != first or tokenizer.unk_id in first:
                return f"{options}: {text!r} is not {texts[0]!r}"
    return ""


def only_what_an_option_says_is_changed(part: Any) -> str:
    """ñ, ¿ and ¡ outlive the removal of accents; lower case is str.lower; composing leaves the case alone."""
    text = "¿Cómo está el NIÑO Ñandú, piñón o pingüino? ¡Straße, n\u0303!"
    for options, expected in (
        ({}, text),
        ({"lower": True}, "¿cómo está el niño ñandú, piñón o pingüino? ¡straße, n\u0303!"),
        ({"strip_accents": True}, "¿Como esta el NIÑO Ñandu, piñon o pinguino? ¡Straße, ñ!"),
        ({"nfc": True}, text.replace("n\u0303", "ñ")),
    ):
        found = part([], **options).prepare(text)
        if found != expected:
            return f"{options}: {found!r}, expected {expected!r}"
    return ""


def text_never_becomes_a_special_token(part: Any) -> str:
    """The letters of a special token in a text are three ordinary tokens, known or unknown."""
    for corpus in (["<", ">", "BOS", "EOS", "PAD"], ["a"]):
        tokenizer = part(corpus)
        for name in ("<BOS>", "<EOS>", "<PAD>"):
            expected = [tokenizer.token_to_id.get(piece, tokenizer.unk_id) for piece in ("<", name[1:-1], ">")]
            if tokenizer.encode(name) != expected:
                return f"{name!r} is {tokenizer.encode(name)}, expected {expected}"
    return ""


def readers_see_no_special_token_and_all_text(part: Any) -> str:
    """decode_text leaves out the four ids, and nothing that only looks like one."""
    text = "<UNK> a <PAD>"
    tokenizer = part.from_texts([text])
    special = [tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id]
    found = tokenizer.decode_text([*special, *tokenizer.encode(text), *special])
    return "" if found == text else f"{found!r}, expected {text!r}"


def ids_outside_the_vocabulary_are_refused(part: Any) -> str:
    """ValueError in one line for -1 and for vocab_size, by both decodings."""
    tokenizer = part(["a", "b"])
    for id in (-1, tokenizer.vocab_size):
        for decode in (tokenizer.decode, tokenizer.decode_text):
            told = not_refused(partial(decode, [0, id]))
            if told:
                return f"id {id}: {told}"
    return ""


def options_make_the_same_tokenizer_again(part: Any) -> str:
    """Tokenizer(vocabulary without the special tokens, **options()) encodes as the first did: a checkpoint's way."""
    corpus = ["El", "el", "NIÑO", "niño", "niño", "comió", "comio", " "]
    text = "El NIÑO comió, niño"
    for name in ("lower", "strip_accents", "nfc"):
        first = part(corpus, **{name: True})
        again = part(first.vocabulary[: len(corpus)], **first.options())
        for spelling in (text, unicodedata.normalize("NFD", text)):
            if again.encode(spelling) != first.encode(spelling):
                return f"{name} = True is not among options(): {first.options()}"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "Tokenizer": told(
        the_example_of_the_source,
        decoding_undoes_encoding,
        tokens_are_digits_signs_words_and_white_space,
        ids_are_places_in_the_vocabulary,
        every_unknown_token_is_one_unk,
        the_vocabulary_is_sorted_and_nothing_else,
        a_token_seen_often_enough_is_kept,
        prompts_go_through_the_options,
        only_what_an_option_says_is_changed,
        text_never_becomes_a_special_token,
        readers_see_no_special_token_and_all_text,
        ids_outside_the_vocabulary_are_refused,
        options_make_the_same_tokenizer_again,
    ),
}
