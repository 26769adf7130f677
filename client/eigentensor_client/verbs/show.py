"""How tasks and results look: as JSON objects and as lines."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from eigentensor import economics
from eigentensor.chain import Network
from eigentensor.economics import Parameters
from eigentensor.pace import Pace
from eigentensor.task import (
    Answered,
    Ended,
    GameEnded,
    Moved,
    Noted,
    Opened,
    StakeSlashed,
    State,
    TaskEvent,
    Unlocked,
    view,
)
from eigentensor.task.words import waits_for
from eigentensor_client.amounts import Amount, amount, percent
from eigentensor_client.remedies import Remedy, opinions_of, ranked, remedies_of
from eigentensor_client.screen import facts, short, table
from eigentensor_client.stages import conviction, words
from eigentensor_client.tables import Table
from eigentensor_client.task_view import TaskView

if TYPE_CHECKING:
    from eigentensor.task import objects as schemas
    from eigentensor_client.results import TaskResult

#: What other events, or the screens about games, tell in words.
_OMITTED = (Opened, Moved, Ended, Noted, StakeSlashed, Unlocked)


class Show:
    """Amounts in the network's token, times at the pace of its chain, which is asked for where one is shown."""

    def __init__(self, network: Network, pace: Callable[[], Pace] = Pace) -> None:
        self._deployment = network.deployment
        self._pace = pace

    def amount(self, wei: int) -> str:
        """Wei in whole tokens, with the symbol."""
        return amount(wei, self._deployment)

    def task(self, task: TaskView) -> "schemas.Task":
        """The task as its client sees it."""
        return view.whole(task.life, task.block)

    def task_lines(self, task: TaskView) -> list[str | Table]:
        """A task for people: where it stands, and its events."""
        order, price = task.order, task.price
        rows = [["task", task.uuid], ["state", task.words]]
        if not task.state.is_terminal:
            rows.append(["waits for", f"{self._waits_for(task)}; now block {task.block}"])
        if task.executor:
            rows.append(["executor", task.executor])
        rows.append(["price", f"at most {self.amount(order.max_price)}" if price is None else self._paid(task, price)])
        if task.life.committed_at is not None:
            rows.append(["draw", self._draw(task)])
        for event in task.events:
            if not isinstance(event, _OMITTED):
                rows.append([_name(event), f"block {event.place.block}  {words(event, self.amount, self._pace())}"])
        return [facts(rows)]

    def _paid(self, task: TaskView, price: int) -> str:
        if not task.saved or task.state not in (State.REVEALED, State.FINAL):
            return self.amount(price)
        return f"{self.amount(price)} of at most {self.amount(task.order.max_price)}: {self.amount(task.saved)} saved"

    def tasks_table(self, tasks: Sequence[TaskView]) -> Table:
        """Tasks, a line each."""
        rows = [
            [
                task.uuid[:10],
                task.words,
                self.amount(task.order.max_price if task.price is None else task.price),
                short(task.executor) if task.executor else "–",
                "–" if task.state.is_terminal else self._waits_for(task),
            ]
            for task in tasks
        ]
        return table(("task", "state", "price", "executor", "waits for"), rows)

    def event_line(self, event: TaskEvent) -> str:
        """An event on one line."""
        return f"block {event.place.block}  {_name(event)}  {words(event, self.amount, self._pace())}".rstrip()

    def result_lines(self, result: "TaskResult") -> list[str | Table]:
        """A result for people: its task, and those that ended without one before."""
        earlier = [["retries", f"after {', '.join(map(short, result.earlier))} ended without a result"]]
        return [*self.task_lines(result.task), *([facts(earlier)] if result.earlier else [])]

    def explanation(self, task: TaskView, response: dict[str, Any]) -> list[str | Table]:
        """Why a task is where it is. Until somebody accepts it, and where nobody did: what each operator says, and what
        would help; later: draw and windows."""
        rows = [["task", task.uuid], ["state", task.words], ["waits for", self._waits_for(task)]]
        if task.state in _UNACCEPTED:
            now, most = (self.amount(int(response["price"][key])) for key in ("now", "maximum"))
            rows.append(["price", f"{now} now, at most {most}" if task.state is State.OPEN else f"at most {most}"])
            return [facts(rows), *opinions(task, response, self._deployment.parameters, self.amount)]
        if task.life.committed_at is not None:
            rows.append(["draw", self._draw(task)])
        rows += [["answer", words(e, self.amount)] for e in task.events if isinstance(e, Answered)]
        rows += [[f"game {number}", f"open: `eigentensor challenge show {number}`"] for number in task.games]
        rows += [[f"game {e.game_id}", words(e, self.amount)] for e in task.events if isinstance(e, GameEnded)]
        if task.executor and not task.state.is_terminal:
            rows += self._windows(task)
        if task.state is State.CONVICTED:
            rows.append(["convicted", conviction(task, self.amount)])
        if (payable := response.get("payable_from")) is not None:
            first = self._block(task, payable)
            rows.append(["slashed", f"who found it is paid from {first} on, when EigenLayer releases it"])
        return [facts(rows)]

    def _windows(self, task: TaskView) -> list[list[str]]:
        p = self._deployment.parameters
        windows = [["now", f"block {task.block}"]]
        if task.state is State.COMMITTED:
            if task.drawn is not False:
                until = self._block(task, task.life.check_by)
                windows.append(["answers", f"until {until}{', if it is drawn' * (task.drawn is None)}"])
            windows.append(["reveal", f"until {self._block(task, task.life.reveal_by)}"])
        if task.state is State.REVEALED:
            bond = self.amount(economics.bond(p, task.price or 0))
            until = self._block(task, task.life.challenge_by)
            windows.append(["challenges", f"until {until}, by anybody with a bond of {bond}"])
        return windows

    def _block(self, task: TaskView, number: int) -> str:
        return self._pace().block(number, task.block)

    def _waits_for(self, task: TaskView) -> str:
        return waits_for(task.life, task.block, self._pace()) or "nothing"

    def _draw(self, task: TaskView) -> str:
        rate, block = percent(task.order.check_rate), self._block(task, task.life.seed_block)
        match task.drawn:
            case None:
                return f"{block} decides, {rate} of such tasks are checked"
            case False:
                return f"{block}: not drawn ({rate} of such tasks are)"
        counts = f"{task.answered} answered, {task.agreed} agree, {task.differed} differ"
        return f"{block}: drawn, to be checked by {task.order.verifiers}; {counts}"

    def explained(self, task: TaskView, response: dict[str, Any]) -> "schemas.Explanation":
        """What the gateway says, what would help with each operator and most, the task."""
        helps = helped(task, response, self._deployment.parameters, self.amount)
        return cast("schemas.Explanation", helps | {"now": self.task(task)})


