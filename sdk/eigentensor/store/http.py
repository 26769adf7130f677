"""Requests to a gateway: repeated when it is away or overloaded, refused in the words of the error tree."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import httpx
import stamina

from eigentensor import connecting, traces
from eigentensor.errors import BlobCorrupt, BlobNotFound, BlobTooLarge, GatewayError, StoreError, StoreFull
from eigentensor.talk import waiting_for

# Retries are reported by the error that ends them: by default they would be printed among a command's data.
stamina.instrumentation.set_on_retry_hooks(())

_ANSWER_LIMIT = 96 << 20  # the list of pieces of a blob of 1 TiB has 70 MiB
_ANSWER_SECONDS = 300.0  # a connection that brings a byte now and then is none
_WORDS = 2_000  # characters of a refusal that are passed on
_ERRORS: Mapping[int, type[StoreError]] = {404: BlobNotFound, 413: BlobTooLarge, 422: BlobCorrupt, 507: StoreFull}


class Connection:
    """A connection to one gateway. `attempts` is how often a request may fail in a row before its error is raised."""

    def __init__(self, url: str, attempts: int, transport: httpx.BaseTransport | None) -> None:
        self.attempts = attempts
        timeout = httpx.Timeout(30, connect=5)
        self.http = connecting.client(url, base_url=url, timeout=timeout, transport=transport)

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return str(self.http.base_url)

    def request_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The JSON object of a response. Raises StoreError; GatewayError where there is no object."""
        value = _parse(self.request(method, path, **options) or b"")
        if value is None:
            raise GatewayError(f"{self.url} is not a gateway: {method} {path} gave no JSON object")
        return value

    def request(self, method: str, path: str, missing_ok: bool = False, **options: Any) -> bytes | None:
        """The body of the answer; None for 404 if that is `missing_ok`. Raises StoreError."""
        with waiting_for(f"the gateway at {self.url}"):
            return self._request(method, path, missing_ok, options)

    def _request(self, method: str, path: str, missing_ok: bool, options: Mapping[str, Any]) -> bytes | None:
        options = {**options, "headers": {**options.get("headers", {}), **traces.headers()}}
        for attempt in stamina.retry_context(
            on=_is_passing, attempts=self.attempts, wait_initial=0.05, wait_max=2.0, timeout=None
        ):
            with attempt, answering(self.url), self.http.stream(method, path, **options) as response:
                if missing_ok and response.status_code == 404:
                    return None
                if not response.is_success:  # nor is it where another address says that it is
                    raise error_of(response)
                return _read(response)
        raise AssertionError("a retry ends with an answer or an error")


@contextmanager
def answering(url: str) -> Iterator[None]:
    """Turns every way in which a gateway fails to answer, or answers what is no HTTP, into GatewayError."""
    try:
        yield
    except httpx.TransportError as error:
        raise GatewayError(
            f"no answer from the gateway at {url}: {error}",
            fix="Is the network running? See EIGENTENSOR_NETWORK.",
            topic="network",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
        raise GatewayError(
            f"the answer of the gateway at {url} cannot be read: {error}", fix="Use another gateway."
        ) from error


def _is_passing(error: Exception) -> bool:
    return isinstance(error, GatewayError) and (error.status is None or error.status in (429, 502, 503, 504))


def error_of(response: httpx.Response) -> StoreError:
    """The typed error of an RFC 9457 problem, or of any other refusal; reads the answer."""
    problem = _parse(_read(response)) or {}
    request = response.request
    what = str(problem.get("detail") or f"{request.method} {request.url.path}: HTTP {response.status_code}")[:_WORDS]
    fix = str(problem.get("fix") or "")[:_WORDS]
    kind = _ERRORS.get(response.status_code)
    return kind(what, fix=fix) if kind else GatewayError(what, status=response.status_code, fix=fix)


def _read(response: httpx.Response) -> bytes:
    content, end = bytearray(), monotonic() + _ANSWER_SECONDS
    for chunk in response.iter_bytes():
        content += chunk
        if monotonic() > end:
            raise GatewayError(f"{response.request.url.path}: no answer in {_ANSWER_SECONDS:.0f} s", status=200)
        if len(content) > _ANSWER_LIMIT:
            raise GatewayError(
                f"{response.request.url.path}: the answer is larger than {_ANSWER_LIMIT} bytes", status=200
            )
    return bytes(content)


def _parse(content: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
