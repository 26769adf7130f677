"""Games as the gateway lists them. One of them, move by move, is `eigentensor.chain.transcript`."""

from typing import Any

from eigentensor_aggregator.tables import GameRow


def row(game: GameRow) -> dict[str, Any]:
    """A game in a list."""
    return {
        "game": game.game,
        "task": game.task,
        "executor": game.executor,
        "challenger": game.challenger,
        "state": game.state,
        "opened": game.opened_block,
    }
