"""Holds what is told in JSON to the type that its member `schema` names: nothing missing, nothing else."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_type_hints

import jsonschema_rs
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from eigentensor.wire import Object

MODULES = (
    *(f"eigentensor.schemas.{name}" for name in ("games", "network", "problems", "receipts")),
    *(f"eigentensor.chain.{name}" for name in ("descent", "transcript")),
    *(f"eigentensor.channel.{name}" for name in ("calls", "deals", "objects", "shown")),
    "eigentensor.economics.pricing",
    "eigentensor.planner.measure",
    "eigentensor.program.cost",
    *(f"eigentensor.receipt.{name}" for name in ("calls", "rules")),
    "eigentensor.runtime.doctor",
    "eigentensor.runtime.tuning.tuner",
    *(f"eigentensor.task.{name}" for name in ("objects", "order")),
    *(f"eigentensor_client.schemas.{name}" for name in ("channels", "examples", "networks", "programs", "results")),
    *(f"eigentensor_client.{name}" for name in ("history", "orders", "results")),
    "eigentensor.cluster.log",
    "eigentensor_economics.schemas",
    "eigentensor_local.contracts",
    "eigentensor_serve.openai.schemas",
    "eigentensor_serve.schemas",
    *(f"eigentensor_operator.{name}" for name in ("policy", "report", "schemas")),
    "eigentensor_aggregator.scrub",
    "eigentensor_aggregator.watch.watcher",
    "eigentensor_cluster.schemas",
)

#: Members that say what an object is: ours, and those of OpenAI's.
WORDS = {"schema", "object"}


def defined() -> dict[str, Any]:
    """Every type of a JSON object by its name."""
    kinds = [(module, kind) for module in MODULES for kind in vars(import_module(module)).values()]
    return {kind.__name__: kind for module, kind in kinds if _is_object(kind) and kind.__module__ == module}


def _is_object(kind: Any) -> bool:
    return is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, Object) and is_dataclass(kind))


def types() -> dict[str, Any]:
    """The type of each object by its word."""
    by_word: dict[str, Any] = {}
    for kind in defined().values():
        words = [get_args(hint)[0] for name, hint in get_type_hints(kind).items() if name in WORDS]
        for word in words or filter(None, [getattr(kind, "SCHEMA", None)]):
            assert word not in by_word or word == "list", f"{word} is defined twice"
            by_word[word] = by_word[word] | kind if word in by_word else kind
    return by_word


def strict(schema: Any) -> Any:
    """The same JSON Schema, in which objects have no other members than those it names."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {name: strict(value) for name, value in schema.items()} | closed


@cache
def validators() -> Mapping[str, Any]:
    return {word: validator(kind) for word, kind in types().items()}


def validator(kind: Any) -> Any:
    return jsonschema_rs.Draft202012Validator(strict(TypeAdapter(kind).json_schema()))


def hold(value: Any) -> None:
    """Raises AssertionError for an object that is not what it says it is, or says it is what no type defines. What
    does not say it is anything may be anything."""
    if isinstance(value, dict) and WORDS & value.keys():
        word = value.get("schema") or value["object"]
        assert word in validators(), f"no type defines {word}"
        wrong = wrong_in(validators()[word], value)
        assert not wrong, f"{word}: {'; '.join(wrong)[:2000]}"


def wrong_in(validator: Any, value: Any) -> list[str]:
    """What a validator finds, each with its place."""
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in validator.iter_errors(value)]
