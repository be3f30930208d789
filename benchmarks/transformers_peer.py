"""transformers' GPT-2 as a peer: the same numbers under its own names, trained and decoded as its users do.

Its head is given the bias that ours has, so that it is the same function and can be judged.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from benchmarks.torch_runs import Timed, tensor
from benchmarks.work import Inputs, Work
from equivalence_tests.implementations import NotOffered
from reference_numpy.config import GPTConfig

Names = dict[str, tuple[list[str], bool]]


def prepare(work: Work, inputs: Inputs, options: dict[str, Any], device: str) -> Timed:
    """NotOffered for what GPT-2 cannot be: heads of another width."""
    config: GPTConfig = options["config"]
    if config.num_heads * config.head_dim != config.embedding_dim:
        raise NotOffered("GPT-2's heads are embedding_dim / num_heads wide")
    if work.work == "generate" and not options["cache"]:
        raise NotOffered("transformers decodes with its cache")
    model = _gpt2({name: tensor(X, "cpu") for name, X in inputs.items()}, config).to(device)
    if work.work == "generate":
        return Generate(model, tensor(inputs["ids"], device), options["tokens"], device)
    return Step(model, config, tensor(inputs["ids"], device), tensor(inputs["targets"], device), device)


class Step(Timed):
    """Loss and gradients, without those of its own biases of attention, which are 0."""

    def __init__(self, model: Any, config: GPTConfig, ids: Tensor, targets: Tensor, device: str) -> None:
        super().__init__(device)
        self.model, self.ids, self.targets = model.train(), ids, targets
        self.names = names_of(config)
        self.parameters = dict(model.named_parameters())

    def compute(self) -> dict[str, Tensor]:
        logits = self.model(self.ids).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), self.targets.flatten())
        self.model.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        return {"loss": loss}

    def outputs(self) -> dict[str, Any]:
        found = dict(self.answers)
        for name, (ours, transposed) in self.names.items():
            gradient = self.parameters[name].grad
            assert gradient is not None
            rows = (gradient.T if transposed else gradient).chunk(len(ours))
            found |= {f"d{each}": row for each, row in zip(ours, rows, strict=True)}
        self.answers = found
        return super().outputs()


class Generate(Timed):
    """`generate`, greedy, of exactly so many tokens."""

    def __init__(self, model: Any, ids: Tensor, tokens: int, device: str) -> None:
        super().__init__(device)
        self.model, self.prompt, self.tokens = model.eval(), ids, tokens

    @torch.no_grad()
    def compute(self) -> dict[str, Tensor]:
        ids = self.model.generate(
            self.prompt,
            attention_mask=torch.ones_like(self.prompt),
            do_sample=False,
            use_cache=True,
            min_new_tokens=self.tokens,
            max_new_tokens=self.tokens,
        )
        return {"ids": ids[:, self.prompt.shape[1] :]}


def names_of(config: GPTConfig) -> Names:
    """Their name: our names, and whether theirs is the transpose."""
    names: Names = {
        "transformer.wte.weight": (["token_embedding.weight"], False),
        "transformer.wpe.weight": (["position_embedding.weight"], False),
        "transformer.ln_f.weight": (["norm.scale"], False),
        "transformer.ln_f.bias": (["norm.shift"], False),
        "lm_head.bias": (["lm_head.bias"], False),
    }
    if not config.tied_head:
        names["lm_head.weight"] = (["lm_head.weight"], False)
    for layer in range(config.num_layers):
        theirs, ours = f"transformer.h.{layer}", f"blocks.{layer}"
        for i in (1, 2):
            names[f"{theirs}.ln_{i}.weight"] = ([f"{ours}.norm_{i}.scale"], False)
            names[f"{theirs}.ln_{i}.bias"] = ([f"{ours}.norm_{i}.shift"], False)
        three = [f"{ours}.attention.{name}.weight" for name in ("query", "key", "value")]
        names[f"{theirs}.attn.c_attn.weight"] = (three, True)
        names[f"{theirs}.attn.c_proj.weight"] = ([f"{ours}.attention.projection.weight"], True)
        for part, own in (("c_fc", "expand"), ("c_proj", "contract")):
            names[f"{theirs}.mlp.{part}.weight"] = ([f"{ours}.feed_forward.{own}.weight"], True)
            names[f"{theirs}.mlp.{part}.bias"] = ([f"{ours}.feed_forward.{own}.bias"], False)
    return names


def _gpt2(params: dict[str, Tensor], config: GPTConfig) -> Any:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.context_window,
            n_embd=config.embedding_dim,
            n_layer=config.num_layers,
            n_head=config.num_heads,
            n_inner=config.ff_factor * config.embedding_dim,
            activation_function="gelu_new",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=config.tied_head,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(config.vocab_size))
    model.set_attn_implementation("sdpa")
    model.generation_config = GenerationConfig(pad_token_id=0)  # type: ignore[no-untyped-call]
    named = dict(model.named_parameters())
    with torch.no_grad():
        for parameter in named.values():
            parameter.zero_()  # the biases of attention, which ours does not have
        for name, (ours, transposed) in names_of(config).items():
            joined = torch.cat([params[each] for each in ours])
            named[name].copy_(joined.T if transposed else joined)
    return model
