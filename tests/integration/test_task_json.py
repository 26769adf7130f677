"""What the gateway says of a task is what the command says of it, value for value; and looking again costs little."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from eigentensor.chain import Chain, Lives, Network, Opening, Reader, anvil_account
from eigentensor.store import LocalStore
from eigentensor.task import State, view
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_client.client import Client
from eigentensor_client.verbs.show import Show
from eigentensor_local.anvil import Anvil
from support.stories import receipts
from support.stories.game_table import CLIENT
from support.stories.market import ROOT, SALT
from support.stories.market import Life as Led

Story = Callable[[Led, Sequence[Chain]], None]


def opened(led: Led, verifiers: Sequence[Chain]) -> None:
    led.client.market.post(led.order)


def accepted(led: Led, verifiers: Sequence[Chain]) -> None:
    opened(led, verifiers)
    led.operator.market.accept(led.operator.address, led.order)


def committed(led: Led, verifiers: Sequence[Chain]) -> None:
    led.committed()


def drawn(led: Led, verifiers: Sequence[Chain]) -> None:
    led.drawn()


def answered(led: Led, verifiers: Sequence[Chain]) -> None:
    led.drawn()
    led.answer(verifiers[0], ROOT)


def hidden(led: Led, verifiers: Sequence[Chain]) -> None:
    """Revealed, and the verifier has not opened its answer."""
    answered(led, verifiers)
    led.pass_checks()
    led.reveal(led.operator)


def never_opened(led: Led, verifiers: Sequence[Chain]) -> None:
    hidden(led, verifiers)
    led.pass_answers()


def exposed(led: Led, verifiers: Sequence[Chain]) -> None:
    led.drawn()
    index = led.answer(verifiers[0], ROOT)
    verifiers[1].market.expose(led.order, Opening(led.task, ROOT, SALT, index + 1))


def paid(led: Led, verifiers: Sequence[Chain]) -> None:
    """Convicted by a game, slashed, and what the slash brought paid out."""
    receipts.convicted(led, verifiers)
    (slash,) = (life.conviction.slash for life, _ in [Lives(led.client).of(led.order)] if life.conviction)
    assert slash is not None
    led.anvil.mine_past(led.client.stake.payable_from(slash[0]))
    verifiers[1].stake.pay_bounty(slash[0])


def failed(led: Led, verifiers: Sequence[Chain]) -> None:
    accepted(led, verifiers)
    led.anvil.mine_past(led.client.market.deadline_of(led.task))
    led.client.market.close(led.order)


def expired(led: Led, verifiers: Sequence[Chain]) -> None:
    opened(led, verifiers)
    led.anvil.mine_past(led.order.accept_by)
    led.client.market.expire(led.order)


def cancelled(led: Led, verifiers: Sequence[Chain]) -> None:
    opened(led, verifiers)
    led.client.market.cancel(led.order)


#: Each with its state, stage, check, and how many games it had.
STORIES: dict[Story, tuple[str, str, str | None, int]] = {
    opened: ("open", "open", None, 0),
    accepted: ("accepted", "accepted", None, 0),
    committed: ("committed", "committed", None, 0),
    drawn: ("committed", "committed", None, 0),
    answered: ("committed", "committed", None, 0),
    exposed: ("committed", "committed", None, 0),
    hidden: ("revealed", "result", None, 0),
    never_opened: ("revealed", "result", None, 0),
    receipts.checked: ("revealed", "checked(1)", "checked(1)", 0),
    receipts.contradicted: ("revealed", "result", None, 1),
    receipts.confirmed: ("final", "final", "checked(1)", 0),
    receipts.unanswered: ("final", "final", "unchecked", 0),
    receipts.defended: ("final", "final", "unchecked", 1),
    receipts.convicted: ("convicted", "convicted", None, 1),
    receipts.silent: ("convicted", "convicted", None, 0),
    receipts.demanded: ("convicted", "convicted", None, 0),
    paid: ("convicted", "convicted", None, 1),
    failed: ("failed", "failed", None, 0),
    expired: ("expired", "expired", None, 0),
    cancelled: ("cancelled", "cancelled", None, 0),
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_gateway_and_command_say_the_same_of_a_task(
    story: Story,
    life: Led,
    verifiers: list[Chain],
    network: Network,
    settings: Settings,
    serve: Callable[[Settings], tuple[str, Daemon]],
    tmp_path: Path,
) -> None:
    story(life, verifiers)
    url, daemon = serve(settings.model_copy(update={"keystore": None, "password_file": None}))
    daemon.turn()
    served = httpx.get(f"{url}/v1/tasks/{life.task.hex()}").json()
    (listed,) = (t for t in httpx.get(f"{url}/v1/tasks").json()["tasks"] if t["task"] == served["task"])
    with Client(replace(network, gateway_url=url), anvil_account(CLIENT), LocalStore(tmp_path / "store")) as client:
        task = client.task(life.task.hex())
        assert Show(network).task(task) == served
        assert view.task(task.life, task.block) == listed == {k: v for k, v in served.items() if k != "events"}
    assert (served["state"], served["stage"], served["checked"], len(served["games"])) == STORIES[story]


class Counted(Reader):
    """Remembers what it asked its node, and which logs."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.asked: list[tuple[str, Any]] = []
        ask, together = self.node.rpc.ask, self.node.rpc.ask_together

        def counted(method: str, *params: Any) -> Any:
            self.asked.append((method, params))
            return ask(method, *params)

        def counted_together(*questions: tuple[str, Any]) -> list[Any]:
            self.asked += questions
            return together(*questions)

        self.node.rpc.ask, self.node.rpc.ask_together = counted, counted_together  # type: ignore[method-assign]

    def taken(self) -> list[tuple[str, Any]]:
        asked, self.asked = self.asked, []
        return asked


def test_looking_again_costs_a_few_requests_for_logs_of_this_task_whatever_its_age(
    anvil: Anvil, network: Network, life: Led, verifiers: list[Chain]
) -> None:
    hidden(life, verifiers)
    reader = Counted(network)
    lives = Lives(reader)
    first, _ = lives.of(life.order)
    assert (first.state, first.drawn, len(first.answers)) == (State.REVEALED, True, 1)
    costs = []
    for _ in range(2):
        reader.taken()
        anvil.mine()
        assert lives.of(life.order)[0] == first
        asked = reader.taken()
        costs.append(len(asked))
        topics = [params[0]["topics"] for method, params in asked if method == "eth_getLogs"]
        assert topics and all(map(any, topics))
        anvil.mine(1_000)
        lives.of(life.order)
    assert costs[0] == costs[1] <= 7
    reader.taken()
    assert lives.of(life.order)[0] == first
    assert [method for method, _ in reader.taken()] == ["eth_getBlockByNumber"]  # nothing new


def test_a_reorganisation_takes_back_what_a_task_had_done(
    anvil: Anvil, network: Network, life: Led, verifiers: list[Chain]
) -> None:
    answered(life, verifiers)
    reader = Reader(network)
    lives = Lives(reader)
    before, _ = lives.of(life.order)
    kept = anvil.rpc("evm_snapshot")
    life.pass_checks()
    life.reveal(life.operator)
    assert lives.of(life.order)[0].state is State.REVEALED
    anvil.rpc("evm_revert", kept)
    anvil.rpc("anvil_setCoinbase", "0x" + "ab" * 20)
    anvil.mine(40)
    assert lives.of(life.order)[0] == before == Lives(reader).of(life.order)[0]
