"""Who is drawn for the shares of a batch, as the chain says; and which shares of own batches somebody may see."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from eigentensor import economics
from eigentensor.chain import Reader
from eigentensor.channel.life import BatchLife
from eigentensor.channel.state import BatchState
from eigentensor.errors import CallRefused, ChainError, TaskNotFound
from eigentensor.task.candidates import DRAWS, candidates
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.calls.interface import DrawnShare

_KNOWN = 256  # batches whose candidates are remembered
#: Who may answer for each share.
Candidates = list[frozenset[str]]


def drawn_seats(chain: Reader, life: BatchLife) -> tuple[bytes, list[tuple[str, int]]]:
    """The seed of a batch, and for each index 16 g + c who has the seat that it draws, since which block. Raises
    ChainError."""
    mix = chain.market.seed_of(life.seed_block)
    if mix is None or life.committed_at is None:
        raise ChainError("the seed is gone", fix="A reorganisation took it away; it will be recorded again.")
    seats = chain.channels.batch_at(life.batch).seats
    places = (economics.seat_of(mix, life.batch, index, seats) for index in range(DRAWS * life.shares))
    held = [chain.stake.seat_at(place) for place in places]
    return mix, [(seat.operator, seat.since) for seat in held]


class OwnDraws:
    """See `calls.interface.Draws`. `batches` says what is known now."""

    def __init__(self, chain: Reader, batches: Callable[[], Batches]) -> None:
        self._chain, self._batches = chain, batches
        self._known: OrderedDict[tuple[bytes, bytes], Candidates] = OrderedDict()
        self._lock = Lock()

    def drawn(self, batch: bytes, share: int, account: str) -> DrawnShare:
        """A share of an own batch whose seed is recorded. Raises TaskNotFound if there is none; CallRefused unless the
        account is a candidate of it, or the signer of one."""
        known = self._batches()
        life = known.pools.batches.get(batch)
        if life is None or not known.is_mine(life) or life.state is not BatchState.COMMITTED or life.mix is None:
            raise TaskNotFound("there is no such batch here, or it is not drawn yet, or over")
        if share >= life.shares:
            raise TaskNotFound(f"the batch has {life.shares} shares")
        may = self._candidates(life)[share]
        if account not in may and not any(self._chain.stake.signer_of(one)[0] == account for one in may):
            raise CallRefused(f"{account} is no candidate of the share, nor the signer of one", fix="Nobody else may.")
        return DrawnShare(known.pools.pool_of[batch], life.number, life.numbers(share))

    def _candidates(self, life: BatchLife) -> Candidates:
        assert life.mix is not None and life.committed_at is not None
        key = life.batch, life.mix
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
        _, drawn = drawn_seats(self._chain, life)
        executor, block = life.offer.operator, life.committed_at
        made = [
            frozenset(operator for _, operator in candidates(drawn[first : first + DRAWS], executor, block))
            for first in range(0, len(drawn), DRAWS)
        ]
        with self._lock:
            self._known[key] = made
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return made
