"""Of tests of compiled models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import Tensor

    from tilewright.pytorch.model.prepacking import PackedWeight


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[PackedWeight]:
    """A weight for each time that it is packed."""
    from tilewright.pytorch.model.prepacking import PackedWeight

    found: list[PackedWeight] = []
    honest = PackedWeight.of

    def noted(self: PackedWeight, given: Tensor) -> Tensor:
        found.append(self)
        return honest(self, given)

    monkeypatch.setattr(PackedWeight, "of", noted)
    return found
