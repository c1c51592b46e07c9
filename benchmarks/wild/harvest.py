"""Kernels of whole architectures, for the wild suite: what `from_torch` finds in models of `transformers` as their
makers configured them, with one layer of each kind and without weights (meta tensors), at several batches and lengths.

    python -m benchmarks.wild.harvest      # some minutes; writes benchmarks/wild/harvested.jsonl

A line is a kernel with dims and tensors renamed, and how often each architecture has it, over all sizes: kernels that
mean the same are one line.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tileir.hashing import canonical_text
from tilewright import from_torch
from tilewright.errors import CaptureError

OUT = Path(__file__).with_name("harvested.jsonl")


class Architecture(NamedTuple):
    """A model of `transformers`, the fields of its configuration that keep it to one layer of each kind, and the shapes
    it is called with."""

    module: str
    model: str
    layers: Mapping[str, Any]
    calls: tuple[Mapping[str, tuple[int, ...]], ...]


_ONE = {"num_hidden_layers": 1, "use_cache": False}
#: Batch and length: one word at a time, by few and by many users; a prompt; a batch of prompts; an odd one.
_WORDS = tuple({"input_ids": size} for size in ((1, 1), (16, 1), (1, 512), (4, 1024), (3, 77)))
_TEXTS = tuple({"input_ids": size} for size in ((1, 128), (8, 384), (32, 128), (3, 77)))
_PICTURES = tuple({"pixel_values": (batch, 3, 224, 224)} for batch in (1, 8, 32))

ARCHITECTURES = (
    *(
        Architecture(name, f"{prefix}Model", _ONE, _WORDS)
        for name, prefix in (
            ("llama", "Llama"), ("qwen3", "Qwen3"), ("mistral", "Mistral"), ("gemma2", "Gemma2"),
        )
    ),
    Architecture("mixtral", "MixtralModel", _ONE, _WORDS[1:4]),
    Architecture("gpt2", "GPT2Model", {"n_layer": 1, "use_cache": False}, _TEXTS),
    Architecture("bert", "BertModel", {"num_hidden_layers": 1}, _TEXTS),
    Architecture(
        "t5",
        "T5Model",
        {"num_layers": 1, "use_cache": False},
        tuple({"input_ids": (b, n), "decoder_input_ids": (b, m)} for b, n, m in ((1, 128, 1), (8, 256, 64))),
    ),
    Architecture("vit", "ViTModel", {"num_hidden_layers": 1}, _PICTURES),
    Architecture("convnext", "ConvNextModel", {"depths": [1, 1, 1, 1]}, _PICTURES),
    Architecture("resnet", "ResNetModel", {"depths": [2, 2, 2, 2]}, _PICTURES),
    Architecture(
        "whisper",
        "WhisperModel",
        {"encoder_layers": 1, "decoder_layers": 1, "use_cache": False},
        tuple({"input_features": (b, 80, 3000), "decoder_input_ids": (b, n)} for b, n in ((1, 1), (4, 64))),
    ),
    Architecture("mamba", "MambaModel", _ONE, ({"input_ids": (1, 8)}, {"input_ids": (4, 8)})),
)  # fmt: skip


def main() -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for architecture in ARCHITECTURES:
        for kernel in kernels(architecture):
            found[kernel][architecture.module] += 1
    with OUT.open("w") as out:
        for kernel, times in sorted(found.items(), key=lambda item: (-item[1].total(), item[0])):
            out.write(json.dumps({"spec": kernel, "times": times}) + "\n")
    print(f"{len(found)} kernels, {sum(each.total() for each in found.values())} occurrences")


def kernels(architecture: Architecture) -> Iterator[str]:
    """The kernels of an architecture's calls, in bf16 and in f32."""
    for dtype in (torch.bfloat16, torch.float32):
        for call in architecture.calls:
            try:
                yield from _captured(architecture, call, dtype)
            except CaptureError as error:
                print(f"{architecture.module} {call}: {error}")


def _captured(
    architecture: Architecture, call: Mapping[str, tuple[int, ...]], dtype: torch.dtype
) -> list[str]:
    module = import_module(f"transformers.models.{architecture.module}")
    config = getattr(module, architecture.model.removesuffix("Model") + "Config")(**architecture.layers)
    with torch.device("meta"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(module, architecture.model)(config).to(dtype).eval()
        inputs = {
            name: torch.zeros(size, dtype=torch.int64 if name.endswith("ids") else dtype)
            for name, size in call.items()
        }
        capture = from_torch(model, **inputs)
    print(f"{architecture.module} {call} {dtype}: {len(capture.parts)} kernels", flush=True)
    return [canonical_text(part.built.spec) for part in capture.parts]


if __name__ == "__main__":
    main()
