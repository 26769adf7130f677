"""What both players of a dispute need: the trace of an execution, and the witness of any one step of it."""

from eigentensor.tracing.execution import Compute, Execute, Execution, Flat, Retrace, outputs_of, retrace
from eigentensor.tracing.hashes import Claimed, Hashes, Nodes, Opened
from eigentensor.tracing.proof import Claim, check_call, check_witness, claim_of, collected, evaluate_step, implied
from eigentensor.tracing.shown import CallProof, CollectProof, Kernel, ResultProof, Witness
from eigentensor.tracing.step import Element, Point
from eigentensor.tracing.witness import kernel_of, prove_call, prove_outputs, prove_result, witness_of

__all__ = [
    "CallProof",
    "Claim",
    "Claimed",
    "CollectProof",
    "Compute",
    "Element",
    "Execute",
    "Execution",
    "Flat",
    "Hashes",
    "Kernel",
    "Nodes",
    "Opened",
    "Point",
    "ResultProof",
    "Retrace",
    "Witness",
    "check_call",
    "check_witness",
    "claim_of",
    "collected",
    "evaluate_step",
    "implied",
    "kernel_of",
    "outputs_of",
    "prove_call",
    "prove_outputs",
    "prove_result",
    "retrace",
    "witness_of",
]
