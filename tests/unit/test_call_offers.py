"""What an operator's settings make of its offer, and what of them is refused."""

from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, cast

import pytest

from eigentensor.channel import Offer, pool_of
from eigentensor.economics import WAD, shares
from eigentensor.errors import ConfigError
from eigentensor.program.cost import needs_of
from eigentensor.reexecution.warm import WarmExecution
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.calls.offering import PricedProgram, Terms, listed, offer_of, settled
from eigentensor_operator.calls.server import EPOCH, check_defence, check_lifetime, programs_of, rules_of, terms_of
from eigentensor_operator.config import Settings
from support.stories.calls import DOMAIN, OPERATOR, SIGNER, scaling
from support.stories.operator import PARAMETERS, POLICY

TERMS = Terms(10**6, 5, 50, WAD // 10, 2, PARAMETERS.max_exec, 100)
PROGRAMS = [PricedProgram(b"p" * 32, b"w" * 32, 10, 3), PricedProgram(b"p" * 32, b"v" * 32, 7, 1)]
FILE = """
call_price = "0.5"
[[call_programs]]
program = "{0}"
weights = "0x{1}"
repeat = 4
[[call_programs]]
program = "{1}"
price = "0.25"
"""


def test_an_offer_pays_its_verifiers_and_allows_what_its_programs_cost() -> None:
    offer = offer_of(TERMS, PARAMETERS, OPERATOR, SIGNER.address, PROGRAMS)
    assert offer.max_price == 30 and listed(PROGRAMS) == {b"p" * 32: 3} and offer.tail == shares.TAIL
    for calls in (1, 10, 1000):
        k = shares.checked(calls, offer.check_rate, offer.verifiers)
        assert shares.least_amount(PARAMETERS, offer.check_price, k) <= calls * min(one.price for one in PROGRAMS)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"check_rate": 0}, "checked at a rate"),
        ({"check_rate": WAD + 1}, "checked at a rate"),
        ({"verifiers": 5}, "1 to 4 verifiers"),
        ({"exec": PARAMETERS.max_exec + 1}, "1 to 4 verifiers"),
        ({"risk_each": 51}, "more at risk"),
        ({"most": 29}, "a call to 30"),
    ],
)
def test_terms_that_the_contract_would_refuse_are_refused(change: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        offer_of(replace(TERMS, **change), PARAMETERS, OPERATOR, SIGNER.address, PROGRAMS)
    with pytest.raises(ConfigError, match="no program with a price"):
        offer_of(TERMS, PARAMETERS, OPERATOR, SIGNER.address, [])


def test_the_same_terms_are_the_same_pool_until_it_is_over() -> None:
    ledger = Ledger(None)
    offer = offer_of(TERMS, PARAMETERS, OPERATOR, SIGNER.address, PROGRAMS)
    first = settled(offer, ledger, DOMAIN)
    assert replace(first, nonce=0) == offer
    ledger.keep_pool(pool_of(DOMAIN, first), first, listed(PROGRAMS))
    assert settled(offer, ledger, DOMAIN) == first
    assert settled(replace(offer, most=10**7), ledger, DOMAIN) != first
    assert settled(offer, ledger, DOMAIN, [pool_of(DOMAIN, first)]).nonce != first.nonce
    ledger.close()


def test_a_program_whose_games_could_be_lost_by_the_clock_is_not_served() -> None:
    program = scaling()
    needs, slow = needs_of(program, 4), replace(POLICY, operations_per_second=1e-1)
    served = ServedProgram(b"p" * 32, bytes(32), program, cast(WarmExecution, None), 7, 4)
    assert POLICY.defending(needs) < 1 < slow.defending(needs)
    check_defence(POLICY, 1, [served])
    blocks = ceil(slow.defending(needs)) + slow.reserve
    fits = replace(slow, parameters=replace(PARAMETERS, clock=blocks - 5))
    check_defence(fits, 5, [served])
    with pytest.raises(ConfigError, match=f"games about program {'70' * 32} may take {blocks} blocks"):
        check_defence(fits, 4, [served])


def test_a_ledger_belongs_to_one_operator(tmp_path: Path) -> None:
    for operator in (OPERATOR, OPERATOR):
        ledger = Ledger(tmp_path / "calls.sqlite")
        ledger.claim(DOMAIN, operator)
        ledger.close()
    ledger = Ledger(tmp_path / "calls.sqlite")
    for domain, operator in ((DOMAIN, SIGNER.address), (replace(DOMAIN, chain_id=1), OPERATOR)):
        with pytest.raises(ConfigError, match="another operator or market"):
            ledger.claim(domain, operator)
    ledger.close()


def test_programs_are_named_in_the_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "operator.toml").write_text(FILE.format("70" * 32, "77" * 32))
    settings = Settings.load(data_dir=tmp_path, calls="localhost:80", call_check_rate="0.2")
    one, two = programs_of(settings, 18)
    assert (one.program, one.weights, one.price, one.repeat) == (b"p" * 32, b"w" * 32, WAD // 2, 4)
    assert (two.program, two.weights, two.price, two.repeat) == (b"w" * 32, bytes(32), WAD // 4, 1)
    assert settings.calls_address == ("localhost", 80) and rules_of(settings).seconds == settings.call_seconds
    terms = terms_of(settings, 6, PARAMETERS, 10**6)
    assert (terms.most, terms.check_rate, terms.exec) == (10**6, WAD // 5, PARAMETERS.max_exec)


def test_an_epoch_is_as_long_as_the_stake_behind_its_batches_is_sure_to_stay(tmp_path: Path) -> None:
    def offer(delay: int, **settings: Any) -> Offer:
        terms = terms_of(Settings.load(data_dir=tmp_path, **settings), 18, PARAMETERS, delay)
        made = offer_of(terms, PARAMETERS, OPERATOR, SIGNER.address, [PricedProgram(b"p" * 32, b"w" * 32, 10, 1)])
        check_lifetime(made, PARAMETERS, delay)
        return made

    empty = shares.lifetime(PARAMETERS, PARAMETERS.max_exec, 0)
    assert offer(10**6).epoch == EPOCH and offer(empty + 100).epoch == 100
    assert offer(empty + 100, call_epoch=30).epoch == 30
    assert offer(empty + 3, call_exec=1).epoch > 3
    for delay, settings in ((empty + 3, {}), (empty + 100, {"call_epoch": 101})):
        with pytest.raises(ConfigError, match=f"lets it go after {delay}"):
            offer(delay, **settings)


@pytest.mark.parametrize("calls", ["localhost", ":80", "localhost:", "localhost:70000", "localhost:x"])
def test_an_address_that_is_none_is_refused(calls: str) -> None:
    with pytest.raises(ConfigError, match="calls"):
        Settings.load(calls=calls)


@pytest.mark.parametrize(
    "table",
    ['program = "70"', 'weights = "x"', 'price = "cheap"', "repeat = 0", 'colour = "blue"'],
)
def test_a_program_that_is_none_is_refused(tmp_path: Path, table: str) -> None:
    named = f'program = "{"70" * 32}"\n' if not table.startswith("program") else ""
    (tmp_path / "operator.toml").write_text(f"[[call_programs]]\n{named}{table}\n")
    with pytest.raises(ConfigError, match="call_programs"):
        Settings.load(data_dir=tmp_path)
