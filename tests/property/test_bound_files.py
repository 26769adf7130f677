"""Files under one bindings root are equal to everybody: bytes and dtypes decide, the program gives the shapes."""

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import merkle, reference
from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Kind, Role, encode
from eigentensor.reexecution.inputs import fetch_bound, fetch_results
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.headers import TAGS
from eigentensor.store.parts import encode_results, encode_variables
from support.generated.programs import Example, generate
from support.stories.operator import an_order

_TAGS = {dtype: tag for tag, dtype in TAGS.items()}
_WORDS = {Role.INPUT: "inputs", Role.WEIGHT: "weights", Role.STATE: "states"}
seeds = st.integers(0, 2**32)
Typed = Mapping[str, tuple[DType, np.ndarray[Any, Any]]]


def a_shape(random: Random, elements: int) -> list[int]:
    """Of as many elements."""
    if elements == 0:
        return [*(random.randrange(10) for _ in range(random.randrange(5))), 0]
    ways = [[elements], [1, elements], [elements, 1, 1]]
    ways += [[n, elements // n] for n in range(2, elements) if elements % n == 0]
    return random.choice([[], *ways] if elements == 1 else ways)


def a_file(random: Random, tensors: Typed) -> bytes:
    """A safetensors file of these tensors as anybody may write it: of other shapes, in another order, with metadata
    and padding, aligned or not."""
    header: dict[str, Any] = {}
    if random.random() < 0.5:
        header["__metadata__"] = {key: "pt" for key in ("a", "é", "format") if random.random() < 0.5}
    data = b""
    for name in random.sample(sorted(tensors), len(tensors)):
        dtype, array = tensors[name]
        raw = array.astype(STORAGE[dtype].newbyteorder("<")).tobytes()
        place = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": _TAGS[dtype], "shape": a_shape(random, array.size), "data_offsets": place}
        data += raw
    text = json.dumps(header).encode() + b" " * random.randrange(41)
    return len(text).to_bytes(8, "little") + text + data


def root_of(tensors: Typed) -> bytes:
    return merkle.bindings_root({name: merkle.array_root(*typed) for name, typed in tensors.items()})


def of_role(example: Example, role: Role) -> Typed:
    return {name: (b.dtype, example.tensors[name]) for name, b in example.program.named(role).items()}


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Programs with tensors of every role, some without elements."""
    matches = [e for e in map(generate, range(60)) if all(e.program.named(role) for role in _WORDS)]
    assert len({b.dtype for e in matches for b in e.program.buffers}) > 3
    return matches


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayClient]:
    """One that nobody answers: what is in the store is there."""
    store = LocalStore(tmp_path_factory.mktemp("store"))
    with GatewayClient("http://127.0.0.1:9", store, attempts=1) as client:
        yield client


@given(seeds)
def test_every_file_with_the_root_of_a_part_is_bound_to_the_same_tensors(
    examples: list[Example], gateway: GatewayClient, seed: int
) -> None:
    random = Random(seed)
    example = random.choice(examples)
    program, tensors = example.program, example.tensors
    roots = {}
    for role, word in _WORDS.items():
        content = a_file(random, of_role(example, role))
        roots[word] = bytes.fromhex(gateway.store.names(gateway.store.put(content)).computed or "")
        assert roots[word] == root_of(of_role(example, role))
    gateway.store.put(encode(program))
    gateway.store.put(encode_variables(example.variables))
    order = an_order(
        program=merkle.program_root(encode(program)), repeat=example.repeat,
        variables=merkle.variables_root(example.variables), **roots,
    )  # fmt: skip
    bound = fetch_bound(gateway, order).tensors
    fetched = {name: (array.shape, array.tobytes()) for name, array in bound.items()}
    assert fetched == {name: (tensors[name].shape, tensors[name].tobytes()) for name in tensors}


@given(seeds)
def test_every_file_with_the_root_of_a_result_is_the_same_result(
    examples: list[Example], gateway: GatewayClient, seed: int
) -> None:
    random = Random(seed)
    example = random.choice(examples)
    program = example.program
    expected = reference.execute(program, example.tensors, example.variables, example.repeat)
    roots = []
    for kind, arrays in ((Kind.OUTPUT, expected.outputs), (Kind.STATE, expected.states)):
        dtypes = {r.name: program.parameter(r.buffer).dtype for r in program.results if r.kind is kind}
        typed = {name: (dtypes[name], array) for name, array in arrays.items()}
        gateway.store.put(a_file(random, typed))
        roots.append(root_of(typed))
    gateway.store.put(encode_results(*roots))
    results = fetch_results(gateway, program, merkle.results_root(program, expected))
    for have, want in ((results.outputs, expected.outputs), (results.states, expected.states)):
        shaped = {name: (array.shape, array.tobytes()) for name, array in have.items()}
        assert shaped == {name: (array.shape, array.tobytes()) for name, array in want.items()}


@pytest.mark.parametrize("how", ["one more", "one fewer", "another dtype", "another name"])
@given(seed=seeds)
def test_what_has_another_length_dtype_or_name_is_refused(
    examples: list[Example], gateway: GatewayClient, how: str, seed: int
) -> None:
    example = next(e for e in examples if len(e.program.named(Role.INPUT)) == 1)
    ((name, (dtype, array)),) = of_role(example, Role.INPUT).items()
    flat = array.reshape(-1)
    other = DType.INT16 if dtype is DType.UINT16 else DType.UINT16
    changed: Typed = {
        "one more": {name: (dtype, np.append(flat, flat[:1]).astype(flat.dtype))},
        "one fewer": {name: (dtype, flat[1:])},
        "another dtype": {name: (other, np.zeros(flat.size, STORAGE[other]))},
        "another name": {name + "2": (dtype, flat)},
    }[how]
    gateway.store.put(encode(example.program))
    gateway.store.put(a_file(Random(seed), changed))
    order = an_order(program=merkle.program_root(encode(example.program)), inputs=root_of(changed))
    with pytest.raises(BindingError, match=r"tensor 'input0': expected|input tensors: given"):
        fetch_bound(gateway, order)
