"""An operator's paid calls put together: settings in, a service and its HTTP server out."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from math import ceil

from eigentensor.chain import Network, to_wei
from eigentensor.channel import Offer
from eigentensor.economics import Parameters, shares
from eigentensor.errors import ConfigError
from eigentensor.program.cost import needs_of
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.task.order import NONE, Signer
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.interface import Draws
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.calls.offering import PricedProgram, Terms, all_warmed, listed, offer_of, settled
from eigentensor_operator.calls.routes import Where, calls_app
from eigentensor_operator.calls.service import CallService, Rules
from eigentensor_operator.config import Settings
from eigentensor_operator.device import Device
from eigentensor_operator.node import NodeServer
from eigentensor_operator.policy import Policy, refuse_defence

#: The most blocks of an epoch, where settings say none: calls wait half of it for their commit.
EPOCH = 1000


@contextmanager
def call_service(
    settings: Settings, network: Network, operator: str, key: Signer, gateway: GatewayClient, device: Device, delay: int
) -> Iterator[CallService]:
    """The calls of an operator, with its programs warm; nothing is served before it is shown what the chain has.

    `key` is the operator's signer's, `delay` the blocks for which its present stake can be slashed. Raises
    ConfigError for settings that do not go together, programs that cannot be served, and a ledger of another operator.
    """
    deployment = network.deployment
    domain, decimals, p = deployment.channels_domain, deployment.token_decimals, deployment.parameters
    priced, terms = programs_of(settings, decimals), terms_of(settings, decimals, p, delay)
    offer = offer_of(terms, p, operator, key.address, priced)
    check_lifetime(offer, p, delay)
    with ExitStack() as held:
        ledger = held.enter_context(closing(Ledger(settings.call_ledger)))
        ledger.claim(domain, operator)
        served = all_warmed(priced, gateway, held, device)
        check_defence(settings.policy(operator, network), offer.exec, served)
        shelf = LocalStore(settings.data_dir / "calls")
        service = CallService(domain, p, key, ledger, shelf, served, rules_of(settings))
        held.enter_context(closing(service))
        service.offer(settled(offer, ledger, domain, service.over()), listed(priced))
        yield service


def call_server(
    settings: Settings, network: Network, service: CallService, store: LocalStore, draws: Draws
) -> NodeServer:
    """Serves them over HTTP from a thread. `store` has programs and weights by root. Raises ConfigError."""
    deployment = network.deployment
    where = Where(deployment.channels_domain, deployment.token, ceil(settings.call_seconds), store)
    return NodeServer(calls_app(service, where, draws), *settings.calls_address, service.loop)


def check_lifetime(offer: Offer, p: Parameters, delay: int) -> None:
    """Raises ConfigError for an offer whose batches would hold stake for longer than it is sure to be there, `delay`
    blocks: the market begins none, and clients would wait for one in vain."""
    if (held := shares.lifetime(p, offer.exec, offer.epoch)) > delay:
        raise ConfigError(
            f"a batch of calls would hold stake for {held} blocks, and EigenLayer lets it go after {delay}",
            fix=f"Lower CALL_EPOCH, now {offer.epoch}, or CALL_EXEC, now {offer.exec}.",
        )


def check_defence(policy: Policy, exec_: int, served: Iterable[ServedProgram]) -> None:
    """Raises ConfigError for a program of which games about a right result could be lost by the clock, where the check
    of a share may take `exec_` blocks."""
    for one in served:
        if (no := refuse_defence(policy, exec_, needs_of(one.program, one.repeat))) is not None:
            raise ConfigError(
                f"games about program {one.root.hex()} may take {no.needed}, and leave {no.offered}",
                fix="Set a larger CALL_EXEC, a smaller `repeat` in CALL_PROGRAMS, or measure with `operator bench`.",
            )


def programs_of(settings: Settings, decimals: int) -> list[PricedProgram]:
    """The programs that settings name, priced in wei of a token with so many decimals."""
    return [
        PricedProgram(
            bytes.fromhex(one.program), bytes.fromhex(one.weights) or NONE,
            to_wei(one.price or settings.call_price, decimals), one.repeat,
        )
        for one in settings.call_programs
    ]  # fmt: skip


def terms_of(settings: Settings, decimals: int, p: Parameters, delay: int) -> Terms:
    """The terms of an offer, in wei and WAD. An epoch of which settings say nothing is as long as stake that can leave
    after `delay` blocks bears, `EPOCH` at most."""
    amounts = (settings.call_most, settings.call_risk_each, settings.call_risk_all)
    most, risk_each, risk_all = (to_wei(amount, decimals) for amount in amounts)
    rate, exec_ = to_wei(settings.call_check_rate), settings.call_exec or p.max_exec
    least = rules_of(settings).reserve + 2  # in a shorter one no call is served
    epoch = settings.call_epoch or max(least, min(EPOCH, delay - shares.lifetime(p, exec_, 0)))
    return Terms(most, risk_each, risk_all, rate, settings.call_verifiers, exec_, epoch)


def rules_of(settings: Settings) -> Rules:
    """What of this machine calls may take."""
    waiting = settings.calls_waiting, settings.calls_each
    reserve = settings.reserve if settings.reserve is not None else Rules().reserve
    return Rules(reserve, settings.call_seconds, settings.call_body, *waiting)
