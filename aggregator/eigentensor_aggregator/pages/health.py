"""How the gateway is: what /metrics has, for its operators."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import APIRouter, Request
from prometheus_client.metrics_core import Metric
from starlette.responses import Response

from eigentensor.web.pages.site import Site
from eigentensor_aggregator.parts import Parts


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its name, what it means, and the values of its labels with its number, the largest first."""

    name: str
    meaning: str
    samples: tuple[tuple[str, float], ...]

    @property
    def most(self) -> float:
        """The largest number, or one."""
        return max((value for _, value in self.samples), default=0) or 1.0


def router(parts: Parts, site: Site) -> APIRouter:
    """`/health`."""
    routes = APIRouter()

    @routes.get("/health")
    def read_health(request: Request) -> Response:
        """Whether the chain is followed, and every family of metrics."""
        known = {family.name: family for family in families(parts.metrics.registry.collect())}
        return site.page(request, "health.html", daemon=parts.daemon, known=known, sends=parts.chain is not None)

    return routes


def families(metrics: Iterable[Metric]) -> list[Family]:
    """What a registry has; what is zero in a family with labels is left out."""
    found = []
    for metric in metrics:
        samples = [(" ".join(s.labels.values()), s.value) for s in metric.samples if not s.name.endswith("_created")]
        told = [(label, value) for label, value in samples if value or not label]
        found.append(Family(metric.name, metric.documentation, tuple(sorted(told, key=lambda one: (-one[1], one[0])))))
    return found
