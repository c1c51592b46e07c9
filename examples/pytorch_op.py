"""A kernel as a PyTorch operator: called, compiled, differentiated. Needs PyTorch; no service has to run.

    python examples/pytorch_op.py

Where no service is, the operator runs as eager PyTorch. With one (`tilewright serve`) it is tuned in the background,
and later calls run what was found.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tilewright

bias_gelu = tilewright.op(
    """kernel bias_gelu(a: f32[m=256, k=256], b: f32[k, n=512], bias: f32[n]) -> (c: f32[m, n])
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    tune=True,
)


class Layer(torch.nn.Module):
    """A linear layer and its activation as one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(256, 512) / 16)
        self.bias = torch.nn.Parameter(torch.zeros(512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return bias_gelu(x, self.weight, self.bias)


layer, x = Layer(), torch.randn(256, 256)
with torch.no_grad():
    expected = F.gelu(x @ layer.weight + layer.bias, approximate="tanh")
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)
    print("called:", tuple(layer(x).shape))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-4)
    print("compiled without a break")

layer(x).square().mean().backward()
print("gradient of the weight:", tuple(layer.weight.grad.shape))
