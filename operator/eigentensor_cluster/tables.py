"""Tables for people: columns as wide as what stands in them."""

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """An empty line, the head and the rows, in columns; nothing if there are no rows."""
    if rows:
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        yield ""
        for row in (head, *rows):
            yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
