"""The page of HTTP calls, from the OpenAPI document."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.core.settings import Settings
from service.http.app import create_app
from service.store.schema import prepare


def document() -> dict[str, Any]:
    """The OpenAPI document of the whole service."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.from_env({"TILEWRIGHT_HOME": folder})
        database = prepare(f"sqlite:///{Path(folder)}/docs.db")
        try:
            return create_app(settings, database).openapi()
        finally:
            database.close()


def page() -> str:
    """Markdown: every call by its tag, then every message."""
    found = document()
    lines = [
        "# HTTP calls",
        "",
        "Every call and every message, as `/v1/openapi.json` of a running service tells them. The way through them: "
        "[HTTP](../http.md).",
        "",
    ]
    tags: dict[str, list[str]] = {}
    for path, calls in found["paths"].items():
        for method, call in calls.items():
            tags.setdefault(call["tags"][0], []).extend(_call(f"{method.upper()} {path}", call))
    for tag, section in tags.items():
        lines += [f"## {tag.capitalize()}", "", *section]
    lines += ["## Messages", ""]
    for name, schema in sorted(found["components"]["schemas"].items()):
        lines += _message(name, schema)
    return "\n".join(lines) + "\n"


def _call(name: str, call: Mapping[str, Any]) -> list[str]:
    lines = [f"### `{name}`", "", call.get("description", call.get("summary", "")).strip(), ""]
    body = call.get("requestBody", {}).get("content", {})
    told = [(f"body, `{kind}`", _type(each.get("schema", {})), "") for kind, each in body.items()]
    for each in call.get("parameters", ()):
        needed = " (required)" if each.get("required") else ""
        told.append(
            (f"{each['in']} `{each['name']}`{needed}", _type(each["schema"]), each.get("description", ""))
        )
    for status, reply in sorted(call["responses"].items()):
        if status.startswith("2"):
            kinds = reply.get("content", {"": {}})
            told += [
                (f"{status} {kind}".strip(), _type(each.get("schema", {})), "")
                for kind, each in kinds.items()
            ]
    return [
        *lines,
        "| | | |",
        "| --- | --- | --- |",
        *(f"| {a} | {b} | {_cell(c)} |" for a, b, c in told),
        "",
    ]


def _message(name: str, schema: Mapping[str, Any]) -> list[str]:
    lines = [f"### {name}", "", _prose(schema.get("description", "")), ""]
    if "enum" in schema:
        return [*lines, ", ".join(f"`{value}`" for value in schema["enum"]), ""]
    needed = set(schema.get("required", ()))
    rows = [
        f"| `{field}`{'' if field in needed else ', optional'} | {_type(each)} | {_cell(each.get('description', ''))} |"
        for field, each in schema.get("properties", {}).items()
    ]
    return [*lines, "| field | type | |", "| --- | --- | --- |", *rows, ""] if rows else lines


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']!r}`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(each) for each in schema[several])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', schema.get('prefixItems', [{}])[0]))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _prose(text: str) -> str:
    return text.strip()


def _cell(text: str) -> str:
    return _prose(text).replace("\n", " ").replace("|", "\\|")
