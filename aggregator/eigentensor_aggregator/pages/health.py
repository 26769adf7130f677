"""How the gateway is: what /metrics has, for its operators."""

from collections.abc import Iterable

from fastapi import APIRouter, Request
from prometheus_client.metrics_core import Metric
from starlette.responses import Response

from eigentensor.web.pages.site import Site
from eigentensor_aggregator.parts import Parts


def router(parts: Parts, site: Site) -> APIRouter:
    """`/health`."""
    routes = APIRouter()

    @routes.get("/health")
    def read_health(request: Request) -> Response:
        """The page."""
        families = groups(parts.metrics.registry.collect())
        return site.page(request, "health.html", daemon=parts.daemon, families=families, limit=parts.settings)

    return routes


def groups(metrics: Iterable[Metric]) -> list[tuple[str, str, list[tuple[str, float]]]]:
    """Name, meaning and samples of each family; a sample is the values of its labels, and its number."""
    return [
        (
            metric.name,
            metric.documentation,
            [(" ".join(s.labels.values()), s.value) for s in metric.samples if not s.name.endswith("_created")],
        )
        for metric in metrics
    ]
