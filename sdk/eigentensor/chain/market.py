"""The market: its views of tasks, checks and money, and the messages that it takes, in the order of a task's life."""

import uuid
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from eigentensor import economics
from eigentensor.addresses import to_checksum_address
from eigentensor.chain.node import Node
from eigentensor.chain.refusals import talking_to
from eigentensor.chain.stake import Stake
from eigentensor.chain.views import Answer, Balance, Challenge, Conviction, LeafProof, Seat, Stage, Task
from eigentensor.economics import Parameters
from eigentensor.task.order import Order
from eigentensor.task.state import Cause, State

if TYPE_CHECKING:
    from eigentensor.chain.sender import Mined, Sender
    from eigentensor.chain.token import TokenMessages
    from eigentensor.task.events import Leaf


@dataclass(frozen=True, slots=True)
class Admission:
    """An operator's place in the sorted list of those that an order admits; empty where the order admits everybody."""

    index: int = 0
    count: int = 0
    path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a commitment: what it hides, and the salt. Slot 0 is the executor's."""

    task: bytes
    outputs_root: bytes
    salt: bytes
    slot: int = 0


class Market:
    """The views of the market, as of the newest block. Raises what `Node` raises.

    Amounts are wei of the token, times are blocks. `task` is a task's UUID, the hash of its order.
    """

    def __init__(self, node: Node, stake: Stake) -> None:
        self._node, self._stake = node, stake

    def parameters(self) -> Parameters:
        """The market's parameters, as it computes with them."""
        return Parameters(*self._node.call(self._node.market, "parameters"))

    def task_at(self, task: bytes) -> Task:
        """The task as the chain keeps it; State.NONE if it was never posted."""
        executor, state, accepted_at, since, exec_, claim, *checks = self._node.call(self._node.market, "taskAt", task)
        with talking_to(self._node.network.rpc_url):
            return Task(executor, State(state), accepted_at, since, exec_, bytes(claim), *checks)

    def open_games(self, task: bytes) -> int:
        """How many games against the task's result are open and can still convict its executor."""
        return int(self._node.call(self._node.market, "openGames", task))

    def deadline_of(self, task: bytes) -> int:
        """The last block of what the task waits for; anybody may `close` it afterwards. 0 if there is none."""
        return int(self._node.call(self._node.market, "deadlineOf", task))

    def outputs_root_of(self, task: bytes) -> bytes:
        """The revealed outputs root; zero before."""
        return bytes(self._node.call(self._node.market, "outputsRootOf", task))

    # ---- Checks ----

    def seed_of(self, block: int) -> bytes | None:
        """The randomness that was recorded of a block; None: nobody has recorded it yet."""
        mix = bytes(self._node.call(self._node.market, "seedOf", block))
        return mix if any(mix) else None

    def seed_block_of(self, task: bytes) -> int:
        """The block whose randomness decides about the task; 0 before it is committed."""
        return int(self._node.call(self._node.market, "seedBlockOf", task))

    def is_drawn(self, order: Order) -> bool | None:
        """Whether the order's task is checked; None: not known yet."""
        known, drawn = self._node.call(self._node.market, "isDrawn", order.as_tuple())
        return bool(drawn) if known else None

    def seat_of(self, task: bytes, index: int) -> Seat:
        """The seat from which answer `index` is to come. Raises Reverted until the task's seed is known."""
        return self._stake.seat_at(int(self._node.call(self._node.market, "seatOf", task, index)))

    def answer_of(self, task: bytes, index: int) -> Answer:
        """The answer at an index; Stage.NONE if there is none."""
        operator, stage, claim = self._node.call(self._node.market, "answerOf", task, index)
        with talking_to(self._node.network.rpc_url):
            return Answer(str(operator), Stage(stage), bytes(claim))

    def answers_by(self, task: bytes) -> int:
        """The last block in which verifiers open their answers."""
        return int(self._node.call(self._node.market, "answersBy", task))

    def challenge_of(self, task: bytes, game_id: int) -> Challenge:
        """The bond at stake in a game, by its challenger."""
        return Challenge(*self._node.call(self._node.market, "gameOf", task, game_id))

    def conviction_of(self, task: bytes) -> Conviction:
        """The conviction of a task; Cause.NONE for one that is not Convicted."""
        winner, cause, _, slashed, crowded = self._node.call(self._node.market, "convictionOf", task)
        with talking_to(self._node.network.rpc_url):
            return Conviction(Cause(cause), str(winner), bool(slashed), bool(crowded))

    # ---- Money ----

    def balance_of(self, account: str) -> Balance:
        """The balance of an account in the market: wei of the token, free and held. Both zero for strangers."""
        return Balance(*self._node.call(self._node.market, "accountOf", to_checksum_address(account)))

    def held_of(self, account: str) -> int:
        """Wei that tasks, answers and challenges hold of an account's balance: all but the deposits of its seats."""
        deposits = self._stake.seats_of(account) * economics.seat_deposit(self._node.deployment.parameters)
        return self.balance_of(account).collateral - deposits


