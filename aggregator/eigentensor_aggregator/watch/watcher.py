"""The watcher's loop: ask its machine, do what it says, say what was seen."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import structlog

from eigentensor import traces
from eigentensor.chain import Mined
from eigentensor.errors import EigenTensorError, NotMined
from eigentensor.task import Life
from eigentensor.task.due import NEVER
from eigentensor.wire import Block, Object, Root, word
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.watch import machine
from eigentensor_aggregator.watch.hands import Hands
from eigentensor_aggregator.watch.looks import Looks
from eigentensor_aggregator.watch.machine import Act, Do, Policy, Situation, Verdict

#: Blocks after which no reorganisation is expected.
KEEP = 64
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchReport(Object, schema="eigentensor.watch/2"):
    """`eigentensor.watch/2`: how a watched task stands."""

    block: Block
    """The block as of which it stands so."""
    task: Root
    """The task's uuid."""
    verdict: Annotated[Verdict, word(*Verdict)] | None
    """What came of executing it again; null: it was not executed."""
    words: str
    """More of that, in words."""
    games: tuple[int, ...] = ()
    """The watcher's own games about it, by number."""


class Watcher:
    """Re-executes results, challenges those that differ, and plays its games. Whatever is begun runs in a thread of
    its own, which ends with the process wherever it is: results are in the database, messages in the journal."""

    def __init__(
        self, policy: Policy, looks: Looks, hands: Hands, metrics: Metrics, report: Callable[[WatchReport], None]
    ) -> None:
        self._policy = policy
        self._looks = looks
        self._hands = hands
        self._metrics = metrics
        self._report = report
        self._lock = threading.Lock()
        self._rests: dict[Do, int] = {}
        self._pauses: dict[Do, int] = {}
        self._doing: dict[Do, threading.Thread] = {}
        self._stopping = False
        self._short: frozenset[Do] = frozenset()

    def turn(self, block: int) -> None:
        """One round, when everything up to `block` was read. Raises ChainError."""
        lives = self._looks.lives(self._policy.address, self._policy.chooses)
        looks = self._looks.of(lives)
        wrong = any(look.verdict is Verdict.DIFFERS for look in looks.values())
        with self._lock:
            self._rests = {do: by for do, by in self._rests.items() if by > block - KEEP}
            rests = dict(self._rests)
        now = Situation(block, self._hands.funds() if wrong else 0, lives, looks, rests)
        self._metrics.bonds.set(machine.bound_by(self._policy, now))
        self._report_on(now)
        self._warn(now)
        known = {life.uuid: life for life in lives}
        for do in machine.decide(self._policy, now):
            self._begin(do, known[do.task], block)

    def stop(self) -> None:
        """Begins nothing more, and returns when what sends messages is done; an execution is left to itself."""
        with self._lock:
            self._stopping = True
            sending = [thread for do, thread in self._doing.items() if do.act is not Act.LOOK]
        for thread in sending:
            thread.join()

    # ---- Doing ----

    def _begin(self, do: Do, life: Life, block: int) -> None:
        thread = threading.Thread(target=self._perform, args=(do, life, block), name=str(do.act), daemon=True)
        with self._lock:
            if self._stopping:
                return
            self._rests[do] = NEVER
            self._doing[do] = thread
        thread.start()

    def _perform(self, do: Do, life: Life, block: int) -> None:
        rest = block + 1
        try:
            rest = self._do(do, life, block)
        except NotMined as error:
            _log.info("message waits", act=do.act, task=do.task.hex(), game=do.game, why=error.what)
        except EigenTensorError as error:
            rest = self._failed(do, life, block, str(error))
        except Exception as error:  # a fault of ours in one task must not end the others
            if not self._stopping:
                _log.exception("unexpected", act=do.act, task=do.task.hex())
            rest = self._failed(do, life, block, repr(error))
        finally:
            with self._lock:
                self._rests[do] = rest
                self._doing.pop(do)

    def _do(self, do: Do, life: Life, block: int) -> int:
        """Does it; returns the block before which it is not to be done again."""
        match do.act:
            case Act.LOOK:
                with traces.span("look", do.task):
                    look = self._hands.look(life, machine.blocks_left(self._policy, life, block))
                    traces.say(verdict=str(look.verdict))
                with self._lock:  # `stop` does not wait for executions
                    if not self._stopping:
                        self._looks.add(do.task, do.claim, look)
                        self._metrics.looks.labels(look.verdict).inc()
                return block + 1
            case Act.CHALLENGE:
                with traces.span("challenge", do.task):
                    receipt: Mined | None = self._hands.challenge(life, self._policy.bond(life))
            case Act.PLAY:
                with traces.span("play", do.task, game=do.game):
                    receipt = self._hands.play(do.game)
            case Act.REFUND:
                receipt = self._hands.refund(life, do.game)
        self._pauses.pop(do, None)
        if receipt is None:
            return block + 1
        self._metrics.messages.labels(do.act, "mined").inc()
        self._metrics.gas.inc(receipt.gas_used)
        _log.info("message sent", act=do.act, task=do.task.hex(), game=do.game, block=receipt.block)
        return receipt.block

    def _failed(self, do: Do, life: Life, block: int, why: str) -> int:
        """It is tried again, less and less often; but a game has a clock, and a challenge a window."""
        pause = self._pauses.get(do, 0)
        self._pauses[do] = 1 if do.act in (Act.PLAY, Act.CHALLENGE) else min(8, 2 * pause or 1)
        if do.act is not Act.LOOK:
            self._metrics.messages.labels(do.act, "failed").inc()
        if not self._stopping:
            self._report(
                WatchReport(block, life.uuid, None, f"{do.act} failed, to be tried again: {' '.join(why.split())}")
            )
        return block + self._pauses[do]

    # ---- Reports ----

    def _warn(self, now: Situation) -> None:
        """Raises the alarm: a bond is lost unless somebody sees to it."""
        short = dict(machine.short_clocks(self._policy, now))
        for do in short.keys() - self._short:
            _log.error("clock is short", task=do.task.hex(), game=do.game, blocks_left=short[do])
        self._short = frozenset(short)
        self._metrics.short.set(len(short))

    def _report_on(self, now: Situation) -> None:
        for life in now.lives:
            words, look = machine.words(self._policy, now, life), now.look(life)
            if words is None or look is None or life.outputs_root is None:
                continue
            over = life.state.is_terminal and now.block > life.since + KEEP and not self._waits(life)
            if self._looks.reported(life.uuid, life.outputs_root, words, over=over):
                games = tuple(game.number for game in machine.own_games(self._policy, life))
                self._report(WatchReport(now.block, life.uuid, look.verdict, words, games))

    def _waits(self, life: Life) -> bool:
        """Whether a bond of ours is still to be taken back."""
        return any(life.state_of(game) == "idle" for game in machine.own_games(self._policy, life))
