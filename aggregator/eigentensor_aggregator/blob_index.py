"""Which blobs there are, and under which names."""

import time
from collections.abc import Collection, Iterator

from sqlmodel import col, delete, or_, select, update

from eigentensor.store import Kind, Names, Pieces
from eigentensor_aggregator.database import Sessions
from eigentensor_aggregator.tables import BlobRow

_EQUAL = 16  # blobs of one name that are looked at: anybody may make more
_ASKED = 500  # names in one question


class BlobIndex:
    """The index of complete blobs in a database."""

    def __init__(self, sessions: Sessions) -> None:
        self._session = sessions

    def find(self, name: str) -> list[tuple[Names, Pieces]]:
        """The blobs that have this name: by its own root first, then those that compute it, the smallest first. They
        are all as good."""
        query = select(BlobRow).where(or_(col(BlobRow.blob) == name, col(BlobRow.computed) == name))
        order = (col(BlobRow.blob) != name, col(BlobRow.size), col(BlobRow.blob))
        with self._session() as session:
            return [_named(row) for row in session.exec(query.order_by(*order).limit(_EQUAL))]

    def add(self, names: Names, pieces: Pieces) -> bool:
        """Whether it is a new one; it counts as given and looked at now."""
        now = int(time.time())
        row = BlobRow(
            blob=names.blob,
            size=names.size,
            kind=names.kind.value,
            computed=names.computed,
            pieces=b"".join(pieces.roots),
            since=now,
            checked=now,
        )
        with self._session() as session:
            is_new = session.get(BlobRow, names.blob) is None
            session.merge(row)
        return is_new

    def sizes(self) -> dict[str, int]:
        """All blob roots with their sizes."""
        with self._session() as session:
            return dict(session.exec(select(BlobRow.blob, BlobRow.size)).all())

    def results(self, roots: Collection[str]) -> list[str]:
        """The blobs of results that have one of these outputs roots."""
        query = select(BlobRow.blob).where(col(BlobRow.kind) == Kind.RESULTS.value)
        with self._session() as session:
            return [
                blob
                for some in _some(roots)
                for blob in session.exec(query.where(col(BlobRow.computed).in_(some))).all()
            ]

    # ---- How long they are kept ----

    def renew(self, names: Collection[str], now: float) -> None:
        """The blobs that have one of these names count as named now."""
        with self._session() as session:
            for some in _some(names):
                of_these = or_(col(BlobRow.blob).in_(some), col(BlobRow.computed).in_(some))
                session.exec(update(BlobRow).where(of_these).values(since=int(now)))

    def renew_programs(self, now: float) -> None:
        """All programs count as named now."""
        with self._session() as session:
            session.exec(update(BlobRow).where(col(BlobRow.kind) == Kind.PROGRAM.value).values(since=int(now)))

    def forgotten(self, before: float) -> list[Names]:
        """The blobs that nobody has given or named since then, oldest first."""
        query = select(BlobRow).where(col(BlobRow.since) < int(before)).order_by(col(BlobRow.since))
        with self._session() as session:
            return [_named(row)[0] for row in session.exec(query)]

    def drop(self, blob: str, before: float) -> bool:
        """Forgets a blob unless somebody has given or named it since then; whether it did."""
        dropped = delete(BlobRow).where(col(BlobRow.blob) == blob, col(BlobRow.since) < int(before))
        with self._session() as session:
            return bool(session.exec(dropped).rowcount)

    # ---- Which are looked at ----

    def unchecked(self, before: float) -> tuple[Names, Pieces] | None:
        """The blob at whose bytes nobody has looked for longest, if not since then."""
        query = select(BlobRow).where(col(BlobRow.checked) < before).order_by(col(BlobRow.checked), col(BlobRow.blob))
        with self._session() as session:
            row = session.exec(query.limit(1)).first()
        return None if row is None else _named(row)

    def checked(self, blob: str, now: float) -> None:
        """Somebody has looked at a blob's bytes."""
        with self._session() as session:
            session.exec(update(BlobRow).where(col(BlobRow.blob) == blob).values(checked=int(now)))


def _some(names: Collection[str]) -> Iterator[list[str]]:
    """As many as a database takes in one question."""
    listed = list(names)
    return (listed[i : i + _ASKED] for i in range(0, len(listed), _ASKED))


def _named(row: BlobRow) -> tuple[Names, Pieces]:
    roots = tuple(row.pieces[i : i + 32] for i in range(0, len(row.pieces), 32))
    return Names(row.blob, row.size, Kind(row.kind), row.computed), Pieces(row.size, roots)
