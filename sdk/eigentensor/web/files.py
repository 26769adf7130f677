"""Files as answers."""

from fastapi.responses import FileResponse

from eigentensor.merkle import PIECE


class Pieces(FileResponse):
    """A file, or ranges of it, read by pieces of 1 MiB: each read is a change of thread, which takes longer than to
    send the few KiB that are usual."""

    chunk_size = PIECE
