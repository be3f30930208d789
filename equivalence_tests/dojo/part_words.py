"""The parts that are katas: their laws in English and Spanish, their known mistakes in Spanish. Names of arguments stay."""

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
MISTAKES_ES: dict[str, str] = {
    # adamw_step
    "M113": "Los momentos no se corrigen.",
    "M114": "m se multiplica por 1 - beta1^t.",
    "ADW-08": "Los dos momentos se multiplican por 1 - beta^t.",
    "ADW-04": "Hay 1 - beta en lugar de 1 - beta^t.",
    "ADW-05": "El paso se usa antes de contarlo.",
    "O01": "Los pasos se cuentan desde 2.",
    "M116": "Se cuenta un paso por cada tensor.",
    "ADW-06": "El paso sube de un tensor a otro.",
    "M117": "epsilon está dentro de la raíz.",
    "ADW-01": "epsilon se suma antes de corregir v.",
    "M119": "El decaimiento llega después de la actualización.",
    "M120": "El decaimiento está dentro del gradiente.",
    "ADW-03": "El decaimiento no se multiplica por lr.",
    "O02": "El decaimiento conserva la primera lr.",
    "O03": "Los vectores no decaen.",
    "O04": "El decaimiento va según el signo.",
    "M122": "v promedia |g| en lugar de g^2.",
    "M123": "v se calcula con los pesos.",
    "O05": "Los dos betas están intercambiados.",
    "O06": "En m falta el factor 1 - beta1.",
    "O07": "v promedia m^2.",
    "O08": "v no se corrige.",
    "O09": "La corrección de v está fuera de la raíz.",
    "O10": "El mayor v sirve para todo un tensor.",
    "O11": "m mira hacia adelante, en parte.",
    "O12": "Un tensor sin gradiente conserva sus momentos.",
    "M126": "Los arreglos se sustituyen por otros.",
    "O13": "El gradiente se eleva al cuadrado en su propio arreglo.",
    "O14": "El gradiente se pone a 0.",
    "O15": "Los tensores de la misma forma comparten sus momentos.",
    "O16": "Los momentos son float64.",
    "O17": "El paso se cuenta fuera del estado.",
    # clip_gradients
    "M128": "Los gradientes pequeños se agrandan.",
    "M129": "Se recortan las entradas y no la norma.",
    "M131": "Los cuadrados se desbordan.",
    "M132": "Un arreglo compartido cuenta dos veces.",
    "CLP-01": "Cada tensor tiene una norma propia.",
    "O20": "Las normas se suman.",
    "O21": "La mayor entrada hace de norma.",
    "O22": "Es la raíz de la media de los cuadrados.",
    "O23": "Es max_norm / norm, sin el 1e-6.",
    "O24": "Se devuelve la norma de después del recorte.",
    "O25": "grads se recorta en su propio arreglo.",
    "O26": "Los gradientes pequeños se devuelven ellos mismos.",
    "O27": "Lo recortado es float64.",
    # top_k
    "M146": "Queda un token de más.",
    "M147": "Quedan todos los que igualan al k-ésimo.",
    "G14": "Entre iguales quedan los ids más altos.",
    "G15": "Los demás reciben el logit 0.",
    "G16": "Quedan k de todas las filas juntas.",
}
