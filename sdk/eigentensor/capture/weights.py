"""Weights from files of others: safetensors and GGUF. Both are data, and neither can execute anything."""

from pathlib import Path

import numpy as np
from tinygrad import Context, Tensor, dtypes
from tinygrad.llm.gguf import gguf_load

from eigentensor.capture import adapter
from eigentensor.errors import CaptureError, TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor.store.headers import read_header
from eigentensor.store.tensors import load_safetensors


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` or `.gguf` file by name; quantised ones of GGUF as float32 or float16.

    Raises TensorFileError for a file that is malformed, of another kind, or a part of one.
    """
    path = Path(path)
    if not path.is_file():
        raise TensorFileError(f"cannot read {path}", fix="Check the path.")
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if path.suffix == ".gguf":
        return _gguf(path)
    raise TensorFileError(f"{path.name} is neither .safetensors nor .gguf", fix="Convert it to safetensors.")


def _safetensors(path: Path) -> dict[str, Tensor]:
    arrays = load_safetensors(path)
    tensors = {name: Tensor(array.copy(), device=adapter.DEVICE) for name, array in arrays.items()}
    halves = {name for name, entry in read_header(path).items() if entry.dtype is DType.BFLOAT16}
    return {name: t.bitcast(dtypes.bfloat16) if name in halves else t for name, t in tensors.items()}


def _gguf(path: Path) -> dict[str, Tensor]:
    try:
        with Context(DEV=adapter.DEVICE):
            # As bytes, not by its path: then no other file is opened, whatever this one says.
            _, tensors = gguf_load(Tensor(np.fromfile(path, np.uint8)))
    except CaptureError:
        raise
    except Exception as error:
        message = str(error).partition("\n")[0][:200]
        raise TensorFileError(
            f"{path.name} is not a GGUF file that can be read: {message}", fix="Fetch it again."
        ) from None
    return dict(tensors)
