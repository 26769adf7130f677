"""How tasks, results and plans look: as JSON objects and as lines."""

from typing import Any

from rich.table import Table

from eigentensor import economics
from eigentensor.chain import Failed, Network, Posted, Revealed, State, from_wei
from eigentensor_client.orders import waits_for
from eigentensor_client.results import Plan, TaskResult, TaskView
from eigentensor_client.screen import short, table

_HELP = {
    "price": "a higher --max-price",
    "exec": "more blocks for the execution: --exec",
    "deadline": "more time for the acceptance: --accept-within",
    "busy": "patience: operators are busy with other tasks",
    "silent": "patience: some operators have said nothing yet",
    "data": "upload the program and its tensors again: post the order anew",
}


class Show:
    """Amounts in the network's token."""

    def __init__(self, network: Network) -> None:
        self._deployment = network.deployment

    def amount(self, wei: int) -> str:
        return f"{from_wei(wei, self._deployment.token_decimals)} {self._deployment.token_symbol}"

    def task(self, task: TaskView) -> dict[str, Any]:
        """`eigentensor.task/1`, as the gateway says it too: amounts in wei as decimal strings, times in blocks."""
        parameters = self._deployment.parameters
        has_result = task.state in (State.REVEALED, State.FINAL)
        collateral = None if task.price is None else str(economics.collateral(parameters, task.price))
        places = [{"block": e.place.block, "transaction": "0x" + e.place.transaction.hex()} for e in task.events]
        return {
            "task": task.uuid,
            "state": task.state.name.lower(),
            "checked": task.checked if has_result else None,
            "waits_for": None if task.state.is_terminal else waits_for(task),
            "deadline": (task.order.accept_by if task.state is State.OPEN else task.deadline) or None,
            "block": task.block,
            "client": task.order.client,
            "executor": task.executor,
            "price": None if task.price is None else str(task.price),
            "collateral": collateral,
            "penalty": next((str(e.penalty) for e in task.events if isinstance(e, Failed)), None),
            "outputs_root": next((e.outputs_root.hex() for e in task.events if isinstance(e, Revealed)), None),
            "posted": next((p for e, p in zip(task.events, places, strict=True) if isinstance(e, Posted)), None),
            "order": task.order.to_json(),
            "events": [{"event": type(e).__name__, **p} for e, p in zip(task.events, places, strict=True)],
        }

    def task_lines(self, task: TaskView) -> list[str]:
        lines = [f"task      {task.uuid}", f"state     {task.words}"]
        if task.executor:
            lines.append(f"executor  {task.executor}")
        price = f"at most {self.amount(task.order.max_price)}" if task.price is None else self.amount(task.price)
        lines.append(f"price     {price}")
        for event in task.events:
            name = type(event).__name__.lower()
            lines.append(
                f"{name:<9} block {event.place.block}, transaction {short('0x' + event.place.transaction.hex())}"
            )
        if not task.state.is_terminal:
            lines.append(f"waits for {waits_for(task)}; now block {task.block}")
        return lines

    def result(self, result: TaskResult) -> dict[str, Any]:
        """`eigentensor.result/1`: the task, and what its tensors are."""
        tensors = {
            name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in result.outputs.items()
        }
        return {"task": self.task(result.task), "outputs_root": result.outputs_root.hex(), "outputs": tensors}

    def explanation(self, said: dict[str, Any]) -> list[str | Table]:
        """Operator by operator why a task is not accepted, and what would help."""
        rows = [[short(o["operator"]), o["reason"], o["needed"] or "–", o["offered"] or "–"] for o in said["operators"]]
        lines: list[str | Table] = []
        if said["state"] == "open":
            now, most = (self.amount(int(said["price"][key])) for key in ("now", "maximum"))
            lines.append(f"price     {now} now, at most {most}")
        if not rows:
            return [*lines, "operators none has joined this market"]
        lines.append(table(("operator", "says", "needed", "offered"), rows))
        reasons = {o["reason"] for o in said["operators"]} if said["state"] == "open" else set()
        lines += [f"helps     {_HELP[reason]}" for reason in sorted(reasons & _HELP.keys())]
        return lines

    def plan(self, plan: Plan) -> dict[str, Any]:
        """`eigentensor.plan/1`: amounts in wei as decimal strings, times in blocks, sizes in bytes."""
        amounts = ("min_price", "max_price", "escrow", "collateral", "penalty", "balance", "tokens")
        counts = ("calls", "evaluations", "upload", "memory", "results", "repeat", "exec", "accept_within")
        return (
            {"program": plan.program}
            | {name: getattr(plan, name) for name in (*counts, "final_after", "operators", "affordable")}
            | {name: str(getattr(plan, name)) for name in amounts}
            | {"checks": None}
        )

    def plan_lines(self, plan: Plan) -> list[str]:
        ramp = "" if plan.min_price == plan.max_price else f"{self.amount(plan.min_price)} rising to "
        supply = "unknown: the gateway does not answer" if plan.operators is None else str(plan.operators)
        return [
            f"program   {plan.program}",
            f"work      {plan.evaluations:,} evaluations in {plan.calls:,} calls",
            f"bytes     {plan.upload:,} up, {plan.results:,} down; {plan.memory:,} in memory",
            f"price     {ramp}{self.amount(plan.max_price)}: the cap, held in escrow; the rest comes back",
            f"funds     {self.amount(plan.balance)} in the market, {self.amount(plan.tokens)} in the wallet",
            f"operators {supply}",
            f"time      accepted within {plan.accept_within} blocks, executed within {plan.exec}, "
            f"final {plan.final_after} blocks after the result",
            f"at stake  the executor holds {self.amount(plan.collateral)}; "
            f"it loses {self.amount(plan.penalty)} if it accepts and gives no result",
            "checks    none: nobody re-executes results yet; a final task is unchecked",
        ]
