"""The dispatcher: which session's run is next, where it is executed, what has to be there first, what is done again.

All of it happens in one event loop. A run waits in its session until its inputs are there; sessions take turns by the
seconds that their runs take. A worker that goes away costs time alone: what was there is made again elsewhere.
"""

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor.cluster.frames import IDENTITY
from eigentensor.cluster.log import Event, Log
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, WorkerLost
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Role
from eigentensor.sharding.cluster import HERE, Link
from eigentensor.sharding.signals import Signals
from eigentensor_cluster.allowance import Allowances
from eigentensor_cluster.engine.interface import Spent, Work, Worker
from eigentensor_cluster.queue import QUANTUM, Turns
from eigentensor_cluster.segments import Segments
from eigentensor_cluster.sessions import Quota, Session, Share
from eigentensor_cluster.sharing import (
    Room,
    Shared,
    Sharing,
    Slot,
    is_program_shared,
    is_shared,
    memory_of,
    room_at_one,
    slots_of,
    whole,
)
from eigentensor_cluster.tensors import DEPTH, Job, Poison, Tensor, revived

AHEAD = 64  #: runs of a session that are looked through for one that waits for none before it
LOSSES = 3  #: workers, or processes of them, that may go away with a run before it is taken for the reason


@dataclass(eq=False, slots=True)
class Place:
    """A worker, how many of its slots are free, and what it has done."""

    worker: Worker
    free: int
    runs: int = 0
    seconds: float = 0.0


class Claim(NamedTuple):
    """Slots that a run waits for, all at once: those that come later wait behind it."""

    seats: Mapping[Worker, int]
    taken: "asyncio.Future[None]"


