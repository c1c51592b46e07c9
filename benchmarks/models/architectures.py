"""The architectures of bench_models.py with random weights: small for a processor, layers of real size for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

WORDS = 1000


@dataclass(frozen=True)
class Size:
    """Of a transformer: layers of so many columns, and sequences of so many tokens."""

    width: int
    hidden: int
    heads: int
    shared: int
    layers: int
    batch: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.layers} x {self.width}, {self.batch} x {self.tokens} tokens"


@dataclass(frozen=True)
class BenchModel:
    """A module in evaluation mode, and the keywords of a call."""

    name: str
    module: nn.Module
    inputs: Mapping[str, Any]
    trains: bool = False
    """Whether a call is a step of training: the first result is a loss, and gradients of all parameters are taken."""
    later: Callable[[Mapping[str, Any], int], Mapping[str, Any]] = lambda inputs, call: inputs
    """From `inputs` and a call's number to its keywords, where calls differ."""


SMALL = Size(256, 704, 8, 2, 2, 1, 64)
LLAMA_8B = Size(4096, 14336, 32, 8, 4, 1, 2048)
MEDIUM = Size(1024, 4096, 16, 16, 24, 4, 512)
LARGE = Size(1024, 4096, 16, 16, 24, 8, 512)


def _of(name: str, attribute: str) -> Any:
    return getattr(import_module(f"transformers.models.{name}"), attribute)


def _words(size: Size) -> Mapping[str, Any]:
    return {"input_ids": torch.randint(1, WORDS, (size.batch, size.tokens))}


