"""What the documents say of objects: every member described, every example true, no type told by two words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter
from typing_extensions import get_original_bases

import eigentensor
import eigentensor_aggregator
import eigentensor_client
import eigentensor_cluster
import eigentensor_economics
import eigentensor_local
import eigentensor_models
import eigentensor_operator
import eigentensor_serve
from eigentensor.errors import EigenTensorError
from eigentensor.web.documents import examples
from eigentensor.web.problems import members
from eigentensor.web.refusals import RESPONSES
from eigentensor_client.cli import report
from support.screens.errors import HERE
from support.screens.objects import defined, hold, types, validator, wrong_in
from support.screens.screens import FOLDER, SCREENS

TYPES = defined()
PARTS = (
    eigentensor, eigentensor_aggregator, eigentensor_client, eigentensor_cluster, eigentensor_economics,
    eigentensor_local, eigentensor_models, eigentensor_operator, eigentensor_serve,
)  # fmt: skip
#: Of files that are read and written, and never told.
FILES = {"eigentensor.byte-pairs/1", "eigentensor.model/1", "eigentensor.text/1", "eigentensor.tokens/1"}
EXAMPLES = examples("eigentensor.schemas") | examples("eigentensor_serve")


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_and_every_member_is_described(name: str) -> None:
    extended = {member for base in get_original_bases(TYPES[name]) for member in getattr(base, "__annotations__", ())}
    schema = TypeAdapter(TYPES[name]).json_schema()
    jsonschema_rs.meta.validate(schema)
    silent = {name for name, member in schema["properties"].items() if not {"description", "$ref"} & member.keys()}
    assert schema.get("description") or name == "ReceiptTransaction"
    assert silent <= extended, "only the type that it extends may describe them"


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
    assert wrong_in(validator(TYPES["Problem"]), members(404, "TaskNotFound", "there is none")) == []


def test_every_word_has_one_type() -> None:
    assert types()["eigentensor.task/1"] is TYPES["Task"]


def test_every_word_in_the_sources_has_a_type_or_is_that_of_a_file() -> None:
    """And no type defines what nobody tells."""
    sources = [path for part in PARTS for path in Path(part.__path__[0]).rglob("*.py")]
    words = {word for path in sources for word in re.findall(r"eigentensor\.[a-z-]+/\d+", path.read_text())}
    assert words == {word for word in types() if word.startswith("eigentensor.")} | FILES


def test_a_word_that_no_type_defines_is_found() -> None:
    with pytest.raises(AssertionError, match=r"no type defines eigentensor\.nothing/1"):
        hold({"schema": "eigentensor.nothing/1"})


@pytest.mark.parametrize("name", SCREENS)
def test_what_a_screen_tells_programs_is_what_its_type_says(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text().partition("── --json\n")[2]
    reports = list(objects(text))
    assert reports
    for one in reports:
        assert one["schema"].startswith("eigentensor.")
        hold(one)


@pytest.mark.parametrize("kind", HERE, ids=lambda kind: kind.__name__)
def test_an_error_tells_programs_what_its_type_says(
    kind: type[EigenTensorError], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind) as raised:
        HERE[kind]()
    report(raised.value, as_json=True)
    error = json.loads(capsys.readouterr().out)
    assert (error["schema"], error["error"]) == ("eigentensor.error/1", kind.__name__)
    hold(error)


def objects(text: str) -> Iterator[Any]:
    """JSON objects that follow each other."""
    place = 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        one, place = json.JSONDecoder().raw_decode(text, place)
        yield one
