"""Requests that OpenAI's clients send again by themselves, without a key that says so: not paid for twice."""

import hashlib
import secrets

from fastapi import Request

from eigentensor_serve.asking import key_of
from eigentensor_serve.service import caller_of

_KEPT = 1024  # requests
_COUNT = "x-stainless-retry-count"  # 0, 1, 2: how often its client has sent a request before


class Retries:
    """Keys for requests of OpenAI's clients: a new one for each, the same for what is sent again after a timeout or a
    lost connection. Only in memory, and of the last requests."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, bytes], str] = {}

    async def key(self, request: Request) -> str | None:
        """The request's own Idempotency-Key, or else one that it has in common with those it repeats; None for other
        clients. Raises 400 for a key that is none."""
        own, count = key_of(request), request.headers.get(_COUNT)
        if own is not None or count is None:
            return own
        name = (caller_of(request), request.url.path, hashlib.sha256(await request.body()).digest())
        before = self._keys.pop(name, None)
        key = before if before is not None and count != "0" else f"client-{secrets.token_hex(16)}"
        self._keys[name] = key
        if len(self._keys) > _KEPT:
            del self._keys[next(iter(self._keys))]  # the oldest
        return key