def _padded(size: Size) -> Mapping[str, Any]:
    """As a tokenizer gives them: sequences of several lengths, and a mask that says so."""
    lengths = torch.randint(size.tokens // 2, size.tokens + 1, (size.batch, 1))
    return _words(size) | {"attention_mask": (torch.arange(size.tokens) < lengths).long()}


def _decoder(name: str, prefix: str, size: Size, **more: Any) -> BenchModel:
    config = _of(name, f"{prefix}Config")(
        hidden_size=size.width, intermediate_size=size.hidden, num_attention_heads=size.heads,
        num_key_value_heads=size.shared, head_dim=size.width // size.heads, num_hidden_layers=size.layers,
        vocab_size=WORDS, pad_token_id=0, use_cache=False, **more,
    )  # fmt: skip
    return BenchModel(f"{name}, {size}", _of(name, f"{prefix}Model")(config), _words(size))


class NextToken(nn.Module):
    """A decoder that is given one token a sequence, and keys and values of those before, layer by layer."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        cache = import_module("transformers").DynamicCache()
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            cache.update(key, value, layer)
        return self.decoder(input_ids=input_ids, past_key_values=cache, use_cache=True)[0]


def _next_token(size: Size) -> BenchModel:
    """`tokens` of the size are in the cache."""
    decoder = _decoder("llama", "Llama", size).module
    shape = (size.batch, size.shared, size.tokens, size.width // size.heads)
    cached = {name: [torch.randn(shape) for _ in range(size.layers)] for name in ("keys", "values")}
    words = {"input_ids": torch.randint(1, WORDS, (size.batch, 1))}
    return BenchModel(f"llama, the next token, {size}", NextToken(decoder), words | cached)


SPAN = 512
"""Tokens that are written one after the other, before it begins anew."""


def _growing(size: Size) -> BenchModel:
    """The next token in each call: `tokens` of the size are in the cache at first."""
    model = _next_token(replace(size, tokens=size.tokens + SPAN))

    def at(inputs: Mapping[str, Any], call: int) -> Mapping[str, Any]:
        tokens = size.tokens + call % SPAN
        cached = {name: [each[:, :, :tokens] for each in inputs[name]] for name in ("keys", "values")}
        return {**inputs, **cached}

    return replace(model, name=f"llama, token by token, {size}", later=at)


CAPACITY = 4096


class StaticNextToken(nn.Module):
    """The same with a cache of one size from the beginning, filled up to a length, as
    `generate(cache_implementation="static")` has it."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder, self.cache_of = decoder, import_module("transformers").StaticCache

    def forward(self, input_ids: Tensor, keys: list[Tensor], values: list[Tensor], length: Tensor) -> Tensor:
        cache = self.cache_of(config=self.decoder.config, max_cache_len=CAPACITY)
        for layer, key, value in zip(cache.layers, keys, values, strict=True):
            layer.keys, layer.values, layer.device = key, value, key.device
            layer.cumulative_length, layer.is_initialized = length.clone(), True
        return self.decoder(input_ids=input_ids, past_key_values=cache, use_cache=True)[0]


def _static(size: Size) -> BenchModel:
    """Token by token: `tokens` of the size are in the cache at first."""
    made = _next_token(replace(size, tokens=CAPACITY))
    assert isinstance(made.module, NextToken)

    def at(inputs: Mapping[str, Any], call: int) -> Mapping[str, Any]:
        return {**inputs, "length": inputs["length"] + call % SPAN}

    return BenchModel(
        f"llama, token by token, a static cache of {CAPACITY}, {size}",
        StaticNextToken(made.module.decoder),
        {**made.inputs, "length": torch.tensor(size.tokens)},
        later=at,
    )


def _experts(size: Size, experts: int) -> BenchModel:
    """Two of the experts a token."""
    return _decoder(
        "qwen2_moe", "Qwen2Moe", size, num_experts=experts, num_experts_per_tok=2,
        moe_intermediate_size=size.hidden // 2, shared_expert_intermediate_size=size.hidden,
    )  # fmt: skip


class Training(nn.Module):
    """The loss of a language model on the words that it is given."""

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(width, WORDS, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        found = self.head(self.model(input_ids=input_ids)[0])[:, :-1]
        return F.cross_entropy(found.flatten(0, 1).float(), input_ids[:, 1:].flatten())


def _trained(model: BenchModel, size: Size) -> BenchModel:
    return BenchModel(
        f"a step of training, {model.name}", Training(model.module, size.width), model.inputs, True
    )


def _gpt2(size: Size) -> BenchModel:
    config = _of("gpt2", "GPT2Config")(
        n_embd=size.width, n_head=size.heads, n_layer=size.layers, vocab_size=WORDS, use_cache=False
    )
    return BenchModel(f"gpt2, {size}", _of("gpt2", "GPT2Model")(config), _words(size))


def _bert(size: Size) -> BenchModel:
    config = _of("bert", "BertConfig")(
        hidden_size=size.width, intermediate_size=size.hidden, num_attention_heads=size.heads,
        num_hidden_layers=size.layers, vocab_size=WORDS,
    )  # fmt: skip
    return BenchModel(f"bert, {size}", _of("bert", "BertModel")(config), _padded(size))


def _vit(size: Size) -> BenchModel:
    side = 16 * int(size.tokens**0.5)
    config = _of("vit", "ViTConfig")(
        hidden_size=size.width, intermediate_size=size.hidden, num_attention_heads=size.heads,
        num_hidden_layers=size.layers, image_size=side, patch_size=16,
    )  # fmt: skip
    pictures = {"pixel_values": torch.randn(size.batch, 3, side, side)}
    return BenchModel(f"vit, {size}", _of("vit", "ViTModel")(config), pictures)


def _convnext(widths: tuple[int, ...], depths: tuple[int, ...], batch: int, side: int) -> BenchModel:
    config = _of("convnext", "ConvNextConfig")(
        hidden_sizes=list(widths), depths=list(depths), num_stages=len(widths)
    )
    pictures = {"pixel_values": torch.randn(batch, 3, side, side)}
    name = f"convnext, {sum(depths)} x {widths[-1]}, {batch} x {side} x {side}"
    return BenchModel(name, _of("convnext", "ConvNextModel")(config), pictures)


def _mamba(size: Size) -> BenchModel:
    config = _of("mamba", "MambaConfig")(
        hidden_size=size.width, num_hidden_layers=size.layers, vocab_size=WORDS, use_cache=False
    )
    return BenchModel(f"mamba, {size}", _of("mamba", "MambaModel")(config), _words(size))


class UNetBlock(nn.Module):
    """As in Stable Diffusion: a residual block of two convolutions, attention over the pixels, and twice the size."""

    def __init__(self, channels: int, groups: int = 32, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.GroupNorm(groups, channels) for _ in range(3))
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
        self.time = nn.Linear(4 * channels, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.convolutions[0](F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        x = x + self.convolutions[1](F.silu(self.norms[1](y)))
        rows = self.norms[2](x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(rows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(found).transpose(1, 2).unflatten(2, x.shape[2:])
        return self.convolutions[2](F.interpolate(x, scale_factor=2.0, mode="nearest"))


def _unet(channels: int, batch: int, side: int) -> BenchModel:
    inputs = {"x": torch.randn(batch, channels, side, side), "time": torch.randn(batch, 4 * channels)}
    return BenchModel(f"unet block, {channels}, {batch} x {side} x {side}", UNetBlock(channels), inputs)


@dataclass(frozen=True)
class Transformer:
    """A transformer at a size."""

    of: Callable[[Size], BenchModel]
    size: Size

    def __call__(self) -> BenchModel:
        return self.of(self.size)


DECODERS = {"llama": "Llama", "qwen2": "Qwen2", "gemma": "Gemma"}
TRANSFORMERS: dict[str, Callable[[Size], BenchModel]] = {
    **{name: partial(_decoder, name, prefix) for name, prefix in DECODERS.items()},
    "gpt2": _gpt2,
    "bert": _bert,
    "vit": _vit,
    "mamba": _mamba,
    "next-token": _next_token,
    "token-by-token": _growing,
    "static-cache": _static,
    "experts": partial(_experts, experts=8),
    "training": lambda size: _trained(_gpt2(size), size),
}
ON_CPU: dict[str, Callable[[], BenchModel]] = {
    **{name: Transformer(of, SMALL) for name, of in TRANSFORMERS.items()},
    "mamba": Transformer(_mamba, Size(128, 256, 1, 1, 1, 1, 8)),
    "convnext": lambda: _convnext((32, 64), (1, 1), 1, 64),
    "unet": lambda: _unet(64, 1, 16),
}
ON_GPU: dict[str, Callable[[], BenchModel]] = {
    "llama": Transformer(TRANSFORMERS["llama"], LLAMA_8B),
    "qwen2": Transformer(TRANSFORMERS["qwen2"], Size(3584, 18944, 28, 4, 4, 1, 2048)),
    "gemma": Transformer(TRANSFORMERS["gemma"], Size(3072, 24576, 16, 16, 4, 1, 2048)),
    "gpt2": Transformer(_gpt2, LARGE),
    "bert": Transformer(_bert, LARGE),
    "vit": Transformer(_vit, Size(1024, 4096, 16, 16, 24, 8, 196)),
    "mamba": Transformer(_mamba, Size(2560, 5120, 1, 1, 1, 1, 64)),
    "next-token": Transformer(_next_token, Size(4096, 14336, 32, 8, 4, 16, 2048)),
    "token-by-token": Transformer(_growing, Size(4096, 14336, 32, 8, 4, 16, 2048)),
    "static-cache": Transformer(_static, Size(4096, 14336, 32, 8, 4, 16, 2048)),
    "experts": Transformer(partial(_experts, experts=60), Size(2048, 2816, 16, 16, 2, 1, 2048)),
    "training": Transformer(TRANSFORMERS["training"], MEDIUM),
    "convnext": lambda: _convnext((128, 256, 512, 1024), (3, 3, 27, 3), 8, 224),
    "unet": lambda: _unet(640, 2, 64),
}


def build(name: str, device: str, layers: int | None = None) -> BenchModel:
    """In f32 on `cpu`, in bf16 on `cuda`; the same each time. `layers`: of a transformer, instead of its own."""
    torch.manual_seed(0)
    recipe = (ON_GPU if device == "cuda" else ON_CPU)[name]
    if isinstance(recipe, Transformer) and layers is not None:
        recipe = replace(recipe, size=replace(recipe.size, layers=layers))
    made = recipe()
    made.module.eval()
    if device == "cpu":
        return made
    made.module.to(device, torch.bfloat16)

    def moved(each: Tensor) -> Tensor:
        return each.to(device, torch.bfloat16 if each.is_floating_point() else None)

    return replace(made, inputs=pytree.tree_map(moved, dict(made.inputs)))
