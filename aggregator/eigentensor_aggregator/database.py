"""Connections to a database whose tables have the present schema."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import as_file, files
from itertools import islice
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from pydantic_core import to_json
from sqlalchemy import JSON, Connection, Engine, Table, event, insert, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlmodel import Session, create_engine

from eigentensor.errors import ConfigError

#: Makes a transaction, committed when its `with` block ends well.
Sessions = Callable[[], AbstractContextManager[Session]]
#: Values that a statement names at once: PostgreSQL takes 65,535, SQLite half as many.
NAMED = 10_000
_FEW = 32  # rows of which each may be a statement
_CACHE = 64 << 10  # KiB of pages of a SQLite file that are kept in memory
T = TypeVar("T")


def connect(url: str) -> Engine:
    """Connects, and creates or upgrades the tables. Raises ConfigError where there is no driver, or no database,
    and for one of a later version."""
    try:
        named = make_url(url)
        if named.drivername == "postgresql":
            named = named.set(drivername="postgresql+psycopg")  # the driver that the extra brings
        engine = create_engine(named, json_serializer=_text)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"no database is {_shown(url)}: {error}",
            fix="PostgreSQL takes a driver: `pip install 'eigentensor[postgres]'`.",
        ) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
    try:
        upgrade(engine)
    except OperationalError as error:
        engine.dispose()
        raise ConfigError(
            f"the database {_shown(url)} does not answer: {error.orig}", fix="Start it, or name another one."
        ) from None
    except CommandError as error:
        engine.dispose()
        raise ConfigError(
            f"the database {_shown(url)} was written by a later version: {error}",
            fix="Go on with that version, or with the copy that was made before it.",
        ) from None
    return engine


def upgrade(engine: Engine) -> None:
    """Brings the tables to the present schema."""
    with as_file(files("eigentensor_aggregator") / "migrations") as folder, engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        if connection.dialect.name == "postgresql":  # of several processes that start at once one upgrades
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('eigentensor upgrade'))"))
        command.upgrade(config, "head")


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """A transaction, committed when its block ends well."""
    with Session(engine, expire_on_commit=False) as session:
        yield session
        session.commit()


def chunks(names: Iterable[T], size: int = NAMED) -> Iterator[list[T]]:
    """The same in parts, each no more than a statement may name."""
    rest = iter(names)
    while part := list(islice(rest, size)):
        yield part


def add_rows(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows, which name the same columns. Many of them go by the driver itself, to PostgreSQL as one stream: what
    else is done for each takes several times as long."""
    connection = session.connection()
    driven = connection.dialect.name if len(rows) > _FEW else ""
    if driven == "postgresql":
        _copy(connection, table, rows)
    elif driven == "sqlite":
        marks = ", ".join("?" for _ in rows[0])
        statement = f"INSERT INTO {_named(connection, table, rows)} VALUES ({marks})"
        connection.exec_driver_sql(statement, list(_values(table, rows)))
    elif rows:
        connection.execute(insert(table), rows)


def _copy(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    statement = f"COPY {_named(connection, table, rows)} FROM STDIN"
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for values in _values(table, rows):
                copy.write_row(values)
    except driver.Error as error:
        raise DBAPIError(statement, None, error) from error


def _named(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> str:
    prepared = connection.dialect.identifier_preparer
    return f"{prepared.format_table(table)} ({', '.join(prepared.format_column(table.c[name]) for name in rows[0])})"


def _values(table: Table, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """What drivers take, row by row, in the order of the columns that the first one names."""
    written = [name for name in rows[0] if isinstance(table.c[name].type, JSON)]
    for row in rows:
        yield tuple({**row, **{name: _text(row[name]) for name in written}}.values() if written else row.values())


def _text(value: object) -> str:
    """JSON, in a third of the time that Python's own encoder takes."""
    return to_json(value).decode()


def _shown(url: str) -> str:
    """Without a password."""
    try:
        return make_url(url).render_as_string()
    except ArgumentError:
        return "what was given"


def _configure_sqlite(connection: object, _: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 30000", f"cache_size = -{_CACHE}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
