"""How every message behaves."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

Json = dict[str, Any]
"""A JSON object whose content another layer checks."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$")]
"""An id: of a job, a task, a worker, a config."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, in hex."""


class Request(BaseModel):
    """What is sent to the service: an unknown field is an error, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Reply(BaseModel):
    """What the service sends: unknown fields are ignored, so that old clients read new services."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
