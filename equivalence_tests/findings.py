"""What a check found, as a code with numbers; the sentences that people read, in English and Spanish, from one table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

LANGUAGES = ("en", "es")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: the code says what, `tensor` the output or gradient in which it shows, `stage` the line
    of the formula in which it happens, `numbers` how much. `sure` tells what is proved from what is guessed.
    """

    code: str
    tensor: str = ""
    stage: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    sure: bool = True

    @property
    def kind(self) -> str:
        """The family of the mistake: a factor, a term, an axis, an option, ... as in `Mistake.kinds`."""
        return str(self.numbers.get("kind", SENTENCES[self.code].kind))

    def say(self, language: str = "en") -> str:
        """The sentence, with the evidence behind it. KeyError for a language that is not in LANGUAGES."""
        sentence = {"en": SENTENCES[self.code].en, "es": SENTENCES[self.code].es}[language]
        shown = {name: _shown(value) for name, value in self.numbers.items()}
        factor, named = shown.get("factor", ""), shown.get("named", "")
        shown["amount"] = factor if factor == named else f"{factor} = {named}"
        term = shown.get("term", self.stage)
        shown["place"] = term if term == self.stage else f"{term} {'in' if language == 'en' else 'en'} {self.stage}"
        return sentence.format(tensor=self.tensor, stage=self.stage, **shown)

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "tensor": self.tensor,
            "stage": self.stage,
            "numbers": self.numbers,
            "sure": self.sure,
            "says": {language: self.say(language) for language in LANGUAGES},
        }


@dataclass(frozen=True)
class Sentence:
    """How a code is said. Each placeholder is `tensor`, `stage` or one of the finding's numbers."""

    kind: str
    en: str
    es: str


def _shown(value: Any) -> str:
    if isinstance(value, float) and abs(value) > 1e100:  # over a budget of next to nothing
        return "∞"
    if (
        isinstance(value, float) and math.isfinite(value) and 0.0 < abs(value - round(value)) < 1e-5
    ):  # as many digits as differ
        return f"{value:.12g}"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


