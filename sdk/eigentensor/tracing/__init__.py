"""What both players of a dispute need: the trace of an execution, and the witness of any one step of it."""

from eigentensor.tracing.execution import Execute, Execution, outputs_of, retrace
from eigentensor.tracing.hashes import Hashes
from eigentensor.tracing.observed import observed_by
from eigentensor.tracing.proof import Claim, check_witness, claim_of
from eigentensor.tracing.step import Element, Point
from eigentensor.tracing.witness import Witness, evaluate_step, witness_of

__all__ = [
    "Claim",
    "Element",
    "Execute",
    "Execution",
    "Hashes",
    "Point",
    "Witness",
    "check_witness",
    "claim_of",
    "evaluate_step",
    "observed_by",
    "outputs_of",
    "retrace",
    "witness_of",
]
