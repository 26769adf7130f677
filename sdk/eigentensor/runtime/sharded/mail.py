"""Boxes that workers of one process hand each other: in order, or refused."""

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
        """Waits for the next message of a worker. Raises ExecutionError unless it has this number."""


class Message(NamedTuple):
    """A box on its way."""

    number: int
    box: Values


class Mail:
    """The mail between all workers of one process; closed when one of them has failed: nobody waits for it then."""

    def __init__(self, workers: int) -> None:
        pairs = ((sender, receiver) for sender in range(workers) for receiver in range(workers))
        self.queues: dict[tuple[int, int], SimpleQueue[Message | None]] = {pair: SimpleQueue() for pair in pairs}

    def port(self, worker: int) -> "MailPort":
        """The port of one worker."""
        return MailPort(self, worker)

    def close(self) -> None:
        """Whoever waits, or will, gets an error."""
        for queue in self.queues.values():
            queue.put(None)


class MailClosed(ExecutionError):
    """Another worker has failed: its error is the cause."""


class MailPort:
    """One worker's."""

    def __init__(self, mail: Mail, worker: int) -> None:
        self.mail, self.worker = mail, worker

    def send(self, worker: int, number: int, box: Values) -> None:
        """A copy."""
        self.mail.queues[self.worker, worker].put(Message(number, box.copy()))

    def receive(self, worker: int, number: int) -> Values:
        """As it came."""
        message = self.mail.queues[worker, self.worker].get()
        if message is None:
            raise MailClosed(f"worker {self.worker} waits for a box of worker {worker}, and some worker has failed")
        if message.number != number:
            raise ExecutionError(
                f"worker {self.worker} got message {message.number} of worker {worker} where {number} was to come",
                fix="Run it again: nothing of this run is used.",
            )
        return message.box
