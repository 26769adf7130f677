"""Payments for calls in the words of x402, version 2: three headers of JSON in base64.

`PAYMENT-REQUIRED` of an unpaid call names what is accepted, `PAYMENT-SIGNATURE` has the `Payment`, `PAYMENT-RESPONSE`
the `CallResponse`. The scheme is our channel's. https://github.com/x402-foundation/x402, specs/x402-specification-v2.md
and specs/transports-v2/http.md.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from eigentensor.channel.calls import CallResponse, Payment
from eigentensor.errors import CallRefused, WrongReceipt
from eigentensor.task.order import Domain

VERSION = 2
SCHEME = "eigentensor-channel"
REQUIRED, SIGNATURE, RESPONSE = "PAYMENT-REQUIRED", "PAYMENT-SIGNATURE", "PAYMENT-RESPONSE"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def network_of(domain: Domain) -> str:
    """The chain's name (CAIP-2)."""
    return f"eip155:{domain.chain_id}"


def requirements(domain: Domain, token: str, price: int, seconds: int, extra: Mapping[str, Any]) -> dict[str, Any]:
    """What is accepted for a call of `price` wei of the token, which is executed within so many seconds. `extra` is
    what a client needs to know to sign a voucher: channel, newest voucher, computation, and the root of the inputs."""
    return {
        "scheme": SCHEME, "network": network_of(domain), "asset": token, "amount": str(price), "payTo": domain.market,
        "maxTimeoutSeconds": seconds, "extra": dict(extra),
    }  # fmt: skip


def required(url: str, accepted: Mapping[str, Any], error: str) -> str:
    """The header of a call that is not paid for."""
    resource = {"url": url, "description": "A call of a program", "mimeType": "application/vnd.safetensors"}
    return _header({"x402Version": VERSION, "error": error, "resource": resource, "accepts": [dict(accepted)]})


def signature(payment: Payment, accepted: Mapping[str, Any]) -> str:
    """The header that pays for a call."""
    return _header({"x402Version": VERSION, "accepted": dict(accepted), "payload": payment.to_json()})


def read_signature(header: str) -> Payment:
    """The payment of a header. Raises CallRefused for what is none of this scheme, TaskError for malformed members."""
    values = _values(header)
    payload, accepted = values.get("payload"), values.get("accepted")
    if values.get("x402Version") != VERSION or not isinstance(payload, dict):
        raise CallRefused(f"{SIGNATURE} is no payment of x402, version {VERSION}", fix=f"Pay by {SCHEME}.")
    if not isinstance(accepted, dict) or accepted.get("scheme") != SCHEME:
        raise CallRefused(f"the payment is of another scheme than {SCHEME}", fix=f"Pay by {SCHEME}.")
    return Payment.from_json(payload)


def response(domain: Domain, payer: str, paid: int, answer: CallResponse) -> str:
    """The header of a call that was executed. No transaction settles it: the batch of its receipt does."""
    return _header({
        "success": True, "payer": payer, "transaction": "", "network": network_of(domain), "amount": str(paid),
        "extensions": {SCHEME: answer.to_json()},
    })  # fmt: skip


def read_response(header: str) -> CallResponse:
    """The response of a header. Raises WrongReceipt, TaskError for what is none."""
    extensions = _values(header).get("extensions")
    answer = extensions.get(SCHEME) if isinstance(extensions, dict) else None
    if not isinstance(answer, dict):
        raise WrongReceipt(RESPONSE, "it has no receipt")
    return CallResponse.from_json(answer)


def read_required(header: str) -> Mapping[str, Any]:
    """What a call would be accepted for, by this scheme. Raises CallRefused where it is not."""
    accepts = _values(header).get("accepts")
    for one in accepts if isinstance(accepts, list) else ():
        if isinstance(one, dict) and one.get("scheme") == SCHEME:
            return one
    raise CallRefused(f"calls are not paid by {SCHEME} there", fix="Call an operator of this network.")


def _header(values: Mapping[str, Any]) -> str:
    return b64encode(_ENCODER.encode(values).encode()).decode()


def _values(header: str) -> Mapping[str, Any]:
    """The members of a header; none of what is no object in base64."""
    try:
        values = json.loads(b64decode(header, validate=True).decode())
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
