"""Shows games as they change: drawn anew in a terminal, their news by lines elsewhere, as objects with `--json`."""

from collections.abc import Iterator
from contextlib import contextmanager

from eigentensor_client import games
from eigentensor_client.games import Game, Here
from eigentensor_client.screen import Screen, View


class Following:
    """One game as its player sees it, or one or many as somebody who looks on does."""

    def __init__(self, screen: Screen, view: View, here: Here) -> None:
        self._screen = screen
        self._view = view
        self.here = here
        self._last: dict[int, Game] = {}

    def one(self, game: Game, doing: str = "") -> None:
        """Shows a game as it is now."""
        self._view(games.drawn(game, self.here), self._news(game), doing)

    def many(self, found: list[Game], doing: str = "") -> None:
        """Shows games as they are now, those that were open when one looked last included."""
        news = [f"game {game['game']}: {line}" for game in found for line in self._news(game)]
        self._view([games.overview(found, self.here)] if found else [], news, doing)

    def _news(self, game: Game) -> list[str]:
        before = self._last.get(game["game"])
        news = games.news(before, game, self.here)
        if news:
            self._last[game["game"]] = game
            self._screen.result(game["schema"], game)
        return news


@contextmanager
def following(screen: Screen, here: Here) -> Iterator[Following]:
    """Until the block ends."""
    with screen.view() as view:
        yield Following(screen, view, here)
