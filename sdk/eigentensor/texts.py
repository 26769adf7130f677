"""The types of `wire` for objects that one function writes by hand, as dicts: their members are text already."""

from typing import Annotated, Any, TypeVar

from eigentensor import wire
from eigentensor.wire import Address, Block, Name, Size

__all__ = ["Address", "Block", "Count", "Data", "Hash", "Name", "Rate", "Size", "Wei", "documented"]

Wei = Annotated[str, wire.DECIMAL]
Rate = Annotated[str, wire.DECIMAL]
Count = Annotated[str, wire.DECIMAL]
Hash = Annotated[str, wire.HASH]
Data = Annotated[str, wire.DATA]
Kind = TypeVar("Kind", bound=type[Any])


def documented(kind: Kind) -> Kind:
    """A class whose members are described by the text below them."""

    def described(core: Any, handler: Any) -> dict[str, Any]:
        from eigentensor.described import describe

        schema: dict[str, Any] = handler(core)
        describe(handler.resolve_ref_schema(schema), kind)
        return schema

    kind.__get_pydantic_json_schema__ = described
    return kind
