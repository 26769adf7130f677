"""The proofs of `contracts/test/symbolic` go through, and refute what is wrong."""

import pytest

from support.campaigns.symbolic import Check, Mutant, checks, prove
from support.campaigns.symbolic_mutants import MUTANTS


def test_every_proof_has_a_fault_that_it_has_to_refute() -> None:
    assert {str(check) for check in checks()} == {mutant.check for mutant in MUTANTS}


@pytest.mark.slow
@pytest.mark.parametrize("check", checks(), ids=str)
def test_it_is_proved(check: Check) -> None:
    outcome = prove(check)
    assert outcome.proved, outcome.output


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_fault_is_refuted(mutant: Mutant) -> None:
    (check,) = [check for check in checks() if str(check) == mutant.check]
    outcome = prove(check, mutant)
    assert outcome.refuted, outcome.output
