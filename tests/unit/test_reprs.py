"""What a public object is in a notebook or a debugger: one short line, whatever it holds."""

from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.program import Program
from eigentensor_client.calls import Handle, Options
from eigentensor_client.function import Function
from eigentensor_client.orders import plan
from eigentensor_client.results import TaskResult
from support.screens import calls
from support.screens import values as v
from support.vectors import receipts


def doubled(x: Tensor) -> Tensor:
    return x * 2


def _handle() -> Any:
    nothing: Any = None
    return Handle(nothing, v.FINAL, v.WORK.program, nothing, Options(), "doubled")


OBJECTS: dict[str, Any] = {
    "<Program (x) → (output), 2 calls>": v.WORK.program,
    "<GraphProgram c750bf3902: (x) → (output), 2 calls>": GraphProgram(v.WORK.program, {"w": np.zeros((3, 4))}),
    "<TaskView d6e5edfe1f: final, checked(1)>": v.FINAL,
    "<TaskResult d6e5edfe1f: final, checked(1); scores float32 (99, 10)>": TaskResult(
        v.FINAL, v.ROOT, {"scores": np.zeros((99, 10), np.float32)}
    ),
    "<Receipt of task c2fed3808c, as of block 2078>": receipts.load()["checked"],
    "<SignedCall 2 of channel 7df8563115, committed>": calls.checked().call,
    "<Order of 0x111111…1111 for program 0101010101: at most 50000000000000000 wei until block 200>": v.ORDER,
    "<Work of Program (x) → (output), 2 calls, 3 times>": v.WORK,
    "<Terms: at most 50000000000000000 wei, checks 20 % by 1, accepted within 100 blocks>": v.TERMS,
    "<Plan of program c750bf3902: 1,128 evaluations, at most 101000000000000000 wei>": plan(
        v.WORK, v.TERMS, v.DEPLOYMENT.parameters, balance=0, tokens=0, operators=v.OPERATORS
    ),
    f"<Function {__name__}.doubled>": Function(doubled, Options()),
    "<Handle of doubled, task d6e5edfe1f>": _handle(),
}


@pytest.mark.parametrize("line", OBJECTS)
def test_a_public_object_is_one_short_line(line: str) -> None:
    assert repr(OBJECTS[line]) == line


def test_a_program_of_many_tensors_is_no_longer() -> None:
    program = capture(lambda **x: {f"a long name of an output, number {n}": t for n, t in enumerate(x.values())},
                         {f"input_{n}": np.zeros(3, np.float32) for n in range(30)}).program  # fmt: skip
    assert isinstance(program, Program)
    assert len(repr(program)) < 140 and "input_0, input_1, input_10, …" in repr(program)
