"""The shortest way to run a program here, and to fetch one: a few lines each over `runtime`, `capture` and `store`."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eigentensor.capture import GraphProgram
from eigentensor.chain.network import Network
from eigentensor.errors import BlobNotFound, ConfigError
from eigentensor.runtime import CompiledGraph
from eigentensor.store.gateway import GatewayClient
from eigentensor.store.local import LocalStore
from eigentensor.store.tensors import load_safetensors

Values = np.ndarray[Any, Any]


def execute_graph_on_gpu(
    program: GraphProgram,
    inputs: Mapping[str, ArrayLike],
    weights: Mapping[str, ArrayLike] | None = None,
    *,
    variables: Mapping[str, int] | None = None,
    device: str | None = None,
) -> Values | dict[str, Values]:
    """Executes a program on a local device, by default CPU or what stands in for it where clang is missing, again and
    again: it is compiled at its first use.

    `inputs` are arrays or tinygrad tensors by name; states, if there are any, are given with them. `weights` default to
    those that the program was captured with. Returns the output if it is the only one, else the outputs by name.
    Raises BindingError for wrong names, shapes, dtypes and missing tensors, and says what was expected.
    """
    tensors = {**program.weights, **program.states, **(weights or {}), **inputs}
    results = _executable(program.to_bytes(), device).run({n: _array(t) for n, t in tensors.items()}, variables)
    outputs = {name: values for name, values in results.outputs.items() if name != "fingerprint"}
    return outputs["output"] if outputs.keys() == {"output"} else outputs


def fetch_safetensors_by_uuid(uuid: str, url: str | None = None) -> dict[str, Values]:
    """The tensors of a safetensors blob, by its blob root or its bindings root; bfloat16 as uint16 patterns.

    From the local store, else from the gateway at `url`, by default the network's. Raises BlobNotFound, also where
    there is no network, BlobCorrupt, and GatewayError where the gateway does not answer.
    """
    return load_safetensors(_fetch(uuid, url))


def fetch_exported_task_by_uuid(uuid: str, url: str | None = None) -> GraphProgram:
    """The program of this uuid (its root), checked. Sources and errors as `fetch_safetensors_by_uuid`; RuleError."""
    return GraphProgram.from_bytes(_fetch(uuid, url).read_bytes())


@lru_cache(maxsize=8)
def _executable(encoded: bytes, device: str | None) -> CompiledGraph:
    return CompiledGraph(GraphProgram.from_bytes(encoded).program, device=device)


def _array(tensor: Any) -> ArrayLike:
    """A tinygrad tensor as an array in its storage dtype; anything else as it is."""
    if not hasattr(tensor, "uop"):
        return tensor  # type: ignore[no-any-return]
    from tinygrad import dtypes

    is_bfloat16 = tensor.dtype == dtypes.bfloat16
    values: Values = (tensor.bitcast(dtypes.uint16) if is_bfloat16 else tensor).numpy()
    return values


def _fetch(uuid: str, url: str | None) -> Path:
    store = LocalStore()
    if uuid in store:
        return store.path(uuid)
    url = url or os.environ.get("EIGENTENSOR_GATEWAY_URL")
    try:
        url = url or Network.load().gateway_url
    except ConfigError as error:
        raise BlobNotFound(
            f"no blob {uuid} in {store.root}, nor a gateway to ask: {error}", fix=error.fix, topic=error.topic
        ) from error
    with GatewayClient(url, store) as gateway:
        return gateway.fetch(uuid)
