"""TLS 1.3 to a door whose certificate is known by its fingerprint: nobody else vouches for it."""

import hashlib
import hmac
import socket
import ssl

from eigentensor.cluster.address import Address
from eigentensor.errors import NotAdmitted

IDLE, BETWEEN, TRIES = 10, 5, 4  #: seconds until a silent connection is asked, between questions, and questions


def context() -> ssl.SSLContext:
    """What connects, and takes any certificate: `check` comes before anything is said."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def check(certificate: bytes | None, address: Address) -> None:
    """Raises NotAdmitted unless the certificate that was shown, in DER, has the fingerprint of the address."""
    shown = hashlib.sha256(certificate or b"").digest()
    if not hmac.compare_digest(shown, address.fingerprint):
        raise NotAdmitted(
            f"{address.host}:{address.port} shows the certificate {shown.hex()}, not {address.fingerprint.hex()}",
            fix="Somebody else answers there, or the cluster was set up anew: ask for its address.",
        )


def keep_alive(connection: socket.socket) -> None:
    """Lets a peer that vanished without a word be noticed within half a minute."""
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        limits = {"KEEPIDLE": IDLE, "KEEPINTVL": BETWEEN, "KEEPCNT": TRIES}
        for name, limit in (limits | {"USER_TIMEOUT": 1000 * (IDLE + BETWEEN * TRIES)}).items():
            if option := getattr(socket, f"TCP_{name}", None):  # not every system has all of them
                connection.setsockopt(socket.IPPROTO_TCP, option, limit)
