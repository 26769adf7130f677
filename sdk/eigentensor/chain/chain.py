"""Every message of the market, typed, sent once, with what it brought about."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from eigentensor import economics
from eigentensor.chain.sender import Mined
from eigentensor.chain.stake import Staker
from eigentensor.chain.views import LeafProof
from eigentensor.dispute.moves import Move
from eigentensor.dispute.position import Position
from eigentensor.task.events import Leaf
from eigentensor.task.order import Order


@dataclass(frozen=True, slots=True)
class Admission:
    """An operator's place in the sorted list of those that an order admits; empty where the order admits everybody."""

    index: int = 0
    count: int = 0
    path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens a commitment. Slot 0 is the executor's."""

    task: bytes
    outputs_root: bytes
    salt: bytes
    slot: int = 0


class Chain(Staker):
    """One market, and an account that acts in it: as client, operator, signer, challenger, or anybody."""

    # ---- Orders ----

    def post(self, order: Order, signature: bytes = b"") -> Mined:
        """Makes the order a task.

        The client itself needs no signature, and what its balance lacks is taken from its tokens; what the market may
        not take yet is approved before.
        """
        return self._pay(self._message(self.market, "post", order.as_tuple(), signature, takes=self._escrow([order])))

    def post_many(self, orders: Sequence[Order], signatures: Sequence[bytes] = ()) -> Mined:
        """As `post`, in one transaction."""
        arguments = [o.as_tuple() for o in orders], list(signatures or [b""] * len(orders))
        return self._pay(self._message(self.market, "postMany", *arguments, takes=self._escrow(orders)))

    def _escrow(self, orders: Sequence[Order]) -> int:
        """What this account pays in for its own orders among these."""
        own = [order for order in orders if order.client == self.address]
        return sum(economics.escrow(o.max_price, o.verifiers, o.check_fee) for o in own)

    def cancel(self, order: Order) -> Mined:
        """The client takes its open order back; the escrow is in its balance. Raises Reverted unless it is open."""
        return self._send_once(self.market, "cancel", order.as_tuple())

    def expire(self, order: Order) -> Mined:
        """Ends an order that nobody accepted until `accept_by`; the escrow is in its client's balance. By anybody."""
        return self._send_once(self.market, "expire", order.as_tuple())

    # ---- Execution ----

    def accept(self, operator: str, order: Order, admission: Admission | None = None) -> Mined:
        """Takes an open order for `operator`, whose signer the account is, at the price of the block that takes it.

        Holds collateral of the operator's balance and locks stake. Raises Reverted if another was faster, the order is
        over, or balance, stake, caps or others' seats do not suffice.
        """
        arguments = (self._address(operator), order.as_tuple(), _admission(admission))
        return self._send_once(self.market, "accept", *arguments)

    def accept_many(self, operator: str, orders: Sequence[Order], admissions: Sequence[Admission] = ()) -> Mined:
        """As `accept`, in one transaction; what is not open any more is skipped. One admission for each, or none."""
        proofs = [_admission(a) for a in admissions] or [_admission(None)] * len(orders)
        return self._send_once(
            self.market, "acceptMany", self._address(operator), [o.as_tuple() for o in orders], proofs
        )

    def commit(self, operator: str, task: bytes, commitment: bytes) -> Mined:
        """Commits the executor `operator` to a result, by the hash `commitment`.

        Raises Reverted later than `exec` blocks after the acceptance, and where another executes the task.
        """
        return self._send_once(self.market, "commit", self._address(operator), task, commitment)

    def commit_many(self, operator: str, tasks: Sequence[bytes], commitments: Sequence[bytes]) -> Mined:
        """As `commit`, in one transaction; tasks past their time, or committed already, are skipped."""
        return self._send_once(self.market, "commitMany", self._address(operator), list(tasks), list(commitments))

    # ---- Checks ----

    def seed(self, block: int) -> Mined:
        """Records the randomness of a block for all tasks that wait for it."""
        return self._send_once(self.market, "seed", block, self.header(block))

    def answer(self, operator: str, order: Order, index: int, commitment: bytes) -> Mined:
        """The hidden result of the drawn verifier `operator`; holds its bond."""
        arguments = (self._address(operator), order.as_tuple(), index, commitment)
        return self._send_once(self.market, "answer", *arguments)

    def expose(self, order: Order, opening: Opening) -> Mined:
        """Opens somebody's commitment before its time, for half of what that costs its owner."""
        return self._send_once(self.market, "expose", order.as_tuple(), _opening(opening))

    def reveal(self, order: Order, opening: Opening) -> Mined:
        """Opens a commitment: the executor's result, or a verifier's answer, which opens a game if it differs."""
        return self._send_once(self.market, "reveal", order.as_tuple(), _opening(opening))

    def reveal_many(self, orders: Sequence[Order], openings: Sequence[Opening]) -> Mined:
        """As `reveal`, in one transaction; what is opened already, or comes too late, is skipped."""
        arguments = ([o.as_tuple() for o in orders], [_opening(o) for o in openings])
        return self._send_once(self.market, "revealMany", *arguments)

    def challenge(self, challenger: str, order: Order, *, once: str | None = None, bond: int = 0) -> Mined:
        """Claims that the revealed result is wrong; holds a bond and opens a game. `once` tells repeated ones apart.

        Of a `bond` that is named, in wei, what the market may not take yet is approved before.
        """
        arguments = self._address(challenger), order.as_tuple()
        return self._pay(self._message(self.market, "challenge", *arguments, takes=bond), once)

    def demand(self, order: Order, leaves: Sequence[Leaf]) -> Mined:
        """The client, once: the executor must show these leaves of the outputs. Prepays for each."""
        return self._send_once(self.market, "demand", order.as_tuple(), [astuple(leaf) for leaf in leaves])

    def show(self, order: Order, leaves: Sequence[Leaf], proofs: Sequence[LeafProof]) -> Mined:
        """Shows what `demand` asked for."""
        arguments = ([astuple(leaf) for leaf in leaves], [astuple(proof) for proof in proofs])
        return self._send_once(self.market, "show", order.as_tuple(), *arguments)

    def play(self, game_id: int, position: Position, move: Move) -> Mined:
        """Makes a move in a game that stands at `position`."""
        return self._send_once(self.disputes, move.function, game_id, astuple(position), *move.arguments())

    def timeout(self, game_id: int, position: Position) -> Mined:
        """Ends a game whose side to move has used up its clock."""
        return self._send_once(self.disputes, "timeout", game_id, astuple(position))

    # ---- Ends ----

    def close(self, order: Order) -> Mined:
        """Ends a task whose deadline is over, as it must end: final, failed or convicted."""
        return self._send_once(self.market, "close", order.as_tuple())

    def close_many(self, orders: Sequence[Order]) -> Mined:
        """As `close`, in one transaction; tasks that cannot be closed yet, or any more, are skipped."""
        return self._send_once(self.market, "closeMany", [o.as_tuple() for o in orders])

    def settle(self, order: Order, index: int) -> Mined:
        """Pays what answer `index` of an ended task gets."""
        return self._send_once(self.market, "settle", order.as_tuple(), index)

    def refund(self, order: Order, game_id: int) -> Mined:
        """Pays back the bond of a challenger whose game was open when another one convicted the executor."""
        return self._send_once(self.market, "refund", order.as_tuple(), game_id)

    def slash(self, order: Order) -> Mined:
        """Slashes the stake of a convicted executor. Refused while EigenLayer is paused: try again."""
        return self._send_once(self.market, "slash", order.as_tuple())

    def pay_bounty(self, slash_id: int) -> Mined:
        """Pays out what a slash took, once EigenLayer has released it."""
        return self._send_once(self.bounty, "pay", slash_id)


def _admission(admission: Admission | None) -> tuple[int, int, list[bytes]]:
    given = admission or Admission()
    return given.index, given.count, list(given.path)


def _opening(opening: Opening) -> tuple[bytes, int, bytes, bytes]:
    return opening.task, opening.slot, opening.outputs_root, opening.salt
