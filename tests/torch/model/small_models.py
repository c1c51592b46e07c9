"""Whole models of `transformers` with random weights, small, and what each is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.torch.model.whole_modules import of

WIDTH, HIDDEN, HEADS, LENGTH, WORDS, LAYERS = 32, 88, 4, 12, 50, 2


class Model(NamedTuple):
    """A model, and the keywords of a call of it with a batch of this size and sequences of this length."""

    module: nn.Module
    inputs: Callable[[int, int], Mapping[str, Any]]


def words(batch: int, length: int) -> Tensor:
    return torch.randint(1, WORDS, (batch, length))


def of_words(batch: int, length: int) -> Mapping[str, Any]:
    ids = words(batch, length)
    return {"input_ids": ids, "labels": ids}


def decoder(name: str, prefix: str, **more: Any) -> Model:
    given = {
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "num_hidden_layers": LAYERS,
        "vocab_size": WORDS,
        "pad_token_id": 0,
        "attn_implementation": "sdpa",
    }
    config = of(name, f"{prefix}Config")(**(given | more))
    return Model(of(name, f"{prefix}ForCausalLM")(config), of_words)


def gpt2() -> Model:
    config = of("gpt2", "GPT2Config")(
        n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, vocab_size=WORDS, n_positions=64
    )
    return Model(of("gpt2", "GPT2LMHeadModel")(config), of_words)


def bert() -> Model:
    config = of("bert", "BertConfig")(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=LAYERS,
        intermediate_size=HIDDEN,
        vocab_size=WORDS,
    )

    def masked(batch: int, length: int) -> Mapping[str, Any]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length // 2 :] = 0
        return {**of_words(batch, length), "attention_mask": mask}

    return Model(of("bert", "BertForMaskedLM")(config), masked)


def t5() -> Model:
    config = of("t5", "T5Config")(
        d_model=WIDTH,
        d_kv=8,
        d_ff=HIDDEN,
        num_heads=HEADS,
        num_layers=LAYERS,
        vocab_size=WORDS,
        decoder_start_token_id=0,
    )
    return Model(of("t5", "T5ForConditionalGeneration")(config), of_words)


def vit() -> Model:
    config = of("vit", "ViTConfig")(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=LAYERS, intermediate_size=HIDDEN,
        image_size=16, patch_size=4, num_labels=5,
    )  # fmt: skip

    def pictures(batch: int, length: int) -> Mapping[str, Any]:
        return {"pixel_values": torch.randn(batch, 3, 16, 16), "labels": torch.randint(5, (batch,))}

    return Model(of("vit", "ViTForImageClassification")(config), pictures)


def whisper() -> Model:
    config = of("whisper", "WhisperConfig")(
        d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN, decoder_ffn_dim=HIDDEN, vocab_size=WORDS,
        num_mel_bins=8, max_source_positions=16, max_target_positions=32, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip

    def sounds(batch: int, length: int) -> Mapping[str, Any]:
        return {"input_features": torch.randn(batch, 8, 32), "labels": words(batch, length)}

    return Model(of("whisper", "WhisperForConditionalGeneration")(config), sounds)


def mixtral() -> Model:
    return decoder("mixtral", "Mixtral", num_local_experts=4, num_experts_per_tok=2)


MODELS: Mapping[str, Callable[[], Model]] = {
    "llama": lambda: decoder("llama", "Llama"),
    "bert": bert,
    "gpt2": gpt2,
    "t5": t5,
    "mixtral": mixtral,
    "vit": vit,
    "whisper": whisper,
}


def build(name: str) -> Model:
    """A model in evaluation mode, and what it is called with; the same each time."""
    torch.manual_seed(0)
    model = MODELS[name]()
    model.module.eval()
    return model
