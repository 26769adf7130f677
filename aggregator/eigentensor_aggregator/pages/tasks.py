"""The market, lists of tasks, and the page of one."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from eigentensor import economics
from eigentensor.errors import BlobNotFound, ChainError, TaskNotFound
from eigentensor.task import NONE, Life, State, words
from eigentensor.web.pages.site import Site
from eigentensor_aggregator import operators
from eigentensor_aggregator.pages import charts
from eigentensor_aggregator.pages.line import chances, line
from eigentensor_aggregator.parts import ADDRESS, NAME, Cursor, InState, Name, Parts, place_of, task_name

PAGE = 50  #: tasks of a page
_STATES = [state.name.lower() for state in State if state is not State.NONE]
_Account = Annotated[str | None, Query(pattern=f"{ADDRESS}|^$")]
_Program = Annotated[str | None, Query(pattern=f"{NAME}|^$")]
_Blocks = Annotated[int, Query()]


def router(parts: Parts, site: Site) -> APIRouter:
    """`/`, `/tasks`, `/tasks/{uuid}`."""
    routes = APIRouter()
    queries = parts.queries

    @routes.get("/")
    def read_market(request: Request, blocks: _Blocks = 0) -> Response:
        """Counts, charts, the newest tasks."""
        newest = parts.daemon.block
        span = charts.span(queries.first_block() or newest, newest, blocks if blocks in charts.RANGES else 0)
        buckets = queries.buckets(span.first * span.size, span.size)
        return site.page(
            request,
            "market.html",
            counts=queries.counts(),
            lives=queries.tasks(limit=12),
            games=queries.open_games(),
            members=sum(row.member for row in queries.operator_rows()),
            burned=_burned(parts),
            ranges=charts.RANGES,
            blocks=blocks,
            span=span,
            throughput=charts.throughput(buckets, span),
            prices=charts.prices(buckets, span),
            burn=charts.burn(buckets, span),
        )

    @routes.get("/tasks")
    def list_tasks(
        request: Request,
        state: InState = None,
        client: _Account = None,
        executor: _Account = None,
        program: _Program = None,
        cursor: Cursor = None,
    ) -> Response:
        """Tasks newest first, by what they are asked for: `state`, `client`, `executor`, `program`."""
        asked = {"state": state, "client": client, "executor": executor, "program": program}
        asked = {name: value for name, value in asked.items() if value}
        lives = queries.tasks(
            state=state,
            client=operators.checksum(client) or None,
            executor=operators.checksum(executor) or None,
            program=task_name(program) if program else None,
            before=place_of(cursor),
            limit=PAGE + 1,
        )
        last = lives[PAGE - 1].posted if len(lives) > PAGE else None
        return site.page(
            request,
            "tasks.html",
            lives=lives[:PAGE],
            counts=queries.counts(),
            states=_STATES,
            asked=asked,
            without={name: address("/tasks", {**asked, name: None}) for name in ("state", *asked)},
            of_state={name: address("/tasks", {**asked, "state": name}) for name in _STATES},
            first=address("/tasks", asked) if cursor else None,
            following=last and address("/tasks", {**asked, "cursor": f"{last.block}-{last.index}"}),
        )

    @routes.get("/tasks/{task}")
    def read_task(request: Request, task: Name) -> Response:
        """Its life through blocks, who signed what, what can be had and done."""
        life = parts.store.task(task_name(task))
        if life is None:
            raise TaskNotFound(f"no task {task} in this market", fix="It may not be in a block yet.")
        rows, declines = queries.operator_rows(), queries.declines(life.uuid.hex())
        block, order = parts.daemon.block, life.order
        return site.page(
            request,
            "task.html",
            life=life,
            order=order,
            is_open=order.operators == NONE,
            waits_for=words.waits_for(life, block, site.now().pace),
            stops=line(life),
            operators={row.operator for row in rows},
            chances=chances(life, block),
            opinions=operators.explanation(life, block, rows, declines)["operators"]
            if life.state is State.OPEN
            else [],
            price_now=economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, block + 1),
            blobs=_blobs(parts, life),
        )

    return routes


def address(path: str, asked: Mapping[str, str | None]) -> str:
    """A path with what is asked for in its query."""
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{path}?{query}" if query else path


def _burned(parts: Parts) -> int | None:
    """What is burned so far, in wei; None where the node does not answer."""
    try:
        return parts.standings.burned(parts.network.deployment.burn)
    except ChainError:
        return None


def _blobs(parts: Parts, life: Life) -> list[tuple[str, str, int | None]]:
    """What a task names by roots: what it is, its root, its bytes; None where the gateway has not got them."""
    order = life.order
    named = [("program", order.program), ("inputs", order.inputs), ("weights", order.weights)]
    named += [("states", order.states), ("variables", order.variables)]
    named += [("outputs", life.outputs_root)] if life.outputs_root else []
    found = []
    for what, root in named:
        if root != NONE:
            try:
                size: int | None = parts.blobs.find(root.hex())[0].size
            except BlobNotFound:
                size = None
            found.append((what, root.hex(), size))
    return found
