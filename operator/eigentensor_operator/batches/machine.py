"""What to do next about batches: pure. `step` takes what happened and says what to do; it knows no clock, network or
randomness.

Chain events only add facts; decisions follow at the head of the chain (`Head`) and when something asked for is done.
Everything that must survive a restart is in `Case` and the events themselves, and is written down before the actions of
the same step are done.
"""

from dataclasses import replace

from eigentensor import task as t
from eigentensor.channel import events as calls
from eigentensor.channel.life import BatchLife, CallGame
from eigentensor.channel.state import BatchState
from eigentensor.dispute import deadline_of
from eigentensor_operator.batches import checking, own
from eigentensor_operator.batches.case import Case, Step, Strand, strand_of
from eigentensor_operator.batches.events import (
    Do,
    Done,
    Doubted,
    Event,
    Fetched,
    Head,
    Looked,
    Outcome,
    Sealed,
    Serving,
    Undone,
)
from eigentensor_operator.batches.state import Batches, Desk
from eigentensor_operator.events import RolledBack
from eigentensor_operator.policy import Reason

#: How often a call that was shown is looked at in vain: what it names may be nowhere, and others are withheld as well.
JUDGINGS = 4


def step(batches: Batches, event: Event) -> tuple[Batches, tuple[Do, ...]]:
    """The state after `event`, and what to do now."""
    batches = _absorb(batches, event)
    is_fact = isinstance(event, t.Event | RolledBack)
    return (batches, ()) if is_fact or batches.at is None else _decide(batches)


# ---- absorbing: facts, never decisions ----


def _absorb(batches: Batches, event: Event) -> Batches:
    match event:
        case Head():
            return replace(batches, at=event)
        case RolledBack(block):
            return _rolled_back(batches, block)
        case t.Event():
            return _happened(batches, event)
        case _:
            return _concluded(batches, event)


def _happened(batches: Batches, event: t.Event) -> Batches:
    """Of others' pools nothing is followed but their offers and batches."""
    if isinstance(event, calls.Opened) and not _is_own(batches, event.pool):
        return batches
    pools = batches.pools.step(event)
    if pools is batches.pools:
        return batches
    batches = replace(batches, pools=pools)
    if isinstance(event, calls.Begun) and event.batch not in batches.cases:
        batches = batches.replaced(Case(event.batch))
    if isinstance(event, calls.Committed | calls.Closed | calls.Convicted):
        case = batches.cases[event.batch]
        return batches.replaced(case.attempted(replace(case.attempt(), visible_by=-1, not_before=0, failed=0)))
    if isinstance(event, t.Opened | t.Moved) and (batch := pools.of_task.get(event.task)) is not None:
        attempt = batches.cases[batch].attempt(Strand.GAME, event.game_id)
        return batches.replaced(
            batches.cases[batch].attempted(replace(attempt, visible_by=-1, not_before=0), Strand.GAME, event.game_id)
        )
    return batches


def _is_own(batches: Batches, pool: bytes) -> bool:
    known = batches.pools.pools.get(pool)
    return known is not None and known.offer.operator == batches.policy.operator


def _rolled_back(batches: Batches, block: int) -> Batches:
    pools = batches.pools.rolled_back(block)
    cases = {name: case.rolled_back(block) for name, case in batches.cases.items()}
    desks = {name: replace(desk, attempt=desk.attempt.rolled_back(block)) for name, desk in batches.desks.items()}
    return replace(batches, pools=pools, cases=cases, desks=desks)


def _concluded(batches: Batches, event: Outcome) -> Batches:
    if event.subject not in batches.cases:
        return _of_pool(batches, event) if isinstance(event, Done | Undone) else batches
    case, head = batches.cases[event.subject], batches.head
    match event:
        case Undone():
            return batches.replaced(_failed(case, event, head))
        case Looked(_, drawn):
            case = replace(case, drawn=replace(drawn, block=head + 1))
        case Sealed(_, seal):
            case = replace(case, seal=case.seal or seal)
        case Doubted(_, _, doubt, unanswered):
            case = replace(case, doubt=doubt, unanswered=unanswered or case.unanswered)
        case Fetched(_, withheld, None):
            case = replace(case, fetched=True, withheld=withheld, unanswered=None)
        case Fetched(_, withheld, reason):
            case = replace(case, fetched=False, withheld=withheld, unanswered=reason)
            return batches.replaced(case.attempted(case.attempt().undone(head)))
        case Done(_, Step.EXECUTE):
            case = replace(case, executed=True)
        case Done(_, Step.HALT):
            case = replace(case, halted=True)
        case Done():
            strand = strand_of(event.step), event.number if event.step in (Step.PLAY, Step.TIMEOUT) else 0
            attempt = case.attempt(*strand).done(event.block, head)
            closed = case.closed | event.closed
            return batches.replaced(replace(case, closed=closed).attempted(attempt, *strand))
    return batches.replaced(case.attempted(case.attempt().done(0, head)))


def _of_pool(batches: Batches, event: Done | Undone) -> Batches:
    desk, head = batches.desks.get(event.subject, Desk()), batches.head
    if isinstance(event, Done):
        return batches.with_desk(event.subject, Desk(desk.attempt.done(event.block, head)))
    return batches.with_desk(event.subject, Desk(desk.attempt.undone(head), event.reason))


