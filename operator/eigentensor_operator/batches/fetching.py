"""Shares of other operators' batches, fetched from those who executed them. What they say may be anything: it counts
when it leads to what the chain has."""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from eigentensor import connecting, merkle
from eigentensor.chain.keys import limit_recursion
from eigentensor.channel import Offer, pool_of
from eigentensor.channel.calls import Quotes
from eigentensor.channel.events import Shown
from eigentensor.channel.life import BatchLife
from eigentensor.channel.lines import CallPlace, CallProof, open_line
from eigentensor.channel.shown import ShareRequest, ShownCall, ShownShare
from eigentensor.channel.signed import task_of
from eigentensor.errors import (
    BindingError,
    BlobCorrupt,
    BlobTooLarge,
    EigenTensorError,
    GatewayError,
    StoreError,
    WrongReceipt,
)
from eigentensor.program import Role
from eigentensor.reexecution.inputs import BoundProgram, fetch_bound, fetch_program
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.names import parse_name
from eigentensor.store.parts import decode_bound, encode_variables
from eigentensor.task import NONE, Domain, Order
from eigentensor.task.order import Signer
from eigentensor_operator.batches.leaves import Missing

SECONDS = 10.0  #: of silence of an endpoint
SLOW = (
    30.0,
    1 << 16,
)  #: seconds after which, and bytes a second below which, an answer is none
SHARE_BYTES = 16 << 20  #: of the largest share: 256 calls of 64 KiB each


