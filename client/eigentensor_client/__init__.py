"""The client of EigenTensor: plan, post, wait, fetch, verify. The command line is `eigentensor_client.cli`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigentensor_client.async_client import AsyncClient as AsyncClient
    from eigentensor_client.client import Client as Client
    from eigentensor_client.results import Plan as Plan
    from eigentensor_client.results import TaskResult as TaskResult

_HOMES = {
    "AsyncClient": "eigentensor_client.async_client",
    "Client": "eigentensor_client.client",
    "Plan": "eigentensor_client.results",
    "TaskResult": "eigentensor_client.results",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigentensor_client' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
