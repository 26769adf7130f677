"""Affine forms: the one algebra of indices, for proofs, lowering, kernels and runs that compute what has changed.

A form is a sum of multiples of atoms. What an atom is, its user says: the number of an instruction in a body, a node of
an expression, a product of nodes. Facts bound forms over instructions.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import gcd
from typing import Generic, NamedTuple, Protocol, TypeVar

from eigentensor.program.intervals import Interval
from eigentensor.program.ops import Op

#: Of the facts that fit a form, so many are tried.
FITTING = 8

A = TypeVar("A", bound=Hashable)
Of = TypeVar("Of", contravariant=True)
#: Number of an instruction and coefficient.
Term = tuple[int, int]


class Box(Protocol[Of]):
    """What is known of each atom."""

    def __getitem__(self, atom: Of, /) -> Interval: ...


class Form(NamedTuple, Generic[A]):
    """constant + Σ coefficient · atom: no coefficient is zero, atoms stand in the order in which they were added."""

    constant: int
    terms: tuple[tuple[A, int], ...] = ()

    def plus(self, other: "Form[A]", factor: int = 1) -> "Form[A]":
        """self + factor·other"""
        if not other.terms:
            return Form(self.constant + factor * other.constant, self.terms)
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        kept = tuple((atom, c) for atom, c in terms.items() if c)
        return Form(self.constant + factor * other.constant, kept)

    def times(self, factor: int) -> "Form[A]":
        """factor · self"""
        if not factor:
            return Form(0)
        return Form(self.constant * factor, tuple((atom, c * factor) for atom, c in self.terms))

    def coefficient(self, atom: A) -> int:
        """How often an atom is in the sum; 0 if it is not."""
        return dict(self.terms).get(atom, 0)

    def without(self, *atoms: A) -> "Form[A]":
        """The sum of all other terms."""
        return Form(self.constant, tuple(term for term in self.terms if term[0] not in atoms))

    def split(self, divisor: int) -> tuple["Form[A]", "Form[A]"]:
        """The quotient of all that a divisor divides, and what else there is."""
        whole = tuple((atom, c // divisor) for atom, c in self.terms if c % divisor == 0)
        rest = tuple((atom, c) for atom, c in self.terms if c % divisor)
        if self.constant % divisor:
            return Form(0, whole), Form(self.constant, rest)
        return Form(self.constant // divisor, whole), Form(0, rest)

    def __divmod__(self, divisor: int) -> tuple["Form[A]", "Form[A]"]:
        """Quotients and remainders of all coefficients: self is divisor · the first + the second."""
        quotient = tuple((atom, c // divisor) for atom, c in self.terms if c // divisor)
        remainder = tuple((atom, c % divisor) for atom, c in self.terms if c % divisor)
        return Form(self.constant // divisor, quotient), Form(self.constant % divisor, remainder)

    def interval(self, box: Box[A]) -> Interval:
        """What the form can be if each atom is anywhere in its interval."""
        low = high = self.constant
        for atom, c in self.terms:
            least, most = box[atom]
            low += c * (least if c > 0 else most)
            high += c * (most if c > 0 else least)
        return low, high


class Bound(NamedTuple, Generic[A]):
    """form ≤ most"""

    form: Form[A]
    most: int

    def of(self, form: Form[A]) -> int | None:
        """What it says that a form is at most; None if it is about another."""
        other = self.form.plus(form, -1)
        return None if other.terms else self.most - other.constant


def atom(of: A) -> Form[A]:
    """The form that is one atom."""
    return Form(0, ((of, 1),))


def linear(op: Op, a: Form[A], b: Form[A]) -> Form[A] | None:
    """The form of a sum, a difference, or a product with a constant, exactly; None for anything else."""
    if op in (Op.ADD, Op.SUB):
        return a.plus(b, 1 if op is Op.ADD else -1)
    if op is Op.MUL and not (a.terms and b.terms):
        return a.times(b.constant) if a.terms else b.times(a.constant)
    return None


def recombined(form: Form[A], halves: Callable[[A], Iterable[tuple[A, int, Form[A]]]]) -> Form[A]:
    """With c·x for each c·n·(x // n) + c·(x % n): of an atom x % n, `halves` has x // n, n, and the form of x."""
    for atom, c in form.terms:
        for quotient, divisor, whole in halves(atom):
            if form.coefficient(quotient) == c * divisor:
                return recombined(form.without(atom, quotient).plus(whole, c), halves)
    return form


class Fact(NamedTuple):
    """Σ coefficient · atom ≤ most, atoms ascending; without terms it contradicts itself."""

    terms: tuple[Term, ...]
    most: int

    def times_in(self, terms: Mapping[int, int]) -> int:
        """How many times some terms contain the fact's; 0 if they do not."""
        atom, coefficient = self.terms[0]
        times = terms.get(atom, 0) // coefficient
        return times if times > 0 and all(terms.get(x) == times * c for x, c in self.terms) else 0


CONTRADICTION = Fact((), -1)


def at_most(form: Form[int], most: int) -> list[Fact]:
    """form ≤ most, divided by what all coefficients have in common; nothing if that is no news."""
    if not form.terms:
        return [] if form.constant <= most else [CONTRADICTION]
    # The left side is a multiple of the divisor, so the right side is rounded down: 2·i ≤ 5 says i ≤ 2.
    divisor = gcd(*(c for _, c in form.terms))
    return [Fact(tuple(sorted((atom, c // divisor) for atom, c in form.terms)), (most - form.constant) // divisor)]


def under(form: Form[int], facts: Sequence[Fact], box: Box[int]) -> Interval:
    """What a form can be if the facts hold, too."""
    # the least value is the highest of the negative form: one search for both ends
    return -_highest(form.times(-1), facts, box), _highest(form, facts, box)


def _highest(form: Form[int], facts: Sequence[Fact], box: Box[int]) -> int:
    """The best of taking each fact first, and then the others where they help."""
    terms = dict(form.terms)
    best = form.interval(box)[1]
    fitting = [fact for fact in facts if fact.times_in(terms)][:FITTING]
    for first in fitting:
        rest, total = dict(terms), form.constant
        for fact in (first, *fitting):
            times = fact.times_in(rest)
            # a fact replaces its terms only if it says less than their intervals do
            if times and times * fact.most < _most([(atom, rest[atom]) for atom, _ in fact.terms], box):
                total += times * fact.most
                for atom, _ in fact.terms:
                    del rest[atom]
        best = min(best, total + _most(rest.items(), box))
    return best


def _most(terms: Iterable[Term], box: Box[int]) -> int:
    return sum(c * box[atom][c > 0] for atom, c in terms)
