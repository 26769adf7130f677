"""Affine forms over atoms, and facts that bound them: the arithmetic of the proof in `bounds`."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from eigentensor.program.intervals import Interval

#: Of the facts that fit a form, so many are tried.
FITTING = 8

#: Atom (the number of an instruction) and coefficient.
Term = tuple[int, int]
#: What is known of each atom.
Box = Sequence[Interval] | Mapping[int, Interval]


class Form(NamedTuple):
    """constant + Σ coefficient · atom, atoms ascending."""

    constant: int
    terms: tuple[Term, ...] = ()

    def plus(self, other: "Form", factor: int = 1) -> "Form":
        """self + factor·other"""
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        kept = tuple(sorted((atom, c) for atom, c in terms.items() if c))
        return Form(self.constant + factor * other.constant, kept)

    def times(self, factor: int) -> "Form":
        return Form(0).plus(self, factor)

    def interval(self, box: Box) -> Interval:
        """What the form can be if each atom is anywhere in its interval."""
        return -_most(self.times(-1).terms, -self.constant, box), _most(self.terms, self.constant, box)

    def under(self, facts: Sequence["Fact"], box: Box) -> Interval:
        """What the form can be if the facts hold, too."""
        return -self.times(-1)._highest(facts, box), self._highest(facts, box)

    def _highest(self, facts: Sequence["Fact"], box: Box) -> int:
        """The best of taking each fact first, and then the others where they help."""
        terms = dict(self.terms)
        best = _most(self.terms, self.constant, box)
        fitting = [fact for fact in facts if fact.times_in(terms)][:FITTING]
        for first in fitting:
            rest, total = dict(terms), self.constant
            for fact in (first, *fitting):
                times = fact.times_in(rest)
                if times and times * fact.most < _most([(atom, rest[atom]) for atom, _ in fact.terms], 0, box):
                    total += times * fact.most
                    for atom, _ in fact.terms:
                        del rest[atom]
            best = min(best, _most(rest.items(), total, box))
        return best


class Fact(NamedTuple):
    """Σ coefficient · atom ≤ most; without terms it contradicts itself."""

    terms: tuple[Term, ...]
    most: int

    def times_in(self, terms: Mapping[int, int]) -> int:
        """How many times some terms contain the fact's; 0 if they do not."""
        atom, coefficient = self.terms[0]
        times = terms.get(atom, 0) // coefficient
        return times if times > 0 and all(terms.get(x) == times * c for x, c in self.terms) else 0


CONTRADICTION = Fact((), -1)


def at_most(form: Form, most: int) -> list[Fact]:
    """form ≤ most, divided by what all coefficients have in common; nothing if that is no news."""
    if not form.terms:
        return [] if form.constant <= most else [CONTRADICTION]
    divisor = gcd(*(c for _, c in form.terms))
    return [Fact(tuple((atom, c // divisor) for atom, c in form.terms), (most - form.constant) // divisor)]


def _most(terms: Iterable[Term], constant: int, box: Box) -> int:
    return constant + sum(c * box[atom][c > 0] for atom, c in terms)
