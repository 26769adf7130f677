"""The portable program: data only, canonical, bounded, content-addressed. sdk/README.md is its normative text."""

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
