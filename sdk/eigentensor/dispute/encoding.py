"""What a player shows, as the bytes that the referee reads; the layout is in contracts/src/interfaces/IReferee.sol."""

from collections.abc import Iterable, Sequence
from struct import pack

from eigentensor.errors import DisputeError
from eigentensor.keccak import keccak
from eigentensor.merkle import Opening
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import HEADER
from eigentensor.tracing import CallProof, CollectProof, Kernel, ResultProof, Witness
from eigentensor.tracing.shown import Binding, Record, Tensor


def kernel_bytes(kernel: Kernel) -> bytes:
    """Header, call, body, and the values of the body's variables."""
    values = pack(f">{len(kernel.variables)}i", *kernel.variables)
    return kernel.header + _sized(kernel.call) + _sized(kernel.body) + values


def kernel_hash(kernel: Kernel) -> bytes:
    """What a position keeps of a kernel."""
    return keccak(kernel_bytes(kernel))


def call_bytes(proof: CallProof) -> bytes:
    """Bytes of a proof about a call: kernel, paths of call and body, records of variables, its path in the trace."""
    parts = [kernel_bytes(proof.kernel), *proof.call.path, *proof.body.path]
    for variable in proof.variables:
        record = variable.record
        parts += [pack(">B", len(record.data)), record.data, *record.opening.path, *variable.place.path]
    return b"".join((*parts, *proof.place.path))


def witness_bytes(witness: Witness) -> bytes:
    """Of a step; what is claimed of it goes another way."""
    results = _first_result(witness.kernel)
    parts = [kernel_bytes(witness.kernel), pack(">B", len(witness.tensors))]
    for tensor in witness.tensors:
        parts += [pack(">B", tensor.parameter), *_tensor(tensor, results)]
    for operand in witness.operands:
        parts += [operand.leaf, *operand.opening.path]
    return b"".join(parts)


def collect_bytes(proof: CollectProof) -> bytes:
    """Bytes of a proof about all results: header, records, siblings, and each result's root with its place."""
    parts = [proof.header, *(_sized(record) for record in proof.records), *proof.siblings]
    for root, place in zip(proof.roots, proof.places, strict=True):
        parts += [root, *place.path]
    return b"".join(parts)


def result_bytes(proof: ResultProof) -> bytes:
    """Bytes of a proof about one result: header, its record, its root and where that stands in the trace."""
    return b"".join((proof.header, *_record(proof.record), proof.root, *proof.place.path))


def packed(dtypes: Iterable[DType], patterns: Iterable[int]) -> bytes:
    """Patterns one after the other, each little-endian in its dtype's width."""
    return b"".join(pattern.to_bytes(dtype.size, "little") for dtype, pattern in zip(dtypes, patterns, strict=True))


def unpacked(dtypes: Sequence[DType], data: bytes) -> tuple[int, ...]:
    """The inverse of `packed`. Raises DisputeError for another number of bytes."""
    if len(data) != sum(dtype.size for dtype in dtypes):
        raise DisputeError(f"{len(data)} bytes for {len(dtypes)} patterns")
    patterns, start = [], 0
    for dtype in dtypes:
        patterns.append(int.from_bytes(data[start : start + dtype.size], "little"))
        start += dtype.size
    return tuple(patterns)


def _tensor(tensor: Tensor, results: int) -> Iterable[bytes]:
    for number, record in enumerate(tensor.records):
        if number:
            yield pack(">H", record.opening.number - results)
        yield from _record(record)
    if isinstance(tensor.place, Binding):
        yield pack(">II", tensor.place.count, tensor.place.opening.number)
    if tensor.place is not None:
        opening: Opening = tensor.place.opening if isinstance(tensor.place, Binding) else tensor.place
        yield tensor.root
        yield from opening.path


def _record(record: Record) -> Iterable[bytes]:
    yield _sized(record.data)
    yield from record.opening.path


def _first_result(kernel: Kernel) -> int:
    _, _, variables, buffers, bodies, calls, _, _, _ = HEADER.unpack(kernel.header)
    return int(variables + buffers + bodies + calls)


def _sized(data: bytes) -> bytes:
    return pack(">H", len(data)) + data
