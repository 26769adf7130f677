"""Economics to play with: what honesty and cheating bring in a situation, and the terms that make every lie a loss.

The numbers are those of `eigentensor economics`: expectations, curves and terms are the library's.
"""

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from eigentensor.economics import curves, tuning
from eigentensor.economics.agents import AGENTS, Agent
from eigentensor.economics.curves import Curves
from eigentensor.economics.expected import baseline, expected, worst_cheat
from eigentensor.economics.situation import Situation
from eigentensor.economics.terms import WAD, Parameters
from eigentensor.economics.tuning import TunedTerms
from eigentensor.economics.words import read_situation, read_tokens
from eigentensor.web.pages.site import Site
from eigentensor_aggregator.parts import Parts

SHOWN = 8  #: terms, the cheapest ones
POINTS, FRONTIER = 25, 13  #: of a curve, and of one each of whose points is searched for
_Word = Annotated[str, Query(max_length=24)]


@dataclass(frozen=True, slots=True)
class Slider:
    """What one may change: a rate in percent, or an amount of tokens."""

    name: str
    label: str
    unit: str
    least: float
    most: float
    step: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one agent expects of a task, and what its party would by being honest."""

    agent: Agent
    brings: float
    honest: float

    @property
    def pays(self) -> bool:
        """Whether it brings more than honesty."""
        return self.brings > self.honest


@dataclass(frozen=True, slots=True)
class Prospect:
    """A situation, what everybody expects in it, pictures of that, and terms with which the best lie loses what is
    wanted."""

    x: Situation
    outlooks: tuple[Outlook, ...]
    worst: tuple[Agent, float]
    pictures: tuple[Curves, ...]
    terms: tuple[TunedTerms, ...]

    @property
    def is_safe(self) -> bool:
        """Whether every lie is a loss."""
        return self.worst[1] < 0


def router(parts: Parts, site: Site) -> APIRouter:
    """`/economics`."""
    routes = APIRouter()
    parameters = parts.network.deployment.parameters
    known, computing = lru_cache(maxsize=32)(prospect), threading.Lock()

    @routes.get("/economics")
    def read_economics(
        request: Request,
        price: _Word = "1",
        cost: _Word = "0.6",
        gain: _Word = "1",
        value_at_risk: _Word = "1",
        check: _Word = "20",
        verifiers: Annotated[int, Query(ge=1, le=tuning.MOST_VERIFIERS)] = 1,
        share: _Word = "33",
        diligence: _Word = "100",
        watch: _Word = "0",
        own_stake: Annotated[bool, Query()] = False,
        stake: _Word = "10",
        security: _Word = "1",
    ) -> Response:
        """The page of a situation; rates are in percent."""
        x = read_situation(
            parameters,
            price=price,
            cost=cost,
            gain=gain,
            value_at_risk=value_at_risk,
            check=f"{check}%",
            verifiers=verifiers,
            share=f"{share}%",
            diligence=f"{diligence}%",
            watch=f"{watch}%",
            gas_price="1",
            stake=stake if own_stake else None,
        )
        with computing:  # one after the other: who plays with it does not keep the gateway from its work
            shown = known(x, read_tokens(security))
        values = {
            "price": price, "cost": cost, "gain": gain, "value_at_risk": value_at_risk, "check": check,
            "verifiers": str(verifiers), "share": share, "diligence": diligence, "watch": watch, "stake": stake,
            "security": security,
        }  # fmt: skip
        return site.page(
            request,
            "economics.html",
            sliders=sliders_of(parameters),
            values=values,
            own_stake=own_stake,
            shown=shown,
            rows=[rows_of(picture) for picture in shown.pictures],
            security=security,
        )

    return routes


def prospect(x: Situation, security: float) -> Prospect:
    """Everything about a situation; terms are such that the best lie loses `security` tokens."""
    outlooks = (Outlook(agent, expected(x, agent), baseline(x, agent)) for agent in AGENTS.values())
    pictures = (
        curves.payoffs_by_rate(x, POINTS),
        curves.payoffs_by_stake(x, POINTS),
        curves.stake_frontier(x, security, FRONTIER),
        curves.share_frontier(x, FRONTIER),
    )
    terms = tuning.tune(x, security, exec_=x.parameters.max_exec, lock=tuning.Lock(), rates=tuning.rates(x.parameters))
    return Prospect(x, tuple(outlooks), worst_cheat(x), pictures, tuple(terms[:SHOWN]))


def rows_of(picture: Curves) -> list[tuple[float | None, ...]]:
    """A picture as rows of a table, to four digits."""
    columns = (picture.at, *(curve.values for curve in picture.curves))
    return [
        tuple(None if value is None else float(f"{value:.4g}") for value in row) for row in zip(*columns, strict=True)
    ]


def sliders_of(p: Parameters) -> list[Slider]:
    """What a market lets one choose."""
    return [
        Slider("price", "Price P", "tokens", 0.05, 10, 0.05),
        Slider("cost", "Cost of executing C", "tokens", 0, 10, 0.05),
        Slider("gain", "Gain of a lie", "tokens", 0, 50, 0.5),
        Slider("value_at_risk", "Value at risk X", "tokens", 0, 50, 0.5),
        Slider("check", "Check rate α", "%", 100 * p.check_floor / WAD, 100, 1),
        Slider("verifiers", "Verifiers n", "", 1, tuning.MOST_VERIFIERS, 1),
        Slider("share", "Coalition's share of seats r", "%", 0, 99, 1),
        Slider("diligence", "Diligence of the others", "%", 0, 100, 1),
        Slider("watch", "Somebody watches", "%", 0, 100, 1),
        Slider("security", "What a lie has to lose", "tokens", 0, 50, 0.5),
    ]
