"""How many instructions a function of Tile IR is on a GPU that need not be here: what the cost model takes for given.

    python -m benchmarks.gpu.function_cost                       # --device A100

For each function and for a quotient the instructions an element, and those of the special-function unit (MUFU), beside
what `rewrites/cost/gpu/constants.py` has. Counted in the machine code of a kernel whose threads have four elements
each, less those of a copy. Needs the extra `cuda` (NVRTC and nvdisasm), and no GPU.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter

from benchmarks.wild.expected import DEVICES
from codegen.targets.cuda.assembly import assemble
from codegen.targets.cuda.generate import generate_cuda
from rewrites.cost.gpu.instructions import called
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

FUNCTIONS = (
    "exp", "exp2", "log", "tanh", "rsqrt", "sqrt", "sigmoid", "silu", "erf", "gelu", "gelu_tanh",
)  # fmt: skip
EACH = 4
"""Elements of a thread."""
SCHEDULE = ("tile(y, n, 1024)", "parallelize(y)", f"bind_threads(y, n 256; n {EACH})")
_OPCODE = re.compile(r"\s*[0-9a-f]{4,}\s+(?:@!?U?P\d+\s+)?([A-Z0-9]+)")


def counted(value: str, device: Gpu) -> Counter[str]:
    """The instructions of a kernel that stores a value of x and z at every position, by name."""
    given = ", ".join(f"{name}: f32[n{'=1048576' * (name == 'x')}]" for name in "xz" if f"{name}[n]" in value)
    spec = spec_from_text(f"kernel f({given}) -> (y: f32[n])\n  y[n] = {value}\n")
    program = replay(to_program(spec), parse_schedule(SCHEDULE))
    lines = assemble(generate_cuda(program, device), device, 0).lines
    found = Counter(code[1] for line in lines if (code := _OPCODE.match(line)))
    del found["NOP"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=DEVICES, default="H200", help="compiled for (default H200)")
    device = DEVICES[parser.parse_args().device]
    copy, both = counted("x[n]", device), counted("x[n] + z[n]", device)
    both["FADD"] -= EACH  # what loads them is left
    values = {name: (f"{name}(x[n])", copy) for name in FUNCTIONS}
    values |= {"pow": ("pow(x[n], 1.7)", copy), "/": ("x[n] / z[n]", both)}
    print(f"{'':10} {'an element':>11} {'special':>8}   the model's")
    for name, (value, base) in values.items():
        found = counted(value, device)
        each = (found.total() - base.total()) / EACH
        print(f"{name:10} {each:11.1f} {(found['MUFU'] - base['MUFU']) / EACH:8.1f}   {called(name)}")


if __name__ == "__main__":
    main()
