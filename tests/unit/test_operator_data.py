"""What an order names is fetched, verified and held to the program; what comes out has the root that is committed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eigentensor import merkle, reference
from eigentensor.errors import BindingError, StoreError
from eigentensor.program import DType, Program, Role, encode
from eigentensor.program.cost import needs_of
from eigentensor.reexecution.inputs import fetch_bound, fetch_program
from eigentensor.store import GatewayClient, LocalStore, load_safetensors, save_safetensors
from eigentensor.store.parts import decode_results, encode_variables
from eigentensor.task import Order
from eigentensor_operator.data import Shelf
from support.generated.programs import Example, generate
from support.stories.operator import TASK, an_order

ROLES = (Role.INPUT, Role.WEIGHT, Role.STATE)
Tensors = dict[Role, dict[str, Any]]


@pytest.fixture
def example() -> Example:
    return next(
        e
        for e in map(generate, range(1000))
        if e.variables and e.repeat > 1 and all(e.program.named(role) for role in ROLES)
    )


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


@pytest.fixture
def gateway(store: LocalStore) -> GatewayClient:
    """One that nobody answers: what is not in the store is not there."""
    return GatewayClient("http://127.0.0.1:9", store, attempts=1)


@pytest.fixture
def order_for(store: LocalStore, tmp_path: Path) -> Callable[..., Order]:
    """Puts everything into the store and names it in an order."""

    def make(program: Program, tensors: Tensors, variables: dict[str, int], repeat: int) -> Order:
        store.put(encode(program))
        roots = {}
        dtypes = {b.name: b.dtype for b in program.buffers}
        for role, word in zip(ROLES, ("inputs", "weights", "states"), strict=True):
            save_safetensors(tmp_path / word, tensors[role], {n: d for n, d in dtypes.items() if n in tensors[role]})
            roots[word] = bytes.fromhex(store.names(store.put(tmp_path / word)).computed or "")
        store.put(encode_variables(variables))
        program_root, bound = merkle.program_root(encode(program)), merkle.variables_root(variables)
        return an_order(program=program_root, variables=bound, repeat=repeat, **roots)

    return make


def tensors_of(example: Example) -> Tensors:
    return {role: {n: example.tensors[n] for n in example.program.named(role)} for role in ROLES}


def test_everything_that_an_order_names_comes_together(
    example: Example, gateway: GatewayClient, order_for: Callable[..., Order]
) -> None:
    bound = fetch_bound(gateway, order_for(example.program, tensors_of(example), example.variables, example.repeat))
    assert encode(bound.program) == encode(example.program)
    assert bound.variables == example.variables and bound.repeat == example.repeat
    assert {n: a.tobytes() for n, a in bound.tensors.items()} == {n: a.tobytes() for n, a in example.tensors.items()}
    assert len(bound.files) == 3


def test_a_tensor_under_the_root_of_another_role_is_refused(
    example: Example, gateway: GatewayClient, order_for: Callable[..., Order]
) -> None:
    tensors = tensors_of(example)
    tensors[Role.INPUT] |= tensors[Role.WEIGHT]
    with pytest.raises(BindingError, match="input tensors: given"):
        fetch_bound(gateway, order_for(example.program, tensors, example.variables, example.repeat))


def test_a_file_that_was_damaged_in_the_cache_is_refused(
    example: Example, gateway: GatewayClient, store: LocalStore, order_for: Callable[..., Order]
) -> None:
    order = order_for(example.program, tensors_of(example), example.variables, example.repeat)
    path = store.path(order.weights)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BindingError, match="weight tensors do not have the order's root"):
        fetch_bound(gateway, order)


def test_patterns_that_are_called_by_another_dtype_are_refused(
    gateway: GatewayClient, order_for: Callable[..., Order], tmp_path: Path, store: LocalStore
) -> None:
    example = next(
        e
        for e in map(generate, range(1000))
        if any(b.dtype is DType.BFLOAT16 for b in e.program.named(Role.INPUT).values())
    )
    order = order_for(example.program, tensors_of(example), example.variables, example.repeat)
    assert fetch_bound(gateway, order)
    save_safetensors(tmp_path / "plain", tensors_of(example)[Role.INPUT])
    disguised = store.names(store.put(tmp_path / "plain")).computed
    with pytest.raises(BindingError, match=r"expected .* of bfloat16, given .* of uint16"):
        fetch_bound(gateway, replace(order, inputs=bytes.fromhex(disguised or "")))


def test_values_out_of_a_variables_bounds_are_refused(
    example: Example, gateway: GatewayClient, order_for: Callable[..., Order]
) -> None:
    far = dict.fromkeys(example.variables, 2**31 - 1)
    with pytest.raises(BindingError, match="variable"):
        fetch_bound(gateway, order_for(example.program, tensors_of(example), far, example.repeat))


def test_more_iterations_than_the_program_allows_are_refused_before_any_tensor_is_fetched(
    example: Example, gateway: GatewayClient, store: LocalStore
) -> None:
    store.put(encode(example.program))
    order = an_order(program=merkle.program_root(encode(example.program)), repeat=example.program.max_repeat + 1)
    with pytest.raises(BindingError, match="at most"):
        fetch_program(gateway, order)


def test_a_blob_that_nobody_has_is_an_error_of_the_store(gateway: GatewayClient) -> None:
    with pytest.raises(StoreError):
        fetch_program(gateway, an_order())


def test_needs_grow_with_the_iterations(example: Example) -> None:
    once, thrice = needs_of(example.program, 1), needs_of(example.program, 3)
    assert 0 < thrice.operations == 3 * once.operations
    assert thrice.memory == once.memory > 0


def test_what_is_kept_has_the_root_that_is_committed(example: Example, tmp_path: Path) -> None:
    program = example.program
    results = reference.execute(program, example.tensors, example.variables, example.repeat)
    shelf = Shelf(tmp_path / "results")
    root = shelf.keep(TASK, program, results)
    assert root == merkle.results_root(program, results)
    folder = tmp_path / "results" / TASK.hex()
    assert merkle.outputs_root(*decode_results((folder / "roots").read_bytes())) == root
    states = load_safetensors(folder / "state.safetensors")
    assert {n: a.tobytes() for n, a in states.items()} == {n: a.tobytes() for n, a in results.states.items()}
    assert shelf.keep(TASK, program, results) == root
    shelf.drop(TASK)
    shelf.drop(TASK)
    assert not folder.exists()
