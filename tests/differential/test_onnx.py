"""ONNX models as programs: what onnx's own evaluator computes up to rounding, the reference's bits when executed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tinygrad import Tensor, dtypes

from eigentensor import reference
from eigentensor.capture import GraphProgram, capture, import_onnx, load_weights
from eigentensor.capture.names import names_for
from eigentensor.errors import CaptureError, EigenTensorError, TensorFileError
from eigentensor.program import DType, Role
from eigentensor.store import load_safetensors, save_safetensors
from eigentensor_client.cli import main
from support.oracles.agreement import disagreements
from support.programs.onnx_models import FLOAT, INT64, MODELS, model, node, normal, saved

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_what_onnx_says_and_has_the_reference_s_bits(name: str, tmp_path: Path) -> None:
    made, inputs = MODELS[name]()
    graph = import_onnx(saved(made, tmp_path), {n: array.shape for n, array in inputs.items()}, fingerprint=False)
    tensors = {**graph.weights, **inputs}
    results = reference.execute(graph.program, tensors).outputs
    names = [output.name for output in made.graph.output]
    for output, expected in zip(names, ReferenceEvaluator(made).run(names, inputs), strict=True):
        assert results[output].dtype == expected.dtype, output
        np.testing.assert_allclose(results[output], expected, rtol=2e-5, atol=2e-6, err_msg=output)
    assert disagreements(graph.program, tensors) == []


def test_initialisers_are_weights_and_single_numbers_are_constants(tmp_path: Path) -> None:
    made, inputs = MODELS["transformer"]()
    graph = import_onnx(saved(made, tmp_path), {"tokens": (2, 5)})
    read = {"table", "places", "ln.weight", "ln.bias", "up", *(f"{part}.weight" for part in "qkv")}
    assert set(graph.weights) - {"first"} == read
    assert list(graph.program.named(Role.INPUT)) == list(inputs)
    held = {i.name: np.frombuffer(i.raw_data, np.float32) for i in made.graph.initializer if i.name in read}
    assert all(np.array_equal(graph.weights[name].ravel(), held[name]) for name in read)


def test_the_same_file_is_the_same_program_wherever_it_lies(tmp_path: Path) -> None:
    made, _ = MODELS["convolutions"]()
    (tmp_path / "other").mkdir()
    assert import_onnx(saved(made, tmp_path)).uuid == import_onnx(saved(made, tmp_path / "other")).uuid


def test_names_are_mapped_one_to_one_to_what_the_format_admits() -> None:
    long = "layer/" * 40
    names = ["a/b", "a.b", "/a//b/", "tab\t", "", "é", "e\u0301", long, long + "x", "..."]
    mapped = names_for(names)
    assert mapped["a.b"] == "a.b" and mapped["é"] == "é" and mapped["tab\t"] == "tab_" and mapped["/a//b/"] == "a..b"
    assert mapped["a/b"].startswith("a.b~") and mapped["e\u0301"].startswith("é~") and mapped[""].startswith("~")
    assert len(set(mapped.values())) == len(names)
    assert all(len(new.encode()) <= 128 for new in mapped.values())
    assert names_for(reversed(names)) == mapped


def test_an_open_shape_is_asked_for(tmp_path: Path) -> None:
    path = saved(MODELS["mlp"]()[0], tmp_path)
    with pytest.raises(CaptureError, match=r"'x' has the open shape \(batch, 16\)") as refused:
        import_onnx(path)
    assert "x=1,16" in refused.value.fix and refused.value.topic == "shapes"
    with pytest.raises(CaptureError) as unfit:
        import_onnx(path, {"x": (3, 17)})
    assert "the shape (batch, 16)," in unfit.value.fix
    for shapes, why in (({"x": (3, 17)}, "not"), ({"x": (3,)}, "not"), ({"y": (1,)}, "no input 'y'")):
        with pytest.raises(CaptureError, match=why):
            import_onnx(path, shapes)


def test_one_symbol_is_one_number(tmp_path: Path) -> None:
    made = model([node("Add", ["a", "b"], ["c"])], dict.fromkeys("ab", (FLOAT, ("n", 2))), {"c": FLOAT})
    with pytest.raises(CaptureError, match="'b' has 4 for 'n', another input's 3"):
        import_onnx(saved(made, tmp_path), {"a": (3, 2), "b": (4, 2)})


def test_what_cannot_be_imported_is_refused_with_its_name(tmp_path: Path) -> None:
    strange = model(
        [node("StringNormalizer", ["s"], ["t"])], {"s": (TensorProto.STRING, (2,))}, {"t": TensorProto.STRING}
    )
    text = model([node("Identity", ["s"], ["t"])], {"s": (TensorProto.STRING, (2,))}, {"t": TensorProto.STRING})
    double = model([node("Add", ["a", "w"], ["c"])], {"a": (FLOAT, (2,))}, {"c": FLOAT})
    double.graph.initializer.add(name="w", data_type=TensorProto.DOUBLE, dims=[2], raw_data=bytes(16))
    unknown = model([node("Multinomial", ["a"], ["m"], sample_size=2), node("Det", ["a"], ["d"])],
                    {"a": (FLOAT, (2, 2))}, {"m": TensorProto.INT32, "d": FLOAT})  # fmt: skip
    data = model([node("Reshape", ["a", "s"], ["b"])], {"a": (FLOAT, (4,)), "s": (INT64, (2,))}, {"b": FLOAT})
    for made, why in (
        (strange, "operators that cannot be imported: StringNormalizer"),
        (text, "the tensor 's': string cannot be in a program"),
        (double, "'w': float64"),
        (unknown, "operators that cannot be imported: Det, Multinomial"),
        (data, "the operator Reshape takes numbers that depend on an input: 's'"),
    ):
        with pytest.raises(CaptureError, match=why) as refused:
            import_onnx(saved(made, tmp_path))
        assert "\n" not in str(refused.value) and refused.value.fix


def test_types_and_operators_without_a_meaning_here_are_named(tmp_path: Path) -> None:
    """Not "no ONNX model": four-bit weights, and what skl2onnx writes of a support vector machine."""
    for dtype, type_name in (
        (TensorProto.UINT4, "uint4"),
        (TensorProto.INT4, "int4"),
        (TensorProto.FLOAT8E5M2, "float8e5m2"),
    ):
        made = model([node("DequantizeLinear", ["w", "s"], ["y"])], {}, {"y": FLOAT}, {"s": np.array(1, np.float32)})
        made.graph.initializer.add(name="w", data_type=dtype, dims=[2], raw_data=b"\x12")
        with pytest.raises(CaptureError, match=f"the tensor 'w': {type_name} cannot be in a program"):
            import_onnx(saved(made, tmp_path))
    made = model(
        [node("SVMClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", classlabels_ints=[0, 1])],
        {"x": (FLOAT, (None, 4))}, {"l": INT64},
    )  # fmt: skip
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with pytest.raises(CaptureError, match=r"cannot be imported: ai\.onnx\.ml\.SVMClassifier"):
        import_onnx(saved(made, tmp_path))


def doubled(tmp_path: Path) -> Path:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Cast", ["m"], ["c"], to=TensorProto.DOUBLE)]
    nodes.append(node("Add", ["c", "b"], ["y"]))
    weights = {"w": normal(4, 2).astype(np.float64), "b": np.array(0.5, np.float64)}
    return saved(model(nodes, {"x": (TensorProto.DOUBLE, (3, 4))}, {"y": TensorProto.DOUBLE}, weights), tmp_path)


def test_float64_is_float32_if_one_asks_for_it(tmp_path: Path) -> None:
    path = doubled(tmp_path)
    with pytest.raises(CaptureError, match="float64 cannot be in a program") as refused:
        import_onnx(path)
    assert 'cast="float32"' in refused.value.fix and refused.value.topic == "cast"
    graph = import_onnx(path, cast="float32")
    assert set(graph.cast) >= {"the tensor 'x'", "the tensor 'w'", "the attribute 'to' of Cast"}
    x = normal(3, 4)
    result = reference.execute(graph.program, {**graph.weights, "x": x}).outputs["y"]
    (wanted,) = ReferenceEvaluator(str(path)).run(None, {"x": x.astype(np.float64)})
    assert result.dtype == np.float32 and isinstance(wanted, np.ndarray)
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_a_captured_function_takes_float64_as_float32_if_one_asks_for_it() -> None:
    weight = Tensor(np.arange(6, dtype=np.float64).reshape(3, 2))
    x = normal(4, 3).astype(np.float64)
    with pytest.raises(CaptureError, match="float64"):
        capture(lambda x: x @ weight, {"x": x})
    graph = capture(lambda x: x @ weight, {"x": x}, cast="float32")
    assert graph.cast == ("the tensor 'x'", "the tensor 'weight'") and weight.dtype is dtypes.float64
    (result,) = reference.execute(graph.program, {**graph.weights, "x": x.astype(np.float32)}).outputs.values()
    np.testing.assert_allclose(result, x @ np.arange(6).reshape(3, 2), rtol=1e-5)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in a folder of its own: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_the_command_writes_the_program_and_beside_it_its_weights(tmp_path: Path, command: Command) -> None:
    path = saved(MODELS["mlp"]()[0], tmp_path)
    code, out, _ = command("program", "import", "model.onnx", "--shape", "x=3,16")
    assert code == 0 and out.startswith("model.program")
    graph = import_onnx(path, {"x": (3, 16)})
    assert (tmp_path / "model.program").read_bytes() == graph.to_bytes()
    written = load_safetensors(tmp_path / "model.weights.safetensors")
    assert {name: array.tobytes() for name, array in written.items()} == {
        name: array.tobytes() for name, array in graph.weights.items()
    }
    code, _, _ = command("program", "import", "model.onnx", "--shape", "x=3,16", "-o", "p", "--weights", "w")
    assert code == 0 and (tmp_path / "p").exists() and load_safetensors(tmp_path / "w").keys() == graph.weights.keys()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["model.onnx"], 7, "has the open shape (batch, 16)"),
        (["model.onnx", "--shape", "x"], 2, "cannot read shape 'x'"),
        (["model.onnx", "--shape", "x=a"], 2, "cannot read shape 'x=a'"),
        (["model.onnx", "--shape", "x=3,16", "--cast", "float16"], 2, "float16"),
        (["nowhere.onnx"], 4, "cannot read nowhere.onnx"),
        (["model.bin"], 7, "model.bin is not an ONNX model"),
    ],
)
def test_a_mistake_is_said_in_a_line(
    tmp_path: Path, command: Command, words: list[str], code: int, message: str
) -> None:
    saved(MODELS["mlp"]()[0], tmp_path)
    (tmp_path / "model.bin").write_bytes(b"PK\x03\x04")
    status, out, err = command("program", "import", *words)
    assert (status, out) == (code, "")
    assert message in err and "Traceback" not in err


def test_the_command_says_what_it_casts(tmp_path: Path, command: Command) -> None:
    doubled(tmp_path)
    code, _, err = command("program", "import", "model.onnx")
    assert code == 7 and "--cast float32" in err
    code, out, err = command("program", "import", "model.onnx", "--cast", "float32")
    assert code == 0 and "float32 instead of float64: the tensor 'x', the tensor 'w'" in out + err


def test_a_function_is_captured_with_the_weights_of_a_file(tmp_path: Path, command: Command) -> None:
    weight = normal(4, 2)
    save_safetensors(tmp_path / "w.safetensors", {"up": weight})
    (tmp_path / "model.py").write_text(
        "from tinygrad import Tensor\nfrom eigentensor.capture import capture\n"
        "def program(weights):\n    return capture(lambda x: x @ weights['up'], [Tensor.empty(3, 4)], weights)\n"
    )
    code, _, err = command("program", "capture", "model.py", "--weights", "w.safetensors")
    assert code == 0, err
    assert load_safetensors(tmp_path / "model.weights.safetensors")["up"].tobytes() == weight.tobytes()


def external(folder: Path, location: str) -> Path:
    made = model([node("Add", ["a", "w"], ["b"])], {"a": (FLOAT, (2,))}, {"b": FLOAT})
    weight = made.graph.initializer.add(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "4"), ("length", "8")):
        weight.external_data.add(key=key, value=value)
    return saved(made, folder)


def test_external_data_are_read_from_the_model_s_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for place in (folder / "w.bin", folder / "sub" / "w.bin", tmp_path / "secret"):
        place.write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    for location in ("w.bin", "sub/w.bin", "sub/../w.bin"):
        assert import_onnx(external(folder, location)).weights["w"].tolist() == [2, 3]
    for location in ("../secret", str(tmp_path / "secret"), "link", "missing", "", "sub"):
        with pytest.raises(CaptureError, match="not in the model's folder"):
            import_onnx(external(folder, location))


def test_a_malformed_model_is_refused_in_one_line(tmp_path: Path) -> None:
    good = saved(MODELS["mlp"]()[0], tmp_path).read_bytes()
    random = np.random.default_rng(5)
    broken = [b"", b"EIGT", good[:100], good[:-9], b"\x3a\xff\xff\xff\xff\x0f" + good]
    for _ in range(60):
        changed = bytearray(good)
        changed[random.integers(0, 300)] ^= 1 << random.integers(0, 8)
        broken.append(bytes(changed))
    path = tmp_path / "broken.onnx"
    refused = 0
    for content in broken:
        path.write_bytes(content)
        try:
            assert isinstance(import_onnx(path, {"x": (3, 16)}), GraphProgram)
        except EigenTensorError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 10


def test_weights_of_a_safetensors_file_have_its_bits(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    tensors: dict[str, np.ndarray] = {"a": normal(3, 4), "b": np.arange(6, dtype=np.uint16)}
    save_safetensors(path, tensors, {"b": DType.BFLOAT16})
    loaded = load_weights(path)
    assert str(loaded["b"].dtype) == "dtypes.bfloat16"
    graph = capture(lambda x: (x @ loaded["a"].T, loaded["b"] * 2), {"x": normal(2, 4)}, loaded)
    assert {n: graph.weights[n].tolist() for n in "ab"} == {n: tensors[n].tolist() for n in "ab"}


def gguf(tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> bytes:
    """A GGUF file, version 3: types, dimensions (innermost first) and data by name."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(8, "little") + value.encode()

    head = b"GGUF" + (3).to_bytes(4, "little") + len(tensors).to_bytes(8, "little") + bytes(8)
    data = b""
    for name, (kind, dims, content) in tensors.items():
        head += text(name) + len(dims).to_bytes(4, "little") + b"".join(d.to_bytes(8, "little") for d in dims)
        head += kind.to_bytes(4, "little") + len(data).to_bytes(8, "little")
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def test_weights_of_a_gguf_file_are_loaded_and_what_is_malformed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    plain, scale, bytes_ = normal(2, 3), np.array([0.5], np.float16), np.arange(-16, 16, dtype=np.int8)
    content = gguf({"plain": (0, (3, 2), plain.tobytes()), "eight": (8, (32,), scale.tobytes() + bytes_.tobytes())})
    path.write_bytes(content)
    loaded = load_weights(path)
    assert loaded["plain"].tolist() == plain.tolist()
    assert loaded["eight"].tolist() == (bytes_ * 0.5).tolist()
    for broken in (b"", b"GGUF", content[:60], content[:70] + b"\xff" * 8 + content[78:]):
        path.write_bytes(broken)
        with pytest.raises(TensorFileError, match="not a GGUF file"):
            load_weights(path)
    (tmp_path / "w.bin").write_bytes(content)
    for other in ("w.bin", "missing.gguf"):
        with pytest.raises(TensorFileError):
            load_weights(tmp_path / other)
