"""A contract's functions as bytes, there and back: as web3 has them, which looks through the whole ABI each time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.codec import ABICodec
from eth_abi.decoding import AddressDecoder
from eth_abi.encoding import AddressEncoder
from eth_abi.exceptions import DecodingError
from eth_abi.registry import registry
from eth_typing import ABI, ABIFunction
from eth_utils.abi import abi_to_signature, function_abi_to_4byte_selector, get_abi_input_types, get_abi_output_types
from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import BadFunctionCallOutput


class _Checksummed(AddressDecoder):
    decoder_fn = staticmethod(to_checksum_address)


def _reading() -> ABICodec:
    types = registry.copy()  # type: ignore[no-untyped-call]
    types.unregister("address")
    types.register("address", AddressEncoder, _Checksummed, label="address")
    return ABICodec(types)


_WRITES, _READS = Web3().codec, _reading()


@dataclass(frozen=True, slots=True)
class Function:
    """Its selector, and the types of its arguments and of what it returns, as the ABI spells them."""

    selector: bytes
    inputs: Sequence[str]
    outputs: Sequence[str]

    def data(self, arguments: Sequence[Any]) -> bytes:
        """What a contract is sent to call it. Raises EncodingError for arguments of other types."""
        return self.selector + _WRITES.encode(self.inputs, arguments)

    def values(self, answer: bytes) -> Any:
        """What it returned: a value, or a tuple of several. Raises BadFunctionCallOutput."""
        try:
            values = _READS.decode(self.outputs, answer)
        except DecodingError as error:
            raise BadFunctionCallOutput(f"{len(answer)} bytes are no ({', '.join(self.outputs)})") from error
        return values[0] if len(values) == 1 else values


def function_of(abi: ABI, name: str) -> Function:
    """The one of this name, or of this signature where several have the name."""
    functions: list[ABIFunction] = [entry for entry in abi if entry["type"] == "function"]
    (found,) = (entry for entry in functions if name in (entry["name"], abi_to_signature(entry)))
    return Function(function_abi_to_4byte_selector(found), get_abi_input_types(found), get_abi_output_types(found))
