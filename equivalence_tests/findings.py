"""What a check found, as a code with numbers; the sentences that people read, in English and Spanish, from one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from equivalence_tests.digits import apart
from equivalence_tests.law_words import law_phrase
from equivalence_tests.part_sentences import PART_SENTENCES
from equivalence_tests.phrases import in_spanish

LANGUAGES = ("en", "es")
LARGEST = 1e100  # a larger share is one of a budget of next to nothing


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
        shown = {name: _shown(name, self.numbers, language) for name in self.numbers}
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


def _shown(name: str, numbers: dict[str, Any], language: str) -> str:
    """A number with as many digits as tell it from the others of its finding, and from 1: what is 1 times is right."""
    value = numbers[name]
    if name == "law":
        return law_phrase(str(value), language)
    if not isinstance(value, float):
        return in_spanish(str(value)) if language == "es" else str(value)
    if name == "share" and value > LARGEST:
        return "∞"
    if name == "digits":
        return f"{value:.0f}"
    return apart(value, 1.0, *(other for other in numbers.values() if isinstance(other, float)))


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
    "integers_widened": Sentence(
        "dtype",
        "ids in {types} are not taken: int64 goes in, and {types} is not checked",
        "no acepta ids en {types}: entran en int64, y {types} no se comprueba",
    ),
    "contiguous_passed": Sentence(
        "axis",
        "{framework} takes no strided arrays: contiguous copies go in, and strides are not checked",
        "{framework} no acepta arrays con saltos: entran copias contiguas, y los saltos no se comprueban",
    ),
    "layer": Sentence(
        "conduct",
        "each call is made on a layer of its own; weights and gradients go by attributes ({weights}; transposed: {turned})",
        "cada llamada usa una capa propia; pesos y gradientes van por sus atributos ({weights}; transpuestos: {turned})",
    ),
    "few_shapes": Sentence(
        "axis",
        "{framework} compiles for each new shape: at most {cases} cases are drawn, their sizes from {count} sets",
        "{framework} compila para cada forma nueva: se sortean {cases} casos como mucho, con tamaños de {count} juegos",
    ),
    "draws_unused": Sentence(
        "conduct",
        "it draws from NumPy's global random state, but no answer depends on what it draws",
        "saca números del estado aleatorio global de NumPy, pero ninguna respuesta depende de ellos",
    ),
    "gradients_not_returned": Sentence(
        "shape",
        "its backward does not return {names}: not checked; the other gradients are",
        "su paso hacia atrás no devuelve {names}: no se comprueba; los demás gradientes sí",
    ),
    "never_answers": Sentence(
        "special",
        "every case raises {error}; expected a function of {op}'s operands: {operands} "
        "(--sizes, --lead and --without draw what it takes)",
        "cada caso lanza {error}; se esperaba una función de los operandos de {op}: {operands} "
        "(--sizes, --lead y --without sortean lo que acepta)",
    ),
    "refuses_option": Sentence(
        "option",
        "it does not take {option}: {cases} cases are not judged; `--without {option}` leaves it out",
        "no acepta {option}: {cases} casos no se juzgan; `--without {option}` lo deja fuera",
    ),
    "refuses_together": Sentence(
        "option",
        "it refuses {options} together: {cases} cases are not judged; `--without {option}` leaves one out",
        "no acepta {options} a la vez: {cases} casos no se juzgan; `--without {option}` deja uno fuera",
    ),
    "takes_lead": Sentence(
        "axis",
        "it takes {counts} leading axes alone: {cases} cases are not judged; `--lead {lead}` draws no others",
        "solo acepta {counts} ejes delanteros: {cases} casos no se juzgan; `--lead {lead}` no sortea otros",
    ),
    "takes_contiguous": Sentence(
        "axis",
        "it takes contiguous arrays alone: strided ones are not checked",
        "solo acepta arrays contiguos: los que tienen saltos no se comprueban",
    ),
    "takes_equal": Sentence(
        "axis",
        "it takes equal sizes of {letters} alone: {cases} cases are not judged; `--sizes {equal}` draws no others",
        "solo acepta tamaños iguales de {letters}: {cases} casos no se juzgan; `--sizes {equal}` no sortea otros",
    ),
    "takes_powers": Sentence(
        "axis",
        "it takes powers of 2 as {letter} alone: {cases} cases are not judged; `--sizes {letter}=4` draws no others",
        "solo acepta potencias de 2 como {letter}: {cases} casos no se juzgan; `--sizes {letter}=4` no sortea otros",
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
    "writes_rubbish": Sentence(
        "conduct",
        "it writes to descriptors that are not its own: its answer cannot be read ({at})",
        "escribe en descriptores que no son suyos: su respuesta no se puede leer ({at})",
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
    "too_few_judged": Sentence(
        "special",
        "{tensor} was judged in {judged} of {drawn} cases: the others ask for what it does not take",
        "{tensor} se juzgó en {judged} de {drawn} casos: los demás piden lo que no acepta",
    ),
    "too_few_judged_ill": Sentence(
        "special",
        "{tensor} was judged in {judged} of {drawn} cases: in the others rounding errors are as large as the answer",
        "{tensor} se juzgó en {judged} de {drawn} casos: en los demás el redondeo es tan grande como la respuesta",
    ),
    "convention_dtype": Sentence(
        "convention",
        "{tensors}: {got} where {expected} went in",
        "{tensors}: {got} donde entró {expected}",
    ),
    "convention_axes": Sentence(
        "convention",
        "it takes operands with {lead} leading axes; here any number of them is taken",
        "acepta operandos con {lead} ejes delanteros; aquí se acepta cualquier número",
    ),
    "convention_layout": Sentence(
        "convention",
        "heads are the third axis, {layout}; here they are the second",
        "las cabezas son el tercer eje, {layout}; aquí son el segundo",
    ),
    "convention_columns": Sentence(
        "convention",
        "vectors are columns, (d, n); here they are rows, (n, d)",
        "los vectores son columnas, (d, n); aquí son filas, (n, d)",
    ),
    "convention_middle": Sentence(
        "convention",
        "the batch is the second axis, (n, B, d); here it is the first",
        "el lote es el segundo eje, (n, B, d); aquí es el primero",
    ),
    "convention_one_hot": Sentence(
        "convention",
        "targets are one-hot rows; here they are ids",
        "los objetivos son filas one-hot; aquí son índices",
    ),
    "convention_mask_true": Sentence(
        "convention",
        "True in a mask hides a key; here it shows one",
        "True en una máscara oculta una clave; aquí la muestra",
    ),
    "convention_epsilon": Sentence(
        "convention",
        "epsilon is {got}; here it is {expected}",
        "epsilon es {got}; aquí es {expected}",
    ),
    "convention_gelu_form": Sentence(
        "convention",
        "gelu in its erf form, X Phi(X); here it is the tanh form",
        "gelu en su forma erf, X Phi(X); aquí es la forma tanh",
    ),
    "convention_sum": Sentence(
        "convention",
        "the loss is a sum over the targets; here it is their mean",
        "la pérdida es una suma sobre los objetivos; aquí es su media",
    ),
    "convention_mean_all": Sentence(
        "convention",
        "the loss is divided by the number of all targets, the ignored ones too; here by those that count",
        "la pérdida se divide por el número de todos los objetivos, también los ignorados; aquí por los que cuentan",
    ),
    "convention_mean_batch": Sentence(
        "convention",
        "the loss is a sum divided by the size of the first axis; here by the number of targets",
        "la pérdida es una suma dividida por el tamaño del primer eje; aquí por el número de objetivos",
    ),
    "convention_no_reduction": Sentence(
        "convention",
        "there is a loss for each target; here it is their mean",
        "hay una pérdida por cada objetivo; aquí es su media",
    ),
    "convention_causal": Sentence(
        "convention",
        "it is always causal; here that is an option",
        "siempre es causal; aquí eso es una opción",
    ),
    "convention_window": Sentence(
        "convention",
        "a query sees only keys from {behind} before it to {ahead} after it; here it sees them all",
        "una consulta solo ve claves desde {behind} antes hasta {ahead} después; aquí las ve todas",
    ),
    "convention_alignment": Sentence(
        "convention",
        "causal with n != m: the last query sees the last key (bottom-right); here the first one the first (top-left)",
        "causal con n != m: la última consulta ve la última clave (abajo a la derecha); aquí la primera ve la primera",
    ),
    "convention_fill": Sentence(
        "convention",
        "masked scores are filled with a finite number, so a query that sees no key gets an average of V; here it gets 0",
        "las puntuaciones ocultas se llenan con un número finito: una consulta sin claves recibe una media de V; aquí, 0",
    ),
    "convention_in_place": Sentence(
        "convention",
        "it writes its answer into an array that it was given; here nothing that is given is changed",
        "escribe su respuesta en un array que recibió; aquí no se cambia nada de lo recibido",
    ),
    "convention_backward_in_place": Sentence(
        "convention",
        "it writes its gradient into the upstream gradient; here nothing that is given is changed",
        "escribe su gradiente en el gradiente que recibe; aquí no se cambia nada de lo recibido",
    ),
    "convention_accumulates": Sentence(
        "convention",
        "a second call of the backward adds to {tensor} of the first; here each call starts anew",
        "una segunda llamada del paso hacia atrás suma a {tensor} de la primera; aquí cada llamada empieza de nuevo",
    ),
    "stored_log_sum_exp": Sentence(
        "precision",
        "it agrees as a recomputation from a stored log-sum-exp ({cases} of {of} cases exceed the ordinary budget and keep "
        "the wider one): digits are lost where scores are large",
        "concuerda como recálculo a partir de un log-sum-exp guardado ({cases} de {of} casos exceden el margen ordinario y "
        "respetan el más amplio): se pierden cifras donde las puntuaciones son grandes",
    ),
    "edge": Sentence("special", "at an edge, {law}: {what}", "en un caso extremo no se cumple una ley: {law}"),
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
    "wrong_values": Sentence("value", "{tensor} is wrong", "{tensor} está mal"),
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
    "not_returned": Sentence(
        "shape",
        "{tensor} is not returned: the gradients that are returned are judged",
        "no se devuelve {tensor}: se juzgan los gradientes que se devuelven",
    ),
    "answers_in": Sentence(
        "dtype",
        "it answers in {got} where {came} comes in; it is judged in {judged}",
        "responde en {got} cuando entra {came}; se juzga en {judged}",
    ),
    "accumulates": Sentence(
        "accumulation",
        "{tensor}: gradients accumulate between calls{at_line}; each call is judged after a reset",
        "{tensor}: los gradientes se acumulan entre llamadas{at_line}; cada llamada se juzga tras reiniciarlos",
    ),
    "backward_once": Sentence(
        "conduct",
        "the backward can be called only once for each forward (then it raises {error}): it is judged after a new forward",
        "el paso hacia atrás solo se puede llamar una vez por cada paso hacia adelante (después lanza {error}): se juzga "
        "tras repetir el paso hacia adelante",
    ),
    "gradient_not_summed": Sentence(
        "accumulation",
        "{tensor} is not summed over its leading axes ({axes}): their sum is what differences of its own forward give",
        "{tensor} no está sumado sobre sus ejes iniciales ({axes}): la suma es lo que da la derivada numérica",
    ),
    "gradient_of_a_part": Sentence(
        "accumulation",
        "{tensor} is not summed over axis {axis} of the output: it is what {witness} of its own forward give for the "
        "{place} entry of the upstream gradient alone",
        "{tensor} no suma sobre el eje {axis} de la salida: es lo que da la derivada numérica con una sola entrada ({at}) "
        "del gradiente que recibe",
    ),
    "gradient_plus_term": Sentence(
        "term",
        "{tensor} is what {witness} of its own forward give, plus {term_said}, in all {cases} wrong cases (X its operand, "
        "Y the output, dY the upstream gradient, sums over the last axis)",
        "{tensor} es lo que da la derivada numérica más {term_said}, en los {cases} casos erróneos (X es el operando, Y la "
        "salida, dY el gradiente que recibe; las sumas son sobre el último eje)",
    ),
    "never_runs": Sentence(
        "special",
        "it raises {error} in every case: it was given {given}; expected operands that it takes",
        "lanza {error} en todos los casos: recibió {given}; se esperaban operandos que acepte",
    ),
    "few_slopes": Sentence(
        "special",
        "{tensor} was judged in {judged} of {of} cases, fewer than half: in the others neither complex steps nor "
        "differences of the forward tell a slope",
        "{tensor} se juzgó en {judged} de {of} casos, menos de la mitad: en los demás ni el paso complejo ni las "
        "diferencias del paso hacia adelante dan una pendiente",
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
    "arises": Sentence(
        "special",
        "the first {first} arises in line {line}: {text}",
        "el primer {first} surge en la línea {line}: {text}",
    ),
    "arises_after": Sentence(
        "special",
        "the first {first} arises in line {line}: {text}; the first inf in line {line_before}: {text_before}",
        "el primer {first} surge en la línea {line}: {text}; el primer inf en la línea {line_before}: {text_before}",
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
    "law_broken": Sentence("special", "{law}: {what}", "no se cumple una ley: {law}"),
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
    # The line of the user's own file.
    "own_line": Sentence(
        "value",
        "{file}:{line}: `{text}` is the line; `{belongs}` belongs there",
        "{file}:{line}: la línea es `{text}`; ahí va `{belongs}`",
    ),
    "own_line_stands": Sentence(
        "value",
        "{file}:{line}: `{text}` is {stands}, where `{belongs}` belongs",
        "{file}:{line}: `{text}` es {stands}, donde va `{belongs}`",
    ),
    "own_line_agree": Sentence(
        "value",
        "{file}:{line}: `{text}` is the line; `{belongs}` belongs there; what it reads agrees (by line): {agree}",
        "{file}:{line}: la línea es `{text}`; ahí va `{belongs}`; lo que lee coincide (por línea): {agree}",
    ),
    "own_line_stands_agree": Sentence(
        "value",
        "{file}:{line}: `{text}` is {stands}, where `{belongs}` belongs; what it reads agrees (by line): {agree}",
        "{file}:{line}: `{text}` es {stands}, donde va `{belongs}`; lo que lee coincide (por línea): {agree}",
    ),
    "own_line_look": Sentence(
        "value",
        "{file}:{line}: `{text}` is the wrong line",
        "{file}:{line}: `{text}` es la línea errónea",
    ),
    "own_line_nan": Sentence(
        "special",
        "{file}:{line}: `{text}` is where the first {stands} arises",
        "{file}:{line}: en `{text}` surge el primer {stands}",
    ),
    "own_line_inf": Sentence(
        "special",
        "{file}:{line}: `{text}` is where the first {stands} arises; from it comes the first nan, in line {belongs}",
        "{file}:{line}: en `{text}` surge el primer {stands}; de él viene el primer nan, en la línea {belongs}",
    ),
    "own_line_dtype": Sentence(
        "dtype",
        "{file}:{line}: `{text}` is where {stands} arises; {belongs} went in",
        "{file}:{line}: en `{text}` surge {stands}; entró {belongs}",
    ),
    "own_line_digits": Sentence(
        "precision",
        "{file}:{line}: `{text}` is where digits are lost: with this value in more precise arithmetic the answer is right",
        "{file}:{line}: en `{text}` se pierden cifras: con este valor en aritmética más precisa la respuesta es correcta",
    ),
    "own_line_raises": Sentence(
        "special",
        "{file}:{line}: `{text}` raises {stands}",
        "{file}:{line}: `{text}` lanza {stands}",
    ),
}
SENTENCES.update({code: Sentence(*each) for code, each in PART_SENTENCES.items()})
