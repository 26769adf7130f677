"""States that stay on the device between runs, weights that stay in their file, steps that plan nothing again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.capture import capture
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, LimitError, TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph, compiled, devices
from eigentensor.runtime.build import compilers
from eigentensor.runtime.cpu import table, toolchain
from eigentensor.runtime.gpu import gridded
from eigentensor.store import save_safetensors
from eigentensor.store.headers import read_header
from support.campaigns.device_cases import on_devices, usable
from support.generated.programs import generate
from support.programs import models

F32 = DType.FLOAT32
WITH_STATES = (7, 9, 13, 14, 17, 18, 20, 21, 22, 23, 24, 26, 27, 28, 32, 33, 34, 36, 37, 39)  # seeds of such programs


def raw(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def goes_on(device: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of one and of several iterations, one after the other, then again from the beginning."""
    example = generate(seed)
    program, variables, most = example.program, example.variables, example.repeat
    assert program.new_states
    first = {name: example.tensors[name] for name in program.named(Role.STATE)}
    others = {name: array for name, array in example.tensors.items() if name not in first}
    before = raw(first)
    kept = CompiledGraph(program, first, device=device, keep_states=True)
    forbid(monkeypatch)
    for start in ({}, first):
        states, earlier = dict(first), list[tuple[Results, dict[str, bytes]]]()
        for repeat in (1, most, 1, 1, most):
            expected = reference.execute(program, {**others, **states}, variables, repeat)
            results = kept.run({**others, **(start if not earlier else {})}, variables, repeat)
            states = expected.states
            assert results.states == {} and raw(results.outputs) == raw(expected.outputs)
            assert raw(kept.states()) == raw(states)
            earlier.append((results, raw(expected.outputs)))
        assert all(raw(results.outputs) == bits for results, bits in earlier)
    assert raw(first) == before