class MarketMessages(Market):
    """The market, and the messages of an account to it. Raises what `Sender.send` raises.

    Messages about a task make sense once and are never sent twice: repeating one after a crash or a reorganisation
    waits for, or takes up, what was sent. The others are sent once under a `once` key, else each time.
    """

    def __init__(self, node: Node, stake: Stake, token: "TokenMessages", sender: "Sender") -> None:
        from eigentensor.chain.paying import Payments  # who only reads does not wait for it

        super().__init__(node, stake)
        self._sender = sender
        self._payments = Payments(token, sender, node.market, lambda account: self.balance_of(account).balance)

    # ---- Money ----

    def deposit(self, account: str, amount: int, *, once: str | None = None) -> "Mined":
        """Pays `amount` wei of tokens into the market for `account`; approves what the market may not take yet."""
        key = once or uuid.uuid4().hex
        return self._payments.pay(
            "deposit", to_checksum_address(account), amount, takes=amount, once=key, of_balance=False
        )

    def withdraw(self, to: str, amount: int, *, once: str | None = None) -> "Mined":
        """Pays `amount` wei of the account's balance in the market out to `to`. Raises Reverted if it has less."""
        return self._sender.call(self._node.market, "withdraw", to_checksum_address(to), amount, once=once)

    # ---- Orders ----

    def post(self, order: Order, signature: bytes = b"") -> "Mined":
        """Makes the order a task.

        The client itself needs no signature, and what its balance lacks is taken from its tokens; what the market may
        not take yet is approved before.
        """
        return self._payments.pay("post", order.as_tuple(), signature, takes=self._escrow([order]))

    def post_many(self, orders: Sequence[Order], signatures: Sequence[bytes] = ()) -> "Mined":
        """As `post`, in one transaction."""
        arguments = [o.as_tuple() for o in orders], list(signatures or [b""] * len(orders))
        return self._payments.pay("postMany", *arguments, takes=self._escrow(orders))

    def cancel(self, order: Order) -> "Mined":
        """The client takes its open order back; the escrow is in its balance. Raises Reverted unless it is open."""
        return self._sender.once(self._node.market, "cancel", order.as_tuple())

    def expire(self, order: Order) -> "Mined":
        """Ends an order that nobody accepted until `accept_by`; the escrow is in its client's balance. By anybody."""
        return self._sender.once(self._node.market, "expire", order.as_tuple())

    # ---- Execution ----

    def accept(self, operator: str, order: Order, admission: Admission | None = None) -> "Mined":
        """Takes an open order for `operator`, whose signer the account is, at the price of the block that takes it.

        Holds collateral of the operator's balance and locks stake. Raises Reverted if another was faster, the order is
        over, or balance, stake, caps or others' seats do not suffice.
        """
        arguments = (to_checksum_address(operator), order.as_tuple(), _admission(admission))
        return self._sender.once(self._node.market, "accept", *arguments)

    def accept_many(self, operator: str, orders: Sequence[Order], admissions: Sequence[Admission] = ()) -> "Mined":
        """As `accept`, in one transaction; what is not open any more is skipped. One admission for each, or none."""
        proofs = [_admission(a) for a in admissions] or [_admission(None)] * len(orders)
        arguments = (to_checksum_address(operator), [o.as_tuple() for o in orders], proofs)
        return self._sender.once(self._node.market, "acceptMany", *arguments)

    def commit(self, operator: str, task: bytes, commitment: bytes) -> "Mined":
        """Commits the executor `operator` to a result, by the hash `commitment`.

        Raises Reverted later than `exec` blocks after the acceptance, and where another executes the task.
        """
        return self._sender.once(self._node.market, "commit", to_checksum_address(operator), task, commitment)

    def commit_many(self, operator: str, tasks: Sequence[bytes], commitments: Sequence[bytes]) -> "Mined":
        """As `commit`, in one transaction; tasks past their time, or committed already, are skipped."""
        arguments = (to_checksum_address(operator), list(tasks), list(commitments))
        return self._sender.once(self._node.market, "commitMany", *arguments)

    # ---- Checks ----

    def seed(self, block: int) -> "Mined":
        """Records the randomness of a block for all tasks that wait for it. By anybody.

        Raises ChainError where the block is not there, or its header is of a fork that is not known."""
        return self._sender.once(self._node.market, "seed", block, self._node.header(block))

    def answer(self, operator: str, order: Order, index: int, commitment: bytes) -> "Mined":
        """Commits the drawn verifier `operator` to a result, by the hash `commitment`; holds its bond."""
        arguments = (to_checksum_address(operator), order.as_tuple(), index, commitment)
        return self._sender.once(self._node.market, "answer", *arguments)

    def expose(self, order: Order, opening: Opening) -> "Mined":
        """Opens somebody's commitment before its time, for half of what that costs its owner. By anybody."""
        return self._sender.once(self._node.market, "expose", order.as_tuple(), _opening(opening))

    def reveal(self, order: Order, opening: Opening) -> "Mined":
        """Opens a commitment: the executor's result, or a verifier's answer, which opens a game if it differs."""
        return self._sender.once(self._node.market, "reveal", order.as_tuple(), _opening(opening))

    def reveal_many(self, orders: Sequence[Order], openings: Sequence[Opening]) -> "Mined":
        """As `reveal`, in one transaction; what is opened already, or comes too late, is skipped."""
        arguments = ([o.as_tuple() for o in orders], [_opening(o) for o in openings])
        return self._sender.once(self._node.market, "revealMany", *arguments)

    def challenge(self, challenger: str, order: Order, *, once: str | None = None, bond: int = 0) -> "Mined":
        """Claims that the revealed result is wrong; holds a bond and opens a game. `once` tells repeated ones apart.

        Of a `bond` that is named, in wei, what the market may not take yet is approved before.
        """
        arguments = to_checksum_address(challenger), order.as_tuple()
        return self._payments.pay("challenge", *arguments, takes=bond, once=once)

    def demand(self, order: Order, leaves: "Sequence[Leaf]") -> "Mined":
        """The client, once: the executor must show these leaves of the outputs. Prepays for each."""
        return self._sender.once(self._node.market, "demand", order.as_tuple(), [astuple(leaf) for leaf in leaves])

    def show(self, order: Order, leaves: "Sequence[Leaf]", proofs: Sequence[LeafProof]) -> "Mined":
        """Shows the leaves that the client demanded, each with its proof. Raises Reverted for others."""
        arguments = ([astuple(leaf) for leaf in leaves], [astuple(proof) for proof in proofs])
        return self._sender.once(self._node.market, "show", order.as_tuple(), *arguments)

    # ---- Ends ----

    def close(self, order: Order) -> "Mined":
        """Ends a task whose deadline is over, as it must end: final, failed or convicted. By anybody."""
        return self._sender.once(self._node.market, "close", order.as_tuple())

    def close_many(self, orders: Sequence[Order]) -> "Mined":
        """As `close`, in one transaction; tasks that cannot be closed yet, or any more, are skipped."""
        return self._sender.once(self._node.market, "closeMany", [o.as_tuple() for o in orders])

    def settle(self, order: Order, index: int) -> "Mined":
        """Pays out answer `index` of an ended task: its bond and fee, as it deserves. By anybody."""
        return self._sender.once(self._node.market, "settle", order.as_tuple(), index)

    def refund(self, order: Order, game_id: int) -> "Mined":
        """Pays back the bond of a challenger whose game was open when another one convicted the executor."""
        return self._sender.once(self._node.market, "refund", order.as_tuple(), game_id)

    def slash(self, order: Order) -> "Mined":
        """Slashes the stake of a convicted executor, by anybody. Raises Reverted while EigenLayer is paused."""
        return self._sender.once(self._node.market, "slash", order.as_tuple())

    # ---- Payment ----

    def _escrow(self, orders: Sequence[Order]) -> int:
        """What this account pays in for its own orders among these."""
        own = [order for order in orders if order.client == self._sender.address]
        return sum(economics.escrow(o.max_price, o.verifiers, o.check_fee) for o in own)


def _admission(admission: Admission | None) -> tuple[int, int, list[bytes]]:
    place = admission or Admission()
    return place.index, place.count, list(place.path)


def _opening(opening: Opening) -> tuple[bytes, int, bytes, bytes]:
    return opening.task, opening.slot, opening.outputs_root, opening.salt
