"""What a check of a part found and assumed, said in English and Spanish: code -> kind, English, Spanish."""

from __future__ import annotations

PART_SENTENCES: dict[str, tuple[str, str, str]] = {
    # One answer that is wrong
    "part_differs": (
        "value",
        "the shortest call that is wrong ({cases} of {of}): {call}{where} is {got}, expected {right}",
        "la llamada más corta con error ({cases} de {of}): {call}{where} es {got}; se esperaba {right}",
    ),
    "part_raises": ("special", "{call} raises {error}", "{call} lanza {error}"),
    "part_changes": ("conduct", "it changes its argument {what}", "cambia su argumento {what}"),
    "part_law": ("value", "a property does not hold: {law}", "no se cumple una propiedad: {law_es}"),
    # AdamW
    "adamw_decay": (
        "term",
        "the decay: from p = 1, after gradients {gradients} ({at}) p is {got}, expected {right}",
        "el decaimiento: desde p = 1, con gradientes {gradients} ({at}) p es {got}; se esperaba {right}",
    ),
    "adamw_update": (
        "term",
        "the update m / (sqrt(v) + epsilon) itself: from p = 1, after gradients {gradients} at {at}, p is {got}, expected "
        "{right}",
        "la propia actualización m / (sqrt(v) + epsilon): desde p = 1, con gradientes {gradients} ({at}) p es {got}; se "
        "esperaba {right}",
    ),
    "adamw_epsilon": (
        "term",
        "epsilon: from p = 1, after gradients {gradients} ({at}) p is {got}, expected {right}",
        "epsilon: desde p = 1, con gradientes {gradients} ({at}) p es {got}; se esperaba {right}",
    ),
    "adamw_first": (
        "term",
        "the first moment or its correction: from p = 1, after gradients {gradients} ({at}) p is {got}, expected {right}",
        "primer momento o su corrección: desde p = 1, con gradientes {gradients} ({at}) p es {got}; se esperaba {right}",
    ),
    "adamw_second": (
        "term",
        "the second moment or its correction: from p = 1, after gradients {gradients} ({at}) p is {got}, expected {right}",
        "segundo momento o su corrección: desde p = 1, con gradientes {gradients} ({at}) p es {got}; se esperaba {right}",
    ),
    "adamw_together": (
        "term",
        "the moments and their corrections together: from p = 1, after gradients {gradients} at {at}, p is {got}, expected "
        "{right}",
        "los momentos y sus correcciones juntos: desde p = 1, con gradientes {gradients} ({at}) p es {got}; se esperaba "
        "{right}",
    ),
    "adamw_differs": (
        "value",
        "in a training of {steps} steps ({dtype}), p of {where} is {got} after step {step}, expected {right}",
        "en un entrenamiento de {steps} pasos ({dtype}), p de {where} es {got} tras el paso {step}; se esperaba {right}",
    ),
    "adamw_shared": (
        "conduct",
        "two models that are trained by turns disturb each other (step {step}): something is kept outside the state",
        "dos modelos entrenados por turnos se estorban (paso {step}): algo se guarda fuera del estado",
    ),
    "adamw_meets": (
        "accumulation",
        "two equal tensors with equal gradients are no longer equal after step {step}",
        "dos tensores iguales con gradientes iguales ya no son iguales tras el paso {step}",
    ),
    # Checkpoints
    "checkpoint_key": (
        "value",
        "{key} comes back with other numbers: {where} is {got}, expected {right}",
        "{key} vuelve con otros números: {where} es {got}; se esperaba {right}",
    ),
    "checkpoint_transposed": ("axis", "{key} comes back transposed", "{key} vuelve transpuesto"),
    "checkpoint_lost": ("value", "{key} does not come back", "{key} no vuelve"),
    "checkpoint_shape": (
        "shape",
        "{key} comes back as {got}, expected {right}",
        "{key} vuelve como {got}; se esperaba {right}",
    ),
    "checkpoint_read_only": ("conduct", "{key} comes back read-only", "{key} vuelve de solo lectura"),
    "checkpoint_saving_changes": (
        "conduct",
        "saving changes what is saved: {key}",
        "guardar cambia lo que se guarda: {key}",
    ),
    # What was assumed, and other habits
    "part_called": ("special", "it was called as {call}", "se llamó así: {call}"),
    "part_guessed": (
        "special",
        "by its place alone, {parameter} was taken for {role}",
        "solo por su lugar, {parameter} se tomó por {role}",
    ),
    "part_not_asked": (
        "special",
        "not asked, since its signature does not take it: {what}",
        "no se preguntó, porque su firma no lo acepta: {what}",
    ),
    "part_takes_dict": ("special", "arrays are given by name", "los arreglos se dan por nombre"),
    "part_takes_list": ("special", "arrays are given in a list", "los arreglos se dan en una lista"),
    "part_takes_array": ("special", "one array is given at a time", "se da un arreglo a la vez"),
    "part_takes_objects": (
        "special",
        "parameters are objects with data and grad",
        "los parámetros son objetos con data y grad",
    ),
    "part_counts_from_0": ("special", "its step is given from 0", "su paso se da desde 0"),
    "part_begins": ("special", "its state begins as it wants it", "su estado empieza como lo pide"),
    "part_steady": (
        "special",
        "its rate cannot change from step to step: a constant one was used",
        "su tasa no puede cambiar entre pasos: se usó una constante",
    ),
    "part_in_place": ("special", "it answers in the array that it is given", "responde en el arreglo que recibe"),
    "part_squares_overflow": (
        "special",
        "squares are taken as they are: far above 1e18 or below 1e-18 in float32 they overflow or vanish",
        "los cuadrados se toman tal cual: muy por encima de 1e18 o por debajo de 1e-18 en float32 se desbordan o se anulan",
    ),
    "part_refuses_zero": ("special", "it refuses a temperature of 0", "rechaza una temperatura de 0"),
    "part_divides_by_zero": (
        "special",
        "a temperature of 0 is divided by: it was not asked for",
        "divide entre una temperatura de 0: no se le preguntó",
    ),
    "part_fill": ("special", "{fill} stands for -inf", "{fill} está en lugar de -inf"),
    "part_shift": (
        "special",
        "the largest logit is not subtracted: the distribution is the same",
        "no se resta el mayor logit: la distribución es la misma",
    ),
    "part_probabilities": (
        "special",
        "it works on probabilities: what stays was compared",
        "trabaja con probabilidades: se comparó lo que queda",
    ),
    "part_once": (
        "special",
        "the penalty is applied once to each token seen",
        "la penalización se aplica una vez a cada token visto",
    ),
    "part_dice": (
        "special",
        "it was given a generator that says one number",
        "recibió un generador que dice un número",
    ),
    "part_numpy_integer": ("special", "the id is a number of NumPy", "el id es un número de NumPy"),
    "part_convention": (
        "special",
        "another convention, {id}: {sentence} (same answers in all {of} cases, {cases} of them other than here)",
        "otra convención, {id}: {sentence_es} (las mismas respuestas en los {of} casos; {cases} distintas de las de aquí)",
    ),
    "part_edge": (
        "special",
        "at an edge it answers otherwise: {law}",
        "en un caso límite responde de otra manera: {law_es}",
    ),
}
