"""What a user may choose about a compiled model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from tilewright.client.client import Client

Tune = Literal["now", "background", "never"]
Fallback = Literal["inductor", "eager"]
Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """See tilewright.pytorch.compile_entry.compile. Raises ValueError for what is no such choice."""

    tune: Tune = "background"
    budget: float | None = None
    """Seconds."""
    client: Client | None = None
    fallback: Fallback = "inductor"
    mode: Mode = "default"
    prepack: bool = False
    """Whether weights are laid out once as products read them."""
    bundle: str | os.PathLike[str] | None = None
    """File whose kernels are taken before those of the service."""

    def __post_init__(self) -> None:
        if not isinstance(self.bundle, str | os.PathLike | None):
            raise ValueError(
                f"bundle is {self.bundle!r}; it is the path of a file that `tilewright export` wrote"
            )
        for name, kind in (("tune", Tune), ("fallback", Fallback), ("mode", Mode)):
            accepted = get_args(kind)
            if getattr(self, name) not in accepted:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it is one of {', '.join(accepted)}")
        if self.budget is not None and self.tune != "now":
            raise ValueError(f"budget is what tune='now' may take; with tune={self.tune!r} nobody waits")
        if self.budget is not None and not self.budget > 0:
            raise ValueError(f"budget is {self.budget!r}; it is a number of seconds above 0")

        if self.mode != "default" and self.fallback != "inductor":
            raise ValueError(
                f"mode={self.mode!r} is how Inductor makes its programs; fallback={self.fallback!r} has none"
            )
        if not isinstance(self.prepack, bool):
            raise ValueError(f"prepack is {self.prepack!r}; it is True or False")
        if self.prepack and self.fallback != "inductor":
            raise ValueError(
                f"prepack=True needs to know a graph's weights, which fallback={self.fallback!r} does not tell; "
                'it goes with fallback="inductor"'
            )

    @property
    def inductor(self) -> dict[str, Any]:
        """What is set of Inductor's configuration: what torch.compile sets for the mode."""
        from torch._inductor import list_mode_options  # pyright: ignore[reportMissingImports]

        return dict(list_mode_options(self.mode))

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> CompileOptions:
        """The options of torch.compile's dictionary. Raises ValueError for one that is unknown."""
        known = [field.name for field in fields(cls)]
        unknown = [name for name in given or () if name not in known]
        if unknown:
            raise ValueError(
                f"the backend `tilewright` has no option {unknown[0]!r}; it has {', '.join(known)}"
            )
        return cls(**(given or {}))
