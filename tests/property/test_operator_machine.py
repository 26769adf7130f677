"""Whatever the chain, the network and the power supply do: one commitment for a task, and no reveal before it."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eigentensor.chain import State
from eigentensor_operator.case import Case, Fact, Seal, Step
from eigentensor_operator.events import Do, Done, Event, Executed, Head, Inspected, RolledBack, Seen, Undone
from eigentensor_operator.machine import Operator, step
from eigentensor_operator.policy import Code, Reason
from operator_stories import ME, NEEDS, OTHER, POLICY, STANDING, an_order

TASKS = [bytes([n]) * 32 for n in range(3)]
ORDER = an_order(accept_by=10_000)


@dataclass
class Market:
    """What the contract would do with messages: a list of facts, cut by reorgs."""

    block: int = 10
    facts: list[tuple[bytes, Fact]] = field(default_factory=list)

    def last(self, task: bytes) -> Fact:
        return next((f for t, f in reversed(self.facts) if t == task), Fact(State.NONE, 0))

    def executor(self, task: bytes) -> str:
        return next((f.executor for t, f in reversed(self.facts) if t == task and f.state is State.ACCEPTED), "")

    def send(self, do: Do, seal: Seal | None) -> bool:
        """Includes the message in the next block if the contract takes it."""
        last, mine, block = self.last(do.task), self.executor(do.task) == ME, self.block + 1
        over = block > Case(do.task, ORDER, (last,)).deadline(POLICY)
        match do.step, last.state:
            case Step.ACCEPT, State.OPEN:
                fact = Fact(State.ACCEPTED, block, ME)
            case Step.COMMIT, State.ACCEPTED if mine and not over and seal:
                fact = Fact(State.COMMITTED, block, claim=seal.commitment)
            case Step.REVEAL, State.COMMITTED if not over and seal and seal.commitment == last.claim:
                fact = Fact(State.REVEALED, block, claim=seal.outputs_root)
            case Step.CLOSE, State.REVEALED if over:
                fact = Fact(State.FINAL, block)
            case Step.FAIL, (State.ACCEPTED | State.COMMITTED) if over:
                fact = Fact(State.FAILED, block)
            case _:
                return False
        self.facts.append((do.task, fact))
        self.block = block
        return True


class OperatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.market = Market()
        self.operator = Operator(POLICY)
        self.doing: list[Do] = []
        self.told = 0  # facts of the market that the operator has been told
        self.commitments: dict[bytes, set[bytes]] = {task: set() for task in TASKS}
        self.salts = 0

    def tell(self, event: Event) -> None:
        self.operator, actions = step(self.operator, event)
        for do in actions:
            case = self.operator.cases[do.task]
            if do.step is Step.COMMIT:
                assert case.seal is not None
                self.commitments[do.task].add(case.seal.commitment)
            if do.step is Step.REVEAL:
                assert case.now.state is State.COMMITTED
            if do.step in (Step.EXECUTE, Step.COMMIT, Step.REVEAL):
                assert self.operator.mine(case)
        self.doing.extend(do for do in actions if do.step is not Step.DECLINE)

    def read_chain(self) -> None:
        for task, fact in self.market.facts[self.told :]:
            self.tell(Seen(task, fact, ORDER if fact.state is State.OPEN else None))
        self.told = len(self.market.facts)
        self.tell(Head(replace(STANDING, block=self.market.block)))

    def complete(self, do: Do) -> None:
        self.doing.remove(do)
        match do.step:
            case Step.INSPECT:
                self.tell(Inspected(do.task, NEEDS))
            case Step.EXECUTE:
                self.salts += 1
                salt = self.salts.to_bytes(32, "big")
                self.tell(Executed(do.task, Seal(do.task, salt, b"c" + salt[1:])))
            case Step.FETCH | Step.UPLOAD:
                self.tell(Done(do.task, do.step))
            case _ if self.market.send(do, self.operator.cases[do.task].seal):
                self.tell(Done(do.task, do.step, self.market.block))
            case _:
                self.tell(Undone(do.task, do.step, Reason(Code.CHAIN, "taken", "refused")))

    @rule(task=st.sampled_from(TASKS))
    def an_order_is_posted(self, task: bytes) -> None:
        if self.market.last(task).state is State.NONE:
            self.market.block += 1
            self.market.facts.append((task, Fact(State.OPEN, self.market.block)))

    @rule(task=st.sampled_from(TASKS))
    def another_operator_accepts(self, task: bytes) -> None:
        if self.market.last(task).state is State.OPEN:
            self.market.block += 1
            self.market.facts.append((task, Fact(State.ACCEPTED, self.market.block, OTHER)))

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
        self.tell(Undone(do.task, do.step, Reason(Code.EXECUTION, "an end", "none", lasting)))

    @precondition(lambda self: self.doing)
    @rule(data=st.data())
    def a_message_is_sent_and_its_receipt_lost(self, data: st.DataObject) -> None:
        do = data.draw(st.sampled_from(self.doing))
        self.market.send(do, self.operator.cases[do.task].seal)
        self.doing.remove(do)
        self.tell(Undone(do.task, do.step, Reason(Code.CHAIN, "a receipt", "none", lasting=False)))

    @rule(depth=st.integers(1, 20))
    def the_chain_is_reorganised(self, depth: int) -> None:
        keep = self.market.block - depth
        self.market.facts = [(t, f) for t, f in self.market.facts if f.block <= keep]
        self.told = min(self.told, len(self.market.facts))
        self.tell(RolledBack(keep))
        self.read_chain()

    @rule()
    def the_power_fails(self) -> None:
        self.doing = []
        kept = {
            uuid: Case(uuid, c.order, seal=c.seal, uploaded=c.uploaded, refused=c.refused, dropped=c.dropped)
            for uuid, c in self.operator.cases.items()
        }
        self.operator, self.told = Operator(POLICY, kept), 0
        self.read_chain()

    @invariant()
    def a_task_has_one_commitment(self) -> None:
        assert all(len(sent) <= 1 for sent in self.commitments.values())

    @invariant()
    def the_device_executes_one_task(self) -> None:
        assert sum(do.step is Step.EXECUTE for do in self.doing) <= 1

    @invariant()
    def nothing_is_asked_for_twice_at_a_time(self) -> None:
        assert len({do.task for do in self.doing}) == len(self.doing)

    def teardown(self) -> None:
        """If nothing more goes wrong, every task that was accepted comes to its end."""
        for _ in range(400):
            self.market.block += 1
            self.read_chain()
            while self.doing:
                self.complete(self.doing[0])
        assert self.operator.idle
        for task in TASKS:
            if self.market.executor(task) == ME:
                assert self.market.last(task).state in (State.FINAL, State.FAILED)


class LongerOperatorMachine(OperatorMachine):
    pass


OperatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
LongerOperatorMachine.TestCase.settings = settings(max_examples=3000, stateful_step_count=80, deadline=None)
TestOperatorMachine = OperatorMachine.TestCase
TestOperatorMachineAtLength = pytest.mark.slow(LongerOperatorMachine.TestCase)
