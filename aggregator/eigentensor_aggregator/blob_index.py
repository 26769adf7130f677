"""Which blobs there are, and under which names."""

from sqlmodel import col, or_, select

from eigentensor.store import Kind, Names, Pieces
from eigentensor_aggregator.database import Sessions
from eigentensor_aggregator.tables import BlobRow

_EQUAL = 16  # blobs of one name that are looked at: anybody may make more


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
        """Whether it is a new one."""
        row = BlobRow(
            blob=names.blob,
            size=names.size,
            kind=names.kind.value,
            computed=names.computed,
            pieces=b"".join(pieces.roots),
        )
        with self._session() as session:
            is_new = session.get(BlobRow, names.blob) is None
            session.merge(row)
        return is_new

    def sizes(self) -> dict[str, int]:
        """All blob roots with their sizes."""
        with self._session() as session:
            return dict(session.exec(select(BlobRow.blob, BlobRow.size)).all())


def _named(row: BlobRow) -> tuple[Names, Pieces]:
    roots = tuple(row.pieces[i : i + 32] for i in range(0, len(row.pieces), 32))
    return Names(row.blob, row.size, Kind(row.kind), row.computed), Pieces(row.size, roots)