class Dispatcher:
    """Sessions on one side, workers on the other."""

    def __init__(
        self,
        quota: Quota | None = None,
        log: Log | None = None,
        signals: Signals | None = None,
        allowance: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        link: Link = HERE,
    ) -> None:
        """`log` takes what happens. `signals` are those of sessions that have none of their own. `allowance` is that of
        members that have none: seconds of slots in a minute. `link` joins the workers."""
        self.allowance, self._clock, self._allowances = allowance, clock, Allowances()
        self.segments = Segments()  #: what programs took
        self._waking: asyncio.TimerHandle | None = None  #: when somebody may begin something again
        self.quota, self.log, self.signals = quota or Quota(), log or Log(), signals or Signals()
        self.sessions: dict[int, Session] = {}
        self.places: dict[Worker, Place] = {}
        self.replays = 0  #: runs that were executed again since their results were lost
        self._turns, self._numbers, self._tensors, self._segments = Turns(), count(1), count(1), count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self.secret = secrets.token_bytes(IDENTITY)  #: by which workers know each other
        self._slots: tuple[Slot, ...] = ()  #: that execute programs together
        self._claims = deque[Claim]()
        self._sharing = Sharing(self.log, self._elements, link)

    def begin(self, member: str, weight: float = 1.0, allowance: float | None = None) -> Session:
        """A new session of somebody, whose runs count by that weight, and, with those of all its sessions, take so many
        seconds of slots in a minute at most."""
        number, identity = next(self._numbers), secrets.token_bytes(IDENTITY)
        allowance = self.allowance if allowance is None else allowance
        session = Session(
            number, identity, member, self.quota, self._tensors, signals=self.signals, allowance=allowance
        )
        self._allowances.join(member, allowance, self._clock())
        self.sessions[session.number] = session
        self.log.record(Event.CONNECT, f"CLIENT {session.number}", "HELLO", member=member, weight=weight)
        self._turns.join(session.number, weight)
        return session

    def end(self, session: Session) -> None:
        """Forgets a session with all that it holds, here and at the workers."""
        if self.sessions.pop(session.number, None) is not None:
            self.log.record(Event.DISCONNECT, f"CLIENT {session.number}", "END", runs=session.runs)
            self._turns.leave(session.number)
            session.clear()
            session.dropped.clear()
            for worker in self.places:
                worker.end(session.number)

    def join(self, worker: Worker) -> None:
        """A worker takes part from now on."""
        who = f"WORKER {worker.name}"
        self.log.record(Event.CONNECT, who, "HELLO", host=worker.host, device=worker.device, slots=worker.slots)
        self.places[worker] = Place(worker, worker.slots)
        self._slots = slots_of(self.places)
        self.pump()

    def lose(self, worker: Worker) -> None:
        """A worker went away; what is asked of it raises WorkerLost by now."""
        self.log.record(Event.DISCONNECT, f"WORKER {worker.name}", "END")
        self.places.pop(worker, None)
        self._slots = slots_of(self.places)
        for claim in self._claims:
            if worker in claim.seats and not claim.taken.done():
                claim.taken.set_exception(WorkerLost(f"worker {worker.name} went away"))
        self.pump()

    def balance(self, session: Session) -> float:
        """Seconds of a slot that a session may still take before others."""
        return self._turns.balance(session.number)

    def left(self, session: Session) -> float | None:
        """Seconds of slots that a session's member may take now; None if nothing bounds it."""
        return self._allowances.left(session.member, self._clock())

    @property
    def memory(self) -> int:
        """Bytes that one program may take at most for its buffers at the workers that are there: those of a slot, or of
        all slots together that share programs out; 0 where there is none."""
        together = len(self._slots) * memory_of(self._slots) if self._slots else 0
        return max([together, *(worker.memory for worker in self.places)])

    async def fit(self, session: Session, root: bytes, renewed: Sequence[tuple[int, int]]) -> Room:
        """The room for a defined program at the workers that are there, where all that it reads comes from outside, and
        results, by number, become inputs of a next run. Nothing is executed. Raises WorkerLost where no worker is,
        BindingError, and what is wrong with the program."""
        defined = session.programs.get(root)
        if isinstance(defined, Poison):
            raise defined.error
        if defined is None:
            raise BindingError(f"program {root.hex()} is not defined in this session")
        results, inputs = len(defined.program.results), len(defined.program.named(Role.INPUT))
        if any(result >= results or name >= inputs for result, name in renewed):
            raise BindingError("a result, or an input, is named that the program has not")
        if is_program_shared(session, defined, self._slots):
            return await self._sharing.fit(session, defined, self._slots, renewed)
        return room_at_one(defined, self.places)

    def settle(self, session: Session) -> None:
        """Begins what can begin, and frees what a session dropped: to be called when it took frames."""
        for sequence, kind, poison in session.refused:
            self.failed(session, kind, sequence, poison)
        session.refused.clear()
        self.pump()
        self._release(session)  # last: it goes out with the orders of what began

    def failed(self, session: Session, what: str, sequence: int, poison: Poison) -> None:
        """Writes down that nothing comes of a frame."""
        cause, kind, reason = poison.cause, type(poison.error).__name__, poison.error.what
        who = f"CLIENT {session.number}"
        self.log.record(Event.ERROR, who, what, frame=sequence, cause=cause, error=kind, reason=reason)

    def asked(self, session: Session, handle: int) -> Tensor:
        """The tensor that a handle stands for now, which stays until `value` is over. Raises BindingError for a number
        that holds nothing."""
        tensor = session.tensors.get(handle)
        if tensor is None:
            raise BindingError(f"there is no tensor {handle}")
        session.use(tensor)
        return tensor

    async def value(self, session: Session, tensor: Tensor) -> NDArray[Any] | Poison:
        """The elements of a tensor that was `asked` for, as soon as they are there; or why there are none. Raises
        ExecutionError where a worker does not give what it has."""
        try:
            while tensor.poison is None:
                with suppress(WorkerLost):
                    if tensor.is_there:
                        tensor.copy = await self._elements(session, tensor)
                        tensor.made = None  # it is not made again any more
                        return tensor.copy
                self._revive(session, tensor)
                self.pump()
                if not tensor.is_settled:
                    tensor.waiting.append(future := asyncio.get_running_loop().create_future())
                    await future
            return tensor.poison
        finally:
            session.leave(tensor)
            self._release(session)

    def pump(self) -> None:
        """Begins as many runs as can begin now."""
        while self._claims:
            seats, taken = self._claims[0]
            if not taken.done():
                if any(self.places[worker].free < number for worker, number in seats.items()):
                    return
                for worker, number in seats.items():
                    self.places[worker].free -= number
                taken.set_result(None)
            self._claims.popleft()
        while any(place.free for place in self.places.values()):
            each = ((number, self._next(session)) for number, session in self.sessions.items())
            waiting = {number: job for number, job in each if job is not None}
            chosen = self._turns.next(self._allowed(waiting))
            if chosen is None:
                return
            self._begin(self.sessions[chosen], waiting[chosen])

    def _allowed(self, waiting: Collection[int]) -> set[int]:
        """Those of sessions whose members may begin something now; of the others, the first is waited for."""
        now = self._clock()
        waits = {number: self._allowances.wait(self.sessions[number].member, now) for number in waiting}
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if later := [wait for wait in waits.values() if wait]:
            self._waking = asyncio.get_running_loop().call_later(min(later), self.pump)
        return {number for number, wait in waits.items() if not wait}

    def _next(self, session: Session) -> Job | None:
        """The run that a session begins next, if one can begin: the first that waits for no result of another. What is
        lost of its inputs is made again: that may be what begins."""
        while True:
            before, over = self.replays, False
            for jobs in (session.again, session.queue):
                for job in list(islice(jobs, None if jobs is session.again else AHEAD)):
                    if job.is_waiting:
                        continue
                    if (poison := job.poison) is not None:
                        jobs.remove(job)
                        self._poisoned(session, job, poison)
                        over = True
                    elif self._is_ready(session, job):
                        return job
            if self.replays == before and not over:
                return None

    def _is_ready(self, session: Session, job: Job) -> bool:
        if job.is_ready:
            return not (session.is_sharing and is_shared(session, job, self._slots))
        for tensor in job.recipe.inputs:
            self._revive(session, tensor)
        return False

    def _revive(self, session: Session, tensor: Tensor) -> None:
        """Lets what made a lost tensor be executed again."""
        jobs = revived(tensor)
        for job in jobs:
            name = job.recipe.defined.root.hex()[:8]
            self.log.record(Event.REPLAY, f"CLIENT {session.number}", name, frame=job.recipe.sequence)
        self.replays += len(jobs)
        session.again.extend(jobs)

    def _begin(self, session: Session, job: Job) -> None:
        (session.again if job in session.again else session.queue).remove(job)
        session.under_way += 1
        expected = job.recipe.defined.seconds or QUANTUM
        self._turns.begin(session.number, expected)
        self._allowances.begin(session.member, expected, self._clock())
        if is_shared(session, job, self._slots):
            session.is_sharing = True
            self._keep(self._share(session, job, expected))
            return
        place = self._nearest(job)
        place.free -= 1
        self._keep(self._execute(session, job, place, expected))

    def _nearest(self, job: Job) -> Place:
        """Where most of the bytes are that a run reads, among those with a free slot."""
        free = [place for place in self.places.values() if place.free]
        return max(free, key=lambda p: (sum(t.size for t in job.recipe.inputs if p.worker in t.places), p.free))

    async def _execute(self, session: Session, job: Job, place: Place, expected: float) -> None:
        spent, worker, is_begun = Spent(0.0, 0), place.worker, False
        try:
            if away := [tensor for tensor in job.recipe.inputs if worker not in tensor.places]:
                moves = [self._bring(session, tensor, worker) for tensor in away]
                for outcome in await asyncio.gather(*moves, return_exceptions=True):
                    if isinstance(outcome, BaseException):
                        raise outcome
            self._check_lives(session)
            segment, name = next(self._segments), job.recipe.defined.root.hex()[:8]
            of = {"segment": segment, "session": session.number, "frame": job.recipe.sequence}
            self.log.record(Event.WORKER_SEND, f"WORKER {worker.name}", name, **of)
            is_begun = True
            spent = await worker.run(self._work(session, job))
            size = sum(tensor.size for tensor in job.outputs)
            self.log.record(Event.WORKER_RECV, f"WORKER {worker.name}", name, size, segment=segment)
        except WorkerLost as error:
            self._again(session, job, error, is_begun or worker.is_lost)
        except EigenTensorError as error:
            self._poisoned(session, job, Poison(job.recipe.sequence, error))
        else:
            self._done(session, job, place, spent)
        place.free += 1
        self._ended(session, expected, spent)

    async def _share(self, session: Session, job: Job, expected: float) -> None:
        """Executes a run on several workers: plans it, waits for their slots, and lets them execute it together."""
        spent, seats = Spent(0.0, 0), Counter[Worker]()
        try:
            shared = await self._sharing.shared(session, job, self._slots)
            await self._claimed(shared.seats)
            seats = shared.seats
            self._check_lives(session)
            run = next(self._segments)
            spent = await self._sharing.execute(session, job, shared, self._work(session, job), run)
        except WorkerLost as error:
            self._again(session, job, error, bool(seats))
        except EigenTensorError as error:
            self._poisoned(session, job, Poison(job.recipe.sequence, error))
        else:
            self._shared(session, job, shared, spent)
        for worker, number in seats.items():
            if worker in self.places:
                self.places[worker].free += number
        session.is_sharing = False
        self._ended(session, expected, spent)

    async def _claimed(self, seats: Mapping[Worker, int]) -> None:
        """Takes slots, all at once, when they are free. Raises WorkerLost if one goes away before."""
        if any(worker.is_lost for worker in seats):
            raise WorkerLost("a worker went away while a run was planned")
        self._claims.append(claim := Claim(seats, asyncio.get_running_loop().create_future()))
        self.pump()
        await claim.taken

    def _again(self, session: Session, job: Job, error: WorkerLost, is_loss: bool) -> None:
        """Lets a run be executed elsewhere, unless too many workers went away with it."""
        job.losses += is_loss
        if job.losses < LOSSES:
            session.queue.appendleft(job)
        else:
            what = f"{LOSSES} workers that executed it went away: {error.what}"
            self._poisoned(session, job, Poison(job.recipe.sequence, WorkerLost(what)))

    def _ended(self, session: Session, expected: float, spent: Spent) -> None:
        """A run is over, however it went."""
        session.under_way -= 1
        self._turns.end(session.number, expected, spent.seconds)
        self._allowances.end(session.member, expected, spent.seconds, self._clock())
        if session.number in self.sessions:
            self._release(session)
            if not (session.under_way or session.queue or session.again):
                self._turns.rest(session.number)
        self.pump()

    def _check_lives(self, session: Session) -> None:
        """Raises ExecutionError, which nobody hears of, if the session has ended: nothing is left of it anywhere."""
        if session.number not in self.sessions:
            raise ExecutionError("the session is over")

    def _work(self, session: Session, job: Job) -> Work:
        recipe = job.recipe
        outputs = [0] * len(recipe.defined.program.results)
        for tensor in job.outputs:
            outputs[tensor.index] = tensor.number
        inputs = tuple(tensor.number for tensor in recipe.inputs)
        of = recipe.defined
        return Work(session.number, of.root, of.program, of.encoded, inputs, tuple(outputs), recipe.variables)

    def _done(self, session: Session, job: Job, place: Place, spent: Spent) -> None:
        """Counts a run, and lets its results be read."""
        self._count(session, job, [place], spent)
        for tensor in job.outputs:
            tensor.places.add(place.worker)
            tensor.settle()
            elements = spent.small.get(tensor.index)
            if elements is None:
                elements = place.worker.at_hand(session.number, tensor.number)
            if elements is not None:
                tensor.copy, tensor.made = elements, None
            else:
                self._copied(session, tensor)
            session.drop(tensor)
        self._left(session, job)

    def _shared(self, session: Session, job: Job, shared: Shared, spent: Spent) -> None:
        """The same of a run of several workers, whose results lie in boxes."""
        self._count(session, job, [self.places[worker] for worker in shared.seats if worker in self.places], spent)
        for tensor in job.outputs:
            tensor.settle()
            self._copied(session, tensor)
            session.drop(tensor)
        self._left(session, job)

    def _count(self, session: Session, job: Job, places: Sequence[Place], spent: Spent) -> None:
        defined = job.recipe.defined
        self.segments.count(defined.root, spent.seconds, sum(tensor.size for tensor in job.outputs), spent.sent)
        defined.seconds = min(defined.seconds or spent.seconds, spent.seconds) or 1e-6
        for place in places:
            for one in (session.shares.setdefault(place.worker.name, Share()), place):
                one.runs, one.seconds = one.runs + 1, one.seconds + spent.seconds / len(places)
        session.runs, session.compiled = session.runs + 1, session.compiled + spent.compiled
        job.recipe.depth = 1 + max((tensor.depth for tensor in job.recipe.inputs), default=0)

    def _copied(self, session: Session, tensor: Tensor) -> None:
        """Lets a copy of a tensor be kept here, if it would take long to make it again."""
        if tensor.depth >= DEPTH or session.kept > session.quota.held // 2:
            self._keep(self._copy(session, tensor))

    def _poisoned(self, session: Session, job: Job, poison: Poison) -> None:
        self.failed(session, job.recipe.defined.root.hex()[:8], job.recipe.sequence, poison)
        for tensor in job.outputs:
            tensor.poison = poison
            tensor.settle()
            session.drop(tensor)
        self._left(session, job)

    def _left(self, session: Session, job: Job) -> None:
        for tensor in job.recipe.inputs:
            session.leave(tensor)

    async def _copy(self, session: Session, tensor: Tensor) -> None:
        """Keeps a tensor's elements here: what it was made of is needed no more."""
        session.use(tensor)
        try:
            tensor.copy = await self._elements(session, tensor)
            tensor.made = None
        except EigenTensorError:
            pass  # it is made again, if it is wanted and was lost
        finally:
            session.leave(tensor)
            self._release(session)

    async def _bring(self, session: Session, tensor: Tensor, worker: Worker) -> None:
        """Sees that a tensor is at a worker."""
        if worker in tensor.places:
            return
        task = tensor.coming.get(worker)
        if task is None:
            task = tensor.coming[worker] = asyncio.create_task(self._move(session, tensor, worker))
        await asyncio.shield(task)

    async def _move(self, session: Session, tensor: Tensor, worker: Worker) -> None:
        try:
            elements = await self._elements(session, tensor)
            self._check_lives(session)
            self.log.record(Event.MOVE, f"WORKER {worker.name}", "PUT", tensor.size, tensor=tensor.number)
            await worker.put(session.number, tensor.number, elements, tensor.dtype)
            tensor.places.add(worker)
        finally:
            del tensor.coming[worker]

    async def _elements(self, session: Session, tensor: Tensor) -> NDArray[Any]:
        """A tensor's elements. Raises WorkerLost if they are nowhere any more."""
        if tensor.copy is not None:
            return tensor.copy
        for worker in tensor.places:
            if not worker.is_lost:
                elements = await worker.get(session.number, tensor.number)
                if (elements.dtype, elements.shape) == (STORAGE[tensor.dtype], tensor.shape):
                    return elements
                raise ExecutionError(f"worker {worker.name} has something else for a tensor {tensor.shape}")
        if tensor.lying:
            return await whole(session, tensor)
        raise WorkerLost(f"tensor {tensor.number} went with its worker")

    def _release(self, session: Session) -> None:
        """Frees at the workers what a session dropped."""
        dropped, session.dropped = session.dropped, []
        numbers: dict[Worker, list[int]] = {}
        for tensor in dropped:
            if tensor.uses or tensor.is_pending:
                continue  # something is made of it again meanwhile
            for worker in tensor.holders:
                if not worker.is_lost:
                    numbers.setdefault(worker, []).append(tensor.number)
            tensor.forget_places()
        for worker, some in numbers.items():
            self.log.record(Event.FREE, f"WORKER {worker.name}", "FREE", tensors=len(some), session=session.number)
            worker.free(session.number, some)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
