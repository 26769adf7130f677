"""Keys of a user: made, imported, listed, never overwritten, never shown, never taken as an argument."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from eigentensor.chain import anvil_account, load_account, save_account
from eigentensor.chain.keys import ANVIL_KEYS, kept_key, keystore_folder, new_account
from eigentensor.errors import ConfigError
from eigentensor_client.cli import main
from eigentensor_operator.config import Settings
from support.screens import values as v

KEY = "0x" + "5a" * 32
ADDRESS = Account.from_key(KEY).address
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that knows no network, with a password in a file."""
    monkeypatch.chdir(tmp_path)
    for word in ("STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{word}_HOME", str(tmp_path / word.lower()))
    Path("password").write_text(PASSWORD + "\n")
    monkeypatch.setenv("EIGENTENSOR_PASSWORD_FILE", "password")
    monkeypatch.delenv("EIGENTENSOR_KEYSTORE", raising=False)
    monkeypatch.delenv("EIGENTENSOR_NETWORK", raising=False)


class Wallet:
    """`eigentensor wallet …`, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._patch = capsys, monkeypatch

    def __call__(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        self._patch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main(["wallet", *words])
        code = ended.value.code
        return (code if isinstance(code, int) else 0, *self._capsys.readouterr())

    def object(self, *words: str, stdin: str = "") -> Any:
        """The object of a command that succeeds."""
        code, out, err = self(*words, "--json", stdin=stdin)
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def wallet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Wallet:
    return Wallet(capsys, monkeypatch)


@pytest.mark.parametrize("key", [KEY, KEY[2:], f"  {KEY}\n"])
def test_a_private_key_from_stdin_is_kept_under_a_name(wallet: Wallet, key: str) -> None:
    kept = wallet.object("import", "alice", stdin=key)
    path = keystore_folder() / "alice.json"
    assert (kept["schema"], kept["address"], kept["keystore"]) == ("eigentensor.keystore/1", ADDRESS, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert load_account(Path("alice"), Path("password")).address == ADDRESS


def test_a_private_key_from_a_file_is_kept_in_a_file(wallet: Wallet) -> None:
    Path("key").write_text(KEY)
    assert wallet.object("import", "here/alice.json", "key")["keystore"] == "here/alice.json"
    assert load_account(Path("here/alice.json"), Path("password")).address == ADDRESS


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_another_tools_keystore_keeps_its_password(wallet: Wallet, kdf: Any) -> None:
    Path("password").write_text("short")
    Path("theirs.json").write_text(json.dumps(Account.encrypt(bytes.fromhex(KEY[2:]), "short", kdf=kdf, iterations=2)))
    assert wallet.object("import", "bob", "theirs.json")["address"] == ADDRESS
    assert load_account(Path("bob"), Path("password")).address == ADDRESS


def test_a_wrong_password_imports_nothing(wallet: Wallet) -> None:
    Path("theirs.json").write_text(
        json.dumps(Account.encrypt(bytes.fromhex(KEY[2:]), "another", kdf="pbkdf2", iterations=1))
    )
    for content in (Path("theirs.json").read_text(), "{}", '{"version": 1}', "{"):
        code, out, err = wallet("import", "bob", stdin=content)
        assert (code, out) == (3, "") and "the keystore cannot be opened" in err and "\n  fix  " in err
    assert not keystore_folder().exists()


@pytest.mark.parametrize("verb", [["new", "alice"], ["import", "alice"]])
def test_a_key_is_never_overwritten(wallet: Wallet, verb: list[str]) -> None:
    wallet.object("import", "alice", stdin=KEY)
    before = (keystore_folder() / "alice.json").read_bytes()
    code, _, err = wallet(*verb, stdin=ANVIL_KEYS[0])
    assert code == 3 and "alice.json exists" in err
    assert (keystore_folder() / "alice.json").read_bytes() == before
    with pytest.raises(ConfigError, match="exists"):  # also by who came in between
        save_account(new_account(), keystore_folder() / "alice.json", PASSWORD, iterations=1)
    assert len(list(keystore_folder().iterdir())) == 1


@pytest.mark.parametrize("words", [["import", KEY], ["import", "alice", KEY], ["import", "alice", KEY[2:]]])
def test_a_key_as_an_argument_is_refused_and_not_repeated(wallet: Wallet, words: list[str]) -> None:
    code, out, err = wallet(*words, stdin=KEY)
    assert (code, out) == (3, "") and "a private key is no argument" in err and KEY[2:] not in err


@pytest.mark.parametrize("content", ["", "hello", KEY[:-1], "00" * 32, "ff" * 32])
def test_what_is_no_key_is_not_repeated(wallet: Wallet, content: str) -> None:
    code, _, err = wallet("import", "alice", stdin=content)
    assert code == 3 and "this is no private key" in err
    assert not content or content not in err
    assert not keystore_folder().exists()


def test_a_list_without_keystores_or_networks_says_how_to_have_some(wallet: Wallet) -> None:
    code, out, _ = wallet("list")
    assert code == 0 and "`eigentensor wallet new NAME`" in out
    assert "pays: none: $EIGENTENSOR_KEYSTORE is not set" in out


def test_a_list_names_the_keystore_that_pays_and_what_is_none(wallet: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
    wallet.object("import", "alice", stdin=KEY)
    (keystore_folder() / "broken.json").write_text("[]")
    nameless = json.loads((keystore_folder() / "alice.json").read_text())
    del nameless["address"]
    (keystore_folder() / "nameless.json").write_text(json.dumps(nameless))
    listed = {one["name"]: one for one in wallet.object("list")["keystores"]}
    assert list(listed) == ["alice", "broken", "nameless"] and not any(one["used"] for one in listed.values())
    assert listed["alice"]["address"] == ADDRESS and listed["broken"]["wrong"] == "is no V3 keystore"
    assert "address" not in listed["nameless"]
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", "alice")
    listing = wallet.object("list")
    assert [one["name"] for one in listing["keystores"] if one["used"]] == ["alice"]
    assert listing["pays"] == "alice, which $EIGENTENSOR_KEYSTORE names"
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", "elsewhere.json")
    assert wallet.object("list")["keystores"][-1] == {
        "name": "elsewhere.json", "file": "elsewhere.json", "used": True,
        "wrong": "cannot be read: No such file or directory",
    }  # fmt: skip


def test_on_a_local_chain_a_published_key_pays(wallet: Wallet) -> None:
    v.NETWORK.save()
    assert wallet.object("list")["pays"] == (
        "anvil's published key 1: worth nothing; network local is a local chain, and $EIGENTENSOR_KEYSTORE is not set"
    )


def test_a_file_of_that_name_is_meant_before_the_folder(wallet: Wallet) -> None:
    wallet.object("import", "alice", stdin=KEY)
    save_account(anvil_account(3), Path("alice"), PASSWORD, iterations=1)
    assert load_account(Path("alice"), Path("password")).address == anvil_account(3).address


def test_other_chains_fund_nobody_and_say_what_to_send(wallet: Wallet) -> None:
    deployment = v.NETWORK.deployment.to_json() | {"chainId": 11155111}
    file = {"rpc_url": "http://127.0.0.1:9", "gateway_url": "http://127.0.0.1:9", "deployment": deployment}
    Path("sepolia.json").write_text(json.dumps(file))
    code, out, err = wallet("fund", "--network", "sepolia.json", "--to", ADDRESS.lower())
    assert (code, out) == (3, "") and "network sepolia is no local chain" in err
    assert f"(token {v.NETWORK.deployment.token}) to {ADDRESS}." in err
    assert "--to: '0x12' is not an address" in wallet("fund", "--to", "0x12", "--network", "sepolia.json")[2]


def test_a_key_that_a_program_keeps_for_itself_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "calls.key"
    assert kept_key(path).address == kept_key(path).address
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and list(path.parent.iterdir()) == [path]
    settings = Settings(data_dir=path.parent)
    elsewhere = load_account(f"https://signer.example/{ADDRESS}")
    assert settings.call_signer(elsewhere).address == kept_key(path).address  # receipts are signed here
    assert settings.call_signer(kept_key(tmp_path / "hot")).address == kept_key(tmp_path / "hot").address
    path.write_text("nonsense")
    with pytest.raises(ConfigError, match="cannot be had"):
        kept_key(path)


def test_a_key_elsewhere_is_listed_by_its_url_without_what_lets_in(
    wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", f"https://me:password@signer.example/{ADDRESS}")
    listing = wallet.object("list")
    url = f"https://signer.example/{ADDRESS}"
    assert listing["keystores"] == [{"name": url, "file": url, "used": True, "address": ADDRESS}]
    assert "password" not in json.dumps(listing)
