"""Every leaf of a result can be shown under the root that was committed, and so can that there is none."""

from pathlib import Path

import pytest

from eigentensor import merkle, reference
from eigentensor.chain import LeafProof
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.task import Leaf
from eigentensor_operator.data import Shelf
from support.generated.programs import Example, generate
from support.stories.operator import TASK


def shown(leaf: Leaf, proof: LeafProof) -> tuple[bytes, bool]:
    """The outputs root that a proof leads to, and whether there is such a leaf: as the market sees it (Demands.sol)."""
    tree, exists = proof.tree, False
    if leaf.tensor < proof.count:
        exists = leaf.index < -(-proof.elements * DType(proof.dtype).size // merkle.LEAF)
        if exists:
            (hashed,) = merkle.leaf_hashes(proof.data)
            tree = merkle.climb(hashed, leaf.index, proof.path)
        tensor = merkle.tensor_root_of(DType(proof.dtype), proof.elements, tree)
        tree = merkle.climb(merkle.binding_hash(proof.name.decode(), tensor), leaf.tensor, proof.binding)
    bindings = merkle.bindings_root_of(proof.count, tree)
    pair = (proof.other, bindings) if leaf.state else (bindings, proof.other)
    return merkle.outputs_root(*pair), exists


@pytest.fixture(scope="module", params=range(8))
def example(request: pytest.FixtureRequest) -> Example:
    return generate(request.param)


@pytest.fixture(scope="module")
def results(example: Example) -> Results:
    return reference.execute(example.program, example.tensors, example.variables, example.repeat)


def leaves_of(program: Program, state: bool) -> dict[Leaf, bool]:
    """Leaves of the outputs or of the new states, and some that are not, with whether they are."""
    records = program.new_states if state else program.outputs
    sizes = {
        n: program.parameter(r.buffer).elements * program.parameter(r.buffer).dtype.size for n, r in records.items()
    }
    leaves: dict[Leaf, bool] = {}
    for tensor, name in enumerate(sorted(records)):
        count = -(-sizes[name] // merkle.LEAF)
        leaves |= {Leaf(state, tensor, index): index < count for index in (*range(count), count, 1 << 40)}
    return leaves | {Leaf(state, len(records), 0): False, Leaf(state, 1 << 20, 5): False}


def test_leaves_are_shown_from_what_is_kept(example: Example, results: Results, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    root = shelf.keep(TASK, example.program, results)
    wanted = leaves_of(example.program, False) | leaves_of(example.program, True)
    proofs = shelf.prove(TASK, example.program, list(wanted))
    assert [shown(leaf, proof) for leaf, proof in zip(wanted, proofs, strict=True)] == [
        (root, exists) for exists in wanted.values()
    ]
    data = b"".join(
        proof.data for leaf, proof in zip(wanted, proofs, strict=True) if leaf.tensor == 0 and not leaf.state
    )
    if example.program.outputs:
        first = min(example.program.outputs)
        assert data.startswith(results.outputs[first].tobytes())
