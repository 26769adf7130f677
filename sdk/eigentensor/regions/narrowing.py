"""What facts leave of where the integers of a body can be, and which facts quotients and remainders add to them."""

from collections.abc import Iterator, Mapping, Sequence

from eigentensor.program.bounds import Prover
from eigentensor.program.forms import Fact, Form, at_most, atom, under
from eigentensor.program.intervals import Interval, common
from eigentensor.program.ops import DType, Op

#: How often all facts are used again; each time they can only tell more.
ROUNDS = 4
#: How many multiples of a divisor are ruled out, one by one, from each end of where a dividend can be.
PROBES = 4


def narrow(box: list[Interval], facts: Sequence[Fact]) -> bool:
    """Narrows what each value can be while all facts hold; False if they cannot."""
    for _ in range(ROUNDS):
        same = True
        for terms, most in facts:
            least = [min(c * box[value][0], c * box[value][1]) for value, c in terms]
            room = most - sum(least)
            if room < 0:
                return False
            for (value, c), own in zip(terms, least, strict=True):
                bound = (own + room) // c if c > 0 else -((own + room) // -c)
                limit = (box[value][0], bound) if c > 0 else (bound, box[value][1])
                if (narrowed := common(box[value], limit)) != box[value]:
                    same = False
                    box[value] = narrowed
                    if narrowed[0] > narrowed[1]:
                        return False
        if same:
            break
    return True


def meanings(prover: Prover) -> list[Fact]:
    """What quotients, maxima and minima of affine forms say about these."""
    facts: list[Fact] = []
    for n, i in enumerate(prover.instructions):
        if prover.forms[n] != atom(n) or len(i.values) < 2 or i.dtype.is_float:
            continue
        value, (a, b) = prover.forms[n], (prover.forms[v] for v in i.values[:2])
        if i.op is Op.FLOORDIV and not b.terms and b.constant > 0:
            facts += at_most(value.times(b.constant).plus(a, -1), 0)
            facts += at_most(a.plus(value, -b.constant), b.constant - 1)
        elif i.op in (Op.MAX, Op.MIN) and i.dtype is not DType.BOOL:
            sign = 1 if i.op is Op.MAX else -1
            facts += [fact for x in (a, b) for fact in at_most(x.plus(value, -1).times(sign), 0)]
    return facts


def quotients(prover: Prover, known: Sequence[Fact]) -> list[Fact]:
    """What facts that bound a dividend as a whole leave of its quotient: more than what bounds each of its parts."""
    facts, longest = list[Fact](), _longest([fact for fact in known if fact.terms])
    for n, i in enumerate(prover.instructions):
        if i.op is not Op.FLOORDIV or i.dtype.is_float or prover.forms[n] != atom(n):
            continue
        x, divisor = (prover.forms[v] for v in i.values)
        if not divisor.terms and divisor.constant > 0:
            low, high = (end // divisor.constant for end in under(x, longest, prover.box))
            facts += at_most(prover.forms[n], high) + at_most(prover.forms[n].times(-1), -low)
    return facts


def settled(prover: Prover, known: Sequence[Fact]) -> dict[int, Form[int]]:
    """Quotients that can be but one number where some facts hold, and remainders that are a difference there.

    By number of instruction, each as a form of others.
    """
    facts, forms, box = list(known), dict[int, Form[int]](), list(prover.box)
    for n, i in enumerate(prover.instructions):
        if i.op not in (Op.FLOORDIV, Op.FLOORMOD) or i.dtype.is_float or prover.forms[n] != atom(n):
            continue
        x, divisor = (prover.forms[v] for v in i.values)
        if divisor.terms or divisor.constant <= 0 or not narrow(box, facts):
            continue
        if i.op is Op.FLOORMOD:
            x = _congruent(x, divisor.constant)
        if (times := quotient(x, divisor.constant, facts, box)) is not None:
            forms[n] = x.plus(Form(-times * divisor.constant)) if i.op is Op.FLOORMOD else Form(times)
            facts += equal(prover.forms[n], forms[n])
    return forms


def replaced(form: Form[int], meant: Mapping[int, Form[int]]) -> Iterator[Form[int]]:
    """A form, then with others for those of its atoms that are meant to be these, as often as there are any."""
    while True:
        yield form
        terms = [(value, c) for value, c in form.terms if value in meant]
        if not terms:
            return
        for value, c in terms:
            form = form.without(value).plus(meant[value], c)


def equal(a: Form[int], b: Form[int]) -> list[Fact]:
    """The facts that two forms are one number: each is at most the other."""
    return at_most(a.plus(b, -1), 0) + at_most(b.plus(a, -1), 0)


def _congruent(x: Form[int], divisor: int) -> Form[int]:
    """A form with the same remainder, whose coefficients are as close to zero as can be."""
    half = (divisor - 1) // 2
    terms = ((value, (c + half) % divisor - half) for value, c in x.terms)
    return Form(x.constant, tuple((value, c) for value, c in terms if c))


def quotient(x: Form[int], divisor: int, facts: Sequence[Fact], box: Sequence[Interval]) -> int | None:
    """The quotient of a form, if facts that do not contradict themselves leave one.

    Those that the bounds of the form leave are held to the facts, one by one.
    """
    low, high = (end // divisor for end in under(x, _longest(facts), box))
    for _ in range(PROBES):
        if low < high and not narrow(list(box), [*facts, *at_most(x, (low + 1) * divisor - 1)]):
            low += 1
        if low < high and not narrow(list(box), [*facts, *at_most(x.times(-1), -high * divisor)]):
            high -= 1
    return low if low == high else None


def _longest(facts: Sequence[Fact]) -> list[Fact]:
    """What bounds a sum says more than what bounds its parts, and `under` tries a few facts."""
    return sorted(set(facts), key=lambda fact: (-len(fact.terms), fact))
