"""Results are believed because of their roots: whatever an executor revealed, only what fits the program is taken."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import merkle, reference
from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError, BlobCorrupt, WrongResult
from eigentensor.program import Role
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.store.parts import encode_results
from eigentensor_client.files import Tensors
from eigentensor_client.looking import Means, look_again
from eigentensor_client.orders import Work
from eigentensor_client.transfer import bound, download
from support.hostile.gateway import ANSWERS, FILES, hostile
from support.programs.worked_examples import session

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def graph() -> GraphProgram:
    return capture(lambda x: {"sum": x.sum(axis=1), "twice": x * 2}, [Tensor(X)], fingerprint=False)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayClient]:
    """A store that has everything already: nothing is asked of the network."""
    with GatewayClient("http://127.0.0.1:9", LocalStore(tmp_path / "store")) as client:
        yield client


def keep(gateway: GatewayClient, folder: Path, outputs: Tensors) -> bytes:
    """What an executor uploads; its outputs root."""
    save_safetensors(folder / "outputs", outputs)
    blob = gateway.store.put(folder / "outputs")
    root = bytes.fromhex(gateway.store.names(blob).computed or "")
    roots = gateway.store.put(encode_results(root, merkle.bindings_root({})))
    return bytes.fromhex(gateway.store.names(roots).computed or "")


@pytest.mark.parametrize("case", ["a long name", "other tensors", "broken gzip", "nothing"])
def test_a_result_is_looked_at_again_whatever_a_gateway_says_of_it(
    tmp_path: Path, graph: GraphProgram, case: str
) -> None:
    right, lie = reference.execute(graph.program, {"x": X}), b"\7" * 32
    looked = BoundProgram(graph.program, (saved(tmp_path / "inputs", {"x": X}),), {"x": X}, {}, 1)
    with hostile() as server, GatewayClient(server.url, LocalStore(tmp_path / "store"), attempts=1) as gateway:
        server.raw, server.file = ANSWERS.get(case, b""), FILES.get(case)
        look = look_again(looked, lie, gateway, Means(1 << 30, 60, unsafe=True))
    assert not look.agrees and look.outputs_root == merkle.results_root(graph.program, right)


def saved(path: Path, tensors: Tensors) -> Path:
    save_safetensors(path, tensors)
    return path


def test_a_true_result_is_handed_on_with_its_shapes(
    gateway: GatewayClient, tmp_path: Path, graph: GraphProgram
) -> None:
    expected = reference.execute(graph.program, {"x": X})
    root = keep(gateway, tmp_path, expected.outputs)
    assert root == merkle.results_root(graph.program, expected)
    results = download(gateway, graph.program, root)
    assert isinstance(results, Results)
    assert results.outputs["twice"].shape == (3, 4)
    assert np.array_equal(results.outputs["sum"], X.sum(axis=1))


@pytest.mark.parametrize(
    "outputs",
    [
        {"sum": X.sum(axis=1)},
        {"sum": X.sum(axis=1), "twice": X[:2]},
        {"sum": X.sum(axis=1), "twice": X * 2, "more": X},
        {"sum": X.sum(axis=1), "twice": (X * 2).view(np.int32)},
        {"total": X.sum(axis=1), "twice": X * 2},
    ],
    ids=["missing", "too short", "too many", "another dtype", "another name"],
)
def test_what_does_not_fit_the_program_is_a_wrong_result(
    gateway: GatewayClient, tmp_path: Path, graph: GraphProgram, outputs: Tensors
) -> None:
    root = keep(gateway, tmp_path, outputs)
    with pytest.raises(WrongResult):
        download(gateway, graph.program, root)


def test_roots_that_are_not_roots_are_refused(gateway: GatewayClient, graph: GraphProgram, tmp_path: Path) -> None:
    save_safetensors(tmp_path / "x", {"x": X})
    blob = gateway.store.put(tmp_path / "x")
    with pytest.raises(BlobCorrupt, match="not the roots of a result"):
        download(gateway, graph.program, bytes.fromhex(blob))


def test_a_part_that_is_named_by_its_root_is_not_needed_here(graph: GraphProgram) -> None:
    example = session()
    tensors = {name: example.tensors[name] for name in example.program.named(Role.INPUT)}
    work = Work(example.program, tensors, {}, b"\1" * 32, example.variables, example.repeat)
    assert bound(work).keys() == {Role.INPUT, Role.WEIGHT}
    bindings = bound(replace(work, states={"cache": example.tensors["cache"]}))
    assert bindings[Role.STATE]["cache"].tobytes() == example.tensors["cache"].tobytes()
    with pytest.raises(BindingError, match="no states"):
        bound(Work(graph.program, {"x": X}, {}, b"\1" * 32))
    with pytest.raises(BindingError, match="missing"):
        bound(replace(work, states={}))
