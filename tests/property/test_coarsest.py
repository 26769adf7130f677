"""Forms that are divided by constants, and what facts leave of them, against every value that is possible."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from eigentensor.program.forms import Form
from eigentensor.runtime.bodies.quotients import Least, coarsest, within

ATOMS = 3
EXTENTS = st.lists(st.integers(1, 5), min_size=ATOMS, max_size=ATOMS)
FORMS = st.builds(
    lambda constant, factors: Form(constant, tuple((of, c) for of, c in enumerate(factors) if c)),
    st.integers(-9, 9),
    st.lists(st.sampled_from((-8, -4, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)), min_size=ATOMS, max_size=ATOMS),
)


def value(form: Form[int], at: tuple[int, ...]) -> int:
    return form.constant + sum(c * at[of] for of, c in form.terms)


@given(FORMS, EXTENTS, st.sampled_from((1, 2, 3, 4, 6, 8, 16, 24)))
def test_what_a_form_is_a_multiple_of_divides_it(form: Form[int], extents: list[int], size: int) -> None:
    unit, coarse, fine = coarsest(form, size, [(0, extent - 1) for extent in extents])
    for at in product(*map(range, extents)):
        quotient, remainder = divmod(value(coarse, at), size // unit)
        assert divmod(value(form, at), size) == (quotient, unit * remainder + value(fine, at))


def test_the_largest_multiple_is_found() -> None:
    """Lane l of 16 of row r: 16·r + l, divided by 256."""
    form = Form(0, ((0, 16), (1, 1)))
    assert coarsest(form, 256, [(0, 63), (0, 15)]) == (16, Form(0, ((0, 1),)), Form(0, ((1, 1),)))


@given(FORMS, st.lists(st.tuples(FORMS, st.integers(-9, 20)), max_size=3), EXTENTS)
def test_facts_leave_all_that_is_possible(
    form: Form[int], said: list[tuple[Form[int], int]], extents: list[int]
) -> None:
    low, high = within(form, [Least(*fact) for fact in said], [(0, extent - 1) for extent in extents])
    for at in product(*map(range, extents)):
        if all(value(fact, at) >= least for fact, least in said):
            assert low <= value(form, at) <= high


def test_facts_about_parts_of_a_form_bound_it() -> None:
    """Row 2·y + i and column 2·x + j of an image with a border, 32 wide: both are 1 at least if y + i and x + j are."""
    y, i, x, j = range(4)
    place = Form(-33, ((y, 64), (i, 32), (x, 2), (j, 1)))
    facts = [Least(Form(0, ((y, 1), (i, 1))), 1), Least(Form(0, ((x, 1), (j, 1))), 1)]
    box = [(0, 15), (0, 2), (0, 15), (0, 2)]
    assert within(place, facts, box)[0] == 0
    assert within(place, [], box)[0] == -33
