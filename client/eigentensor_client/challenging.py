"""Looking at somebody's result again, challenging it if it is wrong, and playing the game to its end."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from eigentensor import economics
from eigentensor.chain import GameView, Reader, Stage
from eigentensor.chain.transcript import transcript
from eigentensor.errors import (
    ChainError,
    DisputeError,
    EigenTensorError,
    ExecutionError,
    ExecutorConvicted,
    NotChallengeable,
    NotYet,
)
from eigentensor.player import Player
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram, fetch_bound
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import available
from eigentensor.task import Challenged, Ended, Event, Moved, Opened, Order, State
from eigentensor.task.words import waits_for
from eigentensor_client import stages
from eigentensor_client.client import Client
from eigentensor_client.games import Game
from eigentensor_client.looking import Look, Means, look_again
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Report, download, silent

#: Gas of a challenger's transactions, from the figures in contracts/README.md: of `challenge` and `timeout` where the
#: executor never moves; of a game through all phases, with a trace and a tensor that are opened in several moves.
LEAST_GAS, MOST_GAS = 280_000, 1_000_000


#: Senders of transactions, and the gas that these used.
Sent = dict[bytes, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Stakes:
    """What a challenge costs and brings. Amounts in wei of the market's token, `gas_price` in wei of the coin.

    `reward` comes with the conviction, `share` of the slashed stake later: verifiers that differed share it. `until` is
    the last block for a challenge.
    """

    bond: int
    reward: int
    share: int
    gas_price: int
    until: int


class Challenger:
    """One account that doubts the result of one task. Executes as operators do: confined, within limits."""

    def __init__(self, client: Client, task: TaskView, *, memory: int, unsafe: bool = False) -> None:
        """`memory` bounds the bytes of the program's tensors. Raises NoSandbox, and ExecutionError without a compiler,
        before anything is fetched or spent."""
        self.client = client
        self.chain = client.chain
        self.task = task
        self._memory = memory
        self._unsafe = unsafe
        self._uuid = bytes.fromhex(task.uuid)
        self._sent: Sent = {}
        toolchain.local()
        if not unsafe:
            available()

    # ---- Before anything is spent ----

    def own_games(self) -> dict[int, bool]:
        """This account's games about the result with bonds of their own, and whether they are open."""
        played = self.chain.games.of(self._uuid)
        bonds = {number: self.chain.market.challenge_of(self._uuid, number) for number in played}
        own = [n for n, bond in bonds.items() if bond.challenger == self.client.address and not bond.slot]
        return {number: played[number] for number in own}

    def check(self) -> None:
        """Raises what makes a challenge impossible now: NotYet, ExecutorConvicted, NotChallengeable."""
        task = self.task = self.client.look(self.task)
        if task.state is State.REVEALED and task.block < self.until:
            return
        if task.state is State.REVEALED:
            raise NotChallengeable(
                f"the window to challenge task {task.uuid} closed with block {self.until}",
                fix="It becomes final as it is: look earlier, or let `eigentensor watch` look.",
            )
        if task.state is State.CONVICTED:
            raise ExecutorConvicted(
                f"executor {task.executor} is convicted for task {task.uuid} already: "
                f"{stages.conviction(task, self.client.amount)}",
                fix="`eigentensor challenge claim` brings what is due to you of it.",
            )
        if task.state.is_terminal:
            raise NotChallengeable(f"task {task.uuid} is {task.words}: there is nothing to challenge any more")
        raise NotYet(
            f"task {task.uuid} is {task.words}: its result is not revealed yet",
            fix=f"It waits for {waits_for(task.life, task.block, self.client.pace)}. Try again then.",
        )

    @cached_property
    def until(self) -> int:
        """The last block for a challenge."""
        revealed = self.chain.market.task_at(self._uuid).since
        return revealed + economics.challenge_window(self._parameters, self.task.order.exec)

    @cached_property
    def claimed(self) -> bytes:
        """The outputs root that the executor revealed."""
        return self.chain.market.outputs_root_of(self._uuid)

    @property
    def _parameters(self) -> economics.Parameters:
        return self.client.network.deployment.parameters

    # ---- Looking ----

    def look(self, report: Report = silent) -> Look:
        """Executes the task again. Raises what fetching and `look_again` raise."""
        report("fetching what the order names")
        seconds = max(60.0, (self.until - self.task.block) * self.chain.node.block_seconds())
        means = Means(self._memory, seconds, self._unsafe)
        return look_again(self._bound, self.claimed, self.client.gateway, means, report)

    def stakes(self) -> Stakes:
        """What a challenge costs and brings now."""
        price = self.task.price or 0
        return Stakes(
            bond=economics.bond(self._parameters, price),
            reward=economics.reward(self._parameters, price),
            share=(self.task.stake or 0) // 2,
            gas_price=self.chain.node.gas_price(),
            until=self.until,
        )

    # ---- Playing ----

    def open(self, stakes: Stakes) -> int:
        """Posts the bond, once for each time that this account has lost or won a game about it; returns the game.

        Raises InsufficientFunds before anything is sent, and ChainError.
        """
        fix = "Get tokens, or tell somebody who has them: anybody may challenge."
        self.client.check_funds(stakes.bond, "the bond", fix=fix)
        ended = sum(not is_open for is_open in self.own_games().values())
        once = f"challenge {self.task.uuid} after {ended}"
        receipt = self.chain.market.challenge(self.client.address, self.task.order, once=once, bond=stakes.bond)
        return next(event.game_id for event in receipt.events if isinstance(event, Challenged))

    def play(self, game: int, seen: Callable[[Game, str], None]) -> Game:
        """Plays a game to its end. `seen` is told how it stands, and what is done next, again and again.

        What fails on the way is tried again. Raises DisputeError and ExecutionError: then the clock runs on.
        """
        clock = economics.clock(self._parameters, self.task.order.exec)
        limits = self._limits(max(60.0, clock * self.chain.node.block_seconds()))
        retrace = confined.retracing(limits, unsafe=self._unsafe)
        public = partial(download, self.client.gateway)
        player = Player(self.chain, self.client.address, self._load, retrace, public=public)
        state, trouble = read_game(self.chain, game, self._sent), ""
        while state["state"] == "open":
            mine = state["turn"] == "challenger"
            seen(state, trouble or ("making your next move" if mine else "waiting for the executor's move"))
            try:
                moved, trouble = player.turn(game), ""
            except (DisputeError, ExecutionError):
                raise
            except EigenTensorError as error:  # of a node, of a gateway, or of what they gave: they may know better
                moved, trouble = None, f"to be tried again: {' '.join(str(error).split())}"
            if moved is None:
                time.sleep(self.client.poll)
            with suppress(ChainError):
                state = read_game(self.chain, game, self._sent)
        seen(state, "")
        return state

    @cached_property
    def _bound(self) -> BoundProgram:
        return fetch_bound(self.client.gateway, self.task.order)

    def _load(self, task: bytes, order: Order) -> BoundProgram:
        return self._bound

    def _limits(self, seconds: float) -> Limits:
        return confined.limits(self._memory, seconds)


