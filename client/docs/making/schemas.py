"""JSON objects that the command prints and services answer, by the word in their member `schema`."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from docs.making.markup import code, plain, table
from support.screens.objects import types


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    adapted: dict[str, dict[str, Any]] = {
        word: TypeAdapter(kind).json_schema() for word, kind in sorted(types().items())
    }
    named: dict[str, Any] = {}
    parts = [
        "# Objects in JSON",
        "An object says in `schema` what it is. Members may be added; a change of what one means makes it `/2`.\n"
        "Amounts are wei as decimal strings, times are blocks, roots and uuids are 64 hex digits.",
        "## Objects with a name",
    ]
    for word, schema in adapted.items():
        named |= schema.get("$defs", {})
        parts += [f"### {word}", *described(schema)]
    parts.append("## What they are made of")
    for name, schema in sorted(named.items()):
        parts += [f"### {name}", *described(schema)]
    return {"schemas.md": "\n\n".join(filter(None, parts)) + "\n"}


def described(schema: Mapping[str, Any]) -> Iterator[str]:
    """A schema's text, and its members."""
    yield plain(schema.get("description", ""))
    if "properties" not in schema:
        yield f"Is {kind_of(schema)}."
        return
    needed = set(schema.get("required", ()))
    rows = [
        (
            code(name) + ("" if name in needed else " *may be missing*"),
            kind_of(member),
            plain(member.get("description", "")),
        )
        for name, member in schema["properties"].items()
    ]
    yield table(("member", "is", ""), rows)


def kind_of(schema: Mapping[str, Any], page: str = "") -> str:
    """What a value is, in a few words; types of their own are links, to another page if one is named."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({page}#{name.lower()})"
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(kind_of(one, page) for one in schema[several])
    if schema.get("type") == "array":
        items = schema.get("items") or {"anyOf": schema.get("prefixItems", [{}])}
        return f"list of {kind_of(items, page)}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind_of(schema['additionalProperties'], page)}"
    if pattern := schema.get("pattern"):
        return _PATTERNS.get(pattern) or f"text {code(pattern)}"
    return _WORDS.get(schema.get("type", ""), "anything")


_WORDS = {
    "string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null",
    "object": "object", "array": "list",
}  # fmt: skip
_PATTERNS = {
    "^[0-9]+$": "decimal number as text", "^[0-9a-f]{64}$": "64 hex digits", "^0x[0-9a-f]{64}$": "0x and 64 hex digits",
    "^0x[0-9a-fA-F]{40}$": "address",
}  # fmt: skip
