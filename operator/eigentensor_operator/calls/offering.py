"""What an operator offers to those who call it: its programs, made warm, and the terms of its pool by its settings."""

import secrets
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from eigentensor import merkle
from eigentensor.channel import Offer, pool_of
from eigentensor.dispute.refusal import refuse
from eigentensor.economics import WAD, Parameters, shares
from eigentensor.errors import ClusterError, ConfigError, EigenTensorError, NotDisputable
from eigentensor.program import Program, Role, decode
from eigentensor.store import GatewayClient
from eigentensor.task.order import NONE, Domain
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.device import Device

START = 600.0  #: seconds that compiling a program and starting its process may take


@dataclass(frozen=True, slots=True)
class PricedProgram:
    """A program that is to be served, by its roots: wei for each repeat, and the most repeats."""

    program: bytes
    weights: bytes
    price: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What of an offer settings say. Amounts are wei, times are blocks, the rate is WAD."""

    most: int
    risk_each: int
    risk_all: int
    check_rate: int
    verifiers: int
    exec: int
    epoch: int


def offer_of(terms: Terms, p: Parameters, operator: str, signer: str, programs: Sequence[PricedProgram]) -> Offer:
    """The offer of these programs; its nonce is 0. Verifiers get for each call what the cheapest one costs.

    Raises ConfigError for terms under which no batch could be committed, or that the contract would refuse.
    """
    prices = [one.price for one in programs]
    if not programs or min(prices) <= 0:
        raise ConfigError("no program with a price is named", fix="Name some in CALL_PROGRAMS.")
    if not p.check_floor <= terms.check_rate <= WAD:
        raise ConfigError(
            f"calls of this market are checked at a rate of {p.check_floor / WAD} to 1", fix="Set CALL_CHECK_RATE."
        )
    if not 1 <= terms.verifiers <= _VERIFIERS or not 1 <= terms.exec <= p.max_exec:
        raise ConfigError(
            f"a pool has 1 to {_VERIFIERS} verifiers, who take 1 to {p.max_exec} blocks",
            fix="Set CALL_VERIFIERS and CALL_EXEC.",
        )
    if terms.risk_each > terms.risk_all:
        raise ConfigError("one deal may put more at risk than all together", fix="Set a larger CALL_RISK_ALL.")
    most = max(one.price * one.repeat for one in programs)
    if terms.most < most:
        raise ConfigError(f"a batch may come to {terms.most} wei, and a call to {most}", fix="Set a larger CALL_MOST.")
    return Offer(
        operator=operator, signer=signer, nonce=0, max_price=most, check_price=min(min(prices) * WAD // p.phi, most),
        most=terms.most, risk_each=terms.risk_each, risk_all=terms.risk_all, check_rate=terms.check_rate,
        verifiers=terms.verifiers, exec=terms.exec, epoch=terms.epoch, tail=shares.TAIL,
        programs=merkle.programs_root(listed(programs)),
    )  # fmt: skip


def listed(programs: Iterable[PricedProgram]) -> dict[bytes, int]:
    """The programs of an offer with their most repeats: of one that is named with several weights, the most."""
    most: dict[bytes, int] = {}
    for one in programs:
        most[one.program] = max(most.get(one.program, 0), one.repeat)
    return most


def settled(offer: Offer, ledger: Ledger, domain: Domain, over: Iterable[bytes] = ()) -> Offer:
    """The offer of the same terms that was made before, unless its pool is `over`; else this one, with a nonce that no
    other has."""
    ended = set(over)
    for pool, (kept, _) in ledger.pools().items():
        if pool not in ended and replace(kept, nonce=0) == offer:
            return kept
    made = replace(offer, nonce=secrets.randbits(64))
    assert pool_of(domain, made) not in ended
    return made


def warmed(priced: PricedProgram, gateway: GatewayClient, held: ExitStack, device: Device) -> ServedProgram:
    """A program that is ready to be called; `held` ends what is ready. At a cluster that is away it is made ready by
    the first call that meets it there: a daemon does what is due meanwhile.

    Raises StoreError where program or weights cannot be had, ProgramError, BindingError, NotDisputable where nobody
    could dispute it, ExecutionError.
    """
    program = decode(gateway.fetch(priced.program).read_bytes())
    _check(program, priced)
    weights = gateway.fetch(priced.weights) if priced.weights != NONE else None
    execution = device.served(program, weights, START)
    held.callback(execution.close)
    with suppress(ClusterError):
        execution.warm()
    return ServedProgram(priced.program, priced.weights, program, execution, priced.price, priced.repeat)


def _check(program: Program, priced: PricedProgram) -> None:
    if priced.repeat > program.max_repeat:
        raise ConfigError(
            f"program {priced.program.hex()} is executed {program.max_repeat} times at most, not {priced.repeat}",
            fix="Set a smaller `repeat` in CALL_PROGRAMS.",
        )
    if bool(program.named(Role.WEIGHT)) != (priced.weights != NONE):
        raise ConfigError(
            f"program {priced.program.hex()} {'needs' if program.named(Role.WEIGHT) else 'has no'} weights",
            fix="Name their root as `weights` in CALL_PROGRAMS, or leave it out.",
        )
    if (reason := refuse(program, priced.repeat)) is not None:
        raise NotDisputable(reason)


def all_warmed(
    priced: Iterable[PricedProgram], gateway: GatewayClient, held: ExitStack, device: Device
) -> list[ServedProgram]:
    """All of them. Raises ConfigError, which names the one that cannot be served."""
    served = []
    for one in priced:
        try:
            served.append(warmed(one, gateway, held, device))
        except ConfigError:
            raise
        except EigenTensorError as error:
            raise ConfigError(
                f"program {one.program.hex()} cannot be served: {error.what}",
                fix=error.fix or "Take it out of CALL_PROGRAMS.",
            ) from None
    return served


_VERIFIERS = 4  # of a pool
