"""Requests made from an app's own OpenAPI document, to which every answer is held."""

from collections.abc import Mapping
from typing import Any

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.core.result import Err
from schemathesis.specs.openapi.checks import positive_data_acceptance

#: A document cannot say which uuids exist, nor which tensors fit a program.
UNSAYABLE: list[CheckFunction] = [positive_data_acceptance]


def conforms(app: FastAPI, examples: int, headers: Mapping[str, str]) -> int:
    """Sends so many valid and as many invalid requests to every operation; returns how many were answered.

    Raises what schemathesis finds: an answer that its operation does not have, a fault, an invalid request accepted.
    """
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    sent = 0
    for result in schema.get_all_operations():
        if isinstance(result, Err):
            raise result.err()
        operation = result.ok()
        takes_something = [*operation.iter_parameters(), *operation.body]
        for mode in GenerationMode if takes_something else (GenerationMode.POSITIVE,):

            @settings(
                max_examples=examples,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def hold(case: schemathesis.Case[Any]) -> None:
                nonlocal sent
                sent += 1
                case.call_and_validate(headers=dict(headers), excluded_checks=UNSAYABLE)

            hold()
    return sent
