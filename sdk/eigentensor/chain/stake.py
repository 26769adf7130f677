"""Stake, membership, signers and seats of operators; slashes and their bounties. EigenLayer's words are its own."""

from typing import TYPE_CHECKING

from eigentensor.addresses import to_checksum_address
from eigentensor.chain.node import Node
from eigentensor.chain.views import Lock, Note, Seat
from eigentensor.economics import WAD

if TYPE_CHECKING:
    from eigentensor.chain.sender import Mined, Sender
    from eigentensor.chain.token import TokenMessages

_SLASHING = 1  # EigenLayer's switch for slashes


class Stake:
    """The views of EigenLayer, the service manager and the bounty, as of the newest block. Raises what `Node` raises.

    Stake is in shares of the market's strategy where a name or a text says so, else in wei of the token.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._strategy = to_checksum_address(node.deployment.strategy)

    def of(self, operator: str) -> int:
        """The stake delegated to the operator in the market's strategy, in wei of the token, rounded down."""
        arguments = (to_checksum_address(operator), self._strategy)
        return self.worth_of(int(self._node.call(self._node.delegation_manager, "operatorShares", *arguments)))

    def worth_of(self, shares: int) -> int:
        """Wei of the token for shares of the market's strategy, rounded down."""
        return int(self._node.call(self._node.strategy, "sharesToUnderlyingView", shares))

    def shares_of(self, amount: int) -> int:
        """Shares of the market's strategy for wei of the token, rounded down."""
        return int(self._node.call(self._node.strategy, "underlyingToSharesView", amount))

    def free_stake(self, operator: str, end: int) -> int:
        """Shares of the operator that no task holds and that can be slashed until block `end`, whatever happens."""
        return int(self._node.call(self._node.manager, "freeStake", to_checksum_address(operator), end))

    def locked_stake(self, operator: str) -> int:
        """Shares of the operator that its tasks hold."""
        return int(self._node.call(self._node.manager, "lockedStake", to_checksum_address(operator)))

    def lasting_stake(self, operator: str) -> int:
        """Wei of the token that stay slashable here when every deallocation that has begun is through."""
        arguments = (self.operator_set(), [to_checksum_address(operator)], [self._strategy], (1 << 32) - 1)
        ((shares,),) = self._node.call(self._node.allocation_manager, "getMinimumSlashableStake", *arguments)
        return self.worth_of(int(shares))

    def queued_stake(self, operator: str) -> int:
        """Wei of the token that wait to be withdrawn from the operator and can be slashed until then."""
        arguments = (to_checksum_address(operator), self._strategy)
        shares = self._node.call(self._node.delegation_manager, "getSlashableSharesInQueue", *arguments)
        return self.worth_of(int(shares))

    def stake_delay(self) -> int:
        """Blocks for which present stake can be slashed."""
        return int(self._node.call(self._node.manager, "stakeDelay"))

    def lock_of(self, task: bytes, operator: str) -> Lock:
        """The shares of its executor's stake that a task holds; all zero where it holds none."""
        return Lock(*self._node.call(self._node.manager, "lockOf", task, to_checksum_address(operator)))

    # ---- Allocation to operator sets ----

    def operator_set(self) -> tuple[str, int]:
        """The market's operator set, as EigenLayer names it: service manager and number."""
        avs = to_checksum_address(self._node.deployment.service_manager)
        return avs, int(self._node.call(self._node.manager, "OPERATOR_SET"))

    def allocation_of(self, operator: str) -> int:
        """The part (WAD) of what is delegated to the operator that the market's operator set can slash."""
        arguments = (to_checksum_address(operator), self.operator_set(), self._strategy)
        magnitude, *_ = self._node.call(self._node.allocation_manager, "getAllocation", *arguments)
        return int(magnitude)

    def allocatable_of(self, operator: str) -> int:
        """The part (WAD) of what was delegated to the operator that it has allocated to no operator set."""
        arguments = (to_checksum_address(operator), self._strategy)
        return int(self._node.call(self._node.allocation_manager, "getAllocatableMagnitude", *arguments))

    def magnitude_of(self, operator: str) -> int:
        """The part (WAD) of what was delegated to the operator that slashes by all operator sets have left."""
        arguments = (to_checksum_address(operator), self._strategy)
        return int(self._node.call(self._node.allocation_manager, "getMaxMagnitude", *arguments))

    def deallocation_of(self, operator: str) -> tuple[int, int]:
        """The part (WAD) that is being taken from the market's operator set, and the block from which it is gone."""
        arguments = (to_checksum_address(operator), self.operator_set(), self._strategy)
        _, pending, block = self._node.call(self._node.allocation_manager, "getAllocation", *arguments)
        return (-int(pending), int(block)) if pending < 0 else (0, 0)

    # ---- Membership, signer, seats ----

    def is_operator(self, account: str) -> bool:
        """Whether the account is an operator of EigenLayer."""
        return bool(self._node.call(self._node.delegation_manager, "isOperator", to_checksum_address(account)))

    def is_member(self, operator: str) -> bool:
        """Whether the operator is in the market's operator set."""
        return bool(self._node.call(self._node.manager, "isMember", to_checksum_address(operator)))

    def signer_of(self, operator: str) -> tuple[str, int, int]:
        """The operator's hot signer (the zero address: none), its caps on collateral (wei) and stake (shares)."""
        of = to_checksum_address(operator)
        signer, collateral = self._node.call(self._node.manager, "signerOf", of)
        return str(signer), int(collateral), int(self._node.call(self._node.manager, "stakeCapOf", of))

    def seat_count(self) -> int:
        """How many seats were ever given out."""
        return int(self._node.call(self._node.manager, "seatCount"))

    def seat_at(self, place: int) -> Seat:
        """The seat at a place of the list. Raises Reverted beyond its end."""
        operator, since = self._node.call(self._node.manager, "seatAt", place)
        return Seat(str(operator), int(since))

    def seats_of(self, operator: str) -> int:
        """How many seats an operator has."""
        return int(self._node.call(self._node.manager, "seatsOf", to_checksum_address(operator)))

    def other_seats(self, operator: str) -> int:
        """How many seats all others have."""
        return int(self._node.call(self._node.manager, "otherSeats", to_checksum_address(operator)))

    def seat_stake(self) -> int:
        """Slashable stake that a seat takes, in wei of the token."""
        return int(self._node.call(self._node.manager, "SEAT"))

    def covers_seats(self, operator: str) -> bool:
        """Whether the operator's stake covers all its seats: otherwise none of them answers, and anybody may prune."""
        return self.lasting_stake(operator) >= self.seats_of(operator) * self.seat_stake()

    # ---- Slashes ----

    def is_slashing_paused(self) -> bool:
        """Whether EigenLayer refuses all slashes now."""
        return bool(self._node.call(self._node.allocation_manager, "paused(uint8)", _SLASHING))

    def note_of(self, slash_id: int) -> Note:
        """The amount that the bounty of a slash will pay, and to whom."""
        task, amount, beneficiaries = self._node.call(self._node.bounty, "noteOf", slash_id)
        return Note(bytes(task), int(amount), tuple(map(str, beneficiaries)))

    def payable_from(self, slash_id: int) -> int:
        """The first block in which the core lets the bounty of a slash be paid, unless it is paused; 0: at once."""
        return int(self._node.call(self._node.bounty, "payableFrom", slash_id))


