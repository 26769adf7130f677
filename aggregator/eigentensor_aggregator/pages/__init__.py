"""Pages of the gateway: what it tells machines in JSON, for people. Read-only, as everything here that is public."""

from eigentensor.web.pages.site import Link, Site
from eigentensor.web.pages.words import Money
from eigentensor_aggregator.pages import health, operators, tasks, words
from eigentensor_aggregator.parts import Parts

#: Each makes the routes of some pages of a site.
ROUTERS = (tasks.router, operators.router, health.router)
LINKS = (
    Link("/", "Market"),
    Link("/tasks", "Tasks"),
    Link("/operators", "Operators"),
    Link("/health", "Health"),
)


def site_of(parts: Parts) -> Site:
    """The site of one market, told as of the newest block that was read."""
    deployment = parts.network.deployment
    money = Money(deployment.token_symbol, deployment.token_decimals)
    return Site("EigenTensor", LINKS, [__name__], money, parts.clock.now, known={"words": words})
