"""Public implementations are told to follow the conventions that their documentation gives; the probe behaves."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, eager_attention_forward

import reference_numpy
import torch_impl
from equivalence_tests.probing import PROBES, Convention, probe
from equivalence_tests.probing.__main__ import main
from equivalence_tests.probing.guess import guess
from equivalence_tests.probing.sentences import COMMON, LANGUAGES, QUESTIONS
from reference_numpy import GPTConfig

CONFIG = GPTConfig(vocab_size=11, context_window=8, embedding_dim=6, num_layers=1, num_heads=2, head_dim=4, ff_factor=2)
TIED = GPTConfig(
    vocab_size=11, context_window=8, embedding_dim=6, num_layers=1, num_heads=2, head_dim=4, ff_factor=2, tied_head=True
)
SMALL = {
    "n_embd": 8,
    "n_head": 2,
    "n_layer": 2,
    "vocab_size": 11,
    "n_positions": 8,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
HUGGING = GPT2Config.from_dict(SMALL | {"attn_implementation": "eager"})

SDPA = {
    "layout": "bhnc",
    "output_layout": "same",
    "causal_default": "no",
    "causal": "top_left",
    "scale": "root",
    "scale_option": "multiplies",
    "boolean_mask": "keeps",
    "additive_mask": "after",
    "empty_row": "zero",
    "empty_row_bias": "zero",
    "fill": "infinite",
    "both_masks": "both",
    "attention_dropout": "scaled",
    "attention_dropout_p": "drops",
}
OURS = {name: answer for name, answer in SDPA.items() if name != "attention_dropout_p"}
EAGER = {
    "layout": "bhnc",
    "output_layout": "turned",
    "causal_default": "no",
    "causal": "no_option",
    "scale": "root",
    "scale_option": "multiplies",
    "scale_place": "scores",
    "upcast": "own",
    "boolean_mask": "added",
    "additive_mask": "after",
    "empty_row": "no_boolean",
    "empty_row_bias": "nan",
    "attention_dropout": "scaled",
    "attention_dropout_p": "drops",
}
MHA = {
    "heads_batch": "sequence_first",
    "heads_order": "qkv",
    "heads_packing": "blocks",
    "heads_weights": "out_in",
    "heads_out_weights": "out_in",
    "heads_split": "contiguous",
    "heads_scale": "head",
    "heads_causal": "no",
    "heads_count": "value",
    "heads_biases": "some",
    "heads_mask": "drops",
    "heads_padding": "drops",
}
NORM = {
    "norm_axes": "last",
    "norm_centre": "yes",
    "norm_variance": "biased",
    "epsilon_place": "inside",
    "epsilon": "value",
    "norm_affine": "both",
    "norm_cancels": "no",
}
LOSS = {
    "ce_input": "logits",
    "ce_reduction": "mean",
    "ce_classes": "second",
    "ce_ignored": "index",
    "ce_counted": "counted",
    "ce_all_ignored": "nan",
    "ce_sequences": "tokens",
    "ce_smoothing": "all_classes",
    "ce_soft": "taken",
    "ce_range": "refused",
    "ce_unlikely": "right",
}
OUR_LOSS = LOSS | {
    **{"ce_classes": "last", "ce_ignored": "none", "ce_all_ignored": "refused"},
    **{"ce_smoothing": "no_option", "ce_soft": "refused"},
}
TABLE = {
    "embedding_order": "ids_first",
    "embedding_factor": "none",
    "padding_id": "option",
    "padding_row": "kept",
    "padding_gradient": "stopped",
    "embedding_repeats": "added",
    "negative_id": "refused",
    "id_beyond": "refused",
}
OUR_TABLE = TABLE | {"padding_id": "none", "padding_row": "no_option", "padding_gradient": "no_option"}
RNN = {
    "rnn_axes": "time_first",
    "rnn_activation": "tanh",
    "rnn_biases": "both",
    "rnn_initial": "zeros",
    "rnn_input_weight": "out_in",
    "rnn_state_weight": "out_in",
    "rnn_last": "layered",
}
OUR_RNN = RNN | {"rnn_axes": "batch_first", "rnn_last": "flat"}
ADAMW = {"adam_epsilon": "outside", "adam_decay": "decoupled", "adam_correction": "both", "adam_lr": "value"}
SOFTMAX = {"softmax_kind": "plain", "softmax_axis": "last", "softmax_empty": "nan", "softmax_large": "right"}
ENCODER = partial(nn.TransformerEncoderLayer, 8, 2, 16)
GPT = {
    "gpt_norm": "pre",
    "gpt_activation": "tanh",
    "gpt_axes": "batch_first",
    "gpt_causal": "yes",
    "gpt_biases": "some",
    "gpt_head": "untied",
    "gpt_positions": "yes",
    "gpt_last_norm": "yes",
}
FUNCTION = {
    "gpt_norm": "pre",
    "gpt_activation": "tanh",
    "gpt_causal": "yes",
    "gpt_head": "either",
    "gpt_positions": "yes",
}

KNOWN: dict[str, tuple[Any, dict[str, str]]] = {
    "F.scaled_dot_product_attention": (F.scaled_dot_product_attention, SDPA),
    "with is_causal": (
        partial(F.scaled_dot_product_attention, is_causal=True),
        {"causal_default": "yes", "scale": "root"},
    ),
    "GPT-2, eager": (eager_attention_forward, EAGER),
    "reference attention": (reference_numpy.attention, OURS | {"upcast": "refused"}),
    "torch_impl attention": (torch_impl.attention, OURS),
    "nn.MultiheadAttention": (nn.MultiheadAttention(8, 2), MHA),
    "the class": (nn.MultiheadAttention, MHA),
    "batch_first, no bias": (
        nn.MultiheadAttention(12, 3, batch_first=True, bias=False),
        MHA | {"heads_batch": "batch_first", "heads_biases": "none"},
    ),
    "GPT2Attention": (
        GPT2Attention(HUGGING, layer_idx=0),
        MHA
        | {"heads_batch": "batch_first", "heads_weights": "in_out", "heads_out_weights": "in_out"}
        | {"heads_mask": "added", "heads_padding": "no_option"},
    ),
    "MultiHeadSelfAttention": (
        torch_impl.MultiHeadSelfAttention(CONFIG),
        MHA
        | {"heads_batch": "batch_first", "heads_packing": "separate", "heads_causal": "yes", "heads_biases": "none"}
        | {"heads_mask": "no_option", "heads_padding": "no_option"},
    ),
    "SelfAttentionV1": (
        torch_impl.SelfAttentionV1(4, 3),
        {"heads_weights": "in_out", "heads_split": "one_head", "heads_out_weights": "none", "heads_scale": "head"},
    ),
    "SelfAttentionV2": (torch_impl.SelfAttentionV2(4, 4), {"heads_weights": "out_in", "heads_causal": "no"}),
    "SelfAttentionHead": (torch_impl.SelfAttentionHead(CONFIG), {"heads_weights": "out_in", "heads_causal": "yes"}),
    **{
        f"{module.__name__} multi_head_attention": (
            module.multi_head_attention,
            {
                "heads_batch": "batch_first",
                "heads_packing": "separate",
                "heads_weights": "in_out",
                "heads_mask": "keeps",
            }
            | {"heads_out_weights": "in_out", "heads_split": "contiguous", "heads_scale": "head", "heads_causal": "no"},
        )
        for module in (reference_numpy, torch_impl)
    },
    **{
        f"{module.__name__} self_attention": (module.self_attention, {"heads_weights": "in_out", "heads_mask": "keeps"})
        for module in (reference_numpy, torch_impl)
    },
    "F.layer_norm": (F.layer_norm, NORM | {"epsilon_option": "taken"}),
    "nn.LayerNorm": (nn.LayerNorm(6), NORM),
    "without scale": (nn.LayerNorm(6, elementwise_affine=False), NORM | {"norm_affine": "no_option"}),
    "nn.RMSNorm": (nn.RMSNorm(6, eps=1e-6), {"norm_centre": "no", "norm_affine": "scale_only", "epsilon": "value"}),
    "reference layer_norm": (reference_numpy.layer_norm, NORM | {"epsilon_option": "taken"}),
    "torch_impl layer_norm": (torch_impl.layer_norm, NORM | {"epsilon_option": "taken"}),
    "torch_impl LayerNorm": (torch_impl.LayerNorm(5), NORM),
    "F.cross_entropy": (F.cross_entropy, LOSS),
    "nn.CrossEntropyLoss": (
        nn.CrossEntropyLoss(ignore_index=0),
        LOSS | {"ce_smoothing": "no_option", "ce_soft": "refused"},
    ),
    "summed": (
        nn.CrossEntropyLoss(reduction="sum"),
        {"ce_reduction": "sum", "ce_counted": "sum", "ce_all_ignored": "zero"},
    ),
    "F.nll_loss": (F.nll_loss, {"ce_input": "log_probabilities", "ce_classes": "second", "ce_counted": "counted"}),
    "reference cross_entropy": (reference_numpy.cross_entropy, OUR_LOSS),
    "torch_impl cross_entropy": (torch_impl.cross_entropy, OUR_LOSS),
    "F.gelu": (F.gelu, {"gelu_form": "erf", "gelu_tanh": "tanh", "gelu_none": "erf"}),
    "F.gelu, tanh": (partial(F.gelu, approximate="tanh"), {"gelu_form": "tanh", "gelu_option": "no_option"}),
    "nn.GELU": (nn.GELU(), {"gelu_form": "erf"}),
    "nn.GELU, tanh": (nn.GELU("tanh"), {"gelu_form": "tanh"}),
    "reference gelu": (reference_numpy.gelu, {"gelu_form": "tanh"}),
    "torch_impl gelu": (torch_impl.gelu, {"gelu_form": "tanh"}),
    "F.softmax": (F.softmax, SOFTMAX | {"softmax_axis": "first", "softmax_axis_option": "taken"}),
    "torch.softmax": (torch.softmax, SOFTMAX | {"softmax_axis": "asked"}),
    "nn.Softmax": (nn.Softmax(-1), SOFTMAX),
    "reference softmax": (reference_numpy.softmax, SOFTMAX | {"softmax_axis_option": "taken"}),
    "torch_impl log_softmax": (torch_impl.log_softmax, SOFTMAX | {"softmax_kind": "log"}),
    "F.embedding": (F.embedding, TABLE),
    "nn.Embedding": (nn.Embedding(5, 4, padding_idx=1), TABLE | {"embedding_order": "module", "padding_id": "own"}),
    "reference embedding": (reference_numpy.embedding, OUR_TABLE),
    "torch_impl embedding": (torch_impl.embedding, OUR_TABLE),
    "F.dropout": (F.dropout, {"dropout": "scaled", "dropout_p": "drops", "dropout_evaluation": "identity"}),
    "nn.Dropout": (nn.Dropout(0.4), {"dropout": "scaled", "dropout_p": "drops", "dropout_evaluation": "identity"}),
    "reference dropout": (reference_numpy.dropout, {"dropout": "scaled", "keep_mask": "keeps"}),
    "torch_impl dropout": (torch_impl.dropout, {"dropout": "scaled", "keep_mask": "keeps"}),
    "nn.RNN": (nn.RNN(3, 5), RNN),
    "nn.RNN, relu": (
        nn.RNN(3, 5, nonlinearity="relu", batch_first=True, bias=False),
        RNN | {"rnn_axes": "batch_first", "rnn_activation": "relu", "rnn_biases": "none"},
    ),
    "reference rnn": (reference_numpy.rnn, OUR_RNN),
    "torch_impl rnn": (torch_impl.rnn, OUR_RNN),
    "AdamW": (torch.optim.AdamW, ADAMW),
    "Adam": (torch.optim.Adam, ADAMW | {"adam_decay": "l2"}),
    "reference adamw_step": (reference_numpy.adamw_step, ADAMW),
    "GPT2LMHeadModel": (GPT2LMHeadModel(HUGGING), GPT | {"gpt_head": "tied"}),
    "GPT2Model": (GPT2Model(HUGGING), {"gpt_norm": "pre", "gpt_head": "no_head"}),
    "torch_impl.GPT": (torch_impl.GPT(CONFIG), GPT),
    "torch_impl.GPT, tied": (torch_impl.GPT(TIED), GPT | {"gpt_head": "tied"}),
    "TransformerBlock": (torch_impl.TransformerBlock(CONFIG), {"gpt_norm": "pre", "gpt_causal": "yes"}),
    "encoder layer": (ENCODER(), {"gpt_norm": "post", "gpt_activation": "relu", "gpt_axes": "sequence_first"}),
    "encoder layer, norm first": (
        ENCODER(norm_first=True, activation="gelu", batch_first=True),
        {
            "gpt_norm": "pre",
            "gpt_activation": "erf",
            "gpt_axes": "batch_first",
            "gpt_causal": "no",
            "gpt_biases": "all",
        },
    ),
    "reference gpt": (reference_numpy.gpt, FUNCTION),
    "torch_impl gpt": (torch_impl.gpt, FUNCTION),
}


def found_of(function, like=None) -> dict[str, Convention]:
    return {each.name: each for each in probe(function, like)}


@cache
def known(name) -> dict[str, Convention]:
    return found_of(KNOWN[name][0])


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_implementation_is_told_to_do_what_its_documentation_says(name):
    found, expected = known(name), KNOWN[name][1]
    assert {each: found[each].answer for each in expected} == expected


def test_the_numbers_are_those_of_the_documentation():
    def numbers(function, name):
        return found_of(function)[name].numbers

    for function in (F.layer_norm, nn.LayerNorm(6), reference_numpy.layer_norm):
        assert numbers(function, "epsilon")["epsilon"] == pytest.approx(1e-5, rel=1e-4)  # measured in float32
    assert numbers(F.cross_entropy, "ce_ignored")["index"] == -100
    assert numbers(nn.CrossEntropyLoss(ignore_index=0), "ce_ignored")["index"] == 0
    assert numbers(nn.MultiheadAttention(12, 3), "heads_count")["heads"] == 3
    assert numbers(nn.Embedding(5, 4, padding_idx=1), "padding_id")["index"] == 1
    decay = {function: numbers(function, "adam_wd")["value"] for function in (torch.optim.Adam, torch.optim.AdamW)}
    assert decay == {torch.optim.Adam: 0.0, torch.optim.AdamW: 0.01}
    assert numbers(reference_numpy.adamw_step, "adam_beta2")["value"] == 0.999


def test_more_than_twenty_five_conventions_are_asked_and_nearly_all_told():
    told = {each.name for name in KNOWN for each in known(name).values() if each.told}
    assert len(told) >= 75
    assert set(QUESTIONS) - told == {"gelu_option"}  # which says only that there is no such option


def test_what_is_told_comes_with_the_input_that_decided_it():
    for name in KNOWN:
        for each in known(name).values():
            assert len(each.evidence) < 250
            if each.told and each.answer != "refused" and each.name not in ("padding_id", "softmax_axis"):
                assert " -> " in each.evidence


# Its conduct


def test_a_module_is_left_as_it_was():
    for module in (
        nn.MultiheadAttention(8, 2),
        nn.LayerNorm(4).eval(),
        torch_impl.GPT(CONFIG),
        nn.RNN(3, 5),
        nn.Embedding(5, 3),
    ):
        before = {name: value.clone() for name, value in module.state_dict().items()}
        modes = [each.training for each in module.modules()]
        gradients = [p.grad for p in module.parameters()]
        probe(module)
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
        assert [each.training for each in module.modules()] == modes
        assert [p.grad for p in module.parameters()] == gradients
        assert not any(each._forward_hooks or each._forward_pre_hooks for each in module.modules())


def test_the_random_state_is_left_as_it_was():
    random.seed(3)
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    wanted = random.random(), torch.rand(2).tolist(), np.random.random()  # noqa: NPY002
    random.seed(3)
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    probe(F.dropout)
    assert (random.random(), torch.rand(2).tolist(), np.random.random()) == wanted  # noqa: NPY002


def test_the_same_candidate_gets_the_same_answers():
    first, second = (json.dumps([each.as_json() for each in probe(F.dropout)]) for _ in range(2))
    assert first == second


def changes_its_input(X, p):
    X *= np.random.random(X.shape) >= p  # noqa: NPY002
    X /= 1 - p
    return X


def speaks(X):
    print("nonsense")
    return np.maximum(X, 0)


def leaves(Q, K, V):
    sys.exit(3)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    @staticmethod
    def backward(ctx, dC):
        return dC, dC, dC


class Plain:
    """A layer norm as a class of one's own."""

    def __init__(self, d):
        self.d = d

    def __call__(self, x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-3))


