"""Blobs: bytes in transit, named by the root of their own tree.

It is also known by what it computes: a program's bytes by the program root, a safetensors file by its bindings root.
Every function takes any of these names, with or without `0x`, and whoever fetches verifies the one that it asked for.
"""

from typing import TYPE_CHECKING, Any

from eigentensor.store.local import LocalStore
from eigentensor.store.names import Kind, Names, describe, parse_name
from eigentensor.store.pieces import Pieces
from eigentensor.store.tensors import bindings_root, load_safetensors, save_safetensors

if TYPE_CHECKING:
    from eigentensor.store.gateway import GatewayClient

__all__ = [
    "GatewayClient",
    "Kind",
    "LocalStore",
    "Names",
    "Pieces",
    "bindings_root",
    "describe",
    "load_safetensors",
    "parse_name",
    "save_safetensors",
]


def __getattr__(name: str) -> Any:
    """The gateway's client brings HTTP with it: who only reads files does not wait for that."""
    if name != "GatewayClient":
        raise AttributeError(f"module 'eigentensor.store' has no attribute {name!r}")
    from eigentensor.store.gateway import GatewayClient

    return GatewayClient
