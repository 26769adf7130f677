"""Programs as JSON: nothing is lost, nothing else is taken, and what is refused has the rule's name."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.errors import ProgramError
from eigentensor.program import decode, encode, from_json, limits, to_json
from eigentensor.program.validity import sentences
from eigentensor.program.written import BYTES
from support.generated.programs import Example, examples
from support.programs.worked_examples import layer, session

FEW = settings(max_examples=40)
Change = Callable[[dict[str, Any]], object]
ODD: list[object] = [
    None, True, -1, 0, 1.0, 1 << 16, 1 << 40, 1 << 300, "", "x", "\ud800", [], {}, [0], "ADD", "float32",
]  # fmt: skip


@FEW
@given(examples())
def test_a_program_comes_back_from_its_text(example: Example) -> None:
    text = to_json(example.program)
    assert from_json(text) == example.program
    assert encode(from_json(text.encode())) == encode(example.program)
    assert to_json(from_json(json.dumps(json.loads(text), indent=2))) == text


@settings(max_examples=150)
@given(st.data())
def test_a_changed_text_is_refused_by_name_or_another_program(data: st.DataObject) -> None:
    fields = json.loads(to_json(data.draw(st.sampled_from([layer().program, session().program]))))
    holder, key = data.draw(st.sampled_from(list(_places(fields))))
    if data.draw(st.booleans()):
        holder[key] = data.draw(st.sampled_from(ODD))
    else:
        del holder[key]
    try:
        program = from_json(json.dumps(fields))
    except ProgramError as refusal:
        assert refusal.rule in sentences()
    else:
        assert decode(encode(program)) == program


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("header", lambda f: f.pop("eigentensor.program")),
        ("header", lambda f: f.update({"eigentensor.program": 2})),
        ("length", lambda f: f.update(extra=1)),
        ("length", lambda f: f["calls"][0].update(body=True)),
        ("length", lambda f: f["bodies"][0]["instructions"][0].append(0)),
        ("codes", lambda f: f["buffers"][0].update(dtype="float64")),
        ("codes", lambda f: f["buffers"][0].update(dtype="FLOAT32")),
        ("codes", lambda f: f["bodies"][0]["instructions"][0].__setitem__(0, "EXP")),
        ("codes", lambda f: f["calls"][0].update(body=9)),
        ("limits", lambda f: f["buffers"][0].update(shape=[1 << 32])),
        ("limits", lambda f: f["buffers"][0].update(shape=[0, (1 << 32) - 1, (1 << 32) - 1])),
        ("names", lambda f: f["buffers"][0].update(name="a/b")),
        ("names", lambda f: f["buffers"][0].update(name="\ud800")),
        ("results", lambda f: f["results"].clear()),
    ],
)
def test_each_refusal_has_its_rule(rule: str, change: Change) -> None:
    fields = json.loads(to_json(layer().program))
    change(fields)
    with pytest.raises(ProgramError) as refusal:
        from_json(json.dumps(fields))
    assert refusal.value.rule == rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("header", ""), ("header", "[" * 100_000), ("header", "null"), ("header", "1" * 5_000),
        ("header", '{"max_repeat":1,"max_repeat":1}'), ("header", "NaN"),
        ("limits", " " * (BYTES + 1)), ("limits", "[" + "[]," * limits.PROGRAM_BYTES),
    ],
    ids=["nothing", "deep", "null", "a long number", "twice", "NaN", "too long", "too many"],
)  # fmt: skip
def test_what_is_no_program_is_refused(rule: str, text: str) -> None:
    with pytest.raises(ProgramError) as refusal:
        from_json(text)
    assert refusal.value.rule == rule


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as what holds it and the key or number there."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
