"""A gateway's public queries: who asks them needs no blobs, and what takes those apart is not loaded."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from eigentensor.store.http import Connection
from eigentensor.store.names import parse_name


class Queries:
    """What a gateway tells of tasks, games and operators, and takes from these. Usable from several threads at once.

    Every request is repeated a few times when the gateway is away or overloaded. Raises StoreError.
    """

    def __init__(self, url: str, *, attempts: int = 5, transport: httpx.BaseTransport | None = None) -> None:
        """`attempts` is how often one step may fail in a row."""
        self._connection = Connection(url, attempts, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connection.http.close()

    def network(self) -> dict[str, Any]:
        """The deployment that the gateway serves."""
        return self._connection.request_json("GET", "/v1/network")

    def tasks(self, **filters: str | int) -> dict[str, Any]:
        """A page of tasks, newest first: `tasks` and `next`. Filters: state, client, executor, cursor, limit."""
        return self._connection.request_json("GET", "/v1/tasks", params=filters)

    def task(self, task: str | bytes) -> dict[str, Any]:
        """A task with its events, `eigentensor.task/1`. Raises BlobNotFound for an unknown one."""
        return self._connection.request_json("GET", f"/v1/tasks/{parse_name(task)}")

    def explain(self, task: str | bytes) -> dict[str, Any]:
        """Why a task is where it is: for each operator the reason that it gave for not accepting it."""
        return self._connection.request_json("GET", f"/v1/tasks/{parse_name(task)}/explain")

    def challenges(self, **filters: str | int) -> dict[str, Any]:
        """A page of challenges, newest first. Filters: task, executor, challenger, state, cursor, limit."""
        return self._connection.request_json("GET", "/v1/challenges", params=filters)

    def challenge(self, number: int) -> dict[str, Any]:
        """A game in words: who against whom, on what, every move with its gas, whose move it is and until when."""
        return self._connection.request_json("GET", f"/v1/challenges/{number}")

    def operators(self) -> dict[str, Any]:
        """The operators that have announced themselves, with their stake and seats."""
        return self._connection.request_json("GET", "/v1/operators")

    def decline(self, task: str | bytes, decline: Mapping[str, Any]) -> None:
        """Publishes a signed decline (`eigentensor.chain.Decline.sign`)."""
        self._connection.request("POST", f"/v1/tasks/{parse_name(task)}/declines", json=dict(decline))

    def ask(self, operator: str, asking: Mapping[str, Any]) -> None:
        """Publishes a signed ask (`eigentensor.chain.PublishedAsk.sign`)."""
        self._connection.request("PUT", f"/v1/operators/{operator}/asks", json=dict(asking))

    def post_order(self, order: Mapping[str, Any], signature: bytes) -> dict[str, Any]:
        """Asks the gateway to post a signed order with its own gas; returns the task's uuid and the transaction."""
        body = {"order": dict(order), "signature": "0x" + signature.hex()}
        return self._connection.request_json("POST", "/v1/orders", json=body)
