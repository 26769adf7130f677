"""The game about a result, as pure functions: what a move makes of a position, and which move a side makes next.

Each name is loaded when it is used: where a game stands is known without what a trace is.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.dispute.differences import public_tensors
    from eigentensor.dispute.moves import (
        AskOutputs,
        ClaimBorders,
        Collect,
        Descend,
        Descent,
        Entry,
        JudgeCall,
        JudgeFinal,
        JudgeResult,
        JudgeSpan,
        Move,
        PickCall,
        PickNode,
        PickReduction,
        PickSpan,
        Publish,
        ShowLeaf,
        ShowOutputs,
        Verdict,
    )
    from eigentensor.dispute.position import FINAL, Outcome, Phase, Position, Reason, Side, deadline_of
    from eigentensor.dispute.published import Published
    from eigentensor.dispute.refusal import refuse
    from eigentensor.dispute.rules import apply
    from eigentensor.dispute.strategy import Keep, Knowledge, next_move

__all__ = [
    "FINAL",
    "AskOutputs",
    "ClaimBorders",
    "Collect",
    "Descend",
    "Descent",
    "Entry",
    "JudgeCall",
    "JudgeFinal",
    "JudgeResult",
    "JudgeSpan",
    "Keep",
    "Knowledge",
    "Move",
    "Outcome",
    "Phase",
    "PickCall",
    "PickNode",
    "PickReduction",
    "PickSpan",
    "Position",
    "Publish",
    "Published",
    "Reason",
    "ShowLeaf",
    "ShowOutputs",
    "Side",
    "Verdict",
    "apply",
    "deadline_of",
    "next_move",
    "public_tensors",
    "refuse",
]

__getattr__ = loading(
    __name__,
    {
        "differences": "public_tensors",
        "moves": (
            "AskOutputs ClaimBorders Collect Descend Descent Entry JudgeCall JudgeFinal JudgeResult "
            "JudgeSpan Move PickCall PickNode PickReduction PickSpan Publish ShowLeaf ShowOutputs Verdict"
        ),
        "position": "FINAL Outcome Phase Position Reason Side deadline_of",
        "published": "Published",
        "refusal": "refuse",
        "rules": "apply",
        "strategy": "Keep Knowledge next_move",
    },
)