class StakeMessages(Stake):
    """The stake, and the messages of an account that may be an operator, or an operator's signer.

    A message is sent once under a `once` key, else each time. Raises what `Sender.send` raises.
    """

    def __init__(self, node: Node, token: "TokenMessages", sender: "Sender") -> None:
        super().__init__(node)
        self._token, self._sender = token, sender

    def register_as_operator(self) -> "Mined":
        """Makes the account an operator of EigenLayer that stakes for itself, allocating at once. No way back."""
        zero = to_checksum_address("0x" + "00" * 20)
        return self._sender.once(self._node.delegation_manager, "registerAsOperator", zero, 0, "")

    def deposit(self, amount: int, *, once: str | None = None) -> "Mined":
        """Deposits tokens as stake into the market's strategy; approves what the strategy manager may not take yet."""
        self._token.ensure_allowance(self._node.deployment.strategy_manager, amount)
        arguments = (self._strategy, to_checksum_address(self._node.deployment.token), amount)
        return self._sender.call(self._node.strategy_manager, "depositIntoStrategy", *arguments, once=once)

    def join_operator_set(self) -> "Mined":
        """Registers the account, an operator of EigenLayer, for the market's operator set."""
        avs, set_id = self.operator_set()
        arguments = (to_checksum_address(self._sender.address), (avs, [set_id], b""))
        return self._sender.call(self._node.allocation_manager, "registerForOperatorSets", *arguments)

    def leave_operator_set(self) -> "Mined":
        """Takes the account out of the market's operator set; its stake stays slashable for EigenLayer's delay."""
        avs, set_id = self.operator_set()
        arguments = (to_checksum_address(self._sender.address), avs, [set_id])
        return self._sender.call(self._node.allocation_manager, "deregisterFromOperatorSets", arguments)

    def allocate(self, magnitude: int = WAD, *, once: str | None = None) -> "Mined":
        """Lets the market's operator set slash `magnitude` (WAD) of what is delegated to the account."""
        allocation = (self.operator_set(), [self._strategy], [magnitude])
        arguments = (to_checksum_address(self._sender.address), [allocation])
        return self._sender.call(self._node.allocation_manager, "modifyAllocations", *arguments, once=once)

    def set_signer(self, signer: str, collateral_cap: int, stake_cap: int, *, once: str | None = None) -> "Mined":
        """Names the account's hot signer, and what tasks may hold: wei of collateral, shares of stake."""
        arguments = (to_checksum_address(signer), collateral_cap, stake_cap)
        return self._sender.call(self._node.manager, "setSigner", *arguments, once=once)

    def enlist(self, operator: str, count: int, *, once: str | None = None) -> "Mined":
        """Takes `count` more seats for the operator; its slashable stake must cover all that it has, and its balance
        in the market their deposits."""
        return self._sender.call(self._node.manager, "enlist", to_checksum_address(operator), count, once=once)

    def leave(self, operator: str, *, once: str | None = None) -> "Mined":
        """Gives up all seats of the operator."""
        return self._sender.call(self._node.manager, "leave", to_checksum_address(operator), once=once)

    def prune(self, operator: str, *, once: str | None = None) -> "Mined":
        """Takes the seats away that the operator's stake does not cover any more; their deposits are the account's."""
        return self._sender.call(self._node.manager, "prune", to_checksum_address(operator), once=once)

    def unlock(self, task: bytes, operator: str) -> "Mined":
        """Frees the stake that a task holds of its executor, after the lock's end. By anybody."""
        return self._sender.once(self._node.manager, "unlock", task, to_checksum_address(operator))

    def pay_bounty(self, slash_id: int) -> "Mined":
        """Pays out the bounty of a slash, once EigenLayer has released it. By anybody."""
        return self._sender.once(self._node.bounty, "pay", slash_id)
