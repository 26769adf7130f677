"""Graph files: the graph as JSON in NAME.graph, its weights and first states in NAME.safetensors beside it."""

from pathlib import Path

from eigentensor.errors import GraphFileError
from eigentensor.graph.codec import BYTES, decode, encode
from eigentensor.graph.node import Form, Graph, walk
from eigentensor.store.tensors import load_safetensors, save_safetensors


def save_graph(path: Path, graph: Graph) -> None:
    """Writes the graph, and beside it the data that it needs. Each file is whole or not there."""
    named = {n.arg: n.dtype for n in walk(*graph.roots) if n.op in (Form.WEIGHT, Form.STATE) and n.arg in graph.data}
    if named:
        temporary = _beside(path).with_suffix(".part")
        save_safetensors(temporary, {name: graph.data[name] for name in named}, named)
        temporary.replace(_beside(path))
    temporary = path.with_suffix(".part")
    temporary.write_bytes(encode(graph))
    temporary.replace(path)


def load_graph(path: Path) -> Graph:
    """The graph of a file with what is stored beside it. Raises GraphFileError, or TensorFileError."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES + 1)
    except OSError as error:
        raise GraphFileError(f"cannot read {path}: {error.strerror}", fix="Check the path.") from None
    if not text.lstrip().startswith(b"{"):  # refused before what lies beside it is read
        raise GraphFileError(f"{path.name} is no graph in JSON")
    return decode(text, load_safetensors(_beside(path)) if _beside(path).is_file() else {})


def _beside(path: Path) -> Path:
    return path.with_suffix(".safetensors")
