"""What the documents say of objects: every member described, every example true, no type told by two words."""

from importlib import import_module
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from eigentensor.web.documents import examples
from eigentensor.web.problems import said
from eigentensor.web.refusals import RESPONSES
from told_objects import MODULES, hold, types, validator, wrong_in

TYPES = {name: kind for module in MODULES for name, kind in vars(import_module(module)).items() if is_typeddict(kind)}
EXAMPLES = examples("eigentensor.schemas") | examples("eigentensor_client.serving")


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_and_every_member_is_described(name: str) -> None:
    schema = TypeAdapter(TYPES[name]).json_schema()
    jsonschema_rs.meta.validate(schema)
    silent = [name for name, member in schema["properties"].items() if not {"description", "$ref"} & member.keys()]
    assert schema.get("description") or name == "ReceiptTransaction"
    assert not silent or name == "Event"  # its members are those of TaskEvent


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_what_its_type_says(name: str) -> None:
    assert wrong_in(validator(TYPES[name]), EXAMPLES[name]) == []


def test_examples_of_refusals_are_problems() -> None:
    for status, (_, response) in RESPONSES.items():
        (media,) = response["content"].values()
        assert media["example"]["status"] == status
        assert wrong_in(validator(TYPES["Problem"]), media["example"]) == []


def test_an_object_with_a_member_too_many_or_too_few_is_found() -> None:
    whole: dict[str, Any] = EXAMPLES["Task"]
    hold(whole)
    for wrong in (whole | {"extra": 1}, {n: v for n, v in whole.items() if n != "stake"}, whole | {"price": 3}):
        with pytest.raises(AssertionError, match=r"eigentensor\.task/1"):
            hold(wrong)
    assert wrong_in(validator(TYPES["Problem"]), said(404, "TaskNotFound", "there is none")) == []


def test_every_word_has_one_type() -> None:
    assert types()["eigentensor.task/1"] is TYPES["Task"]
