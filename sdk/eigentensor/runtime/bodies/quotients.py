"""Forms that are divided by constants: what they are a multiple of, and what they can be where facts hold."""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from eigentensor.program.forms import Box, Form
from eigentensor.program.intervals import Interval


class Least(NamedTuple):
    """form ≥ least"""

    form: Form[int]
    least: int

    def times_in(self, form: Form[int]) -> int:
        """How many times another form holds this one, so that none of its terms changes its sign."""
        return min(form.coefficient(of) // c if form.coefficient(of) * c > 0 else 0 for of, c in self.form.terms)

    def gain(self, box: Box[int]) -> int:
        """By how much it says more than is known of its atoms."""
        return self.least - self.form.interval(box)[0]


def within(form: Form[int], facts: Sequence[Least], box: Box[int]) -> Interval:
    """What a form can be where the facts hold; they need not be used as well as could be."""
    news = [fact for fact in facts if fact.form.terms and fact.gain(box) > 0]
    # its greatest value is the opposite of the least of its opposite: one search for both ends
    return _least(form, news, box), -_least(form.times(-1), news, box)


def _least(form: Form[int], facts: Sequence[Least], box: Box[int]) -> int:
    """Takes those facts first that say most, each as often as the form holds it, and intervals for what is left."""
    best, rest = 0, form
    for fact in sorted(facts, key=lambda fact: -fact.times_in(form) * fact.gain(box)):
        if (times := fact.times_in(rest)) > 0:
            best += times * fact.least
            rest = rest.plus(fact.form, -times)
    return best + rest.interval(box)[0]


def coarsest(form: Form[int], size: int, box: Box[int]) -> tuple[int, Form[int], Form[int]]:
    """(unit, coarse, fine): the form is unit · coarse + fine, size is a multiple of the unit, and fine less than that.

    form // size is then coarse // (size / unit), and form % size is unit · (coarse % (size / unit)) + fine.
    """
    for unit in sorted({gcd(size, c) for _, c in form.terms} - {1}, reverse=True):
        coarse, fine = divmod(form, unit)
        low, high = fine.interval(box)
        if low >= 0 and high < unit:
            return unit, coarse, fine
    return 1, form, Form(0)
