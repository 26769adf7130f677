"""JSON objects: a dataclass on `Object` is one, its members of the types below, each described by the text below it.

`to_json` writes it, `read` reads its members, and pydantic derives its JSON Schema, for OpenAPI and tests. Pydantic is
asked by those who want that: importing this does not import it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints

_DIGITS = 78  # of the widest number that a contract knows


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """How a value stands in JSON: what JSON Schema says of it, and the ways there and back. `read` raises ValueError or
    TypeError for what is no such value."""

    schema: Mapping[str, Any]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


@dataclass(frozen=True, slots=True)
class Json:
    """That a dict is the JSON of an object."""

    kind: type["Object"]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler.generate_schema(self.kind)


def number(value: Any) -> int:
    """An integer, or one as decimal text. Raises ValueError for other text, TypeError for anything else."""
    if type(value) is int:
        return value
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a number")
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
        raise ValueError(f"{value!r} is not a decimal number")
    return int(value)


def natural(value: Any) -> int:
    """As `number`, and not below zero: ValueError."""
    result = number(value)
    if result < 0:
        raise ValueError(f"{result} is below zero")
    return result


def unhex(value: Any) -> bytes:
    """Bytes of hex digits, with or without 0x."""
    return bytes.fromhex(str(value).removeprefix("0x"))


def text(pattern: str, write: Callable[[Any], Any] = str, read: Callable[[Any], Any] = str) -> Wire:
    """A value that stands in JSON as text of this form."""
    return Wire({"type": "string", "pattern": pattern}, write, read)


def word(*words: str, read: Callable[[Any], Any] = str) -> Wire:
    """A value of an enumeration of words; those that there are, unless there may be others."""
    return Wire({"type": "string"} | ({"enum": list(words)} if words else {}), str, read)


def or_null(wire: Wire) -> Wire:
    """A value that stands in JSON as `wire` says; objects that are made as dicts may have null instead."""

    def reader(value: Any) -> Any:
        return None if value is None else wire.read(value)

    return Wire({"anyOf": [wire.schema, {"type": "null"}]}, wire.write, reader)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


DECIMAL = text(r"^[0-9]+$", read=natural)
HASH = text(r"^0x[0-9a-f]{64}$", _hex, unhex)
DATA = text(r"^0x[0-9a-f]*$", _hex, unhex)
BOOLEAN = Wire({"type": "boolean"}, bool, bool)
INTEGER = Wire({"type": "integer"}, int, number)
NATURAL = Wire({"type": "integer", "minimum": 0}, int, natural)

#: Of a member that is left out where it is None.
OPTIONAL: Final = "optional"

Wei = Annotated[int, DECIMAL]
Rate = Annotated[int, DECIMAL]  # in WAD: 10¹⁸ is 1
Count = Annotated[int, DECIMAL]  # of the contract, as wide as it likes
Block = Annotated[int, NATURAL]
Size = Annotated[int, NATURAL]
Name = Annotated[str, text(r"^[0-9a-f]{64}$")]
Root = Annotated[bytes, text(r"^[0-9a-f]{64}$", bytes.hex, unhex)]
Hash = Annotated[bytes, HASH]
Data = Annotated[bytes, DATA]
Address = Annotated[str, text(r"^0x[0-9a-fA-F]{40}$")]


class Object:
    """What all JSON objects do. A class with a `schema` says in its first member what it is."""

    __slots__ = ()
    SCHEMA: ClassVar[str | None] = None

    def __init_subclass__(cls, schema: str | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if schema is not None:  # slots make the class a second time, without it
            cls.SCHEMA = schema

    def to_json(self) -> dict[str, Any]:
        """The object, its members in their order."""
        kind: Any = type(self)
        members = {name: write(getattr(self, name)) for name, write in _writers(kind)}
        members = {n: value for n, value in members.items() if value is not None or n not in _optional(kind)}
        return members if self.SCHEMA is None else {"schema": self.SCHEMA, **members}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        from eigentensor.described import describe  # who only reads and writes objects does not wait for it

        schema: dict[str, Any] = handler(core)
        members = handler.resolve_ref_schema(schema)
        if cls.SCHEMA is not None:
            first = {"const": cls.SCHEMA, "description": "Says what this object is.", "type": "string"}
            members["properties"] = {"schema": first, **members["properties"]}
        kind: Any = cls
        optional = _optional(kind)
        for name, member in members["properties"].items():
            member.pop("default", None)
            if name in optional:  # left out, and never null
                member |= member.pop("anyOf")[0]
        for base in cls.__mro__:
            describe(members, base)
        members["required"] = [name for name in members["properties"] if name not in optional]
        return schema


def read(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a dataclass by their names. Raises ValueError, TypeError or KeyError for what is none of them."""
    absent = {name for name in _optional(kind) if name not in values}
    return {name: None if name in absent else reader(values[name]) for name, reader in _readers(kind)}


@cache
def _writers(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((name, _writer(hint)) for name, hint in hints(kind).items())


@cache
def _readers(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((name, _reader(hint)) for name, hint in hints(kind).items())


@cache
def _optional(kind: Any) -> frozenset[str]:
    return frozenset(name for name, hint in hints(kind).items() if OPTIONAL in getattr(hint, "__metadata__", ()))


@cache
def hints(kind: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields, with what they say of JSON."""
    types = get_type_hints(kind, include_extras=True)
    return {field.name: types[field.name] for field in fields(kind)}


def _writer(hint: Any) -> Callable[[Any], Any]:
    if (wire := _wire(hint)) is not None:
        return wire.write
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if type(None) in get_args(hint):
        present = _writer(kinds[0])
        return lambda value: None if value is None else present(value)
    if get_origin(hint) in (tuple, list, Sequence):
        one = _writer(kinds[0])
        return lambda values: [one(value) for value in values]
    if get_origin(hint) in (dict, Mapping):
        each = _writer(kinds[1])
        return lambda values: {name: each(value) for name, value in values.items()}
    return Object.to_json if isinstance(hint, type) and issubclass(hint, Object) else _same


def _reader(hint: Any) -> Callable[[Any], Any]:
    if (wire := _wire(hint)) is not None:
        return wire.read
    if type(None) in get_args(hint):
        present = _reader(get_args(hint)[0])
        return lambda value: None if value is None else present(value)
    if get_origin(hint) is tuple:
        one = _reader(get_args(hint)[0])
        return lambda values: tuple(one(value) for value in _items(values))
    if isinstance(hint, type) and issubclass(hint, Object):
        return lambda values: hint(**read(hint, values))
    return number if _plain(hint) is int else _same


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r} is not a list")
    return value


def _wire(hint: Any) -> Wire | None:
    return next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Wire)), None)


def _plain(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _same(value: Any) -> Any:
    return value
