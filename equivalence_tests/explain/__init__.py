"""The page that shows a head of attention forward and backward: `gemelos explain "el gato se sento en la alfombra"`."""
