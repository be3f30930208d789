"""Every sentence of the page, in English and Spanish: the one table of them.

(It is long because it is a table; a placeholder is filled in by the page.)
"""

from __future__ import annotations

LANGUAGES = ("en", "es")
Both = tuple[str, str]

# name of the step -> its title, and the one idea of it
STEPS: dict[str, tuple[Both, Both]] = {
    "X": (
        ("Words become numbers", "Las palabras se vuelven números"),
        (
            "Each word is a row of d numbers: the row of its token plus the row of its position.",
            "Cada palabra es una fila de d números: la fila de su token más la fila de su posición.",
        ),
    ),
    "W": (
        ("Three projections", "Tres proyecciones"),
        (
            "Three matrices are what training changes: they will turn each word into a query, a key and a value.",
            "Tres matrices son lo que cambia al entrenar: harán de cada palabra una consulta, una clave y un valor.",
        ),
    ),
    "Q": (
        ("Queries", "Consultas"),
        (
            "What each word looks for: its row of X, projected by Wq.",
            "Lo que busca cada palabra: su fila de X, proyectada por Wq.",
        ),
    ),
    "K": (
        ("Keys", "Claves"),
        (
            "What each word can be found by: its row of X, projected by Wk.",
            "Aquello por lo que se puede encontrar cada palabra: su fila de X, proyectada por Wk.",
        ),
    ),
    "V": (
        ("Values", "Valores"),
        (
            "What each word hands over when others look at it: its row of X, projected by Wv.",
            "Lo que entrega cada palabra cuando otras la miran: su fila de X, proyectada por Wv.",
        ),
    ),
    "Omega": (
        ("Scores", "Puntuaciones"),
        (
            "Every query meets every key in a dot product; the one transposition lets a single matrix product do them all.",
            "Cada consulta se encuentra con cada clave en un producto escalar; la única transposición permite "
            "hacerlos todos en un solo producto de matrices.",
        ),
    ),
    "scaled": (
        ("Scaled scores", "Puntuaciones escaladas"),
        (
            "Dot products of c numbers grow like √c; divided by it (and by the temperature T) they do not saturate "
            "the softmax.",
            "Los productos escalares de c números crecen como √c; divididos por √c (y por la temperatura T) no saturan "
            "el softmax.",
        ),
    ),
    "masked": (
        ("The mask", "La máscara"),
        (
            "With the causal mask no word sees those after it: their scores become -∞, and their weights will be 0.",
            "Con la máscara causal ninguna palabra ve las que vienen después: sus puntuaciones pasan a -∞ y sus pesos "
            "serán 0.",
        ),
    ),
    "A": (
        ("Attention weights", "Pesos de atención"),
        (
            "Softmax turns each row of scores into shares: none is negative, and each row sums to 1.",
            "El softmax convierte cada fila de puntuaciones en proporciones: ninguna es negativa y cada fila suma 1.",
        ),
    ),
    "C": (
        ("Context vectors", "Vectores de contexto"),
        (
            "The new row of each word is a mixture of all the values, in the shares of its row of A.",
            "La nueva fila de cada palabra es una mezcla de todos los valores, en las proporciones de su fila de A.",
        ),
    ),
    "dC": (
        ("The gradient that arrives", "El gradiente que llega"),
        (
            "The way back begins: every entry says how fast the loss changes with that entry of C (here drawn at random).",
            "Empieza el camino de vuelta: cada entrada dice con qué rapidez cambia la pérdida con esa entrada de C "
            "(aquí, al azar).",
        ),
    ),
    "dA": (
        ("What each weight is worth", "Lo que vale cada peso"),
        (
            "A weight counts as much as the value that it lets through agrees with the gradient that arrives.",
            "Un peso cuenta en la medida en que el valor que deja pasar coincide con el gradiente que llega.",
        ),
    ),
    "J": (
        ("The Jacobian of one row", "El jacobiano de una fila"),
        (
            "Through the common denominator every score of a row moves every weight of it: the Jacobian says how much.",
            "Por el denominador común, cada puntuación de una fila mueve todos los pesos de la fila: el jacobiano dice "
            "cuánto.",
        ),
    ),
    "delta": (
        ("One number per row", "Un número por fila"),
        (
            "No Jacobian has to be stored: one number per row is enough, the mean of dA weighted by A.",
            "No hace falta guardar ningún jacobiano: basta un número por fila, la media de dA ponderada por A.",
        ),
    ),
    "dS": (
        ("Back through the softmax", "De vuelta por el softmax"),
        (
            "Only what differs from the mean of its row goes back, times the weight itself; each row sums to 0.",
            "Solo vuelve lo que se aparta de la media de su fila, multiplicado por el propio peso; cada fila suma 0.",
        ),
    ),
    "dOmega": (
        ("Back through the scale", "De vuelta por la escala"),
        (
            "The forward multiplied by a number, and the backward multiplies by the same number.",
            "El paso hacia adelante multiplicó por un número, y el paso hacia atrás multiplica por el mismo.",
        ),
    ),
    "dQ": (
        ("Gradient of the queries", "Gradiente de las consultas"),
        (
            "The gradient of each query is a mixture of the keys, in the amounts of its row of dOmega.",
            "El gradiente de cada consulta es una mezcla de las claves, en las cantidades de su fila de dOmega.",
        ),
    ),
    "dK": (
        ("Gradient of the keys", "Gradiente de las claves"),
        (
            "The gradient of each key is a mixture of the queries, in the amounts of its column of dOmega: hence dOmega^T.",
            "El gradiente de cada clave es una mezcla de las consultas, en las cantidades de su columna de dOmega: de ahí "
            "dOmega^T.",
        ),
    ),
    "dV": (
        ("Gradient of the values", "Gradiente de los valores"),
        (
            "The gradient of each value gathers from all who looked at it, in the shares of its column of A.",
            "El gradiente de cada valor suma lo de todas las palabras que lo miraron, en las proporciones de su columna "
            "de A.",
        ),
    ),
    "dX": (
        ("Three paths meet", "Se juntan tres caminos"),
        (
            "X was used three times, so its gradient is a sum of three: through the queries, the keys and the values.",
            "X se usó tres veces, así que su gradiente es una suma de tres: por las consultas, las claves y los valores.",
        ),
    ),
    "dWq": (
        ("Gradient of Wq", "Gradiente de Wq"),
        (
            "One matrix served all the words, so its gradient is a sum over all of them.",
            "Una misma matriz sirvió a todas las palabras, así que su gradiente es una suma sobre todas ellas.",
        ),
    ),
    "dWk": (
        ("Gradient of Wk", "Gradiente de Wk"),
        (
            "The same for the keys: each entry is a dot product of a column of X and a column of dK.",
            "Lo mismo para las claves: cada entrada es un producto escalar de una columna de X y una columna de dK.",
        ),
    ),
    "dWv": (
        ("Gradient of Wv", "Gradiente de Wv"),
        (
            "And for the values: with these three gradients, training can take its next step.",
            "Y para los valores: con estos tres gradientes, el entrenamiento puede dar su siguiente paso.",
        ),
    ),
}

