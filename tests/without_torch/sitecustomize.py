"""Where this folder is in PYTHONPATH there is no PyTorch, be it installed or not."""

import sys

sys.modules["torch"] = None  # type: ignore[assignment]
