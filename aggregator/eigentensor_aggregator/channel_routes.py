"""Pools, channels and batches of paid calls over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from eigentensor.channel import objects as schemas
from eigentensor.channel import view
from eigentensor.errors import BlobNotFound
from eigentensor.store import parse_name
from eigentensor.web.documents import refused, response
from eigentensor_aggregator import operators
from eigentensor_aggregator.parts import ADDRESS, NAME, Cursor, InBatchState, Limit, Name, Parts
from eigentensor_aggregator.problems import ChannelNotFound

_Filter = Annotated[str | None, Query(pattern=NAME, description="64 hex digits, with or without 0x")]
_Operator = Annotated[str | None, Query(pattern=ADDRESS, description="only those of it")]


def router(parts: Parts) -> APIRouter:
    """The routes about paid calls."""
    routes = APIRouter(prefix="/v1", tags=["channels"])

    @routes.get("/pools", responses=response(schemas.Pools, "A page of pools"))
    def list_pools(operator: _Operator = None, cursor: Cursor = None, limit: Limit = 50) -> JSONResponse:
        """Offers of paid calls, newest first. `next` is the cursor of the next page, null at the end."""
        pools = parts.queries.pools(operator=operators.checksum(operator), before=_place(cursor), limit=limit)
        last = pools[-1].offered if len(pools) == limit else None
        page: schemas.Pools = {
            "schema": "eigentensor.pools/1",
            "block": parts.daemon.block,
            "pools": [view.pool(one.life, one.offered[0], one.channels) for one in pools],
            "next": None if last is None else f"{last[0]}-{last[1]}",
        }
        return JSONResponse(page)

    @routes.get("/channels/{channel}", responses=response(schemas.Channel, "The channel") | refused(404))
    def read_channel(channel: Name) -> JSONResponse:
        """A channel as its newest committed batch leaves it; `/v1/batches?channel=` lists the batches that have it."""
        name = _name(channel, "a channel")
        if (known := parts.queries.channel(name)) is None:
            raise ChannelNotFound(f"no channel {channel} in this market", fix="It may not be in a block yet.")
        return JSONResponse(view.channel(bytes.fromhex(name), known.life, known.operator, parts.daemon.block))

    @routes.get("/batches", responses=response(schemas.Batches, "A page of batches") | refused(404))
    def list_batches(
        pool: _Filter = None,
        channel: _Filter = None,
        operator: _Operator = None,
        state: InBatchState = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> JSONResponse:
        """Batches of paid calls, newest first, of a pool, or those that a channel stands in. `next` is the cursor of
        the next page, null at the end."""
        batches = parts.queries.batches(
            pool=None if pool is None else _name(pool, "a pool"),
            channel=None if channel is None else _name(channel, "a channel"),
            operator=operators.checksum(operator),
            state=state,
            before=_place(cursor),
            limit=limit,
        )
        last = batches[-1].life.events[0].place if len(batches) == limit else None
        page: schemas.Batches = {
            "schema": "eigentensor.batches/1",
            "block": parts.daemon.block,
            "batches": [view.batch(one.life, one.pool, parts.daemon.block) for one in batches],
            "next": None if last is None else f"{last.block}-{last.index}",
        }
        return JSONResponse(page)

    @routes.get("/batches/{batch}", responses=response(schemas.Batch, "The batch") | refused(404))
    def read_batch(batch: Name) -> JSONResponse:
        """A batch with its terms, its lines, and everything that happened to it."""
        if (known := parts.store.batch(_name(batch, "a batch"))) is None:
            raise ChannelNotFound(f"no batch {batch} in this market", fix="It may not be in a block yet.")
        return JSONResponse(view.whole(known.life, known.pool, parts.daemon.block))

    return routes


def _place(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    block, _, index = cursor.partition("-")
    return int(block), int(index)


def _name(text: str, of: str) -> str:
    """64 hex digits. Raises ChannelNotFound for what names nothing."""
    try:
        return parse_name(text)
    except BlobNotFound:
        raise ChannelNotFound(f"{text!r} does not name {of}") from None
