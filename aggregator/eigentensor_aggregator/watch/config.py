"""Settings of a watcher: inside an aggregator, or alone."""

from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from eigentensor.chain import Tokens


class Watch(BaseModel):
    """What is watched, and what that may cost."""

    model_config = ConfigDict(frozen=True)

    share: float = Field(0, ge=0, le=1, description="share of all results that is re-executed; 0: nothing is")
    max_operations: int = Field(10**12, gt=0, description="evaluations of instructions that one result may take")
    max_memory: int = Field(8 << 30, gt=0, description="bytes of tensors that one result may take")
    bonds: Tokens = Field("1", description="tokens bound in games at once, at most")
    block_seconds: float = Field(12, gt=0, description="time between blocks")
    gateway: str | None = Field(
        None, description="URL of the gateway that has the blobs; the network's own unless given"
    )
    unsafe_no_sandbox: bool = Field(False, description="run strangers' programs unconfined: do not")


class Settings(BaseSettings, Watch):
    """Those of `eigentensor watch`: flags, then EIGENTENSOR_WATCH_* in the environment, then what stands here."""

    model_config = SettingsConfigDict(env_prefix="EIGENTENSOR_WATCH_", frozen=True)

    share: float = Field(1, ge=0, le=1, description="share of all results that is re-executed")
    network: str | None = Field(
        None, description="name or .json file of the network; EIGENTENSOR_NETWORK, then `local`"
    )
    data: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("eigentensor") / "watch",
        description="folder of the database, the journal and blobs",
    )
    keystore: Path | None = Field(None, description="V3 keystore of the account that challenges; none: only tell")
    password_file: Path | None = Field(None, description="file with the keystore's password")
    poll: float = Field(0.5, gt=0, le=60, description="seconds between questions to the chain")
    max_fee_gwei: float = Field(1000, gt=0, description="the most that a unit of gas may cost")
