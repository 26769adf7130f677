"""The door's certificate: made once, signed by itself, known to others by its fingerprint."""

import hashlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from eigentensor.errors import ConfigError
from eigentensor.extras import require

DAYS = 3650


def prepared(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """The context of a server with the certificate of a folder, which is made if there is none; its fingerprint.
    TLS 1.3 alone is spoken. Raises ConfigError for files that are no certificate, or where packages are missing."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    if not key.exists():
        require("cluster")
        _make(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    except (OSError, ValueError) as error:
        fix = f"Remove {key}: another one is made, and clients need the new address."
        raise ConfigError(f"{certificate} and {key} are no certificate", fix=fix) from error
    return context, hashlib.sha256(der).digest()


def _make(certificate: Path, key: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "eigentensor cluster")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .sign(private, hashes.SHA256())
    )
    form, none = serialization.Encoding.PEM, serialization.NoEncryption()
    certificate.write_bytes(made.public_bytes(form))
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private.private_bytes(form, serialization.PrivateFormat.PKCS8, none))
