"""Boxes that workers hand each other, in one process or several: in order, or refused."""

from collections.abc import Callable, Collection
from itertools import product
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from eigentensor.errors import ExecutionError

Values = NDArray[Any]


class Port(Protocol):
    """Where a worker sends boxes, and gets others'. Messages from one worker to another are numbered from 0 on, anew in
    each iteration."""

    def send(self, worker: int, number: int, box: Values) -> None:
        """Sends a box, which may change as soon as this returns, without waiting for the other."""

    def receive(self, worker: int, number: int) -> Values:
        """Waits for the next message of a worker, elements in order. Raises ExecutionError for another number."""


class Message(NamedTuple):
    """A box on its way."""

    number: int
    box: Values


#: Takes a message of a worker to one elsewhere; when it returns, the box may change.
Forward = Callable[[int, int, "Message"], None]


class Mail:
    """The mail between workers, for those of this process; closed when one of them has failed: nobody waits then."""

    def __init__(self, workers: int, here: Collection[int] | None = None, forward: Forward | None = None) -> None:
        """Of so many workers these are `here`, or all of them; `forward` takes, on any thread, what goes to others."""
        self.forward, self.is_closed, self.why = forward, False, ""
        pairs = product(range(workers), range(workers) if here is None else here)
        self.queues: dict[tuple[int, int], SimpleQueue[Message | None]] = {pair: SimpleQueue() for pair in pairs}

    def port(self, worker: int) -> "MailPort":
        """The port of one worker."""
        return MailPort(self, worker)

    def send(self, sender: int, receiver: int, message: "Message") -> None:
        """A message of a worker of this process, whose box may change afterwards, to who is here or elsewhere. Raises
        ExecutionError if nobody knows the receiver."""
        if (sender, receiver) in self.queues or self.forward is None:
            self.deliver(sender, receiver, message._replace(box=message.box.copy()))
        else:
            self.forward(sender, receiver, message)

    def deliver(self, sender: int, receiver: int, message: "Message") -> None:
        """A message whose box does not change any more, to who is here. Raises ExecutionError if nobody is."""
        queue = self.queues.get((sender, receiver))
        if queue is None:
            raise ExecutionError(f"worker {sender} has a message for {receiver}, and there is no such worker")
        queue.put(message)

    def close(self, why: str = "") -> None:
        """Whoever waits, or will, gets an error, which says why."""
        self.is_closed, self.why = True, self.why or why
        for queue in self.queues.values():
            queue.put(None)


class MailClosed(ExecutionError):
    """Another worker has failed: its error is the cause."""


class MailPort:
    """One worker's. `sent` are the bytes of all boxes that it has sent."""

    def __init__(self, mail: Mail, worker: int) -> None:
        self.mail, self.worker, self.sent = mail, worker, 0

    def send(self, worker: int, number: int, box: Values) -> None:
        """A copy, for who is here; who is elsewhere gets the elements in frames."""
        self.sent += box.nbytes
        self.mail.send(self.worker, worker, Message(number, box))

    def receive(self, worker: int, number: int) -> Values:
        """As it came."""
        message = self.mail.queues[worker, self.worker].get()
        if message is None:
            what = f"worker {self.worker} waits for a box of worker {worker}, and some worker has failed"
            raise MailClosed(f"{what}: {self.mail.why}" if self.mail.why else what)
        if message.number != number:
            raise ExecutionError(
                f"worker {self.worker} got message {message.number} of worker {worker} where {number} was to come",
                fix="Run it again: nothing of this run is used.",
            )
        return message.box
