"""What an order would cost, before anything is paid. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from eigentensor import economics, merkle
from eigentensor.economics import Parameters
from eigentensor.program.codec import encode
from eigentensor.program.cost import costs
from eigentensor_client.orders import Terms, Work, check_fee, escrow, exec_of
from eigentensor_client.results import Plan

Operators = Sequence[Mapping[str, Any]]


def plan(work: Work, terms: Terms, p: Parameters, *, balance: int, tokens: int, operators: Operators | None) -> Plan:
    """A valid work on valid terms, for an account with these wei in the market and in its wallet. `operators` is the
    gateway's list of them, None if it does not answer."""
    from eigentensor.runtime.memory.plan import estimate_memory_requirements  # with tinygrad: most verbs do without

    members = [one for one in operators or () if one["member"]]
    lately = [one["lately"] for one in members if one.get("lately")]
    cost, encoded, fee = costs(work.program), encode(work.program), check_fee(p, terms)
    exec_ = exec_of(p, terms)
    return Plan(
        program=merkle.program_root(encoded).hex(),
        calls=cost.calls * work.repeat,
        evaluations=cost.evaluations * work.repeat,
        upload=len(encoded) + cost.input_bytes + cost.weight_bytes + cost.state_bytes,
        memory=estimate_memory_requirements(work.program, repeat=work.repeat)["CPU"],
        results=cost.result_bytes,
        repeat=work.repeat,
        min_price=terms.max_price if terms.min_price is None else terms.min_price,
        max_price=terms.max_price,
        check_rate=terms.check_rate,
        verifiers=terms.verifiers,
        check_fee=fee,
        value_at_risk=terms.value_at_risk,
        escrow=escrow(p, terms),
        detection=economics.detection(terms.check_rate, terms.verifiers, p.sybils),
        stake=economics.stake(p, terms.max_price, terms.value_at_risk, terms.check_rate, terms.verifiers),
        collateral=economics.collateral(p, terms.max_price, terms.verifiers, fee),
        penalty=economics.penalty(p, terms.max_price),
        exec=exec_,
        accept_within=terms.accept_within,
        result_within=exec_ + p.lag + p.grid + economics.reveal_window(p, exec_),
        final_after=economics.challenge_window(p, exec_),
        balance=balance,
        tokens=tokens,
        operators=None if operators is None else len(members),
        lowest_paid=min((int(paid["lowest_price"]) for paid in lately), default=None),
        highest_paid=max((int(paid["highest_price"]) for paid in lately), default=None),
    )
