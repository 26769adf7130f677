"""From arguments to work and terms: what `run` and `plan` share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigentensor.chain import Network, to_wei
from eigentensor.errors import BlobNotFound
from eigentensor.program import Program
from eigentensor.program.codec import decode
from eigentensor_client.files import existing, read_inputs, read_tensors, read_variables
from eigentensor_client.orders import Terms, Work, read_rate
from eigentensor_client.transfer import Keeper


def read_program(name: str, gateway: Keeper) -> Program:
    """A program from a file, or by its uuid from cache and gateway; checked."""
    path = Path(name)
    if not path.exists() and len(name.removeprefix("0x")) == 64:
        try:
            return decode(gateway.fetch(name).read_bytes())
        except BlobNotFound:
            raise BlobNotFound(f"neither a file nor a known uuid: {name}") from None
    return decode(existing(path).read_bytes())


def read_work(
    gateway: Keeper,
    program: str,
    inputs: list[str] | None,
    weights: Path | None,
    states: Path | None,
    variables: list[str] | None,
    repeat: int,
) -> Work:
    return Work(
        read_program(program, gateway),
        read_inputs(inputs),
        read_tensors(weights),
        read_tensors(states),
        read_variables(variables),
        repeat,
    )


def read_terms(network: Network, options: Mapping[str, Any]) -> Terms:
    """The terms that a verb's options say; amounts in them are tokens. Their names are those of `verbs.options`."""

    def wei(name: str) -> int | None:
        return None if options[name] is None else to_wei(options[name], network.deployment.token_decimals)

    return Terms(
        max_price=wei("max_price") or 0,
        min_price=wei("min_price"),
        ramp=options["ramp"],
        check_rate=read_rate(options["check"]),
        verifiers=options["verifiers"],
        check_fee=wei("check_fee"),
        value_at_risk=wei("value_at_risk") or 0,
        exec=options["exec"],
        accept_within=options["accept_within"],
    )
