"""One work as one task after the other, until one of them has a result."""

from collections.abc import Callable
from dataclasses import dataclass, field

from eigentensor.errors import ExecutorConvicted, ExecutorFailed, NobodyAccepted
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Report, silent

#: Ends of a task after which its whole escrow is back: the same work may be asked for again, within the same cap.
ENDS = (NobodyAccepted, ExecutorFailed, ExecutorConvicted)


@dataclass(slots=True)
class Attempts:
    """`current` has the task under way and no other; `earlier` are those that ended without a result, by their uuids.
    At most `retries` times `again` posts another one; `report` hears of it."""

    current: list[TaskView]
    again: Callable[[TaskView], TaskView]
    retries: int = 0
    report: Report = silent
    earlier: list[str] = field(default_factory=list)

    def go_on(self, error: NobodyAccepted | ExecutorFailed | ExecutorConvicted) -> None:
        """Posts another task in the place of the one that ended so; raises the error once that is done with."""
        if len(self.earlier) >= self.retries:
            raise error
        (task,) = self.current
        self.current[0] = self.again(task)
        self.earlier.append(task.uuid)
        count = f"retry {len(self.earlier)} of {self.retries}"
        self.report(f"{error.what}; posted again as task {self.current[0].uuid}, {count}")
