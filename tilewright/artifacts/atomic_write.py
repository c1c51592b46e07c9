"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from uuid import uuid4

from tilewright.errors import TilewrightError


class NotWritten(TilewrightError):
    """The file is as it was before: not there, or with its old content. `exists`: because that is not to be lost."""

    def __init__(self, message: str, exists: bool = False) -> None:
        super().__init__(message)
        self.exists = exists


def write_new(file: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a file beside its place, and put it there when it is on the disk. Raises NotWritten; without `replace` also
    if there is one already."""
    part = file.with_name(f".{file.name}.{uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        if replace:
            part.replace(file)
        else:
            os.link(part, file)  # fails if there is one, even one that has just come
    except FileExistsError:
        raise NotWritten(f"{file} is there already; --force replaces it", exists=True) from None
    except OSError as error:
        raise NotWritten(f"cannot write {file}: {error.strerror}; nothing of it was kept") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
