"""A graph written down tensor by tensor: inputs, weights, states and variables by name, then what is wanted of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, leaf, variable
from eigentensor.graph.simplify import simplified
from eigentensor.graph.tensor import Tensor
from eigentensor.graph.types import dtype_of, refused, stored
from eigentensor.graph.types import name as name_of
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.shards import Shards
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Variable

Outputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


class GraphBuilder:
    """Collects the named parts of a graph; tensors made of them work like NumPy's arrays.

    It can be compiled again and again, to different outputs. Raises CaptureError, with the line, for mistakes.
    """

    def __init__(self) -> None:
        self._leaves: dict[str, Tensor] = {}
        self._data: dict[str, NDArray[Any]] = {}
        self._states: dict[str, Tensor] = {}
        self._variables: set[str] = set()

    def input(self, name: str, shape: int | Sequence[int], dtype: Any = DType.FLOAT32) -> Tensor:
        """A tensor that each order brings along."""
        return self._leaf(Form.INPUT, name, dtype_of(dtype), (shape,) if isinstance(shape, int) else tuple(shape))

    def weight(self, name: str, values: ArrayLike, dtype: Any = None) -> Tensor:
        """A tensor with data: in the program a name, a shape and a type. bfloat16 is given as its bits, uint16."""
        return self._with_data(Form.WEIGHT, name, values, dtype)

    def state(self, name: str, initial: ArrayLike, dtype: Any = None) -> Tensor:
        """A tensor that goes in and comes out, as it is at first: what `assign` gives it is its next value."""
        return self._with_data(Form.STATE, name, initial, dtype)

    def variable(self, name: str, minimum: int, maximum: int, stride: int = 0) -> Tensor:
        """An int32 that the order binds, of shape (); grows by `stride` in each iteration."""
        if name in self._variables:
            raise refused(f"there are two variables named {name!r}", "Give each its own name.")
        self._variables.add(name)
        return Tensor(variable(Variable(name, minimum, maximum, stride)))

    def assign(self, name: str, value: Tensor) -> None:
        """Makes `value` the next value of a state."""
        state = self._leaves.get(name)
        if state is None or state.node.op is not Form.STATE:
            raise refused(f"there is no state {name!r}", f"States are {sorted(self._states) or 'none'}.")
        if (value.shape, value.dtype) != (state.shape, state.dtype):
            raise refused(f"the state {name!r} is {state!r}, its next value {value!r}", "Cast or reshape it.")
        self._states[name] = value

    def graph(self, *outputs: Outputs) -> Graph:
        """The graph of these outputs, simplified: one is named "output", several "output_0", …; a mapping names them.

        States that were not assigned stay as they are; inputs, weights and variables that nothing needs are left out.
        """
        states = {n: self._states.get(n, t).node for n, t in self._leaves.items() if t.node.op is Form.STATE}
        named = {n: t.node for n, t in _named(outputs).items()}
        return simplified(Graph(named, states, dict(self._data)))

    def compile(self, *outputs: Outputs, fingerprint: bool = True, shards: Shards = 1) -> GraphProgram:
        """The program of these outputs and the next values of all states.

        Small results get an output `fingerprint` beside them, a checksum of large intermediates, unless it is False.
        Reductions over axes that `shards` name are cut by shards, as `capture` does it.
        """
        return lower(self.graph(*outputs), fingerprint=fingerprint, shards=shards)

    def _with_data(self, form: Form, name: str, values: ArrayLike, dtype: Any) -> Tensor:
        array = np.asarray(values)
        if dtype is not None and dtype_of(dtype) is not DType.BFLOAT16:
            array = array.astype(STORAGE[dtype_of(dtype)])
        elif not isinstance(values, np.ndarray | np.generic) and array.dtype in (np.float64, np.int64):
            array = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
        kind = dtype_of(array.dtype if dtype is None else dtype)
        if array.dtype != STORAGE[kind]:
            raise refused(f"{name!r} is {array.dtype}, not {name_of(kind)}", "Give bfloat16 as its bits, uint16.")
        tensor = self._leaf(form, name, kind, array.shape)
        self._data[name] = stored(array)
        return tensor

    def _leaf(self, form: Form, name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        if name in self._leaves:
            raise refused(f"there are two tensors named {name!r}", "Give each its own name.")
        if any(extent < 0 for extent in shape):
            raise refused(f"{name!r} of shape {shape}", "Extents are not negative.")
        tensor = self._leaves[name] = Tensor(leaf(form, name, dtype, shape))
        return tensor


def _named(outputs: tuple[Outputs, ...]) -> dict[str, Tensor]:
    named: Any = outputs[0] if len(outputs) == 1 and not isinstance(outputs[0], Tensor) else outputs
    if not isinstance(named, Mapping):
        named = {"output": named[0]} if len(named) == 1 else {f"output_{i}": t for i, t in enumerate(named)}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise refused(f"the output {name!r} is a {type(tensor).__name__}", "Return tensors of this builder only.")
    if not named:
        raise refused("there is no output", "Give at least one tensor.")
    return dict(named)
