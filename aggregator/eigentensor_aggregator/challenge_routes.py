"""Challenges and their games over HTTP."""

from typing import Annotated, Literal, cast

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from eigentensor.chain.transcript import transcript
from eigentensor.schemas.games import Challenge, Challenges, ListedChallenge
from eigentensor.task import Opened
from eigentensor.web.documents import refused, response
from eigentensor_aggregator import operators
from eigentensor_aggregator.parts import ADDRESS, NAME, Cursor, Limit, Parts, place_of, task_name
from eigentensor_aggregator.problems import ChallengeNotFound
from eigentensor_aggregator.tables import GameRow

Number = Annotated[int, Path(ge=1, lt=1 << 63, description="the game's number")]


def router(parts: Parts) -> APIRouter:
    """The routes about challenges."""
    routes = APIRouter(prefix="/v1/challenges", tags=["challenges"])
    parameters = parts.network.deployment.parameters

    @routes.get("", responses=response(Challenges, "A page of games"))
    def list_challenges(
        task: Annotated[str | None, Query(pattern=NAME, description="only those about this task")] = None,
        executor: Annotated[str | None, Query(pattern=ADDRESS, description="only those against it")] = None,
        challenger: Annotated[str | None, Query(pattern=ADDRESS, description="only those of it")] = None,
        state: Annotated[Literal["open", "idle", "ended"] | None, Query(description="only those in it")] = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> JSONResponse:
        """Challenges, newest first. `next` is the cursor of the next page, null at the end."""
        rows = parts.queries.games(
            task=None if task is None else task_name(task),
            executor=operators.checksum(executor),
            challenger=operators.checksum(challenger),
            state=state,
            before=place_of(cursor),
            limit=limit,
        )
        more = f"{rows[-1].opened_block}-{rows[-1].opened_index}" if len(rows) == limit else None
        page: Challenges = {
            "schema": "eigentensor.challenges/1",
            "block": parts.daemon.block,
            "challenges": [_listed(row) for row in rows],
            "next": more,
        }
        return JSONResponse(page)

    @routes.get("/{number}", responses=response(Challenge, "The game") | refused(404))
    def read_challenge(number: Number) -> JSONResponse:
        """A whole game: who against whom, on what, every move with what it published, clocks, outcome, payouts."""
        life = parts.queries.task_of_game(number)
        missing = ChallengeNotFound(f"no game {number} in this market", fix="It may not be in a block yet.")
        if life is None:
            raise missing
        state, block = life.state_of(life.games[number]), parts.daemon.block
        happened = parts.store.moves(life.uuid.hex())
        if not any(isinstance(event, Opened) and event.game_id == number for event, _ in happened):
            raise missing  # a reorganisation took it just now
        return JSONResponse(transcript(number, happened, state=state, block=block, parameters=parameters))

    return routes


def _listed(game: GameRow) -> ListedChallenge:
    listed = {
        "game": game.game,
        "task": game.task,
        "executor": game.executor,
        "challenger": game.challenger,
        "state": game.state,
        "opened": game.opened_block,
    }
    return cast(ListedChallenge, listed)
