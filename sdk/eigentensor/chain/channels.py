"""The market for paid calls: its views of pools, channels and batches, and the messages that it takes.

`pool`, `channel` and `batch` are names, which `eigentensor.channel` computes. Amounts are wei of the token, times are
blocks. Orders of calls and everything signed about channels are of the deployment's `channels_domain`.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from eigentensor.addresses import to_checksum_address
from eigentensor.chain.call_views import Batch, Channel, Judgment, Payback, Pool, Roots, ShareDemand, Windows
from eigentensor.chain.market import Opening
from eigentensor.chain.node import Node
from eigentensor.chain.refusals import talking_to
from eigentensor.chain.views import Answer, Balance, Challenge, LeafProof, Stage
from eigentensor.channel.deals import CallReceipt, Deal, Offer, Voucher
from eigentensor.channel.signed import as_tuple
from eigentensor.channel.state import BatchState, Breach, ChannelState
from eigentensor.store.parts import encode_bound

if TYPE_CHECKING:
    from eigentensor.chain.sender import Mined, Sender
    from eigentensor.chain.token import TokenMessages
    from eigentensor.channel.lines import CallPlace, Entry, LineProof, Part, Sheet
    from eigentensor.task.events import Leaf


class Channels:
    """The views of the market for paid calls, as of the newest block. Raises what `Node` raises."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def pool_at(self, pool: bytes) -> Pool:
        """What a pool has come to; one that was never offered is not `offered`."""
        return Pool(*self._node.call(self._node.channels, "poolAt", pool))

    def channel_at(self, channel: bytes) -> Channel:
        """Where a channel stands; ChannelState.NONE if it was never opened."""
        deposit, paid, count, number, client, last, state = self._node.call(self._node.channels, "channelAt", channel)
        with talking_to(self._node.network.rpc_url):
            return Channel(deposit, paid, count, number, str(client), last, ChannelState(state))

    def batch_at(self, batch: bytes) -> Batch:
        """Where a batch stands; BatchState.NONE if it was never begun."""
        state, *values = self._node.call(self._node.channels, "batchAt", batch)
        with talking_to(self._node.network.rpc_url):
            return Batch(BatchState(state), *values)

    def roots_at(self, batch: bytes) -> Roots:
        """What the operator committed to; zeros before."""
        return Roots(*map(bytes, self._node.call(self._node.channels, "rootsAt", batch)))

    def payback_at(self, batch: bytes) -> Payback:
        """What clients get back of a batch that is over."""
        return Payback(*self._node.call(self._node.channels, "paybackAt", batch))

    def answer_at(self, batch: bytes, index: int) -> Answer:
        """The answer at an index, 16 g + c of candidate c of share g; Stage.NONE if there is none."""
        operator, stage, claim = self._node.call(self._node.channels, "answerAt", batch, index)
        with talking_to(self._node.network.rpc_url):
            return Answer(str(operator), Stage(stage), bytes(claim))

    def challenge_at(self, task: bytes, game_id: int) -> Challenge:
        """The bond at stake in a game about a call, whose order hashes to `task`."""
        return Challenge(*self._node.call(self._node.channels, "challengeAt", task, game_id))

    def share_demand_at(self, batch: bytes, share: int) -> ShareDemand:
        """The demand to justify a share; `since` is 0 where there is none."""
        return ShareDemand(*self._node.call(self._node.channels, "shareDemandAt", batch, share))

    def judgment_at(self, batch: bytes) -> Judgment:
        """Why a batch is convicted; Breach.NONE for one that is not."""
        winner, breach, *marks = self._node.call(self._node.channels, "judgmentAt", batch)
        with talking_to(self._node.network.rpc_url):
            return Judgment(str(winner), Breach(breach), *marks)

    def windows_of(self, offer: Offer, number: int) -> Windows:
        """The last blocks of a batch's messages; 0 for what is not fixed yet."""
        return Windows(*self._node.call(self._node.channels, "windowsOf", as_tuple(offer), number))

    def seed_block_of(self, batch: bytes) -> int:
        """The block whose randomness decides about the batch; 0 before its commit. `Market.seed` records it."""
        return int(self._node.call(self._node.channels, "seedBlockOf", batch))

    def sheets_of(self, transaction: bytes) -> "tuple[Sheet, ...]":
        """What a commit brought, out of its transaction. Raises ChainError where that was sent by another contract."""
        from eigentensor.chain.transactions import read_transaction  # who only reads tasks does not wait for it

        data = read_transaction(self._node.transaction(transaction)).data
        commit, together = map(self._node.channels.function, ("commit", "multicall"))
        if data[:4] == together.selector:  # with the begin of the next batch
            (messages,) = together.arguments(data)
            data = next((bytes(message) for message in messages if message[:4] == commit.selector), data)
        _, _, sheets = commit.arguments(data)
        with talking_to(self._node.network.rpc_url):
            return tuple(_sheet(*sheet) for sheet in sheets)

    def balance_of(self, account: str) -> Balance:
        """The balance of an account here: wei of the token, free and held. Both zero for strangers."""
        return Balance(*self._node.call(self._node.channels, "accountOf", to_checksum_address(account)))


