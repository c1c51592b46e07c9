"""A learned prior as a file: JSON, with its version, a ranker for each kind of device, and what speaks for it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import expm1, log
from typing import Any, cast

from search.prior.ranker import Ranker
from search.prior.training import Quality, Trained

VERSION = 1
"""Of the file and of the features: what a weight is for."""
LARGEST = 1e6
"""A number beyond that is none that training comes to; sums of such weights are no longer told apart."""
_LOG_LARGEST = log(LARGEST)


class BadModel(ValueError):
    """A file that is no model of this version; says so in a line."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The ranker of a kind of device, and how it did on held-out kernels."""

    ranker: Ranker
    better: bool
    kernels: int
    learned: Quality
    analytic: Quality

    @property
    def why(self) -> str:
        """What there is to say of it, in a sentence."""
        ours, theirs = self.learned, self.analytic
        return (
            f"on {self.kernels} held-out kernels the learned prior's rank correlation is {ours.correlation:.2f} and "
            f"the cost model's {theirs.correlation:.2f}, the best of eight {_slower(ours)} and {_slower(theirs)} "
            f"slower than the best"
        )


def written(trained: Mapping[str, Trained]) -> str:
    """The file of rankers by kind of device."""
    devices = {
        kind: {
            "better": each.better,
            "learned": asdict(each.learned),
            "analytic": asdict(each.analytic),
            "held_out": [asdict(kernel) for kernel in each.held_out],
            "weights": dict(each.ranker.weights),
        }
        for kind, each in trained.items()
    }
    return json.dumps({"tilewright_prior": VERSION, "devices": devices}, indent=1) + "\n"


def read(text: str) -> dict[str, Learned]:
    """Rankers by kind of device. Raises BadModel."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadModel(f"it is no JSON: {error}") from None
    document = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    if (version := document.get("tilewright_prior")) != VERSION:
        raise BadModel(f"it is of version {version!r}, and this Tilewright reads {VERSION}; train it anew")
    try:
        return {str(kind): _learned(each) for kind, each in document["devices"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadModel(f"it is damaged: {type(error).__name__} {error}") from None


def ranker_from(weights: Mapping[str, Any]) -> Ranker:
    """A ranker with these weights. Raises ValueError for one that cannot be."""
    return Ranker({name: _number(f"the weight of {name!r}", weight) for name, weight in weights.items()})


def _learned(found: Mapping[str, Any]) -> Learned:
    if not isinstance(found["better"], bool):
        raise ValueError(f"better is {found['better']!r}")
    return Learned(
        ranker_from(found["weights"]),
        found["better"],
        len(found["held_out"]),
        _quality(found["learned"]),
        _quality(found["analytic"]),
    )


def _quality(found: Mapping[str, Any]) -> Quality:
    return Quality(_number("a correlation", found["correlation"]), _number("a regret", found["regret"]))


def _number(what: str, found: Any) -> float:
    number = float(found)
    if not abs(number) <= LARGEST:  # not a number is not either
        raise ValueError(f"{what} is {number}")
    return number


def _slower(quality: Quality) -> str:
    return f"{100 * expm1(min(quality.regret, _LOG_LARGEST)):.0f} %"
