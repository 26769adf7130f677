"""Accounts: keys in V3 keystores, files that only their owner can read, opened by a password from a file; and keys that
are elsewhere."""

import json
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path

import platformdirs

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.chain.elsewhere import account_in, is_elsewhere, signer_at
from eigentensor.chain.network import Network
from eigentensor.errors import ConfigError
from eigentensor.task.signatures import Key, Signer

#: Anvil's published development keys. Everybody has them: they are worth nothing, and are refused on every other chain.
ANVIL_KEYS = (
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
)
#: Their addresses.
ANVIL_ADDRESSES = (
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
    "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
    "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
    "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f",
    "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")  # shorter than a key
_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}")


def anvil_account(index: int) -> Key:
    """One of the ten accounts that a local anvil chain funds."""
    return Key(bytes.fromhex(ANVIL_KEYS[index][2:]))


def load_account(keystore: Path | str | None = None, password_file: Path | None = None) -> Signer:
    """Opens a keystore; without arguments those of $EIGENTENSOR_KEYSTORE and $EIGENTENSOR_PASSWORD_FILE. In place of a
    keystore a URL may name a key that is elsewhere (`eigentensor.chain.elsewhere`), which needs no password.

    Raises ConfigError if either is missing, unreadable or wrong, NotSigned where a key elsewhere has to be asked.
    """
    named = str(keystore or _from_environment("EIGENTENSOR_KEYSTORE"))
    if is_elsewhere(named):
        return signer_at(named)
    keystore = keystore_path(Path(named))
    password_file = password_file or Path(_from_environment("EIGENTENSOR_PASSWORD_FILE"))
    try:
        account = opened(keystore.read_text(), password_file.read_text().rstrip("\r\n"))
    except OSError as error:
        fix = "Name a keystore and the file with its password."
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}", fix=fix, topic="keystore") from None
    except ValueError as error:
        raise ConfigError(
            f"{keystore} cannot be opened with the password in {password_file}: {error}",
            fix="Check that both belong together, and that the first is a V3 keystore.",
        ) from None
    if (claimed := address_in(keystore)) not in ("", account.address):
        raise ConfigError(
            f"{keystore} says that it has the key of {claimed}, and has that of {account.address}",
            fix="Somebody changed it: find out who before you use it.",
            topic="keystore",
        )
    return account


def opened(keystore: str, password: str) -> Key:
    """The account of a keystore's text. Raises ValueError if it is none, or of another password."""
    from eigentensor.chain.keystore import decrypted

    return decrypted(keystore, password)


def new_account() -> Key:
    """An account that nobody had before."""
    return Key(secrets.token_bytes(32))


def account_of(key: str) -> Key:
    """The account of a private key in hex. Raises ConfigError, which does not repeat what was no key."""
    if _KEY.fullmatch(key):
        try:
            return Key(bytes.fromhex(key.removeprefix("0x")))
        except ValueError:  # zero, or beyond the curve's order
            pass
    raise ConfigError("this is no private key", fix="A key is 64 hex digits, with or without 0x, and nothing else.")


def refuse_keys(*words: str) -> None:
    """Raises ConfigError if one of a command's words is a private key, which it does not repeat."""
    if any(map(_KEY.fullmatch, words)):
        raise ConfigError(
            "a private key is no argument: shells and process lists show those to others",
            fix="Name the keystore, and give the key in a file or on stdin.",
        )


def checked_address(text: str | None, flag: str) -> str:
    """An address that a flag gives, "" where it gives none. Raises ConfigError."""
    if text is None:
        return ""
    if not is_address(text):
        raise ConfigError(f"{flag}: {text!r} is not an address", fix="An address is 0x and 40 hex digits.")
    return to_checksum_address(text)


def keystore_folder() -> Path:
    """Where this user's keystores lie that have names."""
    return platformdirs.user_data_path("eigentensor") / "keystores"


def keystore_path(keystore: Path) -> Path:
    """The file that is meant: this one, or where there is none, the one of that name in the folder of keystores."""
    return _named(keystore.name) if _is_name(keystore) and not keystore.is_file() else keystore


def keystore_for(address: str) -> Path | None:
    """The keystore of an account that has a name here; None: none says that it is the account's."""
    for path in sorted(keystore_folder().glob("*.json")):
        with suppress(OSError, ValueError):
            if address_in(path) == address:
                return path
    return None


def address_of(named: str) -> str:
    """Whose key a setting names, a keystore or one that is elsewhere, without opening it; "" where it does not say.
    Raises what `address_in` raises."""
    return account_in(named) if is_elsewhere(named) else address_in(keystore_path(Path(named)))


def kept_key(path: Path) -> Key:
    """The key of a file that only its owner can read, made if there is none. Raises ConfigError."""
    try:
        if not path.exists():
            with suppress(FileExistsError):
                _write(path, new_account().secret.hex())
        return Key(bytes.fromhex(path.read_text()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the key in {path} cannot be had: {error}", fix="Bring it back, or remove it.") from None


def address_in(keystore: Path) -> str:
    """Whose key a keystore says it has, without its password; "" where it does not say. Raises OSError; ValueError for
    what is no keystore."""
    try:
        content = json.loads(keystore.read_text())
        address = content.get("address") if content["crypto"] else ""
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no V3 keystore: {error!r}") from None
    return to_checksum_address(address) if isinstance(address, str) and is_address(address) else ""


def new_keystore_path(keystore: str) -> Path:
    """Where a new keystore is to lie: a name is one of the folder, a path a file. Raises ConfigError if it exists."""
    path = _named(keystore) if _is_name(Path(keystore)) else Path(keystore)
    if path.exists():
        raise _exists(path)
    return path


def save_account(account: Key, keystore: Path, password: str, *, iterations: int | None = None) -> None:
    """Writes a new keystore that only its owner can read, whole or not at all. `iterations` makes a weak one for a
    local chain, quickly.

    Raises ConfigError if the file exists: a key is never overwritten.
    """
    from eigentensor.chain.keystore import encrypted

    try:
        _write(keystore, encrypted(account, password, iterations))
    except FileExistsError:
        raise _exists(keystore) from None


def check_account(account: Signer, network: Network) -> None:
    """Raises ConfigError for one of anvil's published keys on a chain that is not local."""
    if not network.is_local and account.address in ANVIL_ADDRESSES:
        raise ConfigError(
            f"{account.address} is a development account whose key everybody knows",
            fix="Use a key of your own on this chain.",
        )


def _write(path: Path, content: str) -> None:
    """A new file that only its owner can read, whole or not at all. Raises FileExistsError, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)
    finally:
        temporary.unlink()


def _is_name(keystore: Path) -> bool:
    return len(keystore.parts) == 1 and _NAME.fullmatch(keystore.name) is not None


def _named(name: str) -> Path:
    return keystore_folder() / f"{name}.json"


def _exists(keystore: Path) -> ConfigError:
    return ConfigError(f"{keystore} exists", fix="Choose another name, or use this key.")


def limit_recursion() -> None:
    """A library below eth_account and web3, which callers may use, allows 100,000 levels: deep enough for a stranger's
    nested JSON to overflow the C stack and end the process. tinygrad needs 10,000."""
    sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigError(f"no key: {name} is not set", fix=f"Set {name} to a file.")
    return value
