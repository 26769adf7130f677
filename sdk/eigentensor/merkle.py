"""Names that are hashes: trees over leaves, and what they are roots of (sdk/README.md, "Names: trees and roots")."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple

from eigentensor.hashing import digests
from eigentensor.leaves import LEAF as LEAF
from eigentensor.leaves import NOTHING as NOTHING
from eigentensor.leaves import PIECE as PIECE
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import split
from eigentensor.program.model import Kind, Program, Role

if TYPE_CHECKING:
    import numpy as np

    from eigentensor.program.binding import Results

    Array = np.ndarray[Any, Any]
    #: Bytes as they come; an array stands for its elements in row-major order.
    Data = bytes | bytearray | memoryview | Array

_PIECE_LEVELS = 10
_HASH = 32


class Opening(NamedTuple):
    """A leaf hash's place in a tree: its number, and the siblings on the way up."""

    number: int
    path: tuple[bytes, ...]

    def root(self, leaf: bytes) -> bytes:
        """The root that this leaf hash leads to."""
        return climb(leaf, self.number, self.path)


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Root of the tree over leaf hashes, padded with zero leaves to a power of two; 32 zero bytes if there is none."""
    return _fold(b"".join(leaves))


def path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The siblings of a leaf, from the leaf upwards."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    siblings, level, zero = [], b"".join(leaves), NOTHING
    while len(level) > _HASH:
        start = (index ^ 1) * _HASH
        siblings.append(level[start : start + _HASH] or zero)
        level, index, zero = parents(level, zero), index // 2, node(zero, zero)
    return tuple(siblings)


def climb(leaf: bytes, index: int, siblings: Sequence[bytes]) -> bytes:
    """The root that a leaf hash and its path lead to."""
    for sibling in siblings:
        leaf = node(sibling, leaf) if index & 1 else node(leaf, sibling)
        index >>= 1
    return leaf


def leaf_hashes(data: "Data") -> list[bytes]:
    """Hashes of the 1,024-byte leaves of some bytes; the last leaf is filled with zeros."""
    return _each(_leaves(_view(data)))


class Tree:
    """The tree over bytes that arrive in chunks of any size. Holds at most one piece (1 MiB) of them."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._rest = bytearray()

    def update(self, data: "Data") -> None:
        """Takes the next bytes; how they are cut makes no difference."""
        view = _view(data)
        self.size += len(view)
        start = 0
        if self._rest:
            start = min(PIECE - len(self._rest), len(view))
            self._rest += view[:start]
        # A piece is hashed when more follows: the depth of the only piece depends on its length.
        if len(self._rest) == PIECE and start < len(view):
            self._pieces += _subtrees(memoryview(self._rest))
            self._rest = bytearray()
        if not self._rest:
            whole = max(0, len(view) - start - 1) // PIECE * PIECE
            self._pieces += _subtrees(view[start : start + whole])
            self._rest += view[start + whole :]

    def pieces(self) -> list[bytes]:
        """Roots of the pieces: subtrees of ten levels, or the whole tree if there is one piece."""
        return [*self._pieces, piece_root(self._rest, self.size)] if self.size else []

    def root(self) -> bytes:
        """The root of all bytes so far, without a length bound to it; more may follow."""
        return root_of_pieces(self.pieces())


