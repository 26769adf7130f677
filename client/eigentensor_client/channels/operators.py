"""Operators that calls go to, each through a channel of its own: the first one that takes a call, and the next where
one refuses or does not respond in time. `eigentensor.channels(…)` names them."""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import httpx

from eigentensor.chain import Network, to_wei
from eigentensor.channel.calls import ProgramQuote
from eigentensor.economics import WAD
from eigentensor.economics.words import read_rate
from eigentensor.errors import (
    BindingError,
    CallRefused,
    ChainError,
    ChannelBusy,
    ChannelError,
    ConfigError,
    EigenTensorError,
    StoreError,
    TaskError,
)
from eigentensor.program import Program
from eigentensor.store.queries import Queries
from eigentensor.task import NONE
from eigentensor_client.channels import opening
from eigentensor_client.channels.caller import Keep, kept_nowhere
from eigentensor_client.channels.channel import CallResult, Channel, Policy
from eigentensor_client.channels.endpoint import PATIENCE, Endpoint
from eigentensor_client.channels.ledger import Ledger, Stage
from eigentensor_client.channels.opening import Wish
from eigentensor_client.client import Client
from eigentensor_client.transfer import Report, silent

#: Names the endpoints of operators, separated by blanks, where a program names none.
OPERATORS = "EIGENTENSOR_OPERATORS"
_DEPOSIT = "0.1"
_QUOTES = 5.0  # seconds in which an operator says what it asks


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What calls through channels may cost, in tokens, and how they are watched. Raises BindingError."""

    deposit: str = _DEPOSIT
    """What is paid into a channel that is opened."""
    most: str | None = None
    """The most that the calls of one batch cost; None: the deposit that a channel is opened with."""
    max_price: str | None = None
    """The most that one call costs."""
    value_at_risk: str = "0"
    """What wrong results could gain the operator in one batch beyond their prices."""
    recheck: str = "0%"
    """The share of calls that is executed again here."""
    timeout: float = PATIENCE
    """Seconds in which an operator responds; the next one is called then."""
    opening: float | None = None
    """Seconds in which a channel is opened, blocks that it waits for included; None: those of `timeout`."""

    def __post_init__(self) -> None:
        for name in ("deposit", "most", "max_price", "value_at_risk"):
            value = getattr(self, name)
            if not isinstance(value, str | None) or to_wei(value or "0") < 0:
                raise BindingError(f"{name} is {value!r}", fix='Write an amount of tokens as text: "0.5".')
        read_rate(self.recheck)
        if not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise BindingError(f"timeout is {self.timeout!r}", fix="Write seconds.")

    @property
    def policy(self) -> Policy:
        """How channels are watched."""
        return Policy(read_rate(self.recheck) / WAD)

    def wish(self, client: Client, program: bytes, repeat: int) -> Wish:
        """What a channel is to be opened for."""
        decimals = client.network.deployment.token_decimals
        price, most = (None if one is None else to_wei(one, decimals) for one in (self.max_price, self.most))
        risk = to_wei(self.value_at_risk, decimals)
        return Wish(to_wei(self.deposit, decimals), price, (program,), most, value_at_risk=risk, repeat=repeat)


def announced(gateway: Queries, operator: str = "") -> tuple[str, ...]:
    """Where operators say at a gateway that they take calls; one alone, if its address is named. Raises StoreError."""
    entries = gateway.operators().get("operators")
    urls = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and str(entry.get("operator")).lower().endswith(operator.lower()):
            asks = entry.get("asks")
            url = asks.get("calls") if isinstance(asks, dict) else None
            if isinstance(url, str) and url.startswith(("http://", "https://")):
                urls.append(url)
    return tuple(urls)


class Operators:
    """Safe for several threads. Channels are opened when they are first called through, taken up where this user has
    one at the operator that nobody uses, and let go by `close`: on chain they stay open."""

    def __init__(
        self, urls: tuple[str, ...], terms: Terms, network: str | None = None, client: Client | None = None,
        ledger: Ledger | None = None, transports: Mapping[str, httpx.BaseTransport] | None = None,
    ) -> None:  # fmt: skip
        """`urls` are of their endpoints; where there are none those in $EIGENTENSOR_OPERATORS, or all that the gateway
        knows. Asks nothing yet."""
        self.urls = tuple(url.rstrip("/") for url in urls or os.environ.get(OPERATORS, "").split())
        self.terms, self._network, self._own = terms, network, client is None
        self._client, self._ledger = client, ledger
        self._transports = transports or {}
        self.keep: Keep = kept_nowhere  #: takes the outputs of each call; set before the first one
        self._channels: dict[str, Channel] = {}
        self._others: list[Channel] = []  # taken up beside those that are called through
        self._lock = threading.RLock()
        self._turns: dict[str, threading.RLock] = {}  # at each operator one channel is opened at a time

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets other processes have the channels."""
        with self._lock:
            for channel in (*self._channels.values(), *self._others):
                channel.close()
            self._channels.clear()
            self._others.clear()
            if self._own and self._client is not None:
                self._client.close()
                self._client = None

    @property
    def client(self) -> Client:
        """Who pays. Raises ConfigError."""
        with self._lock:
            self._client = self._client or Client(Network.load(self._network))
            return self._client

    def call(
        self, program: Program, root: bytes, inputs: Mapping[str, Any], *, weights: bytes = NONE,
        states: bytes | Mapping[str, Any] = NONE, variables: Mapping[str, int] | None = None, repeat: int = 1,
        only: str | None = None, report: Report = silent,
    ) -> CallResult:  # fmt: skip
        """As `Channel.call`, of the first operator that gives a result. `only` is the URL of one that keeps the states.

        Raises what the last one raised, with what the others said in its notes; ConfigError where no operator is named.
        """
        urls = self.named() if only is None else (only,)
        failures: list[EigenTensorError] = []
        for url in urls:
            try:
                channel = self.at(url, root, repeat, report)
                return channel.call(
                    program, root, inputs, weights=weights, states=states, variables=variables, repeat=repeat,
                    max_price=self._most(), seconds=self.terms.timeout,
                )  # fmt: skip
            except (ChannelError, TaskError, ChainError) as error:
                failures.append(error)
        *others, last = failures
        for url, other in zip(urls, others, strict=False):
            last.add_note(f"{url}: {other.what}")
        raise last

    def quoted(
        self, url: str, program: bytes, repeat: int = 1, most: int | None = None
    ) -> tuple[ProgramQuote, int]:  # fmt: skip
        """What an operator asks for a program, and wei of opening the channel that calls need: 0 where there is one.
        Nothing is paid.

        Raises CallRefused, TermsRefused, ChannelSpent where a call with so many repeats could not be made on these
        terms, or costs more than `most` wei; NoResponse, TaskError.
        """
        if (channel := self._taken(url)) is not None:
            return channel.quoted(program, repeat, most), 0
        wish = replace(self.terms.wish(self.client, program, repeat), max_price=most)
        network = self.client.network
        with Endpoint(url, self._transports.get(url), min(_QUOTES, self.terms.timeout)) as endpoint:
            quote = opening.choose(endpoint.quotes(), wish, network.deployment.channels_domain, self.client.amount)
        return opening.quoted(quote, program, repeat), network.deployment.parameters.g_chunk

    def at(self, url: str, program: bytes, repeat: int, report: Report = silent) -> Channel:
        """The channel at an operator; it is opened where there is none. Raises as `Channel.open`."""
        with self._turn(url):
            taken = self._taken(url) or Channel.open(
                self.client, url, self.terms.wish(self.client, program, repeat), policy=self.terms.policy,
                ledger=self.ledger, report=report, seconds=self.terms.opening or self.terms.timeout,
                transport=self._transports.get(url), keep=self.keep,
            )  # fmt: skip
            self._channels[url] = taken
            return taken

    def take_up(self, name: bytes) -> Channel:
        """A channel by its name, whichever operator has it. Raises TaskNotFound, ChannelBusy, ConfigError."""
        url = self.ledger.account(name.hex()).agreement.url
        with self._turn(url):
            known = self._channels.get(url)
            for channel in (*([known] if known else []), *self._others):
                if channel.name == name.hex():
                    return channel
            taken = self._take(name)
            if known is None:
                self._channels[url] = taken
            else:
                self._others.append(taken)
            return taken

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Those that this process has."""
        return tuple(self._channels.values())

    @property
    def ledger(self) -> Ledger:
        """What was signed. Raises ConfigError."""
        with self._lock:
            self._ledger = self._ledger or Ledger()
            return self._ledger

    def channel(self, url: str) -> Channel:
        """The channel at an operator, which was called through. Raises CallRefused before."""
        with self._lock:
            if url not in self._channels:
                raise CallRefused(f"there is no channel at {url} yet", fix="Call through it first.")
            return self._channels[url]

    def named(self) -> tuple[str, ...]:
        """The URLs of those that were named, else of all that say at the gateway where they take calls. Raises
        ConfigError where there are none."""
        if not self.urls:
            with suppress(StoreError):
                self.urls = announced(self.client.gateway)
        if not self.urls:
            raise ConfigError(
                "no operator is named that takes calls, and none says at the gateway that it does",
                fix=f"Name its URL: et.channels(URL), or in ${OPERATORS}.",
            )
        return self.urls

    def _most(self) -> int | None:
        most = self.terms.max_price
        return None if most is None else to_wei(most, self.client.network.deployment.token_decimals)

    def _turn(self, url: str) -> threading.RLock:
        with self._lock:
            return self._turns.setdefault(url, threading.RLock())

    def _taken(self, url: str) -> Channel | None:
        """The channel at this operator that calls go through: this process has it now. None: there is none."""
        known = self._channels.get(url)
        if known is not None and known.account.stage is Stage.OPEN:
            return known
        with self._turn(url):
            known = self._channels.get(url)
            if known is not None and known.account.stage is not Stage.OPEN:
                self._channels.pop(url).close()
                known = None
            if known is None and (known := self._known(url)) is not None:
                self._channels[url] = known
            return known

    def _known(self, url: str) -> Channel | None:
        """A channel at this operator that is open, and that no other process has."""
        for account in self.ledger.accounts(self.client.network.deployment.channels_domain):
            deal = account.agreement.deal
            is_ours = (account.agreement.url, deal.client.lower()) == (url.rstrip("/"), self.client.address.lower())
            if is_ours and account.stage in (Stage.AGREED, Stage.OPEN):
                with suppress(ChannelBusy, ConfigError):
                    return self._take(account.agreement.channel)
        return None

    def _take(self, name: bytes) -> Channel:
        transport = self._transports.get(self.ledger.account(name.hex()).agreement.url)
        return Channel.take_up(
            self.client, name.hex(), policy=self.terms.policy, ledger=self.ledger, transport=transport, keep=self.keep
        )  # fmt: skip
