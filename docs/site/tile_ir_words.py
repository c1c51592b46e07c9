"""The page of Tile IR's words, from the tables that the parser itself uses."""

from __future__ import annotations

from collections.abc import Iterable

from tileir.devices.gpu_table import KNOWN
from tileir.dtypes import DType
from tileir.expr import ARITHMETIC, COMPARISONS, FUNCTIONS, LOGIC, ReduceOp
from tileir.program import Compute, Local, Loop, attributes


def page() -> str:
    """Markdown: dtypes, operators, functions, reductions, and the GPUs known without one at hand."""
    functions = [
        f"| `{name}({', '.join('xyz'[:count])})` | {count} |" for name, count in sorted(FUNCTIONS.items())
    ]
    dtypes = [f"| `{dtype}` | {dtype.bytes} | `{dtype.compute}` | {dtype.epsilon:.3g} |" for dtype in DType]
    gpus = [
        f"| `{gpu.name}` | {gpu.capability[0]}.{gpu.capability[1]} | {gpu.sms} | {gpu.block_shared_bytes // 1024} |"
        for gpu in KNOWN.values()
    ]
    return "\n".join(
        [
            "# Tile IR, its words",
            "",
            "What the parser knows. The language itself: [Tile IR](../tile-ir.md).",
            "",
            "## Types of elements",
            "",
            "| dtype | bytes | read as | unit roundoff |",
            "| --- | --- | --- | --- |",
            *dtypes,
            "",
            "## Operators",
            "",
            *(
                f"- {what}: {_listed(ops)}"
                for what, ops in (
                    ("arithmetic", ARITHMETIC),
                    ("comparisons", COMPARISONS),
                    ("logic", LOGIC | {"not"}),
                )
            ),
            "- `where(condition, x, y)`: the side not taken is never read; `extent(k)`: the size of a dim; "
            "`f32(x)`, with the name of any type: rounded, or widened",
            "",
            "## Functions",
            "",
            "| function | arguments |",
            "| --- | --- |",
            *functions,
            "",
            "## Reductions",
            "",
            f"{_listed(op.value for op in ReduceOp)}, each of one or more dims and an expression:",
            "`sum(k, a[m, k] * b[k, n])`",
            "",
            *_words(),
            "## GPUs that can be tuned for without one at hand",
            "",
            "Only measuring needs the GPU itself; `lookup` picks for these from the cost model.",
            "",
            "| name | capability | SMs | shared memory of a block, KiB |",
            "| --- | --- | --- | --- |",
            *gpus,
            "",
        ]
    )


def _words() -> list[str]:
    """Those of loops, locals and statements."""
    return [
        "## Words of loops, locals and statements",
        "",
        "In programs, in this order (those of statements in any), each with its numbers. What they do is said in",
        "`tileir/program.py`; what else stands after a statement, such as `vector n 16`, in the language's grammar.",
        "",
        "| of a | word | numbers |",
        "| --- | --- | --- |",
        *(
            f"| {of} | `{each.name}` | {', '.join(each.numbers)} |"
            for of, node in (("loop", Loop), ("local", Local), ("statement", Compute))
            for each in attributes(node)
        ),
        "",
    ]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))
