"""Blobs: bytes in transit, named by the root of their own tree.

It is also known by what it computes: a program's bytes by the program root, a safetensors file by its bindings root.
Every function takes any of these names, with or without `0x`, and whoever fetches verifies the one that it asked for.
"""

from eigentensor.store.gateway import GatewayClient
from eigentensor.store.local import LocalStore
from eigentensor.store.names import Kind, Names, describe, parse_name
from eigentensor.store.pieces import Pieces
from eigentensor.store.tensors import bindings_root, load_safetensors, save_safetensors

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
