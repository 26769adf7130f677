"""Trees and roots, against the few lines that define them."""

from hashlib import sha256

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import DType, Results, Role, encode
from eigentensor.program.codec import split
from support.programs.worked_examples import layer, session


def plain_root(leaves: list[bytes]) -> bytes:
    """The definition: pad with zero leaves to a power of two, hash pairs."""
    if not leaves:
        return bytes(32)
    size = 1 << (len(leaves) - 1).bit_length()
    level = leaves + [bytes(32)] * (size - len(leaves))
    while len(level) > 1:
        level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def plain_leaves(data: bytes) -> list[bytes]:
    return [sha256(b"\x00" + data[i : i + 1024].ljust(1024, b"\0")).digest() for i in range(0, len(data), 1024)]


@pytest.mark.parametrize("count", range(10))
def test_a_tree_is_padded_with_zero_leaves_to_a_power_of_two(count: int) -> None:
    leaves = [bytes([n]) * 32 for n in range(count)]
    assert merkle.tree_root(leaves) == plain_root(leaves)


@pytest.mark.parametrize(
    "size", [0, 1, 1023, 1024, 1025, 5000, merkle.PIECE - 1, merkle.PIECE, merkle.PIECE + 1, 3 << 20]
)
def test_roots_over_bytes_do_not_depend_on_pieces(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    root = plain_root(plain_leaves(data))
    assert merkle.blob_root(data) == sha256(b"\x03" + size.to_bytes(8, "big") + root).digest()
    expected = sha256(b"\x02" + bytes([DType.UINT8]) + size.to_bytes(8, "big") + root).digest()
    assert merkle.tensor_root(DType.UINT8, data) == expected


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000, merkle.PIECE, merkle.PIECE + 1, (3 << 20) + 5])
def test_bytes_that_differ_in_few_leaves_have_the_same_root_by_those(size: int) -> None:
    random = np.random.default_rng(size)
    data = random.integers(256, size=size).astype(np.uint8)
    hashed = merkle.Hashed(data.copy())
    for changes in (0, 1, 7, 5000):
        places = random.integers(size, size=changes) if size else np.zeros(0, np.int64)
        data[places] += 1
        hashed = merkle.Hashed(data.copy(), hashed)
        assert merkle.tensor_root_of(DType.UINT8, size, hashed.root()) == merkle.tensor_root(DType.UINT8, data)
    other = merkle.Hashed(b"other", hashed)
    assert other.root() == plain_root(plain_leaves(b"other"))


@pytest.mark.parametrize("step", [1 << 20, 777_777, 3 << 20])
def test_bytes_may_arrive_in_chunks_of_any_size(step: int) -> None:
    data = np.random.default_rng(1).bytes(3 * merkle.PIECE + 12_345)
    tree = merkle.Tree()
    for start in range(0, len(data), step):
        tree.update(data[start : start + step])
    assert tree.root() == plain_root(plain_leaves(data))
    assert tree.pieces() == merkle.piece_roots(data)
    assert merkle.blob_root_of(tree.size, tree.pieces()) == merkle.blob_root(data)


def test_each_piece_of_a_blob_can_be_verified_alone() -> None:
    data = np.random.default_rng(2).bytes(2 * merkle.PIECE + 99)
    pieces = [data[start : start + merkle.PIECE] for start in range(0, len(data), merkle.PIECE)]
    assert [merkle.piece_root(piece, len(data)) for piece in pieces] == merkle.piece_roots(data)
    wrong = bytearray(pieces[2])
    wrong[-1] ^= 1
    assert merkle.piece_root(wrong, len(data)) != merkle.piece_roots(data)[2]


def test_a_piece_that_is_the_whole_blob_has_the_depth_that_its_length_needs() -> None:
    data = b"x" * 3000
    assert merkle.piece_roots(data) == [merkle.piece_root(data, 3000)] == [plain_root(plain_leaves(data))]


def test_an_opened_leaf_leads_to_the_root_of_its_tensor() -> None:
    array = np.arange(3000, dtype=np.float32)
    leaf, opening = merkle.open_element(DType.FLOAT32, array, 2999)
    assert np.frombuffer(leaf, "<f4")[2999 % 256] == 2999
    assert len(leaf) == 1024 and opening.number == 2999 // 256
    root = opening.root(sha256(b"\x00" + leaf).digest())
    assert merkle.tensor_root_of(DType.FLOAT32, 3000, root) == merkle.tensor_root(DType.FLOAT32, array)


def test_a_path_exists_only_for_leaves_that_exist() -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError):
            merkle.path([bytes(32)] * 3, index)


def test_a_record_opens_under_the_root_of_its_program() -> None:
    data = encode(session().program)
    header, records = split(data)
    for number, expected in enumerate(records):
        record, opening = merkle.open_record(data, number)
        assert record == expected
        assert merkle.program_root_of(header, opening.root(merkle.record_hash(record))) == merkle.program_root(data)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.INDEX])
