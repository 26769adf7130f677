"""The vectors of tests/vectors/program.json and merkle.json, and the worked example of sdk/README.md.

`scripts/vectors` writes them; tests compare them with what is written.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor import merkle, reference
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import DType, Program, Role, encode
from eigentensor.program.codec import split
from eigentensor.program.text import listing
from eigentensor.program.validity import sentences
from support.generated.programs import Example
from support.programs import worked_examples

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests" / "vectors"
README = ROOT / "sdk" / "README.md"
RULES = ("<!-- rules: scripts/vectors writes them -->\n", "<!-- end of the rules -->\n")
EXAMPLE = ("<!-- worked example: scripts/vectors writes it -->\n", "<!-- end of the worked example -->\n")


def text(data: bytes) -> str:
    return "0x" + data.hex()


def kinds(program: Program) -> list[str]:
    """Of each record, in order."""
    groups = ("variables", "buffers", "bodies", "calls", "results")
    names = ("variable", "buffer", "body", "call", "result")
    return [
        f"{name} {n}" for group, name in zip(groups, names, strict=True) for n in range(len(getattr(program, group)))
    ]


def program_vector(example: Example) -> dict[str, Any]:
    program = example.program
    data = encode(program)
    header, records = split(data)
    calls: dict[int, bytes] = {}

    def observe(number: int, result: np.ndarray[Any, Any]) -> None:
        buffer = len(program.buffers) + number % len(program.calls)
        calls[number] = merkle.tensor_root(program.parameter(buffer).dtype, result)

    results = reference.execute(program, example.tensors, example.variables, example.repeat, observe=observe)
    outputs = merkle.results_root(program, results)
    return {
        "bytes": text(data),
        "root": text(merkle.program_root(data)),
        "header": text(header),
        "records": [
            {
                "kind": kind,
                "bytes": text(record),
                "hash": text(merkle.record_hash(record)),
                "path": [text(sibling) for sibling in merkle.open_record(data, n)[1].path],
            }
            for n, (kind, record) in enumerate(zip(kinds(program), records, strict=True))
        ],
        "tensors": [
            {"name": b.name, "role": int(b.role)} | tensor_vector(b.dtype, example.tensors[b.name])
            for b in program.buffers
            if b.role is not Role.CONSTANT
        ],
        "results": [
            {"name": r.name, "kind": int(r.kind)}
            | tensor_vector(program.parameter(r.buffer).dtype, (results.outputs | results.states)[r.name])
            for r in program.results
        ],
        "inputsRoot": text(merkle.role_root(program, Role.INPUT, example.tensors)),
        "weightsRoot": text(merkle.role_root(program, Role.WEIGHT, example.tensors)),
        "statesRoot": text(merkle.role_root(program, Role.STATE, example.tensors)),
        "variables": [{"name": name, "value": value} for name, value in sorted(example.variables.items())],
        "variablesRoot": text(merkle.variables_root(example.variables)),
        "repeat": example.repeat,
        "outputsRoot": text(outputs),
        "calls": [text(calls[number]) for number in sorted(calls)],
        "traceRoot": text(merkle.trace_root([calls[number] for number in sorted(calls)], outputs)),
    }


def tensor_vector(dtype: DType, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = array.astype(STORAGE[dtype].newbyteorder("<")).tobytes()
    root = text(merkle.tensor_root(dtype, data))
    return {"dtype": int(dtype), "elements": array.size, "bytes": text(data), "root": root}


def merkle_vectors() -> dict[str, Any]:
    leaves = [bytes([0x11 * (n + 1)]) * 32 for n in range(9)]
    operators = [bytes([n]) * 20 for n in (0xC0, 0x0A, 0x7F)]
    variables = {"pos": -2, "n": 7, "é": 2**31 - 1}
    blob = bytes(n % 251 for n in range(2 * merkle.PIECE + 5000))
    stored = [dtype for dtype in DType if dtype is not DType.INDEX]
    return {
        "trees": [
            {
                "leaves": [text(leaf) for leaf in leaves[:count]],
                "root": text(merkle.tree_root(leaves[:count])),
                "paths": [[text(s) for s in merkle.path(leaves[:count], n)] for n in range(count)],
            }
            for count in range(10)
        ],
        "tensors": [
            tensor_vector(dtype, np.zeros(count, STORAGE[dtype]) if count < 2 else _counting(dtype, count))
            for dtype in stored
            for count in (0, 1, 700)
        ],
        "blobs": [
            {
                "size": size,
                "bytes": "byte n is n modulo 251",
                "root": text(merkle.blob_root(blob[:size])),
                "pieces": [text(piece) for piece in merkle.piece_roots(blob[:size])],
            }
            for size in (0, 1, 1024, 1025, merkle.PIECE, merkle.PIECE + 1, len(blob))
        ],
        "bindings": [
            {"names": list(names), "roots": [text(leaf) for leaf in leaves[: len(names)]], "root": text(root)}
            for names in ((), ("x",), ("b", "w", "é"))
            for root in (merkle.bindings_root(dict(zip(names, leaves, strict=False))),)
        ],
        "variables": {
            "names": sorted(variables),
            "values": [variables[name] for name in sorted(variables)],
            "root": text(merkle.variables_root(variables)),
        },
        "operators": {"addresses": [text(o) for o in operators], "root": text(merkle.operators_root(operators))},
        "outputs": text(merkle.outputs_root(leaves[0], leaves[1])),
        "trace": text(merkle.trace_root(leaves[:4], leaves[4])),
    }


def _counting(dtype: DType, count: int) -> np.ndarray[Any, Any]:
    if dtype is DType.BOOL:
        flags: np.ndarray[Any, Any] = np.arange(count) % 3 == 0
        return flags
    return np.arange(count * dtype.size, dtype=np.uint8).view(STORAGE[dtype])


def files() -> dict[Path, str]:
    """What has to be written where."""
    programs = {"layer": worked_examples.layer(), "session": worked_examples.session()}
    vectors = {name: program_vector(example) for name, example in programs.items()}
    readme = between(README.read_text(), *RULES, rules())
    return {
        VECTORS / "program.json": json.dumps(vectors, indent=2) + "\n",
        VECTORS / "merkle.json": json.dumps(merkle_vectors(), indent=2, ensure_ascii=False) + "\n",
        README: between(readme, *EXAMPLE, worked_example(programs["layer"].program, vectors["layer"])),
    }


def between(document: str, start: str, end: str, content: str) -> str:
    before, _, rest = document.partition(start)
    return before + start + content + end + rest.partition(end)[2]


def rules() -> str:
    """The rules of validity as a table."""
    rows = [f"| `{name}` | {sentence} |" for name, sentence in sentences().items()]
    return "\n".join(["| rule | |", "| --- | --- |", *rows]) + "\n"


def worked_example(program: Program, vector: dict[str, Any]) -> str:
    """An example as text, its bytes record by record, and its roots."""
    lines = ["```", *listing(program).splitlines(), "```", "", "```", "header", *_dump(vector["header"])]
    for record in vector["records"]:
        size = (len(record["bytes"]) - 2) // 2
        lines += [f"{record['kind']}: {size} bytes", *_dump(record["bytes"])]
    lines += ["```", "", "| | |", "| --- | --- |"]
    rows = [(f"tensor root of `{t['name']}`", t["root"]) for t in vector["tensors"] + vector["results"]]
    rows += [(f"tensor root of call {n}", root) for n, root in enumerate(vector["calls"])]
    rows += [("inputs root", vector["inputsRoot"]), ("weights root", vector["weightsRoot"])]
    rows += [("states root", vector["statesRoot"]), ("variables root", vector["variablesRoot"])]
    rows += [("**program root**", vector["root"]), ("**outputs root**", vector["outputsRoot"])]
    rows += [("trace root", vector["traceRoot"])]
    return "\n".join(lines + [f"| {name} | `{root[2:]}` |" for name, root in rows]) + "\n"


def _dump(data: str) -> list[str]:
    raw = bytes.fromhex(data[2:])
    return [f"  {start:04x}  {raw[start : start + 32].hex(' ', -4)}" for start in range(0, len(raw), 32)]


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
