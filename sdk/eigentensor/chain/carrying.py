"""Carrying out a plan: each message simulated, journalled, sent once; or written down for a key that is elsewhere."""

import time
import uuid
from collections.abc import Callable, Sequence
from itertools import takewhile

from eigentensor.chain.chain import Chain
from eigentensor.chain.node import Node
from eigentensor.chain.onboarding import Call, Status, Step
from eigentensor.chain.refusals import reverted, talking_to
from eigentensor.chain.sender import Message
from eigentensor.chain.survey import Findings, survey
from eigentensor.errors import ChainError

_POLL = 0.1


def carry_out(
    chain: Chain, plan: Callable[[Findings], Sequence[Step]], progress: Callable[[Step, Call], None] = lambda *_: None
) -> Sequence[Step]:
    """Sends all that the plan says can be sent now, and returns the plan as it is then.

    `progress` is called before each message. What an interrupted run had sent is waited for first. Raises what
    `Sender.send` raises.
    """
    settle(chain)
    before: Call | None = None
    while True:
        steps = plan(survey(chain, chain.address))
        ready = sendable(steps)
        if not ready:
            return steps
        step = ready[0]
        call = step.calls[0]
        if call == before:
            raise ChainError(f"{step.name}: {call.function} is in the chain, and nothing has changed", fix="Try again.")
        progress(step, call)
        receipt = chain.sender.send(message_of(chain.node, call), uuid.uuid4().hex)
        while chain.node.block_number() < receipt.block:  # a node behind the same address may be late
            time.sleep(_POLL)
        before = call


def sendable(steps: Sequence[Step]) -> list[Step]:
    """What can be sent now: nothing behind a blocked step, for which it would be in vain."""
    before = takewhile(lambda step: step.status is not Status.BLOCKED, steps)
    return [step for step in before if step.status is Status.TODO]


def settle(chain: Chain) -> None:
    """Offers what was sent and is not in the chain again, and waits for it."""
    chain.sender.resume()
    for intent in chain.journal.pending():
        chain.sender.wait(intent.key)


def message_of(node: Node, call: Call) -> Message:
    """The message that makes a call of a plan."""
    contracts = {
        "TaskMarket": node.market,
        "ServiceManager": node.manager,
        "AllocationManager": node.allocation_manager,
        "DelegationManager": node.delegation_manager,
        "StrategyManager": node.strategy_manager,
        "Token": node.token,
    }
    return Message.of(contracts[call.contract], call.function, *call.arguments)


def rehearse(node: Node, sender: str, messages: Sequence[Message]) -> bool:
    """Simulates messages one after the other on top of the newest block. Raises Reverted where one would be refused.

    Returns False where the node cannot simulate several (eth_simulateV1): then only the first was tried.
    """
    calls = [message.call_of(sender) for message in messages]
    results = node.simulate_all(calls)
    if results is None:
        node.simulate(calls[0], "latest")
        return len(calls) < 2
    for result in results:
        if result["status"] != 1:
            with talking_to(node.network.rpc_url):
                data = result.get("returnData") or result.get("error", {}).get("data") or "0x"
                raise reverted(bytes.fromhex(data[2:]))
    return True
