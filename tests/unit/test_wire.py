"""JSON objects from dataclasses: written, read and described by the types of their fields."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from pydantic import TypeAdapter

from eigentensor.wire import Count, Hash, Object, Wei, read


@dataclass(frozen=True, slots=True)
class Inner(Object):
    """A part."""

    hash: Hash
    """Some bytes."""


@dataclass(frozen=True, slots=True)
class Outer(Object, schema="eigentensor.outer/1"):
    """`eigentensor.outer/1`: a whole."""

    amount: Wei | None
    """In wei."""
    parts: tuple[Inner, ...]
    """What it has."""
    counts: dict[str, Count]
    """How many."""
    name: str = "x"
    """What it is called."""


def test_an_object_is_written_member_by_member() -> None:
    whole = Outer(1 << 70, (Inner(b"\1" * 32),), {"a": 3})
    assert whole.to_json() == {
        "schema": "eigentensor.outer/1",
        "amount": str(1 << 70),
        "parts": [{"hash": "0x" + "01" * 32}],
        "counts": {"a": "3"},
        "name": "x",
    }
    assert Outer(None, (), {}).to_json()["amount"] is None


def test_members_are_read_as_they_were_written() -> None:
    inner = Inner(b"\2" * 32)
    assert Inner(**read(Inner, inner.to_json())) == inner
    with pytest.raises(ValueError, match="non-hexadecimal"):
        read(Inner, {"hash": "0xgg"})


def test_every_member_is_required_and_described() -> None:
    schema = TypeAdapter(Outer).json_schema()
    assert schema["required"] == list(schema["properties"]) == ["schema", "amount", "parts", "counts", "name"]
    assert schema["properties"]["schema"]["const"] == "eigentensor.outer/1"
    assert schema["properties"]["name"] == {"description": "What it is called.", "title": "Name", "type": "string"}
    assert schema["$defs"]["Inner"]["properties"]["hash"]["pattern"] == "^0x[0-9a-f]{64}$"


def test_types_are_imported_without_pydantic() -> None:
    code = "import sys, eigentensor.wire, eigentensor.texts; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
