"""Keys in AWS KMS: of the curve secp256k1 (ECC_SECG_P256K1), for signing. Credentials are those of AWS' own tools."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from eigentensor.addresses import to_checksum_address
from eigentensor.errors import ConfigError, NotSigned, SignerAway
from eigentensor.extras import require
from eigentensor.keccak import keccak

_CURVE, _ALGORITHM = "ECC_SECG_P256K1", "ECDSA_SHA_256"  # of a digest that is given, whatever hashed it
_POINT = 65  # bytes of a public key at the end of its DER
_AWAY = ("ThrottlingException", "KMSInternalException", "DependencyTimeoutException", "KeyUnavailableException")


class Kms:
    """One key, which has one account."""

    def __init__(self, region: str, key: str, *, timeout: float = 5) -> None:
        """`region` "" is the one that AWS' configuration names. Raises ConfigError where boto3 is missing."""
        require("kms")
        self._region, self._key, self._timeout = region, key, timeout

    @cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(
            connect_timeout=self._timeout, read_timeout=self._timeout, retries={"total_max_attempts": 1}
        )  # who asks tries again
        try:
            return boto3.session.Session().client("kms", region_name=self._region or None, config=config)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"AWS KMS: {error}", fix="Name the region: kms://REGION/KEY.") from None

    def accounts(self) -> list[str]:
        """See `Vault`."""
        from coincurve import PublicKey

        point = self._asked(lambda: self._client.get_public_key(KeyId=self._key))["PublicKey"][-_POINT:]
        try:
            PublicKey(point)
        except ValueError:
            raise NotSigned(f"key {self._key} of AWS KMS is of another curve", fix=f"Make one of {_CURVE}.") from None
        return [to_checksum_address(keccak(point[1:])[-20:])]

    def signature(self, account: str, message: bytes) -> tuple[bytes, bytes]:
        """See `Vault`."""
        how = {"MessageType": "DIGEST", "SigningAlgorithm": _ALGORITHM}
        answer = self._asked(lambda: self._client.sign(KeyId=self._key, Message=keccak(message), **how))
        return parts_of(answer["Signature"])

    def _asked(self, ask: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return ask()
        except NoCredentialsError:
            raise ConfigError(
                "AWS KMS: there are no credentials", fix="Give them as AWS' own tools take them."
            ) from None
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            kind = SignerAway if code in _AWAY or status >= 500 else NotSigned
            raise kind(f"AWS KMS does not sign: {code or error}") from None
        except BotoCoreError as error:
            raise SignerAway(f"AWS KMS does not answer: {error}") from None
        finally:
            self._client.close()  # its connections: another one makes new ones


def parts_of(der: bytes) -> tuple[bytes, bytes]:
    """r and s of an ECDSA signature in DER, 32 bytes each. Raises NotSigned for anything else."""
    from coincurve.ecdsa import der_to_cdata, serialize_compact

    try:
        compact: bytes = serialize_compact(der_to_cdata(der))
    except ValueError:
        raise NotSigned("what AWS KMS answered is no signature") from None
    return compact[:32], compact[32:]
