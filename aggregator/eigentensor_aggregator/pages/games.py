"""Disputes: the list of games, and each game with its trees, live while it is played and move by move afterwards."""

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from eigentensor.chain.game_words import disputed_body, disputed_call
from eigentensor.dispute.position import Reason
from eigentensor.errors import EigenTensorError
from eigentensor.task import Ended, Life
from eigentensor.web.pages.site import Site
from eigentensor_aggregator import operators
from eigentensor_aggregator.pages.replays import Shown, moves_of, shown
from eigentensor_aggregator.parts import ADDRESS, NAME, Cursor, Parts, place_of, task_name
from eigentensor_aggregator.problems import ChallengeNotFound

PAGE = 50  #: games of a page of the list


def router(parts: Parts, site: Site) -> APIRouter:
    """`/games` and `/games/{number}`."""
    routes = APIRouter()

    @routes.get("/games")
    def list_games(
        request: Request,
        task: Annotated[str | None, Query(pattern=NAME)] = None,
        executor: Annotated[str | None, Query(pattern=ADDRESS)] = None,
        challenger: Annotated[str | None, Query(pattern=ADDRESS)] = None,
        state: Annotated[Literal["open", "idle", "ended"] | None, Query()] = None,
        cursor: Cursor = None,
    ) -> Response:
        """Games, newest first."""
        rows = parts.queries.games(
            task=None if task is None else task_name(task),
            executor=operators.checksum(executor),
            challenger=operators.checksum(challenger),
            state=state,
            before=place_of(cursor),
            limit=PAGE,
        )
        following = None
        if len(rows) == PAGE:
            more = {"cursor": f"{rows[-1].opened_block}-{rows[-1].opened_index}"}
            following = str(request.url.include_query_params(**more).query)
        return site.page(request, "games.html", games=rows, state=state, cursor=cursor, following=following)

    @routes.get("/games/{number}")
    def read_game(
        request: Request,
        number: Annotated[int, Path(ge=1, lt=1 << 63)],
        move: Annotated[int | None, Query(ge=1)] = None,
    ) -> Response:
        """A game as it is now, or as it was after one of its moves."""
        life = parts.queries.task_of_game(number)
        if life is None:
            raise ChallengeNotFound(f"no game {number} in this market", fix="It may not be in a block yet.")
        page = _shown(parts, life, number, move)
        body = _body(parts, life, page)
        return site.page(request, "game.html", page=page, body=body, live=move is None and page.game["state"] == "open")

    return routes


def _shown(parts: Parts, life: Life, number: int, move: int | None) -> Shown:
    happened = parts.store.moves(life.uuid.hex())
    moves = moves_of(happened, number)
    if not moves or (move or 1) > len(moves):
        raise ChallengeNotFound(f"game {number} has {len(moves)} moves", fix=f"Look at /games/{number}.")
    judged, last = None, moves[-1]
    if isinstance(last, Ended) and last.reason is Reason.VERDICT:
        judged = parts.judgements.of(last)
    now = parts.clock.now()
    return shown(life, happened, number, move or len(moves), block=now.block, pace=now.pace, judged=judged)


def _body(parts: Parts, life: Life, page: Shown) -> list[str]:
    """The text of the disputed call's body; empty while no call is disputed, or where the program is not here."""
    number = disputed_call(page.game) if page.verdict is None else page.verdict.call
    if number is not None:
        with suppress(EigenTensorError):  # the program is nowhere, or is none
            return disputed_body(parts.programs.of(life.order.program.hex()), number)
    return []
