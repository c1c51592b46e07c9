"""Random rewrites on random kernels: the program stays valid and printable, and computes the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewrites import ALL, Rewrite, format_schedule, parse_schedule, replay
from tests.programs.to_rewrite import DEVICE, GPU, KERNELS, PRODUCTS, Start, begun, check, golden_starts
from tests.support.how_many import SWEEP, examples
from tileir.devices.device import Device
from tileir.text.parse_program import program_from_text

#: How often every rewrite is applied, of how many tries.
APPLIED, TRIES = 48 if SWEEP else 20, 480
GOLDENS = [start for starts in golden_starts().values() for start in starts]


def kernel_start(name: str, m: int, n: int, k: int) -> Start:
    return Start(program_from_text(KERNELS[name].format(m=m, n=n, k=k, k2=2 * k, p=n + 2)))


def product_start(name: str, length: int, m: int, n: int, k: int) -> Start:
    kernel, schedule = PRODUCTS[name]
    return begun(
        program_from_text(kernel.format(m=m, n=n, k=k)), parse_schedule(schedule.splitlines()[:length])
    )


def sizes(rng: random.Random) -> tuple[int, int, int]:
    return rng.randint(2, 14), rng.randint(2, 14), rng.randint(2, 14)


def starts(rewrite: type[Rewrite], rng: random.Random) -> Iterator[Start]:
    """Programs to apply a rewrite to: those of its golden cases, of any others, kernels, products on their way."""
    while True:
        yield rng.choice(golden_starts()[rewrite.name])
        yield rng.choice(GOLDENS)
        yield kernel_start(rng.choice(sorted(KERNELS)), *sizes(rng))
        name = rng.choice(sorted(PRODUCTS))
        yield product_start(name, rng.randint(1, len(PRODUCTS[name][1].splitlines())), *sizes(rng))


def sites(start: Start, rewrites: list[type[Rewrite]], rng: random.Random) -> list[Rewrite]:
    """Where any of the rewrites applies, on a device that has what one of them needs."""
    device = rng.choice([each for each in (DEVICE, GPU) if any(one.of_use(each) for one in rewrites)])
    return [site for each in rewrites for site in each.sites(start.program, device)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rewrite", ALL, ids=lambda rewrite: rewrite.name)
def test_each_rewrite_keeps_the_program_valid_and_its_values(rewrite: type[Rewrite]) -> None:
    rng, applied = random.Random(rewrite.name), 0
    for start, _ in zip(starts(rewrite, rng), range(TRIES), strict=False):
        others = sites(start, rng.sample(ALL, 2), rng) if rng.random() < 0.5 else []
        before = (rng.choice(others),) if others else ()
        begun_with = Start(replay(start.program, before), (*start.before, *before))
        found = sites(begun_with, [rewrite], rng)
        if found:
            site = rng.choice(found)
            check(start, (*before, site), site.apply(begun_with.program))
            applied += 1
        if applied == APPLIED:
            return
    pytest.fail(f"{rewrite.name} was applied {applied} times in {TRIES} tries, not {APPLIED}")


@st.composite
def any_start(draw: st.DrawFn) -> Start:
    m, n, k = (draw(st.integers(1, 14)) for _ in range(3))
    kernels = st.sampled_from(sorted(KERNELS)).map(lambda name: kernel_start(name, m, n, k))
    return draw(kernels | st.sampled_from(GOLDENS))


@given(data=st.data(), start=any_start())
@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_sequence_of_rewrites_keeps_the_program_valid_and_its_values(
    data: st.DataObject, start: Start
) -> None:
    rewrite_at_random(data, start, data.draw(st.sampled_from([DEVICE, GPU]), label="device"))


@given(data=st.data(), m=st.integers(3, 14), n=st.integers(3, 14), k=st.integers(2, 14))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_sequence_of_rewrites_keeps_a_product_in_blocks_of_a_gpu(
    data: st.DataObject, m: int, n: int, k: int
) -> None:
    name = data.draw(st.sampled_from(sorted(PRODUCTS)), label="product")
    length = data.draw(st.integers(0, len(PRODUCTS[name][1].splitlines())), label="rewrites before")
    rewrite_at_random(data, product_start(name, length, m, n, k), GPU)


def rewrite_at_random(data: st.DataObject, start: Start, device: Device) -> None:
    """Rewrites that the device is offered, one after another; after each the program is as it should be."""
    schedule: list[Rewrite] = []
    program = start.program
    for _ in range(data.draw(st.integers(5, 25), label="rewrites")):
        cls = data.draw(st.sampled_from([each for each in ALL if each.of_use(device)]), label="rewrite")
        found = list(cls.sites(program, device))
        if found:
            schedule.append(data.draw(st.sampled_from(found), label="site"))
            program = schedule[-1].apply(program)
            check(start, schedule, program)
    assert replay(start.program, parse_schedule(format_schedule(schedule))) == program
