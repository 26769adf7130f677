"""Programs as text."""

import pytest

from eigentensor.program.text import listing
from support.generated.programs import generate
from support.programs.worked_examples import session


def test_a_listing_says_everything_that_a_program_is_made_of() -> None:
    assert (
        listing(session().program)
        == """\
variable pos: 0…3, +1 in each iteration
%0 = input token: int32 scalar
%1 = state cache: int32 4
%2 = constant int32 3: 10, 20, 30
body 0: int32[4] of p1 int32[1], p2 int32[3], p3 int32[4], v0 0…3; for r0 < 4
     0  index     RANGE r0
     1  index     VAR v0
     2  bool      CMPEQ 0, 1
     3  index     CONST 0
     4  int32     LOAD p1[3]
     5  index     CAST 4
     6  index     CONST -1
     7  bool      CMPLT 6, 5
     8  index     CONST 3
     9  bool      CMPLT 5, 8
    10  bool      AND 7, 9
    11  int32     LOAD p2[5] if 10
    12  int32     ADD 4, 11
    13  int32     LOAD p3[0]
    14  int32     WHERE 2, 12, 13
body 1: int32[1] of p1 int32[4], v0 0…3
     0  index     VAR v0
     1  index     CONST 1
     2  index     ADD 0, 1
     3  index     RANGE r0
     4  int32     LOAD p1[3]
     5  int32     REDUCE_ADD 4; for r0 < value 2
%3 = body 0 of %0, %2, %1, pos
%4 = body 1 of %3, pos
output output = %4 as scalar
new state cache = %3 as 4
"""
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_listing_has_a_line_for_every_part(seed: int) -> None:
    program = generate(seed).program
    parts = (program.variables, program.buffers, program.bodies, program.calls, program.results)
    instructions = sum(len(body.instructions) for body in program.bodies)
    assert listing(program).count("\n") == sum(map(len, parts)) + instructions