class Endpoint:
    """Where one operator serves its calls, and the blobs that it gives out; into a local store."""

    def __init__(self, url: str, store: LocalStore, limit: int) -> None:
        """`limit` is the largest blob in bytes. Raises GatewayError for what is no URL of HTTP."""
        if not url.startswith(("http://", "https://")):
            raise GatewayError(f"{url!r} is no URL of an endpoint", fix="Its operator publishes another one.")
        limit_recursion()  # what it answers may be nested as deep as it likes
        self.store, self._limit, self._url = store, limit, url.rstrip("/")
        self._http = connecting.client(url, timeout=SECONDS, follow_redirects=False)

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def share(self, request: ShareRequest, signature: bytes) -> ShownShare:
        """A share, as the endpoint tells of it. Raises GatewayError, TaskError."""
        path = f"/v1/batches/{request.batch.hex()}/shares/{request.share}"
        return ShownShare.from_json(self._get_json(path, {"signature": "0x" + signature.hex()}))

    def quotes(self) -> Quotes:
        """What the endpoint offers. Raises GatewayError, TaskError."""
        return Quotes.from_json(self._get_json("/v1/deals", {}))

    def fetch(self, name: str | bytes) -> Path:
        """The file of a blob in the local store. Raises GatewayError, BlobTooLarge, BlobCorrupt."""
        name = parse_name(name)
        if name not in self.store:
            self._keep(name, self._get(f"/v1/blobs/{name}", {}, self._limit))
        return self.store.path(name)

    def _get_json(self, path: str, asked: Mapping[str, str]) -> Any:
        data = self._get(path, asked, SHARE_BYTES)
        try:
            return httpx.Response(200, content=data).json()
        except (ValueError, RecursionError):
            raise GatewayError(f"{self._url} answers no JSON", fix="Ask again, or demand the calls.") from None

    def _keep(self, name: str, data: bytes) -> None:
        blob = self.store.put(data)
        if name not in self.store:
            self.store.discard(blob)
            raise BlobCorrupt(f"{self._url} gave blob {blob} for {name}", fix="Ask again, or demand the call.")

    def _check_pace(self, size: int, seconds: float) -> None:
        patience, pace = SLOW
        if seconds > patience + size / pace:
            raise GatewayError(f"{self._url} sent {size} bytes in {seconds:.0f} seconds", fix="Ask again.")

    def _get(self, path: str, asked: Mapping[str, str], limit: int) -> bytes:
        """What an endpoint answers, of at most `limit` bytes."""
        started = time.monotonic()
        try:
            with (
                self._http.stream("GET", self._url + path, params=dict(asked)) as answer,
                tempfile.SpooledTemporaryFile(max_size=SHARE_BYTES) as kept,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise GatewayError(f"{self._url}{path} answers {answer.status_code}", fix="Ask again.")
                for part in answer.iter_bytes():
                    self._check_pace(kept.tell(), time.monotonic() - started)
                    if kept.tell() + len(part) > limit:
                        raise BlobTooLarge(f"{self._url}{path} has more than {limit} bytes")
                    kept.write(part)
                kept.seek(0)
                return kept.read()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise GatewayError(f"{self._url} does not answer: {error!r}", fix="Ask again.") from None


@dataclass(frozen=True, slots=True)
class Placed:
    """A call of a share with its number in the batch and the position of its line there."""

    number: int
    position: int
    task: bytes
    """The hash of its order."""
    shown: ShownCall

    def place(self, life: BatchLife, outputs_root: bytes) -> CallPlace:
        """All that leads to the call, once its result is known."""
        proof = CallProof(self.shown.index, self.task, outputs_root, self.shown.path)
        return CallPlace(open_line(life.lines, self.position), proof, self.shown.order)

    @classmethod
    def shown_by(cls, event: Shown, life: BatchLife) -> Self:
        """The call that was demanded and shown on chain, which has proven it. Raises BindingError for variables that no
        program has."""
        call = event.call
        try:
            variables = decode_bound(event.variables)
        except BlobCorrupt as error:
            raise BindingError(error.what) from None
        result = merkle.result_of(call.outputs_root)
        shown = ShownCall(0, call.index, event.order, variables, result, call.path)
        return cls(event.number, life.line_of(event.number), call.order, shown)


def placed(share: ShownShare, life: BatchLife, domain: Domain) -> list[Placed]:
    """The calls of a share, each of which stands in the batch where the draw says. Raises WrongReceipt for the first
    that does not, and for another number of calls."""
    numbers = life.numbers(share.share)
    if share.batch != life.batch or len(share.calls) != len(numbers):
        raise WrongReceipt("calls", f"the share has {len(numbers)} calls, {len(share.calls)} are shown")
    calls = []
    for number, shown in zip(numbers, share.calls, strict=True):
        position = life.line_of(number)
        line = life.lines[position]
        if line.index_of(number) != shown.index or not shown.leads_to(line, domain):
            raise WrongReceipt("path", f"call {number} does not lead to the batch's root")
        calls.append(Placed(number, position, task_of(domain, shown.order), shown))
    return calls


class Sources:
    """The calls of shares, with what they bind: from their operators, whose URLs the gateway knows, and what these lack
    (programs, weights) from the gateway itself."""

    def __init__(self, gateway: GatewayClient, domain: Domain, signer: Signer) -> None:
        self._gateway, self._domain, self._signer = gateway, domain, signer
        self._endpoints: dict[str, Endpoint] = {}
        self._programs: dict[bytes, Mapping[bytes, int]] = {}

    def close(self) -> None:
        """Closes all connections."""
        for endpoint in self._endpoints.values():
            endpoint.close()

    def share(self, life: BatchLife, share: int) -> list[Placed]:
        """The calls of a share of a batch, proven to stand in it. Raises StoreError, TaskError."""
        request = ShareRequest(life.batch, share)
        shown = self._endpoint(life.offer.operator).share(request, self._signer.sign(request.message(self._domain)))
        return placed(shown, life, self._domain)

    def bound(self, operator: str, call: Placed) -> BoundProgram:
        """Everything that the order of a call of `operator` names. Raises StoreError, ProgramError, BindingError."""
        if call.shown.variables:
            self.store.put(encode_variables(call.shown.variables))
        return self.bound_by(operator, call.shown.order)

    def bound_by(self, operator: str, order: Order) -> BoundProgram:
        """The same of an order whose variables were seen before."""
        return fetch_bound(_Both(self, operator), order)

    def programs(self, offer: Offer) -> Mapping[bytes, int] | None:
        """The programs of an offer with their most repeats, as its operator quotes them, proven by their root; None:
        it says nothing that has this root."""
        pool = pool_of(self._domain, offer)
        if pool not in self._programs:
            try:
                quotes = self._endpoint(offer.operator).quotes().quotes
            except EigenTensorError:
                return None
            for quote in quotes:
                if quote.offer == offer and (listed := quote.listed) is not None:
                    self._programs[pool] = listed
        return self._programs.get(pool)

    def missing(self, operator: str, order: Order) -> Missing | None:
        """The inputs and states of an order that nobody serves; None: all are here. Raises StoreError, ProgramError,
        BindingError where the program is not."""
        program = fetch_program(_Both(self, operator), order)
        roots = {Role.INPUT: order.inputs, Role.STATE: order.states}
        lacking = {}
        for role, root in roots.items():
            try:
                if root != NONE:
                    self.fetch(operator, root)
            except StoreError:
                lacking[role] = root
        return Missing(program, lacking) if lacking else None

    def is_here(self, order: Order) -> bool:
        """Whether nothing that an order names has to be fetched."""
        roots = order.program, order.inputs, order.weights, order.states
        return all(root == NONE or root in self.store for root in roots)

    def fetch(self, operator: str, name: str | bytes) -> Path:
        """A blob, from an operator's endpoint unless it is here, else from the gateway. Raises StoreError."""
        if name in self.store:
            return self.store.path(name)
        try:
            return self._endpoint(operator).fetch(name)
        except EigenTensorError:
            return self._gateway.fetch(name)

    @property
    def store(self) -> LocalStore:
        """Where what was fetched lies."""
        return self._gateway.store

    def _endpoint(self, operator: str) -> Endpoint:
        """Of whoever answers there nothing is believed: another URL is asked for when it fails."""
        url = self._url_of(operator)
        if url not in self._endpoints:
            self._endpoints[url] = Endpoint(url, self._gateway.store, self._gateway.limit)
        return self._endpoints[url]

    def _url_of(self, operator: str) -> str:
        try:
            known = self._gateway.operators()["operators"]
            for one in known:
                if one["operator"] == operator and one["asks"]["calls"]:
                    return str(one["asks"]["calls"])
        except (KeyError, TypeError):
            pass
        raise GatewayError(f"{operator} does not publish where it serves calls", fix="Ask again.")


class _Both:
    """What an operator's endpoint does not have the gateway may."""

    def __init__(self, sources: Sources, operator: str) -> None:
        self.store, self._sources, self._operator = sources.store, sources, operator

    def fetch(self, name: str | bytes) -> Path:
        """Raises StoreError."""
        return self._sources.fetch(self._operator, name)
