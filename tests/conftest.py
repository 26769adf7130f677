"""What holds for every test."""

import gc
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
from httpx._transports import default
from hypothesis import settings
from starlette.responses import JSONResponse
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from eigentensor.chain.keys import limit_recursion
from eigentensor_client import cli
from eigentensor_client.screen import Screen
from eigentensor_operator import options
from support.screens.commands import on_path
from support.screens.objects import hold


class Together(LoadFileScheduling):  # type: ignore[misc]
    """Distributes files over workers, and tests of the local network to one of them: it is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/e2e" if nodeid.startswith("tests/e2e/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


def pytest_configure() -> None:
    """The command is on the path. A loaded machine may answer late: how soon is no test's matter."""
    on_path()
    settings.register_profile("project", deadline=None, max_examples=50)
    settings.register_profile("long", deadline=None, max_examples=1000)
    settings.load_profile("project")
    default.create_ssl_context = cache(default.create_ssl_context)  # type: ignore[attr-defined]  # takes 20 ms
    patience = inspect.signature(httpx.get).parameters["timeout"].default  # the one that clients have, too
    patience.connect = patience.read = patience.write = patience.pool = 60.0


def pytest_collection_finish() -> None:
    """What was collected stays to the end: nobody looks through it for garbage again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _recursion_is_limited() -> None:
    """As where keys are opened: test modules import eth_account, which allows more levels than a stack has."""
    limit_recursion()


@pytest.fixture(autouse=True)
def _logs_go_nowhere_that_is_closed() -> Iterator[None]:
    """A command that a test runs in its own process sends logs to that test's stderr: not those of the next one."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session", autouse=True)
def _answers_are_what_they_say_they_are() -> Iterator[None]:
    """Every JSON answer of a service in this process, all that its verbs would print, errors and parts included."""
    render, result = JSONResponse.render, Screen.result

    def answered(response: JSONResponse, content: Any) -> bytes:
        hold(content)
        return render(response, content)

    @wraps(result)
    def printed(screen: Screen, schema: str, fields: Mapping[str, Any], *lines: Any) -> None:
        dumped({"schema": schema, **fields})
        result(screen, schema, fields, *lines)

    def dumped(value: Any) -> str:
        text = json.dumps(value)
        hold(json.loads(text))
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONResponse, "render", answered)
        patch.setattr(Screen, "result", printed)
        for module in (cli, options):  # their own print
            patch.setattr(module, "json", SimpleNamespace(dumps=dumped))
        yield
