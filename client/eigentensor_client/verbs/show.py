"""How tasks, results and plans look: as JSON objects and as lines."""

from typing import Any

from eigentensor.chain import Network, from_wei
from eigentensor_client.orders import waits_for
from eigentensor_client.results import Plan, TaskResult, TaskView
from eigentensor_client.screen import short


class Show:
    """Amounts in the network's token."""

    def __init__(self, network: Network) -> None:
        self._deployment = network.deployment

    def amount(self, wei: int) -> str:
        return f"{from_wei(wei, self._deployment.token_decimals)} {self._deployment.token_symbol}"

    def task(self, task: TaskView) -> dict[str, Any]:
        """`eigentensor.task/1`: amounts in wei as decimal strings."""
        return {
            "uuid": task.uuid,
            "state": task.state.name.lower(),
            "checked": task.checked,
            "executor": task.executor,
            "price": None if task.price is None else str(task.price),
            "max_price": str(task.order.max_price),
            "program": task.order.program.hex(),
            "block": task.block,
            "deadline": task.deadline or None,
            "order": task.order.to_json(),
            "events": [
                {
                    "event": type(event).__name__,
                    "block": event.place.block,
                    "transaction": "0x" + event.place.transaction.hex(),
                }
                for event in task.events
            ],
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
