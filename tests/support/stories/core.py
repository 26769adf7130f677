"""What others do to EigenLayer's core: messages that the library never sends."""

from eth_utils.crypto import keccak

from eigentensor.chain import Chain, Message
from eigentensor_local.anvil import Anvil
from support.web3 import web3_of

#: Answers 1 to whoever asks anything: a registrar that likes everybody.
AGREEABLE = "0x600160005260206000f3"
#: Where a proxy keeps whose code it runs (EIP-1967), and one that does nothing else.
IMPLEMENTATION = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"
PROXY = "0x365f5f375f5f365f7f" + IMPLEMENTATION[2:] + "545af43d5f5f3e6036573d5ffd5b3d5ff3"


def core(chain: Chain, contract: str, function: str, *arguments: object) -> None:
    """Sends a message as the account of `chain`; `contract` is the name of its node's attribute."""
    chain.sender.send(message(chain, contract, function, *arguments), f"{function} {chain.node.block_number()}")


def message(chain: Chain, contract: str, function: str, *arguments: object) -> Message:
    return Message.of(getattr(chain.node, contract), function, *arguments)


def act_as(anvil: Anvil, account: str, sent: Message) -> None:
    """Sends a message as an account without a key."""
    anvil.rpc("anvil_impersonateAccount", account)
    anvil.fund(account)
    hash_ = anvil.rpc("eth_sendTransaction", {"from": account, "to": sent.to, "data": "0x" + sent.data.hex()})
    assert web3_of(anvil).eth.wait_for_transaction_receipt(hash_)["status"] == 1, sent.name


def upgrade(anvil: Anvil, contract: str, old: int, new: int) -> None:
    """Replaces a contract's code, or that behind it if it is a proxy, by one with another delay, which is an immutable,
    as an upgrade of the core does."""
    contract = _implementation(anvil, contract) or contract
    code = web3_of(anvil).eth.get_code(web3_of(anvil).to_checksum_address(contract)).hex()
    assert old.to_bytes(32).hex() in code
    anvil.rpc("anvil_setCode", contract, "0x" + code.replace(old.to_bytes(32).hex(), new.to_bytes(32).hex()))


def put_behind_a_proxy(anvil: Anvil, contract: str) -> None:
    """Moves a contract's code to another address, and leaves a proxy before it, as the core's are."""
    code = web3_of(anvil).eth.get_code(web3_of(anvil).to_checksum_address(contract)).hex()
    moved = "0x" + keccak(text=contract)[:20].hex()
    anvil.rpc("anvil_setCode", moved, "0x" + code.removeprefix("0x"))
    anvil.rpc("anvil_setStorageAt", contract, IMPLEMENTATION, "0x" + moved.removeprefix("0x").zfill(64))
    anvil.rpc("anvil_setCode", contract, PROXY)


def _implementation(anvil: Anvil, contract: str) -> str | None:
    """What a proxy delegates to; None: the contract is none."""
    slot = web3_of(anvil).eth.get_storage_at(web3_of(anvil).to_checksum_address(contract), int(IMPLEMENTATION, 16))
    return "0x" + slot[-20:].hex() if any(slot) else None
