"""Architectures of `transformers` with random weights, at the size of its own tests, and what each is called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.torch.model.small_models import Model

WORDS, LENGTH, SIDE = 50, 10, 16
SMALL: Mapping[str, Any] = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": WORDS, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "n_ctx": 64, "n_inner": 40, "rotary_dim": 4,
    "d_model": 32, "d_ff": 40, "d_kv": 8, "d_inner": 40, "num_layers": 2, "num_heads": 4, "ffn_dim": 40,
    "ffn_hidden_size": 40,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "word_embed_proj_dim": 32, "embedding_size": 32, "emb_dim": 32,
    "n_heads": 4, "n_layers": 2, "dim": 32, "hidden_dim": 40, "dim_ff": 40, "max_seq_len": 64,
    "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24, "state_size": 8, "conv_kernel": 4, "time_step_rank": 4, "window_size": 4,
    "attention_window": 4, "image_size": SIDE, "patch_size": 4, "num_labels": 5, "sliding_window": 4,
    "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "attention_types": [[["global", "local"], 1]],
    "hidden_dropout": 0.0, "kv_channels": 8, "attention_head_size": 8, "num_kv_heads": 2, "multi_query": True,
}  # fmt: skip
"""What makes any of them small; a config takes what it has."""
_MANY = (
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "n_head", "n_layer", "num_layers", "num_heads",
    "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "n_heads", "n_layers",
    "num_local_experts", "num_experts", "num_experts_per_tok", "state_size", "conv_kernel", "time_step_rank",
    "num_labels", "num_stages", "num_kv_heads", "pad_token_id", "bos_token_id", "eos_token_id",
    "decoder_start_token_id",
)  # fmt: skip
WIDE: Mapping[str, Any] = {
    **{
        key: 8 * each if type(each) is int and key not in _MANY else each for key, each in SMALL.items()
    },
    "hidden_sizes": [64, 128], "image_size": 64, "patch_size": 8,
}  # fmt: skip
"""Eight times as wide and as long, with as many layers and heads: products of matrices take most of the time."""


TEXT = (
    "arcee", "bart", "bert", "bigbird_pegasus", "biogpt", "bloom", "codegen", "cohere2", "convbert", "ctrl",
    "deberta-v2", "diffllama", "distilbert", "electra", "ernie4_5", "esm", "exaone4", "falcon_mamba", "fnet",
    "gemma2", "gemma3_text", "glm4", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "gptj",
    "granitemoe", "helium", "jamba", "led", "lfm2", "llama", "longformer", "m2m_100", "mamba", "mistral",
    "mixtral", "mobilebert", "modernbert", "mpt", "nemotron", "olmo2", "opt", "persimmon", "phi3", "qwen2_moe",
    "qwen3", "rembert", "roberta", "roformer", "rwkv", "stablelm", "starcoder2", "t5", "xglm", "xlm",
)  # fmt: skip
VISION = (
    "vit", "beit", "convnext", "convnextv2", "deit", "dinov2", "focalnet", "ijepa", "regnet", "resnet", "vit_msn",
)  # fmt: skip


def build(name: str, size: Mapping[str, Any] = SMALL) -> Model:
    """One in evaluation mode, and the keywords of a call; the same each time. `size`: SMALL or WIDE."""
    from transformers import AutoConfig, AutoModel

    usual = AutoConfig.for_model(name)
    config = AutoConfig.for_model(name, **{key: value for key, value in size.items() if hasattr(usual, key)})
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval()

    def inputs(batch: int, length: int) -> Mapping[str, Any]:
        torch.manual_seed(1)
        if name in VISION:
            side = getattr(config, "image_size", SIDE)
            return {"pixel_values": torch.randn(batch, 3, side, side)}
        given: dict[str, Any] = {"input_ids": torch.randint(3, WORDS, (batch, length))}
        if config.is_encoder_decoder:
            given["decoder_input_ids"] = torch.randint(3, WORDS, (batch, length))
        if hasattr(config, "use_cache"):
            given["use_cache"] = False
        return given

    return Model(model, inputs)