class Hashed:
    """Bytes, which do not change, and the hashes of their leaves: of others that differ in few leaves only those are
    hashed."""

    def __init__(self, data: "Data", before: "Hashed | None" = None) -> None:
        self._view = _view(data)
        if before is None or len(before._view) != len(self._view):
            self._leaves = _leaves(self._view)
        else:
            self._leaves = self._changed(before)

    def root(self) -> bytes:
        """The root of the bytes, without a length bound to it."""
        return _fold(self._leaves)

    def _changed(self, before: "Hashed") -> bytes:
        import numpy as np  # who only hashes bytes does not wait for it

        count = len(self._view) // LEAF
        old, new = (
            np.frombuffer(of._view[: count * LEAF], np.uint64).reshape(count, LEAF // 8) for of in (before, self)
        )
        different = np.flatnonzero((old != new).any(axis=1))
        hashes = np.frombuffer(before._leaves[: count * _HASH], np.uint8).reshape(count, _HASH).copy()
        hashes[different] = np.frombuffer(digests(0, LEAF, new[different].tobytes()), np.uint8).reshape(-1, _HASH)
        return hashes.tobytes() + _leaves(self._view[count * LEAF :])


def piece_root(data: "Data", size: int) -> bytes:
    """Root of one piece of a blob of `size` bytes."""
    view = _view(data)
    return _subtrees(view)[0] if size > PIECE else _fold(_leaves(view))


def root_of_pieces(pieces: Sequence[bytes]) -> bytes:
    """Root of the tree whose pieces have these roots."""
    return _fold(b"".join(pieces), _NO_PIECE) if pieces else NOTHING


def piece_roots(data: "Data") -> list[bytes]:
    """Roots of the 1 MiB pieces of a blob, with which a piece can be verified alone."""
    view = _view(data)
    if len(view) > PIECE:
        return _subtrees(view)
    return [_fold(_leaves(view))] if len(view) else []


def blob_root(data: "Data") -> bytes:
    """Root of a blob, with its size."""
    return blob_root_of(len(_view(data)), piece_roots(data))


def blob_root_of(size: int, pieces: Sequence[bytes]) -> bytes:
    """Blob root out of the size and the roots of the pieces."""
    return _hash(3, pack(">Q", size), root_of_pieces(pieces))


def tensor_root(dtype: DType, data: "Data") -> bytes:
    """Root of a tensor's little-endian elements, with its dtype and number of elements."""
    view = _view(data)
    return tensor_root_of(dtype, len(view) // dtype.size, root_of_pieces(piece_roots(view)))


def tensor_root_of(dtype: DType, elements: int, root: bytes) -> bytes:
    """Tensor root out of the root of the tree over its bytes."""
    return _hash(2, pack(">BQ", dtype, elements), root)


def bindings_root(tensors: Mapping[str, bytes]) -> bytes:
    """Root of tensor roots by name."""
    leaves = [binding_hash(name, tensors[name]) for name in sorted(tensors)]
    return bindings_root_of(len(leaves), tree_root(leaves))


def binding_hash(name: str, root: bytes) -> bytes:
    """Leaf of the tree over tensor roots by name."""
    return _hash(4, _text(name), root)


def bindings_root_of(count: int, root: bytes) -> bytes:
    """Bindings root out of the root of the tree over its leaves."""
    return _hash(5, pack(">I", count), root)


def outputs_root(outputs: bytes, states: bytes) -> bytes:
    """What an executor commits to: bindings roots of the outputs and of the new states."""
    return _hash(6, outputs, states)


def role_root(program: Program, role: Role, tensors: "Mapping[str, Array]") -> bytes:
    """Bindings root of the inputs, weights or states among some tensors."""
    return bindings_root({name: array_root(b.dtype, tensors[name]) for name, b in program.named(role).items()})


def kind_root(program: Program, kind: Kind, tensors: "Mapping[str, Array]") -> bytes:
    """Bindings root of the outputs or of the new states."""
    records = [result for result in program.results if result.kind is kind]
    return bindings_root({r.name: array_root(program.parameter(r.buffer).dtype, tensors[r.name]) for r in records})


def results_root(program: Program, results: "Results") -> bytes:
    """The outputs root of a result."""
    return outputs_root(
        kind_root(program, Kind.OUTPUT, results.outputs), kind_root(program, Kind.STATE, results.states)
    )


def program_root(program: bytes) -> bytes:
    """The uuid of an encoded program."""
    header, records = split(program)
    return program_root_of(header, tree_root([record_hash(record) for record in records]))


def program_root_of(header: bytes, root: bytes) -> bytes:
    """Program root out of the root of the tree over its records."""
    return _hash(8, header, root)


def record_hash(record: bytes) -> bytes:
    """Leaf of the tree over records."""
    return _hash(7, record)


def open_record(program: bytes, index: int) -> tuple[bytes, Opening]:
    """A record of an encoded program, and where it stands in the tree of records."""
    _, records = split(program)
    return records[index], Opening(index, path([record_hash(record) for record in records], index))


def open_leaf(data: "Data", index: int) -> tuple[bytes, Opening]:
    """A leaf of some bytes, filled with zeros, and where it stands in their tree."""
    leaf = bytes(_view(data)[index * LEAF : (index + 1) * LEAF]).ljust(LEAF, b"\0")
    return leaf, Opening(index, path(leaf_hashes(data), index))


def open_element(dtype: DType, data: "Data", element: int) -> tuple[bytes, Opening]:
    """The leaf that holds an element of a tensor: elements never cross a leaf."""
    return open_leaf(data, element * dtype.size // LEAF)


def variables_root(variables: Mapping[str, int]) -> bytes:
    """Root of bound variables by name."""
    leaves = [variable_hash(name, variables[name]) for name in sorted(variables)]
    return variables_root_of(len(leaves), tree_root(leaves))


def variable_hash(name: str, value: int) -> bytes:
    """Leaf of the tree over bound variables."""
    return _hash(9, _text(name), pack(">i", value))


def variables_root_of(count: int, root: bytes) -> bytes:
    """Variables root out of the root of the tree over its leaves."""
    return _hash(10, pack(">I", count), root)


def operators_root(operators: Iterable[bytes]) -> bytes:
    """Root of the operators that an order admits, by their 20-byte addresses."""
    leaves = [operator_hash(operator) for operator in sorted(set(operators))]
    return operators_root_of(len(leaves), tree_root(leaves))


def operator_hash(operator: bytes) -> bytes:
    """Leaf of the tree over operators."""
    return _hash(11, operator)


def operators_root_of(count: int, root: bytes) -> bytes:
    """Operators root out of the root of the tree over their leaves."""
    return _hash(12, pack(">I", count), root)


class Frontier:
    """A tree that grows by leaves, known by the roots of its full subtrees alone.

    There is one for each bit of the number of leaves; `nodes` has them in the order of their leaves, the largest first.
    """

    def __init__(self, leaves: int = 0, nodes: Sequence[bytes] = ()) -> None:
        """Raises ValueError unless so many leaves have as many full subtrees."""
        if leaves < 0 or leaves.bit_count() != len(nodes):
            raise ValueError(f"{leaves} leaves do not have {len(nodes)} full subtrees")
        self.leaves = leaves
        self._nodes = list(nodes)

    @property
    def nodes(self) -> tuple[bytes, ...]:
        """The roots of the full subtrees."""
        return tuple(self._nodes)

    def append(self, leaf: bytes) -> None:
        """Adds a leaf hash at the end."""
        rest = self.leaves
        while rest & 1:
            leaf, rest = node(self._nodes.pop(), leaf), rest >> 1
        self._nodes.append(leaf)
        self.leaves += 1

    def root(self) -> bytes:
        """The root of the tree over all leaves so far: `tree_root` of them."""
        if not self._nodes:
            return NOTHING
        *larger, root = self._nodes
        first = (self.leaves & -self.leaves).bit_length() - 1
        zeros = _zeros((self.leaves - 1).bit_length())
        for level in range(first, (self.leaves - 1).bit_length()):
            # Right of the last full subtree there is padding; above it, full subtrees stand left, or padding right.
            is_left = level > first and self.leaves >> level & 1
            root = node(larger.pop(), root) if is_left else node(root, zeros[level])
        return root

    def copy(self) -> "Frontier":
        """Another one that grows by itself."""
        return Frontier(self.leaves, self._nodes)


def call_hash(channel: bytes, index: int, order: bytes, result: bytes) -> bytes:
    """Leaf of a channel's tree: the hash of a call's order, and `result_of` its outputs root."""
    return _hash(13, channel, pack(">Q", index), order, result)


def result_of(outputs_root: bytes) -> bytes:
    """What a channel's tree has of an outputs root: it says nothing that could be copied."""
    return sha256(outputs_root).digest()


def line_hash(channel: bytes, root: bytes, first: int, count: int, offset: int, amount: int) -> bytes:
    """Leaf of the tree over the lines of a batch."""
    numbers = pack(">QQQ", first, count, offset) + amount.to_bytes(16, "big")
    return _hash(14, channel, root, numbers)


def programs_root(programs: Mapping[bytes, int]) -> bytes:
    """Root of an offer's programs, by their roots, with their most repeats."""
    leaves = [entry_hash(program, programs[program]) for program in sorted(programs)]
    return programs_root_of(len(leaves), tree_root(leaves))


def entry_hash(program: bytes, repeat: int) -> bytes:
    """Leaf of the tree over an offer's programs."""
    return _hash(15, program, pack(">I", repeat))


def programs_root_of(count: int, root: bytes) -> bytes:
    """Programs root out of the root of the tree over its leaves."""
    return _hash(16, pack(">I", count), root)


def trace_root(calls: Sequence[bytes], outputs: bytes) -> bytes:
    """Root over the tensor roots of all executed calls, in order, followed by the outputs root."""
    return tree_root([*calls, outputs])


def array_root(dtype: DType, array: "Array") -> bytes:
    """Tensor root of an array in the storage dtype, whatever the byte order of this machine."""
    return tensor_root(dtype, little_endian(dtype, array))


def little_endian(dtype: DType, array: "Array") -> "Array":
    """The elements as the format stores them, whatever the host's order; bfloat16 by its patterns."""
    import numpy as np  # who only hashes bytes does not wait for it

    from eigentensor.numerics.storage import STORAGE

    return np.asarray(array).astype(STORAGE[dtype].newbyteorder("<"), copy=False)


def _view(data: "Data") -> memoryview:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        import numpy as np  # which is there already

        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _text(name: str) -> bytes:
    raw = name.encode()
    return bytes((len(raw),)) + raw


def _hash(tag: int, *parts: bytes) -> bytes:
    return sha256(bytes((tag,)) + b"".join(parts)).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Hash of a node out of its children's."""
    return sha256(b"\x01" + left + right).digest()


def parents(level: bytes, zero: bytes) -> bytes:
    """The level above one, whose hashes stand one after the other; `zero` is the node of padding alone beside it."""
    return digests(1, 2 * _HASH, level + zero if len(level) % (2 * _HASH) else level)


def _leaves(view: memoryview) -> bytes:
    full = len(view) - len(view) % LEAF
    hashes = digests(0, LEAF, view[:full]) if full else b""
    return hashes + digests(0, LEAF, bytes(view[full:]).ljust(LEAF, b"\0")) if full < len(view) else hashes


def _subtrees(view: memoryview) -> list[bytes]:
    """Roots of the pieces of a blob that has several: all have ten levels."""
    level, zero = _leaves(view), NOTHING
    # The padding's node grows with the level: no node of padding alone is hashed more than once.
    for _ in range(_PIECE_LEVELS):
        level, zero = parents(level, zero), node(zero, zero)
    return _each(level)


def _fold(level: bytes, zero: bytes = NOTHING) -> bytes:
    """Root over the hashes of a level."""
    level = level or zero
    while len(level) > _HASH:
        level, zero = parents(level, zero), node(zero, zero)
    return level


def _each(level: bytes) -> list[bytes]:
    return [level[i : i + _HASH] for i in range(0, len(level), _HASH)]


@cache
def _zeros(levels: int) -> tuple[bytes, ...]:
    """The nodes of padding alone, from the leaf upwards."""
    return tuple(accumulate(range(levels), lambda zero, _: node(zero, zero), initial=NOTHING))


#: The root of a piece of padding alone.
_NO_PIECE = _zeros(_PIECE_LEVELS)[-1]
