"""The words of a contract's refusals: by the error's name, with its arguments by theirs.

An error that is not here is spelled out as its name says.
"""

from collections.abc import Mapping
from typing import Any

from eigentensor.dispute.position import Phase
from eigentensor.task.state import State

#: By the error's name.
WORDS = {
    "AcceptanceOver": "the order could be accepted until block {acceptBy}",
    "ActivelyDelegated": "the account has delegated its stake to an operator",
    "AlreadyAnswered": "operator {operator} has answered for this task before",
    "AlreadyDemanded": "the client has demanded leaves of this task before",
    "AlreadyOpened": "slot {slot} of the task is opened already",
    "AlreadyPosted": "the order is a task already",
    "AlreadySlashed": "the executor of the task is slashed already",
    "AnswersOver": "nobody is left that may answer",
    "ClockNotOver": "the clock has {left} blocks, of which {passed} are over",
    "ClockOver": "the clock had {left} blocks, and {passed} are over",
    "CollateralCapExceeded": "operator {operator} holds {inUse} wei, and may hold {cap}: {added} more are too many",
    "CurrentlyPaused": "EigenLayer has paused this",
    "ERC20InsufficientAllowance": "{spender} may take {allowance} wei of the account's tokens, not {needed}",
    "ERC20InsufficientBalance": "{sender} has {balance} wei of the token, not {needed}",
    "GamesOpen": "{count} games about the result are not decided",
    "InsufficientBalance": "{account} has {balance} wei in the market, not {needed}",
    "InsufficientStake": "operator {operator} has {free} shares of stake that nothing holds, not {shares}",
    "LengthMismatch": "a list has {actual} items where {expected} are needed",
    "LockNotOver": "the stake is locked until block {end}",
    "LockOver": "the stake was locked until block {end}",
    "NoSeed": "the seed of block {seedBlock} is not recorded",
    "NotAMember": "{operator} is not in the market's operator set",
    "NotASeedBlock": "block {blockNumber} is no seed block",
    "NotAdmitted": "the order does not admit operator {operator}",
    "NotDrawn": "the task was not drawn for a check",
    "NotEnoughSeats": "others have {seats} seats to check the task from, and {needed} are needed",
    "NotTheClient": "the order is {client}'s, not {caller}'s",
    "NotTheExecutor": "the task is {executor}'s, not {operator}'s",
    "NotTheOperator": "{caller} does not act for operator {operator}",
    "NotThePlayer": "the move is {player}'s, not {sender}'s",
    "NotTheSigner": "{caller} is not the signer {signer}",
    "NotYourSeat": "seat {seat} is not one from which {operator} may answer",
    "NothingNoted": "nothing waits to be paid of slash {slashId}",
    "NothingToSettle": "nothing is due to slot {slot} of the task",
    "OutlivesStake": "the task lives for {blocks} blocks, stake can be slashed for {delay}",
    "SeatsCovered": "the stake of {operator} covers its seats",
    "SeatsNotCovered": "the seats of {operator} need {needed} wei of stake, and {stake} can be slashed",
    "StakeCapExceeded": "{locked} shares of {operator} are locked, of {cap} that may be: {shares} more are too many",
    "TooEarly": "this can be sent after block {after_}",
    "TooLate": "this could be sent until block {by}",
    "WrongCheckFee": "a fee of {checkFee} wei for a check is not between {floor} and {limit}",
    "WrongCheckRate": "a check rate of {checkRate} is not between {floor} and {limit}",
    "WrongExec": "{exec} blocks for the execution are not between 1 and {maxExec}",
    "WrongHeader": "this is not the header of block {blockNumber}",
    "WrongPhase": "the game waits for another move: it is in its phase {actual}, this is one of {expected}",
    "WrongPosition": "game {gameId} stands elsewhere",
    "WrongPrices": "the prices {minPrice} and {maxPrice} wei are not in order, or not below {limit}",
    "WrongState": "the task is {actual}, and this takes one that is {expected}",
    "WrongValueAtRisk": "a value at risk of {valueAtRisk} wei is above {limit}",
    "WrongVerifiers": "{verifiers} verifiers are not between 1 and {limit}",
}
_KINDS: Mapping[str, type[State] | type[Phase]] = {"WrongState": State, "WrongPhase": Phase}


def words_of(name: str, arguments: Mapping[str, Any]) -> str:
    """An error with these arguments in words; empty where its name is enough."""
    if (kind := _KINDS.get(name)) is not None:
        known = {int(member): member.name.lower() for member in kind}
        arguments = {
            key: known.get(value, value) if key in ("expected", "actual") else value for key, value in arguments.items()
        }
    return WORDS[name].format(**arguments) if name in WORDS else ""
