"""The pages: apps to be tried, the caller's tasks, their receipts, the channels. What they do, /v1 does."""

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response

from eigentensor.errors import ConfigError, EigenTensorError, NotYet
from eigentensor.receipt import Receipt, prove
from eigentensor.receipt.calls import SignedCall, is_call
from eigentensor.receipt.calls import prove as prove_call
from eigentensor.web.pages.site import Link, Site
from eigentensor.web.pages.words import Money
from eigentensor_client import receipts
from eigentensor_serve.apps import schema as apps_schema
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.registry import App
from eigentensor_serve.asking import own_job
from eigentensor_serve.ledger import DAY, Job, now
from eigentensor_serve.pages import views
from eigentensor_serve.pages.figures import Figure, figures
from eigentensor_serve.pages.widgets import asking, takes_pictures
from eigentensor_serve.service import Service, caller_of

_NEWEST = 8  # tasks on the first page
_PAGE = 50
_SHOWN = 1 << 20  # elements of outputs that a page looks at
_POLICY = {"Referrer-Policy": "same-origin"}  # the form that signs out tells its origin

Name = Annotated[str, Path(max_length=63)]
Uuid = Annotated[str, Path(max_length=66)]


def site_of(service: Service) -> Site:
    """The site of a service."""
    links = [Link("/", "Apps"), Link("/tasks", "Tasks")]
    if service.channels is not None:
        links.append(Link("/channels", "Channels"))
    money = Money(service.symbol, service.decimals)
    return Site("EigenTensor serve", links, ("eigentensor_serve.pages",), money, live=False)


def router(site: Site, deployed: Deployed) -> APIRouter:
    """All of them but those for signing in; no OpenAPI document has them."""
    routes = APIRouter(include_in_schema=False)
    service = deployed.service
    ledger, backend = service.ledger, service.backend

    def page(request: Request, template: str, **data: Any) -> Response:
        caller = caller_of(request)
        response = site.page(request, template, caller=caller, service=service, **data)
        response.headers.update(_POLICY)
        return response

    def rows(jobs: Sequence[tuple[int, Job]]) -> list[views.Row]:
        return [views.row(job, backend.show(job)) for _, job in jobs]

    @routes.get("/")
    def show_apps(request: Request) -> Response:
        """Every app as a card, what was spent, the newest tasks."""
        cards = [_card(deployed, app) for app in deployed.apps.list()]
        newest = rows(ledger.jobs(caller_of(request), limit=_NEWEST))
        return page(request, "apps.html", cards=cards, rows=newest, money=_money(service))

    @routes.get("/apps/{name}")
    def show_app(request: Request, name: Name) -> Response:
        """An app to be tried: what it takes, a widget for each input, what it costs."""
        app = deployed.app(name)
        program, tokens = deployed.program(app), bool(caller_of(request))
        base = str(request.base_url).rstrip("/")
        return page(
            request, "app.html", app=app, asking=asking(app, program), takes=views.takes(app, program),
            gives=views.gives(app, program), price=views.price_of(app, service.decimals, service.symbol),
            curl=apps_schema.curl(app, program, base, tokens=tokens), versions=deployed.apps.versions(name),
            program=program, is_free=backend.is_local,
        )  # fmt: skip

    @routes.get("/tasks")
    def list_tasks(
        request: Request,
        app: Annotated[str, Query(max_length=63)] = "",
        state: Literal["", "open", "ended", "void"] = "",
        cursor: Annotated[int | None, Query(ge=1, lt=1 << 62)] = None,
    ) -> Response:
        """The caller's tasks, newest first, in pages."""
        chosen = {"states": views.FILTERS[state]} if state else {}
        jobs = ledger.jobs(caller_of(request), cursor, _PAGE, app=app or None, **chosen)
        words = {name: value for name, value in (("app", app), ("state", state)) if value}
        following = f"?{urlencode(words | {'cursor': jobs[-1][0]})}" if len(jobs) == _PAGE else None
        names = sorted({one.name for one in deployed.apps.list()} | ({app} if app else set()))
        return page(
            request, "tasks.html", rows=rows(jobs), names=names, app=app, state=state,
            first=f"/tasks?{urlencode(words)}" if cursor else None, following=following,
        )  # fmt: skip

    @routes.get("/tasks/{task}")
    def show_task(request: Request, task: Uuid) -> Response:
        """A task as it stands: what it gives, its life, its receipt."""
        job = own_job(service, request, task)
        response = backend.show(job)
        shown, why = _answer(deployed, job) if views.has_result(job, response) else ([], "")
        return page(
            request, "task.html", job=job, row=views.row(job, response), told=response, life=views.life(response),
            figures=shown, why=why, history=views.history(ledger.events(job.task)),
            has_receipt=not backend.is_local and bool(response["outputs_root"]),
        )  # fmt: skip

    @routes.get("/tasks/{task}/receipt")
    def show_receipt(request: Request, task: Uuid) -> Response:
        """What the receipt of a task proves by itself, line by line, and what it leaves open."""
        job = own_job(service, request, task)
        checked = _checked(backend.receipt(job))
        summary = receipts.summary(checked.receipt, confirmed=False) if isinstance(checked, receipts.Checked) else []
        return page(request, "receipt.html", job=job, checked=checked, summary=summary)

    @routes.get("/channels")
    def list_channels(request: Request) -> Response:
        """The channels of a service that calls operators, with what each batch owes."""
        if service.channels is None:
            raise ConfigError("this service has no channels", fix="Start it with --channels.")
        return page(request, "channels.html", channels=service.channels())

    return routes


def _card(deployed: Deployed, app: App) -> views.Card:
    service = deployed.service
    try:
        program = deployed.program(deployed.held(app))
    except EigenTensorError as error:
        return views.Card(app.name, app.version, "away", "", "", "", error.what)
    return views.card(app, program, views.price_of(app, service.decimals, service.symbol))


def _money(service: Service) -> dict[str, Any] | None:
    """What the service has spent, and may; None where nothing is paid."""
    if service.backend.is_local:
        return None
    at = now()
    spent, settings = service.ledger.spent, service.settings
    return {"today": spent(at - at % DAY), "all": spent(), "a_day": settings.budget, "total": settings.budget_total}


def _answer(deployed: Deployed, job: Job) -> tuple[list[Figure], str]:
    """What a page shows of a result, or why it shows nothing."""
    try:
        outcome = deployed.service.backend.result(job)
    except NotYet as error:
        return [], error.what
    except EigenTensorError as error:
        return [], " ".join(filter(None, (error.what, error.fix)))
    outputs = outcome.outputs if job.cut is None else job.cut.of(outcome.outputs)
    if sum(prod(array.shape) for array in outputs.values()) > _SHOWN:
        return [], "It is too large for a page: the file has it."
    return figures(outcome.program, outputs, of_pictures=takes_pictures(outcome.program)), ""


def _checked(data: bytes) -> receipts.Checked | receipts.CheckedCall:
    """A receipt with its proofs. Raises WrongReceipt."""
    if is_call(data):
        call = SignedCall.from_bytes(data)
        return receipts.CheckedCall(call, tuple(prove_call(call)))
    receipt = Receipt.from_bytes(data)
    return receipts.Checked(receipt, tuple(prove(receipt)))
