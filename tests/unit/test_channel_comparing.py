"""What is wrong with a line that was committed, whatever the operator does with its tail; and what a client refuses
before it opens a channel."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from eigentensor import merkle
from eigentensor.chain.call_views import Pool
from eigentensor.channel import Line, Sheet
from eigentensor.channel.calls import DealRequest
from eigentensor.channel.state import BatchState
from eigentensor.errors import CallRefused, TermsRefused
from eigentensor.store.queries import Queries
from eigentensor_client.channels.comparing import Contradicted, Omitted, Unexplained, compare
from eigentensor_client.channels.ledger import Call
from eigentensor_client.channels.opening import Facts, Wish, check, check_chain, check_deal, choose, is_serving
from eigentensor_client.channels.operators import announced
from support.stories.paid_calls import DOMAIN, PAYER, PRICE, SIGNER, Both, request
from support.stories.toy_operator import tampered


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path / "channels")


def called(both: Both, count: int) -> list[Call]:
    with both.ledger() as ledger:
        caller = both.caller(ledger)
        for value in range(count):
            caller.call(request(value))
        return ledger.responded(both.channel)


def sheet_of(both: Both) -> Sheet:
    sheet = both.operator.channels[both.channel].sheet()
    assert sheet is not None
    return sheet


def line_of(sheet: Sheet, first: int = 0) -> Line:
    return sheet.line(DOMAIN, first, first * PRICE, 0)


def test_a_line_that_is_what_was_signed_is_right(both: Both) -> None:
    calls = called(both, 5)
    line = line_of(sheet_of(both))
    assert compare(calls, 1, 0, line, None) is None
    assert compare(calls, 1, 0, None, None) == Omitted(calls[0])
    assert compare(calls, 2, 5, None, None) is None


def test_another_result_in_the_tail_is_proven_by_its_leaf(both: Both) -> None:
    calls = called(both, 5)
    sheet = tampered(sheet_of(both))
    line = line_of(sheet)
    finding = compare(calls, 1, 0, line, sheet)
    assert isinstance(finding, Contradicted) and finding.call.index == 4
    assert merkle.climb(finding.leaf, 4, finding.path) == line.root and finding.leaf != calls[4].leaf()
    assert isinstance(compare(calls, 1, 0, line, None), Unexplained)


def test_calls_whose_responses_are_under_way_are_no_fault(both: Both) -> None:
    calls = called(both, 5)
    sheet = sheet_of(both)
    assert compare(calls[: sheet.acked], 1, 0, line_of(sheet), sheet) is None
    short = compare(calls[: sheet.acked - 1], 1, 0, line_of(sheet), sheet)
    assert isinstance(short, Unexplained) and "were acknowledged" in short.why


def test_a_line_that_follows_from_nothing_is_named(both: Both) -> None:
    calls = called(both, 5)
    sheet = sheet_of(both)
    finding = compare(calls, 1, 0, replace(line_of(sheet), root=b"\xee" * 32), sheet)
    assert isinstance(finding, Unexplained) and "follows neither" in finding.why


def test_receipts_of_later_batches_are_no_omission(both: Both) -> None:
    calls = called(both, 3)
    sheet = sheet_of(both)
    both.operator.number = 2
    more: Sequence[Call] = called(both, 2)
    assert compare(more, 1, 0, line_of(sheet), None) is None
    assert compare(more, 2, 3, None, None) == Omitted(more[3])
    assert len(more) == len(calls) + 2


def test_a_deal_that_was_not_asked_for_is_refused(both: Both) -> None:
    operator = both.operator
    asked = DealRequest(operator.pool, "0x" + "0a" * 20, PAYER.address, 500, 0)
    signed = operator.deal(asked)
    check_deal(signed, DOMAIN, SIGNER.address, replace(asked, client="0x" + "0A" * 20), 5)
    changes: list[dict[str, Any]] = [{"most": 501}, {"payer": "0x" + "0b" * 20}, {"pool": b"q" * 32}]
    for change in changes:
        with pytest.raises(CallRefused, match=f"another {next(iter(change))}"):
            check_deal(signed, DOMAIN, SIGNER.address, replace(asked, **change), 5)
    with pytest.raises(CallRefused, match="did not sign the deal"):
        check_deal(signed, DOMAIN, PAYER.address, asked, 5)
    with pytest.raises(CallRefused, match="had to be opened"):
        check_deal(signed, DOMAIN, SIGNER.address, asked, operator.open_by + 1)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"pool": Pool(False, False, 1, 1, 0)}, CallRefused, "not on chain"),
        ({"pool": Pool(True, True, 1, 1, 0)}, CallRefused, "is over"),
        ({"paused": True}, TermsRefused, "paused"),
        ({"stake": 9}, TermsRefused, "9 shares of stake"),
        ({"pool": Pool(True, False, 1, 1, 1)}, TermsRefused, "put at risk already"),
    ],
)
def test_an_offer_without_stake_or_pool_is_refused(
    both: Both, change: dict[str, Any], error: type[Exception], match: str
) -> None:
    facts = Facts(5, Pool(True, False, 1, 1, 0), BatchState.BEGUN, 10, 10, False)
    quote = both.operator.quote()
    check_chain(quote, Wish(100), facts)
    with pytest.raises(error, match=match):
        check_chain(quote, Wish(100), replace(facts, **change))


def test_channels_are_opened_while_a_batch_is_begun_that_does_not_end_soon(both: Both) -> None:
    quote, facts = both.operator.quote(), Facts(5, Pool(True, False, 1, 1, 0), BatchState.BEGUN, 10, 10, False)
    assert is_serving(quote, facts)
    assert not is_serving(quote, replace(facts, state=BatchState.COMMITTED))
    assert not is_serving(replace(quote, commit_by=8), facts)


def test_a_quote_of_another_market_or_another_pool_is_refused_and_the_next_one_is_chosen(both: Both) -> None:
    quote, wish = both.operator.quote(), Wish(1000)
    check(quote, wish, DOMAIN, str)
    elsewhere = replace(quote, chain_id=1)
    with pytest.raises(TermsRefused, match="of chain 1"):
        check(elsewhere, wish, DOMAIN, str)
    with pytest.raises(TermsRefused, match="another pool"):
        check(replace(quote, pool=b"q" * 32), wish, DOMAIN, str)
    assert choose([elsewhere, quote], wish, DOMAIN, str) == quote
    with pytest.raises(TermsRefused, match="of chain 1"):
        choose([elsewhere], wish, DOMAIN, str)
    with pytest.raises(CallRefused, match="offers no calls"):
        choose([], wish, DOMAIN, str)
    dear = replace(quote, programs=tuple(replace(one, price=11) for one in quote.programs))
    with pytest.raises(TermsRefused, match="more than the offer's own 10"):
        check(dear, wish, DOMAIN, str)


def test_operators_are_found_where_they_say_that_they_take_calls() -> None:
    one, other = "0x" + "0a" * 20, "0x" + "0b" * 20
    entries: list[Any] = [
        {"operator": one, "asks": {"calls": "https://one.example"}},
        {"operator": other, "asks": {"calls": ""}},
        {"operator": other, "asks": None},
        {"operator": other, "asks": {"calls": ["https://?"]}},
        {"operator": other, "asks": {"calls": "file:///etc"}},
        "nonsense",
    ]
    for listed, urls in ((entries, ("https://one.example",)), ("nonsense", ())):
        transport = httpx.MockTransport(lambda _, body=listed: httpx.Response(200, json={"operators": body}))
        with Queries("http://gateway", transport=transport) as gateway:
            assert announced(gateway) == announced(gateway, one.upper().replace("X", "x")) == urls
            assert announced(gateway, other) == ()
