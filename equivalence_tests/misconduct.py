"""How an implementation misbehaves, whatever it computes: a code, and the sentence that people read."""

from __future__ import annotations

from dataclasses import dataclass

# By code: which pass misbehaves, and what it does, in English and Spanish.
SENTENCES: dict[str, tuple[str, str, str]] = {
    "prints": ("forward", "it prints", "imprime"),
    "random_state": (
        "forward",
        "it touches NumPy's global random state",
        "toca el estado aleatorio global de NumPy",
    ),
    "warning_filters": ("forward", "it changes the filters of warnings", "cambia los filtros de avisos"),
    "changes_operands": ("forward", "the forward changes its operands", "el paso hacia adelante cambia sus operandos"),
    "in_place": (
        "forward",
        "the forward writes its output into an operand",
        "el paso hacia adelante escribe su salida en un operando",
    ),
    "output_shares_memory": (
        "forward",
        "an output shares memory with an operand",
        "una salida comparte memoria con un operando",
    ),
    "later_call_changes": (
        "forward",
        "a later call changes what an earlier one answered or remembers",
        "una llamada posterior cambia lo que respondió o recuerda una anterior",
    ),
    "answers_differently": (
        "forward",
        "the forward answers differently when called again",
        "el paso hacia adelante responde otra cosa al llamarlo de nuevo",
    ),
    "backward_changes_operands": (
        "backward",
        "the backward changes an operand, an output or its upstream gradient",
        "el paso hacia atrás cambia un operando, una salida o el gradiente que recibe",
    ),
    "backward_in_place": (
        "backward",
        "the backward writes its gradient into the upstream gradient",
        "el paso hacia atrás escribe su gradiente en el gradiente que recibe",
    ),
    "accumulates": (
        "backward",
        "a second call of the backward adds to {tensor} of the first",
        "una segunda llamada del paso hacia atrás suma a {tensor} de la primera",
    ),
    "backward_changes_cache": ("backward", "the backward changes its cache", "el paso hacia atrás cambia su caché"),
    "gradient_shares_memory": (
        "backward",
        "a gradient shares memory with an operand, an output, the upstream gradient or the cache",
        "un gradiente comparte memoria con un operando, una salida, el gradiente que recibe o la caché",
    ),
    "gradients_share_memory": ("backward", "two gradients share memory", "dos gradientes comparten memoria"),
    "not_linear": (
        "backward",
        "-2 times the upstream gradient does not give -2 times {tensor}",
        "-2 veces el gradiente que recibe no da -2 veces {tensor}",
    ),
    "later_backward_changes": (
        "backward",
        "a later call of the backward changes the gradients of an earlier one",
        "una llamada posterior del paso hacia atrás cambia los gradientes de una anterior",
    ),
    "backward_answers_differently": (
        "backward",
        "the backward answers differently when called again",
        "el paso hacia atrás responde otra cosa al llamarlo de nuevo",
    ),
    "raises": ("forward", "called once more, it raised {error}", "al llamarlo de nuevo lanzó {error}"),
}
READ_ONLY = "read-only"  # in what NumPy raises where code writes into what was given
# What is a choice of the author's and no mistake, if the values are right.
BY_DESIGN = frozenset({"in_place", "backward_in_place", "accumulates"})
# The three properties of the report.
CHANGES = frozenset(
    {"changes_operands", "in_place", "backward_changes_operands", "backward_in_place", "backward_changes_cache"}
)
SHARES = frozenset({"output_shares_memory", "gradient_shares_memory", "gradients_share_memory"})


@dataclass(frozen=True)
class Misconduct:
    """The first rule of conduct that is broken: its code, the tensor in which it shows, what was raised."""

    code: str
    tensor: str = ""
    error: str = ""

    @property
    def side(self) -> str:
        """The pass that misbehaves."""
        return SENTENCES[self.code][0]

    def say(self, language: str = "en") -> str:
        sentence = SENTENCES[self.code][2 if language == "es" else 1]
        return sentence.format(tensor=self.tensor, error=self.error)

    def __str__(self) -> str:
        return self.say()
