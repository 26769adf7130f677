"""What journals and ledgers stand on."""

import sqlite3
from pathlib import Path

import pytest

from eigentensor.store.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """With a table that is full at the third row: SQLite itself ends the transaction, as it does on a full disk."""
    database = Database(tmp_path / "base.sqlite")
    database.rows("CREATE TABLE rows (number INTEGER)")
    database.rows(
        "CREATE TRIGGER full BEFORE INSERT ON rows WHEN (SELECT count(*) FROM rows) = 2 "
        "BEGIN SELECT RAISE(ROLLBACK, 'it is full'); END"
    )
    return database


def test_what_ends_a_transaction_is_heard_and_the_next_one_goes_on(database: Database) -> None:
    with pytest.raises(sqlite3.DatabaseError, match="it is full"), database.together():
        for number in range(3):
            database.rows("INSERT INTO rows VALUES (?)", number)
    with database.together():
        database.rows("INSERT INTO rows VALUES (7)")
    assert [row["number"] for row in database.rows("SELECT * FROM rows")] == [7]
    database.close()


def test_what_is_broken_off_is_not_written(database: Database) -> None:
    with pytest.raises(KeyboardInterrupt), database.together():
        database.rows("INSERT INTO rows VALUES (1)")
        raise KeyboardInterrupt
    assert database.rows("SELECT * FROM rows") == []
    database.close()


def test_a_commit_that_fails_leaves_no_transaction(database: Database) -> None:
    database.rows("PRAGMA foreign_keys = ON")
    database.rows("CREATE TABLE parts (whole INTEGER REFERENCES wholes (id) DEFERRABLE INITIALLY DEFERRED)")
    database.rows("CREATE TABLE wholes (id INTEGER PRIMARY KEY)")
    with pytest.raises(sqlite3.IntegrityError), database.together():
        database.rows("INSERT INTO parts VALUES (1)")
    with database.together():
        database.rows("INSERT INTO wholes VALUES (1)")
    assert database.rows("SELECT * FROM parts") == []
    database.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "base.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(sqlite3.DatabaseError, match=rf"{path}: file is not a database"):
        Database(path)
    with pytest.raises(sqlite3.OperationalError, match=rf"{tmp_path}: unable to open"):
        Database(tmp_path)