SENTENCES: dict[str, Sentence] = {
    "raises": Sentence(
        "special",
        "it raises {error} on a case that is right ({cases} of {of} cases)",
        "lanza {error} en un caso correcto ({cases} de {of} casos)",
    ),
    "wrong_dtype": Sentence(
        "dtype", "{tensor} is {got} where {expected} went in", "{tensor} es {got} aunque entró {expected}"
    ),
    "wrong_shape": Sentence(
        "shape", "{tensor} has shape {got}, expected {expected}", "{tensor} tiene forma {got}; se esperaba {expected}"
    ),
    "no_case": Sentence(
        "special",
        "no case of {op} asks only for what its signature takes",
        "ningún caso de {op} pide solo lo que acepta su firma",
    ),
    "forward_alone": Sentence(
        "special",
        "no backward came with it: gradients are not checked",
        "no vino con paso hacia atrás: los gradientes no se comprueban",
    ),
    "hangs": Sentence(
        "special",
        "it does not come back: no answer within {seconds} s ({at})",
        "no vuelve: sin respuesta en {seconds} s ({at})",
    ),
    "ends_process": Sentence(
        "special",
        "it ends the process ({how}; {at})",
        "termina el proceso ({how}; {at})",
    ),
    "not_replayed": Sentence(
        "conduct",
        "the failing case alone does not fail in a fresh process: what it answers depends on earlier calls",
        "el caso que falla no falla por sí solo en un proceso nuevo: lo que responde depende de llamadas anteriores",
    ),
    "prints": Sentence("conduct", "it prints: {bytes} bytes", "imprime: {bytes} bytes"),
    "one_dtype_only": Sentence(
        "dtype",
        "it computes in {dtype} only; {other} is not checked",
        "solo calcula en {dtype}; {other} no se comprueba",
    ),
    "edge": Sentence("special", "at an edge, {law}: {what}", "en un caso extremo, {law}: {what}"),
    "other_answer": Sentence(
        "conduct",
        "case {case} in {dtype} has another answer when it comes in another order",
        "el caso {case} en {dtype} tiene otra respuesta cuando llega en otro orden",
    ),
    "other_answer_in_fresh_process": Sentence(
        "conduct",
        "case {case} in {dtype} has another answer in a fresh process, where the cases come in another order",
        "el caso {case} en {dtype} tiene otra respuesta en un proceso nuevo, donde los casos llegan en otro orden",
    ),
    "missing": Sentence("shape", "{tensor} is not returned", "no se devuelve {tensor}"),
    "conduct": Sentence("conduct", "{what}", "{what_es}"),
    "worst_element": Sentence(
        "value",
        "{tensor}[{index}] is {got}, expected {expected}: {share} times what rounding explains",
        "{tensor}[{index}] es {got}; se esperaba {expected}: {share} veces lo que explica el redondeo",
    ),
    # Laws without a reference: what a function's own forward says of its gradient.
    "gradient_factor": Sentence(
        "factor",
        "{tensor} is {factor} times what {witness} of its own forward give, in all {cases} wrong cases",
        "{tensor} es {factor} veces lo que da la derivada numérica de su paso hacia adelante, en los {cases} casos "
        "erróneos",
    ),
    "gradient_differs": Sentence(
        "value",
        "{tensor}[{index}] is {got}, but {witness} of its own forward give {expected} within {allowed} "
        "({wrong} of {of} elements wrong, in {cases} cases)",
        "{tensor}[{index}] es {got}, pero la derivada numérica de su paso hacia adelante da {expected} con un margen de "
        "{allowed} ({wrong} de {of} elementos mal, en {cases} casos)",
    ),
    "gradient_imprecise": Sentence(
        "precision",
        "{tensor} is right, but not to the last digits: off by {error} of its size, where one rounding is {unit}",
        "{tensor} es correcto, pero no hasta las últimas cifras: se desvía {error} de su tamaño; un redondeo es {unit}",
    ),
    "gradient_of_another": Sentence(
        "operand",
        "{tensor} and {other} are confused: what is returned as {other} is {tensor}, by {witness} of its own forward",
        "{tensor} y {other} están confundidos: lo que se devuelve como {other} es {tensor}, según la derivada numérica",
    ),
    "gradient_transposed": Sentence(
        "axis",
        "{tensor} is transposed: with its last two axes swapped it is what {witness} of its own forward give",
        "{tensor} está transpuesto: con sus dos últimos ejes intercambiados es lo que da la derivada numérica",
    ),
    "not_adjoint": Sentence(
        "value",
        "<dY, J v> is {forward} by {witness} of the forward, <gradient, v> is {backward} by the backward (off by {gap})",
        "<dY, J v> es {forward} según la derivada numérica, <gradiente, v> es {backward} según el paso hacia atrás "
        "(diferencia: {gap})",
    ),
    "not_linear": Sentence(
        "term",
        "{tensor} is not linear in the upstream gradient: off by {gap}, its size is {scale}",
        "{tensor} no es lineal en el gradiente que recibe: se desvía {gap}, su tamaño es {scale}",
    ),
    "not_finite": Sentence(
        "special",
        "{tensor}[{index}] is {got} for finite operands",
        "{tensor}[{index}] es {got} con operandos finitos",
    ),
    "too_many": Sentence(
        "shape",
        "{got} gradients come back, expected {expected}: {names}",
        "se devuelven {got} gradientes; se esperaban {expected}: {names}",
    ),
    "depends_on_layout": Sentence(
        "conduct",
        "{tensor} depends on how its operands lie in memory ({layouts})",
        "{tensor} depende de la disposición en memoria de sus operandos ({layouts})",
    ),
    "batch_dependent": Sentence(
        "axis",
        "{tensor} of a batch is not that of its samples, one by one",
        "{tensor} de un lote no es el de sus muestras, una por una",
    ),
    "not_equivariant": Sentence(
        "axis",
        "{tensor} does not move along when {letter} is permuted",
        "{tensor} no se mueve cuando se permuta {letter}",
    ),
    "law_broken": Sentence("special", "{law}: {what}", "{law}: {what}"),
    # A dump: the line itself is wrong, though what it follows from is right or is taken as it stands there.
    "dump_line": Sentence(
        "value",
        "{tensor} is wrong given {given}: {tensor}[{index}] is {got}, expected {expected} "
        "({share} times what rounding explains)",
        "{tensor} está mal dado {given}: {tensor}[{index}] es {got}; se esperaba {expected} "
        "({share} veces lo que explica el redondeo)",
    ),
    "dump_lines": Sentence(
        "value",
        "{tensor} is wrong given {given}, so the mistake is in one of {lines}: {tensor}[{index}] is {got}, "
        "expected {expected} ({share} times what rounding explains)",
        "{tensor} está mal dado {given}, así que el error está en uno de {lines}: {tensor}[{index}] es {got}; se esperaba "
        "{expected} ({share} veces lo que explica el redondeo)",
    ),
    "dump_shared": Sentence(
        "value",
        "{names} are wrong, and what leads to them is right: one mistake in {lines} would explain them all",
        "{names} están mal, y lo que conduce a ellos está bien: un solo error en {lines} los explicaría todos",
    ),
    "dump_other": Sentence(
        "operand",
        "{names} are wrong given {lines}, which is right: the backward seems to have another {lines} than the forward",
        "{names} están mal dado {lines}, que está bien: el paso hacia atrás parece tener otro {lines} que el de delante",
    ),
    "dump_swapped": Sentence("operand", "{tensor} is what {other} should be", "{tensor} es lo que debería ser {other}"),
    "dump_factor": Sentence(
        "factor",
        "{tensor} is {amount} times what follows from {given}",
        "{tensor} es {amount} veces lo que se sigue de {given}",
    ),
    "dump_columns": Sentence(
        "axis",
        "the columns of {tensor} sum to 1 and its rows do not: the softmax of {given} ran over the queries",
        "las columnas de {tensor} suman 1 y sus filas no: el softmax de {given} recorrió las consultas",
    ),
    # The diagnosis: the library, then edits of the formula, then where the wrong elements lie.
    "known_mistake": Sentence(
        "value",
        "a known mistake, {id}: {sentence} (the same wrong answers in {cases} of {of} wrong cases)",
        "un error conocido, {id}: {sentence_es} (las mismas respuestas erróneas en {cases} de {of} casos incorrectos)",
    ),
    "exchanged_axes": Sentence(
        "axis",
        "it is right where the last two axes of {operands} and of the answer are exchanged: another layout "
        "({cases} of {cases} cases tried)",
        "es correcto si se intercambian los dos últimos ejes de {operands} y de la respuesta: otra disposición "
        "({cases} de {cases} casos probados)",
    ),
    "writes_into_input": Sentence(
        "conduct", "it writes into its arguments: {error}", "escribe en sus argumentos: {error}"
    ),
    "extra_output": Sentence(
        "shape", "{tensor} is returned, but nobody asked for it", "se devuelve {tensor}, que nadie pidió"
    ),
    "missing_term": Sentence(
        "term",
        "the term {term} is missing in {stage} ({tensor}, {cases} of {of} wrong cases)",
        "falta el término {term} en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "missing_operand": Sentence(
        "term",
        "the factor {operand} is missing in {stage} ({tensor}, {cases} of {of} wrong cases)",
        "falta el factor {operand} en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "missing_factor": Sentence(
        "factor",
        "{tensor}: {amount} times too large, the factor {missing} is missing in {stage} of the {side} "
        "({cases} of {of} wrong cases)",
        "{tensor}: {amount} veces demasiado grande, falta el factor {missing} en {stage} "
        "({cases} de {of} casos incorrectos)",
    ),
    "wrong_factor": Sentence(
        "factor",
        "{place} is {amount} times what it should be ({tensor}, {cases} of {of} wrong cases)",
        "{place} es {amount} veces lo que debe ser ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "extra_operand": Sentence(
        "term",
        "{place} has a factor {by} too many ({tensor}, {cases} of {of} wrong cases)",
        "{place} tiene un factor {by} de más ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "factor_moved": Sentence(
        "term",
        "the factor {operand} stands at {later}, not in {stage} ({tensor}, {cases} of {of} wrong cases)",
        "el factor {operand} está en {later} y no en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "missing_constant": Sentence(
        "factor",
        "the {operand} is missing in {stage} of the {side} ({tensor}, {cases} of {of} wrong cases)",
        "falta {operand} en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "unscaled": Sentence(
        "factor",
        "in {stage} what is kept is not divided by 1 - p ({tensor}, {cases} of {of} wrong cases)",
        "en {stage} lo que se conserva no se divide por 1 - p ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "rounded_logarithm": Sentence(
        "precision",
        "the logarithm is that of a softmax: {how} ({tensor}, {cases} of {of} wrong cases)",
        "el logaritmo es el de un softmax: {how} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "ignored_class": Sentence(
        "option",
        "the ignored class is left out of the denominator ({tensor}, {cases} of {of} wrong cases)",
        "la clase ignorada falta en el denominador ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "repeats": Sentence(
        "accumulation",
        "{how} ({tensor}, {cases} of {of} wrong cases)",
        "{how} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "row_0": Sentence(
        "special",
        "row 0 is left out of {stage} ({tensor}, {cases} of {of} wrong cases)",
        "la fila 0 falta en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "memory_order": Sentence(
        "operand",
        "{operand} is read as it lies in memory, not by its indices ({tensor}, {cases} of {of} wrong cases)",
        "{operand} se lee según está en memoria, no por sus índices ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "extra_term": Sentence(
        "term",
        "{by} is added to {term} in {stage} ({tensor}, {cases} of {of} wrong cases)",
        "se suma {by} a {term} en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_sign": Sentence(
        "factor",
        "{place} has the wrong sign ({tensor}, {cases} of {of} wrong cases)",
        "{place} tiene el signo contrario ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_constant": Sentence(
        "factor",
        "{stage} uses the constant {got} where {right} belongs ({cases} of {of} wrong cases)",
        "{stage} usa la constante {got} en lugar de {right} ({cases} de {of} casos incorrectos)",
    ),
    "wrong_scale": Sentence(
        "factor",
        "the scores are scaled by {named} ({tensor}, {cases} of {of} wrong cases)",
        "las puntuaciones se escalan por {named} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_operand": Sentence(
        "operand",
        "{stage} reads {got} where {term} belongs ({tensor}, {cases} of {of} wrong cases)",
        "{stage} lee {got} en lugar de {term} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "term_twice": Sentence(
        "term",
        "the term {term} of {stage} counts twice ({tensor}, {cases} of {of} wrong cases)",
        "el término {term} de {stage} cuenta dos veces ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "skipped": Sentence(
        "term",
        "{stage} is left out: it is {got} as it stands ({tensor}, {cases} of {of} wrong cases)",
        "falta {stage}: es {got} sin más ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "overwritten": Sentence(
        "term",
        "{stage} is {got} alone: its terms overwrite each other where they should add up ({tensor}, {cases} of {of} wrong "
        "cases)",
        "{stage} es solo {got}: sus términos se sobrescriben y no se suman ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_stage": Sentence(
        "value",
        "{tensor} is wrong too, given the stages before it ({cases} of {of} cases)",
        "{tensor} también es incorrecta dadas las anteriores ({cases} de {of} casos)",
    ),
    "norm_order": Sentence(
        "term",
        "the norm stands {how} ({tensor}, {cases} of {of} wrong cases)",
        "la normalización está en otro lugar: {how} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "position_ids": Sentence(
        "operand",
        "positions are counted {how} ({tensor}, {cases} of {of} wrong cases)",
        "las posiciones se cuentan mal: {how} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "gradient_of": Sentence(
        "value",
        "the gradient is {whose} ({tensor}, by differences)",
        "el gradiente es {whose_es} ({tensor}, por diferencias)",
    ),
    "first_wrong_stage": Sentence(
        "value",
        "{tensor} is the first stage that is wrong given the stages before it ({cases} of {of} cases)",
        "{tensor} es la primera etapa incorrecta dadas las anteriores ({cases} de {of} casos)",
    ),
    "operands_exchanged": Sentence(
        "operand",
        "{term} and {got} are exchanged ({tensor}, {cases} of {of} wrong cases)",
        "{term} y {got} están intercambiados ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "transposed": Sentence(
        "axis",
        "{place} is transposed, or not where it should be ({tensor}, {cases} of {of} wrong cases)",
        "{place} está transpuesto, o no lo está donde debe ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "other_form": Sentence(
        "term",
        "{place} has another form: {form} ({tensor}, {cases} of {of} wrong cases)",
        "{place} tiene otra forma: {form} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "some_for_all": Sentence(
        "accumulation",
        "{place}: {which} stands for all ({tensor}, {cases} of {of} wrong cases)",
        "{place}: {which} vale por todos ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "summed_over": Sentence(
        "accumulation",
        "{stage} is summed over {over}, where {right} are meant ({tensor}, {cases} of {of} wrong cases)",
        "{stage} se suma sobre {over}, en lugar de {right} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "not_summed": Sentence(
        "accumulation",
        "{stage} is not summed over {right} ({tensor}, {cases} of {of} wrong cases)",
        "{stage} no se suma sobre {right} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "mean_for_sum": Sentence(
        "factor",
        "{stage} is a mean where a sum is meant ({tensor}, {cases} of {of} wrong cases)",
        "{stage} es una media donde se pide una suma ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "sum_for_mean": Sentence(
        "factor",
        "{stage} is a sum where a mean is meant ({tensor}, {cases} of {of} wrong cases)",
        "{stage} es una suma donde se pide una media ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "mean_of_means": Sentence(
        "accumulation",
        "{stage} is the mean of the sequences' means ({cases} of {of} wrong cases)",
        "{stage} es la media de las medias de las secuencias ({cases} de {of} casos incorrectos)",
    ),
    "wrong_count": Sentence(
        "factor",
        "the loss is divided by {got}, not by {right} ({cases} of {of} wrong cases)",
        "la pérdida se divide por {got}, no por {right} ({cases} de {of} casos incorrectos)",
    ),
    "unbiased": Sentence(
        "factor",
        "{stage} divides by the size less 1 ({tensor}, {cases} of {of} wrong cases)",
        "{stage} divide por el tamaño menos 1 ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_axis": Sentence(
        "axis",
        "{stage} runs over another axis: {axis} ({tensor}, {cases} of {of} wrong cases)",
        "{stage} recorre otro eje: {axis} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "wrong_order": Sentence(
        "axis",
        "{stage} goes in the wrong order ({tensor}, {cases} of {of} wrong cases)",
        "{stage} va en el orden contrario ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "heads": Sentence(
        "axis",
        "heads are cut out or put back {how} ({tensor}, {cases} of {of} wrong cases)",
        "las cabezas se separan o se juntan mal: {how} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "added_constant": Sentence(
        "term",
        "{number} is added in {stage} ({tensor}, {cases} of {of} wrong cases)",
        "se suma {number} en {stage} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "epsilon_place": Sentence(
        "term",
        "epsilon stands {where} ({tensor}, {cases} of {of} wrong cases)",
        "epsilon está en otro lugar: {where} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "maximum_of": Sentence(
        "precision",
        "the maximum that is subtracted is that of {of_what} ({tensor}, {cases} of {of} wrong cases)",
        "el máximo que se resta es el de {of_what} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "no_maximum": Sentence(
        "precision",
        "no maximum is subtracted before exp, which overflows ({tensor}, {cases} of {of} wrong cases)",
        "no se resta el máximo antes de exp, que se desborda ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "overflows": Sentence(
        "precision",
        "{term} overflows ({tensor}, {cases} of {of} wrong cases)",
        "{term} se desborda ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "option_ignored": Sentence(
        "option",
        "the argument {option} is not read ({tensor}, {cases} of {of} wrong cases)",
        "no se lee el argumento {option} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "option_inverted": Sentence(
        "option",
        "the argument {option} is read the other way round ({tensor}, {cases} of {of} wrong cases)",
        "el argumento {option} se lee al revés ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "option_value": Sentence(
        "option",
        "the argument {option} is taken for {got} ({tensor}, {cases} of {of} wrong cases)",
        "el argumento {option} se toma por {got} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "causal_shifted": Sentence(
        "option",
        "the causal mask is off by {by} ({tensor}, {cases} of {of} wrong cases)",
        "la máscara causal está corrida en {by} ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "causal_aligned": Sentence(
        "option",
        "the causal mask is aligned at the last key, bottom-right ({tensor}, {cases} of {of} wrong cases)",
        "la máscara causal está alineada con la última clave ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "mask_arithmetic": Sentence(
        "term",
        "the mask is {done} the scores, not used to select ({tensor}, {cases} of {of} wrong cases)",
        "la máscara se mezcla ({done}) con las puntuaciones en vez de seleccionar ({cases} de {of} casos incorrectos)",
    ),
    "before_softmax": Sentence(
        "operand",
        "links are dropped before the softmax ({tensor}, {cases} of {of} wrong cases)",
        "los enlaces se descartan antes del softmax ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "finite_fill": Sentence(
        "term",
        "masked scores become {fill}, not -inf ({tensor}, {cases} of {of} wrong cases)",
        "las puntuaciones enmascaradas valen {fill}, no -inf ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "empty_row": Sentence(
        "special",
        "a row with nothing to attend to is 0/0 ({tensor}, {cases} of {of} wrong cases)",
        "una fila sin nada que atender da 0/0 ({tensor}, {cases} de {of} casos incorrectos)",
    ),
    "nonfinite": Sentence(
        "special",
        "{tensor} holds {got} where a number should be{when} ({cases} cases)",
        "{tensor} contiene {got} donde debe haber un número{when_es} ({cases} casos)",
    ),
    "accuracy": Sentence(
        "precision",
        "{tensor} is right to {digits} digits only ({cases} cases)",
        "{tensor} solo es correcto hasta {digits} cifras ({cases} casos)",
    ),
    "hard_only": Sentence(
        "precision",
        "{tensor} is wrong only where numbers are extreme or cancel ({cases} cases, by up to {relative} of its size)",
        "{tensor} solo falla con números extremos o que se cancelan ({cases} casos, hasta {relative} de su tamaño)",
    ),
    "only_with": Sentence(
        "option",
        "{tensor} is wrong only in cases with {feature} (all {cases} wrong cases; {right} without it are right)",
        "{tensor} solo falla en casos con {feature} (los {cases} incorrectos; {right} sin ello son correctos)",
    ),
}