PAGE: dict[str, Both] = {
    "title": ("One head of attention, forward and backward", "Una cabeza de atención, hacia adelante y hacia atrás"),
    "lead": (
        "Real numbers, matrix by matrix. Point at any entry to see what made it.",
        "Números de verdad, matriz a matriz. Señala cualquier entrada para ver de qué está hecha.",
    ),
    "facts": (
        "{n} words, d = {d}, c = {c}, seed {seed}, float64, computed by reference_numpy.",
        "{n} palabras, d = {d}, c = {c}, semilla {seed}, float64, calculado por reference_numpy.",
    ),
    "facts_one": (
        "1 word, d = {d}, c = {c}, seed {seed}, float64, computed by reference_numpy.",
        "1 palabra, d = {d}, c = {c}, semilla {seed}, float64, calculado por reference_numpy.",
    ),
    "language": ("Language", "Idioma"),
    "theme": ("Theme", "Tema"),
    "theme_auto": ("Auto", "Auto"),
    "theme_light": ("Light", "Claro"),
    "theme_dark": ("Dark", "Oscuro"),
    "previous": ("Previous step", "Paso anterior"),
    "next": ("Next step", "Paso siguiente"),
    "play": ("Play", "Reproducir"),
    "pause": ("Pause", "Pausa"),
    "time": ("Time", "Tiempo"),
    "place": ("Step {k} of {all}, forward", "Paso {k} de {all}, hacia adelante"),
    "place_back": ("Step {k} of {all}, backward", "Paso {k} de {all}, hacia atrás"),
    "switches": ("Switches", "Interruptores"),
    "causal": ("Causal mask", "Máscara causal"),
    "scale": ("Scale 1/√c", "Escala 1/√c"),
    "temperature": ("Temperature", "Temperatura"),
    "temperature_of": ("Temperature of the softmax", "Temperatura del softmax"),
    "row": ("Row", "Fila"),
    "everything": ("All steps", "Todos los pasos"),
    "print": ("Print", "Imprimir"),
    "map": ("The whole of it", "El conjunto"),
    "map_text": (
        "Forward: X times Wq, Wk and Wv gives Q, K and V; Q times K transposed gives Omega; scaled, masked and through the "
        "softmax it is A; A times V is C. Five products and one transposition. The gradients go the same ways back, "
        "from dC to dX, dWq, dWk and dWv.",
        "Hacia adelante: X por Wq, Wk y Wv da Q, K y V; Q por K transpuesta da Omega; escalada, con la máscara y por el "
        "softmax es A; A por V es C. Cinco productos y una transposición. Los gradientes vuelven por los mismos caminos, "
        "de dC a dX, dWq, dWk y dWv.",
    ),
    "map_note": (
        "Five products (1 to 5) and one transposition (T). Above, the forward; below, the gradients on their way back.",
        "Cinco productos (1 a 5) y una transposición (T). Arriba, hacia adelante; abajo, los gradientes de vuelta.",
    ),
    "entry": ("This entry", "Esta entrada"),
    "source": ("In the reference", "En la referencia"),
    "source_line": ("{file}, line {line}", "{file}, línea {line}"),
    "given_X": (
        "Drawn at random from seed {seed}: equal words share the row of their token.",
        "Sacado al azar con la semilla {seed}: las palabras iguales comparten la fila de su token.",
    ),
    "given": ("Drawn at random from seed {seed}.", "Sacado al azar con la semilla {seed}."),
    "hidden": (
        "“{key}” comes after “{query}”, which may not see it.",
        "«{key}» viene después de «{query}», que no puede verla.",
    ),
    "facts_trained": (
        "{n} tokens, d = {d}, c = {c}, block {block}, head {head} of a trained model, float64, computed by "
        "reference_numpy.",
        "{n} tokens, d = {d}, c = {c}, bloque {block}, cabeza {head} de un modelo entrenado, float64, calculado por "
        "reference_numpy.",
    ),
    "idea_X_trained": (
        "Each token is a row of d numbers: what the norm of block {block} of the trained model hands to its attention.",
        "Cada token es una fila de d números: lo que la normalización del bloque {block} del modelo entrenado pasa a su "
        "atención.",
    ),
    "given_trained": ("From the trained model.", "Del modelo entrenado."),
    "unmasked": ("Nothing is masked here.", "Aquí no se oculta nada."),
    "unused": ("Masked: its weight is 0, so nothing of it goes on.", "Oculto: su peso es 0, así que nada de él sigue."),
    "feeds": ("Goes into {count} entries of {name}.", "Interviene en {count} entradas de {name}."),
    "feeds_one": ("Goes into 1 entry of {name}.", "Interviene en 1 entrada de {name}."),
    "matrix": ("{name}, {rows} rows, {columns} columns", "{name}, {rows} filas, {columns} columnas"),
    "transposed": ("{name} transposed", "{name} transpuesta"),
    "legend": ("How to read it", "Cómo se lee"),
    "legend_colour": (
        "Colour: each matrix by its own largest number",
        "Color: cada matriz según su mayor número",
    ),
    "legend_left": ("left factor", "factor izquierdo"),
    "legend_right": ("right factor", "factor derecho"),
    "legend_used": ("what it goes into", "aquello en lo que interviene"),
    "legend_mask": ("masked", "oculto"),
    "keys": ("Keyboard", "Teclado"),
    "key_arrows": ("move among the entries of a matrix", "moverse por las entradas de una matriz"),
    "key_ends": ("first, last entry of the row", "primera, última entrada de la fila"),
    "key_tab": ("next matrix", "matriz siguiente"),
    "key_step": ("next, previous step", "paso siguiente, anterior"),
    "key_play": ("play, pause", "reproducir, pausa"),
    "key_switches": ("causal mask, scale, temperature", "máscara causal, escala, temperatura"),
    "key_row": ("next row of the Jacobian", "fila siguiente del jacobiano"),
    "key_all": ("all steps, or one", "todos los pasos, o uno"),
    "key_language": ("language", "idioma"),
    "letters": ("Letters are shortcuts", "Las letras son atajos"),
    "noscript": (
        "This page draws its matrices with the script inside it: please allow it.",
        "Esta página dibuja sus matrices con el programa que lleva dentro: permítelo, por favor.",
    ),
}


def table() -> dict[str, dict[str, str]]:
    """language -> key -> sentence; a step's title is `title_Q`, its idea `idea_Q`."""
    all_of: dict[str, Both] = {**PAGE}
    for name, (title, idea) in STEPS.items():
        all_of |= {f"title_{name}": title, f"idea_{name}": idea}
    return {language: {key: both[i] for key, both in all_of.items()} for i, language in enumerate(LANGUAGES)}
