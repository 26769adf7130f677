"""What a market's windows leave its operators: blocks for transactions, and how long one may be away. Pure."""

from eigentensor.economics.terms import Parameters, check_window, clock, reveal_window

#: Blocks of `exec` without which nobody can execute in time: one to see the acceptance, one for the commit.
LEAST_RESERVE = 2
#: Blocks of `exec` that operators keep for their transactions where the market has as many to spare.
RESERVE = 3
#: The shortest `exec` in which an operator can do anything: a block to execute, and those for transactions.
LEAST_EXEC = LEAST_RESERVE + 1


def reserve(p: Parameters) -> int:
    """What operators keep of `exec` for transactions unless they say otherwise: one block is left to execute, if any
    can be."""
    return max(LEAST_RESERVE, min(RESERVE, p.max_exec - 1))


def outage(p: Parameters) -> int:
    """The shortest time, in blocks, in which an operator that is away may be convicted: it cannot reveal a drawn task,
    or a game's or a demand's clock runs out that had not run before. Being away for less convicts nobody."""
    to_reveal = reveal_window(p, p.max_exec) - check_window(p, p.max_exec)
    return min(to_reveal, clock(p, 1))
