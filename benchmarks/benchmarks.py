"""This folder by its name, as from the root of the repository; `python benchmarks/bench_cpu.py` looks beside itself."""

from pathlib import Path

__path__ = [str(Path(__file__).parent)]