def annotated(query, key, value, mask):
    """It cannot do without a mask, and subtracts it, which torch does not do with booleans."""
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    return torch.softmax(scores + (1.0 - mask) * -1e9, -1) @ value, scores


def only_float64(X, scale, shift):
    if X.dtype != np.float64:
        raise TypeError("float64 alone")
    return reference_numpy.layer_norm(X, scale, shift)[0]


def no_names(*arrays):
    return reference_numpy.attention(*arrays)[0]


def last_place_alone(model):
    """The logits of the last place unless targets come, as generation wants them."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, idx, targets=None):
            logits = self.inner(idx)
            return (
                (logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
                if targets is not None
                else logits[:, -1:]
            )

    return Model()


class ManyHeads(nn.Module):
    """A list of heads, each with weights of its own."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(torch_impl.SelfAttentionHead(CONFIG) for _ in range(2))
        self.out = nn.Linear(8, 6, bias=False)

    def forward(self, X):
        return self.out(torch.cat([head(X) for head in self.heads], -1))


def factory():
    return F.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("function", "like", "expected"),
    [
        (changes_its_input, "dropout", {"dropout": "scaled", "dropout_p": "drops"}),
        (speaks, "gelu", {"gelu_form": "relu"}),
        (Own, "attention", {"scale": "root", "boolean_mask": "no_option"}),
        (Plain, "layer_norm", {"norm_axes": "last", "epsilon": "value", "epsilon_place": "inside"}),
        (annotated, None, {"scale": "root", "boolean_mask": "keeps", "empty_row": "mean", "fill": "finite"}),
        (only_float64, "layer_norm", {"norm_axes": "last", "epsilon_place": "inside"}),
        (no_names, "attention", {"layout": "bhnc", "scale": "root", "boolean_mask": "no_option"}),
        (last_place_alone(torch_impl.GPT(TIED)), "gpt", {"gpt_head": "tied", "gpt_causal": "yes", "gpt_norm": "pre"}),
        (
            ManyHeads(),
            "multi_head_attention",
            {"heads_count": "value", "heads_split": "contiguous", "heads_causal": "yes"},
        ),
        (factory, None, SDPA),
        (torch_impl.GPT(CONFIG).to(torch.float64), None, GPT),
        (nn.LayerNorm(6, dtype=torch.bfloat16), None, {"norm_axes": "last"}),
    ],
)
def test_candidates_of_every_make_are_asked(function, like, expected, capsys):
    found = found_of(function, like)
    assert {name: found[name].answer for name in expected} == expected
    assert capsys.readouterr().out == ""


