"""The apps of a running service: found anew for each request, held to what the service can do."""

from functools import lru_cache
from pathlib import Path
from threading import Lock

from eigentensor.errors import AppNotFound, ConfigError
from eigentensor.program import Program
from eigentensor.program.codec import decode
from eigentensor_client.files import Tensors
from eigentensor_client.orders import Terms
from eigentensor_client.tokenizer import Tokenizer
from eigentensor_models.text import tokenizer_of
from eigentensor_serve.apps.models import Model
from eigentensor_serve.apps.registry import App, Apps
from eigentensor_serve.backend import Ask
from eigentensor_serve.ledger import Budget
from eigentensor_serve.service import Service

_PROGRAMS = 64  # that stay in memory


class Deployed:
    """What is deployed in the service's data folder. Safe for several threads."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.apps = Apps(service.settings.data)
        self._lock = Lock()
        self._here: dict[str, Path] = {}
        self._programs: dict[str, Program] = {}

    def app(self, name: str, version: int | None = None) -> App:
        """An app that this service can answer for. Raises AppNotFound, ConfigError for one deployed elsewhere."""
        return self.held(self.apps.get(name, version))

    def held(self, app: App) -> App:
        """An app that was found, if this service can answer for it. Raises ConfigError."""
        domain = self.service.domain
        if domain is not None and (app.market is None or app.market.domain != domain):
            where = "this machine alone" if app.market is None else f"network {app.market.network}"
            raise ConfigError(
                f"app {app.name!r} is deployed for {where}, this service pays on network {self.service.network}",
                fix="Deploy it again with --network and --max-price.",
            )
        self._give(app)
        return app

    def model(self, word: str, kinds: tuple[type[Model], ...]) -> App:
        """The app that a request names as its model: NAME, or NAME@VERSION. Raises AppNotFound for another kind."""
        name, at, number = word.partition("@")
        if at and not (number.isdecimal() and number.isascii() and len(number) < 10):
            raise AppNotFound(f"there is no model {word!r}", fix="Write NAME, or NAME@VERSION.")
        app = self.app(name, int(number) if at else None)
        if not isinstance(app.model, kinds):
            raise AppNotFound(f"app {name!r} is no model for this route", fix="`GET /v1/models` names those there are.")
        return app

    def is_warm(self, app: App) -> bool:
        """Whether to ask for an app takes no longer than its inputs."""
        return app.program in self._programs and self._is_here(app) and self.service.backend.is_warm(app.program)

    def program(self, app: App) -> Program:
        """The program of an app."""
        return self._program(app.program)

    def reader(self, app: App) -> Program | None:
        """The program that reads for an app that writes, if it has one."""
        return None if app.reader is None else self._program(app.reader)

    def _program(self, uuid: str) -> Program:
        program = self._programs.get(uuid)
        if program is None:
            program = decode(self.apps.store.read(uuid))
            if len(self._programs) >= _PROGRAMS:
                self._programs.clear()
            self._programs[uuid] = program
        return program

    def tokenizer(self, app: App) -> Tokenizer:
        """The tokenizer of an app that is a model."""
        assert app.model is not None
        return _tokenizer(self.apps.store.read(app.model.tokenizer))

    def ask(
        self,
        app: App,
        program: Program,
        inputs: Tensors,
        variables: dict[str, int] | None = None,
        repeat: int = 1,
        states: str | None = None,
        uuid: str | None = None,
    ) -> Ask:
        """A task of an app, from its first states unless others are named; rows that are missing are filled up. `uuid`
        is that of the program if it is not the app's own.

        Raises BindingError for rows that it does not take.
        """
        inputs, cut = (inputs, None) if app.rows is None else app.rows.filled(inputs)
        return Ask(
            program=program,
            uuid=uuid or app.program,
            inputs=inputs,
            terms=app.terms or Terms(max_price=0),
            weights=app.weights,
            states=states or app.states or {},
            variables=variables or {},
            repeat=repeat,
            stage=app.stage,
            app=app.name,
            budget=None if app.budget is None else Budget(day=app.budget),
            cut=cut,
        )

    def _give(self, app: App) -> None:
        """Lets whatever executes find what the app is made of, as far as it is in the store of the apps."""
        if self._is_here(app):
            return
        here = self.service.store
        with self._lock:
            for blob in app.blobs:
                if blob in self.apps.store and blob not in here:
                    here.take(self.apps.store, blob)
                if blob in here:
                    self._here[blob] = here.path(blob)

    def _is_here(self, app: App) -> bool:
        here = self._here
        return all(blob in here and here[blob].exists() for blob in app.blobs)  # a cache may be emptied at any time


@lru_cache(maxsize=8)
def _tokenizer(data: bytes) -> Tokenizer:
    return tokenizer_of(data)
