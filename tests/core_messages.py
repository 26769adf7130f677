"""What others do to EigenLayer's core: messages that the library never sends."""

from web3.contract import Contract

from eigentensor.chain import Chain, Message
from eigentensor.testing.localnet import Anvil

#: Answers 1 to whoever asks anything: a registrar that likes everybody.
AGREEABLE = "0x600160005260206000f3"


def core(chain: Chain, contract: str, function: str, *arguments: object) -> None:
    """Sends a message as the account of `chain`; `contract` is the name of its attribute."""
    chain.sender.send(message(chain, contract, function, *arguments), f"{function} {chain.block_number()}")


def message(chain: Chain, contract: str, function: str, *arguments: object) -> Message:
    target: Contract = getattr(chain, contract)
    return Message(function, target.address, bytes.fromhex(target.encode_abi(function, list(arguments))[2:]))


def act_as(anvil: Anvil, account: str, sent: Message) -> None:
    """Sends a message as an account without a key."""
    anvil.rpc("anvil_impersonateAccount", account)
    anvil.fund(account)
    hash_ = anvil.rpc("eth_sendTransaction", {"from": account, "to": sent.to, "data": "0x" + sent.data.hex()})
    assert anvil.web3.eth.wait_for_transaction_receipt(hash_)["status"] == 1, sent.name


def upgrade(anvil: Anvil, contract: str, old: int, new: int) -> None:
    """Replaces a contract's code by one with another delay, which is an immutable, as an upgrade of the core does."""
    code = anvil.web3.eth.get_code(anvil.web3.to_checksum_address(contract)).hex()
    assert old.to_bytes(32).hex() in code
    anvil.rpc("anvil_setCode", contract, "0x" + code.replace(old.to_bytes(32).hex(), new.to_bytes(32).hex()))
