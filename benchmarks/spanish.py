"""The README's table of speeds in Spanish: its phrases, one by one."""

from __future__ import annotations

import re

PHRASES = {
    "work (float32)": "trabajo (float32)",
    " bar |": " meta |",
    " measured |": " medido |",
    " times |": " tiempos |",
    "error, of the budget": "error, del margen",
    "a tiny GPT's training step": "paso de entrenamiento de un GPT diminuto",
    "GPT training step": "paso de entrenamiento del GPT",
    "RNN training step": "paso de entrenamiento de la RNN",
    "its recurrence alone": "su recurrencia sola",
    "decoding with a cache, GPT-2 124M's shape": "generación con caché, con la forma de GPT-2 124M",
    "causal attention": "atención causal",
    "the textbook": "la versión de manual",
    "1 layer,": "1 capa,",
    "1 head,": "1 cabeza,",
    "layers": "capas",
    "heads": "cabezas",
    "width": "anchura",
    "vocabulary": "vocabulario",
    "batch": "lote",
    "forward and backward": "hacia adelante y hacia atrás",
    "forward": "hacia adelante",
    "at least": "al menos",
    "at most": "como mucho",
    "under 1 GB": "menos de 1 GB",
    "x the best of torch": "x el mejor torch",
    "of torch eager's memory": "de la memoria de torch eager",
    "of the peak of matrix products": "del pico de los productos de matrices",
    "of the matrix-vector bandwidth": "del ancho de banda de matriz por vector",
    "level with torch's SDPA": "a la par de la SDPA de torch",
    "x torch eager's time": "x el tiempo de torch eager",
    "the least of n": "el menor de n",
    ": at ": ": con ",
    "chunked loss": "pérdida por trozos",
    " to ": " a ",
    " rounds)": " rondas)",
    "not met": "no cumplida",
    "**met**": "**cumplida**",
    "all rows": "todas las filas",
    "plots:": "gráficas:",
    "[attention]": "[atención]",
    "[step]": "[paso]",
    "[loss]": "[pérdida]",
    "[error]": "[error]",
    "bars not measured": "metas sin medir",
}
PATTERN = re.compile("|".join(re.escape(phrase) for phrase in sorted(PHRASES, key=len, reverse=True)))
GROUPS = re.compile(r"\d{1,3}(?:,\d{3})+")


def in_spanish(table: str) -> str:
    """The table with its phrases in Spanish and its thousands apart by a space, as Spanish writes them from 10 000 on."""
    return GROUPS.sub(_grouped, PATTERN.sub(lambda found: PHRASES[found[0]], table))


def _grouped(found: re.Match[str]) -> str:
    groups = found[0].split(",")
    return "".join(groups) if len(groups) == 2 and len(groups[0]) == 1 else "\u00a0".join(groups)
