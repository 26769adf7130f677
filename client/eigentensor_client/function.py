"""`eigentensor.function`: the decorator that lets a function of Tensors be computed by somebody else's device."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, ParamSpec, Self, TypeVar

from eigentensor.chain import Network, to_wei
from eigentensor.errors import BindingError
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, check_stage, read_rate, terms_for
from eigentensor_client.remote import Function
from eigentensor_client.verbs.options import Offer
from eigentensor_client.verbs.work import read_terms

P = ParamSpec("P")
R = TypeVar("R")

#: By process too: what a process has opened is not for those that it forks.
_clients: dict[tuple[int, Network, str | None], Client] = {}
_lock = Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@dataclass(frozen=True, kw_only=True)
class function(Offer):  # noqa: N801
    """A decorator: `@function(max_price="0.05", wait="checked")`. The options are those of `eigentensor run`.

    Amounts are decimal strings in the market's token; `max_price` is the most that the executor is paid, enforced on
    chain. `wait` is the stage after which a call returns: `checked` asks for a check with certainty. NotYet comes after
    `timeout` seconds. `network` is a name or a file, by default what the environment names; a keystore too is named
    there. `progress` shows bars in a terminal.

    Raises BindingError, ConfigError for values that no option has.
    """

    wait: str = "final"
    timeout: float | None = None
    network: str | None = None
    progress: bool = True

    def __new__(cls, *given: Any, **options: Any) -> Self:
        if given:
            raise BindingError("the options of function have names", fix="Write @function(…) above it, with brackets.")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in ("max_price", "min_price", "check_fee", "value_at_risk"):
            if not isinstance(value := getattr(self, name), str | None):
                raise BindingError(f"{name} is {value!r}, no text", fix=f'Write {name}="{value}".')
            if to_wei(value or "0") < 0:
                raise BindingError(f"{name} is {value}", fix="Write an amount that is not negative.")
        check_stage(self.wait)
        if not isinstance(self.check, str):
            raise BindingError(f"check is {self.check!r}, no text", fix='Write it as "20%" or as "0.2".')
        read_rate(self.check)
        least = {"ramp": 0, "verifiers": 1, "exec": 1, "accept_within": 1}
        for name, first in least.items():
            value = getattr(self, name)
            if (value is not None or name != "exec") and (type(value) is not int or value < first):
                raise BindingError(f"{name} is {value!r}", fix=f"Write a whole number, {first} or more.")
        if self.timeout is not None and (not isinstance(self.timeout, int | float) or not self.timeout >= 0):
            raise BindingError(f"timeout is {self.timeout!r}", fix="Write seconds, or None.")
        if not isinstance(self.network, str | None):
            raise BindingError(f"network is {self.network!r}", fix="Write its name, or the path of its file.")

    def __call__(self, wrapped: Callable[P, R]) -> Function[P, R]:
        return Function(wrapped, self)

    def terms(self, client: Client) -> Terms:
        """With which the stage can be waited for."""
        return terms_for(self.wait, read_terms(client.network, self))

    def client(self) -> Client:
        """This process's client of the network and the account. Raises ConfigError."""
        with _lock:
            network = Network.load(self.network)
            key = os.getpid(), network, os.environ.get("EIGENTENSOR_KEYSTORE")
            if key not in _clients:
                _clients[key] = Client(network)
            return _clients[key]


@atexit.register
def _close() -> None:
    """Closes what this process has opened."""
    for (process, *_), client in _clients.items():
        if process == os.getpid():
            client.close()
