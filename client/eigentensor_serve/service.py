"""What the routes stand on."""

from collections.abc import Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import Request

from eigentensor.store import LocalStore
from eigentensor.task import Domain
from eigentensor.task.objects import Task
from eigentensor_client.orders import Terms
from eigentensor_client.schemas.channels import ChannelFacts
from eigentensor_serve.backend import Backend, Changes
from eigentensor_serve.bodies import TermsBody
from eigentensor_serve.kept import Room, Uploads
from eigentensor_serve.ledger import Ledger, State
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

CLASSES = ("2xx", "3xx", "4xx", "5xx")


class Metrics:
    """A registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("et_serve_requests", "Answered requests", ["status"], registry=self.registry)
        self.seconds = Histogram("et_serve_request_seconds", "Until an answer began", registry=self.registry)
        self.jobs = Gauge("et_serve_jobs", "Tasks of this service", ["state"], registry=self.registry)
        self.spent = Gauge("et_serve_spent_wei", "What they cost, or may still cost", registry=self.registry)
        for status in CLASSES:
            self.requests.labels(status)
        for state in State:
            self.jobs.labels(state.value)


@dataclass(frozen=True, slots=True)
class Service:
    """`max_price` is in wei, `decimals` are those of the market's token; `account` pays, None if nobody does. `symbol`
    is the token's, empty where nothing is paid; `channels` tells those that calls are paid through, if they are."""

    settings: Settings
    backend: Backend
    ledger: Ledger
    changes: Changes
    tokens: Tokens
    store: LocalStore
    uploads: Uploads
    room: Room
    metrics: Metrics
    max_price: int
    decimals: int
    network: str
    account: str | None
    domain: Domain | None = None  # the market that is paid in
    symbol: str = ""
    channels: Callable[[], list[ChannelFacts]] | None = None
    #: Threads that ask: a post takes blocks, and other requests need threads meanwhile.
    asking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))

    def is_well(self) -> bool:
        """Whether the ledger answers and the folders are there. Raises what its driver does."""
        return self.ledger.database.is_well() and self.settings.data.is_dir() and self.store.root.is_dir()

    def terms(self, body: TermsBody) -> Terms:
        """Raises TermsRefused, BindingError."""
        return body.terms(self.max_price, self.decimals)

    def headers(self, task: Task) -> dict[str, str]:
        """What every answer says about the task behind it."""
        headers = {"EigenTensor-Task": task["task"], "EigenTensor-State": task["stage"]}
        if not self.backend.is_local:
            url = f"/v1/tasks/{task['task']}"
            headers |= {"EigenTensor-Receipt": f"{url}/receipt", "EigenTensor-Price": task["price"] or ""}
        return headers


def caller_of(request: Request) -> str:
    """Whose token the request has; empty for the user of this machine, where nobody needs one."""
    caller: str = request.scope.get("eigentensor.caller", "")
    return caller
