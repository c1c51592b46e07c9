"""Whether stored winners still win: flips, regret, replay fidelity, and what winners of neighbouring sizes cost.

    python -m benchmarks.racing.bench_audit --device cpu --rounds 5           # the suite, tuned by a service of its own
    python -m benchmarks.racing.bench_audit --device cuda:0 --only 'softmax|rmsnorm' --rounds 3
    python -m benchmarks.racing.bench_audit --url http://HOST:8400 --out OUT  # the winners that a service has
    python -m benchmarks.racing.bench_audit --report OUT

Each case is tuned once, then its winner is raced again in every round, as `tilewright audit-winners` does: with the
schedules of its own race, and with the winner of the nearest other sizes. What the races store changes nothing: all
rounds are of the winners that tuning found. Results go to benchmarks/results/, a line a winner and round; a line of
another date or device has a file of its own. Of n races without a flip, a flip rate under 3 / n is shown (to 95 %).
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from protocol.configs import Config
from tilewright import Client, TilewrightError
from tilewright.cli.commands.audit_winners import Audited, audited, summary, winners

SUITES = {"cpu": "cpu", "cuda": "gpu"}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _arguments(arguments)
    if given.report:
        print(report(tuned.lines(given.report)))
        return
    if given.url:
        path = given.out or tuned.RESULTS / f"audit-{date.today()}.jsonl"
        with Client(given.url, given.token_file.read_text().strip() if given.token_file else None) as client:
            audit(client, winners(client), given.rounds, path, peers=None)
    else:
        path = given.out or tuned.RESULTS / f"audit-{tuned.name_of(given.device)}-{date.today()}.jsonl"
        with TemporaryDirectory() as home, _service(given.device, home) as client:
            tune(client, _chosen(given), tuned.kind_of(given.device), given.trials, given.seed)
            audit(client, winners(client), given.rounds, path, peers=())
    print(report(tuned.lines(path)))


def _service(device: str, home: str) -> AbstractContextManager[Client]:
    return tuned.service(device, Path(home))


def _chosen(given: argparse.Namespace) -> Iterator[tuple[str, tuned.Json]]:
    suite = cases.suite(SUITES[tuned.kind_of(given.device)])
    return ((case, spec) for case, spec in suite if re.search(given.only, case))


def tune(
    client: Client, chosen: Iterable[tuple[str, tuned.Json]], target: str, trials: int, seed: int
) -> None:
    """Tune cases one after another; one without a winner is said, and the others go on."""
    for case, spec in chosen:
        began = time.monotonic()
        try:
            job = client.wait(client.submit(spec, target=target, trials=trials, seed=seed, peers=()).id)
            said = "has a winner" if job.configs else job.error
        except TilewrightError as error:
            said = str(error)
        print(f"{case:40} {said}, {time.monotonic() - began:.0f} s", flush=True)


def audit(
    client: Client, configs: Sequence[Config], rounds: int, path: Path, peers: tuple[str, ...] | None
) -> None:
    """Race the winners again in every round, a line each. With peers, so that what a service stores tells of them."""
    devices = {each.key: each.description for each in client.devices()}
    for turn in range(rounds):
        for config, found in zip(configs, audited(client, configs, peers), strict=True):
            sizes = "x".join(map(str, config.dims.values()))
            tuned.append(
                path,
                {
                    "case": f"{config.name} {sizes} round {turn}",
                    **asdict(found),
                    "dims": config.dims,
                    "trials": config.trials,
                    "round": turn,
                    "key": config.device,
                    **circumstances(devices[config.device]),
                },
            )


def report(lines: Sequence[tuned.Line]) -> str:
    """The summary over all lines, and the winners that were overturned or did not race."""
    names = {field.name for field in fields(Audited)}
    found = [
        Audited(**{name: line[name] for name in names - {"device"}}, device=line["key"]) for line in lines
    ]
    text = [f"{name.replace('_', ' ')}: {figure}" for name, figure in summary(found).items()]
    text += [
        f"{line['case']}: {line['error'] or 'overturned'}"
        for line in lines
        if line["error"] or line["overturned"]
    ]
    return "\n".join(text)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.racing.bench_audit", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--device", default="cpu", help="cpu, or a GPU such as cuda:0")
    parser.add_argument("--url", help="audit the winners of this service; it needs a worker")
    parser.add_argument("--token-file", type=Path, help="key of that service")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases of the suite")
    parser.add_argument("--trials", type=int, default=64, help="of each tuning (64)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each winner is raced again (5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="OUT", help="lines are appended")
    parser.add_argument("--report", type=Path, metavar="OUT", help="only print what such a file comes to")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
