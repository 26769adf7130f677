"""`eigentensor operator list`: who executes programs on a network, for clients."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from eigentensor_client.screen import short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import looking, pace_of

if TYPE_CHECKING:
    from eigentensor.chain import Deployment
    from eigentensor.pace import Pace
    from eigentensor_client.tables import Table

app = typer.Typer(rich_markup_mode=None)
DONE = "final"
FAILED = ("failed", "convicted")


@app.command("list")
def list_operators(network: options.NetworkName = None, json: options.Json = False) -> None:
    """List the operators of a network: stake, what they were paid lately and how fast, how their tasks ended."""
    with looking(network, json=json) as (screen, chosen, gateway):
        response = gateway.operators()
        shown = operators_table(response["operators"], chosen.deployment, pace_of(chosen))
        screen.result(response["schema"], response, shown)


def operators_table(listed: Sequence[Mapping[str, Any]], deployment: "Deployment", pace: "Pace") -> "Table":
    """Members first, those with most stake first."""
    ranked = sorted(listed, key=lambda o: (not o["member"], -int(o["stake"] or 0), o["operator"]))
    head = ("operator", "stake", "at most in a task", "seats", "lately paid", "result in", "final", "failed", "now")
    return table(head, [_row(operator, deployment, pace) for operator in ranked])


def _lately(lately: Mapping[str, Any] | None, tokens: "Callable[[str], str]", pace: "Pace") -> tuple[str, str]:
    """For what it worked, and how fast: as the chain has it, whatever those tasks were."""
    if lately is None:
        return "–", "–"
    blocks = lately["median_blocks"]
    return tokens(lately["median_price"]), "–" if blocks is None else pace.about(blocks) or pace.blocks(blocks)


def _row(operator: Mapping[str, Any], deployment: "Deployment", pace: "Pace") -> list[str]:
    from eigentensor_client.amounts import amount

    def tokens(wei: str | None) -> str:
        return "unknown" if wei is None else amount(int(wei), deployment)

    tasks = operator["tasks"]
    now = sum(tasks.values()) - sum(tasks.get(state, 0) for state in (DONE, *FAILED))
    return [
        short(operator["operator"]) if operator["member"] else f"{short(operator['operator'])} (left)",
        tokens(operator["stake"]),
        tokens(operator["stake_cap"]),
        str(operator["seats"]),
        *_lately(operator.get("lately"), tokens, pace),
        str(tasks.get(DONE, 0)),
        str(sum(tasks.get(state, 0) for state in FAILED)),
        str(now),
    ]