class ChannelMessages(Channels):
    """The market for paid calls, and the messages of an account to it. Raises what `Sender.send` raises.

    Messages make sense once and are never sent twice: repeating one after a crash or a reorganisation waits for, or
    takes up, what was sent. Those with `once` are sent once under that key, else each time.
    """

    def __init__(self, node: Node, token: "TokenMessages", sender: "Sender") -> None:
        from eigentensor.chain.paying import Payments  # who only reads does not wait for it

        super().__init__(node)
        self._sender = sender
        self._payments = Payments(token, sender, node.channels, lambda account: self.balance_of(account).balance)

    # ---- Money ----

    def deposit(self, account: str, amount: int, *, once: str | None = None) -> "Mined":
        """Pays `amount` wei of tokens in for `account`; approves what may not be taken yet."""
        key = once or uuid.uuid4().hex
        return self._payments.pay(
            "deposit", to_checksum_address(account), amount, takes=amount, once=key, of_balance=False
        )

    def withdraw(self, to: str, amount: int, *, once: str | None = None) -> "Mined":
        """Pays `amount` wei of the account's balance here out to `to`. Raises Reverted if it has less."""
        return self._sender.call(self._node.channels, "withdraw", to_checksum_address(to), amount, once=once)

    # ---- Pools ----

    def offer(self, offer: Offer) -> "Mined":
        """Makes an offer a pool, by its operator or the operator's registered signer."""
        return self._sender.once(self._node.channels, "offer", as_tuple(offer))

    def begin(self, offer: Offer, *, once: str | None = None) -> "Mined":
        """Begins the next batch of a pool, by the operator's registered signer: locks stake and holds collateral.

        Raises Reverted while two batches are uncommitted, or balance, stake, caps or others' seats do not suffice.
        """
        return self._sender.call(self._node.channels, "begin", as_tuple(offer), once=once)

    def commit(self, offer: Offer, number: int, sheets: "Sequence[Sheet]", *, begins: bool = False) -> "Mined":
        """Commits to the calls of a batch, by the operator or its signers. Each line takes the sheet's place.

        `begins` the next batch of the pool in the same transaction, by the operator's registered signer: both happen,
        or neither does.
        """
        arguments = (as_tuple(offer), number, [as_tuple(sheet) for sheet in sheets])
        begin = [("begin", (as_tuple(offer),))] if begins else []
        return self._sender.together(self._node.channels, ("commit", arguments), *begin)

    # ---- Channels ----

    def open(self, offer: Offer, deal: Deal, signature: bytes, amount: int) -> "Mined":
        """Opens a channel with a deposit of `amount` wei, by the deal's client, and pays the fee of an opening.

        `signature` is the offer's signer's, of the deal. What the account's balance lacks is taken from its tokens;
        what may not be taken yet is approved before.
        """
        arguments = (as_tuple(offer), as_tuple(deal), signature, amount)
        takes = amount + self._node.deployment.parameters.g_chunk
        return self._payments.pay("open", *arguments, takes=takes)

    def fund(self, channel: bytes, amount: int, *, once: str | None = None) -> "Mined":
        """Adds `amount` wei to the deposit of a channel, as `open` takes them. By anybody."""
        return self._payments.pay("fund", channel, amount, takes=amount, once=once or uuid.uuid4().hex)

    def leave(self, offer: Offer, deal: Deal) -> "Mined":
        """Makes the newest batch of the pool the channel's last, by the client or the operator."""
        return self._sender.once(self._node.channels, "leave", as_tuple(offer), as_tuple(deal))

    def conclude(self, offer: Offer, deal: Deal, voucher: Voucher, payers: bytes, signers: bytes) -> "Mined":
        """Pays a last voucher that payer and signer signed, for good; the rest of the deposit is back. By anybody."""
        arguments = (as_tuple(offer), as_tuple(deal), as_tuple(voucher), payers, signers)
        return self._sender.once(self._node.channels, "conclude", *arguments)

    def end(self, offer: Offer, deal: Deal) -> "Mined":
        """Gives back what is left of the deposit of a channel that was left. By anybody.

        Raises Reverted until its last batch is committed, or has lapsed for long enough.
        """
        return self._sender.once(self._node.channels, "end", as_tuple(offer), as_tuple(deal))

    # ---- Checks ----

    def answer(self, operator: str, offer: Offer, number: int, index: int, commitment: bytes) -> "Mined":
        """Commits the drawn verifier `operator` to the root of a share, by the hash `commitment`; holds its bond."""
        arguments = (to_checksum_address(operator), as_tuple(offer), number, index, commitment)
        return self._sender.once(self._node.channels, "answer", *arguments)

    def reveal_roots(self, offer: Offer, number: int, roots: Sequence[bytes]) -> "Mined":
        """Shows the root of each share, by the operator or its signers, when the time of the answers is over."""
        return self._sender.once(self._node.channels, "revealRoots", as_tuple(offer), number, list(roots))

    def reveal(self, offer: Offer, number: int, roots: Sequence[bytes], opening: Opening) -> "Mined":
        """Opens an answer; one that differs demands that its share is justified. `roots` are those of the shares as
        revealed, none where they are not. By anybody."""
        arguments = (as_tuple(offer), number, list(roots), _opening(opening))
        return self._sender.once(self._node.channels, "reveal", *arguments)

    def justify(self, offer: Offer, number: int, roots: Sequence[bytes], part: "Part") -> "Mined":
        """Shows a part of a share of which a verifier has another root. By anybody."""
        arguments = (as_tuple(offer), number, list(roots), as_tuple(part))
        return self._sender.once(self._node.channels, "justify", *arguments)

    # ---- Disputes ----

    def challenge(
        self, challenger: str, offer: Offer, number: int, place: "CallPlace", slot: int = 0, *, once: str | None = None,
        bond: int = 0,
    ) -> "Mined":  # fmt: skip
        """Claims that the result of a call is wrong; opens a game. `slot` above 0: with the bond of that answer, which
        differed. Of a `bond` that is named, in wei, what may not be taken yet is approved before."""
        arguments = (to_checksum_address(challenger), as_tuple(offer), number, as_tuple(place), slot)
        return self._payments.pay("challenge", *arguments, takes=bond, once=once)

    def demand(self, offer: Offer, number: int, index: int, leaves: "Sequence[Leaf]" = ()) -> "Mined":
        """Demands to see call `index` of a batch, counted over its lines, and leaves of its inputs; prepays them."""
        return self._sender.once(self._node.channels, "demand", as_tuple(offer), number, index, _all(leaves))

    def show(
        self,
        offer: Offer,
        number: int,
        place: "CallPlace",
        variables: Mapping[str, int],
        leaves: "Sequence[Leaf]" = (),
        proofs: Sequence[LeafProof] = (),
    ) -> "Mined":
        """Shows a call that was demanded with its variables, and the leaves of its inputs, each with its proof. By
        anybody."""
        bound = encode_bound(variables)
        arguments = (as_tuple(offer), number, as_tuple(place), bound, _all(leaves), _all(proofs))
        return self._sender.once(self._node.channels, "show", *arguments)

    def denounce(self, offer: Offer, number: int, index: int, leaves: "Sequence[Leaf]" = ()) -> "Mined":
        """Convicts an operator that did not show what was demanded, or gives back what was prepaid. By anybody."""
        return self._sender.once(self._node.channels, "denounce", as_tuple(offer), number, index, _all(leaves))

    def denounce_share(self, offer: Offer, number: int, share: int) -> "Mined":
        """Convicts an operator that did not justify a share in time. By anybody."""
        return self._sender.once(self._node.channels, "denounceShare", as_tuple(offer), number, share)

    def outside(self, offer: Offer, number: int, place: "CallPlace", entries: "Sequence[Entry]", count: int) -> "Mined":
        """Convicts for a call that the offer does not allow; `entries`, of `count`, show it. By anybody."""
        arguments = (as_tuple(offer), number, as_tuple(place), [as_tuple(entry) for entry in entries], count)
        return self._sender.once(self._node.channels, "outside", *arguments)

    def contradict(
        self, offer: Offer, deal: Deal, receipt: CallReceipt, signature: bytes, other: CallReceipt, others: bytes
    ) -> "Mined":
        """Convicts for two receipts of one call with different results, for the client. By anybody."""
        arguments = (as_tuple(offer), as_tuple(deal), as_tuple(receipt), signature, as_tuple(other), others)
        return self._sender.once(self._node.channels, "contradict", *arguments)

    def contradict_leaf(
        self, offer: Offer, deal: Deal, receipt: CallReceipt, signature: bytes, number: int, line: "LineProof",
        leaf: bytes, path: Sequence[bytes],
    ) -> "Mined":  # fmt: skip
        """Convicts for a receipt of another result than was committed in batch `number`: `leaf` stands at the receipt's
        index under the line. For the client, by anybody."""
        evidence = (as_tuple(offer), as_tuple(deal), as_tuple(receipt), signature)
        return self._sender.once(
            self._node.channels, "contradictLeaf", *evidence, number, as_tuple(line), leaf, list(path)
        )

    def accuse(self, offer: Offer, deal: Deal, receipt: CallReceipt, signature: bytes) -> "Mined":
        """Convicts for a receipt of a call that was not committed, for the client. By anybody."""
        arguments = (as_tuple(offer), as_tuple(deal), as_tuple(receipt), signature)
        return self._sender.once(self._node.channels, "accuse", *arguments)

    # ---- Ends ----

    def close(self, offer: Offer, number: int, *, settles: Sequence[int] = ()) -> "Mined":
        """Ends a batch whose time is over, as it must end. By anybody.

        `settles` these answers in the same transaction: Reverted, and nothing happens, where it is not FINAL then.
        """
        settle = [("settle", (as_tuple(offer), number, list(settles)))] if settles else []
        return self._sender.together(self._node.channels, ("close", (as_tuple(offer), number)), *settle)

    def settle(self, offer: Offer, number: int, indices: Sequence[int]) -> "Mined":
        """Pays out answers of a batch that is over. By anybody."""
        return self._sender.once(self._node.channels, "settle", as_tuple(offer), number, list(indices))

    def refund(self, offer: Offer, number: int, lines: "Sequence[LineProof]") -> "Mined":
        """Gives clients what they get back of lines of a batch that is over. By anybody."""
        arguments = (as_tuple(offer), number, [as_tuple(line) for line in lines])
        return self._sender.once(self._node.channels, "refund", *arguments)

    def refund_bond(self, offer: Offer, number: int, task: bytes, game_id: int) -> "Mined":
        """Gives back the bond of a challenger whose game a conviction made idle. By anybody."""
        return self._sender.once(self._node.channels, "refundBond", as_tuple(offer), number, task, game_id)

    def slash(self, offer: Offer, number: int) -> "Mined":
        """Slashes the stake of a convicted operator, by anybody. Raises Reverted while EigenLayer is paused."""
        return self._sender.once(self._node.channels, "slash", as_tuple(offer), number)


def _opening(opening: Opening) -> tuple[bytes, int, bytes, bytes]:
    return opening.task, opening.slot, opening.outputs_root, opening.salt


def _sheet(deal: Any, *values: Any) -> "Sheet":
    from eigentensor.channel.lines import Sheet, Tail  # who only reads does not wait for what hashes tensors

    count, amount, acked, root, signature, nodes, tail = values
    calls = tuple(Tail(*call) for call in tail)
    return Sheet(Deal(*deal), count, amount, acked, root, signature, tuple(nodes), calls)


def _all(some: "Sequence[Leaf] | Sequence[LeafProof]") -> list[tuple[object, ...]]:
    return [astuple(one) for one in some]
