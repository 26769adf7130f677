"""All that an operator knows of batches, and what follows from it for more than one of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from eigentensor.channel.life import BatchLife, CallGame
from eigentensor.channel.pools import Pools
from eigentensor.channel.state import BatchState
from eigentensor.dispute import Side, deadline_of
from eigentensor.economics import shares
from eigentensor.task import Domain
from eigentensor_operator.batches.case import Attempt, Case, Step
from eigentensor_operator.batches.events import Head, Serving
from eigentensor_operator.policy import ROUNDING, Claims, Policy, Reason
from eigentensor_operator.state import Turn


@dataclass(frozen=True, slots=True)
class Desk:
    """What is done about an own pool, and why its next batch is not begun."""

    attempt: Attempt = field(default_factory=Attempt)
    refused: Reason | None = None


@dataclass(frozen=True, slots=True)
class Batches:
    """`policy` is that of tasks, `domain` the one of the market for paid calls."""

    policy: Policy
    domain: Domain
    pools: Pools
    cases: Mapping[bytes, Case] = field(default_factory=dict)
    desks: Mapping[bytes, Desk] = field(default_factory=dict)
    at: Head | None = None

    @property
    def head(self) -> int:
        """The newest block that was read; -1: none."""
        return self.at.standing.block if self.at else -1

    @property
    def is_resting(self) -> bool:
        """Whether nothing new is begun: no batch, no check."""
        return self.at is None or self.at.draining or self.at.testing or self.at.faulty

    def serving(self, pool: bytes) -> Serving | None:
        """How an own pool is served; None: it is not."""
        return self.at.serving.get(pool) if self.at else None

    def replaced(self, case: Case) -> "Batches":
        """With another case in the place of that of the same batch."""
        return replace(self, cases={**self.cases, case.batch: case})

    def with_desk(self, pool: bytes, desk: Desk) -> "Batches":
        """With another desk for a pool."""
        return replace(self, desks={**self.desks, pool: desk})

    # ---- One batch ----

    def life(self, case: Case) -> BatchLife:
        """What became of a case's batch."""
        return self.pools.batches[case.batch]

    def is_mine(self, life: BatchLife) -> bool:
        """Whether this operator executed its calls."""
        return life.offer.operator == self.policy.operator

    def my_games(self, life: BatchLife) -> Iterator[CallGame]:
        """The games that this operator plays and that still decide something."""
        for number in life.open_games:
            game = life.games[number]
            if game.position is not None and self.policy.operator in (
                game.position.executor,
                game.position.challenger,
            ):
                yield game

    def is_to_move(self, game: CallGame) -> bool:
        """Whether it is this operator's turn in a game."""
        assert game.position is not None
        executor = game.position.phase.side is Side.EXECUTOR
        return self.policy.operator == (game.position.executor if executor else game.position.challenger)

    def turns(self, case: Case) -> Iterator[Turn]:
        """What this operator is to do about a batch in games, and of what is demanded of it."""
        life = self.life(case)
        for game in self.my_games(life):
            if game.position is not None and self.is_to_move(game):
                yield Turn(game.task, game.number, deadline_of(game.position))
        if self.is_mine(life):
            waiting = (demand for demand in life.open_demands if demand not in case.closed)
            yield from (Turn(life.batch, 0, demand.show_by) for demand in waiting)
            yield from (Turn(life.batch, 0, demand.since + life.clock) for demand in life.open_share_demands)

    def short_clocks(self) -> Iterator[Turn]:
        """Turns with less than a third of the clock left."""
        for case in self.cases.values():
            if case.batch in self.pools.batches:
                clock = self.life(case).clock
                yield from (turn for turn in self.turns(case) if 3 * (turn.by - self.head) < clock)

    @property
    def games(self) -> int:
        """How many games about calls this operator plays."""
        return sum(1 for life in self.pools.batches.values() for _ in self.my_games(life))

    def is_at_stake(self, case: Case) -> bool:
        """Whether something of this operator's may still come of a batch: its own, an answer, a challenge, a demand."""
        life = self.life(case)
        mine = self.is_mine(life)
        if life.state is BatchState.CONVICTED and mine:
            return not case.halted
        if mine:
            return not life.state.is_terminal
        answer = life.answer_by(self.policy.operator)
        owed = answer is not None and (not life.state.is_terminal or life.payout(answer) > 0)
        played = any(game.challenger == self.policy.operator for game in life.games.values())
        demanded = any(demand.by == self.policy.operator for demand in life.open_demands)
        return owed or ((played or demanded or case.doubt is not None) and not life.state.is_terminal)

    # ---- Money ----

    def collateral(self, life_or_offer: shares.Terms) -> int:
        """K: what a batch of an offer holds."""
        return shares.collateral(self.policy.parameters, life_or_offer.max_price, life_or_offer.verifiers)

    def claims(self) -> Claims:
        """What begins, answers and challenges on their way, or after the head, will hold: of the balance in the market
        for paid calls, and of stake."""
        held = stake = 0
        for pool, desk in self.desks.items():
            serving = self.serving(pool)
            if serving is not None and (desk.attempt.doing is Step.BEGIN or desk.attempt.visible_by > self.head):
                held += self.collateral(serving.offer)
                stake += shares.stake(self.policy.parameters, serving.offer) + ROUNDING
        for case in self.cases.values():
            attempt, life = case.attempt(), self.pools.batches.get(case.batch)
            if life is not None and attempt.doing in (Step.ANSWER, Step.CHALLENGE):
                held += life.bond
        return Claims(held, stake)

    @property
    def free(self) -> int:
        """Wei of the balance that nothing holds, nor is about to."""
        assert self.at is not None
        return self.at.balance - self.claims().collateral

    def doing(self, step: Step) -> int:
        """How many batches have a step under way."""
        return sum(case.is_doing(step) for case in self.cases.values())
