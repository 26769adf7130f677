"""All that the daemon knows, and what follows from it for more than one task."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from eigentensor import economics
from eigentensor.dispute import Position, Side, deadline_of
from eigentensor.task import Answer, State
from eigentensor_operator import policy as rules
from eigentensor_operator.case import Case, Role, Step
from eigentensor_operator.policy import Claims, Policy, Reason, Standing


class Turn(NamedTuple):
    """A move in `game`, or (0) showing what a client demands: in block `by` at the latest."""

    task: bytes
    game: int
    by: int


@dataclass(frozen=True)
class Operator:
    """`faulty` once the device gave a wrong result, or while it is a cluster that is away: then nothing more is
    executed, accepted or answered. While its self-test is under way (`testing`) all that needs no device is done.

    What is asked about more than one task is made once, and of those that are at work: hundreds may be open."""

    policy: Policy
    cases: Mapping[bytes, Case] = field(default_factory=dict)
    standing: Standing | None = None
    draining: bool = False
    faulty: Reason | None = None
    testing: bool = False
    beside: Claims = field(default_factory=Claims)  # what batches of paid calls are about to lock
    proven: frozenset[bytes] = frozenset()  # programs that ran here since the start, or were tried

    def replaced(self, case: Case) -> "Operator":
        """With another case in the place of that of the same task."""
        return replace(self, cases={**self.cases, case.uuid: case})

    @property
    def head(self) -> int:
        """The newest block that was read; -1: none."""
        return self.standing.block if self.standing else -1

    @property
    def is_offering(self) -> bool:
        """Whether it would accept a task that suits, so that it says what it asks."""
        return self.standing is not None and not (self.draining or self.testing or self.faulty)

    @property
    def is_weighing(self) -> bool:
        """Whether money, stake or gas have a say in what is decided next. All else that is decided, every clock above
        all, takes the number of the newest block alone, and what the chain showed of tasks and games."""
        return any(map(self._is_undecided, self.cases.values()))

    def _is_undecided(self, case: Case) -> bool:
        if case.state is State.OPEN:
            return case.refused is None or not case.refused.lasting
        is_unanswered = case.state is State.COMMITTED and self.answer_in(case) is None
        return is_unanswered and self.policy.verify and not self.mine(case) and case.life.drawn is not False

    # ---- One task ----

    def is_prepared(self, case: Case) -> bool:
        """Whether the task's program is compiled, and before an acceptance was tried: for another task, too, unless
        this one leaves so little time that its own repeats have to be timed."""
        if case.prepared or case.order.program not in self.proven:
            return case.prepared
        return case.state is not State.OPEN or not (
            case.needs is not None and rules.is_close(self.policy, case.order, case.needs)
        )

    def compiling(self, case: Case) -> float:
        """Seconds that are expected to be spent on compiling the task's program yet."""
        is_compiled = case.prepared or case.order.program in self.proven
        return 0.0 if is_compiled else case.compile_seconds

    def mine(self, case: Case) -> bool:
        """Whether this operator is the task's executor."""
        return case.life.executor == self.policy.operator

    def answer_in(self, case: Case) -> Answer | None:
        """This operator's answer."""
        return case.life.answer_by(self.policy.operator)

    def role_in(self, case: Case) -> Role:
        """Executor of what it accepted, verifier of what it answered for."""
        if self.mine(case):
            return Role.EXECUTOR
        return Role.NONE if self.answer_in(case) is None else Role.VERIFIER

    def bond_of(self, case: Case) -> int:
        """Wei of this operator that are held for its answer."""
        answer = self.answer_in(case)
        if answer is None or answer.is_over or case.life.has_lost(answer):
            return 0
        return self.bond(case)

    def bond(self, case: Case) -> int:
        """Wei that an answer to an accepted task holds."""
        return economics.bond(self.policy.parameters, case.life.price or 0)

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
            delivered = case.seal is None or case.uploaded or case.state is not State.FINAL
            return case.dropped is not None or (case.state.is_terminal and delivered)
        answer = self.answer_in(case)
        if answer is None:
            return not self._accepting(case) and not self._answering(case)
        late = answer.root is None and self.head >= case.life.answers_by
        return late or answer.is_over or (case.state.is_terminal and not case.life.is_owed(answer))

    # ---- All tasks ----

    @cached_property
    def _at_work(self) -> tuple[Case, ...]:
        """Without open tasks about which nothing was begun: they have no part in what follows."""
        return tuple(
            case
            for case in self.cases.values()
            if case.life.state is not State.OPEN or case.doing is not None or case.visible_by > self.head
        )

    def games(self) -> Iterator[tuple[Case, int, Position]]:
        """Those that this operator plays and that still decide something: their numbers, and where they stand."""
        for case in self._at_work:
            for number in case.life.open_games:
                position = case.life.games[number].position
                if position is not None and self.policy.operator in (position.executor, position.challenger):
                    yield case, number, position

    def is_to_move(self, position: Position) -> bool:
        """Whether it is this operator's turn in a game."""
        executor = position.phase.side is Side.EXECUTOR
        return self.policy.operator == (position.executor if executor else position.challenger)

    def is_beyond(self, case: Case, game: int) -> bool:
        """Whether as many older games about its task are open as a policy promises to play at once. It waits for them:
        what lapses in a flood is then a crowded game, which costs those who flood more than it brings."""
        return sum(about.uuid == case.uuid and number < game for about, number, _ in self.games()) >= economics.GAMES

    def turns(self) -> Iterator[Turn]:
        """What this operator is to do in disputes."""
        for case, number, position in self.games():
            if self.is_to_move(position):
                yield Turn(case.uuid, number, deadline_of(position))
        for case in self.cases.values():
            if case.state is State.REVEALED and self.mine(case) and case.demand is not None:
                yield Turn(case.uuid, 0, case.demand.by)

    def short_clocks(self) -> Iterator[Turn]:
        """Turns with less than a third of the clock left."""
        for turn in self.turns():
            clock = economics.clock(self.policy.parameters, self.cases[turn.task].order.exec)
            if 3 * (turn.by - self.head) < clock:
                yield turn

    def doing(self, *steps: Step) -> int:
        """How many tasks have one of these steps under way."""
        return sum(self._steps[step] for step in steps)

    @cached_property
    def _steps(self) -> Counter[Step]:
        return Counter(case.doing for case in self._at_work if case.doing is not None)

    @cached_property
    def promises(self) -> tuple[Case, ...]:
        """Accepted by this operator and not yet committed, or about to be accepted."""
        return tuple(
            case
            for case in self._at_work
            if (case.state is State.ACCEPTED and self.mine(case) and not case.dropped) or self._accepting(case)
        )

    def checks(self) -> Iterator[Case]:
        """Being fetched or executed for an answer."""
        for case in self._at_work:
            committed = case.state is State.COMMITTED and not self.mine(case)
            drawn = case.candidacy is not None and case.candidacy.index is not None
            failed = case.unanswered is not None and case.unanswered.lasting
            is_busy = case.doing in (Step.FETCH, Step.PREPARE, Step.EXECUTE)
            begun = case.fetched or is_busy  # a lost race may have fetched it too
            if committed and drawn and begun and case.seal is None and not failed:
                yield case

    @cached_property
    def blocks_ahead(self) -> int:
        """Blocks of execution that are promised and not done."""
        cases = [*self.promises, *self.checks()]
        return sum(self.policy.blocks(c.needs) for c in cases if c.needs and c.seal is None)

    @cached_property
    def slack(self) -> int | None:
        """Blocks by which all promises together can be later and still be in time; None: there are none."""
        waiting = [c for c in self.promises if c.state is State.ACCEPTED and c.seal is None]
        if not waiting:
            return None
        work = sum(self.policy.blocks(c.needs) if c.needs else 1 for c in waiting)
        return min(c.deadline for c in waiting) - self.head - work - self.policy.reserve

    @cached_property
    def claims(self) -> Claims:
        """What acceptances and answers on their way, or after the head, will hold."""
        total = Claims(stake=self.beside.stake)  # their collateral is in a market of its own
        for case in self._at_work:
            if self._accepting(case) or self._accepted_after_head(case):
                total += rules.claims_of(self.policy, case.order, rules.price_at(case.order, self.head + 1))
            elif self._answering(case):
                total += Claims(self.bond(case))
        return total

    def _accepting(self, case: Case) -> bool:
        return case.state is State.OPEN and (case.doing is Step.ACCEPT or case.visible_by > self.head)

    def _accepted_after_head(self, case: Case) -> bool:
        return case.state is State.ACCEPTED and self.mine(case) and case.life.since > self.head

    def _answering(self, case: Case) -> bool:
        if case.state is not State.COMMITTED or self.mine(case):
            return False
        answer = self.answer_in(case)
        if answer is not None:
            return answer.block > self.head
        return case.doing is Step.ANSWER or case.visible_by > self.head
