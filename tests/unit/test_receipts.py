"""Receipts without a network: one form, whatever is changed in them refused or left to the chain, and told in words."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rlp
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.chain import anvil_account
from eigentensor.chain.transactions import MOST, Transaction, read_transaction
from eigentensor.errors import ChainError, TensorFileError, WrongReceipt
from eigentensor.keccak import keccak
from eigentensor.numerics.dtypes import DType
from eigentensor.receipt import Receipt, canonical, evidence, outputs_of, prove, tasks_of
from eigentensor.store import save_safetensors
from eigentensor.task import Cancelled, Challenged, Ended, Event, Place, Revealed, State
from eigentensor_client.cli import main
from support.hostile.receipts import CHAIN_ONLY, UNPROVED, extremes, forged, forgeries
from support.vectors.receipts import load

RECEIPTS = load()
each_receipt = pytest.mark.parametrize("name", RECEIPTS)


@each_receipt
def test_a_receipt_is_read_as_it_was_written_and_proves_its_lines(name: str) -> None:
    receipt = RECEIPTS[name]
    assert Receipt.from_bytes(receipt.to_bytes()) == receipt
    lines = prove(receipt)
    # Whatever needs no chain is proved; nobody signs an end.
    assert {line.by for line in lines} - {"chain"} == {"hash", "signature", "formula"}
    assert ("chain" in {line.by for line in lines}) == (receipt.life.state is not State.REVEALED)
    text = " ".join(line.what for line in lines)
    assert (receipt.life.executor or "?") in text and receipt.order.client in text and receipt.task in text


@pytest.mark.parametrize(
    "name", ["confirmed", *(pytest.param(n, marks=pytest.mark.slow) for n in RECEIPTS if n != "confirmed")]
)
def test_what_a_forger_changes_is_refused_or_is_for_the_chain_to_refuse(name: str) -> None:
    tried = [(what, forged(value)) for what, value in forgeries(RECEIPTS[name])]
    passed = {what for what, outcome in tried if isinstance(outcome, Receipt)}
    beyond = {what for what in passed if not any(fnmatchcase(what, p) for p in (*CHAIN_ONLY, *UNPROVED))}
    assert not beyond
    assert len(tried) - len(passed) > 150


@pytest.mark.slow
@each_receipt
def test_no_number_is_too_small_or_too_large_to_be_refused(name: str) -> None:
    outcomes = [forged(value) for value in extremes(RECEIPTS[name])]
    assert sum(isinstance(outcome, WrongReceipt) for outcome in outcomes) > 60


def test_a_market_that_could_not_compute_is_refused() -> None:
    value = RECEIPTS["checked"].to_json()
    value["market"]["parameters"] |= {"grid": "0"}
    with pytest.raises(WrongReceipt, match="no market has these"):
        Receipt.from_bytes(canonical.text(value))


@each_receipt
def test_no_byte_can_be_changed(name: str) -> None:
    data = RECEIPTS[name].to_bytes()
    for place in range(0, len(data), len(data) // 17):
        _refuses(data, place, 1)


@settings(max_examples=60)
@given(st.sampled_from(sorted(RECEIPTS)), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_no_byte_anywhere_can_be_changed_to_any_other(name: str, at: float, change: int) -> None:
    data = RECEIPTS[name].to_bytes()
    _refuses(data, int(at * len(data)), change)


@pytest.mark.slow
@each_receipt
def test_no_byte_of_a_thousand_can_be_changed(name: str) -> None:
    data = RECEIPTS[name].to_bytes()
    for place in range(0, len(data), len(data) // 1000):
        _refuses(data, place, 1)


def _refuses(data: bytes, place: int, change: int) -> None:
    other = bytearray(data)
    other[place] ^= change
    with pytest.raises(WrongReceipt):
        Receipt.from_bytes(bytes(other))


def test_only_one_text_of_a_receipt_is_taken() -> None:
    data = RECEIPTS["checked"].to_bytes()
    value = json.loads(data)
    others = [
        data + b"\n",
        json.dumps(value).encode(),
        json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode(),
        data.replace(b'"state"', b'"\\u0073tate"'),
        data.replace(b"{", b'{"state":"x",', 1),
        canonical.text(value | {"more": 1}),
        canonical.text({name: v for name, v in value.items() if name != "windows"}),
    ]
    for other in others:
        with pytest.raises(WrongReceipt):
            Receipt.from_bytes(other)


def test_the_line_that_does_not_follow_is_named() -> None:
    value = RECEIPTS["checked"].to_json()
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "money.price": lambda v: v["money"].update(price="1"),
        "state": lambda v: v.update(state="final, checked(1)"),
        "checks.answers[0].agrees": lambda v: v["checks"]["answers"][0].update(agrees=False),
        "executor.signer": lambda v: v["executor"].update(signer="0x" + "11" * 20),
        "windows.challenge.last": lambda v: v["windows"]["challenge"].update(last=1),
        "digest": lambda v: v.update(digest="00" * 32),
        "schema": lambda v: v.update(schema="eigentensor.receipt/2"),
        "more": lambda v: v.update(more=1),
        "windows.accept": lambda v: v["windows"].pop("accept"),
        "games": lambda v: v["games"].append(1),
    }
    for where, change in changes.items():
        other = json.loads(canonical.text(value))
        change(other)
        with pytest.raises(WrongReceipt) as refused:
            Receipt.from_bytes(canonical.text(other))
        assert refused.value.where == where


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.just("0x" + "00" * 32),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.data())
def test_a_hostile_file_is_refused_by_name_and_never_breaks_the_reader(data: st.DataObject) -> None:
    value = json.loads(RECEIPTS["convicted"].to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at: Any = value
        while isinstance(at, dict | list) and at:
            name = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[name], dict | list) or not at[name] or data.draw(st.integers(0, 3)) == 0:
                at[name] = data.draw(_JSON)
                break
            at = at[name]
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    if text != RECEIPTS["convicted"].to_bytes():
        with pytest.raises(WrongReceipt):
            Receipt.from_bytes(text)
        forged(value)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"\xff", b"null", b'{"schema":1}', b'{"schema":"eigentensor.receipt/1"}',
        b"[" * 200_000, b'{"a":' * 200_000, b'{"schema":' + b"9" * 5_000 + b"}", b"1" * (canonical.MOST + 1),
    ],
    ids=lambda text: str(text[:12]),
)  # fmt: skip
def test_what_is_no_receipt_is_refused(text: bytes) -> None:
    with pytest.raises(WrongReceipt):
        Receipt.from_bytes(text)


@given(
    st.binary(max_size=300)
    | st.sampled_from(RECEIPTS["confirmed"].transactions).map(lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]))
)
def test_bytes_that_are_no_signed_transaction_are_refused(raw: bytes) -> None:
    try:
        read = read_transaction(raw)
    except ChainError:
        return
    assert read.hash not in {event.place.transaction for event in RECEIPTS["confirmed"].events}


def test_a_transaction_that_no_block_could_hold_is_refused() -> None:
    with pytest.raises(ChainError, match="bytes"):
        read_transaction(b"\2" * (MOST + 1))


def test_a_message_whose_parts_overlap_is_not_unfolded() -> None:
    """A thousand pointers to one signature of 60,000 bytes: unfolded they would be 60 MB."""
    (selector,) = (s for s, (name, *_) in evidence.functions().items() if name == "postMany")
    words = [64, 96, 0, 1_000, *[32_000] * 1_000, 60_000]
    data = selector + b"".join(word.to_bytes(32, "big") for word in words) + bytes(60_000)
    assert evidence.call_of(Transaction(bytes(32), "", None, data, 1)) is None


def test_outputs_are_held_to_the_root_of_the_result(tmp_path: Path) -> None:
    array = np.arange(4, dtype=np.float32)
    save_safetensors(tmp_path / "out.safetensors", {"y": array})
    root = merkle.bindings_root({"y": merkle.array_root(DType.FLOAT32, array)})
    receipt = RECEIPTS["checked"]
    with pytest.raises(WrongReceipt, match="another"):
        outputs_of(receipt, tmp_path / "out.safetensors")
    assert outputs_of(replace(receipt, parts=(root, bytes(32))), tmp_path / "out.safetensors").by == "hash"
    (tmp_path / "none").write_bytes(b"x")
    with pytest.raises(TensorFileError):
        outputs_of(receipt, tmp_path / "none")
    with pytest.raises(WrongReceipt, match="does not know"):
        outputs_of(RECEIPTS["silent"], tmp_path / "out.safetensors")


def test_the_command_tells_what_a_receipt_proves_and_what_it_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "task.receipt"
    file.write_bytes(RECEIPTS["confirmed"].to_bytes())
    assert _code("receipt", "check", str(file)) == 0
    out = capsys.readouterr().out
    assert "final, checked(1)" in out and "leaves open" in out and "--deep executes the program again" in out
    assert _code("receipt", "check", str(file), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["state"]) == ("eigentensor.receipt-check/1", "final, checked(1)")
    assert {line["by"] for line in report["lines"]} == {"hash", "signature", "formula", "chain"}


def test_the_command_names_the_line_that_fails_with_code_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "task.receipt"
    file.write_bytes(RECEIPTS["confirmed"].to_bytes().replace(b"final, checked(1)", b"final, checked(2)"))
    assert _code("receipt", "check", str(file)) == 8
    assert "error  state: it says final, checked(2), where final, checked(1) follows" in capsys.readouterr().err
    file.write_bytes(Path(__file__).read_bytes())
    assert _code("receipt", "check", str(file), "--json") == 8
    assert json.loads(capsys.readouterr().out)["error"] == "WrongReceipt"
    assert _code("receipt", "check", str(tmp_path / "none")) == 4


def _code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of the group of signatures


def test_a_signature_that_anybody_can_make_of_another_is_refused() -> None:
    """s and n − s sign the same: no chain takes the larger, which would give a message a second hash."""
    raw = RECEIPTS["confirmed"].transactions[0]
    *fields, parity, r, s = rlp.decode(raw[1:])
    other = [*fields, b"" if parity else b"\1", r, (_ORDER - int.from_bytes(s, "big")).to_bytes(32, "big")]
    with pytest.raises(ChainError, match="signature"):
        read_transaction(raw[:1] + rlp.encode(other))
    receipt = RECEIPTS["unanswered"]
    assert receipt.proofs[0] is not None
    signature = receipt.proofs[0]["signature"]
    high = (_ORDER - int.from_bytes(signature[32:64], "big")).to_bytes(32, "big")
    proof = {"signature": signature[:32] + high + bytes([55 - signature[64]])}
    with pytest.raises(WrongReceipt, match="does not say so"):
        prove(replace(receipt, proofs=(proof, *receipt.proofs[1:])))


def test_a_number_has_one_form_in_a_transaction() -> None:
    raw = RECEIPTS["confirmed"].transactions[0]
    *fields, parity, r, s = rlp.decode(raw[1:])
    for other in ([*fields, parity or b"\0", b"\0" + r, s], [*fields, b"\0" + parity, r, s]):
        with pytest.raises(ChainError, match="zeros"):
            read_transaction(raw[:1] + rlp.encode(other))


def test_what_somebody_else_signed_for_an_operator_is_said_to_be_the_chains_to_judge() -> None:
    """Anybody can sign that an operator accepts: a hot signer looks the same without a chain."""
    receipt, stranger = RECEIPTS["confirmed"], anvil_account(9)
    raw = receipt.transactions[1]
    fields = rlp.decode(raw[1:])[:-3]
    unsigned = raw[:1] + rlp.encode(fields)
    signed = stranger.sign(unsigned)
    parts = [signed[64:].translate(bytes.maketrans(b"\x1b\x1c", b"\0\1")), signed[:32], signed[32:64]]
    forged_raw = raw[:1] + rlp.encode([*fields, *(part.lstrip(b"\0") for part in parts)])
    event = receipt.events[1]
    moved = tuple(
        replace(old, place=replace(old.place, transaction=keccak(forged_raw)))
        if old.place.transaction == event.place.transaction
        else old
        for old in receipt.events
    )
    other = replace(
        receipt, events=moved, transactions=(receipt.transactions[0], forged_raw, *receipt.transactions[2:])
    )
    (line,) = [line for line in prove(other) if "accepted it" in line.what]
    assert line.what.endswith(f"signed by {stranger.address}") and line.left == "may it?"


def test_a_batch_is_carried_only_where_its_signature_proves_something() -> None:
    receipt = RECEIPTS["unanswered"]
    assert [tasks_of(raw) for raw in receipt.transactions] == [2, 2]  # accepted and committed together
    assert {type(e).__name__ for e, p in zip(receipt.events, receipt.proofs, strict=True) if p is not None} == {
        "Posted", "Seeded", "Revealed"
    }  # fmt: skip


def test_a_file_without_its_proofs_leaves_them_to_the_chain() -> None:
    receipt = RECEIPTS["confirmed"]
    less = replace(receipt, proofs=(None,) * len(receipt.events), transactions=())
    assert {line.by for line in prove(Receipt.from_bytes(less.to_bytes()))} == {"hash", "formula", "chain"}


def test_a_game_follows_from_one_answer_once() -> None:
    """One opened answer that differs opens one game: a second is nobody's word."""
    receipt = RECEIPTS["contradicted"]
    game = receipt.events[-1]
    assert isinstance(game, Challenged)
    second = replace(game, game_id=game.game_id + 1, place=replace(game.place, index=game.place.index + 1))
    more = replace(receipt, events=(*receipt.events, second), proofs=(*receipt.proofs, None))
    lines = [line.by for line in prove(more) if "challenged it" in line.what]
    assert lines == ["formula", "chain"]


