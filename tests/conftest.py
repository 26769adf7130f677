"""What holds for every test."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from xdist.scheduler import LoadFileScheduling


class Together(LoadFileScheduling):
    """Distributes files over workers, and tests of the local network to one of them: it is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/e2e" if nodeid.startswith("tests/e2e/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


@pytest.fixture(autouse=True)
def _logs_go_nowhere_that_is_closed() -> Iterator[None]:
    """A command that a test runs in its own process sends logs to that test's stderr: not those of the next one."""
    yield
    structlog.reset_defaults()