def test_arrays_and_their_little_endian_bytes_have_the_same_root(dtype: DType) -> None:
    array = np.zeros((3, 5), STORAGE[dtype])
    array.flat[7] = 1
    assert merkle.tensor_root(dtype, array) == merkle.tensor_root(dtype, array.tobytes())
    assert merkle.tensor_root(dtype, array.T) == merkle.tensor_root(dtype, np.ascontiguousarray(array.T))


def test_bindings_depend_on_names_and_not_on_the_order_in_which_they_are_given() -> None:
    a, b = bytes([1]) * 32, bytes([2]) * 32
    assert merkle.bindings_root({"x": a, "y": b}) == merkle.bindings_root({"y": b, "x": a})
    assert merkle.bindings_root({"x": a, "y": b}) != merkle.bindings_root({"x": b, "y": a})
    assert merkle.bindings_root({}) != merkle.variables_root({}) != merkle.operators_root([])


def test_operators_are_a_set() -> None:
    one, two = bytes([1]) * 20, bytes([2]) * 20
    assert merkle.operators_root([one, two]) == merkle.operators_root([two, one, two])


def test_weights_of_a_role_are_taken_from_all_tensors() -> None:
    example = layer()
    roots = {name: merkle.tensor_root(DType.FLOAT32, example.tensors[name]) for name in ("b", "w")}
    assert merkle.role_root(example.program, Role.WEIGHT, example.tensors) == merkle.bindings_root(roots)


def test_results_have_the_root_that_the_executor_commits_to() -> None:
    output = np.ones((2, 4), np.float32)
    bindings = merkle.bindings_root({"output": merkle.tensor_root(DType.FLOAT32, output)})
    expected = merkle.outputs_root(bindings, merkle.bindings_root({}))
    assert merkle.results_root(layer().program, Results({"output": output}, {})) == expected


@pytest.mark.parametrize("start", [0, 1, 2, 3, 7, 8, 13, 64, 69])
def test_a_frontier_grows_as_its_tree_does(start: int) -> None:
    leaves = [sha256(bytes([n])).digest() for n in range(70)]
    subtrees, at = [], 0
    for size in (64, 32, 16, 8, 4, 2, 1):
        if start & size:
            subtrees.append(plain_root(leaves[at : at + size]))
            at += size
    frontier = merkle.Frontier(start, subtrees)
    for count in range(start, len(leaves)):
        assert (frontier.leaves, frontier.root()) == (count, plain_root(leaves[:count]))
        kept, before = frontier.copy(), frontier.nodes
        frontier.append(leaves[count])
        assert kept.nodes == before and len(frontier.nodes) == (count + 1).bit_count()


@pytest.mark.parametrize(("leaves", "nodes"), [(0, 1), (1, 0), (4, 2), (7, 1), (-1, 1)])
def test_a_frontier_has_a_node_for_each_full_subtree(leaves: int, nodes: int) -> None:
    with pytest.raises(ValueError, match="full subtrees"):
        merkle.Frontier(leaves, [bytes(32)] * nodes)


def test_calls_lines_and_entries_are_hashed_under_tags_of_their_own() -> None:
    channel, order, root = b"c" * 32, b"o" * 32, b"r" * 32
    result = sha256(root).digest()
    assert merkle.result_of(root) == result
    index = (2**64 - 2).to_bytes(8, "big")
    assert (
        merkle.call_hash(channel, 2**64 - 2, order, result)
        == sha256(b"\x0d" + channel + index + order + result).digest()
    )
    numbers = b"".join(n.to_bytes(8, "big") for n in (5, 6, 7)) + (2**96 - 1).to_bytes(16, "big")
    assert merkle.line_hash(channel, root, 5, 6, 7, 2**96 - 1) == sha256(b"\x0e" + channel + root + numbers).digest()
    entries = [sha256(b"\x0f" + p * 32 + repeat.to_bytes(4, "big")).digest() for p, repeat in ((b"a", 1), (b"b", 9))]
    expected = sha256(b"\x10" + (2).to_bytes(4, "big") + plain_root(entries)).digest()
    assert merkle.programs_root({b"b" * 32: 9, b"a" * 32: 1}) == expected
    assert merkle.programs_root({}) == sha256(b"\x10" + bytes(4) + bytes(32)).digest()


def test_a_call_is_shown_under_its_line_and_the_line_under_its_batch() -> None:
    channel = b"c" * 32
    leaves = [merkle.call_hash(channel, n, bytes([n]) * 32, merkle.result_of(bytes([n]) * 32)) for n in range(11)]
    line = merkle.line_hash(channel, merkle.tree_root(leaves), 4, 7, 0, 1)
    lines = [line, merkle.line_hash(b"d" * 32, bytes(32), 0, 3, 7, 2), bytes([9]) * 32]
    for index, leaf in enumerate(leaves):
        assert merkle.Opening(index, merkle.path(leaves, index)).root(leaf) == plain_root(leaves)
    assert merkle.Opening(0, merkle.path(lines, 0)).root(line) == plain_root(lines)
