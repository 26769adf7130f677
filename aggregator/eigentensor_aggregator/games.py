"""Games as the gateway lists them. One of them, move by move, is `eigentensor.chain.transcript`."""

from typing import cast

from eigentensor.schemas.games import ListedChallenge
from eigentensor_aggregator.tables import GameRow


def row(game: GameRow) -> ListedChallenge:
    """A game in a list."""
    said = {
        "game": game.game,
        "task": game.task,
        "executor": game.executor,
        "challenger": game.challenger,
        "state": game.state,
        "opened": game.opened_block,
    }
    return cast(ListedChallenge, said)
