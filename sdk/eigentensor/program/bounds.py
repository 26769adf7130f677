"""The proof that indices are exact and loads stay inside: intervals of affine forms over ranges and variables.

What is known of an integer value is an interval and its *form*: a sum of multiples of *atoms*. Atoms are RANGE, VAR
and every operation that is not affine or may wrap around. A condition, in a guard or a WHERE, is a conjunction of
comparisons: AND, MUL and MIN of bools join; OR, ADD and MAX join where negated; CMPNE, CMPEQ, CMPLT and XOR with a
constant bool negate. CMPLT and CMPEQ of integers, and their negations, are *facts*: a form is at most a number.
Under a condition the intervals of everything that an index depends on are computed again, operands first: by the
operation, and by facts, each applied to a sub-sum that is a multiple of the fact's own form, the sub-sums disjoint.
A WHERE is the union of its branches, each under the condition or its negation. A load inside an empty range is safe.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from eigentensor.program import limits
from eigentensor.program.conditions import facts_of
from eigentensor.program.forms import CONTRADICTION, Fact, Form, atom, linear, under
from eigentensor.program.intervals import Interval, common, transfer, union, whole, within
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import COMPARISONS, NO_GUARD, REDUCTIONS, DType, Op

#: A form with more atoms is an atom itself.
TERMS = 40
#: So many values are looked at again under conditions, then no more. Real bodies need a few hundred.
STEPS = 4_000

_OPAQUE = REDUCTIONS | COMPARISONS | {Op.LOAD, Op.BITCAST}


class Proof(NamedTuple):
    """`extents` of the reduce ranges. The first index value beyond the limit and the first load that may leave its
    parameter, with what is known of the index; None where there is none."""

    extents: tuple[Interval, ...]
    overflow: tuple[int, Interval] | None
    outside: tuple[int, Interval] | None


@lru_cache(maxsize=256)
def prove(body: Body) -> Proof:
    """The proof for a body whose operands, types and order are valid."""
    prover = Prover(body)
    overflow = prover.run()
    extents = tuple(prover.box[r.extent] for r in body.reduce_ranges)
    return Proof(extents, overflow, None if overflow else prover.first_outside())


def steps_of(body: Body) -> list[int]:
    """The most steps that each reduction of a valid body takes."""
    most = [1] * body.reductions
    for r, (_, largest) in zip(body.reduce_ranges, prove(body).extents, strict=True):
        most[r.reduction] *= largest
    return most


class _Impossible(Exception):
    """A condition that cannot hold: what depends on it never happens."""


class Prover:
    """After `run`, for each instruction: `box`, what an integer can be, and `forms`, its affine form.

    `needed` are the instructions about which more is asked than their type says: by default what indices and guards
    depend on.
    """

    def __init__(self, body: Body, needed: Sequence[bool] | None = None) -> None:
        self.body = body
        self.instructions = body.instructions
        self.box: list[Interval] = []
        self.forms: list[Form[int]] = []
        self.empty: list[int] = []
        self.needed = needed or _needed(body)
        self.steps = 0

    def run(self) -> tuple[int, Interval] | None:
        """Fill box, forms and empty for all instructions; stop at an index that may be too large."""
        for n, i in enumerate(self.instructions):
            self.empty.append(self._empty(i))
            interval, form = self._value(n)
            self.box.append(interval)
            self.forms.append(form)
            if i.dtype is DType.INDEX and not within(interval, (-limits.INDEX, limits.INDEX)):
                self.box += [whole(later.dtype) for later in self.instructions[n + 1 :]]
                return n, interval
        return None

    def first_outside(self) -> tuple[int, Interval] | None:
        """The first LOAD that may leave its parameter, with what is known of its element; None if all are proven."""
        for n, i in enumerate(self.instructions):
            if i.op is Op.LOAD and not self.empty[i.b]:
                inside = (0, self.body.parameters[i.a].elements - 1)
                known: Interval | None = self.box[i.b]
                if i.c != NO_GUARD and not within(self.box[i.b], inside):
                    known = self._under(i.c, True, i.b)
                if known is not None and not within(known, inside):
                    return n, known
        return None

    def _empty(self, i: Instruction) -> int:
        """Which empty ranges a value is inside of: bit 0 for output ranges, bit 1 + k for those of reduction k."""
        bits = 0
        for value in i.values:
            bits |= self.empty[value]
        if i.op is Op.RANGE and self._extent(i.a) == 0:
            reduce = i.a - len(self.body.output_ranges)
            return 1 if reduce < 0 else 2 << self.body.reduce_ranges[reduce].reduction
        # outside of its reduction, that its ranges are empty says nothing: the result is the identity
        return bits & ~(2 << i.c) if i.op in REDUCTIONS else bits

    def _extent(self, number: int) -> int:
        outputs = len(self.body.output_ranges)
        if number < outputs:
            return self.body.output_ranges[number]
        return self.box[self.body.reduce_ranges[number - outputs].extent][1]

    def _value(self, n: int) -> tuple[Interval, Form[int]]:
        i, alone = self.instructions[n], atom(n)
        if i.op is Op.CONST:
            return (i.integer, i.integer), Form(i.integer)
        if i.op is Op.RANGE:
            return (0, max(0, self._extent(i.a) - 1)), alone
        if i.op is Op.VAR:
            return (self.body.variables[i.a].minimum, self.body.variables[i.a].maximum), alone
        if i.dtype.is_float or not self.needed[n]:
            return whole(i.dtype), alone
        if i.op in _OPAQUE or (i.op is Op.CAST and self.instructions[i.a].dtype.is_float):
            return whole(i.dtype), alone
        if i.op is Op.WHERE:
            return self._choice(n), alone
        operands = [self.box[v] for v in i.values]
        exact = transfer(i.op, i.dtype, *operands)
        if i.dtype is not DType.INDEX and not within(exact, whole(i.dtype)):
            return whole(i.dtype), alone
        form = None if i.dtype is DType.BOOL else self._form(n, operands)
        if form is None or len(form.terms) > TERMS or any(abs(c) > limits.INDEX for _, c in form.terms):
            return exact, alone
        return common(exact, form.interval(self.box)), form

    def _form(self, n: int, x: Sequence[Interval]) -> Form[int] | None:
        """The affine form of an operation that does not wrap; None if it has none."""
        i = self.instructions[n]
        f = [self.forms[v] for v in i.values]
        if i.op is Op.CAST:
            return f[0]
        if len(f) == 2 and (form := linear(i.op, *f)) is not None:
            return form
        if i.op in (Op.MAX, Op.MIN) and (x[0][0] >= x[1][1] or x[1][0] >= x[0][1]):
            return f[0] if (x[0][0] >= x[1][1]) == (i.op is Op.MAX) else f[1]
        if len(f) < 2 or f[1].terms:
            return None
        c = f[1].constant
        if i.op is Op.SHL:
            return f[0].times(1 << c) if 0 <= c <= 64 else None
        if i.op is Op.AND:
            # a mask of low bits is a remainder by a power of two, of negative numbers as well
            return self._divide(f[0], c + 1, True) if c >= 0 and c & (c + 1) == 0 else None
        if i.op is Op.SHR:
            return self._divide(f[0], 1 << c, False) if 0 <= c <= 64 else None
        # towards zero and towards −∞ are one where nothing is negative
        floors = i.op in (Op.FLOORDIV, Op.FLOORMOD) or x[0][0] >= 0
        if i.op in (Op.FLOORDIV, Op.FLOORMOD, Op.CDIV, Op.CMOD) and floors and c > 0:
            return self._divide(f[0], c, i.op in (Op.FLOORMOD, Op.CMOD))
        return None

    def _divide(self, form: Form[int], divisor: int, remainder: bool) -> Form[int] | None:
        """Quotient or remainder, if the terms that the divisor does not divide stay within one multiple of it."""
        quotient, rest = form.split(divisor)
        # the rest stays in one multiple: there the quotient is the same for all, and the remainder affine
        low, high = (end // divisor for end in rest.interval(self.box))
        if low != high:
            return None
        return rest.plus(Form(-low * divisor)) if remainder else quotient.plus(Form(low))

    def _choice(self, n: int) -> Interval:
        i = self.instructions[n]
        branches = [self._under(i.a, holds, value) for holds, value in ((True, i.b), (False, i.c))]
        possible = [branch for branch in branches if branch is not None]
        return union(*possible) if len(possible) == 2 else possible[0] if possible else whole(i.dtype)

    def _under(self, condition: int, holds: bool, target: int) -> Interval | None:
        """What `target` can be while the condition holds (or does not); None if that cannot be."""
        facts = facts_of(self.instructions, self.forms, condition, holds) if self.steps < STEPS else []
        if CONTRADICTION in facts:
            return None
        if not facts:
            return self.box[target]
        below = self._below(target)
        self.steps += len(below)
        known: dict[int, Interval] = {}
        try:
            for n in below:
                known[n] = self._again(n, known, facts)
        except _Impossible:
            return None
        return known[target]

    def _again(self, n: int, known: dict[int, Interval], facts: Sequence[Fact]) -> Interval:
        i = self.instructions[n]
        interval = self.box[n]
        if i.op not in _OPAQUE and i.values and all(v in known for v in i.values[i.op is Op.WHERE :]):
            operands = [known.get(v, (0, 1)) for v in i.values]
            exact = transfer(i.op, i.dtype, *operands)
            if i.dtype is DType.INDEX or within(exact, whole(i.dtype)):
                interval = common(interval, exact)
        form = self.forms[n]
        # an atom is its own form: facts about it apply to what has just been computed
        box = {**known, n: interval} if form == atom(n) else known
        interval = common(interval, under(form, facts, box))
        if interval[0] > interval[1]:
            raise _Impossible
        return interval

    def _below(self, target: int) -> list[int]:
        """The integer values that one depends on, down to those that nothing more can be known about, ascending."""
        values: set[int] = set()
        stack = [target]
        while stack:
            n = stack.pop()
            if n in values:
                continue
            values.add(n)
            stack.extend(value for value, _ in self.forms[n].terms)
            i = self.instructions[n]
            if i.op not in _OPAQUE and not any(self.instructions[v].dtype.is_float for v in i.values):
                stack.extend(i.values[i.op is Op.WHERE :])
        return sorted(values)


def _needed(body: Body) -> list[bool]:
    """Which values an index, or a guard of a load, depends on."""
    needed = [i.dtype is DType.INDEX for i in body.instructions]
    for i in body.instructions:
        if i.op is Op.LOAD and i.c != NO_GUARD:
            needed[i.c] = True
    for n in range(len(needed) - 1, -1, -1):
        i = body.instructions[n]
        if needed[n] and i.op is not Op.LOAD and i.op not in REDUCTIONS and not i.dtype.is_float:
            for value in i.values:
                needed[value] = True
    return needed
