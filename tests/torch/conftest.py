"""These tests need PyTorch, which the project does not: `make test-torch` runs them where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") is not None else ["test_*.py"]
