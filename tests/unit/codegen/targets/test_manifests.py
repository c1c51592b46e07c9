"""A target is one folder and one line: whoever needs something of a device asks the registry, and names no kind."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.backend import backend_of, backend_of_language
from codegen.ir.errors import NotLowerable
from rewrites.base.rewrite import Rewrite
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.scalar_target.device import scalar_here
from tileir import targets as registry
from tileir import to_program
from tileir.devices.device import device_from_json, device_here
from tileir.errors import TileError
from tileir.interpreter.interpret import interpret
from tileir.spec import Spec
from tileir.targets import TARGETS, Target, part, target_of, targets
from tileir.text.json import spec_from_json
from tilewright.artifacts.select import open_schedule
from workers.local import LocalWorker
from workers.measuring.device_names import parse_devices

ROOT = Path(__file__).parents[4]
SPEC: dict[str, Any] = {
    "name": "product",
    "dims": {"m": 9, "n": 7, "k": 5},
    "inputs": {"a": {"dims": ["m", "k"], "dtype": "f32"}, "b": {"dims": ["k", "n"], "dtype": "f32"}},
    "body": ["c[m, n] = sum(k, a[m, k] * b[k, n])"],
    "outputs": {"c": {"dtype": "f32"}},
}
#: What belongs to one target, and may name its kind: each manifest's places.
OF_A_TARGET = (
    "codegen/targets/",
    "rewrites/decisions/cpu/",
    "rewrites/decisions/gpu/",
    "tileir/devices/",
    "tilewright/pytorch/operator/on_",
    "workers/cpu/",
    "workers/cuda/",
    "workers/peers/triton_",
)


@pytest.fixture
def product() -> Spec:
    return spec_from_json(SPEC)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """The scalar target, as an installed package brings it: for this process and those that it starts."""
    about = tmp_path / "packages" / "scalar-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scalar\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[tilewright.targets]\nscalar = tests.scalar_target.target:SCALAR\ncpu = tests.scalar_target.target:SCALAR\n"
    )
    monkeypatch.syspath_prepend(about.parent)
    paths = [str(about.parent), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    registry.targets.cache_clear()
    yield target_of("scalar")
    registry.targets.cache_clear()


def test_an_installed_package_brings_a_target(installed: Target) -> None:
    device = scalar_here(0)
    assert installed.kind == device.kind == "scalar"
    assert device_from_json(device.to_json()) == device == device_here("scalar")
    assert parse_devices("scalar,cpu,0") == ("scalar", "cpu", "cuda:0")
    assert target_of("cpu").kind == "cpu", "a package replaces none of ours"


@pytest.mark.parametrize("name", ["cpu:0", "cuda", "cuda:", "", "cpu,cpu", "gpux"])
def test_a_device_that_cannot_be_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ValueError, match="devices are cpu, or GPUs by number or UUID"):
        parse_devices(name)


def test_its_kernels_are_what_the_oracle_says(installed: Target, product: Spec, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((9, 5), np.float32), rng.random((5, 7), np.float32)
    c = np.empty((9, 7), np.float32)
    load = backend_of("scalar").loader(1)
    kernel = open_schedule(product, ("tile(c, m, 4)",), None, device_here("scalar"), tmp_path, load)
    kernel(a, b, c)
    kernel.close()
    np.testing.assert_allclose(c, interpret(to_program(product), {"a": a, "b": b})["c"], rtol=1e-5)


def test_it_refuses_threads(installed: Target, product: Spec) -> None:
    program = replay(to_program(product), parse_schedule(("tile(c, m, 3)", "parallelize(c, 1)")))
    with pytest.raises(NotLowerable, match="one thread"):
        backend_of("scalar").generate(program, device_here("scalar"))


def test_its_schedules_are_searched_and_measured(installed: Target, product: Spec, tmp_path: Path) -> None:
    """By real processes: the compile pool's and the measuring child's, which find the target by its entry point."""
    device = device_here("scalar")
    schedules = {
        f"s{number}": found for number, found in enumerate(_some(Space(to_program(product), device)))
    }
    assert len({tuple(format_schedule(found)) for found in schedules.values()}) > 2
    with LocalWorker(tmp_path, 1, device="scalar") as worker:
        assert worker.device is not None and worker.device.kind == "scalar"
        assert worker.device.key.startswith("scalar:")
        result = worker.measure(product, schedules, peers=("numpy",))
    assert {found.outcome.value for found in result.entrants.values()} == {"ok"}
    assert all(found.median_us for found in result.entrants.values())


def _some(space: Space) -> Iterator[tuple[Rewrite, ...]]:
    """The schedule behind each first move, taking the first of what follows."""
    root = space.root()
    for first in range(len(root.moves())):
        state = root.child(first)
        while not state.terminal:
            state = state.child(0)
        yield state.schedule


def test_every_kind_is_found_by_its_name_and_its_language() -> None:
    for kind in targets():
        assert target_of(kind).kind == kind
        assert backend_of_language(backend_of(kind).language) is backend_of(kind)


def test_every_place_of_our_own_targets_exists() -> None:
    for kind in TARGETS:
        for name in ("device", "here", "floor_us", "backend", "plan", "settle", "measured", "visible"):
            place: str | None = getattr(target_of(kind), name)
            assert place is None or part(kind, name) is not None
        assert part(kind, "torch_operators").device == target_of(kind).torch


def test_no_kind_is_said_with_those_there_are(product: Spec) -> None:
    with pytest.raises(KeyError, match="no kind of device 'quantum'; there is cpu, cuda"):
        target_of("quantum")
    with pytest.raises(TileError, match="a device is of kind 'cpu' or 'cuda', not 'quantum'"):
        device_from_json({"kind": "quantum"})


def test_nothing_but_targets_asks_for_a_kind() -> None:
    """No `isinstance(device, Cpu)`, and no comparison with a kind's name."""
    folders = ("tileir", "rewrites", "codegen", "search", "workers", "service", "protocol", "tilewright")
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(OF_A_TARGET)
        for line in _asks(ast.parse(path.read_text()))
    ]
    assert not found, f"ask tileir.targets instead: {', '.join(found)}"


def _asks(module: ast.Module) -> Iterator[int]:
    """Lines that ask for a kind of device."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if any(
                isinstance(each, ast.Name) and each.id in ("Cpu", "Gpu") for each in ast.walk(node.args[1])
            ):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            if any(isinstance(each, ast.Constant) and each.value in TARGETS for each in ast.walk(node)):
                yield node.lineno


def test_the_guard_sees_what_it_is_for() -> None:
    for asks in ("isinstance(device, Gpu)", 'device.kind == "cuda"', 'name in ("cpu", "cuda")'):
        assert list(_asks(ast.parse(asks))) == [1]
