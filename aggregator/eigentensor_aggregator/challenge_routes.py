"""Challenges and their games over HTTP."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from eigentensor.chain import transcript
from eigentensor_aggregator import answers, games
from eigentensor_aggregator.parts import Parts
from eigentensor_aggregator.problems import ChallengeNotFound
from eigentensor_aggregator.task_routes import task_name

Number = Annotated[int, Path(ge=1, lt=1 << 63, description="the game's number")]
Address = Annotated[str | None, Query(max_length=42)]


def router(parts: Parts) -> APIRouter:
    routes = APIRouter(prefix="/v1/challenges", tags=["challenges"])
    parameters = parts.network.deployment.parameters

    @routes.get("")
    def list_challenges(
        task: Annotated[str | None, Query(max_length=66)] = None,
        executor: Address = None,
        challenger: Address = None,
        state: Literal["open", "idle", "ended"] | None = None,
        cursor: Annotated[str | None, Query(pattern=r"^\d{1,15}-\d{1,9}$")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> dict[str, Any]:
        """Challenges, newest first. `next` is the cursor of the next page, null at the end."""
        block, _, index = (cursor or "").partition("-")
        rows = parts.queries.games(
            task=None if task is None else task_name(task),
            executor=answers.checksum(executor),
            challenger=answers.checksum(challenger),
            state=state,
            before=(int(block), int(index)) if cursor else None,
            limit=limit,
        )
        more = f"{rows[-1].opened_block}-{rows[-1].opened_index}" if len(rows) == limit else None
        said = [games.row(row) for row in rows]
        return {"schema": "eigentensor.challenges/1", "block": parts.daemon.block, "challenges": said, "next": more}

    @routes.get("/{number}")
    def read_challenge(number: Number) -> dict[str, Any]:
        """A whole game: who against whom, on what, every move with what it published, clocks, outcome, payouts."""
        view = parts.queries.task_of_game(number)
        if view is None:
            raise ChallengeNotFound(f"no game {number} in this market", fix="It may not be in a block yet.")
        state, block = view.state_of(view.games[number]), parts.daemon.block
        happened = parts.store.moves(view.task.hex())
        return transcript(number, happened, state=state, block=block, parameters=parameters)

    return routes
