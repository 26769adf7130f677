"""The windows of a check, of a task as of a batch of calls; `Lives` and `Batches` in Solidity by the same names."""

from abc import ABC, abstractmethod

from eigentensor import economics
from eigentensor.economics import Parameters


class Windows(ABC):
    """Last blocks, of what was committed in `committed_at` and may take `exec` blocks to be executed."""

    __slots__ = ()
    parameters: Parameters
    committed_at: int | None
    revealed_at: int | None

    @property
    @abstractmethod
    def exec(self) -> int:
        """Blocks that an execution may take."""

    @property
    def seed_block(self) -> int:
        """S: the block whose randomness decides what is checked, and by whom."""
        assert self.committed_at is not None
        return economics.seed_block(self.committed_at, self.parameters.lag, self.parameters.grid)

    @property
    def record_by(self) -> int:
        """The last block for the record of the seed."""
        return self.seed_block + self.parameters.record

    @property
    def check_by(self) -> int:
        """The last block of an answer. Before it what is drawn is revealed only if nobody is left that may answer."""
        return self.seed_block + economics.check_window(self.parameters, self.exec)

    @property
    def reveal_by(self) -> int:
        """The last block of the executor's reveal."""
        return self.seed_block + economics.reveal_window(self.parameters, self.exec)

    @property
    def answers_by(self) -> int:
        """The last block in which verifiers open their answers."""
        return (self.revealed_at or self.reveal_by) + self.parameters.reveal
