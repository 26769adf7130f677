"""The programs of an app that writes."""

from dataclasses import dataclass
from typing import Self

from eigentensor.program import Program
from eigentensor_client.writing import RECENT
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.registry import App


@dataclass(frozen=True, slots=True)
class Programs:
    """The one that writes, and the one that reads, if there is one."""

    app: App
    writer: Program
    reader: Program | None

    @classmethod
    def of(cls, deployed: Deployed, app: App) -> Self:
        """As they are deployed."""
        return cls(app, deployed.program(app), deployed.reader(app))

    @property
    def chunk(self) -> int:
        """How many positions are read at once."""
        return self.reader.variables[0].stride if self.reader else 1

    def by(self, stride: int) -> tuple[Program, str]:
        """The one that reads so much at once, and its uuid."""
        if stride == 1:
            return self.writer, self.app.program
        assert self.reader is not None and self.app.reader is not None
        return self.reader, self.app.reader

    @property
    def goes_back(self) -> bool:
        """Whether states that have read more will do."""
        return not any(name.startswith(RECENT) for name in self.writer.new_states)
