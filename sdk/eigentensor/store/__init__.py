"""Blobs: bytes in transit, named by the root of their own tree.

It is also known by what it computes: a program's bytes by the program root, a safetensors file by its bindings root.
Every function takes any of these names, with or without `0x`, and whoever fetches verifies the one that it asked for.

Each name is loaded when it is used: who only reads files does not wait for HTTP, nor who asks a gateway for what takes
its blobs apart.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.store.describing import describe
    from eigentensor.store.gateway import GatewayClient
    from eigentensor.store.local import LocalStore
    from eigentensor.store.names import Kind, Names, parse_name
    from eigentensor.store.pieces import Pieces
    from eigentensor.store.queries import Queries
    from eigentensor.store.tensors import bindings_root, load_safetensors, save_safetensors

__all__ = [
    "GatewayClient", "Kind", "LocalStore", "Names", "Pieces", "Queries", "bindings_root", "describe",
    "load_safetensors", "parse_name", "save_safetensors",
]  # fmt: skip

__getattr__ = loading(
    __name__,
    {
        "describing": "describe",
        "gateway": "GatewayClient",
        "local": "LocalStore",
        "names": "Kind Names parse_name",
        "pieces": "Pieces",
        "queries": "Queries",
        "tensors": "bindings_root load_safetensors save_safetensors",
    },
)
