"""A program: its calls as a graph, each with its body, what it costs, and how long a dispute about it can last."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from eigentensor.errors import TaskNotFound
from eigentensor.web.pages.site import Site
from eigentensor_aggregator.pages.graphs import WINDOW, graph
from eigentensor_aggregator.pages.program_facts import call_facts, facts, times
from eigentensor_aggregator.parts import Name, Parts, task_name


def router(parts: Parts, site: Site) -> APIRouter:
    """`/programs/{root}`."""
    routes = APIRouter()

    @routes.get("/programs/{root}")
    def read_program(request: Request, root: Name, call: Annotated[int, Query(ge=0)] = 0) -> Response:
        """The page of a program, with one of its calls."""
        name = task_name(root)
        program = parts.programs.of(name)
        if call >= len(program.calls):
            raise TaskNotFound(f"this program has {len(program.calls):,} calls", fix=f"Look at /programs/{name}.")
        whole = facts(program)
        asks = {row.operator: parts.asks.of(row.operator) for row in parts.queries.operator_rows()}
        return site.page(
            request,
            "program.html",
            root=name,
            facts=whole,
            graph=graph(program, call // WINDOW * WINDOW),
            calls=len(program.calls),
            window=WINDOW,
            call=call_facts(program, call, whole.cost.evaluations),
            times=times(program, {operator: ask for operator, ask in asks.items() if ask is not None}),
            planned=parts.plans.known(name),
        )

    @routes.get("/programs/{root}/paths")
    def read_paths(request: Request, root: Name) -> Response:
        """The page of what else computes the same; it takes seconds when it is asked for first."""
        name = task_name(root)
        planned = parts.plans.of(name, parts.programs.of(name))
        return site.page(request, "paths.html", root=name, planned=planned)

    return routes
