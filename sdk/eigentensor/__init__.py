"""Run a tinygrad computation on somebody else's GPU, pay for it, and be sure of the result.

capture a program → execute it here, or post it as a paid task → fetch the result by its root, verified.

The names below load what they need when they are first used: importing this package imports neither tinygrad nor web3.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigentensor.capture import GraphProgram as GraphProgram
    from eigentensor.capture import TensorContext as TensorContext
    from eigentensor.graph import GraphBuilder as GraphBuilder
    from eigentensor.shortcuts import execute_graph_on_gpu as execute_graph_on_gpu
    from eigentensor.shortcuts import fetch_exported_task_by_uuid as fetch_exported_task_by_uuid
    from eigentensor.shortcuts import fetch_safetensors_by_uuid as fetch_safetensors_by_uuid
    from eigentensor_client.function import channels as channels
    from eigentensor_client.function import function as function

_HOMES = {
    "GraphBuilder": "eigentensor.graph",
    "GraphProgram": "eigentensor.capture",
    "TensorContext": "eigentensor.capture",
    "execute_graph_on_gpu": "eigentensor.shortcuts",
    "fetch_exported_task_by_uuid": "eigentensor.shortcuts",
    "fetch_safetensors_by_uuid": "eigentensor.shortcuts",
    "channels": "eigentensor_client.function",  # by name: the library needs no client
    "function": "eigentensor_client.function",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigentensor' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