def _again(receipt: Receipt, event: Event) -> Receipt:
    """With one more event, behind all others in the block of the last."""
    last = receipt.events[-1].place
    more = replace(event, place=replace(last, index=last.index + 1))
    return replace(receipt, events=(*receipt.events, more), proofs=(*receipt.proofs, None))


def test_events_that_are_no_life_are_refused_whatever_place_they_have() -> None:
    receipt = RECEIPTS["unanswered"]
    first, second, *rest = receipt.events
    swapped = replace(second, place=first.place), replace(first, place=second.place), *rest
    cancelled = Cancelled(first.place, receipt.uuid)
    for other in (replace(receipt, events=swapped), _again(receipt, first), _again(receipt, cancelled)):
        with pytest.raises(WrongReceipt, match="whose state is"):
            assert other.life


@pytest.mark.parametrize(
    ("name", "kind", "match"),
    [
        ("checked", Revealed, "revealed before"),
        ("contradicted", Challenged, "open already"),
    ],
)
def test_an_event_that_happened_once_is_refused_when_it_stands_there_twice(
    name: str, kind: type[Event], match: str
) -> None:
    receipt = RECEIPTS[name]
    *_, event = (event for event in receipt.events if isinstance(event, kind))
    with pytest.raises(WrongReceipt, match=match):
        prove(_again(receipt, event))


