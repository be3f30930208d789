"""The table of katas, in the order of the course: what each asks for, and what judges it."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("backward", "forward", "bug", "simplify", "predict", "faster")


@dataclass(frozen=True)
class Kata:
    """A row: the source `name`.py in the folder of katas, the lesson it belongs to, what the learner does, what judges it.

    `like` is an op of the table, `part` a part with laws of its own; where there is neither the source has a check cell
    or the learner predicts values. `function` is what is judged, with `function`_backward beside it where the solution
    has one. `without` are options of the op that the answer is not given. `limit` is what a right answer must keep to
    besides: "steps", "memory" or "statements=K".
    """

    name: str
    lesson: str
    kind: str
    like: str = ""
    function: str = ""
    without: tuple[str, ...] = ()
    part: str = ""
    limit: str = ""

    @property
    def number(self) -> int:
        """Its place in the course, from 1."""
        return KATAS.index(self) + 1

    @property
    def file(self) -> str:
        """Its name in the learner's folder."""
        return f"{self.number:02}_{self.name}.py"


KATAS: tuple[Kata, ...] = (
    Kata("predict_projection", "01_projections", "predict"),
    Kata("softmax", "02_softmax", "forward", like="softmax", function="softmax", without=("axis",)),
    Kata("softmax_jacobian", "02_softmax", "forward", function="softmax_jacobian"),
    Kata("softmax_backward", "02_softmax", "backward", like="softmax", function="softmax", without=("axis",)),
    Kata(
        "softmax_simplified",
        "02_softmax",
        "simplify",
        like="softmax",
        function="softmax",
        without=("axis",),
        limit="statements=2",
    ),
    Kata("cross_entropy", "03_loss", "forward", like="cross_entropy", function="cross_entropy"),
    Kata("cross_entropy_backward", "03_loss", "backward", like="cross_entropy", function="cross_entropy"),
    Kata("cross_entropy_bug", "03_loss", "bug", like="cross_entropy", function="cross_entropy"),
    Kata("predict_loss", "03_loss", "predict"),
    Kata("linear_backward", "04_linear", "backward", like="linear", function="linear"),
    Kata("linear_bug", "04_linear", "bug", like="linear", function="linear"),
    Kata("predict_shapes", "04_linear", "predict"),
    Kata("gelu_backward", "04_linear", "backward", like="gelu", function="gelu"),
    Kata("embedding_backward", "05_embedding", "backward", like="embedding", function="embedding"),
    Kata("embedding_faster", "05_embedding", "faster", like="embedding", function="embedding", limit="steps"),
    Kata("dropout_backward", "05_embedding", "backward", like="dropout", function="dropout"),
    Kata("layer_norm", "06_layer_norm", "forward", like="layer_norm", function="layer_norm"),
    Kata("layer_norm_backward", "06_layer_norm", "backward", like="layer_norm", function="layer_norm"),
    Kata(
        "layer_norm_simplified",
        "06_layer_norm",
        "simplify",
        like="layer_norm",
        function="layer_norm",
        limit="statements=5",
    ),
    Kata("layer_norm_bug", "06_layer_norm", "bug", like="layer_norm", function="layer_norm"),
    Kata(
        "simple_attention",
        "07_attention",
        "faster",
        like="simple_attention",
        function="simple_attention",
        limit="steps",
    ),
    Kata("attention", "07_attention", "forward", like="attention", function="attention"),
    Kata("attention_backward", "07_attention", "backward", like="attention", function="attention"),
    Kata("predict_attention", "07_attention", "predict"),
    Kata("attention_bug", "08_scale_mask_heads", "bug", like="attention", function="attention"),
    Kata("self_attention", "07_attention", "forward", like="self_attention", function="self_attention"),
    Kata("self_attention_backward", "07_attention", "backward", like="self_attention", function="self_attention"),
    Kata(
        "multi_head_attention",
        "08_scale_mask_heads",
        "forward",
        like="multi_head_attention",
        function="multi_head_attention",
    ),
    Kata(
        "multi_head_attention_backward",
        "08_scale_mask_heads",
        "backward",
        like="multi_head_attention",
        function="multi_head_attention",
    ),
    Kata("attention_tiled", "14_memory_and_speed", "faster", like="attention", function="attention", limit="memory"),
    Kata("rnn", "09_rnn", "forward", like="rnn", function="rnn"),
    Kata("rnn_backward", "09_rnn", "backward", like="rnn", function="rnn"),
    Kata("rnn_bug", "09_rnn", "bug", like="rnn", function="rnn"),
    Kata("rnn_faster", "09_rnn", "faster", function="gradients"),
    Kata(
        "generative_rnn_loss_backward",
        "09_rnn",
        "backward",
        like="generative_rnn_loss",
        function="generative_rnn_loss",
    ),
    Kata("block_backward", "10_gpt", "backward", function="block_gradients"),
    Kata("gpt_backward", "10_gpt", "backward", like="gpt", function="gpt"),
    Kata("gpt_loss_backward", "10_gpt", "backward", like="gpt_loss", function="gpt_loss"),
    Kata("tied_bug", "10_gpt", "bug", like="gpt", function="gpt"),
    Kata("adamw_step", "11_adamw", "forward", function="adamw_step", part="adamw_step"),
    Kata("clip_gradients", "11_adamw", "forward", function="clip_gradients", part="clip_gradients"),
    Kata("adamw_bug", "11_adamw", "bug", function="adamw_step", part="adamw_step"),
    Kata("temperature", "12_sampling", "forward", function="temperature"),
    Kata("top_k", "12_sampling", "forward", function="top_k", part="top_k"),
    Kata("gradient_check", "13_checking", "forward", function="gradient_check"),
    Kata("checker_bug", "13_checking", "bug", function="verdicts"),
)
