"""Whatever the chain, the network and the power supply do: one result for a task, nothing opened before its time."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eigentensor.dispute import Phase, Position
from eigentensor.dispute import Reason as EndReason
from eigentensor.economics import WAD
from eigentensor.task import (
    Answer,
    Answered,
    Challenged,
    Demanded,
    Ended,
    GameEnded,
    Leaf,
    Life,
    Moved,
    Opened,
    Revealed,
    Seeded,
    Settled,
    Shown,
    Slashed,
    State,
    TaskEvent,
)
from eigentensor.task.due import position_of
from eigentensor_operator.case import Candidacy, Case, Seal, Step
from eigentensor_operator.events import (
    Checked,
    Do,
    Done,
    Event,
    Executed,
    Head,
    Inspected,
    Looked,
    RolledBack,
    Undone,
)
from eigentensor_operator.machine import step
from eigentensor_operator.policy import Code, Reason, Standing
from eigentensor_operator.preparing import PLACES, place_of
from eigentensor_operator.state import Operator
from support.stories.operator import (
    ME,
    NEEDS,
    OTHER,
    POLICY,
    STANDING,
    THIRD,
    WRONG,
    a_position,
    an_order,
    at,
    mix_of,
    reaches,
    sealed_by,
)

#: One that can afford nothing.
POOR = Standing(0, 0, 0, 0, 0, member=False, stake=0, locked=0, stake_cap=0, seats=0, other_seats=0, gas_price=10**18)
TASKS = [bytes([n]) * 32 for n in range(3)]
ORDER = an_order(accept_by=10_000)
Fact = Seeded | TaskEvent
VERIFIERS = frozenset({OTHER, THIRD})  # who may answer for an own task, if it is drawn


def is_answered(life: Life) -> bool:
    """Whether nobody is left that may answer for an own task."""
    return {answer.operator for answer in life.answers.values()} == VERIFIERS


@dataclass
class Market:
    """What the contracts would do with messages: a list of what they show, cut by reorgs.

    `judge` is the operator's own bookkeeping of all that is on chain; it decides nothing.
    """

    block: int = 10
    shown: list[Fact] = field(default_factory=list)
    judge: Operator = field(default_factory=lambda: Operator(POLICY))
    forgotten: set[bytes] = field(default_factory=set)  # tasks whose leaves were shown, and are demanded nevertheless

    def deadlines(self) -> dict[bytes, int]:
        """Of the tasks with a demand."""
        revealed = (case for case in self.judge.cases.values() if case.state is State.REVEALED)
        demands = ((c, c.life.demanded) for c in revealed)
        return {c.uuid: e.by if self.is_owed(c.uuid) else c.life.challenge_by for c, e in demands if e}

    def is_owed(self, task: bytes) -> bool:
        return self.case(task).demand is not None or task in self.forgotten

    def case(self, task: bytes) -> Case:
        return self.judge.cases.get(task, Case(Life(task, ORDER, POLICY.parameters)))

    def games(self) -> dict[int, Position]:
        games = (g for case in self.judge.cases.values() for g in case.life.games.values())
        return {g.number: g.position for g in games if g.executor_lost is None and g.position is not None}

    def deadline(self, task: bytes) -> int:
        return self.case(task).deadline

    def is_drawn(self, task: bytes) -> bool | None:
        return self.case(task).life.drawn

    def cut(self, keep: int) -> None:
        """Throws out what is after block `keep`."""
        self.shown = [shown for shown in self.shown if shown.place.block <= keep]
        self.forgotten.clear()
        self.judge, _ = step(self.judge, RolledBack(keep))

    def include(self, *shown: Fact) -> None:
        for one in shown:
            self.shown.append(one)
            self.judge, _ = step(self.judge, one)
        self.block += 1

    def reach(self, state: State, task: bytes, *, executor: str = "", claim: bytes = b"") -> None:
        self.include(reaches(state, self.block + 1, task=task, order=ORDER, executor=executor, claim=claim))

    def send(self, do: Do, seal: Seal | None) -> bool:
        """Includes the message in the next block if the contracts take it."""
        task, case, block = do.task, self.case(do.task), self.block + 1
        life, mine, over = case.life, case.life.executor == ME, block > case.deadline
        answer, state = life.answer_by(ME), life.state
        match do.step, state:
            case Step.ACCEPT, State.OPEN:
                self.reach(State.ACCEPTED, task, executor=ME)
            case Step.COMMIT, State.ACCEPTED if mine and not over and seal:
                self.reach(State.COMMITTED, task, claim=sealed_by(ME, task, seal=seal))
            case Step.SEED, _ if life.committed_at and life.drawn is None:
                return self.record(task, drawn=block % 2 == 0)
            case Step.ANSWER, State.COMMITTED if not mine and not answer and self.is_drawn(task) and seal:
                if block > life.check_by:
                    return False
                self.include(Answered(at(block), task, 0, ME, sealed_by(ME, task, 1, seal)))
            case Step.REVEAL, State.COMMITTED if mine and not over and seal:
                drawn = self.is_drawn(task)
                if drawn is None or (drawn and block <= life.check_by and not is_answered(life)):
                    return False
                self.reach(State.REVEALED, task, claim=seal.outputs_root)
            case Step.REVEAL, _ if answer and seal and not answer.root and block <= life.answers_by:
                return self.open(life, answer, seal)
            case Step.CLOSE, State.ACCEPTED | State.COMMITTED | State.REVEALED if over and not life.open_games:
                self.close(task)
            case Step.SHOW, State.REVEALED if self.is_owed(task) and block <= self.deadlines()[task]:
                self.forgotten.discard(task)
                self.include(Shown(at(block), task, 0, b""))
            case Step.SETTLE, State.FINAL if answer and life.has_lost(answer):
                return False
            case Step.SETTLE, State.FINAL | State.CONVICTED if answer and not answer.is_over:
                self.include(Settled(at(block), task, 1, ME, WAD))
            case Step.SLASH, State.CONVICTED if life.conviction and not life.conviction.slash:
                self.include(Slashed(at(block), task, 1, 1, ME))
            case ((Step.PLAY | Step.TIMEOUT), _) if do.game in self.games():
                self.play(do)
            case _:
                return False
        return True

    def record(self, task: bytes, *, drawn: bool) -> bool:
        number = self.case(task).life.seed_block
        if not number < self.block + 1 <= number + POLICY.parameters.record:
            return False
        self.include(Seeded(at(self.block + 1), number, mix_of(task, drawn)))
        return True

    def open(self, life: Life, answer: Answer, seal: Seal) -> bool:
        block, task = self.block + 1, life.uuid
        if life.revealed_at is None and block <= life.reveal_by:
            return False
        opened = Revealed(at(block), task, answer.index + 1, seal.outputs_root)
        if life.revealed_at is None:
            self.include(opened, reaches(State.CONVICTED, block, task=task))
        elif life.state is State.REVEALED and life.outputs_root != seal.outputs_root:
            self.include(opened)
            self.challenge(task, ME)
        else:
            self.include(opened)
        return True

    def challenge(self, task: bytes, challenger: str) -> None:
        number = 1 + sum(isinstance(s, Opened) for s in self.shown)
        executor, block = self.case(task).life.executor or "", self.block + 1
        position = a_position(Phase.PUBLISH, block, executor=executor, challenger=challenger, task=task)
        self.include(
            Challenged(at(block), task, number, challenger, WAD),
            Opened(at(block), task, number, challenger, position),
        )

    def play(self, do: Do) -> None:
        """Two moves of each side, then the side that is right wins."""
        block, position = self.block + 1, self.games()[do.game]
        executor_lost = self.case(do.task).life.outputs_root == WRONG
        if do.step is Step.PLAY and position.phase is not Phase.NODE:
            position = replace(position, phase=Phase(position.phase + 1), since=block)
            self.include(Moved(at(block), do.task, do.game, position, b""))
            return
        over = (
            Ended(at(block), do.task, do.game, executor_lost, EndReason.VERDICT),
            GameEnded(at(block), do.task, do.game, position.challenger, executor_lost),
        )
        convicted = (reaches(State.CONVICTED, block, task=do.task),) if executor_lost else ()
        self.include(*over, *convicted)

    def close(self, task: bytes) -> None:
        life = self.case(task).life
        state = State.FINAL if life.state is State.REVEALED else State.FAILED
        if self.is_owed(task) or (life.state is State.COMMITTED and life.drawn):
            state = State.CONVICTED
        self.reach(state, task)


class OperatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.market = Market()
        self.operator = Operator(POLICY)
        self.doing: list[Do] = []
        self.seen = 0  # of what the market shows
        self.seals: dict[bytes, set[Seal]] = {task: set() for task in TASKS}
        self.salts = 0

    def handle(self, event: Event) -> None:
        self.operator, actions = step(self.operator, event)
        for do in actions:
            self.look_at(do, self.operator.cases[do.task])
        self.doing.extend(do for do in actions if do.step is not Step.DECLINE)

    def look_at(self, do: Do, case: Case) -> None:
        """What must hold of everything that is begun, by what the operator has been told."""
        mine, head, answer = self.operator.mine(case), self.operator.head, case.life.answer_by(ME)
        match do.step:
            case Step.COMMIT | Step.ANSWER:
                assert case.seal is not None and mine is (do.step is Step.COMMIT)
                assert answer is None
                self.seals[do.task].add(case.seal)
            case Step.REVEAL if mine:
                assert case.state is State.COMMITTED
                drawn = case.life.drawn
                assert drawn is not None and (not drawn or head >= case.life.check_by or is_answered(case.life))
            case Step.REVEAL:
                assert answer is not None and answer.root is None
                assert case.life.revealed_at is not None or head >= case.life.reveal_by
            case Step.ACCEPT:
                assert self.operator.is_prepared(case)
            case Step.EXECUTE | Step.PLAY | Step.PREPARE:
                assert not self.operator.testing
                assert do.step is not Step.PLAY or self.operator.is_to_move(position_of(case.life, do.game))
            case Step.CLOSE if mine:
                assert case.state is not State.COMMITTED or not case.life.drawn
                assert not case.life.open_games and case.demand is None

    def read_chain(self) -> None:
        for shown in self.market.shown[self.seen :]:
            self.handle(shown)
        self.seen = len(self.market.shown)
        mine = {t: by for t, by in self.market.deadlines().items() if self.market.case(t).life.executor == ME}
        self.handle(Head(replace(STANDING, block=self.market.block), mine))

    def complete(self, do: Do) -> None:
        self.doing.remove(do)
        case = self.operator.cases[do.task]
        match do.step:
            case Step.INSPECT:
                self.handle(Inspected(do.task, NEEDS, 15.0 * TASKS.index(do.task)))
            case Step.EXECUTE:
                self.salts += 1
                self.handle(Executed(do.task, Seal(do.task, self.salts.to_bytes(32, "big"))))
            case Step.LOOK:
                seats = (None, VERIFIERS) if self.operator.mine(case) else (0, frozenset[str]())
                self.handle(Looked(do.task, Candidacy(case.life.mix or b"", *seats)))
            case Step.FETCH | Step.PREPARE | Step.UPLOAD | Step.HALT:
                self.handle(Done(do.task, do.step))
            case _ if self.market.send(do, case.seal):
                self.handle(Done(do.task, do.step, self.market.block, do.game))
            case _:
                self.handle(Undone(do.task, do.step, Reason(Code.CHAIN, "taken", "refused"), do.game))

    @rule(task=st.sampled_from(TASKS))
    def an_order_is_posted(self, task: bytes) -> None:
        if self.market.case(task).state is State.NONE:
            self.market.reach(State.OPEN, task)

    @rule(task=st.sampled_from(TASKS))
    def another_operator_accepts_and_commits(self, task: bytes) -> None:
        if self.market.case(task).state is State.OPEN:
            self.market.reach(State.ACCEPTED, task, executor=OTHER)
            self.market.reach(State.COMMITTED, task, claim=b"c" * 32)
            self.market.block += POLICY.parameters.lag

    @rule(task=st.sampled_from(TASKS), drawn=st.booleans())
    def somebody_records_a_seed(self, task: bytes, drawn: bool) -> None:
        if self.market.case(task).life.committed_at and self.market.is_drawn(task) is None:
            self.market.record(task, drawn=drawn)

    @rule(task=st.sampled_from(TASKS), verifier=st.sampled_from(sorted(VERIFIERS)))
    def somebody_answers(self, task: bytes, verifier: str) -> None:
        life, block = self.market.case(task).life, self.market.block + 1
        is_open = life.state is State.COMMITTED and life.drawn and block <= life.check_by
        if is_open and life.executor == ME and life.answer_by(verifier) is None:
            self.market.include(Answered(at(block), task, len(life.answers), verifier, b"a" * 32))

    @rule(task=st.sampled_from(TASKS), wrong=st.booleans())
    def another_operator_reveals(self, task: bytes, wrong: bool) -> None:
        life = self.market.case(task).life
        if life.state is State.COMMITTED and life.executor == OTHER and life.drawn is not None:
            if life.drawn:
                self.market.block = max(self.market.block, life.check_by)
            if self.market.block < self.market.deadline(task):
                self.market.reach(State.REVEALED, task, claim=WRONG if wrong else task)

    @rule(task=st.sampled_from(TASKS))
    def somebody_challenges(self, task: bytes) -> None:
        case = self.market.case(task)
        if case.state is State.REVEALED and self.market.block < self.market.deadline(task):
            self.market.challenge(task, THIRD)

    @rule(task=st.sampled_from(TASKS))
    def the_client_demands(self, task: bytes) -> None:
        case, block = self.market.case(task), self.market.block + 1
        if case.state is State.REVEALED and not case.life.demanded and block <= self.market.deadline(task):
            self.market.include(Demanded(at(block), task, (Leaf(False, 0, 0),), block + 80))

    @rule(task=st.sampled_from(TASKS))
    def a_token_makes_the_market_forget_what_was_shown(self, task: bytes) -> None:
        case = self.market.case(task)
        if case.state is State.REVEALED and case.life.shown:
            self.market.forgotten.add(task)
            self.market.block += 1

    @rule()
    def the_self_test_is_over(self) -> None:
        if self.operator.testing:
            self.handle(Checked())

    @rule(data=st.data())
    def another_player_moves(self, data: st.DataObject) -> None:
        theirs = [(p.task, n) for n, p in self.market.games().items() if not self.operator.is_to_move(p)]
        if theirs:
            self.market.play(Do(Step.PLAY, *data.draw(st.sampled_from(theirs))))

    @rule(blocks=st.integers(1, 40))
    def time_passes(self, blocks: int) -> None:
        self.market.block += blocks
        self.read_chain()

    @rule()
    def the_chain_is_read(self) -> None:
        self.read_chain()

    @precondition(lambda self: self.doing)
    @rule(data=st.data())
    def something_is_done(self, data: st.DataObject) -> None:
        self.complete(data.draw(st.sampled_from(self.doing)))

    @precondition(lambda self: self.doing)
    @rule(data=st.data(), lasting=st.booleans())
    def something_fails(self, data: st.DataObject, lasting: bool) -> None:
        do = data.draw(st.sampled_from(self.doing))
        self.doing.remove(do)
        self.handle(Undone(do.task, do.step, Reason(Code.EXECUTION, "an end", "none", lasting), do.game))

    @precondition(lambda self: self.doing)
    @rule(data=st.data())
    def a_message_is_sent_and_its_receipt_lost(self, data: st.DataObject) -> None:
        do = data.draw(st.sampled_from(self.doing))
        self.market.send(do, self.operator.cases[do.task].seal)
        self.doing.remove(do)
        self.handle(Undone(do.task, do.step, Reason(Code.CHAIN, "a receipt", "none", lasting=False), do.game))

    @rule(depth=st.integers(1, 20))
    def the_chain_is_reorganised(self, depth: int) -> None:
        keep = self.market.block - depth
        self.market.cut(keep)
        self.seen = min(self.seen, len(self.market.shown))
        self.handle(RolledBack(keep))
        self.read_chain()

    @rule()
    def the_power_fails(self) -> None:
        self.doing = []
        kept = {
            uuid: Case(
                Life(uuid, c.order, POLICY.parameters),
                seal=c.seal,
                uploaded=c.uploaded,
                refused=c.refused,
                dropped=c.dropped,
                halted=c.halted,
            )
            for uuid, c in self.operator.cases.items()
        }
        self.operator, self.seen = Operator(POLICY, kept, draining=self.operator.draining, testing=True), 0
        self.read_chain()

    @invariant()
    def a_task_has_one_seal(self) -> None:
        assert all(len(seals) <= 1 for seals in self.seals.values())

    @invariant()
    def the_device_executes_one_task(self) -> None:
        assert sum(do.step is Step.EXECUTE for do in self.doing) <= 1

    @invariant()
    def what_is_prepared_has_a_place(self) -> None:
        preparing = Counter(place_of(self.operator.cases[do.task]) for do in self.doing if do.step is Step.PREPARE)
        assert sum(preparing.values()) <= sum(PLACES.values())

    @invariant()
    def nothing_is_asked_for_twice_at_a_time(self) -> None:
        kinds = Counter((do.task, do.game, do.step is Step.UPLOAD) for do in self.doing)
        assert all(times == 1 for times in kinds.values())

    @invariant()
    def where_it_stands_says_nothing_while_it_is_not_asked_for(self) -> None:
        """INVARIANTS 25, 26: who asks for its money and stake only when they are weighed misses no clock."""
        if self.operator.standing is None or self.operator.is_weighing:
            return
        for blocks in (1, 20, 400):
            heads = (Head(replace(standing, block=self.operator.head + blocks)) for standing in (STANDING, POOR))
            (rich, wanted), (poor, also) = (step(self.operator, head) for head in heads)
            assert (rich.cases, wanted) == (poor.cases, also)

    @invariant()
    def a_task_is_answered_once_and_never_by_its_executor(self) -> None:
        for task in TASKS:
            life = self.market.case(task).life
            answers = [answer.operator for answer in life.answers.values()]
            assert len(answers) == len(set(answers)) and life.executor not in answers

    def teardown(self) -> None:
        """If nothing more goes wrong, everything in which the operator has a part comes to its end, and what is
        demanded of it in time is shown."""
        self.the_self_test_is_over()
        left = {t: by - self.market.block for t, by in self.market.deadlines().items() if self.market.is_owed(t)}
        known = self.operator.cases  # what happened since it last read the chain is not among them
        shown = [t for t, blocks in left.items() if blocks > 5 and t in known and known[t].seal]
        for _ in range(400):
            self.market.block += 1
            self.read_chain()
            while self.doing:
                self.complete(self.doing[0])
            for task in TASKS:
                case = self.market.case(task)
                late = self.market.block > case.deadline + 10
                unshown = case.state is State.REVEALED and self.market.is_owed(task)
                if late and case.life.executor and (unshown or case.state in (State.ACCEPTED, State.COMMITTED)):
                    self.market.close(task)  # somebody does
        assert all(self.operator.is_finished(case) for case in self.operator.cases.values())
        lives = {task: self.market.case(task).life for task in TASKS}
        assert all(lives[t].state is State.FINAL for t in shown if lives[t].executor == ME)
        for life in lives.values():
            if life.executor == ME:
                assert life.state.is_terminal
            if (answer := life.answer_by(ME)) is not None and answer.root:
                assert answer.is_over or (life.state is State.FINAL and life.has_lost(answer))


class LongerOperatorMachine(OperatorMachine):
    pass


OperatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
LongerOperatorMachine.TestCase.settings = settings(max_examples=1000, stateful_step_count=80)
TestOperatorMachine = OperatorMachine.TestCase
TestOperatorMachineAtLength = pytest.mark.slow(LongerOperatorMachine.TestCase)
