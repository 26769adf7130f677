"""The vectors of tests/vectors/channels.json: what is signed about channels, as it is hashed and signed, and trees.

`scripts/vectors` writes them; tests compare them with what is written, in Python and in Solidity.
"""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from eigentensor import merkle
from eigentensor.chain import anvil_account
from eigentensor.channel import (
    CallReceipt,
    Deal,
    Key,
    Line,
    Offer,
    Tail,
    Voucher,
    batch_of,
    channel_of,
    lines_root,
    message_of,
    nonce_of,
    open_call,
    open_line,
    open_part,
    open_program,
    pool_of,
    share_root,
    task_of,
)
from eigentensor.economics import WAD
from eigentensor.keccak import keccak
from eigentensor.task.order import NONE, Domain, Order

VECTORS = Path(__file__).parents[2] / "vectors" / "channels.json"
DOMAIN = Domain(31337, "0x167dd8e40bf8604C88c75B245dC172767F3b7320")
PAYER, SIGNER = 2, 5  # of anvil's published accounts
CALLS, ACKED, FIRST = 13, 11, 4
PARTED = 129  # calls of a share: two full parts, and one of one call


def text(data: bytes) -> str:
    return "0x" + data.hex()


def named(*of: object) -> bytes:
    return sha256(repr(of).encode()).digest()


def key(account: int) -> Key:
    return anvil_account(account)


def offer() -> Offer:
    programs = {named("program", n): n + 1 for n in range(3)}
    return Offer(
        operator=anvil_account(1).address, signer=key(SIGNER).address, nonce=2**256 - 1, max_price=2**96 - 1,
        check_price=10**15 + 7, most=2**96 - 2, risk_each=10**18 + 1, risk_all=3 * 10**18, check_rate=WAD // 20,
        verifiers=4, exec=9, epoch=100, tail=8, programs=merkle.programs_root(programs),
    )  # fmt: skip


def order(channel: bytes, index: int) -> Order:
    return Order(
        client=key(PAYER).address, nonce=nonce_of(index, 2**192 - 1 - index), semantics=1,
        program=named("program", 0), inputs=named("inputs", index), weights=named("weights"), states=NONE,
        variables=named("variables", index), repeat=1, min_price=0, max_price=0, ramp_start=0, ramp_length=0,
        check_fee=0, check_rate=0, verifiers=0, value_at_risk=0, exec=0, accept_by=0, operators=channel,
    )  # fmt: skip


def camel(values: dict[str, Any]) -> dict[str, Any]:
    """JSON members as Solidity spells them."""
    names = {name: name.split("_") for name in values}
    return {head + "".join(map(str.capitalize, rest)): values[name] for name, (head, *rest) in names.items()}


def signed(account: int, struct: Deal | Voucher | CallReceipt) -> dict[str, str]:
    message = message_of(DOMAIN, struct)
    return {"hash": text(keccak(message)), "signature": text(key(account).sign(message))}


def vectors() -> dict[str, Any]:
    """What is written."""
    terms = offer()
    pool = pool_of(DOMAIN, terms)
    client, payer = anvil_account(3).address, key(PAYER).address
    deal = Deal(pool, client, payer, 7, 2**96 - 3, 10**18, 2**64 - 1)
    channel = channel_of(DOMAIN, deal)
    orders = [order(channel, index) for index in range(CALLS)]
    receipts = [
        CallReceipt(channel, index, task_of(DOMAIN, orders[index]), named("outputs", index), 3)
        for index in range(CALLS)
    ]
    tails = [Tail.of(receipt) for receipt in receipts]
    leaves = [merkle.call_hash(channel, n, tail.order, tail.result) for n, tail in enumerate(tails)]
    frontier = merkle.Frontier()
    for leaf in leaves[:ACKED]:
        frontier.append(leaf)
    voucher = Voucher(channel, CALLS, 2**96 - 5, ACKED, frontier.root())
    line = Line(channel, merkle.tree_root(leaves), FIRST, CALLS - FIRST, 20, 2**96 - 6)
    lines = [Line(named("other"), named("root"), 0, 20, 0, 1), line, replace(line, channel=named("third"), offset=29)]
    programs = {named("program", n): n + 1 for n in range(3)}
    entry = open_program(programs, named("program", 0))
    call, proof = open_call(line, leaves, receipts[7]), open_line(lines, 1)
    shown = [(proof, replace(call, outputs_root=named("shown", n))) for n in range(PARTED)]
    roots = [one.outputs_root for _, one in shown]
    return {
        "domain": {"chainId": DOMAIN.chain_id, "verifyingContract": DOMAIN.market},
        "keys": {"payer": text(key(PAYER).secret), "signer": text(key(SIGNER).secret)},
        "keysNote": f"anvil's published accounts {PAYER} and {SIGNER}",
        "offer": camel(terms.to_json()),
        "pool": text(pool),
        "batch": {"number": 3, "name": text(batch_of(pool, 3))},
        "deal": camel(deal.to_json()) | signed(SIGNER, deal),
        "channel": text(channel),
        "voucher": camel(voucher.to_json()) | signed(PAYER, voucher),
        "receipt": camel(receipts[7].to_json()) | signed(SIGNER, receipts[7]),
        "order": camel(orders[7].to_json()),
        "leaves": list(map(text, leaves)),
        "frontier": list(map(text, frontier.nodes)),
        "tail": [camel(tail.to_json()) for tail in tails[ACKED:]],
        "line": camel(line.to_json()) | {"hash": text(line.hash())},
        "lines": {"root": text(lines_root(lines)), "position": 1, "path": list(map(text, proof.path))},
        "call": {"path": list(map(text, call.path))},
        "programs": {
            "root": text(merkle.programs_root(programs)), "count": len(programs), "position": entry.position,
            "program": text(entry.program), "repeat": entry.repeat, "path": list(map(text, entry.path)),
        },
        "share": {
            "outputsRoots": list(map(text, roots)), "root": text(share_root(roots)),
            "paths": [list(map(text, open_part(0, number, shown).path)) for number in range(3)],
        },
    }  # fmt: skip


def written() -> str:
    """The file's text."""
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(written())
