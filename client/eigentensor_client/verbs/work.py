"""From a verb's options to work and terms."""

from typing import TYPE_CHECKING

from eigentensor.chain import Network, to_wei
from eigentensor.errors import BindingError
from eigentensor_client.defaults import LOCAL_PRICE
from eigentensor_client.files import read_inputs, read_tensors, read_variables
from eigentensor_client.orders import Terms, Work, read_rate
from eigentensor_client.screen import Screen
from eigentensor_client.sources import captured, is_captured, read_program
from eigentensor_client.verbs.options import Given, Offer

if TYPE_CHECKING:
    from eigentensor_client.transfer import Keeper


def read_work(given: Given, gateway: "Keeper | None" = None) -> Work:
    """The program and its tensors; the gateway is asked for a program that is named by its uuid. In a
    terminal it shows that one is captured."""
    inputs, states, variables = read_inputs(given.input), read_tensors(given.states), read_variables(given.variable)
    if is_captured(given.program):
        with Screen().work() as bar:
            bar(f"capturing {given.program}")
            graph, inputs = captured(given.program, inputs, given.weights, given.cast)
        weights, states = dict(graph.weights), states or dict(graph.states)
        return Work(graph.program, inputs, weights, states, variables, given.repeat, graph.cast)
    if given.cast:
        raise BindingError(
            f"{given.program} is a program already", fix="Leave --cast out, and give it the types that it takes."
        )
    program = read_program(given.program, gateway)
    return Work(program, inputs, read_tensors(given.weights), states, variables, given.repeat)


def read_terms(network: Network, offer: Offer) -> Terms:
    """The terms that are offered. Raises BindingError without a price on a chain that is not local."""

    def wei(tokens: str) -> int:
        return to_wei(tokens, network.deployment.token_decimals)

    most = offer.max_price or (LOCAL_PRICE if network.is_local else None)
    if most is None:
        raise BindingError(
            "no price is offered", fix="Say with --max-price how many tokens the executor is paid at most."
        )
    return Terms(
        max_price=wei(most),
        min_price=None if offer.min_price is None else wei(offer.min_price),
        ramp=offer.ramp,
        check_rate=read_rate(offer.check),
        verifiers=offer.verifiers,
        check_fee=None if offer.check_fee is None else wei(offer.check_fee),
        value_at_risk=wei(offer.value_at_risk),
        exec=offer.exec,
        accept_within=offer.accept_within,
    )
