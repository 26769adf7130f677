"""What happened in a market, in order, reorganisations included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hexbytes import HexBytes
from web3.types import FilterParams

from eigentensor.chain.contracts import talking_to
from eigentensor.chain.logs import decode_log
from eigentensor.chain.node import Head, Node
from eigentensor.task.events import Event

#: Blocks whose logs are asked for at once.
SPAN = 2_000
#: For each topic of a log what it may be.
Topics = Sequence[Sequence[bytes] | None]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new since `known`: first forget everything above block `rolled_back_to` (None: nothing), then add.

    `heads` are to be remembered and given to the next call. `complete` is False when there is more already.
    """

    rolled_back_to: int | None
    events: tuple[Event, ...]
    heads: tuple[Head, ...]
    complete: bool


class History(Node):
    """The events of one market's contracts."""

    def events(self, from_block: int, to_block: int | None = None) -> Iterator[Event]:
        """Everything that happened in these blocks (to the newest by default), in order. It does not wait for more."""
        last = self.block_number() if to_block is None else to_block
        for start in range(from_block, last + 1, SPAN):
            yield from self.logs(start, min(start + SPAN - 1, last))

    def changes(self, known: Sequence[Head] = ()) -> Changes:
        """What happened since the caller asked last, reorganisations included.

        `known` are the heads that earlier calls returned, ascending; older ones may be dropped, a reorganisation deeper
        than all of them starts again from the deployment. A call covers a bounded number of blocks.
        """
        newest, parent = self.newest()
        if known and newest == known[-1]:
            return Changes(None, (), (), complete=True)
        if known and parent == known[-1].hash:  # its logs are asked for by its hash: no other block can slip in
            return Changes(None, tuple(self._logs_of(newest)), (newest,), complete=True)
        return self._caught_up(known)

    def _caught_up(self, known: Sequence[Head]) -> Changes:
        first = self.deployment.block
        ancestor = next((h for h in reversed(known) if self.is_canonical(h)), None)
        base = ancestor.number if ancestor else first - 1
        rolled_back = base if known and ancestor != known[-1] else None
        while True:
            newest = self.head()
            to = min(newest.number, base + SPAN)
            last = newest if to == newest.number else self._head(to)
            if to <= base:
                return Changes(rolled_back, (), (), complete=True)
            events = tuple(self.logs(base + 1, to))
            # If the last block is still the same, so were all before it while the logs were read.
            if self.is_canonical(last):
                break
        places = [Head(e.place.block, e.place.block_hash) for e in events]
        heads = [a for a, b in pairwise([*places, last]) if a != b]
        return Changes(rolled_back, events, (*heads, last), complete=to == newest.number)

    def logs(self, start: int, stop: int, topics: Topics = ()) -> list[Event]:
        """What happened in these blocks, at most SPAN, with these topics: None is any, a list one of several."""
        named = [None if topic is None else [HexBytes(one) for one in topic] for topic in topics]
        return self._asked({"fromBlock": start, "toBlock": stop, "topics": named})

    def _logs_of(self, block: Head) -> list[Event]:
        return self._asked({"blockHash": HexBytes(block.hash)})

    def _asked(self, which: FilterParams) -> list[Event]:
        d = self.deployment
        contracts = (d.task_market, d.service_manager, d.dispute_game, d.bounty)
        with talking_to(self.network.rpc_url):
            logs = self.web3.eth.get_logs({**which, "address": [self._address(contract) for contract in contracts]})
            return [event for log in logs if (event := decode_log(log)) is not None]
