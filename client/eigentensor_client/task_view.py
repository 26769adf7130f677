"""A task as its client sees it."""

from dataclasses import dataclass

from eigentensor.pace import UNKNOWN, Pace
from eigentensor.task import Life, Order, State, TaskEvent, words
from eigentensor_client.notebook import facts, tokens


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as the chain shows it in a block. `price` is what the executor gets at most, `stake` what a conviction
    takes of its stake, in wei. `drawn` is None while the seed is not recorded; `answered`, `agreed` and `differed`
    count verifiers; `games` are the open ones; `events` are in order."""

    life: Life
    block: int

    def __repr__(self) -> str:
        return f"<TaskView {self.uuid[:10]}: {self.words}>"

    def _repr_html_(self) -> str:
        return facts(f"task {self.uuid[:10]}", self.rows())

    def rows(self, pace: Pace = UNKNOWN) -> list[tuple[str, object]]:
        """Names and what a notebook shows for them; times at the pace of its chain, if that is known."""
        paid = f"{tokens(self.price)} of at most {tokens(self.order.max_price)}" if self.price is not None else ""
        waits = "" if self.state.is_terminal else words.waits_for(self.life, self.block, pace)
        return [
            ("state", self.words),
            ("price", paid or f"at most {tokens(self.order.max_price)}"),
            ("executor", self.executor),
            ("waits for", waits),
            ("as of", f"block {self.block}"),
        ]

    @property
    def uuid(self) -> str:
        """The task's name: 64 hex digits."""
        return self.life.uuid.hex()

    @property
    def order(self) -> Order:
        """What the client signed."""
        return self.life.order

    @property
    def state(self) -> State:
        """The contract's state of the task."""
        return self.life.state

    @property
    def executor(self) -> str | None:
        """The operator that accepted it; None before."""
        return self.life.executor

    @property
    def price(self) -> int | None:
        """Wei for the executor, fixed by its acceptance; None before."""
        return self.life.price

    @property
    def saved(self) -> int | None:
        """Wei of the highest price that its own leaves the client; None before the acceptance."""
        return None if self.price is None else self.order.max_price - self.price

    @property
    def stake(self) -> int | None:
        """Wei of stake that a conviction takes; None before the acceptance."""
        return self.life.stake

    @property
    def deadline(self) -> int | None:
        """The last block of what it waits for; None at the end."""
        return self.life.deadline

    @property
    def drawn(self) -> bool | None:
        """Whether it was drawn for a check; None while the seed is not recorded."""
        return self.life.drawn

    @property
    def answered(self) -> int:
        """How many verifiers answered."""
        return len(self.life.answers)

    @property
    def agreed(self) -> int:
        """How many verifiers revealed the executor's root."""
        return self.life.agreed

    @property
    def differed(self) -> int:
        """How many verifiers revealed another root."""
        return len(self.life.differing)

    @property
    def games(self) -> tuple[int, ...]:
        """The numbers of open games about its result."""
        return self.life.open_games

    @property
    def events(self) -> tuple[TaskEvent, ...]:
        """The task's events, in order."""
        return tuple(event for event in self.life.events if isinstance(event, TaskEvent))

    @property
    def checked(self) -> str | None:
        """`checked(k)`: k verifiers re-executed it and agree; `unchecked`: nobody did; None: not known yet."""
        return words.checked(self.life.counts)

    @property
    def words(self) -> str:
        """Where it stands, in the words of the glossary."""
        return words.standing(self.life.counts)

    @property
    def waits_for(self) -> str:
        """What it waits for now, in words, with the block by which it comes."""
        return words.waits_for(self.life, self.block) or "nothing"
