"""The portable program: data only, canonical, bounded, content-addressed. sdk/README.md is its normative text.

Each name is loaded when it is used: who only reads programs does not wait for what binds tensors to them.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.program.binding import Results, bind, collect, iteration_values
    from eigentensor.program.codec import decode, encode
    from eigentensor.program.cost import Cost, costs
    from eigentensor.program.model import (
        Body,
        Bounds,
        Buffer,
        Call,
        Instruction,
        Kind,
        Parameter,
        Program,
        ReduceRange,
        Result,
        Role,
        Variable,
    )
    from eigentensor.program.ops import DType, Op
    from eigentensor.program.validity import check
    from eigentensor.program.written import from_json, to_json

__all__ = [
    "Body",
    "Bounds",
    "Buffer",
    "Call",
    "Cost",
    "DType",
    "Instruction",
    "Kind",
    "Op",
    "Parameter",
    "Program",
    "ReduceRange",
    "Result",
    "Results",
    "Role",
    "Variable",
    "bind",
    "check",
    "collect",
    "costs",
    "decode",
    "encode",
    "from_json",
    "iteration_values",
    "to_json",
]

__getattr__ = loading(
    __name__,
    {
        "binding": "Results bind collect iteration_values",
        "codec": "decode encode",
        "cost": "Cost costs",
        "model": "Body Bounds Buffer Call Instruction Kind Parameter Program ReduceRange Result Role Variable",
        "ops": "DType Op",
        "validity": "check",
        "written": "from_json to_json",
    },
)
