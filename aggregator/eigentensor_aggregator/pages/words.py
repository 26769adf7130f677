"""Words and tones of what pages show of tasks, games and operators. Pure."""

from eigentensor.task import Life, State, words

#: How a state looks: what goes on is live, an end is as good as it is for who paid.
_TONES = {
    State.FINAL: "quiet",
    State.CONVICTED: "bad",
    State.EXPIRED: "warn",
    State.FAILED: "warn",
    State.CANCELLED: "quiet",
}
#: Why an operator declines, by the word that it gives.
REASONS = {
    "price": "the price is too low",
    "exec": "too few blocks to execute it in",
    "busy": "it is busy with other tasks",
    "deadline": "too few blocks are left to accept it",
    "lifetime": "its stake might leave before the task ends",
    "stake": "it has too little free stake",
    "stake_cap": "its signer may not lock so much stake",
    "collateral": "its balance is too small for the collateral",
    "cap": "its signer may not hold so much collateral",
    "seats": "too few others are enlisted to check it",
    "cluster": "its cluster does not answer",
    "core": "EigenLayer cannot slash at present",
    "chain": "the chain refused the acceptance",
    "draining": "it accepts nothing any more",
    "membership": "it is no member, or has no signer",
    "device": "its device is out of service",
    "admission": "the order names other operators",
    "data": "program or tensors are not at the gateway",
    "program": "the program is not valid",
    "dispute": "no dispute can be about one of its steps",
    "bindings": "tensors or variables do not fit the program",
    "trial": "the program failed when it was tried",
    "execution": "its execution failed",
    "work": "too much work",
    "memory": "too much memory",
    "compile": "it takes too long to compile",
    "semantics": "a version of the semantics that it does not know",
    "silent": "it has said nothing",
    "accepted": "it accepted",
}


def tone(life: Life) -> str:
    """The tone of the badge of a task's state."""
    if life.state is State.FINAL and life.agreed:
        return "good"
    if life.state is State.REVEALED and life.open_games:
        return "warn"
    return _TONES.get(life.state, "live")


def standing(life: Life) -> str:
    """The state in words, as everywhere."""
    return words.standing(life.counts)


def checks(life: Life) -> str:
    """What became of the check, or what is asked for, in one word or two."""
    order = life.order
    if life.answers:
        return f"{life.agreed} of {len(life.answers)} agree" if life.outputs_root else f"{len(life.answers)} answered"
    if life.drawn is not None:
        return "drawn" if life.drawn else "not drawn"
    return f"{percent(order.check_rate)} of {order.verifiers}"


def percent(rate: int) -> str:
    """A rate in WAD, to three digits."""
    return f"{rate / 10**16:.3g} %"


def reason(word: str) -> str:
    """Why an operator declined, in words; its own word where it is none of ours."""
    return REASONS.get(word, word)
