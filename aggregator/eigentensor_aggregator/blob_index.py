"""Which blobs there are, and under which names."""

from sqlmodel import col, or_, select

from eigentensor.store import Kind, Names, Pieces
from eigentensor_aggregator.database import Sessions
from eigentensor_aggregator.tables import BlobRow


class BlobIndex:
    """The index of complete blobs in a database."""

    def __init__(self, sessions: Sessions) -> None:
        self._session = sessions

    def find(self, name: str) -> tuple[Names, Pieces] | None:
        """The blob that has this name, by its own root first."""
        query = select(BlobRow).where(or_(col(BlobRow.blob) == name, col(BlobRow.computed) == name))
        with self._session() as session:
            rows = session.exec(query).all()
            row = next((row for row in rows if row.blob == name), rows[0] if rows else None)
            if row is None:
                return None
            roots = tuple(row.pieces[i : i + 32] for i in range(0, len(row.pieces), 32))
            return Names(row.blob, row.size, Kind(row.kind), row.computed), Pieces(row.size, roots)

    def add(self, names: Names, pieces: Pieces) -> None:
        row = BlobRow(
            blob=names.blob,
            size=names.size,
            kind=names.kind.value,
            computed=names.computed,
            pieces=b"".join(pieces.roots),
        )
        with self._session() as session:
            session.merge(row)

    def sizes(self) -> dict[str, int]:
        """All blob roots with their sizes."""
        with self._session() as session:
            return dict(session.exec(select(BlobRow.blob, BlobRow.size)).all())
