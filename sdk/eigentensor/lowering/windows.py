"""Sums over the windows that an element lies in, which gradients of convolutions and pools are, without empty steps.

tinygrad lays windows out by repeating an axis: element i of repetition r is number F = n·r + i of a row, which is read
as element F % m of window F // m, with m a little more than n. The gradient adds up all r, under conditions that most
do not fulfil. F is m·Q + T, here with Q = r and T = i − (m − n)·r: where only F % m < f counts and T is small enough,
F // m is Q, F % m is T, and 0 ≤ T. What then bounds a counter alone makes its loop shorter; of a counter that has to
fit modulo a stride, the steps between are left out; a sum of sums becomes one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from eigentensor.lowering.constants import constant
from eigentensor.lowering.indices import Sum, affine, divisor_of, simplify, sum_interval, written
from eigentensor.lowering.kernel import fresh_axis, index, less, where
from eigentensor.lowering.passes import conjuncts, free_axes, guarded, substitute
from eigentensor.program.expression import (
    Axis,
    Node,
    binary,
    conjunction,
    const,
    counter,
    factors,
    load,
    reduction,
    rewrite,
    walk,
)
from eigentensor.program.forms import Bound, Form, atom
from eigentensor.program.intervals import Interval
from eigentensor.program.ops import DType, Op

SUMS = (Op.REDUCE_ADD, Op.REDUCE_MULACC)
TRUE, FALSE = const(DType.BOOL, 1), const(DType.BOOL, 0)


def gathered(value: Node) -> Node:
    """The expression with such sums written anew. A sum alone keeps its bits; one that takes up another may not."""
    if not any(n.op is Op.FLOORMOD for n in walk(value)):
        return value
    return rewrite(value, lambda n: _gathered(n) if n.op in SUMS else n)


def _gathered(n: Node) -> Node:
    if not _is_constant(n):
        return n
    known = _independent(dict.fromkeys(_conditions(n)))
    steps = _split(n.arg, tuple(_where(factor, set(known)) for factor in factors(n)), known)
    fewer = _rewritten(steps)
    return n if fewer is steps else _sum(n.op, fewer)


# ---- What is known where a term is not +0 ----


def _conditions(term: Node) -> list[Node]:
    """Conditions that hold wherever a term, or a step of a sum, is not +0."""
    if term.op is Op.WHERE and term.src[2] is constant(term.dtype, 0):
        return [*_each(term.src[0]), *_conditions(term.src[1])]
    if term.op is Op.LOAD and len(term.src) == 2:
        return _each(term.src[1])
    if term.op in SUMS:
        first, *others = map(_conditions, factors(term))
        return [c for c in first if all(c in other for other in others)]
    return []


def _independent(conditions: Iterable[Node]) -> list[Node]:
    """The conditions without those that follow from the others."""
    known = list(conditions)
    for c in known.copy():
        if _where(c, set(known) - {c}) is TRUE:
            known.remove(c)
    return known


def _each(condition: Node) -> list[Node]:
    every = conjuncts(condition)
    return [n for n in walk(condition) if n in every]


def _where(term: Node, known: set[Node]) -> Node:
    """A term as it is where conditions hold."""

    def change(n: Node) -> Node:
        if n in known:
            return TRUE
        if n.op in (Op.AND, Op.OR) and n.dtype is DType.BOOL:
            nothing, all_ = (TRUE, FALSE) if n.op is Op.AND else (FALSE, TRUE)
            left = [s for s in n.src if s is not nothing]
            return all_ if all_ in left else n if len(left) == 2 else left[0] if left else nothing
        if n.op is Op.CMPNE and n.src[0] in (TRUE, FALSE) and n.src[1] is TRUE:
            return FALSE if n.src[0] is TRUE else TRUE
        if n.op is Op.WHERE and n.src[0] in (TRUE, FALSE):
            return n.src[1] if n.src[0] is TRUE else n.src[2]
        return load(n.arg, n.src[0]) if n.op is Op.LOAD and n.src[1:] == (TRUE,) else n

    return rewrite(term, change)


def _holds(bound: Bound[Node]) -> bool:
    """Whether it is no news."""
    return sum_interval(bound.form)[1] <= bound.most


def _condition(bound: Bound[Node]) -> Node:
    """What is true where it holds: a comparison without negative factors."""
    over = Form(0, tuple(term for term in bound.form.terms if term[1] > 0))
    return less(written(over), written(over.plus(bound.form, -1).plus(Form(bound.most + 1))))


def _put(bound: Bound[Node], changes: Mapping[Node, Node]) -> Bound[Node]:
    """The same of other nodes."""
    return Bound(affine(simplify(substitute(written(bound.form), changes))), bound.most)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a sum: its loops, and its terms where `bounds` and `others` hold; elsewhere all terms are +0."""

    axes: tuple[Axis, ...]
    terms: tuple[Node, ...]
    bounds: tuple[Bound[Node], ...]
    others: tuple[Node, ...]

    def put(self, changes: Mapping[Node, Node], axes: Mapping[Axis, Axis] = MappingProxyType({})) -> "Steps":
        """The same of other nodes, over other loops."""
        terms, others = (tuple(simplify(substitute(n, changes)) for n in nodes) for nodes in (self.terms, self.others))
        bounds = tuple(_put(b, changes) for b in self.bounds)
        return Steps(tuple(axes.get(axis, axis) for axis in self.axes), terms, bounds, others)

    def divisions(self) -> list[Node]:
        """Quotients and remainders by constants, those first that others do not contain."""
        forms = [of for b in self.bounds for of, _ in b.form.terms]
        return [n for n in walk(*forms, *self.terms, *self.others) if divisor_of(n) > 0]

    def interval(self, form: Sum) -> Interval:
        """What a form can be where a step counts."""
        low, high = sum_interval(form)
        up, down = self.most(form), self.most(form.times(-1))
        return max(low, low if down is None else -down), min(high, high if up is None else up)

    def news(self) -> list[Bound[Node]]:
        """The bounds that say something which no other one does."""
        kept: list[Bound[Node]] = []
        for b in sorted(self.bounds, key=lambda b: b.most - b.form.constant):
            if not _holds(b) and not any(of.of(b.form) is not None for of in kept):
                kept.append(b)
        return kept

    def most(self, form: Sum) -> int | None:
        """What the bounds say that a form is at most."""
        return min((most for b in self.bounds if (most := b.of(form)) is not None), default=None)


