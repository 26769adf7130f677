"""Bytes that are no program."""

import io
import pickle
import struct
import zipfile
from dataclasses import replace

from eigentensor.program import limits
from eigentensor.program.codec import HEADER, to_bytes
from support.hostile.refusals import example
from support.programs.worked_examples import layer, session

LAYER, SESSION = to_bytes(layer().program), to_bytes(session().program)


def patched(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


def offset_of(data: bytes, record: int) -> int:
    """Where the bytes of a record begin."""
    position = HEADER.size + 4
    for _ in range(record):
        position += 4 + struct.unpack_from("<I", data, position - 4)[0]
    return position


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("data.pkl", pickle.dumps(print))
    return file.getvalue()


MOST = b"\xff\xff\xff\xff"
BUFFER, BODY, RESULT = (offset_of(SESSION, record) for record in (1, 4, 8))
LAYER_BODY, LAYER_CALL = offset_of(LAYER, 3), offset_of(LAYER, 5)
REDUCE_RANGE = LAYER_BODY + 8 + 3 * 12 + 2 * 4
CODE = REDUCE_RANGE + 4

example("header", "a pickle", pickle.dumps({"graph": print}))
example("header", "an archive of pickles, as other frameworks save", archive)
example("header", "JSON", b'{"ops": []}' + bytes(100))
example("header", "an executable", b"\x7fELF" + bytes(200))
example("header", "a later version of the semantics", to_bytes(replace(layer().program, semantics=2)))
example("length", "nothing", b"")
example("length", "a byte after the end", SESSION + b"\0")
example("length", "a header that announces more bytes", patched(SESSION, 28, MOST))
example("length", "a record too many announced", patched(SESSION, 20, struct.pack("<I", 3)))
example("length", "a record too few announced", patched(SESSION, 20, struct.pack("<I", 1)))
example("length", "a bomb of 65,536 calls in no bytes", HEADER.pack(b"EIGT", 1, 0, 0, 0, 65_536, 0, 1, 0))
for position, kind in ((8, "buffers"), (12, "bodies"), (16, "calls"), (20, "results")):
    example("limits", f"a bomb of four billion {kind}", patched(SESSION, position, MOST))
example("limits", "a bomb of a record of four billion bytes", patched(SESSION, 32, MOST))
example("limits", "a record of 16 KiB and a byte", patched(SESSION, 32, struct.pack("<I", limits.RECORD_BYTES + 1)))
example("limits", "8 MiB and a byte", lambda: SESSION + bytes(limits.PROGRAM_BYTES + 1 - len(SESSION)))
example("limits", "four billion as largest repeat", patched(SESSION, 24, MOST))
example("length", "a body that announces more instructions", patched(SESSION, BODY, b"\xff\xff"))
example("length", "a body that announces more parameters", patched(SESSION, BODY + 2, b"\xff"))
example("length", "a body that announces a reduction too many", patched(SESSION, BODY + 6, b"\x07"))
example("length", "a name longer than its record", patched(SESSION, BUFFER + 3, b"\xff"))
example("length", "a shape longer than its record", patched(SESSION, BUFFER + 2, b"\xff"))
example("names", "a name that is not UTF-8", patched(SESSION, BUFFER + 8, b"\xff"))
example("reserved", "a reserved byte of a body is set", patched(SESSION, BODY + 7, b"\x01"))
for reserved in (9, 10, 11):
    example("reserved", f"reserved byte {reserved} of a parameter is set", patched(SESSION, BODY + reserved, b"\x01"))
example("reserved", "a reserved byte of a reduce range is set", patched(LAYER, REDUCE_RANGE + 3, b"\x01"))
example("reserved", "a reserved byte of a result is set", patched(SESSION, RESULT + 3, b"\x01"))
for op in (0, 5, 13, 14, 15, 46, 255):
    example("codes", f"op {op}, which is reserved or unknown", patched(LAYER, CODE, bytes([op])))
for dtype, name in ((0, "none"), (13, "float64"), (14, "reserved"), (16, "fp8"), (17, "fp8"), (18, "fp8"), (19, "fp8")):
    example("codes", f"a value of dtype {dtype}: {name}", patched(LAYER, CODE + 1, bytes([dtype])))
    example("codes", f"a buffer of dtype {dtype}: {name}", patched(SESSION, BUFFER + 1, bytes([dtype])))
example("codes", "a buffer without a role", patched(SESSION, BUFFER, b"\0"))
example("codes", "a role that is none", patched(SESSION, BUFFER, b"\5"))
example("codes", "a kind of result that is none", patched(SESSION, RESULT, b"\3"))
example("codes", "a call of a body that is not there", patched(LAYER, LAYER_CALL, b"\x09"))
