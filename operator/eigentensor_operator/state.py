"""All that the daemon knows, and what follows from it for more than one task."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from eigentensor import economics
from eigentensor.task import State
from eigentensor_operator import policy as rules
from eigentensor_operator.case import Case, Role, Step
from eigentensor_operator.game import Game
from eigentensor_operator.policy import Claims, Policy, Reason, Standing


class Seed(NamedTuple):
    """The random value of a seed block, recorded in `block`."""

    mix: bytes
    block: int


class Turn(NamedTuple):
    """A move in `game`, or (0) showing what a client demands: in block `by` at the latest."""

    task: bytes
    game: int
    by: int


@dataclass(frozen=True, slots=True)
class Operator:
    """`faulty` once the device gave a wrong result: then nothing more is executed, accepted or answered. While its
    self-test is under way (`testing`) all that needs no device is done."""

    policy: Policy
    cases: Mapping[bytes, Case] = field(default_factory=dict)
    games: Mapping[int, Game] = field(default_factory=dict)
    seeds: Mapping[int, Seed] = field(default_factory=dict)
    standing: Standing | None = None
    draining: bool = False
    faulty: Reason | None = None
    testing: bool = False
    proven: frozenset[bytes] = frozenset()  # programs that ran here since the start, or were tried

    def replaced(self, case: Case) -> "Operator":
        return replace(self, cases={**self.cases, case.uuid: case})

    @property
    def head(self) -> int:
        return self.standing.block if self.standing else -1

    @property
    def is_weighing(self) -> bool:
        """Whether money, stake or gas have a say in what is decided next. All else that is decided, every clock above
        all, takes the number of the newest block alone, and what the chain showed of tasks and games."""
        return any(map(self._is_undecided, self.cases.values()))

    def _is_undecided(self, case: Case) -> bool:
        if case.now.state is State.OPEN:
            return case.refused is None or not case.refused.lasting
        is_unanswered = case.now.state is State.COMMITTED and case.answer_of(self.policy.operator) is None
        return is_unanswered and self.policy.verify and not self.mine(case) and self.is_drawn(case) is not False

    # ---- One task ----

    def is_prepared(self, case: Case) -> bool:
        """Whether the task's program is compiled, and before an acceptance was tried: for another task, too, unless
        this one leaves so little time that its own repeats have to be timed."""
        if case.prepared or case.order.program not in self.proven:
            return case.prepared
        return case.now.state is not State.OPEN or not (
            case.needs is not None and rules.is_close(self.policy, case.order, case.needs)
        )

    def compiling(self, case: Case) -> float:
        """Seconds that are expected to be spent on compiling the task's program yet."""
        is_compiled = case.prepared or case.order.program in self.proven
        return 0.0 if is_compiled else case.compile_seconds

    def mine(self, case: Case) -> bool:
        return case.executor == self.policy.operator

    def role_in(self, case: Case) -> Role:
        """Executor of what it accepted, verifier of what it answered for."""
        if self.mine(case):
            return Role.EXECUTOR
        return Role.NONE if case.answer_of(self.policy.operator) is None else Role.VERIFIER

    def bond_of(self, case: Case) -> int:
        """Wei of this operator that are held for its answer."""
        answer = case.answer_of(self.policy.operator)
        if answer is None or self.mine(case) or case.is_over(answer) or case.has_lost(answer):
            return 0
        return economics.bond(self.policy.parameters, case.price)

    def seed_of(self, case: Case) -> Seed | None:
        """What decides about the draw of a committed task, once it is recorded."""
        return self.seeds.get(case.seed_block(self.policy))

    def is_drawn(self, case: Case) -> bool | None:
        """Whether a committed task is checked; None while its seed is not recorded."""
        seed = self.seed_of(case)
        return None if seed is None else economics.is_drawn(seed.mix, case.uuid, case.order.check_rate)

    def deadline(self, case: Case) -> int:
        """The last block of what the chain waits for: as the market's `deadlineOf`."""
        if case.now.state is State.COMMITTED and self.seed_of(case) is None:
            return case.seed_block(self.policy) + self.policy.parameters.record
        if case.now.state is State.REVEALED and case.demand is not None:
            return case.demand.by
        return case.deadline(self.policy)

    def is_waiting(self, case: Case) -> bool:
        """Whether a step of the task is under way, or its next attempt is later."""
        return case.doing is not None or self.head < max(case.not_before, case.visible_by)

    def is_finished(self, case: Case) -> bool:
        """Whether nothing more can come of what the operator has at stake in the task, or is about to have.

        Until the task has ended the operator can be challenged, and its answer wants to be opened and settled. Nothing
        is finished as long as the chain was not read.
        """
        if self.standing is None:
            return False
        if self.mine(case):
            delivered = case.seal is None or case.uploaded or case.now.state is not State.FINAL
            return case.dropped is not None or (case.now.state.is_terminal and delivered)
        answer = case.answer_of(self.policy.operator)
        if answer is None:
            return not self._accepting(case) and not self._answering(case)
        late = case.opened(answer) is None and self.head >= case.answers_by(self.policy)
        return late or case.is_settled(answer)

    # ---- All tasks ----

    def open_games(self) -> list[Game]:
        """Those that this operator plays."""
        me = self.policy.operator
        mine = (g for g in self.games.values() if me in (g.position.executor, g.position.challenger))
        return [game for game in mine if not game.ended]

    def is_beyond(self, game: Game) -> bool:
        """Whether as many older games about its task are open as a policy promises to play at once. It waits for them:
        what lapses in a flood is then a crowded game, which costs those who flood more than it brings."""
        return sum(g.task == game.task and g.number < game.number for g in self.open_games()) >= economics.GAMES

    def turns(self) -> Iterator[Turn]:
        """What this operator is to do in disputes."""
        for game in self.open_games():
            case = self.cases.get(game.task)
            if case is not None and case.now.state is State.REVEALED and game.awaits(self.policy.operator):
                yield Turn(game.task, game.number, game.last_block)
        for case in self.cases.values():
            if case.now.state is State.REVEALED and self.mine(case) and case.demand is not None:
                yield Turn(case.uuid, 0, case.demand.by)

    def short_clocks(self) -> Iterator[Turn]:
        """Turns with less than a third of the clock left."""
        for turn in self.turns():
            clock = economics.clock(self.policy.parameters, self.cases[turn.task].order.exec)
            if 3 * (turn.by - self.head) < clock:
                yield turn

    def doing(self, *steps: Step) -> int:
        return sum(case.doing in steps for case in self.cases.values())

    def promises(self) -> Iterator[Case]:
        """Accepted by this operator and not yet committed, or about to be accepted."""
        for case in self.cases.values():
            accepted = case.now.state is State.ACCEPTED and self.mine(case) and not case.dropped
            if accepted or self._accepting(case):
                yield case

    def checks(self) -> Iterator[Case]:
        """Being fetched or executed for an answer."""
        for case in self.cases.values():
            committed = case.now.state is State.COMMITTED and not self.mine(case)
            drawn = case.candidacy is not None and case.candidacy.index is not None
            failed = case.unanswered is not None and case.unanswered.lasting
            is_busy = case.doing in (Step.FETCH, Step.PREPARE, Step.EXECUTE)
            begun = case.fetched or is_busy  # a lost race may have fetched it too
            if committed and drawn and begun and case.seal is None and not failed:
                yield case

    def blocks_ahead(self) -> int:
        """Blocks of execution that are promised and not done."""
        cases = [*self.promises(), *self.checks()]
        return sum(self.policy.blocks(c.needs) for c in cases if c.needs and c.seal is None)

    def slack(self) -> int | None:
        """Blocks by which all promises together can be later and still be in time; None: there are none."""
        waiting = [c for c in self.promises() if c.now.state is State.ACCEPTED and c.seal is None]
        if not waiting:
            return None
        work = sum(self.policy.blocks(c.needs) if c.needs else 1 for c in waiting)
        return min(c.deadline(self.policy) for c in waiting) - self.head - work - self.policy.reserve

    def claims(self) -> Claims:
        """What acceptances and answers on their way, or after the head, will hold."""
        total = Claims()
        for case in self.cases.values():
            if self._accepting(case) or self._accepted_after_head(case):
                total += rules.claims_of(self.policy, case.order, rules.price_at(case.order, self.head + 1))
            elif self._answering(case):
                total += Claims(economics.bond(self.policy.parameters, case.price))
        return total

    def _accepting(self, case: Case) -> bool:
        return case.now.state is State.OPEN and (case.doing is Step.ACCEPT or case.visible_by > self.head)

    def _accepted_after_head(self, case: Case) -> bool:
        return case.now.state is State.ACCEPTED and self.mine(case) and case.now.block > self.head

    def _answering(self, case: Case) -> bool:
        if case.now.state is not State.COMMITTED or self.mine(case):
            return False
        answer = case.answer_of(self.policy.operator)
        if answer is not None:
            return answer.place.block > self.head
        return case.doing is Step.ANSWER or case.visible_by > self.head
