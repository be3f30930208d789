"""The diagnosis's own phrases inside its sentences, in Spanish: an axis, a form, a place. Symbols stay as they are."""

from __future__ import annotations

import re

SPANISH: dict[str, str] = {
    "a softmax of the softmax": "un softmax del softmax",
    "a clip to [-1, 1]": "un recorte a [-1, 1]",
    "a power of 2": "una potencia de 2",
    "it alone": "él mismo, sin más",
    "the logarithm to base 10": "el logaritmo en base 10",
    "the logarithm to base 2": "el logaritmo en base 2",
    "the sigmoid": "la sigmoide",
    "the sine": "el seno",
    "the erf form": "la forma con erf",
    "it is taken of a softmax that has underflown": "es el de un softmax que se ha quedado en 0",
    "of repeated ids the last alone counts": "de los ids repetidos solo cuenta el último",
    "of repeated ids the first alone counts": "de los ids repetidos solo cuenta el primero",
    "tanh from exp(2x)": "tanh a partir de exp(2x)",
    "tanh from exponentials": "tanh a partir de exponenciales",
    "added, times -100, to": "sumada, por -100, a",
    "added, times -1e4, to": "sumada, por -1e4, a",
    "added, times -1e9, to": "sumada, por -1e9, a",
    "multiplied with": "multiplicada por",
    "added to": "sumada a",
    "made to sum to 1 again": "renormalizado para que vuelva a sumar 1",
    "after the sum": "después de la suma",
    "all as 0": "todas como 0",
    "by a reshape alone": "solo con un reshape",
    "from 1": "desde 1",
    "interleaved, in the order (c, H)": "intercaladas, en el orden (c, H)",
    "on from one sequence to the next": "de una secuencia a la siguiente sin volver a 0",
    "up to the last of the window": "hasta la última de la ventana",
    "with the heads before the batch": "con las cabezas antes que el lote",
    "1 over the share that was kept": "1 entre la fracción conservada",
    "1/(1 - p), twice": "1/(1 - p), dos veces",
    "1/p for 1/(1 - p)": "1/p en lugar de 1/(1 - p)",
    "the branch": "la rama",
    "the dropout": "el dropout",
    "the norm": "la normalización",
    "the residual path": "el camino residual",
    "the first": "el primero",
    "the mean": "la media",
    "block 0's": "el del bloque 0",
    "zeros after the softmax": "ceros después del softmax",
    "the axis before the last": "el penúltimo eje",
    "the axis before the one meant": "el eje anterior al que se pide",
    "the first axis": "el primer eje",
    "the last axis": "el último eje",
    "the whole array": "el arreglo entero",
    "the number of rows": "el número de filas",
    "the smallest number": "el menor número",
    "targets shifted once more": "los objetivos desplazados otra vez",
    "False where a mask is given": "False donde hay una máscara",
    "True, always": "True, siempre",
    "True, always, without an offset": "True, siempre, sin desplazamiento",
    "its -inf alone": "solo sus -inf",
    "its default where it is 0": "su valor por omisión donde es 0",
    "its negative": "su negativo",
    "none where it is 0": "ninguno donde es 0",
    "none, whatever scale says": "ninguno, diga lo que diga scale",
    "each entry alone": "cada entrada por sí sola",
    "all rows": "todas las filas",
    "all": "todas",
    "all scores, the masked too": "todas las puntuaciones, también las enmascaradas",
    "all rows but the first of each sequence": "todas las filas menos la primera de cada secuencia",
    "all rows but the last of each sequence": "todas las filas menos la última de cada secuencia",
    "the first row alone": "solo la primera fila",
    "the last row alone": "solo la última fila",
    "the first row of each sequence alone": "solo la primera fila de cada secuencia",
    "the last row of each sequence alone": "solo la última fila de cada secuencia",
    "the first axis alone": "solo el primer eje",
    "the first sequence alone": "solo la primera secuencia",
    "the last sequence alone": "solo la última secuencia",
    "the rows of each sample": "las filas de cada muestra",
    "all leading axes": "todos los ejes anteriores",
    "the counted ones": "los que cuentan",
    "the denominator": "el denominador",
    "the result": "el resultado",
    "the sum": "la suma",
    "the sum over them": "su suma",
    "its positive part": "su parte positiva",
    "as a floor under the deviation": "como mínimo de la desviación",
    "as a floor under the variance": "como mínimo de la varianza",
    "beside the deviation, inside the root": "junto a la desviación, dentro de la raíz",
    "outside the root": "fuera de la raíz",
    "repeated ids": "ids repetidos",
    "several samples": "varias muestras",
    "every element": "todos los elementos",
    "broken": "no se cumple",
    "forward": "paso hacia adelante",
    "backward": "paso hacia atrás",
}
LAYOUT = re.compile(r"an operand that is not contiguous, (\w+)")
TYPE = re.compile(r"of a (\w+)")


def in_spanish(text: str) -> str:
    """A phrase of the diagnosis in Spanish; what is none, such as a symbol, stays as it is."""
    layout = LAYOUT.fullmatch(text)
    if layout:
        return f"un operando no contiguo, {layout[1]}"
    kind = TYPE.fullmatch(text)
    if kind:
        return f"de tipo {kind[1]}"
    return SPANISH.get(text, text)