RETURNS = {
    "nothing": lambda *a: None,
    "text": lambda *a: "x",
    "a number": lambda *a: 1.5,
    "no elements": lambda *a: np.zeros((0, 3)),
    "its first argument": lambda *a: a[0],
    "half of it": lambda *a: a[0][:1],
    "NaN": lambda *a: a[0] * np.nan,
    "zeros": lambda *a: a[0] * 0,
    "another shape": lambda *a: a[0].reshape(-1),
    "booleans": lambda *a: a[0] > 0,
    "complex numbers": lambda *a: a[0] * 1j,
    "a list": lambda *a: [a[0], a[0]],
    "infinity": lambda *a: a[0] + np.inf,
    "chance": lambda *a: np.random.random(a[0].shape),  # noqa: NPY002
    "an object": lambda *a: object(),
    "three axes": lambda *a: np.ones((2, 3, 4)),
    "an error": lambda *a: 1 / 0,
    "an exit": lambda *a: sys.exit(3),
}


@pytest.mark.parametrize("like", PROBES)
@pytest.mark.parametrize("returns", RETURNS)
def test_no_candidate_takes_the_probe_down(like, returns):
    def candidate(*arrays):
        return RETURNS[returns](*(arrays if hasattr(arrays[0], "shape") else arrays[1:]))

    try:
        said = json.dumps([each.as_json() for each in probe(candidate, like)], allow_nan=False)
    except ValueError as error:
        said = str(error)
    assert said.startswith("[") or ("answers no call of" in said and "\n" not in said)


