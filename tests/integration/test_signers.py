"""Keys that are elsewhere sign as keys here do: transactions, typed data, messages; what goes wrong there is said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import boto3
import pytest

from eigentensor.chain import Chain, Network, anvil_account, load_account
from eigentensor.chain.elsewhere import Elsewhere, signer_at
from eigentensor.chain.keys import address_of
from eigentensor.chain.kms import Kms, parts_of
from eigentensor.chain.web3signer import Web3Signer
from eigentensor.errors import ConfigError, NotSigned, SignerAway
from eigentensor.keccak import keccak
from eigentensor.task import Domain, Signer, order_signer, sign_order
from eigentensor.task.signatures import is_signed_by
from eigentensor_local.anvil import Anvil
from support.services import access, kms_server
from support.stories.market import Orders
from support.web3signer import Signing, web3signer

KEYS = [anvil_account(6), anvil_account(7)]
DOMAIN = Domain(31337, "0x" + "12" * 20)


@pytest.fixture(scope="module")
def signing() -> Iterator[Signing]:
    with web3signer([key.secret for key in KEYS]) as signing:
        yield signing


@pytest.fixture(autouse=True)
def no_trouble(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "signing" in request.fixturenames:
        request.getfixturevalue("signing").trouble("none")


@pytest.fixture(scope="module")
def kms() -> Iterator[Any]:
    """AWS' client of a KMS that keeps all in memory."""
    with kms_server() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in access(url).items():
            patch.setenv(name, value)
        client = boto3.client("kms", region_name="us-east-1")
        yield client
        client.close()


def made(kms: Any, spec: str = "ECC_SECG_P256K1") -> str:
    return cast(str, kms.create_key(KeySpec=spec, KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"])


def signs_all(signer: Signer, anvil: Anvil, network: Network, order_of: Orders, journal: Path) -> None:
    """Messages, orders, and a transaction that the chain takes for the account's."""
    for number in range(4):
        message = b"m" * (number * 100)
        signature = signer.sign(message)
        assert is_signed_by(signer.address, keccak(message), signature)
    order = order_of()
    assert order_signer(order, DOMAIN, sign_order(order, DOMAIN, signer)) == signer.address
    anvil.fund(signer.address)
    with Chain(network, signer, journal) as chain:
        before = chain.token.balance_of(signer.address)
        chain.token.mint(signer.address, 5)
        chain.token.approve(network.deployment.task_market, 5)
        assert chain.token.balance_of(signer.address) - before == 5


def test_a_web3signer_signs_what_a_key_here_signs(
    signing: Signing, anvil: Anvil, network: Network, order_of: Orders, tmp_path: Path
) -> None:
    signer = load_account(f"{signing.url}/{KEYS[1].address}")
    assert signer.address == KEYS[1].address
    signs_all(signer, anvil, network, order_of, tmp_path / "journal.sqlite")


def test_a_key_of_a_kms_signs_what_a_key_here_signs(
    kms: Any, anvil: Anvil, network: Network, order_of: Orders, tmp_path: Path
) -> None:
    key = made(kms)
    kms.create_alias(AliasName="alias/operator", TargetKeyId=key)
    signer = load_account("kms://us-east-1/alias/operator")
    assert load_account(f"kms://us-east-1/{key}/{signer.address}").address == signer.address
    signs_all(signer, anvil, network, order_of, tmp_path / "journal.sqlite")


def test_whose_key_is_meant_is_asked_where_it_is_not_said(signing: Signing) -> None:
    assert address_of(f"https://nowhere.example/{KEYS[0].address.lower()}") == KEYS[0].address
    with pytest.raises(ConfigError, match="has 2 keys") as refused:
        signer_at(signing.url)
    assert KEYS[0].address in refused.value.what and "/0x…" in refused.value.fix
    with web3signer([KEYS[0].secret]) as one:
        assert signer_at(one.url + "/").address == KEYS[0].address
    for wrong in ("http://", "kms://eu-central-1"):
        with pytest.raises(ConfigError):
            signer_at(wrong)


@pytest.mark.parametrize(
    ("trouble", "error", "asked"), [("refuses", NotSigned, 1), ("another", NotSigned, 1), ("nonsense", NotSigned, 1)]
)
def test_what_is_no_signature_of_the_account_is_refused(
    signing: Signing, trouble: str, error: type[NotSigned], asked: int
) -> None:
    signer, before = signer_at(f"{signing.url}/{KEYS[0].address}"), signing.asked
    signing.trouble(trouble)
    with pytest.raises(error) as refused:
        signer.sign(b"message")
    assert not isinstance(refused.value, SignerAway) and signing.asked - before == asked
    signing.trouble("none")
    assert is_signed_by(signer.address, keccak(b"message"), signer.sign(b"message"))


def test_a_signer_that_is_away_is_asked_again_for_some_seconds(signing: Signing) -> None:
    signer, before = signer_at(f"{signing.url}/{KEYS[0].address}"), signing.asked
    signing.trouble("busy")
    with pytest.raises(SignerAway, match="status 500"):
        signer.sign(b"message")
    assert signing.asked - before == 4
    signing.trouble("slow")
    slow = Elsewhere(Web3Signer(signing.url, timeout=0.2), KEYS[0].address, "slow")
    with pytest.raises(SignerAway, match="does not answer"):
        slow.sign(b"message")
    with pytest.raises(SignerAway, match="does not answer"):
        signer_at(f"http://127.0.0.1:9/{KEYS[0].address}").sign(b"message")


def test_a_kms_that_does_not_sign_is_said(kms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSigned, match="NotFoundException"):
        signer_at("kms://us-east-1/nothing")
    with pytest.raises(NotSigned, match="of another curve"):
        signer_at(f"kms://us-east-1/{made(kms, 'ECC_NIST_P256')}")
    other = signer_at(f"kms://us-east-1/{made(kms)}/{KEYS[0].address}")
    with pytest.raises(NotSigned, match="is not signed by"):
        other.sign(b"message")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    with pytest.raises(SignerAway):
        Kms("us-east-1", "key", timeout=0.2).signature("", b"message")
    for nonsense in (b"", b"\x30\x06\x02\x01\x01\x02\x01", b"\x30" * 70):
        with pytest.raises(NotSigned):
            parts_of(nonsense)


def test_a_transaction_whose_signer_is_away_leaves_no_hole_and_goes_out_later(
    signing: Signing, anvil: Anvil, network: Network, tmp_path: Path
) -> None:
    signer = Elsewhere(Web3Signer(signing.url), KEYS[0].address, "signer")
    anvil.fund(signer.address)
    with Chain(network, signer, tmp_path / "journal.sqlite") as chain:
        chain.token.mint(signer.address, 5)
        nonce = chain.node.transaction_count(signer.address)
        signing.trouble("refuses")
        with pytest.raises(NotSigned, match="403"):
            chain.token.mint(signer.address, 6)
        assert chain.journal.pending() == []
        signing.trouble("none")
        chain.token.mint(signer.address, 7)
        assert chain.node.transaction_count(signer.address) == nonce + 1
        assert chain.token.balance_of(signer.address) == 12
