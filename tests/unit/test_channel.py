"""Offers, deals, vouchers, receipts, lines: what is signed about channels and what shows a call, without a chain."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hexbytes import HexBytes
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.chain import anvil_account
from eigentensor.chain.keys import new_account
from eigentensor.channel import (
    CallPlace,
    CallProof,
    CallReceipt,
    Deal,
    Entry,
    Key,
    Line,
    LineProof,
    Offer,
    Sheet,
    Tail,
    Voucher,
    channel_of,
    hash_of,
    index_of,
    is_signed_by,
    lines_root,
    message_of,
    nonce_of,
    open_call,
    open_line,
    open_outside,
    open_part,
    open_program,
    order_hashes,
    pool_of,
    recover,
    share_root,
    task_of,
)
from eigentensor.channel.deals import Struct
from eigentensor.errors import TaskError
from eigentensor.keccak import keccak
from eigentensor.task import NONE, Domain, typed
from support.vectors import channels as vectors
from support.vectors.channels import DOMAIN, PAYER, SIGNER, key, named, offer, order

WRITTEN = json.loads(vectors.VECTORS.read_text())
CHANNEL = bytes.fromhex(WRITTEN["channel"][2:])


def deal() -> Deal:
    return Deal(named("pool"), anvil_account(3).address, key(PAYER).address, 1, 10**18, 10**17, 900)


def voucher() -> Voucher:
    return Voucher(CHANNEL, 9, 10**16, 7, named("root"))


def receipt(index: int = 7) -> CallReceipt:
    return CallReceipt(CHANNEL, index, task_of(DOMAIN, order(CHANNEL, index)), named("outputs", index), 2)


def test_the_vectors_are_fresh() -> None:
    assert Path(vectors.VECTORS).read_text() == vectors.written()


SIGNED: list[Struct] = [offer(), deal(), voucher(), receipt()]


@pytest.mark.parametrize("struct", SIGNED, ids=lambda struct: type(struct).__name__)
def test_wallets_that_show_typed_data_sign_the_same_hash(struct: Any) -> None:
    members = [
        {"name": vectors.camel({n: 0}).popitem()[0], "type": kind} for n, kind in typed.kinds(type(struct)).items()
    ]
    names = ("name", "version", "chainId", "verifyingContract")
    types = ("string", "string", "uint256", "address")
    message = {
        "types": {
            "EIP712Domain": [{"name": name, "type": kind} for name, kind in zip(names, types, strict=True)],
            type(struct).__name__: members,
        },
        "primaryType": type(struct).__name__,
        "domain": dict(zip(names, ("EigenTensor", "1", DOMAIN.chain_id, DOMAIN.market), strict=True)),
        "message": {m["name"]: getattr(struct, f.name) for m, f in zip(members, fields(struct), strict=True)},
    }
    signed = Account.sign_message(encode_typed_data(full_message=message), anvil_account(PAYER).secret)
    hashes: dict[type, Any] = {Offer: pool_of, Deal: channel_of}
    digest = hashes.get(type(struct), hash_of)(DOMAIN, struct)
    assert bytes(signed.message_hash) == digest
    assert bytes(signed.signature) == key(PAYER).sign(DOMAIN.message(typed.struct_hash(struct)))


@pytest.mark.parametrize("struct", SIGNED, ids=lambda struct: type(struct).__name__)
def test_every_field_changes_the_hash(struct: Any) -> None:
    seen = {typed.struct_hash(struct)}
    for name, kind in typed.kinds(type(struct)).items():
        value = getattr(struct, name)
        other: Any = anvil_account(9).address if kind == "address" else bytes(32) if kind == "bytes32" else value ^ 1
        seen.add(typed.struct_hash(replace(struct, **{name: other})))
    assert len(seen) == 1 + len(fields(struct))
    digests = {domain.hash_of(typed.struct_hash(struct)) for domain in (DOMAIN, Domain(1, DOMAIN.market))}
    assert len(digests | {Domain(DOMAIN.chain_id, anvil_account(0).address).hash_of(typed.struct_hash(struct))}) == 3


def line(count: int = 9, first: int = 4) -> Line:
    return Line(CHANNEL, merkle.tree_root(leaves(first + count)), first, count, 20, 10**15)


def leaves(count: int) -> list[bytes]:
    tails = [Tail.of(receipt(index)) for index in range(count)]
    return [merkle.call_hash(CHANNEL, index, tail.order, tail.result) for index, tail in enumerate(tails)]


def lines() -> list[Line]:
    return [replace(line(), channel=named("first"), offset=0), line(), replace(line(), channel=named("third"))]


def place(index: int = 7) -> CallPlace:
    return CallPlace(open_line(lines(), 1), open_call(line(), leaves(15), receipt(index)), order(CHANNEL, index))


def sheet() -> Sheet:
    acked = leaves(9)
    frontier = merkle.Frontier()
    for leaf in acked:
        frontier.append(leaf)
    struct = Voucher(CHANNEL, 12, 10**16, 9, frontier.root())
    tail = [Tail.of(receipt(index)) for index in range(9, 12)]
    return Sheet.of(deal(), struct, key(PAYER).sign(message_of(DOMAIN, struct)), frontier, tail)


WRONG: list[Any] = [None, -1, "x", [], {}, [[]], 1.5, "0x123", 1 << 300, True, ["0x12"]]
NOTHING: list[Any] = [None, [], "text", 3]
SHOWN: list[Struct] = [
    line(), place(), place().line, place().call, sheet(), Tail.of(receipt()),
    open_program({named(1): 3, named(2): 4}, named(2)), open_part(0, 0, [(place().line, place().call)]),
]  # fmt: skip


@pytest.mark.parametrize("struct", [*SIGNED, *SHOWN], ids=lambda struct: type(struct).__name__)
def test_a_struct_survives_json_and_anything_else_is_refused(struct: Struct) -> None:
    values = struct.to_json()
    assert type(struct).from_json(json.loads(json.dumps(values))) == struct
    for name in values:
        for wrong in WRONG:
            if wrong == values[name] or (wrong == [] and isinstance(values[name], list)):
                continue
            with pytest.raises(TaskError, match="is malformed"):
                type(struct).from_json({**values, name: wrong})
        with pytest.raises(TaskError, match=f"missing or unknown: {name}"):
            type(struct).from_json({key: value for key, value in values.items() if key != name})
    with pytest.raises(TaskError, match="unknown: more"):
        type(struct).from_json({**values, "more": 1})
    for nothing in NOTHING:
        with pytest.raises(TaskError, match="is malformed"):
            type(struct).from_json(nothing)


UNFIT: list[dict[str, Any]] = [
    {"count": 1 << 64}, {"amount": 1 << 256}, {"acked": -1}, {"root": bytes(31)}, {"channel": "0x"},
]  # fmt: skip


def test_numbers_and_hashes_fit_their_solidity_types() -> None:
    for wrong in UNFIT:
        with pytest.raises(ValueError, match="of the voucher must be a"):
            replace(voucher(), **wrong)
    assert replace(deal(), payer=deal().payer.lower()) == deal()


def test_a_key_signs_as_eth_account_does_and_never_shows_itself() -> None:
    message = named("message")
    for mine in (anvil_account(0), anvil_account(PAYER), new_account()):
        theirs = Account.from_key(mine.secret)
        assert mine.address == theirs.address and mine.secret.hex() not in repr(mine)
        assert mine.sign(message) == bytes(theirs.unsafe_sign_hash(HexBytes(keccak(message))).signature)
    for wrong in (b"", bytes(32), b"\xff" * 32, bytes(33)):
        with pytest.raises(ValueError):
            Key(wrong)


ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def test_a_signature_has_one_form() -> None:
    digest = keccak(named("message"))
    signature = key(SIGNER).sign(named("message"))
    assert recover(digest, signature) == key(SIGNER).address
    assert is_signed_by(key(SIGNER).address, digest, signature)
    assert not is_signed_by(key(PAYER).address, digest, signature)
    assert recover(named("other"), signature) != key(SIGNER).address
    s = (ORDER - int.from_bytes(signature[32:64], "big")).to_bytes(32, "big")
    second = signature[:32] + s + bytes((55 - signature[64],))
    for wrong in (second, signature[:64] + bytes((signature[64] - 27,)), signature[:64], bytes(65), signature + b"\0"):
        assert recover(digest, wrong) is None and not is_signed_by(key(SIGNER).address, digest, wrong)
    assert recover(digest, b"\xff" * 32 + signature[32:]) is None


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=65, max_size=65), st.sampled_from((27, 28)))
def test_recovering_agrees_with_eth_account_on_any_bytes(digest: bytes, signature: bytes, last: int) -> None:
    signature = signature[:32] + bytes((signature[32] & 0x7F,)) + signature[33:64] + bytes((last,))
    try:
        expected = str(Account._recover_hash(digest, signature=signature))
    except Exception:
        expected = None
    if int.from_bytes(signature[32:64], "big") <= ORDER // 2:
        assert recover(digest, signature) == expected


def test_orders_of_a_channel_are_hashed_by_what_differs() -> None:
    hash_ = order_hashes(DOMAIN, order(CHANNEL, 0))
    for index in (0, 1, 2**64 - 1):
        one = replace(order(CHANNEL, 5), nonce=nonce_of(index, 2**192 - 1), states=named("states", index))
        assert index_of(one) == index
        assert hash_(one.nonce, one.inputs, one.states, one.variables) == task_of(DOMAIN, one)
    one = replace(order(CHANNEL, 5), states=NONE, inputs=NONE, variables=NONE)
    assert hash_(one.nonce, NONE, NONE, NONE) == task_of(DOMAIN, one)


def test_a_call_leads_to_its_batch_and_nothing_else_does() -> None:
    root = lines_root(lines())
    for index in range(4, 13):
        shown = place(index)
        assert shown.leads_to(root, DOMAIN) and shown.is_named()
        assert line().index_of(line().number_of(index)) == index
    assert line().index_of(19) is None and line().index_of(29) is None
    shown = place()
    wrong: list[CallPlace] = [
        replace(shown, line=replace(shown.line, position=0)),
        replace(shown, line=replace(shown.line, line=replace(line(), amount=1))),
        replace(shown, call=replace(shown.call, index=8)),
        replace(shown, call=replace(shown.call, outputs_root=named("other"))),
        replace(shown, call=replace(shown.call, path=shown.call.path[:-1])),
        replace(shown, order=order(CHANNEL, 8)),
        place(3),  # an earlier batch's
    ]
    assert not any(one.leads_to(root, DOMAIN) for one in wrong)
    assert not replace(shown, order=order(CHANNEL, 8)).is_named()
    assert not replace(shown, order=order(named("other"), 7)).is_named()


def test_a_sheet_makes_the_line_whose_root_is_over_all_its_calls() -> None:
    made = sheet().line(DOMAIN, 4, 10**15, 20)
    channel = channel_of(DOMAIN, deal())
    tail = [merkle.call_hash(channel, n, t.order, t.result) for n, t in zip(range(9, 12), sheet().tail, strict=True)]
    assert made == Line(channel, merkle.tree_root([*leaves(9), *tail]), 4, 8, 20, 9 * 10**15)
    whole = replace(sheet(), count=9, tail=(), frontier=())
    assert whole.line(DOMAIN, 0, 0, 0).root == sheet().root == merkle.tree_root(leaves(9))
    with pytest.raises(ValueError, match="full subtrees"):
        replace(sheet(), frontier=()).line(DOMAIN, 4, 0, 0)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 129, 200, 256])
def test_parts_of_a_share_lead_to_its_root(count: int) -> None:
    proofs, call = [open_line(lines(), position) for position in range(3)], place().call
    calls = [(proofs[n % 3], replace(call, outputs_root=named("shared", n))) for n in range(count)]
    root = share_root([call.outputs_root for _, call in calls])
    for number in range(-(-count // 64)):
        part = open_part(5, number, calls)
        shown = calls[number * 64 : number * 64 + 64]
        assert [(part.lines[at], call) for at, call in zip(part.at, part.calls, strict=True)] == shown
        roots = [call.outputs_root for call in part.calls]
        subtree = merkle.tree_root(roots if count <= 64 else [*roots, *[bytes(32)] * (64 - len(roots))])
        assert merkle.climb(subtree, number, part.path) == root


def test_a_program_leads_to_those_of_an_offer() -> None:
    programs = {named("program", n): n for n in range(5)}
    for program, repeat in programs.items():
        entry = open_program(programs, program)
        tree = merkle.climb(merkle.entry_hash(entry.program, repeat), entry.position, entry.path)
        assert merkle.programs_root_of(5, tree) == merkle.programs_root(programs) and entry.repeat == repeat
    with pytest.raises(KeyError):
        open_program(programs, NONE)


def test_an_order_is_outside_of_an_offer_that_does_not_name_its_program_so_often() -> None:
    programs = {bytes([first]) * 32: 2 for first in (3, 5, 7)}
    three, five, seven = (open_program(programs, name) for name in sorted(programs))

    def shown(first: int, repeat: int = 1) -> tuple[Entry, ...] | None:
        return open_outside(programs, replace(order(CHANNEL, 0), program=bytes([first]) * 32, repeat=repeat))

    assert [shown(first, repeat) for first in (3, 5, 7) for repeat in (1, 2)] == [None] * 6
    assert (shown(3, 3), shown(5, 3)) == ((three,), (five,))
    assert (shown(1), shown(4), shown(6), shown(9)) == ((three,), (three, five), (five, seven), (seven,))
    tree = {merkle.climb(merkle.entry_hash(e.program, e.repeat), e.position, e.path) for e in (three, five, seven)}
    assert [merkle.programs_root_of(3, root) for root in tree] == [merkle.programs_root(programs)]


def test_proofs_are_of_the_line_as_it_was_committed() -> None:
    proof = open_call(line(), leaves(15), receipt())
    assert isinstance(proof, CallProof) and proof.leads_to(line())
    assert not proof.leads_to(line(count=11))
    assert isinstance(open_line(lines(), 2), LineProof) and open_line(lines(), 2).leads_to(lines_root(lines()))
