"""The portable program: data only, canonical, bounded, content-addressed. sdk/README.md is its normative text."""

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

__all__ = [
    "Body",
    "Bounds",
    "Buffer",
    "Call",
    "DType",
    "Instruction",
    "Kind",
    "Op",
    "Parameter",
    "Program",
    "ReduceRange",
    "Result",
    "Role",
    "Variable",
]
