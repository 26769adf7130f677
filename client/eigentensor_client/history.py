"""What a session has done: tasks whose states follow one from the other, and the one under way; pure. And its file."""

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, Self

from typing_extensions import TypedDict

from eigentensor import merkle, system
from eigentensor.addresses import is_address
from eigentensor.errors import BlobNotFound, ConfigError, SessionBusy, TaskError
from eigentensor.task import NONE, Domain, Order, order_uuid
from eigentensor.task.objects import OrderJson
from eigentensor.texts import Address, documented
from eigentensor.wire import Json, Name, Object, read
from eigentensor_client.orders import Roots, Terms

SCHEMA: Final = "eigentensor.session/1"


@dataclass(frozen=True, slots=True)
class Asked:
    """An order for one step, and the values of its variables. It may have been sent, or not yet."""

    order: Order
    variables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """A task with a result: the bindings roots of its outputs and of its new states."""

    asked: Asked
    outputs: bytes
    states: bytes
    final: bool = False

    @property
    def order(self) -> Order:
        """The order of its task."""
        return self.asked.order

    @property
    def outputs_root(self) -> bytes:
        """What its executor must have revealed."""
        return merkle.outputs_root(self.outputs, self.states)


@dataclass(frozen=True, slots=True)
class Void(Object):
    """A task that counts no more."""

    task: Name
    """The task's uuid."""
    step: int
    """As which step it was ordered, beginning with 0."""
    why: str
    """Why it does not count, in words."""


@documented
class SessionTask(TypedDict):
    """An order for a step. It may have been sent, or not yet."""

    task: Name
    """The task's uuid."""
    variables: dict[str, int]
    """The values of the program's variables."""
    order: OrderJson
    """What was signed."""


@documented
class SessionStep(TypedDict):
    """A step with a result."""

    task: Name
    """The task's uuid."""
    variables: dict[str, int]
    """The values of the program's variables."""
    order: OrderJson
    """What was signed."""
    outputs: Name
    """The bindings root of its outputs."""
    states: Name
    """The bindings root of its new states, with which the next step begins."""
    final: bool
    """Whether its executor was paid: it stands for good."""


@documented
class Session(TypedDict):
    """`eigentensor.session/1`: one account's session with one program on one market, as its file has it."""

    schema: Literal["eigentensor.session/1"]
    """Says what this object is."""
    chain_id: int
    """The chain, as EIP-155 counts."""
    market: Address
    """The contract TaskMarket."""
    client: Address
    """Who pays."""
    program: Name
    """The program root."""
    weights: Name
    """The bindings root of its weights; zeros where it has none."""
    states: Name
    """The bindings root of the states before the first step."""
    terms: Annotated[dict[str, Any], Json(Terms)]
    """What is offered for a step."""
    steps: list[SessionStep]
    """What was done, in order."""
    under_way: SessionTask | None
    """The step that has no result yet."""
    void: list[Annotated[dict[str, Any], Json(Void)]]
    """What counts no more."""


