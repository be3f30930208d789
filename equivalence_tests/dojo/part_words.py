"""The laws of the parts that are katas, in English and Spanish. Names of arguments stay as they are in the code."""

from __future__ import annotations

LAWS: dict[str, tuple[str, str]] = {
    # adamw_step
    "gives_the_right_values_of_small_cases": ("small cases come out right", "los casos pequeños salen bien"),
    "updates_the_arrays_that_it_is_given": (
        "the arrays that it is given are updated themselves",
        "se actualizan los propios arreglos que recibe",
    ),
    "leaves_the_gradients_alone": ("the gradients stay as they are", "los gradientes quedan como están"),
    "keeps_everything_in_the_state": (
        "the state alone holds what the next step needs: step (an int), exp_avg and exp_avg_sq",
        "el estado guarda todo lo que necesita el paso siguiente: step (un int), exp_avg y exp_avg_sq",
    ),
    "treats_every_tensor_as_if_it_were_alone": (
        "a tensor takes the same steps alone and beside others",
        "un tensor da los mismos pasos solo que junto a otros",
    ),
    "follows_the_equations": (
        "100 steps follow the equations, in float64 and in float32",
        "100 pasos siguen las ecuaciones, en float64 y en float32",
    ),
    # clip_gradients
    "clips_by_one_norm_over_all": (
        "all gradients are clipped by one norm, that of all of them",
        "todos los gradientes se recortan con una sola norma, la de todos juntos",
    ),
    "gives_the_right_values_of_a_report": ("a known case comes out right", "un caso conocido sale bien"),
    "leaves_small_gradients_as_they_are": (
        "gradients below the limit stay as they are, to the last bit",
        "los gradientes por debajo del límite quedan como están, hasta el último bit",
    ),
    "never_overflows": ("no square overflows or vanishes", "ningún cuadrado se desborda ni se queda en 0"),
    "returns_new_arrays": (
        "new arrays are returned, which share no memory with those that came",
        "se devuelven arreglos nuevos, que no comparten memoria con los recibidos",
    ),
    "counts_a_tied_array_once": (
        "an array under two names counts once and comes back as one",
        "un arreglo con dos nombres cuenta una sola vez y se devuelve como uno solo",
    ),
    # top_k
    "exactly_k_stay": (
        "exactly k logits stay, the lowest ids among equals",
        "quedan exactamente k logits y, entre iguales, los de menor id",
    ),
    "top_k_filters_each_row_for_itself": (
        "each row is filtered for itself",
        "cada fila se filtra por su cuenta",
    ),
}
