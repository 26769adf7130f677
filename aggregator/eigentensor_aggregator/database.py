"""Connections to a database whose tables have the present schema."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, event
from sqlmodel import Session, create_engine

#: Makes a transaction, committed when its `with` block ends well.
Sessions = Callable[[], AbstractContextManager[Session]]


def connect(url: str) -> Engine:
    """Connects, and creates or upgrades the tables."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
    upgrade(engine)
    return engine


def upgrade(engine: Engine) -> None:
    """Brings the tables to the present schema."""
    with as_file(files("eigentensor_aggregator") / "migrations") as folder, engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _configure_sqlite(connection: object, _: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
