"""Every question that the probe puts, and every answer, in English and Spanish: the one table of its sentences.

(It is long because it is a table; a placeholder is one of the convention's numbers.)
"""

from __future__ import annotations

LANGUAGES = ("en", "es")
Both = tuple[str, str]

COMMON: dict[str, Both] = {
    "refused": ("is refused: {error}", "se rechaza: {error}"),
    "no_option": ("could not be told: it has no such argument", "no se pudo saber: no tiene tal argumento"),
    "unmatched": (
        "could not be told: what comes out fits no alternative known here",
        "no se pudo saber: lo que sale no concuerda con ninguna alternativa conocida",
    ),
    "ambiguous": (
        "could not be told: several give the same here ({choices})",
        "no se pudo saber: varias dan lo mismo aquí ({choices})",
    ),
    "out_of_reach": (
        "could not be told: no input of this function shows it",
        "no se pudo saber: ninguna entrada de esta función lo muestra",
    ),
    "ignored": ("it is ignored", "se ignora"),
    "value": ("{value}", "{value}"),
    "yes": ("yes", "sí"),
    "no": ("no", "no"),
    "none": ("none", "ninguno"),
    "nan": ("NaN", "NaN"),
    "zero": ("zeros", "ceros"),
}

QUESTIONS: dict[str, tuple[Both, dict[str, Both]]] = {
    "layout": (
        ("axes of Q, K, V", "ejes de Q, K, V"),
        {
            "bhnc": ("(batch, heads, tokens, width)", "(lote, cabezas, tokens, anchura)"),
            "bnhc": ("(batch, tokens, heads, width)", "(lote, tokens, cabezas, anchura)"),
            "hnc": ("(batch or heads, tokens, width)", "(lote o cabezas, tokens, anchura)"),
            "nhc": ("(tokens, batch or heads, width)", "(tokens, lote o cabezas, anchura)"),
            "nc": ("(tokens, width), no more", "(tokens, anchura), nada más"),
        },
    ),
    "output_layout": (
        ("axes of the output", "ejes de la salida"),
        {
            "same": ("as those of Q", "como los de Q"),
            "turned": ("tokens and heads change places", "tokens y cabezas cambian de lugar"),
        },
    ),
    "causal_default": (
        ("causal by itself", "causal por sí misma"),
        {
            "yes": ("yes: no query sees a later key", "sí: ninguna consulta ve una clave posterior"),
            "no": ("no: every query sees every key", "no: cada consulta ve todas las claves"),
        },
    ),
    "causal": (
        ("causal, keys and queries of other counts", "causal con otro número de claves que de consultas"),
        {
            "top_left": ("top-left: query i sees keys j <= i", "arriba a la izquierda: la consulta i ve j <= i"),
            "bottom_right": (
                "bottom-right: the last query sees the last key",
                "abajo a la derecha: la última consulta ve la última clave",
            ),
            "future": ("turned around: query i sees keys j >= i", "al revés: la consulta i ve j >= i"),
            "strict": ("a query does not see its own place: j < i", "una consulta no ve su propio lugar: j < i"),
        },
    ),
    "scale": (
        ("scale by default", "escala por defecto"),
        {
            "root": ("1/sqrt(c), c the width of a head", "1/sqrt(c), con c la anchura de una cabeza"),
            "width": ("1/c", "1/c"),
            "none": ("none", "ninguna"),
            "keys": ("1/sqrt(m), m the number of keys", "1/sqrt(m), con m el número de claves"),
            "times_root": ("sqrt(c): it multiplies instead of dividing", "sqrt(c): multiplica en vez de dividir"),
            "whole": ("1/sqrt(H c), the width of all heads", "1/sqrt(H c), la anchura de todas las cabezas"),
            "other": ("{s} at c = {c}", "{s} con c = {c}"),
            "asked": ("none: it has to be given", "ninguna: hay que darla"),
        },
    ),
    "scale_option": (
        ("the scale that is given", "la escala que se da"),
        {
            "multiplies": ("multiplies the scores, in place of the default", "multiplica, en lugar de la de defecto"),
            "divides": ("divides the scores", "divide"),
            "on_top": ("multiplies on top of the default", "multiplica además de la de defecto"),
        },
    ),
    "scale_place": (
        ("where the scale is applied", "dónde se aplica la escala"),
        {
            "scores": ("to the scores, after Q K^T", "a las puntuaciones, tras Q K^T"),
            "operands": ("to Q or K (or with more digits)", "a Q o K (o con más dígitos)"),
        },
    ),
    "upcast": (
        ("scores of float16 inputs", "puntuaciones con entradas float16"),
        {
            "wider": ("are kept with more range than float16", "se guardan con más rango que float16"),
            "own": ("overflow in float16", "desbordan en float16"),
        },
    ),
    "boolean_mask": (
        ("True in a boolean mask", "True en una máscara booleana"),
        {
            "keeps": ("keeps: may be attended to", "conserva: se puede atender"),
            "drops": ("drops: may not be attended to", "descarta: no se puede atender"),
            "added": ("is added to the scaled scores as a 1", "se suma como 1 a las puntuaciones escaladas"),
            "added_before": ("is added to the raw scores as a 1", "se suma como 1 a las puntuaciones sin escalar"),
            "multiplied": ("multiplies the scores", "multiplica las puntuaciones"),
            "weights_multiplied": ("multiplies the weights after softmax", "multiplica los pesos tras softmax"),
        },
    ),
    "additive_mask": (
        ("an additive mask", "una máscara aditiva"),
        {
            "after": ("is added after scaling", "se suma tras escalar"),
            "before": ("is added before scaling", "se suma antes de escalar"),
            "to_weights": ("is added after softmax", "se suma tras softmax"),
            "subtracted": ("is subtracted", "se resta"),
            "multiplied": ("multiplies the scores", "multiplica las puntuaciones"),
            "read_as_boolean": ("is read as boolean, not 0 keeps", "se lee como booleana: distinto de 0 conserva"),
            "read_as_boolean_drops": (
                "is read as boolean, not 0 drops",
                "se lee como booleana: distinto de 0 descarta",
            ),
        },
    ),
    "empty_row": (
        ("a row that a boolean mask empties", "una fila que la máscara booleana vacía"),
        {
            "zero": ("gives 0", "da 0"),
            "nan": ("gives NaN", "da NaN"),
            "mean": ("gives the mean of V", "da la media de V"),
            "ignored": ("is left unmasked", "queda sin máscara"),
            "no_boolean": (
                "could not be told: no boolean mask shuts anything out",
                "no se pudo saber: ninguna máscara booleana excluye nada",
            ),
        },
    ),
    "empty_row_bias": (
        ("a row that is -inf throughout", "una fila toda de -inf"),
        {
            "zero": ("gives 0", "da 0"),
            "nan": ("gives NaN", "da NaN"),
            "mean": ("gives the mean of V", "da la media de V"),
            "ignored": ("is left unmasked", "queda sin máscara"),
        },
    ),
    "fill": (
        ("what a masked score becomes", "en qué se convierte una puntuación enmascarada"),
        {
            "infinite": ("-inf, or a number that none reaches", "-inf, o un número que nadie alcanza"),
            "finite": ("a number, about {fill}", "un número, cerca de {fill}"),
            "no_boolean": (
                "could not be told: no boolean mask shuts anything out",
                "no se pudo saber: ninguna máscara booleana excluye nada",
            ),
        },
    ),
    "both_masks": (
        ("a causal and a boolean mask at once", "máscara causal y booleana a la vez"),
        {
            "both": ("both hold", "valen las dos"),
            "mask_only": ("only the boolean one holds", "solo vale la booleana"),
            "causal_only": ("only the causal one holds", "solo vale la causal"),
        },
    ),
    "attention_dropout": (
        ("dropout of the weights", "dropout de los pesos"),
        {
            "scaled": ("kept weights are divided by the share kept", "los conservados se dividen por su proporción"),
            "unscaled": ("kept weights stay as they are", "los conservados quedan como están"),
            "wrong_share": ("kept weights are divided by the share dropped", "se dividen por la proporción descartada"),
            "renormalised": ("each row sums to 1 again", "cada fila vuelve a sumar 1"),
            "nothing_left": ("nothing is left", "no queda nada"),
        },
    ),
    "attention_dropout_p": (
        ("p of that dropout", "p de ese dropout"),
        {
            "drops": ("is the share that is dropped", "es la proporción que se descarta"),
            "keeps": ("is the share that is kept", "es la proporción que se conserva"),
        },
    ),
    "dropout": (
        ("what is kept", "lo que se conserva"),
        {
            "scaled": ("is divided by the share kept, 1 - p", "se divide por su proporción, 1 - p"),
            "unscaled": ("stays as it is", "queda como está"),
            "wrong_share": ("is divided by the share dropped", "se divide por la proporción descartada"),
            "renormalised": ("is scaled so that each row's sum stays", "se escala para que cada fila sume igual"),
            "ignored": ("is everything: nothing is dropped", "es todo: no se descarta nada"),
            "nothing_left": ("is nothing", "es nada"),
        },
    ),
    "dropout_p": (
        ("p", "p"),
        {
            "drops": ("is the share that is dropped", "es la proporción que se descarta"),
            "keeps": ("is the share that is kept", "es la proporción que se conserva"),
        },
    ),
    "keep_mask": (
        ("True in the mask", "True en la máscara"),
        {"keeps": ("keeps", "conserva"), "drops": ("drops", "descarta")},
    ),
    "dropout_evaluation": (
        ("outside of training", "fuera del entrenamiento"),
        {
            "identity": ("nothing changes", "nada cambia"),
            "shrinks": ("everything is multiplied by 1 - p", "todo se multiplica por 1 - p"),
            "drops": ("it drops all the same", "descarta igualmente"),
        },
    ),
    "norm_axes": (
        ("axes that are normalised", "ejes que se normalizan"),
        {
            "last": ("the last", "el último"),
            "first": ("the first", "el primero"),
            "middle": ("the middle one of three", "el del medio de tres"),
            "last_two": ("the last two", "los dos últimos"),
            "all": ("all", "todos"),
        },
    ),
    "norm_centre": (
        ("the mean is taken off", "se resta la media"),
        {"yes": ("yes", "sí"), "no": ("no: root mean square", "no: raíz de la media de los cuadrados")},
    ),
    "norm_variance": (
        ("variance", "varianza"),
        {
            "biased": ("biased, divided by d", "sesgada, entre d"),
            "unbiased": ("unbiased, by d - 1", "insesgada, entre d - 1"),
        },
    ),
    "epsilon_place": (
        ("place of epsilon", "lugar de épsilon"),
        {
            "inside": ("inside the root: sqrt(var + epsilon)", "dentro de la raíz: sqrt(var + épsilon)"),
            "outside": ("outside: sqrt(var) + epsilon", "fuera: sqrt(var) + épsilon"),
            "at_least": ("sqrt(max(var, epsilon))", "sqrt(max(var, épsilon))"),
            "nowhere": ("none is seen", "no se ve ninguno"),
        },
    ),
    "epsilon": (
        ("epsilon", "épsilon"),
        {
            "value": ("{epsilon}", "{epsilon}"),
            "none": ("0: a constant row gives NaN", "0: una fila constante da NaN"),
            "below": ("below what the dtype shows", "por debajo de lo que el tipo muestra"),
        },
    ),
    "epsilon_option": (
        ("the epsilon that is given", "el épsilon que se da"),
        {"taken": ("is taken", "se usa")},
    ),
    "norm_affine": (
        ("scale and shift", "escala y desplazamiento"),
        {
            "both": ("scale * N + shift", "escala * N + desplazamiento"),
            "about_one": ("(1 + scale) * N + shift", "(1 + escala) * N + desplazamiento"),
            "scale_only": ("scale * N", "escala * N"),
            "about_one_only": ("(1 + scale) * N", "(1 + escala) * N"),
            "shift_only": ("N + shift", "N + desplazamiento"),
        },
    ),
    "norm_cancels": (
        ("digits lost at a mean of 40000", "dígitos perdidos con media 40000"),
        {
            "yes": ("yes, as with E[x^2] - E[x]^2", "sí, como con E[x^2] - E[x]^2"),
            "no": ("no", "no"),
        },
    ),
    "softmax_kind": (
        ("what it is", "qué es"),
        {
            "plain": ("softmax", "softmax"),
            "log": ("the logarithm of softmax", "el logaritmo de softmax"),
            "base_2": ("softmax with powers of 2", "softmax con potencias de 2"),
        },
    ),
    "softmax_axis": (
        ("axis by default (of three)", "eje por defecto (de tres)"),
        {
            "last": ("the last", "el último"),
            "first": ("the first", "el primero"),
            "middle": ("the middle one", "el del medio"),
            "last_two": ("the last two", "los dos últimos"),
            "all": ("all at once", "todos a la vez"),
            "asked": ("none: it has to be given", "ninguno: hay que darlo"),
        },
    ),
    "softmax_axis_option": (("the axis that is given", "el eje que se da"), {"taken": ("is taken", "se usa")}),
    "softmax_empty": (
        ("a row of -inf", "una fila de -inf"),
        {
            "zero": ("weights of 0", "pesos 0"),
            "uniform": ("equal weights", "pesos iguales"),
        },
    ),
    "softmax_large": (
        ("scores of 10000", "puntuaciones de 10000"),
        {
            "right": ("are right: the maximum is taken off", "son correctas: se resta el máximo"),
            "overflows": ("overflow", "desbordan"),
        },
    ),
    "ce_input": (
        ("what goes in", "qué entra"),
        {
            "logits": ("logits", "logits"),
            "log_probabilities": ("log-probabilities", "log-probabilidades"),
            "probabilities": ("probabilities", "probabilidades"),
            "softmax_twice": ("logits, and softmax is applied twice", "logits, y softmax se aplica dos veces"),
        },
    ),
    "ce_targets": (
        ("targets", "objetivos"),
        {"ids": ("ids of classes", "ids de clases"), "one_hot": ("one-hot rows", "filas one-hot")},
    ),
    "ce_reduction": (
        ("the losses of the rows", "las pérdidas de las filas"),
        {
            "mean": ("are averaged", "se promedian"),
            "sum": ("are summed", "se suman"),
            "none": ("stay one by one", "quedan una a una"),
        },
    ),
    "ce_classes": (
        ("axis of the classes with sequences", "eje de las clases con secuencias"),
        {
            "last": ("the last: (B, n, v)", "el último: (B, n, v)"),
            "second": ("the second: (B, v, n)", "el segundo: (B, v, n)"),
            "both": ("either", "cualquiera de los dos"),
            "rows_only": ("it takes rows alone, (N, v)", "solo admite filas, (N, v)"),
            "columns": ("the first: columns alone, (v, N)", "el primero: solo columnas, (v, N)"),
        },
    ),
    "ce_ignored": (
        ("target ignored by default", "objetivo ignorado por defecto"),
        {"index": ("{index}", "{index}"), "none": ("none", "ninguno")},
    ),
    "ce_counted": (
        ("with ignored targets, the mean", "con objetivos ignorados, la media"),
        {
            "counted": ("is over the counted ones", "es sobre los contados"),
            "all": ("is over all, the ignored as 0", "es sobre todos, los ignorados como 0"),
            "sum": ("is a sum", "es una suma"),
            "each": ("is not taken", "no se toma"),
            "ignored": ("counts them all the same", "los cuenta igualmente"),
        },
    ),
    "ce_all_ignored": (
        ("all targets ignored", "todos los objetivos ignorados"),
        {"zero": ("0", "0"), "number": ("a number", "un número")},
    ),
    "ce_sequences": (
        ("sequences of unequal length", "secuencias de distinta longitud"),
        {
            "tokens": ("one mean over all counted tokens", "una media sobre todos los tokens contados"),
            "sequences": ("the mean of the sequences' means", "la media de las medias de las secuencias"),
            "batch": ("the sum over tokens, divided by the sequences", "la suma entre el número de secuencias"),
            "places": ("the sum, divided by all places", "la suma entre todos los lugares"),
            "sum": ("a sum", "una suma"),
        },
    ),
    "ce_smoothing": (
        ("label smoothing e", "suavizado e de etiquetas"),
        {
            "all_classes": ("spreads e over all classes", "reparte e entre todas las clases"),
            "other_classes": ("spreads e over the other classes", "reparte e entre las otras clases"),
        },
    ),
    "ce_soft": (
        ("targets as probabilities", "objetivos como probabilidades"),
        {"taken": ("are taken", "se admiten")},
    ),
    "ce_range": (
        ("a target that is no class", "un objetivo que no es clase"),
        {"accepted": ("is accepted", "se acepta")},
    ),
    "ce_unlikely": (
        ("a target of no probability", "un objetivo sin probabilidad"),
        {
            "right": ("has its right loss, {loss}", "tiene su pérdida correcta, {loss}"),
            "capped": ("has a loss of no more than {loss}", "tiene una pérdida de {loss} como mucho"),
            "lost": ("gives {loss}", "da {loss}"),
        },
    ),
    "embedding_order": (
        ("order of the arguments", "orden de los argumentos"),
        {
            "ids_first": ("ids, then the table", "ids y después la tabla"),
            "weight_first": ("the table, then ids", "la tabla y después ids"),
            "module": ("ids; the table is its own", "ids; la tabla es suya"),
        },
    ),
    "embedding_factor": (
        ("rows are multiplied by", "las filas se multiplican por"),
        {"none": ("nothing", "nada"), "root": ("sqrt(d)", "sqrt(d)")},
    ),
    "padding_id": (
        ("padding id", "id de relleno"),
        {
            "option": ("none by default; it can be given", "ninguno por defecto; se puede dar"),
            "default": ("{index} by default", "{index} por defecto"),
            "own": ("{index}", "{index}"),
        },
    ),
    "padding_row": (
        ("the row of the padding id", "la fila del id de relleno"),
        {"kept": ("comes out as it is", "sale tal cual"), "zero": ("comes out as 0", "sale como 0")},
    ),
    "padding_gradient": (
        ("its gradient", "su gradiente"),
        {"flows": ("flows", "fluye"), "stopped": ("is 0", "es 0")},
    ),
    "embedding_repeats": (
        ("gradient of a repeated id", "gradiente de un id repetido"),
        {
            "added": ("adds up", "se acumula"),
            "last": ("is that of the last place", "es el del último lugar"),
            "first": ("is that of the first place", "es el del primer lugar"),
            "mean": ("is the mean", "es la media"),
        },
    ),
    "negative_id": (
        ("id -1", "id -1"),
        {
            "from_end": ("counts from the end", "cuenta desde el final"),
            "first": ("is clipped to the first row", "se recorta a la primera fila"),
        },
    ),
    "id_beyond": (
        ("an id beyond the table", "un id más allá de la tabla"),
        {
            "clipped": ("is clipped to the last row", "se recorta a la última fila"),
            "wrapped": ("starts again from the first", "vuelve a la primera"),
        },
    ),
    "gelu_form": (
        ("form", "forma"),
        {
            "tanh": ("tanh", "tanh"),
            "erf": ("erf, the exact one", "erf, la exacta"),
            "quick": ("quick, x sigmoid(1.702 x)", "rápida, x sigmoide(1.702 x)"),
            "silu": ("no gelu: x sigmoid(x)", "no es gelu: x sigmoide(x)"),
            "relu": ("no gelu: relu", "no es gelu: relu"),
            "tanh_alone": ("no gelu: tanh", "no es gelu: tanh"),
        },
    ),
    "gelu_option": (("option for the form", "opción para la forma"), {}),
    "rnn_axes": (
        ("axes of X", "ejes de X"),
        {
            "batch_first": ("(batch, time, d)", "(lote, tiempo, d)"),
            "time_first": ("(time, batch, d)", "(tiempo, lote, d)"),
            "unbatched": ("(time, d), no more", "(tiempo, d), nada más"),
        },
    ),
    "rnn_activation": (
        ("activation", "activación"),
        {"tanh": ("tanh", "tanh"), "relu": ("relu", "relu"), "sigmoid": ("sigmoid", "sigmoide")},
    ),
    "rnn_biases": (
        ("biases", "sesgos"),
        {
            "both": ("two, added", "dos, sumados"),
            "one": ("one", "uno"),
            "second": ("only the second counts", "solo cuenta el segundo"),
            "none": ("none", "ninguno"),
        },
    ),
    "rnn_initial": (
        ("initial state, if none is given", "estado inicial, si no se da"),
        {"zeros": ("zeros", "ceros"), "ones": ("ones", "unos"), "given": ("has to be given", "hay que darlo")},
    ),
    "rnn_input_weight": (
        ("layout of W_ih", "disposición de W_ih"),
        {"out_in": ("(h, d): x W^T", "(h, d): x W^T"), "in_out": ("(d, h): x W", "(d, h): x W")},
    ),
    "rnn_state_weight": (
        ("layout of W_hh", "disposición de W_hh"),
        {
            "out_in": ("(out, in): h W^T", "(salida, entrada): h W^T"),
            "in_out": ("(in, out): h W", "(entrada, salida): h W"),
        },
    ),
    "rnn_last": (
        ("the last state", "el último estado"),
        {
            "none": ("is not returned by itself", "no se devuelve aparte"),
            "flat": ("is returned as (batch, h)", "se devuelve como (lote, h)"),
            "layered": ("is returned as (layers, batch, h)", "se devuelve como (capas, lote, h)"),
            "list": ("is the last of a list of states", "es el último de una lista de estados"),
        },
    ),
    "adam_epsilon": (
        ("place of epsilon", "lugar de épsilon"),
        {
            "outside": ("outside the root: sqrt(v') + epsilon", "fuera de la raíz: sqrt(v') + épsilon"),
            "inside": ("inside the root: sqrt(v' + epsilon)", "dentro de la raíz: sqrt(v' + épsilon)"),
            "before_correction": (
                "outside, before the correction of v",
                "fuera, antes de la corrección de v",
            ),
            "none": ("nowhere", "en ninguno"),
        },
    ),
    "adam_decay": (
        ("weight decay", "decaimiento de pesos"),
        {
            "decoupled": ("decoupled, times the learning rate", "desacoplado, por la tasa de aprendizaje"),
            "decoupled_without_lr": ("decoupled, without the learning rate", "desacoplado, sin la tasa"),
            "after": ("decoupled, after the step", "desacoplado, tras el paso"),
            "l2": ("L2: added to the gradient", "L2: sumado al gradiente"),
            "none": ("none", "ninguno"),
        },
    ),
    "adam_correction": (
        ("bias correction", "corrección del sesgo"),
        {
            "both": ("of both moments", "de los dos momentos"),
            "first": ("of the first moment alone", "solo del primer momento"),
            "none": ("none", "ninguna"),
        },
    ),
    "adam_lr": (
        ("learning rate by default", "tasa por defecto"),
        {"required": ("none: it has to be given", "ninguna: hay que darla")},
    ),
    "adam_beta1": (("beta1 by default", "beta1 por defecto"), {}),
    "adam_beta2": (("beta2 by default", "beta2 por defecto"), {}),
    "adam_eps": (("epsilon by default", "épsilon por defecto"), {}),
    "adam_wd": (("weight decay by default", "decaimiento por defecto"), {}),
    "heads_batch": (
        ("axes of X", "ejes de X"),
        {
            "batch_first": ("(batch, tokens, d)", "(lote, tokens, d)"),
            "sequence_first": ("(tokens, batch, d)", "(tokens, lote, d)"),
        },
    ),
    "heads_order": (
        ("order of Q, K, V", "orden de Q, K, V"),
        {
            order: (", ".join(order.upper()), ", ".join(order.upper()))
            for order in ("qkv", "qvk", "kqv", "kvq", "vqk", "vkq")
        },
    ),
    "heads_packing": (
        ("packing of their weights", "empaquetado de sus pesos"),
        {
            "separate": ("three matrices", "tres matrices"),
            "blocks": ("one matrix, three blocks", "una matriz, tres bloques"),
            "by_head": ("one matrix, the three of each head together", "una matriz, las tres de cada cabeza juntas"),
            "by_column": ("one matrix, every third column", "una matriz, una de cada tres columnas"),
        },
    ),
    "heads_weights": (
        ("layout of their weights", "disposición de sus pesos"),
        {
            "out_in": ("(out, in): X W^T", "(salida, entrada): X W^T"),
            "in_out": ("(in, out): X W", "(entrada, salida): X W"),
        },
    ),
    "heads_out_weights": (
        ("layout of the last projection", "disposición de la última proyección"),
        {
            "out_in": ("(out, in): X W^T", "(salida, entrada): X W^T"),
            "in_out": ("(in, out): X W", "(entrada, salida): X W"),
            "none": ("there is none", "no la hay"),
        },
    ),
    "heads_split": (
        ("columns of a head", "columnas de una cabeza"),
        {
            "contiguous": ("contiguous", "contiguas"),
            "interleaved": ("interleaved: every H-th", "intercaladas: una de cada H"),
            "mixed": ("mixed with tokens, by a bare reshape", "mezcladas con tokens, por un reshape sin más"),
            "one_head": ("all: there is one head", "todas: hay una cabeza"),
        },
    ),
    "heads_count": (("number of heads", "número de cabezas"), {"value": ("{heads}", "{heads}")}),
    "heads_scale": (
        ("scale", "escala"),
        {
            "head": ("1/sqrt(c), c the width of a head", "1/sqrt(c), con c la anchura de una cabeza"),
            "whole": ("1/sqrt(H c), the whole width", "1/sqrt(H c), la anchura entera"),
            "none": ("none", "ninguna"),
            "head_width": ("1/c", "1/c"),
            "whole_width": ("1/(H c)", "1/(H c)"),
            "embedding": ("1/sqrt(d), the width of X", "1/sqrt(d), la anchura de X"),
        },
    ),
    "heads_causal": (("causal by itself", "causal por sí misma"), {}),
    "heads_biases": (
        ("biases", "sesgos"),
        {
            "some": ("{names}", "{names}"),
            "none": ("none", "ninguno"),
            "ignored": ("they change nothing", "no cambian nada"),
        },
    ),
    "heads_padding": (
        ("True in the padding mask", "True en la máscara de relleno"),
        {
            "keeps": ("keeps: may be attended to", "conserva: se puede atender"),
            "drops": ("drops: may not be attended to", "descarta: no se puede atender"),
            "added": ("is added as a 1", "se suma como 1"),
        },
    ),
    "gpt_norm": (
        ("norms", "normas"),
        {
            "pre": ("pre-norm: the residual path is not normalised", "pre-norma: el camino residual no se normaliza"),
            "post": ("post-norm: after the residual sum", "post-norma: tras la suma residual"),
            "neither": ("neither pre- nor post-norm", "ni pre-norma ni post-norma"),
        },
    ),
    "gpt_activation": (("activation of the feed-forward", "activación de la capa interna"), {}),
    "gpt_axes": (
        ("axes of the input", "ejes de la entrada"),
        {
            "batch_first": ("(batch, tokens)", "(lote, tokens)"),
            "sequence_first": ("(tokens, batch)", "(tokens, lote)"),
        },
    ),
    "gpt_causal": (
        ("causal", "causal"),
        {
            "yes": ("yes: a later token changes nothing before it", "sí: un token posterior no cambia nada antes"),
            "no": ("no: a later token changes what is before it", "no: un token posterior cambia lo anterior"),
        },
    ),
    "gpt_biases": (
        ("biases", "sesgos"),
        {
            "all": ("in every linear layer and norm", "en cada capa lineal y norma"),
            "none": ("nowhere", "en ninguna parte"),
            "some": ("everywhere but in {without}", "en todas partes salvo en {without}"),
        },
    ),
    "gpt_head": (
        ("head", "cabezal"),
        {
            "tied": ("tied to the token embedding", "atado a la tabla de tokens"),
            "untied": ("has weights of its own", "tiene pesos propios"),
            "either": ("either, as the configuration says", "lo que diga la configuración"),
            "no_head": ("there is none", "no lo hay"),
        },
    ),
    "gpt_positions": (
        ("positions", "posiciones"),
        {"yes": ("count", "cuentan"), "no": ("do not count", "no cuentan")},
    ),
    "gpt_last_norm": (
        ("norm before the head", "norma antes del cabezal"),
        {},
    ),
}
QUESTIONS |= {
    name: (title, QUESTIONS["gelu_form"][1])
    for name, title in {
        "gelu_tanh": ("approximate='tanh'", "approximate='tanh'"),
        "gelu_none": ("approximate='none'", "approximate='none'"),
    }.items()
}
QUESTIONS["gpt_activation"] = (QUESTIONS["gpt_activation"][0], QUESTIONS["gelu_form"][1])
QUESTIONS["heads_mask"] = (("True in the mask", "True en la máscara"), QUESTIONS["heads_padding"][1])
