"""Runs that a cluster shares out: signals for hints, sessions that execute a program, and logs that are read back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cluster.log import Entry, Event
from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program, Role
from eigentensor.sharding.signals import Hint, ShardConfig, SignalConfig, Signals
from support.clusters import added, square
from support.programs import sharded
from support.programs.placements import PLACES

Values = Mapping[str, NDArray[Any]]


def signalled(hints: Sequence[Hint | None]) -> tuple[dict[int, str], str]:
    """Names of signals by call that say what the hints say, and the YAML of them."""
    names = {hint: f"place{n}" for n, hint in enumerate(dict.fromkeys(filter(None, hints)))}
    meanings = {
        name: SignalConfig(ShardConfig(hint.axis, hint.workers, hint.replicated)) for hint, name in names.items()
    }
    return {call: names[hint] for call, hint in enumerate(hints) if hint is not None}, Signals(meanings).to_yaml()


class Shared:
    """A program at a cluster, all of whose tensors are inputs; each run has handles of its own."""

    def __init__(self, session: RemoteSession, program: Program, hints: Sequence[Hint | None] = ()) -> None:
        self.session, self.program = session, with_inputs_alone(program).program
        names, text = signalled(hints)
        session.configure(text)
        self.root, self.next = session.define(self.program, names), 1
        self.outputs = [result.name for result in self.program.results]

    def put(self, tensors: Values) -> dict[str, int]:
        """Handles of these tensors."""
        handles = {}
        for name, buffer in self.program.named(Role.INPUT).items():
            if name in tensors:
                handles[name] = self.handle()
                self.session.put(handles[name], np.ascontiguousarray(tensors[name]), buffer.dtype)
        return handles

    def handle(self) -> int:
        """A new one."""
        self.next += 1
        return self.next

    def run(self, inputs: Mapping[str, int], freed: Sequence[int] = ()) -> dict[str, int]:
        """Handles of the results."""
        made = {name: self.handle() for name in self.outputs}
        self.session.run(self.root, inputs, made, freed=freed)
        return made

    def read(self, handles: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """What handles stand for."""
        return {name: self.session.get(handle) for name, handle in handles.items()}

    def once(self, tensors: Values) -> dict[str, NDArray[Any]]:
        """The results on these tensors."""
        return self.read(self.run(self.put(tensors)))


class Steps:
    """Steps of descent of one of the networks, whose states go on from where the last step left them."""

    def __init__(self, shared: Shared, name: str = "mlp step") -> None:
        self.shared, self.states = shared, list(sharded.captured(name).states)
        self.inputs, self.losses = shared.put(sharded.tensors(name)), list[int]()

    def step(self) -> None:
        """One more."""
        made = self.shared.run(self.inputs, [self.inputs[name] for name in self.states])
        self.inputs |= {name: made[name] for name in self.states}
        self.losses += [handle for name, handle in made.items() if name not in self.states]

    def read(self) -> list[bytes]:
        """All losses, and the states of the last step."""
        last = [self.inputs[name] for name in self.states]
        return [self.shared.session.get(handle).tobytes() for handle in (*self.losses, *last)]


def expected(program: Program, tensors: Values) -> dict[str, NDArray[Any]]:
    """What the reference gives, new states among it."""
    given = with_inputs_alone(program).program
    return dict(reference.execute(given, {n: tensors[n] for n in given.named(Role.INPUT)}).outputs)


def alike(one: Values, other: Values) -> bool:
    """Whether both have the same bits."""
    return one.keys() == other.keys() and all(
        (one[n].dtype, one[n].shape, one[n].tobytes()) == (other[n].dtype, other[n].shape, other[n].tobytes())
        for n in one
    )


def placed(entries: Sequence[Entry]) -> dict[int, dict[int, str]]:
    """By call and slot the box that is computed there, of the newest plan in a log."""
    lines = [e for e in entries if e.event is Event.PLAN and "call" in e.detail]
    last = max(int(e.detail["plan"]) for e in lines)
    boxes: dict[int, dict[int, str]] = {}
    for e in lines:
        if int(e.detail["plan"]) == last:
            boxes.setdefault(int(e.detail["call"]), {})[int(e.detail["slot"])] = e.detail["box"]
    return boxes


def moved(entries: Sequence[Entry]) -> int:
    """Bytes that went from slot to slot, as boxes."""
    return sum(e.size or 0 for e in entries if e.event is Event.MOVE and "box" in e.detail)


def sent(entries: Sequence[Entry]) -> int:
    """The same as the workers counted it."""
    return sum(int(e.detail.get("sent", 0)) for e in entries if e.event is Event.WORKER_RECV)


def through_dispatcher(entries: Sequence[Entry]) -> int:
    """Bytes of tensors that the dispatcher brought to workers, or gave to clients."""
    return sum(
        e.size or 0
        for e in entries
        if (e.event is Event.MOVE and "box" not in e.detail) or (e.event is Event.SEND and e.what in ("PUT", "VALUE"))
    )


def use_each(session: Callable[[], RemoteSession], slots: int) -> None:
    """Holds a cluster of so many slots to right results: of a run for each, and of one that is shared out over all."""
    with session() as one:
        root = one.define(added(32))
        for number in range(slots):
            one.put(2 * number + 1, square(32, number), DType.FLOAT32)
        for number in range(slots):
            one.run(root, {"x": 2 * number + 1, "y": 1}, {"output": 2 * number + 2})
        for number in range(slots):
            assert np.array_equal(one.get(2 * number + 2), square(32, number))
    with session() as one:
        program = added(2 * slots)
        run, given = Shared(one, program, PLACES["along the batch"](program, slots)), square(2 * slots)
        assert np.array_equal(run.once({"x": given, "y": given})["output"], given * 2)
