"""The aggregator's settings: flags, then EIGENTENSOR_AGGREGATOR_* in the environment, then what stands here."""

from pathlib import Path

import platformdirs
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from eigentensor_aggregator.watch.config import Watch


class Settings(BaseSettings):
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
    keystore: Path | None = Field(
        None, description="V3 keystore of the account that pays for messages; none: send none"
    )
    password_file: Path | None = Field(None, description="file with the keystore's password")
    poll: float = Field(0.5, gt=0, le=60, description="seconds between questions to the chain")
    max_blob: int = Field(16 << 30, gt=0, description="bytes of the largest blob")
    max_stored: int = Field(256 << 30, gt=0, description="bytes of all blobs together")
    max_uploads: int = Field(64, gt=0, description="uploads in progress at once")
    max_declines: int = Field(256, gt=0, description="declines kept for one task")
    max_fee_gwei: float = Field(1000, gt=0, description="the most that a unit of gas may cost")
    public_rpc_url: str | None = Field(None, description="rpc_url told to clients; the network's own if it is local")

    watch: Watch = Field(Watch.model_validate({}), description="results that it re-executes itself, and challenges")

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.data / 'aggregator.sqlite'}"

    @property
    def blobs_url(self) -> str:
        return self.blobs or str(self.data / "blobs")

    @property
    def staging(self) -> Path:
        return self.data / "uploads"
