"""A built site as one file, the same bytes for the same site: `python -m docs.making.packing FOLDER ARCHIVE`."""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def pack(folder: Path, archive: Path) -> None:
    """Writes an archive of all files of a folder."""
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as written:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = ZipInfo(path.relative_to(folder).as_posix())  # of 1980, readable by everybody
                name.compress_type, name.external_attr = ZIP_DEFLATED, 0o644 << 16
                written.writestr(name, path.read_bytes())


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