# Sentences and the command


def test_every_sentence_stands_in_both_languages_with_the_same_numbers():
    def fields(text):
        return sorted(part.split("}")[0] for part in text.split("{")[1:])

    for title, answers in QUESTIONS.values():
        for pair in (title, *answers.values()):
            assert len(pair) == len(LANGUAGES)
            assert all(pair)
            assert fields(pair[0]) == fields(pair[1])
    assert all(fields(en) == fields(es) for en, es in COMMON.values())


def test_every_answer_of_a_known_implementation_can_be_said():
    for name in KNOWN:
        for each in known(name).values():
            assert all(each.say(language) and each.title(language) for language in LANGUAGES)
            assert "{" not in each.say("es")


@pytest.mark.parametrize(
    ("function", "like"),
    [
        (F.scaled_dot_product_attention, "attention"),
        (lambda q, k, v: v, "attention"),
        (nn.LayerNorm(3), "layer_norm"),
        (ManyHeads(), "multi_head_attention"),
        (torch.optim.AdamW, "optimizer"),
        (lambda logits, labels: 0, "cross_entropy"),
        (lambda zebra: zebra, None),
    ],
)
def test_what_a_function_is_like_is_guessed_from_its_names(function, like):
    assert guess(function) == like


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such.py:f"], "there is no file no_such.py"),
        (["torch.nn.functional:gelu", "--like", "gleu"], "like: 'gleu' came, did you mean 'gelu'?"),
        (["torch.nn.functional:pad"], "like: pad could be like any op, expected one of attention"),
        (["math:hypot", "--like", "attention"], "hypot answers no call of attention: "),
    ],
)
def test_an_error_of_use_is_one_line_and_status_2(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"gemelos probe: {said}")
    assert error.count("\n") == 1


def test_the_table_fits_sixty_columns_in_both_languages(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for language, sentence in (("en", "keeps: may be attended to"), ("es", "conserva: se puede")):
        assert main(["torch.nn.functional:scaled_dot_product_attention", "--lang", language]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 60
        assert any(sentence in line for line in lines)


def test_json_is_json_even_if_the_file_prints(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("print('hello')\ndef softmax(X):\n    print('again')\n    return X\n", "utf-8")
    assert main([f"{file}:softmax", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in report["conventions"]] == ["softmax_axis"]
    assert report["conventions"][0]["told"] is False


def test_numpy_candidates_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import reference_numpy\n"
        "from equivalence_tests.probing import probe\n"
        "for function in (reference_numpy.attention, reference_numpy.gpt):\n"
        "    print(sum(each.told for each in probe(function)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["15", "5"]


def test_the_package_exports_the_function_however_often_it_is_asked():
    import equivalence_tests

    for _ in range(2):
        assert equivalence_tests.probe is probe
