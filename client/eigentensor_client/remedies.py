"""What would make operators take a task that they declined. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eigentensor import economics
from eigentensor.economics import Parameters
from eigentensor.task import Order
from eigentensor_client.amounts import Amount
from eigentensor_client.screen import short

Opinions = Sequence[Mapping[str, Any]]

_WEI, _BLOCKS = re.compile(r"(\d+) wei"), re.compile(r"(?:stake for )?(\d+) blocks")
_ANOTHER = "another operator"
_PATIENCE = "patience"
_LATER = "later"

#: Reasons of which only the word counts. Those that are not here speak of amounts, or are unknown.
_WORDS: Mapping[str, str] = {
    "silent": f"{_PATIENCE}: nothing said yet",
    "deadline": "more time for the acceptance: --accept-within",
    "stake": "less at stake: a higher --check, or a lower --value-at-risk or --max-price",
    "stake_cap": "less at stake: a higher --check, or a lower --value-at-risk or --max-price",
    "collateral": "less collateral: a lower --max-price, or fewer --verifiers",
    "cap": "less collateral: a lower --max-price, or fewer --verifiers",
    "seats": f"{_PATIENCE}: too few others are enlisted to check it",
    "cluster": f"{_PATIENCE}: until its cluster answers again",
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


@dataclass(frozen=True, slots=True)
class Advice:
    """What operators say about a task that nobody accepted: their reasons in words, and what would help, with most of
    them first."""

    reasons: str
    helps: tuple[str, ...]

    @property
    def words(self) -> str:
        """Both; empty where nobody says anything."""
        return f"{self.reasons}: {'; or '.join(self.helps)}" if self.reasons else ""


def advice_of(opinions: Opinions, order: Order, p: Parameters, amount: Amount, *, over: bool) -> Advice:
    """What follows from what operators say. Those that say nothing count when it is `over`: nothing comes any more."""
    heard = [o for o in opinions if over or o["reason"] != "silent"]
    remedies = remedies_of(heard, order, p, amount, over=over)
    declined = [(o["reason"], o["operator"]) for o in heard if o["operator"] in remedies]
    words = dict.fromkeys(reason for reason, _ in declined)
    reasons = (f"{word} ({named([name for reason, name in declined if reason == word])})" for word in words)
    return Advice(", ".join(reasons), tuple(ranked(remedies)))


def opinions_of(explanation: Mapping[str, Any]) -> Opinions:
    """What the gateway says that operators say, as far as it makes sense."""
    rows = explanation.get("operators")
    return [row for row in rows if _is_opinion(row)] if isinstance(rows, list) else []


def remedies_of(
    opinions: Opinions, order: Order, p: Parameters, amount: Amount, *, over: bool = False
) -> dict[str, Remedy]:
    """What would help with each operator that has not accepted; when it is `over`, with another order like this one."""
    remedies = {o["operator"]: remedy_of(o, order, p, amount) for o in opinions}
    present = {name: remedy for name, remedy in remedies.items() if remedy is not None}
    return {name: _afterwards(remedy, amount) for name, remedy in present.items()} if over else present


def ranked(remedies: Mapping[str, Remedy]) -> list[str]:
    """What helps with most operators first, and with how many."""
    return [f"{remedy.text} ({named(names)})" for remedy, names in best(remedies)]


def named(operators: Sequence[str]) -> str:
    """One operator by its address, several by their number."""
    return short(operators[0]) if len(operators) == 1 else f"{len(operators)} operators"


def remedy_of(opinion: Mapping[str, Any], order: Order, p: Parameters, amount: Amount) -> Remedy | None:
    """What would help with what an operator says; None where it accepted."""
    reason, needed, offered = opinion["reason"], opinion.get("needed") or "", opinion.get("offered") or ""
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
    least_of = []
    for kind in sorted(kinds):
        least = min((r for r in remedies.values() if r.kind == kind), key=lambda remedy: remedy.size)
        least_of.append((least, [name for name, r in remedies.items() if r.kind == kind and r.size <= least.size]))
    waits = (_PATIENCE, _LATER, _ANOTHER)
    return sorted(least_of, key=lambda one: (one[0].text.startswith(waits), -len(one[1])))


def _afterwards(remedy: Remedy, amount: Amount) -> Remedy:
    """The same for another order, once nobody can accept this one any more."""
    if remedy.kind == "silent":
        return replace(remedy, text=f"{_ANOTHER}: it said nothing")
    if remedy.kind == "ramp":
        text = f"more time at a price of {amount(remedy.size)}: a higher --min-price, or a longer --accept-within"
        return replace(remedy, text=text)
    return replace(remedy, text=remedy.text.replace(_PATIENCE, _LATER))


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


def _is_opinion(row: object) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("operator", "reason")):
        return False
    return all(isinstance(row.get(name, ""), str | None) for name in ("needed", "offered"))
