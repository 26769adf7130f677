"""Settings of an operator: flags first, then EIGENTENSOR_OPERATOR_* variables, then its file, then these defaults."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from eigentensor import economics, merkle
from eigentensor.addresses import to_checksum_address
from eigentensor.chain import Network, Tokens, load_account, to_wei
from eigentensor.chain.keys import kept_key
from eigentensor.economics import LEAST_EXEC, LEAST_RESERVE, Parameters
from eigentensor.economics.pricing import Pricing
from eigentensor.errors import ConfigError
from eigentensor.pace import between_looks
from eigentensor.task.signatures import Key, Signer
from eigentensor_operator.policy import Policy


def _root(text: str) -> str:
    if text and not re.fullmatch("(0x)?[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is not a root: 64 hex digits")
    return text.removeprefix("0x")


def _listen(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if text and not (host and colon and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return text


Address = Annotated[str, AfterValidator(lambda text: text and to_checksum_address(text))]
Root = Annotated[str, AfterValidator(_root)]
_PREFIX = "EIGENTENSOR_OPERATOR_"
_FILE = "operator.toml"


def read_file(folder: Path) -> dict[str, object]:
    """The settings that a data folder keeps: name = value. Raises ConfigError."""
    try:
        return tomllib.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        fix = "Choose another folder with --data-dir."
        raise ConfigError(f"cannot read {folder / _FILE}: {error.strerror}", fix=fix) from None
    except ValueError as error:
        fix = "Each line is a name and its value, as `eigentensor operator bench --write` writes it."
        raise ConfigError(f"{folder / _FILE} is no file of settings: {error}", fix=fix) from None


def write_file(folder: Path, texts: Mapping[str, str]) -> None:
    """Keeps settings that are texts, atomically; other lines stay as they are."""
    lines = (folder / _FILE).read_text().splitlines() if (folder / _FILE).exists() else []
    lines = [line for line in lines if line.partition("=")[0].strip() not in texts]
    lines = [*(f'{name} = "{text}"' for name, text in texts.items()), *lines]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = folder / f"{_FILE}.{os.getpid()}.tmp"
    temporary.write_text("".join(f"{line}\n" for line in lines))
    temporary.replace(folder / _FILE)


class CallProgram(BaseModel):
    """A program that is executed for calls, a table `[[call_programs]]` of operator.toml. `price` is in tokens, for
    each of up to `repeat` repeats; empty: CALL_PRICE."""

    model_config = ConfigDict(extra="forbid")

    program: Annotated[str, Field(min_length=64), AfterValidator(_root)]
    weights: Root = ""
    price: Tokens | Literal[""] = ""
    repeat: int = Field(1, gt=0, lt=1 << 32)


class Settings(BaseSettings):
    """Those of one daemon, and of the commands about it."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid")

    network: str | None = None
    keystore: Annotated[str, BeforeValidator(str)] | None = None
    password_file: Path | None = None
    address: Address = ""
    data_dir: Path = Field(default_factory=lambda: platformdirs.user_data_path("eigentensor") / "operator")
    device: str = "CPU"
    cluster_token: Path | None = None
    unsafe_no_sandbox: bool = False

    min_price: Tokens = "0"
    price_per_hour: Tokens = "0.001"
    margin: Tokens = "0.1"
    interest: Tokens = "0.03"
    disputed: Tokens = "0.01"
    coin_price: Tokens = "1"
    max_operations: int = Field(10**15, gt=0)
    max_memory: int = Field(8 << 30, gt=0)
    max_compile: float = Field(300, gt=0)
    trial: float = Field(2, ge=0)
    capacity: int = Field(4, gt=0)
    operations_per_second: float = Field(1e9, gt=0, allow_inf_nan=False)
    bytes_per_second: float = Field(1e8, gt=0, allow_inf_nan=False)
    startup_seconds: float = Field(5, ge=0, allow_inf_nan=False)
    reserve: int | None = Field(None, ge=LEAST_RESERVE)
    patience: int = Field(2, ge=0)
    verify: bool = True

    calls: Annotated[str, AfterValidator(_listen)] = ""
    calls_url: str = Field("", max_length=256)
    call_programs: tuple[CallProgram, ...] = ()
    call_price: Tokens = "0.0001"
    call_most: Tokens = "1"
    call_risk_each: Tokens = "0"
    call_risk_all: Tokens = "0"
    call_check_rate: Tokens = "0.05"
    call_verifiers: int = Field(1, gt=0)
    call_exec: int | None = Field(None, gt=0)
    call_epoch: int | None = Field(None, gt=0, lt=1 << 32)
    call_seconds: float = Field(10, gt=0, allow_inf_nan=False)
    call_body: int = Field(16 << 20, gt=0)
    calls_waiting: int = Field(256, gt=0)
    calls_each: int = Field(32, gt=0)

    block_seconds: float = Field(12, gt=0, allow_inf_nan=False)
    poll_seconds: float | None = Field(None, gt=0)
    max_fee_gwei: float = Field(1000, gt=0)
    host: str = "127.0.0.1"
    port: int = Field(9091, ge=0, le=65535)
    log_format: Literal["console", "json"] = "console"

    @classmethod
    def load(cls, **flags: object) -> Self:
        """Flags that are None count as not given. Raises ConfigError, which names what is wrong."""
        named = {name: value for name, value in flags.items() if value is not None}
        try:
            folder = cls(**named).data_dir  # type: ignore[arg-type]
            kept = {n: value for n, value in read_file(folder).items() if f"{_PREFIX}{n.upper()}" not in os.environ}
            return cls(**kept | named)  # type: ignore[arg-type]
        except SettingsError as error:
            raise ConfigError(f"a setting is no JSON: {error}", fix="Write lists into operator.toml.") from None
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "settings"
            raise ConfigError(
                f"{name}: {first['msg']}", fix=f"Set --{name.replace('_', '-')} or EIGENTENSOR_OPERATOR_{name.upper()}."
            ) from None

    @property
    def poll(self) -> float:
        """Seconds between two looks at the chain."""
        return self.poll_seconds or between_looks(self.block_seconds)

    @property
    def journal(self) -> Path:
        """The file of the journal."""
        return self.data_dir / "operator.sqlite"

    @property
    def batches(self) -> Path:
        """The file of the journal of batches of paid calls."""
        return self.data_dir / "batches.sqlite"

    @property
    def call_ledger(self) -> Path:
        """The file of what must not be forgotten of paid calls."""
        return self.data_dir / "calls.sqlite"

    @property
    def calls_address(self) -> tuple[str, int]:
        """Where paid calls are served; only where `calls` is set."""
        host, _, port = self.calls.rpartition(":")
        return host, int(port)

    @property
    def drain_file(self) -> Path:
        """While this file exists, nothing more is accepted."""
        return self.data_dir / "draining"

    def account(self) -> Signer:
        """The hot signer: of the keystore, or elsewhere. Raises ConfigError, NotSigned."""
        return load_account(self.keystore, self.password_file)

    def call_signer(self, account: Signer) -> Signer:
        """Who signs deals and receipts, several a second: the hot signer, or where its key is elsewhere one of the data
        folder, which can send nothing that costs. Raises ConfigError."""
        return account if isinstance(account, Key) else kept_key(self.data_dir / "calls.key")

    def pricing(self, decimals: int) -> Pricing:
        """Of a market whose token has so many decimals."""
        return Pricing(
            min_price=to_wei(self.min_price, decimals),
            price_per_hour=to_wei(self.price_per_hour, decimals),
            margin=to_wei(self.margin),
            interest=to_wei(self.interest),
            disputed=to_wei(self.disputed),
            coin_price=to_wei(self.coin_price, decimals),
        )

    def reserve_in(self, p: Parameters) -> int:
        """Blocks of `exec` that are kept for transactions in a market. Raises ConfigError where none is left to execute
        in: every task would be declined."""
        if p.max_exec < LEAST_EXEC:
            raise ConfigError(
                f"this market gives {p.max_exec} blocks to an execution, and {LEAST_RESERVE} are for transactions",
                fix="Nobody can execute here: choose another market.",
            )
        kept = economics.reserve(p) if self.reserve is None else self.reserve
        if kept >= p.max_exec:
            raise ConfigError(
                f"of the {p.max_exec} blocks that this market gives to an execution, {kept} are kept for transactions",
                fix=f"Set {_PREFIX}RESERVE to at most {p.max_exec - 1}, or leave it out.",
            )
        return kept

    def policy(self, operator: str, network: Network) -> Policy:
        """Raises what `reserve_in` raises."""
        return Policy(
            operator=operator,
            alone=merkle.operators_root([bytes.fromhex(operator[2:])]),
            parameters=network.deployment.parameters,
            domain=network.deployment.domain,
            pricing=self.pricing(network.deployment.token_decimals),
            max_operations=self.max_operations,
            max_memory=self.max_memory,
            max_compile=self.max_compile,
            trial=self.trial,
            capacity=self.capacity,
            operations_per_second=self.operations_per_second,
            bytes_per_second=self.bytes_per_second,
            startup_seconds=self.startup_seconds,
            block_seconds=self.block_seconds,
            reserve=self.reserve_in(network.deployment.parameters),
            patience=self.patience,
            verify=self.verify,
        )
