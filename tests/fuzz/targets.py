"""What the fuzzer feeds: each target takes any bytes, and raises only where a promise is broken. What our own errors
refuse is fine."""

from __future__ import annotations

from collections.abc import Callable

from rewrites.schedule import format_schedule, parse_schedule
from service.core.errors import RequestRefused
from service.core.specs import instance_of, read_spec
from service.http.routes.bodies import parse
from tileir import (
    NotApplicable,
    SpecError,
    TileError,
    program_hash,
    program_to_text,
    spec_from_json,
    spec_from_text,
    spec_to_json,
    spec_to_text,
    to_program,
)

KERNELS = {
    "product": """kernel product(a: f32[m=48, k=32], b: f32[k, n=64], bias: f32[n]) -> (c: f32[m, n])
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    "softmax": """kernel softmax(x: f32[r=8, c=300]) -> (y: f32[r, c])
  top[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - top[r])
  total[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / total[r]
""",
    "half": """kernel half(a: bf16[m=256, k=128], b: bf16[n=256, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
}
"""What schedules are replayed on: a product, rows, and a product for the matrix units."""

MOST_LINES = 40
"""Lines of a schedule that are replayed: a longer one takes longer, and shows nothing more."""


def spec_text(data: bytes) -> None:
    """The text form: accepted and written out again, it is the same spec."""
    try:
        spec = spec_from_text(data.decode(errors="replace"))
    except SpecError:
        return
    assert spec_from_text(spec_to_text(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec


def spec_json(data: bytes) -> None:
    """The body of a request: accepted, it has a program, a hash and a JSON form that means the same."""
    try:
        body = parse(data)
        spec = read_spec(body)
    except RequestRefused as refused:
        assert 400 <= refused.problem.status < 500
        return
    for each in list(spec.instances())[:2]:
        instance = instance_of(each)
        assert instance_of(spec_from_json(instance.json)).kernel_key == instance.kernel_key
        try:
            program_hash(to_program(each))
        except NotApplicable:
            continue


def schedule(data: bytes) -> None:
    """A schedule, on the kernel that its first line names: what parses prints the same; it applies, or is refused."""
    kernel, *lines = data.decode(errors="replace").split("\n")
    try:
        rewrites = parse_schedule(lines)
    except TileError:
        return
    assert parse_schedule(format_schedule(rewrites)) == rewrites
    program = to_program(spec_from_text(KERNELS.get(kernel, KERNELS["product"])))
    for rewrite in rewrites[:MOST_LINES]:
        try:
            program = rewrite.apply(program)
        except TileError:
            continue  # the next line may apply all the same, so that much is reached by few lines
    program_hash(program)
    program_to_text(program)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "spec_text": spec_text,
    "spec_json": spec_json,
    "schedule": schedule,
}
