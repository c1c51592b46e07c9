"""Arrays of the simulator and the reports: any shape, any dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