def read_game(chain: Reader, number: int, known: Sent) -> dict[str, Any]:
    """A game now, as the gateway tells it too (`eigentensor.challenge/1`). `known` keeps what does not change.

    Raises ChainError if there is no such game.
    """
    block, played = chain.node.block_number(), chain.games.at(number)
    state = _state_of(chain, played)
    first = chain.market.task_at(played.task).accepted_at
    events = [
        chain.history.posted(played.task),
        *(e for e in chain.history.events_of(played.task, first) if not _is_move(e)),
    ]
    own = [played.opened, *played.moves, *([played.ended] if played.ended else [])]
    for event in own:
        if (
            event.place.transaction not in known
            and (receipt := chain.node.receipt(event.place.transaction)) is not None
        ):
            known[event.place.transaction] = str(receipt["from"]), receipt["gasUsed"]
    happened = sorted({event.place: event for event in (*events, *own)}.values(), key=lambda event: event.place)
    sent = [(event, known.get(event.place.transaction)) for event in happened]
    return transcript(number, sent, state=state, block=block, parameters=chain.deployment.parameters)


def _is_move(event: Event) -> bool:
    return isinstance(event, Opened | Moved | Ended)


def _state_of(chain: Reader, played: GameView) -> str:
    """`open`, `ended`, or `idle`: its task ended before it did, and its bond is not back."""
    if not chain.market.task_at(played.task).state.is_terminal:
        return "open" if played.ended is None else "ended"
    bond = chain.market.challenge_of(played.task, played.game_id)
    paid = bond.slot and chain.market.answer_of(played.task, bond.slot - 1).stage is Stage.PAID
    return "ended" if bond.ended or paid else "idle"
