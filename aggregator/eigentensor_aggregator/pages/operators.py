"""Operators: what they have at stake, how they work, why they decline, what they were convicted for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from eigentensor.economics.pricing import Ask
from eigentensor.errors import ChainError, TaskNotFound
from eigentensor.schemas.network import Lately
from eigentensor.web.pages.site import Site
from eigentensor_aggregator import operators
from eigentensor_aggregator.parts import Account, Parts
from eigentensor_aggregator.queries import OperatorView
from eigentensor_aggregator.recent import RECENT
from eigentensor_aggregator.standings import Standing
from eigentensor_aggregator.tables import OperatorRow

PAGE = 50  #: operators on a page
UNLIMITED = (1 << 96) - 1  #: the largest limit that a contract keeps, for who wants none
_OVER = ("final", "failed", "convicted")


@dataclass(frozen=True, slots=True)
class Shown:
    """An operator as pages show it: amounts in wei, None where nobody knows."""

    row: OperatorRow
    standing: Standing | None
    lately: Lately | None
    ask: Ask | None
    running: int
    done: int
    failed: int
    convicted: int
    paid: int

    @property
    def is_limited(self) -> bool:
        """Whether its signer may put less than everything into collateral."""
        return int(self.row.collateral_cap) < UNLIMITED

    @property
    def alarms(self) -> list[str]:
        """What its owner should look at, in words."""
        return list(_alarms(self))


def router(parts: Parts, site: Site) -> APIRouter:
    """`/operators`, `/operators/{address}`."""
    routes = APIRouter()

    def shown(views: Sequence[OperatorView]) -> list[Shown]:
        try:
            standings = parts.standings.of([view.row.operator for view in views])
        except ChainError:
            standings = {}
        return [of_view(view, standings.get(view.row.operator), parts.asks.of(view.row.operator)) for view in views]

    @routes.get("/operators")
    def list_operators(request: Request, skip: Annotated[int, Query(ge=0, lt=1 << 31)] = 0) -> Response:
        """Those that ever joined, members first; without the first `skip`."""
        views = sorted(parts.queries.operators(), key=lambda view: (not view.row.member, view.row.operator.lower()))
        end = skip + PAGE
        return site.page(
            request,
            "operators.html",
            operators=shown(views[skip:end]),
            first="/operators" if skip else None,
            following=f"/operators?skip={end}" if end < len(views) else None,
        )

    @routes.get("/operators/{operator}")
    def read_operator(request: Request, operator: Account) -> Response:
        """One of them."""
        name = operators.checksum(operator)
        view = parts.queries.operator(name) if name else None
        if view is None:
            raise TaskNotFound(f"no operator {operator} in this market", fix="It may not be in a block yet.")
        return site.page(
            request,
            "operator.html",
            one=shown([view])[0],
            accepted=parts.queries.tasks(executor=name, limit=RECENT),
            declines=parts.queries.declined(view.row.operator),
            convicted=parts.queries.tasks(executor=name, state="convicted", limit=20),
        )

    return routes


def of_view(view: OperatorView, standing: Standing | None, ask: Ask | None) -> Shown:
    """An operator out of what is known of it."""
    tasks = view.executed
    return Shown(
        view.row,
        standing,
        operators.lately(view.accepted),
        ask,
        sum(count for state, count in tasks.items() if state not in _OVER),
        tasks.get("final", 0),
        tasks.get("failed", 0),
        tasks.get("convicted", 0),
        view.paid,
    )


def _alarms(one: Shown) -> list[str]:
    row, standing = one.row, one.standing
    found = {
        "It is no member: it accepts nothing.": not row.member,
        "It has no signer: it can send no message.": row.member and row.signer is None,
        "It has no stake: no task can be secured by it.": row.member and standing is not None and standing.stake == 0,
        "It has no seat: it is never drawn to check others.": row.member and int(row.seats) == 0,
        "It has not said for a minute what it reckons with: its daemon may be down.": row.member and one.ask is None,
        "More of its tasks ended without a result than with one.": one.failed > one.done,
    }
    return [words for words, holds in found.items() if holds]
