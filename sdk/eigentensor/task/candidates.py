"""Who may answer a drawn task. Pure; `Answers` in Answers.sol holds verifiers to the same."""

from collections.abc import Iterable, Iterator

#: Indices that are drawn for each verifier that is paid.
DRAWS = 16


def candidates(drawn: Iterable[tuple[str, int]], executor: str, committed_at: int) -> Iterator[tuple[int, str]]:
    """The operators that may answer, each with the lowest index of its seats, in the order of the indices.

    From the operator of each drawn seat, by index, and the block since which it has it (a zero one: nobody's), of which
    no more is read than is asked for. Later ones are fewer: a seat that loses the right to answer a task never gets it
    back.
    """
    seen: set[str] = set()
    for index, (operator, since) in enumerate(drawn):
        if int(operator, 16) == 0 or since >= committed_at or operator == executor or operator in seen:
            continue
        seen.add(operator)
        yield index, operator
