"""What an operator shows of a committed batch: roots of shares, parts of them, single calls and leaves of their
inputs. Out of the calls that it keeps, and the lines that the chain has; nothing is sent here."""

from collections.abc import Mapping, Sequence

from eigentensor import merkle
from eigentensor.chain import LeafProof
from eigentensor.channel import CallPlace, LineProof, Part, open_line, share_root
from eigentensor.channel.life import BatchLife, CallDemand
from eigentensor.channel.lines import CallProof, open_part
from eigentensor.errors import BlobNotFound
from eigentensor.program import Role
from eigentensor.tracing import Flat
from eigentensor_operator.calls.interface import Call, Calls
from eigentensor_operator.data import Flats, prove


class Shown:
    """One batch, of the pool whose calls are asked for when they are needed."""

    def __init__(self, calls: Calls, pool: bytes, life: BatchLife) -> None:
        self._source, self._life = calls, life
        self._calls: Sequence[Call] = calls.calls_of(pool, life.number)

    def root(self, share: int) -> bytes:
        """The root of a share."""
        return share_root([self._call(number).receipt.outputs_root for number in self._life.numbers(share)])

    def part(self, share: int, number: int) -> Part:
        """A part of a share that is to be justified."""
        places = [self.place(one) for one in self._life.numbers(share)]
        return open_part(share, number, [(place.line, place.call) for place in places])

    def place(self, number: int) -> CallPlace:
        """A call, by its number in the batch, with all that leads to it."""
        call, position = self._call(number), self._life.line_of(number)
        receipt = call.receipt
        proof = CallProof(receipt.index, receipt.order, receipt.outputs_root, self._path(position, receipt.index))
        return CallPlace(open_line(self._life.lines, position), proof, call.order)

    def variables(self, number: int) -> Mapping[str, int]:
        """What the order of a call binds to variables."""
        return self._call(number).variables

    def proofs(self, demand: CallDemand) -> list[LeafProof]:
        """What shows the leaves of a call's inputs, or of its states, that are demanded."""
        if not demand.leaves:
            return []
        bound = self._source.bound_of(self._call(demand.number).receipt.order)
        flats: dict[bool, Flats] = {
            is_state: {
                name: Flat(buffer.dtype, bound.tensors[name].reshape(-1))
                for name, buffer in bound.program.named(Role.STATE if is_state else Role.INPUT).items()
            }
            for is_state in (False, True)
        }
        return [prove(leaf, flats[leaf.state], {}) for leaf in demand.leaves]

    def _path(self, position: int, index: int) -> tuple[bytes, ...]:
        line = self._life.lines[position]
        return tuple(merkle.path(self._source.leaves_of(line.channel)[: line.first + line.count], index))

    def _call(self, number: int) -> Call:
        if number >= len(self._calls):
            raise BlobNotFound(f"call {number} of batch {self._life.batch.hex()} is not kept")
        return self._calls[number]


def lines(life: BatchLife, positions: Sequence[int]) -> list[LineProof]:
    """Lines of a batch with their ways to its root."""
    return [open_line(life.lines, position) for position in positions]
