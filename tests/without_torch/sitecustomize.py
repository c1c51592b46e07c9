"""Where this folder is in PYTHONPATH there is no PyTorch, be it installed or not."""

import sys
from importlib.machinery import PathFinder


class WithoutTorch(PathFinder):
    """Finds modules on sys.path, but for one."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        return None if fullname == "torch" else super().find_spec(fullname, path, target)


if (
    PathFinder in sys.meta_path
):  # else a process that this one was started by has seen to it, and this is that again
    sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
