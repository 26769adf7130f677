"""What the routes stand on."""

from dataclasses import dataclass, field

from anyio import CapacityLimiter
from starlette.requests import Request

from eigentensor.schemas.tasks import Task
from eigentensor.store import LocalStore
from eigentensor.task import Domain
from eigentensor_client.orders import Terms
from eigentensor_serve.backend import Backend
from eigentensor_serve.bodies import TermsBody
from eigentensor_serve.changes import Changes
from eigentensor_serve.kept import Given, Room
from eigentensor_serve.ledger import Book
from eigentensor_serve.metrics import Metrics
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Service:
    """`max_price` is in wei, `decimals` are those of the market's token; `account` pays, None if nobody does."""

    settings: Settings
    backend: Backend
    book: Book
    changes: Changes
    tokens: Tokens
    store: LocalStore
    given: Given
    room: Room
    metrics: Metrics
    max_price: int
    decimals: int
    network: str
    account: str | None
    domain: Domain | None = None  # the market that is paid in
    #: Threads that ask: a post takes blocks, and other requests need threads meanwhile.
    asking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(16))

    def is_well(self) -> bool:
        """Whether the ledger answers and the folders are there. Raises what its driver does."""
        return self.book.database.is_well() and self.settings.data.is_dir() and self.store.root.is_dir()

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
