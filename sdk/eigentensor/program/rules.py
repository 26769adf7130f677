"""What a validity rule is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from eigentensor.errors import RuleError

T = TypeVar("T")
#: Where a rule is broken, and how.
Breach = tuple[str, str]


class Rule(NamedTuple, Generic[T]):
    """A condition on programs or bodies. `breaches` yields what breaks it, nothing if it holds."""

    name: str
    sentence: str
    fix: str
    breaches: Callable[[T], Iterable[Breach]]


def rule(
    rules: list[Rule[T]], name: str, sentence: str, fix: str = ""
) -> Callable[..., Callable[[T], Iterable[Breach]]]:
    """Decorator that appends a function to a list of rules."""

    def add(breaches: Callable[[T], Iterable[Breach]]) -> Callable[[T], Iterable[Breach]]:
        rules.append(Rule(name, sentence, fix, breaches))
        return breaches

    return add


def enforce(rules: Sequence[Rule[T]], subject: T, prefix: str = "") -> None:
    """Raise RuleError for the first rule that is broken. A rule may rely on those before it."""
    for name, _, fix, breaches in rules:
        for where, what in breaches(subject):
            raise RuleError(name, prefix + where, what, fix=fix)
