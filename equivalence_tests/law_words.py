"""The laws of all ops, said in Spanish. Names of tensors and options stay as they are in the code."""

from __future__ import annotations

SPANISH: dict[str, str] = {
    # attention
    "permuting_keys_and_values_changes_nothing": "permutar juntas las claves y los valores no cambia nada",
    "permuting_queries_permutes_the_answer": "permutar las consultas permuta la respuesta",
    "only_the_product_of_Q_and_K_matters": "solo importa el producto de Q y K",
    "linear_in_V": "la respuesta es lineal en V",
    "one_key_is_all_there_is": "con una sola clave, C es V",
    "context_lies_between_the_values": "los vectores de contexto quedan entre los valores",
    "no_scores_no_preference": "con puntuaciones iguales, C es la media de V",
    "one_vector_on_all_keys_changes_nothing": "sumar un mismo vector a todas las claves no cambia nada",
    "gradients_of_the_keys_sum_to_0": "los gradientes de las claves suman 0",
    "queries_and_keys_share_one_gradient": "<dQ, Q> = <dK, K>",
    "values_and_context_share_one_gradient": "<dV, V> = <dC, C>",
    "the_scale_is_one_over_root_c": "si no se da otra, la escala es 1/sqrt(c)",
    "a_scale_is_honoured": "se respeta la escala que se da",
    "a_bias_is_one_more_feature": "un sesgo por clave equivale a una característica más",
    "dropout_does_not_renormalise": "el dropout no renormaliza",
    "nan_in_a_query_stays_in_its_row": "un NaN en una consulta se queda en su fila",
    "a_finite_bias_is_no_mask": "un sesgo finito no es una máscara",
    "nan_in_a_bias_stays_in_its_row": "un NaN en el sesgo se queda en su fila",
    "nan_in_a_key_reaches_who_may_look": "un NaN en una clave llega a quien puede mirarla",
    "nan_in_a_value_stays_in_its_column": "un NaN en un valor se queda en su columna",
    "a_future_token_changes_nothing_before_it": "un token futuro no cambia nada de lo anterior",
    "a_future_token_gets_no_gradient_from_the_past": "un token futuro no recibe gradiente del pasado",
    "causal_is_a_mask": "causal equivale a una máscara",
    "prefill_is_step_by_step_decoding": "calcular todo de una vez equivale a hacerlo token a token",
    "a_masked_key_has_no_gradient": "una clave enmascarada no recibe gradiente",
    "changing_a_masked_key_changes_nothing": "cambiar una clave enmascarada no cambia nada",
    "a_masked_key_far_above_gets_nothing": "una clave enmascarada de puntuación muy alta no recibe nada",
    "an_empty_row_is_0": "una fila sin nada que atender da 0",
    "a_bias_of_minus_infinity_is_a_mask": "un sesgo de -inf equivale a una máscara",
    # All that take batches
    "a_leading_axis_of_1_changes_nothing": "un eje inicial de tamaño 1 no cambia nada",
    "batches_are_independent": "los elementos de un lote no se mezclan",
    "nan_stays_in_its_sample": "un NaN se queda en su muestra",
    # cross_entropy
    "uniform_logits_give_log_v": "con logits iguales la pérdida es log v",
    "rows_of_the_gradient_sum_to_0": "las filas del gradiente suman 0",
    "an_ignored_row_is_as_if_deleted": "una fila ignorada es como si no estuviera",
    "doubling_dloss_doubles_the_gradient": "con dloss doble, el gradiente es doble",
    "a_shift_of_a_row_changes_nothing": "sumar un mismo número a una fila no cambia nada",
    "every_row_twice_is_the_same_loss": "con cada fila dos veces, la pérdida es la misma",
    "an_unlikely_target_has_a_large_loss": "un objetivo muy improbable tiene una pérdida grande, no infinita",
    "nan_in_a_counted_row_is_nan": "un NaN en una fila que cuenta da NaN",
    # dropout
    "kept_are_scaled_and_the_rest_is_0": "lo conservado se divide entre 1 - p y lo demás es 0",
    "p_of_1_gives_zeros": "con p = 1 todo es 0",
    "p_of_0_only_selects": "con p = 0 solo se selecciona",
    # embedding
    "rows_not_named_have_no_gradient": "las filas que no aparecen en ids no reciben gradiente",
    "a_lookup_is_a_product_with_onehot": "una consulta equivale a un producto con one-hot",
    "permuting_the_ids_permutes_the_rows": "permutar los ids permuta las filas",
    # gelu
    "entry_by_entry": "cada entrada depende solo de sí misma",
    "nan_stays_in_its_entry": "un NaN se queda en su entrada",
    "gelu_of_both_signs_differs_by_X": "gelu(X) - gelu(-X) = X",
    "gelu_has_the_tanh_form": "gelu tiene aquí la forma con tanh",
    "gelu_far_out_is_relu": "lejos de 0, gelu es relu",
    # The language models
    "a_batch_is_the_mean_of_its_sequences": "la pérdida de un lote es la media de las de sus secuencias",
    "the_gradient_of_the_heads_bias_sums_to_0": "el gradiente del sesgo final suma 0",
    "a_head_of_0_gives_log_v": "con la capa final a 0 la pérdida es log v",
    "padding_at_the_end_changes_nothing": "el relleno al final no cambia nada",
    "the_loss_is_the_cross_entropy_of_the_logits": "la pérdida es la entropía cruzada de los logits",
    "permuting_the_vocabulary_permutes_the_answer": "permutar el vocabulario permuta la respuesta",
    "both_biases_have_one_gradient": "los dos sesgos de la recurrencia tienen el mismo gradiente",
    "a_tied_head_is_the_embedding_twice": "una capa final compartida suma sus dos gradientes",
    "a_block_that_adds_nothing_is_no_block": "un bloque que no suma nada es como si no estuviera",
    "permuting_the_heads_changes_nothing": "permutar las cabezas no cambia nada",
    "keeping_all_only_divides_by_1_minus_p": "conservarlo todo solo divide entre 1 - p",
    "dropping_all_leaves_the_last_shift": "si se descarta todo, queda el último desplazamiento",
    "both_embeddings_get_one_sum": "los dos embeddings reciben la misma suma",
    "one_number_on_the_residual_path_changes_nothing": "sumar un número en el camino residual no cambia nada",
    "the_past_does_not_see_the_future": "el pasado no ve el futuro",
    "sequences_do_not_meet": "las secuencias no se mezclan",
    "the_heads_bias_gets_the_sum_of_dlogits": "el sesgo final recibe la suma de dlogits",
    # layer_norm
    "the_gradient_sums_to_0": "el gradiente suma 0",
    "the_gradient_of_the_shift_is_the_sum_of_dY": "dshift es la suma de dY",
    "one_feature_is_all_shift": "con una sola característica, Y es shift",
    "mean_0_and_variance_1": "cada fila normalizada tiene media 0 y varianza 1",
    "a_large_mean_does_not_cancel": "una media grande no se lleva las cifras de la varianza",
    "epsilon_stands_inside_the_root": "epsilon está dentro de la raíz",
    "an_epsilon_of_0_is_0": "un epsilon de 0 es 0",
    # linear
    "linear_is_additive": "la capa lineal es aditiva",
    "linear_of_0_is_the_bias": "de 0 sale el sesgo",
    "a_selecting_weight_selects": "una matriz de pesos que selecciona, selecciona",
    # multi_head_attention and self_attention
    "permuting_the_tokens_permutes_the_answer": "permutar los tokens permuta la respuesta",
    "heads_do_not_meet": "las cabezas no se mezclan",
    "one_head_is_self_attention": "con una sola cabeza es la autoatención",
    "the_scale_is_that_of_a_head": "la escala es la de una cabeza",
    "projections_come_before_attention": "las proyecciones van antes que la atención",
    "simple_attention_is_attention_of_X": "es la atención de X consigo misma, con escala 1",
    "context_lies_between_the_tokens": "los vectores de contexto quedan entre los tokens",
    # rnn
    "two_parts_are_the_whole": "recorrer la secuencia en dos partes da lo mismo que de una vez",
    "permuting_the_batch_permutes_the_answer": "permutar el lote permuta la respuesta",
    "no_state_is_a_state_of_0": "sin estado inicial es como con un estado de ceros",
    "the_first_state_is_one_more_input": "el estado inicial es una entrada más",
    "a_step_is_the_equation": "un paso cumple la ecuación",
    # softmax
    "permuting_the_entries_permutes_the_answer": "permutar las entradas permuta la respuesta",
    "any_axis_is_as_good": "cualquier eje vale igual",
    "a_row_of_minus_infinity_is_nan": "una fila entera de -inf da NaN",
    "rows_sum_to_1": "las filas suman 1",
    "a_constant_upstream_gives_0": "un gradiente constante que llega da 0",
    # What the contract asks of the reference alone
    "refuses_bad_input": "rechaza las entradas que no valen",
    "backward_refuses_a_wrong_upstream": "el paso hacia atrás rechaza un gradiente de otra forma",
    "a_leading_axis_may_be_0": "un eje inicial puede tener tamaño 0",
    "no_id_counts_from_the_end": "ningún id cuenta desde el final",
    "all_ignored_is_an_error": "si se ignoran todos los objetivos es un error",
    "without_dC_there_is_no_backward": "sin dC no hay paso hacia atrás",
    # attention_stages
    "rows_of_dS_sum_to_0": "las filas de dS suman 0",
    "the_stages_are_those_of_attention": "las etapas son las de la atención",
    "delta_is_the_sum_of_dC_and_C": "delta es la suma de dC C",
    "masked_scores_are_minus_infinity": "las puntuaciones enmascaradas son -inf",
    # log_softmax, relu, tanh, generative_rnn
    "its_exponential_sums_to_1": "su exponencial suma 1",
    "a_named_entry_pulls_its_own_row": "una entrada elegida solo mueve su propia fila",
    "positive_passes_and_the_rest_is_0": "lo positivo pasa y lo demás es 0",
    "however_large_it_passes": "pasa por grande que sea",
    "tanh_is_odd": "tanh es impar",
    "tanh_ends_at_1": "tanh acaba en 1",
    "the_first_logits_are_the_equation": "los primeros logits cumplen la ecuación",
}


def law_phrase(name: str, language: str) -> str:
    """What a law says, by its name, with underscores or without: a phrase without a capital or a full stop."""
    english = name.replace("_", " ")
    return SPANISH.get(name.replace(" ", "_"), english) if language == "es" else english
