"""Index expressions as forms: their bounds, fewer divisions in them, and divisions by sums of variables."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import product

from eigentensor.lowering.kernel import add, index, scaled
from eigentensor.program.expression import Node, binary, rewrite, walk
from eigentensor.program.forms import A, Form, atom, linear, recombined
from eigentensor.program.intervals import UNKNOWN, Interval, transfer, union
from eigentensor.program.ops import DType, Op

#: An index expression as a sum of multiples of nodes that are neither.
Sum = Form[Node]


def affine(value: Node) -> Sum:
    """The sum that an index expression is."""
    if value.op is Op.CONST:
        return Form(int(value.arg))
    form = linear(value.op, *map(affine, value.src)) if value.op in (Op.ADD, Op.SUB, Op.MUL) else None
    return atom(value) if form is None else form


def expression(form: Form[A], factor: Callable[[A], Node]) -> Node:
    """A form as an expression: its terms in order, each a multiple of its `factor`, the constant last."""
    total = index(0)
    for of, c in form.terms:
        total = add(total, scaled(factor(of), c))
    return add(total, index(form.constant))


def written(form: Sum) -> Node:
    """The expression of a form over nodes."""
    return expression(form, lambda of: of)


def sum_interval(form: Sum) -> Interval:
    """Smallest and largest value of a form."""
    return form.interval({of: _bounds(of) for of, _ in form.terms})


def interval(value: Node) -> Interval:
    """Smallest and largest value of an index expression."""
    return sum_interval(affine(value))


def _bounds(of: Node) -> Interval:
    if of.op is Op.RANGE:
        return 0, max(of.arg.extent - 1, 0)
    if of.op is Op.VAR:
        return int(of.arg.bounds.minimum), int(of.arg.bounds.maximum)
    if of.op is Op.CAST and of.src[0].dtype is DType.BOOL:
        return 0, 1
    if of.op in (Op.WHERE, Op.MAX, Op.MIN):  # of MAX and MIN no more, lest programs lose guards that they have
        return union(*map(interval, of.src[-2:]))
    if (divisor := divisor_of(of)) > 0:
        return transfer(of.op, DType.INDEX, interval(of.src[0]), (divisor, divisor))
    return UNKNOWN


def divisor_of(of: Node) -> int:
    """The constant that a quotient or remainder is by; 0 if it is something else."""
    is_division = of.op in (Op.FLOORDIV, Op.FLOORMOD) and of.src[1].op is Op.CONST
    return int(of.src[1].arg) if is_division else 0


def simplify(value: Node) -> Node:
    """Fewer quotients and remainders by constants: of sums of multiples, and where both stand in one sum."""
    return rewrite(value, _simpler)


def _simpler(value: Node) -> Node:
    if value.dtype is not DType.INDEX:
        return value
    if (divisor := divisor_of(value)) > 0:
        return _divided(value, divisor)
    if value.op in (Op.ADD, Op.SUB, Op.MUL):
        return written(recombined(affine(value), _halves))
    return value


def _halves(of: Node) -> Iterator[tuple[Node, int, Sum]]:
    if of.op is Op.FLOORMOD and (divisor := divisor_of(of)):
        yield binary(Op.FLOORDIV, *of.src), divisor, affine(of.src[0])


def _divided(value: Node, n: int) -> Node:
    form = affine(value.src[0])
    quotient, rest = form.split(n)
    if not _is_remainder(rest, n):  # perhaps what is left of each coefficient stays within one multiple
        shorter, left = divmod(form, n)
        if _is_remainder(left, n):
            quotient, rest = shorter, left
    if _is_remainder(rest, n):
        return written(rest if value.op is Op.FLOORMOD else quotient)
    if quotient == Form(0):
        return value
    divided = binary(value.op, written(rest), index(n))
    return divided if value.op is Op.FLOORMOD else add(written(quotient), divided)


def _is_remainder(form: Sum, n: int) -> bool:
    low, high = sum_interval(form)
    return low >= 0 and high < n


# Divisions by what depends on variables: (a·n + j) // n is a, and (a·n + j) % n is j, where 0 ≤ j < n wherever the
# index counts. A counter is below its extent, which may depend on variables, too.

#: A product, its factors in the order of their identities.
Monomial = tuple[Node, ...]
#: Of counters: each is at least 0 and less than its extent.
Extents = Mapping[Node, Node]


def divided(value: Node, by: Node, extents: Extents) -> tuple[Node, Node] | None:
    """Quotient and remainder of an index by one that depends on variables, without dividing; None if that fails."""
    divisor, rest, quotient = _polynomial(by), _polynomial(value), Form[Monomial](0)
    leading = max((monomial for monomial, _ in divisor.terms), key=len, default=())
    if not leading:
        return None
    # Long division of polynomials by the leading term; what is left is the remainder if it is proven to be small.
    while (multiple := _multiple(rest, leading, divisor.coefficient(leading))) is not None:
        quotient = quotient.plus(multiple)
        rest = rest.plus(_product(multiple, divisor), -1)
    if _least(rest, extents) < 0 or _least(divisor.plus(rest, -1).plus(Form(-1)), extents) < 0:
        return None
    order = {n: place for place, n in enumerate(walk(value, by))}

    def factor(monomial: Monomial) -> Node:
        return reduce(lambda a, b: binary(Op.MUL, a, b), sorted(monomial, key=lambda of: order[of]))

    return expression(quotient, factor), expression(rest, factor)


def _polynomial(value: Node) -> Form[Monomial]:
    """The sum of products that an index expression is."""
    if value.op is Op.CONST:
        return Form(int(value.arg))
    if value.op in (Op.ADD, Op.SUB, Op.MUL):
        a, b = map(_polynomial, value.src)
        form = linear(value.op, a, b)
        return _product(a, b) if form is None else form
    return atom((value,))


def _monomial(factors: Monomial, coefficient: int) -> Form[Monomial]:
    return Form(0, ((factors, coefficient),)) if factors else Form(coefficient)


def _monomials(form: Form[Monomial]) -> list[tuple[Monomial, int]]:
    """The terms of a form and its constant, which is a product of nothing."""
    return [*form.terms, ((), form.constant)] if form.constant else list(form.terms)


def _product(a: Form[Monomial], b: Form[Monomial]) -> Form[Monomial]:
    total = Form[Monomial](0)
    for (m, c), (n, d) in product(_monomials(a), _monomials(b)):
        total = total.plus(_monomial(tuple(sorted((*m, *n), key=id)), c * d))
    return total


def _multiple(of: Form[Monomial], leading: Monomial, factor: int) -> Form[Monomial] | None:
    """What the leading term of a divisor has to be multiplied by to be one of these terms."""
    for monomial, c in of.terms:
        left = list(monomial)
        if c % factor == 0 and all(_taken(left, node) for node in leading):
            return _monomial(tuple(left), c // factor)
    return None


def _taken(left: list[Node], node: Node) -> bool:
    if node not in left:
        return False
    left.remove(node)
    return True


def _least(form: Form[Monomial], extents: Extents) -> int:
    """A lower bound: each counter in turn is put where the sum is smallest."""
    for counter, extent in extents.items():
        counted = [m for m, _ in form.terms if counter in m]
        if not counted or any(m.count(counter) > 1 for m, _ in form.terms):
            continue
        of = Form[Monomial](0)
        for m in counted:
            of = of.plus(_monomial(tuple(n for n in m if n is not counter), form.coefficient(m)))
        low, high = _interval(of)
        # The sum is linear in a counter: it is least at 0, or at the extent less one, by the sign of the factor.
        if low < 0 < high:
            continue
        form = form.without(*counted)
        if low < 0:
            form = form.plus(_product(of, _polynomial(extent).plus(Form(-1))))
    return _interval(form)[0]


def _interval(form: Form[Monomial]) -> Interval:
    def bounds_of(monomial: Monomial) -> Interval:
        return reduce(lambda a, b: transfer(Op.MUL, DType.INDEX, a, b), map(_bounds, monomial))

    return form.interval({monomial: bounds_of(monomial) for monomial, _ in form.terms})
