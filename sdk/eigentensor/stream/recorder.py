"""Instructions as they are given, kept until somebody looks: then those since the last look are one segment.

A value is what an instruction makes. It is stored only if somebody still holds it when its segment ends; what a user
changes in place is another value. Where segments end never changes a bit.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from threading import RLock, Thread, local
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.session import Preparing, Session
from eigentensor.errors import BindingError, EigenTensorError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.stream.operations import Kind, kind_of, kind_of_result
from eigentensor.stream.segment import INPUT, MOST, SIGHTS, Ended, Entry, Key, Segment, described, joined, lowered

#: Instructions after which a segment ends though nobody looks.
LONGEST = 256
#: Segments that are remembered.
SEGMENTS = 1024
#: Kinds of results that are remembered.
KINDS = 1 << 16
#: Attributes, without a frame of the interpreter for each instruction.
_KIND, _PLACE = attrgetter("kind"), attrgetter("place")
#: Of segments and of tensors, one after the other in a process: no two recorders take one for another's.
_numbers, _handles = count(), count(1)


class Value:
    """A tensor that an instruction makes, or that was given. It never changes."""

    __slots__ = ("__weakref__", "handle", "kind", "place", "segment")

    def __init__(self, kind: Kind, segment: int, place: int) -> None:
        self.kind = kind
        #: The segment that knows it last, and where in it.
        self.segment, self.place = segment, place
        #: The session's number for it; 0 before its segment ended, and an error if that could not be lowered.
        self.handle: int | EigenTensorError = 0


class Scope(local):
    """The signal that instructions of a thread get, and the one that their gradients get: both the same, or none, until
    the thread enters a scope."""

    def __init__(self, signal: str | None = None) -> None:
        self.signal = self.backward = signal


class Recorder:
    """Records instructions for a session, from any thread. `sent` is told of each segment as it is sent."""

    def __init__(self, session: Session, sent: Callable[[bytes, Key, Segment], None] | None = None) -> None:
        self.session = session
        self.sent = sent
        self.scope = Scope()
        self.longest, self.sights = LONGEST, SIGHTS
        self._limit = 0  #: of this segment, if it goes on where others ended
        self._is_due = False
        self._lock = RLock()
        self._kinds: dict[tuple[Any, ...], Kind] = {}  #: of results, by operation, argument and kinds of operands
        self._segments: OrderedDict[Key, tuple[Segment, bytes]] = OrderedDict()
        self._signals: dict[bytes, object] = {}  #: as they were last defined, by root
        self._held: dict[int, ref[Value]] = {}
        self._freed: deque[int] = deque()
        self._before: Ended | None = None  #: the last segment, if it ended because it was long
        self._pairs: dict[tuple[Key, Key], int] = {}  #: how often one followed the other
        self._goes_on: set[Key] = set()
        self.joiner: Thread | None = None  #: joins segments, one pair at a time
        self._number = next(_numbers)  #: of the segment that is being recorded
        self._entries: list[Entry] = []
        self._made: list[ref[Value]] = []
        self._inputs: list[Value] = []

    def __len__(self) -> int:
        """How many tensors the session holds for values that somebody holds."""
        return len(self._held)

    def emit(self, op: str, arg: Any, *operands: Value) -> Value:
        """Records an instruction, and gives what it makes. Raises CaptureError, with the user's line, if the operands
        do not fit it."""
        with self._lock:
            if self._is_due:
                self.end()
            made = (op, arg, *map(_KIND, operands))
            kind = self._kinds.get(made) or self._inferred(*made)
            number, entries = self._number, self._entries
            for operand in operands:
                if operand.segment != number:
                    self._take(operand)
            value = Value(kind, number, len(entries))
            entries.append((op, arg, kind, self.scope.signal, *map(_PLACE, operands)))
            self._made.append(ref(value))
            if len(entries) >= (self._limit or self.longest):
                self._full()
            return value

    def put(self, array: NDArray[Any], dtype: DType) -> Value:
        """A tensor from outside. The array, in the storage type, must not change afterwards."""
        with self._lock:
            if freed := self._dropped():
                self.session.free(freed)
            value = Value(kind_of(array.shape, dtype), -1, 0)
            elements = np.ascontiguousarray(array, STORAGE[dtype]).reshape(array.shape)
            self.session.put(self._hold(value), elements, dtype)
            return value

    def read(self, value: Value) -> NDArray[Any]:
        """What a value is, as an array that must not be written to; ends the segment if that has to make it first.

        Raises what went wrong where it was made.
        """
        with self._lock:
            if value.handle == 0:
                self.end()
            if isinstance(value.handle, EigenTensorError):
                raise value.handle
            handle = value.handle
        return self.session.get(handle)

    def end(self) -> None:
        """Ends the segment that is being recorded, and sends it."""
        with self._lock:
            living = self._living()
            if living:
                self._end(self._key(living), living)
            else:
                self._begin()

    def pending(self) -> list[str]:
        """The entries of the segment that is being recorded, one text for each."""
        with self._lock:
            return [described(place, entry) for place, entry in enumerate(self._entries)]

    def turn(self) -> None:
        """Ends the segment before its next instruction: a turn of a loop is one segment then, and what is let go until
        that instruction comes is not stored."""
        self._is_due = True

    @contextmanager
    def within(self, signal: str | None, backward: str | None = None) -> Iterator[None]:
        """Instructions of this thread get this signal, and their gradients the other one."""
        scope = self.scope
        before = scope.signal, scope.backward
        scope.signal, scope.backward = signal, backward
        try:
            yield
        finally:
            scope.signal, scope.backward = before

    def _inferred(self, op: str, arg: Any, *kinds: Kind) -> Kind:
        if len(self._kinds) >= KINDS:
            self._kinds.clear()
        kind = self._kinds[op, arg, *kinds] = kind_of_result(op, arg, kinds)
        return kind

    def _begin(self) -> None:
        """Another segment is recorded from here on."""
        self._entries, self._made, self._inputs = [], [], []
        self._number, self._limit, self._is_due, self._before = next(_numbers), 0, False, None

    def _living(self) -> list[Value]:
        return [value for of in self._made if (value := of()) is not None]

    def _key(self, living: Sequence[Value]) -> Key:
        return Key(tuple(self._entries), tuple([value.place for value in living]))

    def _full(self) -> None:
        """Ends a segment that is long, unless it goes on into what mostly follows it."""
        living = self._living()
        key = self._key(living)
        if key in self._goes_on and len(self._entries) < MOST * self.longest:
            self._limit = len(self._entries) + self.longest
        elif living:
            self._end(key, living, is_long=True)
        else:
            self.end()

    def _end(self, key: Key, living: Sequence[Value], is_long: bool = False) -> None:
        inputs, before = self._inputs, self._before
        self._begin()
        ended = self._send(key, living, inputs)
        if before is not None:
            self._follow(before, ended)
        self._before = ended if is_long else None

    def _follow(self, first: Ended, second: Ended) -> None:
        """Has two segments joined, beside whatever else is done, when the one has followed the other often enough."""
        if len(self._pairs) >= SEGMENTS:
            self._pairs.clear()
        pair = first.key, second.key
        self._pairs[pair] = sights = self._pairs.get(pair, 0) + 1
        is_free = self.joiner is None or not self.joiner.is_alive()
        if sights >= self.sights and first.key not in self._goes_on and is_free:
            key = joined(first, second, self._held)
            self.joiner = Thread(target=self._join, args=[first.key, key], name="segment joiner", daemon=True)
            self.joiner.start()

    def _join(self, first: Key, both: Key) -> None:
        try:
            segment = lowered(both)
            root = self.session.define(segment.program, segment.signals)
            if isinstance(self.session, Preparing):
                self.session.prepare(root)
        except EigenTensorError:
            return  # the two go on as they are
        with self._lock:
            self._remember(both, (segment, root))
            self._goes_on.add(first)

    def _take(self, operand: Value) -> None:
        """Makes a value of an earlier segment one of this segment's inputs."""
        if not isinstance(operand.handle, int):
            raise operand.handle
        if operand.handle not in self._held:
            raise BindingError("a tensor of another session", fix="Make it anew: tensors end with their session.")
        operand.segment, operand.place = self._number, len(self._entries)
        self._entries.append((INPUT, operand.kind))
        self._inputs.append(operand)

    def _send(self, key: Key, living: Sequence[Value], inputs: list[Value]) -> Ended:
        try:
            segment, root = self._segment(key)
        except EigenTensorError as error:
            for value in living:
                value.handle = error
            raise
        of_input: dict[int, int] = {value.place: value.handle for value in inputs}  # type: ignore[misc]
        outputs: dict[str, int] = {}
        for value, name in zip(living, segment.outputs.values(), strict=True):
            outputs[name] = self._hold(value)
        named = {name: of_input[place] for place, name in segment.inputs.items()}
        inputs.clear()  # who holds none of them any more frees them with this segment
        freed = self._dropped()
        if self._signals.get(root) != segment.signals or not self.session.has(root):
            self._signals[root] = segment.signals
            self.session.define(segment.program, segment.signals)
        self.session.run(root, named, outputs, freed=freed)
        if self.sent is not None:
            self.sent(root, key, segment)
        return Ended(key, of_input, dict(zip(outputs.values(), key.wanted, strict=True)))

    def _segment(self, key: Key) -> tuple[Segment, bytes]:
        known = self._segments.get(key)
        if known is not None:
            self._segments.move_to_end(key)
            return known
        segment = lowered(key)
        known = segment, self.session.define(segment.program, segment.signals)
        self._remember(key, known)
        return known

    def _remember(self, key: Key, known: tuple[Segment, bytes]) -> None:
        self._segments[key] = known
        self._signals[known[1]] = known[0].signals
        if len(self._segments) > SEGMENTS:
            _, (_, root) = self._segments.popitem(last=False)
            self._signals.pop(root, None)

    def _dropped(self) -> list[int]:
        """The numbers of tensors that nobody holds any more; other threads may add some meanwhile."""
        return [self._freed.popleft() for _ in range(len(self._freed))]

    def _hold(self, value: Value) -> int:
        """Gives a value its number, which is freed when nobody holds the value any more."""
        handle = value.handle = next(_handles)

        def dropped(_: object, handle: int = handle) -> None:
            del self._held[handle]
            self._freed.append(handle)

        self._held[handle] = ref(value, dropped)
        return handle
