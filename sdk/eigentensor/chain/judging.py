"""What a referee was asked in the message that ended a game, as the chain has it."""

from eigentensor.chain.contracts import Contract
from eigentensor.chain.node import Node
from eigentensor.chain.transactions import read_transaction
from eigentensor.dispute.judged import JUDGING, Judged, judged
from eigentensor.dispute.position import Position
from eigentensor.task.events import Ended


def judgement(contract: Contract, data: bytes) -> Judged | None:
    """The step that a message to `DisputeGame` had judged, by its calldata; None for other messages.

    Raises DisputeError and ChainError for calldata that no contract has taken.
    """
    for name in JUDGING:
        function = contract.function(name)
        if data.startswith(function.selector):
            _, words, *arguments = function.arguments(data)
            return judged(Position.unpack(words), name, arguments)
    return None


def judgement_of(node: Node, ended: Ended) -> Judged | None:
    """The step with which a game ended; None where it ended otherwise, or its message came through another contract.

    Raises ChainError where the node does not have the transaction.
    """
    transaction = read_transaction(node.transaction(ended.place.transaction))
    return judgement(node.disputes, transaction.data) if transaction.to == node.disputes.address else None
