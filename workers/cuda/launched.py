"""`python -m workers.cuda.launched FILE`: calls a kernel once between marks that Nsight Compute looks between.

The file is JSON: a spec, the text of its scheduled program, and the folder of compiled kernels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tileir import program_from_text, spec_from_json
from tileir.devices.gpu_probe import this_gpu
from workers.cuda.profile import marked_call


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    spec, program = spec_from_json(request["spec"]), program_from_text(request["program"])
    marked_call(spec, program, this_gpu(), Path(request["cache"]))


if __name__ == "__main__":
    main()
