"""The settings of `eigentensor serve`: flags, then EIGENTENSOR_SERVE_* in the environment, then what stands here."""

from ipaddress import ip_address
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from eigentensor.chain.units import Tokens, from_wei, to_wei
from eigentensor_serve.kept import serve_folder

_DEPOSITS = 10  # of a day's budget, where nothing else is said


class Settings(BaseSettings):
    """One service's settings."""

    model_config = SettingsConfigDict(env_prefix="EIGENTENSOR_SERVE_", frozen=True)

    network: str | None = Field(
        None, description="name or .json file of the network; EIGENTENSOR_NETWORK, then `local`"
    )
    local: bool = Field(False, description="executes on this machine: no chain, no payment, no check")
    channels: bool = Field(False, description="calls operators through channels: paid calls instead of tasks")
    operators: tuple[str, ...] = Field(
        (), description="with `channels`: URLs, as a JSON list; those in EIGENTENSOR_OPERATORS, then all that are known"
    )
    deposit: Tokens | None = Field(
        None, description="with `channels`: tokens paid into a channel, at first and when spent; a tenth of the budget"
    )
    recheck: str = Field("0%", description="with `channels`: the share of calls that is executed again here")
    response: float = Field(10, gt=0, description="with `channels`: seconds in which an operator responds")
    device: str | None = Field(
        None, description="with `local`: the device that executes; `CPU`, or what stands in for it without clang"
    )
    host: str = Field("127.0.0.1", description="address to listen on; other than loopback only with a token")
    port: int = Field(8700, ge=0, le=65535, description="port to listen on; 0 chooses a free one")
    data: Path = Field(
        default_factory=serve_folder,
        description="folder of tokens, of what was asked and paid, and of apps",
    )
    budget: Tokens = Field("1", description="tokens that a day (UTC) may cost")
    budget_total: Tokens | None = Field(None, description="tokens that all days together may cost")
    max_tasks: int = Field(10_000, gt=0, description="tasks that a day (UTC) may have: no budget counts their gas")
    max_price: Tokens = Field("0.05", description="tokens offered for a task unless its caller says less: the most")
    retries: int = Field(0, ge=0, description="how often a task is posted again whose escrow came back with no result")
    rate: float = Field(100, gt=0, description="requests per second of one caller; for a moment twice as many")
    max_open: int = Field(256, gt=0, description="requests of one caller that may be open at a time")
    max_body: int = Field(64 << 20, gt=0, description="bytes of the largest request")
    max_kept: int = Field(16 << 30, gt=0, description="bytes of a caller's blobs that stay, and of all results")
    min_free: int = Field(1 << 30, ge=0, description="bytes of the disks that stay free: nothing is taken beyond")
    patience: float = Field(600, gt=0, description="seconds that an answer may take; the task goes on after them")
    max_waiting: int = Field(64, gt=0, description="with `local`: executions that may wait for their turn")
    max_evaluations: int = Field(10**12, gt=0, description="with `local`: what one execution may take")
    max_memory: int = Field(8 << 30, gt=0, description="with `local`: bytes that one execution may take")
    max_prefixes: int = Field(2 << 30, ge=0, description="with `local`: bytes of what was left when prompts were read")
    origins: tuple[str, ...] = Field((), description="origins whose pages may call, as a JSON list; none by default")

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        """Raises ValueError."""
        if self.local and self.channels:
            raise ValueError("`local` executes here, `channels` at operators: choose one")
        if self.channels and not 0 < to_wei(self.deposits) <= to_wei(self.budget):
            raise ValueError(f"a deposit of {self.deposits} is nothing, or more than the budget of {self.budget}")
        return self

    @property
    def deposits(self) -> str:
        """Tokens that are paid into a channel."""
        return from_wei(to_wei(self.budget) // _DEPOSITS) if self.deposit is None else self.deposit

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can call."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def tokens(self) -> Path:
        """The file of the tokens."""
        return self.data / "tokens.json"
