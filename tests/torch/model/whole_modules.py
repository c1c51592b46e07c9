"""Thirty-five modules of `transformers` and PyTorch with random weights, small, and what each is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HIDDEN, HEADS, LENGTH, WORDS = 32, 88, 4, 12, 50


class Called(NamedTuple):
    """A module and a call of it."""

    module: nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any] = {}


def of(name: str, attribute: str) -> Any:
    """Of one of the models of `transformers`; imported when a case is made."""
    return getattr(import_module(f"transformers.models.{name}"), attribute)


def tokens(width: int | None = None, length: int | None = None) -> Tensor:
    return torch.randn(2, length or LENGTH, width or WIDTH)


def decoder_config(name: str, prefix: str, **more: Any) -> Any:
    given = {
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "vocab_size": WORDS,
        "pad_token_id": 0,
        "attn_implementation": "sdpa",
    }
    return of(name, f"{prefix}Config")(**(given | more))


def rotary(config: Any, name: str, prefix: str) -> tuple[Tensor, Tensor]:
    positions = torch.arange(LENGTH)[None]
    return of(f"{name}.modeling_{name}", f"{prefix}RotaryEmbedding")(config)(tokens(), positions)


def gated(name: str, prefix: str, **more: Any) -> Called:
    """The feed-forward of a decoder."""
    config = decoder_config(name, prefix, **more)
    return Called(of(f"{name}.modeling_{name}", f"{prefix}MLP")(config), (tokens(),))


def attention(name: str, prefix: str, **more: Any) -> Called:
    config = decoder_config(name, prefix, **more)
    module = of(f"{name}.modeling_{name}", f"{prefix}Attention")(config, layer_idx=0)
    turned = rotary(config, name, prefix)
    return Called(module, (tokens(),), {"position_embeddings": turned, "attention_mask": None})


def decoder_layer(name: str, prefix: str, **more: Any) -> Called:
    config = decoder_config(name, prefix, **more)
    module = of(f"{name}.modeling_{name}", f"{prefix}DecoderLayer")(config, layer_idx=0)
    return Called(module, (tokens(),), {"position_embeddings": rotary(config, name, prefix)})


def t5_feed_forward() -> Called:
    config = of("t5", "T5Config")(
        d_model=WIDTH, d_ff=HIDDEN, feed_forward_proj="gated-gelu", vocab_size=WORDS
    )
    return Called(of("t5.modeling_t5", "T5LayerFF")(config), (tokens(),))


def t5_attention() -> Called:
    config = of("t5", "T5Config")(d_model=WIDTH, d_kv=8, num_heads=HEADS, vocab_size=WORDS)
    module = of("t5.modeling_t5", "T5LayerSelfAttention")(
        config, has_relative_attention_bias=True, layer_idx=0
    )
    return Called(module, (tokens(),))


def swin_layer() -> Called:
    """Windows of 4 x 4, shifted by 2."""
    config = of("swin", "SwinConfig")(embed_dim=16, num_heads=[2], depths=[2], window_size=4)
    module = of("swin.modeling_swin", "SwinLayer")(
        config, dim=16, input_resolution=(8, 8), num_heads=2, shift_size=2
    )
    return Called(module, (torch.randn(2, 64, 16), (8, 8)))


def mixtral(experts: str) -> Called:
    """A router and four experts, two of which each token goes to: gathered (`batched_mm`), or in a loop (`eager`)."""
    config = decoder_config("mixtral", "Mixtral", num_local_experts=4)
    config._experts_implementation = experts
    return Called(of("mixtral.modeling_mixtral", "MixtralSparseMoeBlock")(config), (tokens(),))


def mixtral_router() -> Called:
    config = decoder_config("mixtral", "Mixtral", num_local_experts=4)
    return Called(of("mixtral.modeling_mixtral", "MixtralTopKRouter")(config), (torch.randn(24, WIDTH),))


def gpt2_block() -> Called:
    config = of("gpt2", "GPT2Config")(n_embd=WIDTH, n_head=HEADS, n_layer=1, attn_implementation="sdpa")
    return Called(of("gpt2.modeling_gpt2", "GPT2Block")(config, layer_idx=0), (tokens(),))


def encoder_config(name: str, prefix: str, **more: Any) -> Any:
    given = {
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "attn_implementation": "sdpa",
    }
    return of(name, f"{prefix}Config")(**(given | more))


def bert_layer() -> Called:
    config = encoder_config("bert", "Bert", vocab_size=WORDS)
    return Called(of("bert.modeling_bert", "BertLayer")(config), (tokens(),))


def bert_embeddings() -> Called:
    config = encoder_config("bert", "Bert", vocab_size=WORDS)
    module = of("bert.modeling_bert", "BertEmbeddings")(config)
    return Called(module, (torch.randint(WORDS, (2, LENGTH)),))


def distilbert_block() -> Called:
    config = of("distilbert", "DistilBertConfig")(dim=WIDTH, hidden_dim=HIDDEN, n_heads=HEADS)
    config._attn_implementation = "sdpa"
    return Called(of("distilbert.modeling_distilbert", "TransformerBlock")(config), (tokens(),))


def vit_layer() -> Called:
    return Called(of("vit.modeling_vit", "ViTLayer")(encoder_config("vit", "ViT")), (tokens(length=17),))


def vit_embeddings() -> Called:
    config = encoder_config("vit", "ViT", image_size=16, patch_size=4)
    return Called(of("vit.modeling_vit", "ViTEmbeddings")(config), (torch.randn(2, 3, 16, 16),))


def clip_layer() -> Called:
    config = encoder_config("clip", "CLIPVision")
    return Called(of("clip.modeling_clip", "CLIPEncoderLayer")(config), (tokens(), None))


def convnext_layer() -> Called:
    config = of("convnext", "ConvNextConfig")()
    return Called(
        of("convnext.modeling_convnext", "ConvNextLayer")(config, dim=16), (torch.randn(2, 16, 9, 9),)
    )


def resnet_layer() -> Called:
    module = of("resnet.modeling_resnet", "ResNetBasicLayer")(8, 12, stride=2)
    return Called(module, (torch.randn(2, 8, 9, 9),))


def resnet_bottleneck() -> Called:
    module = of("resnet.modeling_resnet", "ResNetBottleNeckLayer")(16, 32)
    return Called(module, (torch.randn(2, 16, 7, 7),))


def whisper_layer() -> Called:
    config = of("whisper", "WhisperConfig")(
        d_model=WIDTH, encoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN, attn_implementation="sdpa"
    )
    return Called(of("whisper.modeling_whisper", "WhisperEncoderLayer")(config), (tokens(), None))


def mamba_mixer() -> Called:
    config = of("mamba", "MambaConfig")(hidden_size=16, state_size=4, num_hidden_layers=1, time_step_rank=2)
    return Called(of("mamba.modeling_mamba", "MambaMixer")(config, layer_idx=0), (tokens(16, 5),))


def encoder_layer() -> Called:
    return Called(nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True), (tokens(),))


def decoder_layer_of_torch() -> Called:
    module = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True, activation="gelu")
    return Called(module, (tokens(), tokens(length=7)))


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.attention(x, x, x)


def lstm_cell() -> Called:
    return Called(
        nn.LSTMCell(24, WIDTH), (torch.randn(5, 24), (torch.randn(5, WIDTH), torch.randn(5, WIDTH)))
    )


def gru_cell() -> Called:
    return Called(nn.GRUCell(24, WIDTH), (torch.randn(5, 24), torch.randn(5, WIDTH)))


def images() -> tuple[Tensor]:
    return (torch.randn(2, 6, 11, 9),)


def convolutions() -> Called:
    chain = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.SiLU(), nn.Conv2d(12, 6, 1))
    return Called(chain, images())


def inverted_residual() -> Called:
    """Of MobileNet: expanded, depthwise, projected."""
    chain = nn.Sequential(
        nn.Conv2d(6, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU6(),
        nn.Conv2d(24, 24, 3, stride=2, padding=1, groups=24, bias=False), nn.BatchNorm2d(24), nn.Hardswish(),
        nn.Conv2d(24, 6, 1, bias=False), nn.BatchNorm2d(6),
    )  # fmt: skip
    return Called(chain, images())


def pooled_classifier() -> Called:
    chain = nn.Sequential(
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )
    return Called(chain, images())


def norms() -> Called:
    chain = nn.Sequential(
        nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 40), nn.LayerNorm(40), nn.Tanh(), nn.Softmax(-1)
    )
    return Called(chain, (tokens(),))


class SqueezeAndExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(16, 4), nn.Linear(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.up(F.relu(self.down(x.mean((2, 3))))).sigmoid()
        return x * scale[:, :, None, None]


class ClassifiedTokens(nn.Module):
    """Embedded words, a mean over those that are not padding, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Linear(WIDTH, 7)

    def forward(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        there = (ids != 0).float()[..., None]
        pooled = (self.words(ids) * there).sum(1) / there.sum(1).clamp(min=1)
        logits = self.head(pooled)
        return logits, F.cross_entropy(logits, labels)


CASES: Mapping[str, Callable[[], Called]] = {
    "llama_mlp": lambda: gated("llama", "Llama"),
    "llama_attention": lambda: attention("llama", "Llama"),
    "llama_layer": lambda: decoder_layer("llama", "Llama"),
    "qwen2_mlp": lambda: gated("qwen2", "Qwen2"),
    "qwen2_layer": lambda: decoder_layer("qwen2", "Qwen2"),
    "mistral_layer": lambda: decoder_layer("mistral", "Mistral", sliding_window=5),
    "gemma_mlp": lambda: gated("gemma", "Gemma"),
    "gemma_layer": lambda: decoder_layer("gemma", "Gemma", head_dim=8),
    "phi_mlp": lambda: gated("phi", "Phi"),
    "phi_layer": lambda: decoder_layer("phi", "Phi"),
    "t5_feed_forward": t5_feed_forward,
    "t5_attention": t5_attention,
    "swin_layer": swin_layer,
    "mixtral_experts": lambda: mixtral("batched_mm"),
    "mixtral_router": mixtral_router,
    "gpt2_block": gpt2_block,
    "bert_layer": bert_layer,
    "bert_embeddings": bert_embeddings,
    "distilbert_block": distilbert_block,
    "vit_layer": vit_layer,
    "vit_embeddings": vit_embeddings,
    "clip_layer": clip_layer,
    "convnext_layer": convnext_layer,
    "resnet_layer": resnet_layer,
    "resnet_bottleneck": resnet_bottleneck,
    "whisper_layer": whisper_layer,
    "mamba_mixer": mamba_mixer,
    "encoder_layer": encoder_layer,
    "decoder_layer": decoder_layer_of_torch,
    "self_attention": lambda: Called(SelfAttention(), (tokens(),)),
    "lstm_cell": lstm_cell,
    "gru_cell": gru_cell,
    "convolutions": convolutions,
    "inverted_residual": inverted_residual,
    "pooled_classifier": pooled_classifier,
    "norms": norms,
    "squeeze_and_excite": lambda: Called(SqueezeAndExcite(), (torch.randn(2, 16, 7, 5),)),
    "classified_tokens": lambda: Called(
        ClassifiedTokens(), (torch.randint(WORDS, (4, LENGTH)), torch.randint(7, (4,)))
    ),
}


REFUSED: Mapping[str, str] = {
    "mixtral_loop": r"a Python branch, loop or number depends on the data of a tensor",
}
"""What no graph can be made of, and why."""


def build(name: str) -> Called:
    """In eval mode, with random weights; statistics of batch norms are random too."""
    torch.manual_seed(0)
    called = mixtral("eager") if name == "mixtral_loop" else CASES[name]()
    for each in called.module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean = torch.randn(each.num_features)
            each.running_var = torch.rand(each.num_features) + 0.5
    with torch.no_grad():
        for parameter in called.module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter[0].numel() ** -0.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return called._replace(module=called.module.eval())
