"""What is to be typed once an operator has joined: whole commands."""

import os
import shlex
from pathlib import Path

from eigentensor.chain.elsewhere import account_in, is_elsewhere, signer_at
from eigentensor.chain.keys import address_in, checked_address, keystore_for, keystore_path, opened
from eigentensor.chain.network import DEFAULT
from eigentensor.errors import ConfigError
from eigentensor_operator.config import Settings
from eigentensor_operator.onboarding import Plan


def signer_of(text: str) -> tuple[str, str | None]:
    """The address that `--signer` means, and where its key is, if that is known here. Raises ConfigError, NotSigned."""
    if is_elsewhere(text):
        return account_in(text) or signer_at(text).address, text
    keystore = keystore_path(Path(text))
    if not keystore.is_file():
        address = checked_address(text, "--signer")
        found = keystore_for(address)
        return address, None if found is None else str(found)
    try:
        if address := address_in(keystore):
            return address, str(keystore)
    except (OSError, ValueError):
        pass
    raise ConfigError(f"--signer: {keystore} does not say whose key it is", fix="Name the signer's address.")


def bench_command(settings: Settings) -> str:
    """The command that measures this machine for the daemon of `run_command`."""
    return shlex.join(["eigentensor", "operator", "bench", "--write", *_place(settings)])


def run_command(settings: Settings, plan: Plan, keystore: str | None) -> str:
    """The command that runs the operator of a plan in a shell of this machine, with all that it needs; `settings` are
    those of `operator up`, `keystore` is the signer's. Words in capitals stand for what only its holder knows."""
    if plan.signer == plan.owner and keystore is None:
        named = settings.keystore or os.environ.get("EIGENTENSOR_KEYSTORE")
        keystore = named if not named or is_elsewhere(named) else str(keystore_path(Path(named)))
    words = ["--address", plan.owner] if plan.signer != plan.owner else []
    words += ["--keystore", keystore or "KEYSTORE_OF_THE_SIGNER"]
    if not is_elsewhere(keystore or ""):
        words += ["--password-file", str(_password_file(settings, keystore) or "PASSWORD_FILE_OF_THE_SIGNER")]
    if 2 * plan.block_seconds < settings.block_seconds:
        words += ["--block-seconds", f"{plan.block_seconds:.2g}"]
    return shlex.join(["eigentensor", "operator", "run", *_place(settings), *words])


def _place(settings: Settings) -> list[str]:
    """Which network and which data folder are meant."""
    network = settings.network or os.environ.get("EIGENTENSOR_NETWORK") or DEFAULT
    folder = [] if settings.data_dir == Settings().data_dir else ["--data-dir", str(settings.data_dir)]
    return ["--network", network, *folder]


def _password_file(settings: Settings, keystore: str | None) -> Path | None:
    """That of the owner, if it opens the signer's keystore too."""
    named = settings.password_file or os.environ.get("EIGENTENSOR_PASSWORD_FILE")
    if keystore is None or not named:
        return None
    try:
        opened(Path(keystore).read_text(), Path(named).read_text().rstrip("\r\n"))
    except (OSError, ValueError):
        return None
    return Path(named)