def _split(axes: tuple[Axis, ...], terms: tuple[Node, ...], conditions: Iterable[Node]) -> Steps:
    bounds: list[Bound[Node]] = []
    others: list[Node] = []
    for c in conditions:
        is_negated = c.op is Op.CMPNE and c.src[1] is TRUE
        inner = c.src[0] if is_negated else c
        if inner.op is not Op.CMPLT or inner.src[0].dtype is not DType.INDEX:
            others.append(c)
            continue
        a, b = map(affine, inner.src)
        bounds.append(Bound(b.plus(a, -1), 0) if is_negated else Bound(a.plus(b, -1), -1))
    return Steps(axes, terms, tuple(bounds), tuple(others))


# ---- Which window, and where in it ----


def _rewritten(steps: Steps) -> Steps:
    """The same sum by as few steps as it is known how; the same object if no step is known to be empty."""
    while (fewer := _without_remainder(steps) or _shortened(steps) or _strided(steps)) is not None:
        steps = _plain(fewer)
    return steps


def _plain(steps: Steps) -> Steps:
    """Without the quotients and remainders that are known."""
    for n in steps.divisions():
        form, m = affine(n.src[0]), divisor_of(n)
        for quotient, rest in ((Form[Node](0), form), _nearest(form, m)):
            low, high = steps.interval(rest)
            if low >= 0 and high < m:
                return _plain(_undivided(steps, n, quotient, rest, high))
    return steps


def _without_remainder(steps: Steps) -> Steps | None:
    """Without a remainder by which windows are told apart; None if there is no such."""
    for n in steps.divisions():
        if n.op is Op.FLOORMOD and (most := _most(steps, n)) is not None:
            quotient, rest = _nearest(affine(n.src[0]), m := divisor_of(n))
            low, high = steps.interval(rest)
            if quotient.terms and low > most - m and high < m:
                return _undivided(steps, n, quotient, rest, most, (Bound(rest.times(-1), 0),))
    return None


def _most(steps: Steps, of: Node) -> int | None:
    """What a remainder is at most where a step counts: a multiple of a stride, if it has to be one."""
    most = steps.most(atom(of))
    for n in steps.divisions():
        if most is not None and n.op is Op.FLOORMOD and n.src[0] is of and steps.most(atom(n)) == 0:
            most -= most % divisor_of(n)
    return most