def _name(event: TaskEvent) -> str:
    return re.sub("(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()


_WEI = re.compile(r"(\d+) wei")
_HEAD = ("operator", "says", "needed", "offered", "would help")


#: Where operators may say, or said, why they do not accept.
_UNACCEPTED = (State.OPEN, State.EXPIRED, State.CANCELLED)


def helped(task: TaskView, response: dict[str, Any], p: Parameters, amount: Amount) -> dict[str, Any]:
    """What the gateway says, with `helps` beside each operator, and for all of them together."""
    remedies = _remedies(task, response, p, amount)
    texts = {name: remedy.text for name, remedy in remedies.items()}
    operators = [dict(o) | {"helps": texts.get(o["operator"])} for o in opinions_of(response)]
    return response | {"operators": operators, "helps": ranked(remedies)}


def opinions(task: TaskView, response: dict[str, Any], p: Parameters, amount: Amount) -> list[str | Table]:
    """A line for each operator; the last one says what helps most."""
    remedies, rows = _remedies(task, response, p, amount), []
    for o in opinions_of(response):
        remedy = remedies.get(o["operator"])
        amounts = (_read(o.get(name), amount) for name in ("needed", "offered"))
        rows.append([short(o["operator"]), o["reason"], *amounts, remedy.text if remedy else "–"])
    if not rows:
        return ["operators  none has joined this market"]
    helps = "; or ".join(ranked(remedies))
    return [table(_HEAD, rows), *([facts([["helps", helps]])] if helps else [])]


def _remedies(task: TaskView, response: dict[str, Any], p: Parameters, amount: Amount) -> dict[str, Remedy]:
    """Of each operator that has not accepted; none where somebody has."""
    if task.state not in _UNACCEPTED:
        return {}
    return remedies_of(opinions_of(response), task.order, p, amount, over=task.state is not State.OPEN)


def _read(text: str | None, amount: Amount) -> str:
    return amount(int(match[1])) if (match := _WEI.fullmatch(text or "")) else text or "–"
