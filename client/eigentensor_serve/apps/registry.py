"""What is deployed on this machine: apps by name, each in versions that never change, one of which is served.

    NAME/1.json, 2.json, …   a version each, written once
    NAME/current             the number of the version that is served
    .store/                  the blobs that apps are made of

A running `serve` reads a file when it is asked for an app: what changes here holds from the next request on.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any, Self

from eigentensor.errors import AppNotFound, BindingError, ConfigError
from eigentensor.store import LocalStore
from eigentensor.task.order import Domain
from eigentensor_client.files import write_whole
from eigentensor_client.orders import Terms
from eigentensor_serve.apps.models import Model, model_from_json
from eigentensor_serve.rows import Rows

SCHEMA = "eigentensor.app/1"
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Market:
    """Where an app's tasks are posted."""

    network: str
    domain: Domain

    def to_json(self) -> dict[str, Any]:
        """The member `market` of `eigentensor.app/1`."""
        return {"network": self.network, "chain_id": self.domain.chain_id, "market": self.domain.market}


@dataclass(frozen=True, slots=True)
class App:
    """One version of an app. Roots are hex, None where the program has no such part; amounts are wei.

    `market` and `terms` are None for an app that this machine executes itself; `budget` is what a day may cost;
    `rows` says of which inputs a request may have fewer rows than the program; `reader` is the program that reads for a
    model that writes, if it has one.
    """

    name: str
    version: int
    created: str  # RFC 3339
    program: str
    weights: str | None = None
    states: str | None = None
    model: Model | None = None
    market: Market | None = None
    terms: Terms | None = None
    stage: str = "result"
    budget: int | None = None
    rows: Rows | None = None
    reader: str | None = None

    def to_json(self) -> dict[str, Any]:
        """`eigentensor.app/1`, without what it takes and gives."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "version": self.version,
            "created": self.created,
            "program": self.program,
            "weights": self.weights,
            "states": self.states,
            "model": self.model and self.model.to_json(),
            "market": self.market and self.market.to_json(),
            "terms": self.terms and self.terms.to_json(),
            "stage": self.stage,
            "budget": None if self.budget is None else str(self.budget),
            "rows": self.rows and self.rows.to_json(),
            "reader": self.reader,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        market, terms, model, budget = (values[name] for name in ("market", "terms", "model", "budget"))
        return cls(
            *(str(values["name"]), int(values["version"]), str(values["created"]), str(values["program"])),
            weights=values["weights"],
            states=values["states"],
            model=None if model is None else model_from_json(model),
            market=None if market is None else _market(market),
            terms=None if terms is None else Terms.from_json(terms),
            stage=str(values["stage"]),
            budget=None if budget is None else int(budget),
            rows=Rows.from_json(rows) if (rows := values.get("rows")) else None,  # earlier versions had none
            reader=values.get("reader"),
        )

    @property
    def blobs(self) -> set[str]:
        """The names in the store of what it is made of."""
        parts = (self.program, self.reader, self.weights, self.states, self.model and self.model.tokenizer)
        return {part for part in parts if part}


class Apps:
    """The apps of one `serve`, in its data folder. Safe to use from several processes at once."""

    def __init__(self, data: Path) -> None:
        self.root = data / "apps"
        self.store = LocalStore(self.root / ".store")

    def add(self, app: App) -> App:
        """Deploys an app as the next version of its name, and serves it from now on. Raises BindingError for a name
        that cannot be part of a URL, ConfigError if nothing can be written."""
        if not NAME.fullmatch(app.name):
            raise BindingError(
                f"{app.name!r} is no name for an app",
                fix="Use up to 63 lowercase letters, digits and hyphens, the first and last no hyphen.",
            )
        try:
            (self.root / app.name).mkdir(parents=True, exist_ok=True)
            while True:
                app = replace(app, version=1 + max(self.versions(app.name), default=0))
                if _written(self._file(app.name, app.version), app.to_json()):
                    break  # else another process was faster: the next number
        except OSError as error:
            raise ConfigError(f"cannot write {self.root}: {error.strerror}", fix="Make room, or a folder.") from None
        self._serve(app)
        return app

    def versions(self, name: str) -> list[int]:
        """The numbers of all versions, rising; none for an app that is not there."""
        return sorted(int(p.stem) for p in (self.root / name).glob("*.json") if p.stem.isdecimal())

    def get(self, name: str, version: int | None = None) -> App:
        """An app's version, by default the one that is served. Raises AppNotFound, ConfigError for a broken file."""
        if not NAME.fullmatch(name):
            raise AppNotFound(f"no app is named {name!r}", fix="`eigentensor app list` names them.")
        try:
            number = int((self.root / name / "current").read_text()) if version is None else version
            path = self._file(name, number)
            status = path.stat()
            return _read(path, status.st_ino, status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            what = f"there is no app {name!r}" if version is None else f"app {name!r} has no version {version}"
            raise AppNotFound(what, fix="`eigentensor app list` shows what is deployed.") from None
        except (KeyError, OSError, TypeError, ValueError) as error:
            raise ConfigError(f"app {name!r} cannot be read: {error}", fix="Deploy it again.") from None

    def list(self) -> list[App]:
        """The served version of each app, by name."""
        apps = []
        for path in sorted(self.root.glob("*/current")):
            with suppress(AppNotFound):  # removed just now
                apps.append(self.get(path.parent.name))
        return apps

    def rollback(self, name: str, version: int | None = None) -> App:
        """Serves another version from now on, by default the one before. Raises AppNotFound."""
        if version is None:
            now = self.get(name).version
            before = [number for number in self.versions(name) if number < now]
            if not before:
                raise AppNotFound(f"app {name!r} has no version before {now}", fix="Name one with --to.")
            version = before[-1]
        app = self.get(name, version)
        self._serve(app)
        return app

    def remove(self, name: str) -> None:
        """Forgets all versions of an app, and what no other app is made of. Raises AppNotFound."""
        gone = [self.get(name, version) for version in self.versions(self.get(name).name)]
        hidden = self.root / f".{name}.{os.getpid()}"
        (self.root / name).replace(hidden)
        shutil.rmtree(hidden)
        names = (path.parent.name for path in self.root.glob("*/current"))
        used = {blob for other in names for v in self.versions(other) for blob in self.get(other, v).blobs}
        for blob in {blob for app in gone for blob in app.blobs} - used:
            self.store.discard(blob)

    def _serve(self, app: App) -> None:
        write_whole(self.root / app.name / "current", lambda file: file.write_text(f"{app.version}\n"))

    def _file(self, name: str, version: int) -> Path:
        return self.root / name / f"{version}.json"


@lru_cache(maxsize=64)
def _read(path: Path, *_: int) -> App:
    """A file that other processes may replace: what else it is called with changes then."""
    values = json.loads(path.read_bytes())
    if values["schema"] != SCHEMA:
        raise ValueError(f"it is of kind {values['schema']}")
    return App.from_json(values)


def _written(path: Path, values: Mapping[str, Any]) -> bool:
    """Writes a new file, whole or not at all; False if there is one of this name already."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    try:
        temporary.write_text(json.dumps(values, indent=1) + "\n")
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _market(values: Mapping[str, Any]) -> Market:
    return Market(str(values["network"]), Domain(int(values["chain_id"]), str(values["market"])))
