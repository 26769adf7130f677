"""What would make operators take a task that they declined. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eigentensor import economics
from eigentensor.economics import Parameters
from eigentensor.task import Order
from eigentensor_client.amounts import Amount

_WEI, _BLOCKS = re.compile(r"(\d+) wei"), re.compile(r"(?:stake for )?(\d+) blocks")
_ANOTHER = "another operator"
_PATIENCE = "patience"

#: Reasons of which only the word counts. Those that are not here speak of amounts, or are unknown.
_WORDS: Mapping[str, str] = {
    "silent": f"{_PATIENCE}: nothing said yet",
    "deadline": "more time for the acceptance: --accept-within",
    "stake": "less at stake: a higher --check, or a lower --value-at-risk or --max-price",
    "stake_cap": "less at stake: a higher --check, or a lower --value-at-risk or --max-price",
    "collateral": "less collateral: a lower --max-price, or fewer --verifiers",
    "cap": "less collateral: a lower --max-price, or fewer --verifiers",
    "seats": f"{_PATIENCE}: too few others are enlisted to check it",
    "core": f"{_PATIENCE}: until EigenLayer can slash again",
    "chain": f"{_PATIENCE}: what the chain refused is tried again",
    "draining": f"{_ANOTHER}: no more is accepted",
    "membership": f"{_ANOTHER}: no member, or without a signer",
    "device": f"{_ANOTHER}: a device out of service",
    "admission": "an order for every operator, or for one alone",
    "data": "its program and tensors at the gateway: post it anew",
    "program": "a valid program",
    "dispute": "a program that a dispute can be about: smaller steps",
    "bindings": "tensors and variables that fit the program",
    "trial": "a program that can be executed: it failed when it was tried",
    "execution": f"{_ANOTHER}, or a program that ends within its limits",
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would help with one operator. Of several of one `kind` the least `size` is the one to try."""

    kind: str
    text: str
    size: int = 0


def remedy_of(opinion: Mapping[str, Any], order: Order, p: Parameters, amount: Amount) -> Remedy | None:
    """What would help with what an operator says; None where it accepted."""
    reason, needed, offered = opinion["reason"], opinion["needed"] or "", opinion["offered"] or ""
    if reason == "accepted":
        return None
    if reason == "price":
        return _price(needed, order, amount)
    if reason in ("exec", "busy") and (blocks := _number(_BLOCKS, needed)) is not None:
        return _exec(reason, blocks, p)
    if reason == "lifetime" and (delay := _number(_BLOCKS, offered)) is not None:
        most = max((e for e in range(1, p.max_exec + 1) if economics.lifetime(p, e) <= delay), default=0)
        return Remedy(
            reason, f"at most --exec {most}" if most else "another market: stake may leave this one too early"
        )
    if reason in ("work", "memory", "compile") and offered:
        return Remedy(reason, f"a smaller task: at most {offered}")
    if reason == "semantics":
        return Remedy(reason, f"a program of semantics {offered}")
    if reason == "busy":
        return Remedy(reason, f"{_PATIENCE}: busy with other tasks")
    return Remedy(reason, _WORDS.get(reason, _ANOTHER))


def best(remedies: Mapping[str, Remedy]) -> list[tuple[Remedy, list[str]]]:
    """For each kind the least change, with the operators for whom it is enough: what can be done before what can be
    waited for, and what helps with most first."""
    kinds = {remedy.kind for remedy in remedies.values()}
    ranked = []
    for kind in sorted(kinds):
        least = min((r for r in remedies.values() if r.kind == kind), key=lambda remedy: remedy.size)
        ranked.append((least, [name for name, r in remedies.items() if r.kind == kind and r.size <= least.size]))
    return sorted(ranked, key=lambda one: (one[0].text.startswith((_PATIENCE, _ANOTHER)), -len(one[1])))


def _price(needed: str, order: Order, amount: Amount) -> Remedy:
    if (wei := _number(_WEI, needed)) is None:
        return Remedy("terms", "less at stake, or a shorter --exec: no price bears what is locked")
    if wei <= order.max_price:
        return Remedy("ramp", f"{_PATIENCE}: would accept at a price of {amount(wei)}, to which it still rises", wei)
    return Remedy("price", f"would accept at a price of {amount(wei)}: a higher --max-price", wei)


def _exec(reason: str, blocks: int, p: Parameters) -> Remedy:
    if blocks > p.max_exec:
        return Remedy("work", f"a smaller task: {blocks} blocks are needed, this market has {p.max_exec} at most")
    also = f", or {_PATIENCE}" if reason == "busy" else ""
    return Remedy("exec", f"--exec {blocks} or more{also}", blocks)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.fullmatch(text)
    return int(match[1]) if match else None
