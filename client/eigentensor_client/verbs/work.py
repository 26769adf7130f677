"""From arguments to work and terms: what `run` and `plan` share."""

from pathlib import Path

from eigentensor.chain import Network, to_wei
from eigentensor.errors import BlobNotFound
from eigentensor.program import Program
from eigentensor.program.codec import decode
from eigentensor.store import GatewayClient
from eigentensor_client.files import existing, read_inputs, read_tensors, read_variables
from eigentensor_client.orders import Terms, Work


def read_program(name: str, gateway: GatewayClient) -> Program:
    """A program from a file, or by its uuid from cache and gateway; checked."""
    path = Path(name)
    if not path.exists() and len(name.removeprefix("0x")) == 64:
        try:
            return decode(gateway.fetch(name).read_bytes())
        except BlobNotFound:
            raise BlobNotFound(f"neither a file nor a known uuid: {name}") from None
    return decode(existing(path).read_bytes())


def read_work(
    gateway: GatewayClient,
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


def read_terms(
    network: Network, max_price: str, min_price: str | None, ramp: int, exec_: int, accept_within: int
) -> Terms:
    decimals = network.deployment.token_decimals
    least = None if min_price is None else to_wei(min_price, decimals)
    return Terms(to_wei(max_price, decimals), least, ramp, exec_, accept_within)
