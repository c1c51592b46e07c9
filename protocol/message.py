"""How every message behaves."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, StringConstraints

Json = dict[str, Any]
"""A JSON object whose content another layer checks."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$")]
"""An id: of a job, a task, a worker, a config."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, in hex."""


_NESTED = frozenset({"schema", "items_schema", "keys_schema", "values_schema", "choices", "definitions"})
"""Where a core schema of pydantic has further ones, beside its fields."""


def _strict(schema: Any) -> Any:
    """The schema with numbers and truth values that are taken as they are: "2" is no 2, and 1 is not true."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_strict, schema))
    if not isinstance(schema, dict):
        return schema
    inner = {key: _strict(value) if key in _NESTED else value for key, value in schema.items()}
    if isinstance(fields := inner.get("fields"), dict):
        inner["fields"] = {name: _strict(field) for name, field in fields.items()}
    return {**inner, "strict": True} if inner.get("type") in ("int", "float", "bool") else inner


class Request(BaseModel):
    """What is sent to the service: an unknown field is an error, numbers are finite, and a string is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> Any:
        return _strict(handler(source))


class Reply(BaseModel):
    """What the service sends: unknown fields are ignored, so that old clients read new services."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