def _failed(case: Case, event: Undone, head: int) -> Case:
    strand = strand_of(event.step), event.number if event.step in (Step.PLAY, Step.TIMEOUT) else 0
    case = case.attempted(case.attempt(*strand).undone(head), *strand)
    if event.step is Step.EXECUTE:
        # What was fetched may be gone after a failure: it is fetched again.
        executed = case.executed or event.reason.lasting
        return replace(case, unanswered=event.reason, fetched=False, executed=executed)
    if event.step is Step.JUDGE and case.attempt().failed >= JUDGINGS:
        return replace(case, unanswered=event.reason, doubt=None)
    if event.step in (Step.FETCH, Step.ANSWER, Step.JUDGE):
        return replace(case, unanswered=event.reason)
    return case


# ---- deciding ----


def _decide(batches: Batches) -> tuple[Batches, tuple[Do, ...]]:
    """Pools, since a commit waits for the next begin; then batches: games, what is demanded, own ones, others'."""
    actions: list[Do] = []
    gone = [name for name, case in batches.cases.items() if _is_forgettable(batches, case)]
    if gone:
        kept = {name: case for name, case in batches.cases.items() if name not in gone}
        batches = replace(batches, cases=kept, pools=batches.pools.forgotten(gone))
    assert batches.at is not None
    for pool, serving in batches.at.serving.items():
        batches = _judge_pool(batches, pool, serving, actions)
    for name in sorted(batches.cases, key=lambda name: _urgency(batches, batches.cases[name])):
        if name in batches.pools.batches:
            batches = _judge(batches, name, actions)
    return batches, tuple(actions)


def _judge_pool(batches: Batches, pool: bytes, serving: Serving, actions: list[Do]) -> Batches:
    desk = batches.desks.get(pool, Desk())
    if desk.attempt.is_waiting(batches.head):
        return batches
    wanted = own.next_of_pool(batches, pool, serving)
    if wanted is None or isinstance(wanted, Reason):
        return batches.with_desk(pool, replace(desk, refused=wanted))
    actions.append(Do(wanted[0], pool, wanted[1]))
    return batches.with_desk(pool, Desk(desk.attempt.begun(wanted[0])))


def _urgency(batches: Batches, case: Case) -> tuple[int, int, bytes]:
    life = batches.pools.batches.get(case.batch)
    if life is None:
        return 2, 0, case.batch
    games = [deadline_of(game.position) for game in batches.my_games(life) if game.position is not None]
    if games:
        return 0, min(games), case.batch
    by = life.commit_by if life.committed_at is None else life.check_by
    return (1 if batches.is_mine(life) else 2), by, case.batch


def _judge(batches: Batches, name: bytes, actions: list[Do]) -> Batches:
    """One batch, strand by strand."""
    life, head = batches.pools.batches[name], batches.head
    for game in sorted(batches.my_games(life), key=lambda game: game.number):
        wanted = _move(batches, game)
        if wanted is not None and not batches.cases[name].attempt(Strand.GAME, game.number).is_waiting(head):
            batches = _begun(batches, name, wanted, game.number, actions)
    if batches.is_mine(life):
        if own.is_to_show(batches.cases[name], life, head):
            batches = _begun_alone(batches, name, Step.SHOW, actions)
        if own.is_to_justify(life, head):
            batches = _begun_alone(batches, name, Step.JUSTIFY, actions)
    case = batches.cases[name]
    if case.attempt().is_waiting(head):
        return batches
    if batches.is_mine(life):
        wanted = own.next_step(batches, case, life)
        return batches if wanted is None else _begun(batches, name, wanted, 0, actions)
    return _check(batches, name, life, actions)


def _check(batches: Batches, name: bytes, life: BatchLife, actions: list[Do]) -> Batches:
    case = batches.cases[name]
    if life.state is BatchState.COMMITTED and (doubt := checking.withheld(batches, case, life)) is not None:
        case = replace(case, doubt=doubt)
        batches = batches.replaced(case)
    wanted = checking.next_step(batches, case, life)
    if isinstance(wanted, Reason):
        return batches if wanted == case.unanswered else batches.replaced(replace(case, unanswered=wanted))
    return batches if wanted is None else _begun(batches, name, wanted[0], wanted[1], actions)


def _move(batches: Batches, game: CallGame) -> Step | None:
    """What to do in a game: a side that used up its clock has lost by the clock alone, and moves no more."""
    assert game.position is not None and batches.at is not None
    in_time = batches.head < deadline_of(game.position)
    if batches.is_to_move(game):
        return Step.PLAY if in_time and not batches.at.testing else None
    return None if in_time else Step.TIMEOUT


def _begun_alone(batches: Batches, name: bytes, wanted: Step, actions: list[Do]) -> Batches:
    if batches.cases[name].attempt(strand_of(wanted)).is_waiting(batches.head):
        return batches
    return _begun(batches, name, wanted, 0, actions)


def _begun(batches: Batches, name: bytes, wanted: Step, number: int, actions: list[Do]) -> Batches:
    case = batches.cases[name]
    strand = strand_of(wanted), number if strand_of(wanted) is Strand.GAME else 0
    actions.append(Do(wanted, name, number))
    case = case.attempted(case.attempt(*strand).begun(wanted), *strand)
    return batches.replaced(replace(case, drained=case.drained or wanted is Step.COMMIT))


def _is_forgettable(batches: Batches, case: Case) -> bool:
    """Nothing can come of the batch any more, not even by a reorganisation."""
    if any(attempt.doing is not None for attempt in case.strands.values()):
        return False
    life, age = batches.pools.batches.get(case.batch), batches.head - batches.policy.keep
    if life is None:
        return not (case.drained or case.seal or case.doubt)
    if batches.is_mine(life) and next(life.unrefunded(), None) is not None and life.state is not BatchState.CONVICTED:
        return life.since < age - batches.policy.keep
    return life.state.is_terminal and life.since < age and not batches.is_at_stake(case)
