"""`eigentensor wallet new | import | list`: keys of this user, in V3 keystores with names."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import ConfigError
from eigentensor_client.screen import Screen, facts, table
from eigentensor_client.verbs import options

if TYPE_CHECKING:
    from eigentensor.task.signatures import Key
    from eigentensor_client.schemas import networks as schemas
    from eigentensor_client.tables import Table

Keystore = Annotated[str, typer.Argument(metavar="NAME", help="A name in the folder of keystores, or a new FILE.json.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", envvar="EIGENTENSOR_PASSWORD_FILE", help="Its password [asked for]."),
]
SHORTEST = 12  # characters of a new password


def new(keystore: Keystore, password_file: PasswordFile = None, json: options.Json = False) -> None:
    """Make a key and write it as a V3 keystore that only you can read. The key itself is never shown."""
    from eigentensor.chain.keys import new_account, new_keystore_path

    path = new_keystore_path(keystore)
    _save(Screen(as_json=json), new_account(), keystore, path, _new_password(password_file))


def import_key(
    keystore: Keystore,
    source: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A private key in hex, or a V3 keystore [stdin].")
    ] = None,
    password_file: PasswordFile = None,
    json: options.Json = False,
) -> None:
    """Keep a key of your own: a private key in hex, or another tool's V3 keystore, from FILE or stdin. A keystore keeps
    its password."""
    from eigentensor.chain.keys import account_of, new_keystore_path, opened, refuse_keys

    refuse_keys(keystore, str(source))
    screen, path = Screen(as_json=json), new_keystore_path(keystore)
    content = _content(source)
    if content.startswith("{"):
        password = _password(password_file, "Its password", confirm=False)
        try:
            account = opened(content, password)
        except ValueError as error:
            fix = "Check that it is a V3 keystore, and that the password is its own."
            raise ConfigError(f"the keystore cannot be opened: {error}", fix=fix) from None
    else:
        account, password = account_of(content), _new_password(password_file)
    _save(screen, account, keystore, path, password)


def list_keystores(network: options.NetworkName = None, json: options.Json = False) -> None:
    """List the keystores that have names, and which account pays, and why."""
    from eigentensor.chain.keys import keystore_folder
    from eigentensor.chain.network import Network
    from eigentensor_client.accounts import named_keystore, reason

    screen, used = Screen(as_json=json), named_keystore()
    paths = [str(path) for path in sorted(keystore_folder().glob("*.json"))]
    others = [used] if used and used not in paths else []
    listed = [_listed(named, used=named == used) for named in (*paths, *others)]
    chosen = None
    with suppress(ConfigError):  # keystores are there without any network
        chosen = Network.load(network)
    fields: schemas.Keystores = {
        "schema": "eigentensor.keystores/1",
        "folder": str(keystore_folder()),
        "keystores": listed,
        "pays": reason(chosen),
    }
    screen.result(fields["schema"], fields, *keystore_lines(fields))


def keystore_lines(fields: "schemas.Keystores") -> Iterator["Table | str"]:
    """`eigentensor.keystores/1` for people."""
    rows = [
        [one["name"], one.get("address") or one.get("wrong", "its address is not in it"), "pays" if one["used"] else ""]
        for one in fields["keystores"]
    ]
    if rows:
        yield table(("keystore", "address", ""), rows)
    else:
        yield f"none in {fields['folder']}: `eigentensor wallet new NAME` makes one, `wallet import` keeps yours"
    yield f"pays: {fields['pays']}"


def _listed(named: str, *, used: bool) -> "schemas.ListedKeystore":
    """What can be said of a key without its password."""
    from eigentensor.chain.elsewhere import shown
    from eigentensor.chain.keys import address_of, keystore_folder

    path, where = Path(named), shown(named)
    name = path.stem if path.parent == keystore_folder() else where
    one: schemas.ListedKeystore = {"name": name, "file": where, "used": used}
    try:
        if address := address_of(named):
            one["address"] = address
    except OSError as error:
        one["wrong"] = f"cannot be read: {error.strerror}"
    except ValueError:
        one["wrong"] = "is no V3 keystore"
    return one


def _content(source: Path | None) -> str:
    """What is to be imported: from a file, from stdin, or, in a terminal, asked for and not shown."""
    try:
        if source is not None and str(source) != "-":
            return source.read_text().strip()
        if sys.stdin.isatty():
            return str(typer.prompt("Private key", hide_input=True, err=True)).strip()
        return sys.stdin.read().strip()
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}", fix="Name a file with a key.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{source or 'stdin'} is not text", fix="Give a key in hex, or a V3 keystore.") from None


def _new_password(file: Path | None) -> str:
    """Raises ConfigError, also for a short one."""
    password = _password(file, "Password", confirm=True)
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has fewer than {SHORTEST} characters", fix="Choose a longer one.")
    return password


def _password(file: Path | None, question: str, *, confirm: bool) -> str:
    """From the file, or asked for in a terminal, twice if it is to be confirmed. Raises ConfigError."""
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}", fix="Name a file with the password.") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file} is not text", fix="Name a file that has nothing but the password.") from None
    if sys.stdin.isatty() and sys.stderr.isatty():
        return str(typer.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True))
    raise ConfigError("there is no terminal to ask for a password", fix="Name a --password-file.")


def _save(screen: Screen, account: "Key", name: str, path: Path, password: str) -> None:
    from eigentensor.chain.keys import save_account

    save_account(account, path, password)
    fields: schemas.Keystore = {
        "schema": "eigentensor.keystore/1",
        "address": account.address,
        "keystore": str(path),
    }
    rows: Sequence[Sequence[str]] = [["address", account.address], ["keystore", str(path)]]
    screen.result(fields["schema"], fields, facts(rows))
    screen.say(f"to pay with it: export EIGENTENSOR_KEYSTORE={name} EIGENTENSOR_PASSWORD_FILE=…")
