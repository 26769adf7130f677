"""The committed vectors and the worked example of the documentation, as this code computes them."""

import json
from typing import Any

import pytest

from eigentensor import merkle
from eigentensor.program import DType, Role, decode, encode
from eigentensor.program.codec import split
from support.vectors.programs import VECTORS, files

PROGRAMS: dict[str, Any] = json.loads((VECTORS / "program.json").read_text())
TREES: dict[str, Any] = json.loads((VECTORS / "merkle.json").read_text())


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_committed_is_what_the_vectors_script_writes(path: Any) -> None:
    assert path.read_text() == files()[path], "run scripts/vectors"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_vector_decodes_and_encodes_to_its_bytes(name: str) -> None:
    data = raw(PROGRAMS[name]["bytes"])
    assert encode(decode(data)) == data
    header, records = split(data)
    assert header == raw(PROGRAMS[name]["header"])
    assert records == [raw(record["bytes"]) for record in PROGRAMS[name]["records"]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_record_opens_under_the_program_root(name: str) -> None:
    vector = PROGRAMS[name]
    for number, record in enumerate(vector["records"]):
        leaf = merkle.record_hash(raw(record["bytes"]))
        assert leaf == raw(record["hash"])
        root = merkle.climb(leaf, number, [raw(sibling) for sibling in record["path"]])
        assert merkle.program_root_of(raw(vector["header"]), root) == raw(vector["root"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_bindings_roots_of_a_program_vector_are_of_its_tensors(name: str) -> None:
    vector = PROGRAMS[name]
    for role, root in (
        (Role.INPUT, "inputsRoot"),
        (Role.WEIGHT, "weightsRoot"),
        (Role.STATE, "statesRoot"),
    ):
        roots = {t["name"]: raw(t["root"]) for t in vector["tensors"] if t["role"] == role}
        assert merkle.bindings_root(roots) == raw(vector[root])
    results = [{r["name"]: raw(r["root"]) for r in vector["results"] if r["kind"] == kind} for kind in (1, 2)]
    outputs = merkle.outputs_root(*map(merkle.bindings_root, results))
    assert outputs == raw(vector["outputsRoot"])
    assert merkle.trace_root([raw(call) for call in vector["calls"]], outputs) == raw(vector["traceRoot"])


@pytest.mark.parametrize("vector", TREES["trees"], ids=lambda vector: len(vector["leaves"]))
def test_a_path_of_the_vectors_leads_from_each_leaf_to_the_root(vector: dict[str, Any]) -> None:
    leaves = [raw(leaf) for leaf in vector["leaves"]]
    assert merkle.tree_root(leaves) == raw(vector["root"])
    for number, siblings in enumerate(vector["paths"]):
        assert merkle.climb(leaves[number], number, [raw(s) for s in siblings]) == raw(vector["root"])


def test_tensor_roots_of_the_vectors_tell_types_and_lengths_apart() -> None:
    roots = [tensor["root"] for tensor in TREES["tensors"]]
    assert len(set(roots)) == len(roots)
    for tensor in TREES["tensors"]:
        assert merkle.tensor_root(DType(tensor["dtype"]), raw(tensor["bytes"])) == raw(tensor["root"])
