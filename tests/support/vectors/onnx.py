"""What import makes of each of onnx's own node tests: the rows of tests/vectors/onnx.json."""

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from eigentensor import reference
from eigentensor.capture import GraphProgram, import_onnx
from eigentensor.capture.names import names_for
from eigentensor.errors import CaptureError

TABLE = Path(__file__).parents[2] / "vectors" / "onnx.json"
PARTS = 16
Arrays = dict[str, Any]


class Row(NamedTuple):
    """`status` is passes, wrong or refused; `reason` says why it is refused, or what is wrong.

    `cast` says whether float64 had to be cast to float32, `constants` which inputs had to be constants of the model.
    """

    test: str
    status: str
    cast: bool
    constants: list[str]
    reason: str


@cache
def cases() -> dict[str, TestCase]:
    """The node tests of the installed onnx by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def part_of(name: str) -> int:
    """Which of PARTS a test belongs to."""
    return int(sha256(name.encode()).hexdigest(), 16) % PARTS


def row(case: TestCase) -> Row:
    """What becomes of a test. It is imported as it is, then with what its refusals ask for."""
    assert case.model is not None and case.data_sets is not None
    ((_, expected),) = case.data_sets
    inputs = inputs_of(case, [value.name for value in case.model.graph.input])
    cast, constants = False, list[str]()
    while True:
        try:
            graph = _imported(case.model, inputs, constants, cast)
            break
        except CaptureError as error:
            asked = re.search(r"numbers that depend on an input: '(.*)'", error.reason)
            if asked and asked[1] not in constants:
                constants.append(asked[1])
            elif "float64 cannot" in error.reason and not cast:
                cast = True
            else:
                return Row(case.name, "refused", cast, constants, error.reason)
    wrong = _difference(case, graph, {n: a for n, a in inputs.items() if n not in constants}, map(_array, expected))
    return Row(case.name, "wrong" if wrong else "passes", cast, constants, wrong)


def inputs_of(case: TestCase, names: Iterable[str]) -> Arrays:
    """What a test gives to inputs of these names."""
    assert case.model is not None and case.data_sets is not None
    ((inputs, _),) = case.data_sets
    pairs = zip(case.model.graph.input, inputs, strict=True)
    return {value.name: _array(array) for value, array in pairs if value.name in names}


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _imported(model: onnx.ModelProto, inputs: Arrays, constants: list[str], cast: bool) -> GraphProgram:
    shapes = {n: v.shape for n, v in inputs.items() if n not in constants and isinstance(v, np.ndarray)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(with_constants(model, {n: inputs[n] for n in constants}).SerializeToString())
        return import_onnx(path, shapes, cast="float32" if cast else None, fingerprint=False)


def with_constants(model: onnx.ModelProto, constants: Mapping[str, Any]) -> onnx.ModelProto:
    """The model with some of its inputs as constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for name, array in constants.items():
        made.graph.input.remove(next(value for value in made.graph.input if value.name == name))
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def _difference(case: TestCase, graph: GraphProgram, inputs: Arrays, expected: Iterable[Any]) -> str:
    """Where the results differ by more than onnx allows, or nothing. Its tolerance is twice a unit of bfloat16."""
    assert case.model is not None
    tensors, outputs = names_for(inputs), [value.name for value in case.model.graph.output]
    named = names_for(outputs)
    results = reference.execute(
        graph.program, {**graph.weights, **{tensors[name]: _held(array) for name, array in inputs.items()}}
    ).outputs
    for name, wanted in zip(outputs, map(np.asarray, expected), strict=True):
        actual, tolerance = results[named[name]], case.rtol
        if wanted.dtype.name == "bfloat16":
            actual, wanted = (actual.astype(np.uint32) << 16).view(np.float32), wanted.astype(np.float32)
            tolerance = 2**-6
        wanted = wanted.astype(np.float32) if wanted.dtype == np.float64 else wanted
        if (actual.dtype, actual.shape) != (wanted.dtype, wanted.shape):
            return f"{name}: {actual.dtype} {actual.shape}, not {wanted.dtype} {wanted.shape}"
        if not np.allclose(actual, wanted, rtol=tolerance, atol=case.atol, equal_nan=True):
            return f"{name}: {actual.ravel()[:4]}, not {wanted.ravel()[:4]}"
    return ""


def _held(array: Any) -> Any:
    """As a program takes it: bfloat16 as patterns, float64 as float32."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def table() -> list[Row]:
    """The committed rows."""
    return [Row(**fields) for fields in json.loads(TABLE.read_text())]


def main() -> None:
    """Write the table anew."""
    rows = [json.dumps(row(case)._asdict()) for _, case in sorted(cases().items())]
    TABLE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
