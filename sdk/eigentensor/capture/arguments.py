"""What a call of a function is given: tensors and bound variables by name, and what stands in its program."""

from collections.abc import Mapping, Sequence
from inspect import Signature
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.device import Device
from tinygrad.dtype import DType, strong_dtype
from tinygrad.uop.ops import UOp

from eigentensor.capture import adapter
from eigentensor.capture.structure import Leaf, is_record, take_apart
from eigentensor.errors import BindingError

#: What a call may be given, and return, beside tensors: another value makes another program.
FIXED = (bool, int, float, str, bytes, type(None), DType)


def take_arguments(
    function: str, signature: Signature, positional: Sequence[Any], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, UOp]]:
    """The structure of each parameter's value, and the tensors and the bound variables in them.

    Raises BindingError for arguments that are none of the function, or that no program has.
    """
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        raise BindingError(f"{function}: {error}", fix=f"It takes {signature}.") from None
    bound.apply_defaults()
    structures, tensors, variables = {}, {}, {}
    for name, value in bound.arguments.items():
        structures[name], leaves = take_apart(value, name, _is_leaf)
        if (other := other_in(structures[name], name)) is not None:
            raise BindingError(
                f"{function}: the argument {name!r} is a {type(other).__name__}",
                fix="Give Tensors, arrays, numbers and words; refer to models from within the function.",
            )
        for leaf, argument in leaves.items():
            if isinstance(argument, UOp):
                variables[leaf] = _variable(leaf, argument)
            else:
                tensors[leaf] = _tensor(leaf, argument)
    return structures, tensors, variables


def other_in(structure: Any, name: str) -> Any:
    """Something in a structure that is neither a leaf, a container, nor one of `FIXED`; None where all is."""
    others: list[Any] = []

    def look(value: Any) -> bool:
        if not isinstance(value, (dict, list, tuple, Leaf, *FIXED)) and not is_record(value):
            others.append(value)
        return False

    take_apart(structure, name, look)
    return next(iter(others), None)


def limits_of(variable: UOp) -> tuple[int, int]:
    """The least and the greatest value of a bound variable."""
    plain, _ = variable.unbind()
    return int(plain.vmin), int(plain.vmax)


def device_of(tensors: Mapping[str, Tensor]) -> str:
    """Where the first of these tensors lies that lies on one device."""
    devices = (tensor.device for tensor in tensors.values())
    return next((device for device in devices if isinstance(device, str)), Device.DEFAULT)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray | np.generic | UOp)


def _variable(name: str, value: UOp) -> UOp:
    if not value.is_bound_var:
        raise BindingError(f"the argument {name!r} is no bound variable", fix="Give UOp.variable(…).bind(number).")
    return value


def _tensor(name: str, leaf: Any) -> Tensor:
    """An argument as a tensor of a type that it keeps."""
    if isinstance(leaf, Tensor):
        return leaf.cast(strong_dtype(leaf.dtype)) if leaf.dtype in dtypes.weaks else leaf
    array = np.asarray(leaf)
    try:
        return Tensor(array.astype(array.dtype.newbyteorder("="), copy=False), device=adapter.DEVICE)
    except (KeyError, TypeError):
        raise BindingError(f"the argument {name!r} is an array of {array.dtype}", fix="Give one of numbers.") from None
