"""GT's way of working: tensors that look computed at once, on this machine or a cluster, with the same bits everywhere.

`import eigentensor.gt as gt`, then what GT's documents say. What differs is in sdk/README.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.gt import client as client
    from eigentensor.gt import debug as debug
    from eigentensor.gt import nn as nn
    from eigentensor.gt import signal as signal
    from eigentensor.gt.config import (
        ShardConfig,
        SignalConfig,
        get_config,
        get_signal_config,
        load_config,
        register_config,
    )
    from eigentensor.gt.connection import close, connect, gpu_workers
    from eigentensor.gt.creation import arange, from_numpy, full, manual_seed, ones, rand, randn, tensor, zeros
    from eigentensor.gt.several import cat, maximum, minimum, stack, where
    from eigentensor.gt.tensors import Tensor, no_grad

float64, float32, float16, int64, int32 = "float64", "float32", "float16", "int64", "int32"
bool = "bool"  # noqa: A001 - GT's name

__all__ = [
    "ShardConfig", "SignalConfig", "Tensor", "arange", "cat", "close", "connect", "float16", "float32", "float64",
    "from_numpy", "full", "get_config", "get_signal_config", "gpu_workers", "int32", "int64", "load_config",
    "manual_seed", "maximum", "minimum", "no_grad", "ones", "rand", "randn", "register_config", "stack", "tensor",
    "where", "zeros",
]  # fmt: skip

_MODULES = ("client", "debug", "nn", "signal")
_load = loading(
    __name__,
    {
        "config": "ShardConfig SignalConfig get_config get_signal_config load_config register_config",
        "connection": "close connect gpu_workers",
        "creation": "arange from_numpy full manual_seed ones rand randn tensor zeros",
        "several": "cat maximum minimum stack where",
        "tensors": "Tensor no_grad",
    },
)


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.{name}") if name in _MODULES else _load(name)
