"""What a user may name as a program, and what becomes of it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from eigentensor import reference
from eigentensor.errors import BindingError, BlobNotFound, CaptureError
from eigentensor.program.codec import encode
from eigentensor.store import save_safetensors
from eigentensor_client.cli import main
from eigentensor_client.sources import is_captured, is_uuid, of_python
from eigentensor_client.verbs.options import Execution
from eigentensor_client.verbs.run import read_work
from support.programs.worked_examples import layer

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    np.save("x.npy", X)
    return tmp_path


def executed(execution: Execution) -> np.ndarray:
    work = read_work(execution)
    assert isinstance(work.weights, dict)
    return reference.execute(work.program, {**work.inputs, **work.weights}).outputs["output"]


def test_an_input_gives_the_shape_that_an_onnx_model_leaves_open_under_the_models_names() -> None:
    spec = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n]) for name, n in (("in/x", 3), ("y", 4))]
    node = helper.make_node("MatMul", ["in/x", "w"], ["y"])
    graph = helper.make_graph([node], "product", spec[:1], spec[1:], [numpy_helper.from_array(W, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "model.onnx")
    work = read_work(Execution(program="model.onnx", input=["in/x=@x.npy"]))
    assert {name: tensor.shape for name, tensor in work.inputs.items()} == {"in.x": (2, 3)}
    assert isinstance(work.weights, dict)
    outputs = reference.execute(work.program, {**work.inputs, **work.weights}).outputs
    assert np.array_equal(outputs["y"], X @ W)
    with pytest.raises(CaptureError, match="the open shape"):
        read_work(Execution(program="model.onnx"))
    with pytest.raises(BindingError, match="brings its own weights"):
        read_work(Execution(program="model.onnx", weights=Path("w.safetensors")))


def test_float64_is_float32_where_it_is_asked_for_and_the_plan_says_so() -> None:
    Path("net.py").write_text("def net(x): return x * 2\n")
    np.save("d.npy", X.astype(np.float64))
    with pytest.raises(CaptureError, match="float64"):
        read_work(Execution(program="net.py:net", input=["x=@d.npy"]))
    work = read_work(Execution(program="net.py:net", input=["x=@d.npy"], cast="float32"))
    assert work.cast == ("the tensor 'x'",) and work.inputs["x"].dtype == np.float32
    assert np.array_equal(reference.execute(work.program, work.inputs).outputs["output"], X * 2)
    Path("net.program").write_bytes(encode(work.program))
    with pytest.raises(BindingError, match="a program already"):
        read_work(Execution(program="net.program", input=["x=@x.npy"], cast="float32"))


def test_a_function_in_a_python_file_is_captured_with_the_inputs_that_are_given() -> None:
    Path("net.py").write_text(
        "from tinygrad import Tensor\nw = Tensor.arange(12).reshape(3, 4).float()\ndef net(x): return x @ w\n"
    )
    assert np.array_equal(executed(Execution(program="net.py:net", input=["x=@x.npy"])), X @ W)


def test_a_function_is_captured_in_shards(capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.py").write_text("def net(x): return {'sums': x.sum(0), 'rows': x.sum(1)}\n")
    roots = {}
    for words in ("", "--shards 2", "--shards 2 --shard-axis x=0", "--shards 3 --shard-axis x=1"):
        with pytest.raises(SystemExit) as ended:
            main(["program", "capture", "net.py:net", "--input", "x=@x.npy", "--json", *words.split()])
        out, err = capsys.readouterr()
        if ended.value.code:
            assert ended.value.code == 7 and "3 shards" in err
        else:
            roots[words] = json.loads(out)["uuid"]
    assert len(roots) == 3 and len(set(roots.values())) == 2


def test_a_function_of_weights_gives_the_function_or_the_program_that_has_them() -> None:
    save_safetensors(Path("w.safetensors"), {"w": W})
    Path("net.py").write_text(
        "from eigentensor.capture import capture\nimport numpy as np\n"
        "def net(weights): return lambda x: x @ weights['w']\n"
        "def program(weights): return capture(net(weights), [np.zeros((2, 3), np.float32)])\n"
    )
    for name in ("net.py:net", "net.py"):
        execution = Execution(program=name, input=["x=@x.npy"], weights=Path("w.safetensors"))
        assert np.array_equal(executed(execution), X @ W)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def net(x): return x +", "net.py cannot be run: SyntaxError"),
        ("import nothing_like_it", "net.py:1"),
        ("def net(): return 1 / 0\n", r"net of net.py cannot be run: ZeroDivisionError: division by zero \(net.py:1\)"),
        ("net = 3", "net.py has no program named 'net'"),
        ("raise SystemExit(4)", "net.py:1"),
    ],
)
def test_what_is_wrong_with_a_users_file_is_said_in_one_line(text: str, says: str) -> None:
    Path("net.py").write_text(text)
    with pytest.raises(CaptureError, match=says):
        of_python(Path("net.py"), "net")


def test_inputs_that_a_function_does_not_take_are_refused_by_their_names() -> None:
    Path("net.py").write_text("def net(x): return x\n")
    with pytest.raises(BindingError, match=r"net of net.py takes x, and is given y"):
        read_work(Execution(program="net.py:net", input=["y=@x.npy"]))
    with pytest.raises(BindingError, match="takes x, and is given nothing"):
        read_work(Execution(program="net.py:net"))


def test_a_program_is_named_by_its_file_or_its_uuid() -> None:
    Path("a.program").write_bytes(encode(layer().program))
    assert read_work(Execution(program="a.program")).program == layer().program
    assert is_uuid("ab" * 32) and is_uuid("0x" + "ab" * 32) and not is_uuid("a.program")
    assert is_captured("m.onnx") and is_captured("a.py:b") and not is_captured("a.program")
    with pytest.raises(BlobNotFound):
        read_work(Execution(program="b.program"))
