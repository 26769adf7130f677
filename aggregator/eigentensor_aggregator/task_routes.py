"""Tasks, operators and orders over HTTP."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response
from fastapi.responses import JSONResponse
from pydantic_core import to_json

from eigentensor.chain import Decline, PublishedAsk
from eigentensor.errors import ChainError, ConfigError, Reverted, TaskError, TaskNotFound
from eigentensor.schemas.network import Asked, Operators
from eigentensor.task import Life, Order, Posted, State, order_uuid, view
from eigentensor.task import objects as schemas
from eigentensor.web.documents import refused, response
from eigentensor_aggregator import operators
from eigentensor_aggregator.bodies import Declining, SignedAsk, SignedOrder, takes
from eigentensor_aggregator.parts import ADDRESS, Account, Cursor, InState, Limit, Name, Parts, place_of, task_name
from eigentensor_aggregator.problems import NotAllowed
from eigentensor_aggregator.tables import DeclineRow


def router(parts: Parts) -> APIRouter:
    """The routes about tasks, operators and orders."""
    routes = APIRouter(prefix="/v1", tags=["tasks"])
    domain = parts.network.deployment.domain

    def known(task: str) -> Life:
        life = parts.store.task(task_name(task))
        if life is None:
            raise TaskNotFound(f"no task {task} in this market", fix="It may not be in a block yet.")
        return life

    def check_signer(operator: str, signer: str) -> None:
        if parts.queries.signer_of(operator) != signer:
            raise NotAllowed(f"{signer} is not the signer of operator {operator}")

    @routes.get("/tasks", responses=response(schemas.Tasks, "A page of tasks"))
    def list_tasks(
        state: InState = None,
        client: Annotated[str | None, Query(pattern=ADDRESS, description="only those that it posted")] = None,
        executor: Annotated[str | None, Query(pattern=ADDRESS, description="only those that it accepted")] = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> JSONResponse:
        """Tasks, newest first. `next` is the cursor of the next page, null at the end."""
        lives = parts.queries.tasks(
            state=state,
            client=operators.checksum(client),
            executor=operators.checksum(executor),
            before=place_of(cursor),
            limit=limit,
        )
        last = lives[-1].posted if len(lives) == limit else None
        tasks = [view.task(life, parts.daemon.block) for life in lives]
        page: schemas.Tasks = {
            "schema": "eigentensor.tasks/1",
            "block": parts.daemon.block,
            "tasks": tasks,
            "next": None if last is None else f"{last.block}-{last.index}",
        }
        return JSONResponse(page)

    @routes.get("/tasks/{task}", responses=response(schemas.Task, "The task") | refused(404))
    def read_task(task: Name) -> JSONResponse:
        """A task with its order and everything that happened to it."""
        return JSONResponse(view.whole(known(task), parts.daemon.block))

    @routes.get("/tasks/{task}/explain", responses=response(schemas.Explanation, "Why") | refused(404))
    def explain_task(task: Name) -> JSONResponse:
        """Why a task is where it is: what it waits for, and what each operator said about it."""
        declines, rows = parts.queries.declines(task_name(task)), parts.queries.operator_rows()
        return JSONResponse(operators.explanation(known(task), parts.daemon.block, rows, declines))

    @routes.post(
        "/tasks/{task}/declines",
        status_code=HTTPStatus.CREATED,
        responses=response(schemas.Declined, "It is kept", status=HTTPStatus.CREATED) | refused(403, 404),
        openapi_extra=takes(Declining),
    )
    def decline_task(task: Name, body: Annotated[dict[str, Any], Body()]) -> JSONResponse:
        """Why an operator does not take a task, signed by its hot signer. Its last word counts."""
        decline, signer = Decline.read(body, domain)
        life = parts.store.task(task_name(task))
        if life is None or decline.task.hex() != task_name(task):
            raise TaskNotFound(f"no task {task} in this market, or the decline is about another one")
        if life.state is not State.OPEN:
            raise TaskError(f"task {task} is {life.state.name.lower()}: nobody asks for operators any more")
        check_signer(decline.operator, signer)
        row = DeclineRow(
            task=task_name(task),
            operator=decline.operator,
            reason=decline.reason,
            needed=decline.needed,
            offered=decline.offered,
            block=parts.daemon.block,
        )
        if not parts.queries.add_decline(row, parts.settings.max_declines):
            raise NotAllowed(f"{parts.settings.max_declines} operators have spoken about task {task}")
        parts.feed.tell("changed", f"{decline.operator} on {task}")
        return JSONResponse({"schema": "eigentensor.decline/1"}, HTTPStatus.CREATED)

    @routes.get("/operators", responses=response(Operators, "The operators"))
    def list_operators() -> Response:
        """Every operator that ever joined: signer and caps, seats, stake and what its tasks lock, tasks by state, and
        for which prices and how fast it worked lately."""
        views = parts.queries.operators()
        try:
            standings = parts.standings.of([one.row.operator for one in views])
        except ChainError:
            standings = {}
        page: Operators = {
            "schema": "eigentensor.operators/1",
            "operators": [
                operators.operator(one, standings.get(one.row.operator), parts.asks.listed(one.row.operator))
                for one in views
            ],
        }
        # Of a thousand operators Python's own encoder takes four times as long.
        return Response(to_json(page), media_type="application/json")

    @routes.put(
        "/operators/{operator}/asks",
        responses=response(Asked, "It is kept") | refused(403),
        openapi_extra=takes(SignedAsk),
    )
    def publish_ask(operator: Account, body: Annotated[dict[str, Any], Body()]) -> JSONResponse:
        """What an operator reckons with when it makes a price, signed by its hot signer. It is listed for a minute."""
        published, signer = PublishedAsk.read(body, domain)
        if published.operator != operators.checksum(operator):
            raise TaskError(f"the ask is one of {published.operator}, not of {operator}")
        check_signer(published.operator, signer)
        parts.asks.keep(published)
        page: Asked = {"schema": "eigentensor.asked/1"}
        return JSONResponse(page)

    @routes.post(
        "/orders",
        status_code=HTTPStatus.CREATED,
        responses=response(schemas.Posted, "It is in a block", status=HTTPStatus.CREATED)
        | refused(409, 422, 501, 502, 503, 504),
        openapi_extra=takes(SignedOrder),
    )
    def post_order(body: Annotated[dict[str, Any], Body()]) -> JSONResponse:
        """Posts a client's signed order; the gateway pays the gas, the client's balance the escrow. Safe to repeat."""
        if parts.chain is None:
            raise ConfigError(
                "this gateway posts no orders: it has no account of its own",
                fix="Post the order yourself, or start the gateway with a keystore.",
            )
        order, signature = _signed_order(body)
        task = order_uuid(order, domain)
        if parts.chain.market.task_at(task).state is not State.NONE:
            return _posted(task, None)
        receipt = parts.chain.market.post(order, signature)
        if not any(isinstance(event, Posted) and event.task == task for event in receipt.events):
            raise Reverted("AlreadyPosted", (task.hex(),))
        return _posted(task, receipt.transaction)

    return routes


def _posted(task: bytes, transaction: bytes | None) -> JSONResponse:
    posted: schemas.Posted = {
        "schema": "eigentensor.posted/1",
        "task": task.hex(),
        "transaction": None if transaction is None else "0x" + transaction.hex(),
    }
    return JSONResponse(posted, HTTPStatus.CREATED)


def _signed_order(body: dict[str, Any]) -> tuple[Order, bytes]:
    order, signature = body.get("order"), body.get("signature")
    if not isinstance(order, dict) or not isinstance(signature, str):
        raise TaskError("the body must be an object with `order` and `signature`")
    try:
        return Order.from_json(order), bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        raise TaskError("the signature must be hex") from None
