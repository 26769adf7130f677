"""Values inside tuples, lists, dicts and dataclasses ↔ leaves by name, and the structure without them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tinygrad import UOp
from tinygrad.dtype import DType

from eigentensor.errors import BindingError


@dataclass(frozen=True, slots=True)
class Leaf:
    """Stands in a structure where a leaf of this name was."""

    name: str


def path(name: str, key: Any) -> str:
    """What an item of a structure of this name is called."""
    return f"{name}.{key}"


def take_apart(
    value: Any, name: str, is_leaf: Callable[[Any], bool], join: Callable[[str, Any], str] = path
) -> tuple[Any, dict[str, Any]]:
    """A structure with a `Leaf` in place of each leaf, and the leaves by name; what else is in it stays.

    A leaf alone has the name that is given; those in a structure have what `join` makes of its name and their key.
    Raises BindingError for two leaves of one name, and for a structure that contains itself.
    """
    leaves: dict[str, Any] = {}

    def part(value: Any, name: str) -> Any:
        if is_leaf(value):
            if name in leaves:
                raise BindingError(f"two tensors would have the name {name!r}", fix="Give one of them another key.")
            leaves[name] = value
            return Leaf(name)
        return _rebuilt(value, lambda key, item: part(item, join(name, key)))

    try:
        return part(value, name), leaves
    except RecursionError:
        raise BindingError(f"{name!r} contains itself, or is nested too deeply", fix="Give a flat structure.") from None


def put_together(structure: Any, leaves: Mapping[str, Any]) -> Any:
    """What `take_apart` took apart, with these leaves."""
    if isinstance(structure, Leaf):
        return leaves[structure.name]
    return _rebuilt(structure, lambda _, item: put_together(item, leaves))


def rest_of(structure: Any) -> Any:
    """What is in a structure beside its leaves and containers, with its place: a value that can be compared."""
    if isinstance(structure, dict):
        return (dict, *((key, rest_of(item)) for key, item in structure.items()))
    if isinstance(structure, list | tuple):
        return (type(structure), *map(rest_of, structure))
    if is_record(structure):
        return (type(structure), *((name, rest_of(item)) for name, item in items_of(structure).items()))
    # Of floats the bits: 0.0 and -0.0 are equal, and no NaN is.
    return type(structure), structure.hex() if isinstance(structure, float) else structure


def is_record(value: Any) -> bool:
    """Whether a value is a dataclass's, whose fields are looked into."""
    return is_dataclass(value) and not isinstance(value, type | Leaf | DType | UOp)


def items_of(value: Any) -> dict[str, Any]:
    """The fields of a named tuple or a dataclass."""
    if hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    return {field.name: getattr(value, field.name) for field in fields(value) if hasattr(value, field.name)}


def made_of(kind: Any, items: Mapping[str, Any]) -> Any:
    """A named tuple or a dataclass with these fields; what made the first one has run and does not again."""
    if hasattr(kind, "_fields"):
        return kind(**items)
    made = object.__new__(kind)
    for name, item in items.items():
        object.__setattr__(made, name, item)
    return made


def leaves_in(structure: Any) -> list[str]:
    """The names of the leaves that were taken out of a structure."""
    names: list[str] = []

    def look(value: Any) -> bool:
        if isinstance(value, Leaf):
            names.append(value.name)
        return False

    take_apart(structure, "", look)
    return names


def _rebuilt(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The same container with its items changed, by their keys; anything else is itself."""
    if isinstance(value, dict):
        return {key: change(key, item) for key, item in value.items()}
    if is_record(value) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return made_of(type(value), {name: change(name, item) for name, item in items_of(value).items()})
    if isinstance(value, list | tuple):
        return type(value)(change(i, item) for i, item in enumerate(value))
    return value
