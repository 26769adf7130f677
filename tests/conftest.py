"""What holds for every test."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_go_nowhere_that_is_closed() -> Iterator[None]:
    """A command that a test runs in its own process sends logs to that test's stderr: not those of the next one."""
    yield
    structlog.reset_defaults()
