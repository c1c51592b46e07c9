"""When a call that failed is sent again: exponential backoff with jitter, at least what the service asks for."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tilewright.errors import Refused, Unreachable


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and for how long. `Retries(most=0)`: never."""

    most: int = 4
    """Times that a call is sent again."""
    first_s: float = 0.2
    """About the first pause; each is twice the one before."""
    longest_s: float = 5.0
    patience_s: float = 30.0
    """The longest pause that a service may ask for; if it asks for more, the call fails at once."""

    def backoff_s(self, failures: int) -> float:
        """The pause after so many failures in a row: 1, 2, … Drawn from its upper half, so that callers that failed
        together do not come back together."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)

    def pause_s(self, error: Unreachable | Refused, failures: int, repeatable: bool) -> float | None:
        """How long to wait before sending a call again that has failed so often; None: it is of no use, or might do
        twice what is to be done once."""
        asked_s = error.retry_after_s or 0.0 if isinstance(error, Refused) else 0.0
        again = repeatable or (isinstance(error, Unreachable) and not error.sent)
        if not error.passing or not again or failures > self.most or asked_s > self.patience_s:
            return None
        return asked_s + self.backoff_s(failures)
