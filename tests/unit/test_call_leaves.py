"""Inputs and states of a call, out of the leaves that its operator shows on chain."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.errors import BindingError, BlobTooLarge
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, Role
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, counter, load, to_body
from eigentensor.program.model import Buffer, Kind
from eigentensor.store import LocalStore
from eigentensor.task import Leaf
from eigentensor.tracing import Flat
from eigentensor_operator.batches.leaves import MOST, Missing
from eigentensor_operator.data import prove
from support.stories.calls import counting

Tensors = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


def missing(program: Program, tensors: Tensors) -> Missing:
    """All inputs and states of a program: nobody serves them."""
    roles = [role for role in (Role.INPUT, Role.STATE) if program.named(role)]
    return Missing(program, {role: merkle.role_root(program, role, tensors) for role in roles})


def shown(program: Program, tensors: Tensors, leaves: tuple[Leaf, ...]) -> list[bytes]:
    """What an operator shows of them."""
    roles = {False: Role.INPUT, True: Role.STATE}
    flats = {
        is_state: {name: Flat(b.dtype, tensors[name].reshape(-1)) for name, b in program.named(role).items()}
        for is_state, role in roles.items()
    }
    return [prove(leaf, flats[leaf.state], {}).data for leaf in leaves]


def test_inputs_and_states_are_made_of_their_leaves(tmp_path: Path) -> None:
    program, source = counting(600), np.random.default_rng(1)
    tensors: Tensors = {name: source.standard_normal(600, np.float32) for name in ("x", "total")}
    lacking = missing(program, tensors)
    leaves = lacking.leaves()
    assert leaves == tuple(Leaf(is_state, 0, index) for is_state in (False, True) for index in range(3))
    files = lacking.files(shown(program, tensors, leaves))
    store = LocalStore(tmp_path)
    for data in files.values():
        store.put(data)
    assert files.keys() == lacking.roots.keys() and all(root in store for root in lacking.roots.values())


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.INDEX])
def test_tensors_of_each_type_are_named_in_their_order(dtype: DType, tmp_path: Path) -> None:
    axis = Axis(0, 3)
    body = to_body(load(Array("b", dtype, 3), counter(axis)), (axis,))
    buffers = {name: Buffer(Role.INPUT, dtype, (count,), name) for name, count in {"b": 3, "a": 300}.items()}
    program = assemble([("copy", body)], buffers, {(Kind.OUTPUT, "y"): ("copy", (3,))})
    storage = STORAGE[dtype]
    tensors: Tensors = {name: (np.arange(b.elements) % 2).astype(storage) for name, b in buffers.items()}
    lacking = missing(program, tensors)
    leaves = lacking.leaves()
    counts = [-(-300 * dtype.size // 1024), 1]
    assert leaves == tuple(Leaf(False, tensor, index) for tensor in (0, 1) for index in range(counts[tensor]))
    store = LocalStore(tmp_path)
    for data in lacking.files(shown(program, tensors, leaves)).values():
        store.put(data)
    assert lacking.roots[Role.INPUT] in store


def test_what_is_shown_must_give_the_roots_of_the_order() -> None:
    program = counting(600)
    tensors: Tensors = {name: np.full(600, 2, np.float32) for name in ("x", "total")}
    lacking = missing(program, tensors)
    right = shown(program, tensors, lacking.leaves())
    assert lacking.files(right)
    for wrong in (right[:-1], [*right[:2], b"", *right[3:]], [b"\1" * 1024, *right[1:]], []):
        with pytest.raises(BindingError):
            lacking.files(wrong)


def test_more_leaves_than_a_demand_has_are_not_demanded() -> None:
    tensors: Tensors = {name: np.zeros(MOST * 128, np.float32) for name in ("x", "total")}
    assert len(missing(counting(MOST * 128), tensors).leaves()) == MOST
    tensors = {name: np.zeros(MOST * 128 + 1, np.float32) for name in ("x", "total")}
    with pytest.raises(BlobTooLarge, match="18 leaves"):
        missing(counting(MOST * 128 + 1), tensors).leaves()