@pytest.mark.parametrize("seed", WITH_STATES[:2])
def test_a_graph_goes_on_from_the_states_that_the_last_run_left(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on("CPU", seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("tenth", range(10))
def test_so_do_many(tenth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20 * tenth, 20 * tenth + 20):
        if generate(seed).program.new_states:
            with monkeypatch.context() as patched:
                goes_on("CPU", seed, patched)


@pytest.mark.parametrize(("device", "seed"), on_devices(WITH_STATES))
def test_so_it_does_on_devices(device: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on(usable(device), seed, monkeypatch)


def sums(elements: int = 1000) -> Program:
    """s becomes s + x, twice: first as it is stored, then as the output."""
    axis = Axis(0, elements)
    s, x, new = (load(Array(name, F32, elements), counter(axis)) for name in ("s", "x", "new"))
    calls = [("new", to_body(binary(Op.ADD, s, x), (axis,))), ("output", to_body(binary(Op.ADD, new, x), (axis,)))]
    buffers = {n: Buffer(Role.STATE if n == "s" else Role.INPUT, F32, (elements,), n) for n in "sx"}
    results = {(Kind.OUTPUT, "output"): ("output", (elements,)), (Kind.STATE, "s"): ("new", (elements,))}
    return assemble(calls, buffers, results, max_repeat=9)


def test_states_of_a_run_that_ended_early_are_lost_and_can_be_given_again() -> None:
    one = np.ones(1000, np.float32)
    kept = CompiledGraph(sums(), {"s": one, "x": one}, keep_states=True)
    with pytest.raises(ExecutionError, match="no run has left states"):
        kept.states()
    kept.run({})

    def stop(number: int, result: np.ndarray) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.run({}, observe=stop)
    for lost in (lambda: kept.run({}), kept.states):
        with pytest.raises(ExecutionError, match=r"ended early|no run has left"):
            lost()
    with pytest.raises(BindingError, match="repeat 10"):
        kept.run({"s": 5 * one}, repeat=10)
    kept.run({"s": 5 * one}, repeat=2)
    assert kept.states()["s"][0] == 7
    with pytest.raises(BindingError, match="repeat 10"):  # before anything is run
        kept.run({}, repeat=10)
    assert kept.run({}).outputs["output"][0] == 9


def test_states_that_are_read_are_the_callers() -> None:
    one = np.ones(1000, np.float32)
    kept = CompiledGraph(sums(), {"s": one, "x": one}, keep_states=True)
    kept.run({})
    kept.states()["s"].fill(100)
    assert kept.run({}).outputs["output"][0] == 4


def matvec(rows: int, columns: int, dtype: DType = F32) -> Program:
    """output[i] = w[i, 0] + w[i, 1]: some of a large tensor, and all of it has to be there."""
    i = Axis(0, rows)
    at = binary(Op.MUL, counter(i), index(columns))
    w, offset = Array("w", dtype, rows * columns), Array("b", DType.UINT8, 3)
    value = binary(Op.ADD, load(w, at), load(w, binary(Op.ADD, at, index(1))))
    small = load(offset, index(2))
    calls = [("sum", to_body(value, (i,))), ("copy", to_body(binary(Op.ADD, small, small), ()))]
    buffers = {
        "w": Buffer(Role.WEIGHT, dtype, (rows, columns), "w"),
        "b": Buffer(Role.WEIGHT, DType.UINT8, (3,), "b"),
    }
    return assemble(calls, buffers, {(Kind.OUTPUT, "sum"): ("sum", (rows,)), (Kind.OUTPUT, "copy"): ("copy", ())})


def index(value: int) -> Node:
    return const(DType.INDEX, value)


B = np.array([1, 2, 3], np.uint8)


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_weights_are_read_in_their_file_wherever_alignment_allows(padding: int, tmp_path: Path) -> None:
    program, w = matvec(10, 64), np.random.default_rng(1).standard_normal((10, 64), dtype=np.float32)
    path = tmp_path / "weights.safetensors"
    entries: dict[str, np.ndarray] = {"b": B, "w": w} if padding else {"w": w, "b": B}
    header, place = {}, 0
    for name, array in entries.items():
        kind = {"w": "F32", "b": "U8"}[name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + padding - 1 if padding else -len(text) % 8)
    data = b"".join(array.tobytes() for array in entries.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    graph = CompiledGraph(program, path, cache=Cache(tmp_path / "cache"))
    expected = reference.execute(program, {"w": w, "b": B})
    assert raw(graph.run({}).outputs) == raw(expected.outputs)
    assert isinstance(graph.loaded, table.Table)
    for number, array in graph.loaded.bound.items():
        start = read_header(path)[program.buffers[number].name].start
        assert is_mapped(array, path) is (start % array.itemsize == 0)


def is_mapped(array: np.ndarray, path: Path) -> bool:
    """Whether an array lies in a mapping of a file."""
    address = int(array.ctypes.data)
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= address < high:
            return line.endswith(str(path))
    return False


CHILD = """
import sys
from pathlib import Path
from eigentensor.cache import Cache
from eigentensor.program.codec import decode
from eigentensor.runtime import CompiledGraph

def anonymous():
    return next(int(l.split()[1]) << 10 for l in open("/proc/self/status") if l.startswith("RssAnon"))

folder = Path(sys.argv[1])
program = decode((folder / "program").read_bytes())
CompiledGraph(program, {n: __import__("numpy").zeros(b.shape, "f4" if n == "w" else "u1")
                        for n, b in ((b.name, b) for b in program.buffers)}, cache=Cache(folder / "cache"))
before = anonymous()
graph = CompiledGraph(program, folder / "weights.safetensors", cache=Cache(folder / "cache"))
graph.run({})
print(anonymous() - before)
"""


def test_no_copy_of_a_file_of_weights_is_made(tmp_path: Path) -> None:
    program, w = matvec(1 << 14, 1 << 10), np.zeros((1 << 14, 1 << 10), np.float32)
    save_safetensors(tmp_path / "weights.safetensors", {"w": w, "b": B})
    (tmp_path / "program").write_bytes(encode(program))
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < w.nbytes // 16 == 4 << 20


@pytest.mark.parametrize(
    ("tensors", "error", "message"),
    [
        ({"w": np.zeros((10, 64), np.float16), "b": B}, BindingError, "'w' of .*expected float32, given float16"),
        ({"w": np.zeros((10, 65), np.float32), "b": B}, BindingError, r"'w': expected float32 of shape \(10, 64\)"),
        ({"w": np.zeros((10, 64), np.float32), "b": B, "c": B}, BindingError, "unknown c"),
        ({}, TensorFileError, "not a safetensors file"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_before_anything_is_compiled(
    tensors: dict[str, np.ndarray], error: type[EigenTensorError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "weights.safetensors"
    if tensors:
        save_safetensors(path, tensors)
    else:
        path.write_bytes(b"weights")
    with pytest.raises(error, match=message):
        CompiledGraph(matvec(10, 64), path, cache=Cache(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_patterns_are_no_bfloat16_in_a_file(tmp_path: Path) -> None:
    program, w = matvec(10, 64, DType.BFLOAT16), np.full((10, 64), 0x3F80, np.uint16)
    path = tmp_path / "weights.safetensors"
    save_safetensors(path, {"w": w, "b": B})
    with pytest.raises(BindingError, match="expected bfloat16, given uint16"):
        CompiledGraph(program, path)
    save_safetensors(path, {"w": w, "b": B}, {"w": DType.BFLOAT16})
    assert CompiledGraph(program, path).run({}).outputs["sum"][0] == 0x4000


def test_what_needs_too_much_memory_is_refused_before_anything_is_read_compiled_or_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    monkeypatch.setattr(compiled, "load_safetensors", never)
    with pytest.raises(LimitError, match="bytes of memory on CPU, there are 100"):
        CompiledGraph(matvec(10, 64), tmp_path / "none", memory_limit=100)


def never(*_: object, **__: object) -> Any:
    raise AssertionError("this is done once, when a graph is compiled")


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing may be planned, scheduled, compiled or allocated for calls."""
    for module, names in {
        devices: ("load", "prepare", "parts"),
        table: ("plan", "memories", "memory", "load", "units"),
        gridded: ("plan", "memories", "write"),
        toolchain: ("write", "choose"),
        compilers: ("tuned",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(toolchain.Toolchain, "compile", never)


def whole(network: models.Gpt2, tokens: Tensor) -> Tensor:
    """The scores behind every position at once, without a cache."""
    length = int(tokens.shape[1])
    x = network.words(tokens) + network.places.weight[:length]
    for layer in network.layers:
        width = int(x.shape[-1])
        split = (1, length, layer.heads, width // layer.heads)
        q, k, v = (t.reshape(*split).transpose(1, 2) for t in layer.attend(layer.first_norm(x)).chunk(3, dim=-1))
        mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + layer.out(mixed.transpose(1, 2).reshape(1, length, width))
        x = x + layer.down(layer.up(layer.second_norm(x)).gelu())
    return network.norm(x) @ network.words.weight.transpose()


@pytest.mark.slow
@pytest.mark.parametrize("context", [16, 128])
def test_a_decoder_takes_all_its_steps_without_planning_or_compiling_anything_again(
    context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = models.gpt2_step(layers=1 if context < 128 else 2, width=32, heads=2, context=context, vocabulary=61)
    full = capture(lambda tokens: whole(of.model, tokens), {"tokens": np.zeros((1, context), np.int32)}, of.model)
    complete = CompiledGraph(full.program, full.weights)
    graph = of.captured()
    program = graph.program
    kept = CompiledGraph(program, {**graph.weights, **graph.states}, keep_states=True)
    token, tokens = 7, []
    with monkeypatch.context() as patch:
        forbid(patch)
        for position in range(context):
            tokens.append(token)
            inputs, at = {"token": np.array([[token]], np.int32)}, {"position": position}
            if checked := position in (0, context // 2, context - 1):
                states = kept.states() if position else dict(graph.states)
            results = kept.run(inputs, at)
            if checked:
                right = reference.execute(program, {**graph.weights, **inputs, **states}, at)
                assert raw(results.outputs) == raw(right.outputs)
                assert raw(kept.states()) == raw(right.states)
            (scores,) = (a for name, a in results.outputs.items() if name != "fingerprint")
            token = int(scores.reshape(-1).argmax())
    scores = complete.run({"tokens": np.array([tokens], np.int32)}).outputs["output"]
    again = scores.reshape(context, -1).argmax(-1)
    assert again.tolist() == [*tokens[1:], token]
    assert len(set(tokens)) > 3