@dataclass(frozen=True, slots=True)
class History:
    """One account's session with one program on one market. Roots are NONE where the program has no such part.

    `states` are those before the first step; step n + 1 begins with the new states of step n.
    """

    domain: Domain
    client: str
    program: bytes
    weights: bytes
    states: bytes
    terms: Terms
    steps: tuple[Step, ...] = ()
    under_way: Asked | None = None
    void: tuple[Void, ...] = ()

    def states_before(self, step: int) -> bytes:
        """The states root with which a step begins, or will begin."""
        return self.steps[step - 1].states if step else self.states

    @property
    def next_states(self) -> bytes:
        """The states root with which the next step begins."""
        return self.states_before(len(self.steps))

    def task(self, order: Order) -> str:
        """The uuid of an order's task."""
        return order_uuid(order, self.domain).hex()

    # ---- What happens to it ----

    def on(self, terms: Terms) -> Self:
        """Other terms from now on."""
        return replace(self, terms=terms)

    def asks(self, order: Order, variables: Mapping[str, int]) -> Self:
        """The next step's order is about to be sent."""
        self._check(order, self.next_states)
        return replace(self, under_way=Asked(order, dict(variables)))

    def is_under_way(self, roots: Roots, repeat: int) -> bool:
        """Whether the task under way is the one that this work would be."""
        if self.under_way is None:
            return False
        order = self.under_way.order
        return (order.inputs, order.variables, order.repeat) == (roots.inputs, roots.variables, repeat)

    def answered(self, outputs: bytes, states: bytes) -> Self:
        """The task under way has a result."""
        assert self.under_way is not None
        return replace(self, steps=(*self.steps, Step(self.under_way, outputs, states)), under_way=None)

    def gives_up(self, why: str) -> Self:
        """The task under way will never count."""
        assert self.under_way is not None
        dropped = Void(self.task(self.under_way.order), len(self.steps), why)
        return replace(self, under_way=None, void=(*self.void, dropped))

    def finals(self, step: int) -> Self:
        """A step's executor was paid: it stands for good."""
        done = replace(self.steps[step], final=True)
        return replace(self, steps=(*self.steps[:step], done, *self.steps[step + 1 :]))

    def rewound(self, step: int, why: str) -> Self:
        """As before a step: what was built on its states is void, the task under way too."""
        dropped = [s.asked for s in self.steps[step:]] + ([self.under_way] if self.under_way else [])
        void = [Void(self.task(asked.order), step + number, why) for number, asked in enumerate(dropped)]
        return replace(self, steps=self.steps[:step], under_way=None, void=(*self.void, *void))

    # ---- Its file ----

    def to_json(self) -> Session:
        """`eigentensor.session/1`: roots as hex, amounts in wei as decimal strings."""
        asked = self.under_way
        return {
            "schema": SCHEMA,
            "chain_id": self.domain.chain_id,
            "market": self.domain.market,
            "client": self.client,
            "program": self.program.hex(),
            "weights": self.weights.hex(),
            "states": self.states.hex(),
            "terms": self.terms.to_json(),
            "steps": [
                {"outputs": s.outputs.hex(), "states": s.states.hex(), "final": s.final, **self._task_fields(s.asked)}
                for s in self.steps
            ],
            "under_way": None if asked is None else self._task_fields(asked),
            "void": [void.to_json() for void in self.void],
        }

    def _task_fields(self, asked: Asked) -> SessionTask:
        variables, order = dict(asked.variables), asked.order.to_json()
        return {"task": self.task(asked.order), "variables": variables, "order": order}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Reads what `to_json` wrote, and holds every step to the one before it. Raises ConfigError."""
        try:
            if values["schema"] != SCHEMA:
                raise ValueError(f"it is of kind {values['schema']}, not {SCHEMA}")
            asked = values["under_way"]
            history = cls(
                domain=_domain(values["chain_id"], values["market"]),
                client=str(values["client"]),
                program=_root(values["program"]),
                weights=_root(values["weights"]),
                states=_root(values["states"]),
                terms=Terms.from_json(values["terms"]),
                steps=tuple(
                    Step(_asked(s), _root(s["outputs"]), _root(s["states"]), s["final"] is True)
                    for s in values["steps"]
                ),
                under_way=None if asked is None else _asked(asked),
                void=tuple(Void(**read(Void, void)) for void in values["void"]),
            )
            for number, step in enumerate(history.steps):
                history._check(step.order, history.states_before(number))
            if history.under_way is not None:
                history._check(history.under_way.order, history.next_states)
            listed = [*values["steps"], *([] if asked is None else [asked])]
            orders = [*(s.order for s in history.steps), *([history.under_way.order] if history.under_way else [])]
            if [t["task"] for t in listed] != [history.task(order) for order in orders]:
                raise ValueError("a task is not that of its order")
        except (AttributeError, KeyError, TypeError, ValueError, struct.error, TaskError) as error:
            raise ConfigError(
                f"this is not the file of a session: {error}", fix="Take another, or start anew."
            ) from None
        return history

    def _check(self, order: Order, states: bytes) -> None:
        """Raises ValueError for an order that does not go on from these states."""
        expected = (self.client, self.program, self.weights, states)
        if (order.client, order.program, order.weights, order.states) != expected:
            raise ValueError(f"task {self.task(order)} does not go on from states {states.hex()}")


def _domain(chain_id: int, market: str) -> Domain:
    if type(chain_id) is not int or chain_id < 0 or not is_address(market):
        raise ValueError(f"there is no market {market} on chain {chain_id}")
    return Domain(chain_id, market)


def _root(text: str) -> bytes:
    if len(root := bytes.fromhex(text)) != len(NONE):
        raise ValueError(f"{text!r} is not a root")
    return root


def _asked(values: Mapping[str, Any]) -> Asked:
    variables = {str(name): int(value) for name, value in values["variables"].items()}
    order = Order.from_json(values["order"])
    root = merkle.variables_root(variables) if variables else NONE
    if order.variables != root:
        raise ValueError("the variables are not those of the order")
    return Asked(order, variables)


class SessionFile:
    """A file of which this process is the only writer until `close`; a hidden one beside it holds the lock."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        """Raises SessionBusy if another process has it, ConfigError if its folder cannot be written, or if it is to be
        `new` and there is one.
        """
        if path.is_dir():
            raise ConfigError(f"{path} is a folder", fix="Name the session's file.")
        self.path = path
        self._place = path.with_name(f".{path.name}.lock")
        try:
            self._lock = self._locked()
        except BlockingIOError:
            raise SessionBusy(f"another process has the session in {path}", fix="Wait for it, or end it.") from None
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", fix="Choose another place.") from None
        if new and path.exists():
            self.close()
            raise ConfigError(f"{path} exists", fix="Go on with it, or choose another file.")

    def _locked(self) -> BinaryIO:
        while True:
            lock = self._place.open("wb")
            try:
                system.lock(lock.fileno())
                # Whoever held the lock may have removed its file, and somebody else made another.
                if self._place.exists() and os.path.samestat(os.fstat(lock.fileno()), self._place.stat()):
                    return lock
            except BaseException:
                lock.close()
                raise
            lock.close()

    def close(self) -> None:
        """Another process may have the file."""
        if not self._lock.closed:
            self._place.unlink(missing_ok=True)
            self._lock.close()

    def read(self) -> History:
        """Raises BlobNotFound if there is no file, ConfigError if it is not one of a session."""
        try:
            return History.from_json(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            raise BlobNotFound(f"there is no session in {self.path}", fix="Check the path, or start one.") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"cannot read {self.path}: {error}", fix="Name the file of a session.") from None

    def write(self, history: History) -> None:
        """Returns when the file would survive a power cut. Raises ConfigError if it cannot be written."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with temporary.open("w") as file:
                json.dump(history.to_json(), file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}", fix="Make room, or a folder.") from None
        finally:
            temporary.unlink(missing_ok=True)