def _undivided(steps: Steps, n: Node, quotient: Sum, rest: Sum, most: int, news: tuple[Bound[Node], ...] = ()) -> Steps:
    """With quotient and rest, from 0 to `most`, for a division."""
    whole, m = affine(n.src[0]), divisor_of(n)
    changes = {binary(Op.FLOORMOD, *n.src): written(rest), binary(Op.FLOORDIV, *n.src): written(quotient)}
    bounds = list(news)
    for b in steps.bounds:
        limit = b.of(whole) if quotient.terms else None
        # m·Q + T ≤ limit says no more than Q ≤ limit // m, unless a T could be too large there.
        fits = limit is not None and limit % m >= most
        bounds.append(Bound(quotient, (limit or 0) // m) if fits else _put(b, changes))
    return replace(replace(steps, bounds=()).put(changes), bounds=tuple(bounds))


def _nearest(form: Sum, m: int) -> tuple[Sum, Sum]:
    """A quotient and a rest of small factors: the form is m · the first + the second."""
    terms = tuple((of, (2 * c + m) // (2 * m)) for of, c in form.terms)
    quotient = Form(form.constant // m, tuple(term for term in terms if term[1]))
    return quotient, form.plus(quotient, -m)


# ---- Fewer steps ----


def _shortened(steps: Steps) -> Steps | None:
    """With a loop that ends where a bound on its counter ends it; None if all do."""
    for axis in steps.axes:
        most = steps.most(atom(counter(axis))) if axis.extent > 1 else None
        if most is not None and 0 <= most < axis.extent - 1:
            shorter = fresh_axis(most + 1, is_reduce=True)
            return steps.put({counter(axis): counter(shorter)}, {axis: shorter})
    return None


def _strided(steps: Steps) -> Steps | None:
    """With those steps alone whose counter fits modulo a stride; None if no counter has to."""
    for n in steps.divisions():
        if n.op is Op.FLOORMOD and steps.most(atom(n)) == 0:
            form, stride = affine(n.src[0]), divisor_of(n)
            for axis in steps.axes:
                c = form.coefficient(counter(axis)) if axis.extent > 1 else 0
                if c and (c + 1) % stride == 0:
                    return _with_stride(steps, axis, form.plus(atom(counter(axis)), -c), stride)
    return None


def _with_stride(steps: Steps, axis: Axis, x: Sum, stride: int) -> Steps:
    """Of a counter r with (x − r) % stride = 0 the steps r = stride · q + x % stride, where x − r is stride ·
    (x // stride − q)."""
    q = fresh_axis(-(-axis.extent // stride), is_reduce=True)
    first, place = (affine(simplify(binary(op, written(x), index(stride)))) for op in (Op.FLOORMOD, Op.FLOORDIV))
    r, place = first.plus(affine(counter(q)), stride), place.plus(affine(counter(q)), -1)
    multiple = x.plus(atom(counter(axis)), -1)
    known: dict[Node, Node] = {}
    for n in steps.divisions():
        quotient, rest = divmod(affine(n.src[0]).plus(multiple, -1), stride)
        if divisor_of(n) == stride and rest == Form(0):
            known[n] = index(0) if n.op is Op.FLOORMOD else written(quotient.plus(place))
    bounds = [Bound(r, axis.extent - 1)]
    for b in steps.bounds:
        up, down = b.of(multiple), b.of(multiple.times(-1))
        if up is not None:
            b = Bound(place, up // stride)
        elif down is not None:
            b = Bound(place.times(-1), down // stride)
        bounds.append(b)
    return replace(steps, bounds=tuple(bounds)).put(known).put({counter(axis): written(r)}, {axis: q})


def _sum(op: Op, steps: Steps) -> Node:
    """The sum of these steps; with those of a sum that is its term."""
    conditions = [_condition(b) for b in steps.news()] + list(steps.others)
    axes, terms = steps.axes, steps.terms
    if op is Op.REDUCE_ADD and _is_of_steps(terms[0], axes, conditions):
        op, axes, terms = terms[0].op, (*axes, *terms[0].arg), factors(terms[0])
    if conditions:
        terms = tuple(_under(conjunction(*conditions), term) for term in terms)
    loops = tuple(axis for axis in axes if axis.extent != 1)
    return reduction(op, loops or axes[:1], *terms)


def _is_of_steps(term: Node, axes: tuple[Axis, ...], conditions: Sequence[Node]) -> bool:
    """Whether a term is a sum that is another one wherever a step counts: taken up, it is not computed more often."""
    if term.op not in SUMS or set(term.arg) & set(axes) or not _is_constant(term):
        return False
    free = {axis for c in conditions for axis in free_axes(c)[c]} | {axis for axis in axes if axis.extent > 1}
    return free <= set(free_axes(term)[term])


def _is_constant(n: Node) -> bool:
    """Whether a sum has as many steps whatever variables say."""
    return all(extent is index(axis.extent) for axis, extent in zip(n.arg, n.src, strict=False))


def _under(condition: Node, term: Node) -> Node:
    """A term that is +0 where a condition does not hold, nor reads anything there."""
    term = guarded(term, condition)
    return term if term.op is Op.LOAD else where(condition, term, constant(term.dtype, 0))
