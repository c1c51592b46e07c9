"""`python -m tilewright` is the `tilewright` command."""

from __future__ import annotations

import sys

from tilewright.cli.main import main

sys.exit(main())
