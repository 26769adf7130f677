"""Settings of the aggregator and of a watcher: flags, then the environment, then what stands here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from eigentensor.addresses import to_checksum_address
from eigentensor.chain import Tokens
from eigentensor.errors import ConfigError
from eigentensor.pace import between_looks

Keystore = Annotated[str, BeforeValidator(str)]
Address = Annotated[str, AfterValidator(lambda text: text and to_checksum_address(text))]
Model = TypeVar("Model", bound=BaseSettings)


class Watch(BaseModel):
    """What is watched, and what that may cost."""

    model_config = ConfigDict(frozen=True)

    share: float = Field(0, ge=0, le=1, description="share of all results that is re-executed; 0: nothing is")
    max_operations: int = Field(10**12, gt=0, description="evaluations of instructions that one result may take")
    max_memory: int = Field(8 << 30, gt=0, description="bytes of tensors that one result may take")
    operator: Address = Field("", description="whose results are re-executed; everybody's unless given")
    bonds: Tokens = Field("1", description="tokens bound in games at once, at most")
    block_seconds: float = Field(12, gt=0, description="time between blocks")
    gateway: str | None = Field(
        None, description="URL of the gateway that has the blobs; the network's own unless given"
    )
    unsafe_no_sandbox: bool = Field(False, description="run strangers' programs unconfined: do not")


class Settings(BaseSettings):
    """Those of `eigentensor aggregator`; in the environment EIGENTENSOR_AGGREGATOR_*."""

    # EIGENTENSOR_AGGREGATOR_WATCH_SHARE is `watch.share`.
    model_config = SettingsConfigDict(
        env_prefix="EIGENTENSOR_AGGREGATOR_", frozen=True, env_nested_delimiter="_", env_nested_max_split=1
    )

    network: str | None = Field(
        None, description="name or .json file of the network; EIGENTENSOR_NETWORK, then `local`"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8600, ge=0, le=65535, description="port to listen on; 0 chooses a free one")
    data: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("eigentensor") / "aggregator",
        description="folder of the database and of uploads in progress",
    )
    database: str | None = Field(None, description="SQLAlchemy URL; SQLite in the data folder unless given")
    blobs: str | None = Field(
        None, description="folder or fsspec URL (s3://…) of blobs; in the data folder unless given"
    )
    keystore: Keystore | None = Field(
        None, description="V3 keystore, or URL of a key elsewhere, that pays for messages; none: send none"
    )
    password_file: Path | None = Field(None, description="file with the keystore's password")
    poll: float | None = Field(
        None,
        gt=0,
        le=60,
        description="seconds between looks at the chain; an eighth of a block, 0.5 to 2, unless given",
    )
    max_blob: int = Field(16 << 30, gt=0, description="bytes of the largest blob")
    max_stored: int = Field(256 << 30, gt=0, description="bytes of all blobs together")
    peers: str = Field("", description="URLs of other gateways, with commas, that damaged blobs are fetched from")
    scrub_days: float = Field(7, ge=0, description="days between two looks at a blob's bytes; 0: never")
    scrub_rate: int = Field(8 << 20, gt=0, description="bytes a second that are looked at")
    keep_days: float | None = Field(
        None, gt=0, description="days for which blobs are kept that nobody names; for ever unless given"
    )
    max_uploads: int = Field(64, gt=0, description="uploads in progress at once")
    max_declines: int = Field(256, gt=0, description="declines kept for one task")
    max_fee_gwei: float = Field(1000, gt=0, description="the most that a unit of gas may cost")
    public_rpc_url: str | None = Field(None, description="rpc_url told to clients; the network's own if it is local")

    watch: Watch = Field(Watch.model_validate({}), description="results that it re-executes itself, and challenges")

    @property
    def between_looks(self) -> float:
        """Seconds between two looks at the chain."""
        return self.poll or between_looks(self.watch.block_seconds)

    @property
    def database_url(self) -> str:
        """The database, as SQLAlchemy names it."""
        return self.database or f"sqlite:///{self.data / 'aggregator.sqlite'}"

    @property
    def blobs_url(self) -> str:
        """Where complete blobs lie, as fsspec names it."""
        return self.blobs or str(self.data / "blobs")

    @property
    def peer_urls(self) -> list[str]:
        """The other gateways."""
        return [url.strip() for url in self.peers.split(",") if url.strip()]

    @property
    def staging(self) -> Path:
        """The folder of uploads in progress."""
        return self.data / "uploads"


class WatchSettings(BaseSettings, Watch):
    """Those of `eigentensor watch`; in the environment EIGENTENSOR_WATCH_*."""

    model_config = SettingsConfigDict(env_prefix="EIGENTENSOR_WATCH_", frozen=True)

    share: float = Field(1, ge=0, le=1, description="share of all results that is re-executed")
    network: str | None = Field(
        None, description="name or .json file of the network; EIGENTENSOR_NETWORK, then `local`"
    )
    data: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("eigentensor") / "watch",
        description="folder of the database, the journal and blobs",
    )
    keystore: Keystore | None = Field(
        None, description="V3 keystore, or URL of a key elsewhere, of the account that challenges; none: only tell"
    )
    password_file: Path | None = Field(None, description="file with the keystore's password")
    poll: float | None = Field(
        None,
        gt=0,
        le=60,
        description="seconds between looks at the chain; an eighth of a block, 0.5 to 2, unless given",
    )
    max_fee_gwei: float = Field(1000, gt=0, description="the most that a unit of gas may cost")

    @property
    def between_looks(self) -> float:
        """Seconds between two looks at the chain."""
        return self.poll or between_looks(self.block_seconds)


def settings_of(model: type[Model], flags: Mapping[str, Any]) -> Model:
    """The settings; a flag that is None was not given. Raises ConfigError that names each wrong one."""
    try:
        return model(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        prefix = model.model_config["env_prefix"]
        names = ", ".join(f"{prefix}{'_'.join(map(str, e['loc'])).upper()}" for e in error.errors())
        raise ConfigError(f"the settings are wrong: {wrong}", fix=f"Correct the flag, or {names}.") from None
