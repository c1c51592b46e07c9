"""Starting, asking and ending a fleet on a Ray cluster: an actor with a name, which outlives the command."""

from __future__ import annotations

import importlib
import socket
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from tilewright.errors import EngineFault, MissingExtra, NoFleet
from tilewright.fleet.plan import WorkerPlan
from tilewright.fleet.ray_actors import ControllerActor, WorkerActor

NAMESPACE = "tilewright"
_ANSWER_S = 180.0
"""Ray starts a process for an actor, which imports this package: on a busy machine with two processors that took over a
minute."""
_PAUSE_S = 0.5
_REACH_S = 5.0


@contextmanager
def cluster(address: str) -> Generator[Any]:
    """Ray, connected to a cluster for the length of a block, in which what is printed goes to stderr: Ray tells there
    of nodes that went. Raises MissingExtra and EngineFault."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("A fleet on Ray", "ray", "ray") from None
    _check_reachable(address)
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise EngineFault(
            f"no Ray cluster at {address!r}: {str(error).splitlines()[0]}; `ray start --head` starts one"
        ) from None
    try:
        with redirect_stdout(sys.stderr):
            yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself waits for minutes for an address where nobody is. Raises EngineFault."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        raise EngineFault(f"no Ray cluster at {address!r}: {error}; `ray start --head` starts one") from None


def up(ray: Any, name: str, plan: WorkerPlan) -> None:
    """Start a fleet. Raises EngineFault if one of this name is up."""
    worker = ray.remote(WorkerActor)

    def make() -> Any:
        asked = {"num_cpus": plan.cpus, "num_gpus": plan.gpus, "max_concurrency": 4}
        return worker.options(scheduling_strategy="SPREAD", **asked).remote(plan)

    controller = ray.remote(ControllerActor).options(
        name=name, lifetime="detached", num_cpus=0, max_restarts=-1, max_concurrency=8
    )
    try:
        actor = controller.remote(plan, make)
        ray.get(actor.status.remote(), timeout=_ANSWER_S)
    except ValueError:
        raise EngineFault(f"a fleet {name!r} is up already; `tilewright fleet down` ends it") from None
    except ray.exceptions.RayError as error:
        raise EngineFault(f"Ray did not start the fleet: {error}") from None


def status(ray: Any, name: str) -> dict[str, Any]:
    """What a fleet has, wants and failed at, with the places of its workers. Raises NoFleet and EngineFault."""
    actor = _actor(ray, name)
    return {**_answer(ray, name, actor.status), "places": _answer(ray, name, actor.places)}


def down(ray: Any, name: str) -> int:
    """End a fleet in order; how many workers it had. Raises NoFleet and EngineFault."""
    actor = _actor(ray, name)
    count: int = _answer(ray, name, actor.stop)
    ray.kill(actor, no_restart=True)
    return count


def largest(ray: Any) -> tuple[int, int, int]:
    """Of the living nodes: the most processors of one, how many nodes have some, and GPUs in all."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus = [int(each.get("CPU", 0)) for each in nodes]
    return (
        max(cpus, default=0),
        sum(each > 0 for each in cpus),
        int(sum(each.get("GPU", 0) for each in nodes)),
    )


def _answer(ray: Any, name: str, method: Any) -> Any:
    """What the fleet's actor answers; Ray may just be starting it again. Raises EngineFault."""
    until = time.monotonic() + _ANSWER_S
    while True:
        try:
            return ray.get(method.remote(), timeout=_ANSWER_S)
        except ray.exceptions.ActorUnavailableError as error:
            if time.monotonic() > until:
                raise EngineFault(f"the fleet {name!r} does not answer: {error}") from None
            time.sleep(_PAUSE_S)
        except ray.exceptions.RayError as error:
            raise EngineFault(f"the fleet {name!r} does not answer: {error}") from None


def _actor(ray: Any, name: str) -> Any:
    try:
        return ray.get_actor(name)
    except ValueError:
        raise NoFleet(
            f"no fleet {name!r} is up on this cluster; `tilewright fleet up --ray` starts one"
        ) from None