def _revealed_in_the_last_block_of_answers(receipt: Receipt) -> Receipt:
    """As if the executor had not waited for the end of the answers' time; without what proves it."""
    number = next(n for n, e in enumerate(receipt.events) if isinstance(e, Revealed) and not e.slot)
    place = Place(receipt.life.check_by, 0, keccak(b"block"), keccak(b"transaction"))
    events = [*receipt.events]
    events[number] = replace(events[number], place=place)
    kept = events[: number + 1]
    return replace(receipt, events=tuple(kept), proofs=(None,) * len(kept), transactions=())


def test_a_drawn_task_is_revealed_before_the_end_of_the_answers_only_if_there_are_some() -> None:
    """Whether others might have answered is the chain's to say: it knows whose the drawn seats were."""
    assert prove(_revealed_in_the_last_block_of_answers(RECEIPTS["checked"]))
    with pytest.raises(WrongReceipt, match="nobody answered"):
        prove(_revealed_in_the_last_block_of_answers(RECEIPTS["unanswered"]))


def test_a_game_that_ended_of_which_the_market_took_no_notice_is_refused() -> None:
    receipt = RECEIPTS["convicted"]
    count = 1 + next(number for number, event in enumerate(receipt.events) if isinstance(event, Ended))
    with pytest.raises(WrongReceipt, match="took no notice"):
        prove(replace(receipt, events=receipt.events[:count], proofs=receipt.proofs[:count]))


def test_the_work_for_a_receipt_grows_as_the_receipt_does() -> None:
    receipt = RECEIPTS["contradicted"]
    game = receipt.events[-1]
    assert isinstance(game, Challenged)
    calls = []
    for count in (100, 800):
        games = tuple(
            replace(game, game_id=n + 1, place=replace(game.place, index=game.place.index + n)) for n in range(count)
        )
        proofs = (*receipt.proofs[:-1], *[None] * count)
        data = replace(receipt, events=(*receipt.events[:-1], *games), proofs=proofs).to_bytes()
        calls.append(calls_of(lambda data: prove(Receipt.from_bytes(data)), data))
    assert calls[1] < 9 * calls[0]


def calls_of(work: Callable[[bytes], object], data: bytes) -> int:
    """How many functions `work` calls: a measure of it that no other process disturbs."""
    count = 0

    def count_calls(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        work(data)
    finally:
        sys.setprofile(before)
    return count
