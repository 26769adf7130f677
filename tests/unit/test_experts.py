"""Experts: the best are chosen, only they are read, and files of some of them are refused."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from eigentensor.capture import capture
from eigentensor.errors import ConfigError, TensorFileError
from eigentensor.program.cost import costs
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.runtime import CompiledGraph
from eigentensor_models import gguf
from eigentensor_models.decoder import best
from eigentensor_models.families import architecture_of
from eigentensor_models.folder import Network, read_network
from eigentensor_models.gguf_network import network_of
from eigentensor_models.quantised import Kept, Weight
from eigentensor_models.weights import read_folder
from eigentensor_models.writing import scoring
from support.vectors.gguf_models import FOLDER as GGUF
from support.vectors.models import FOLDER


def test_the_best_come_first_and_of_equal_ones_the_first() -> None:
    scores = np.random.default_rng(1).integers(0, 4, (5, 7)).astype(np.float32)
    graph = capture(lambda scores: best(scores, 3), {"scores": scores}, {}, fingerprint=False)
    chosen = CompiledGraph(graph.program).run({"scores": scores}).outputs["output"]
    assert chosen.tolist() == np.argsort(-scores, axis=1, kind="stable")[:, :3].tolist()


def of_one_layer(count: int) -> Network:
    """Mixtral's first layer with so many experts."""
    whole = read_network(FOLDER / "mixtral")
    assert whole.architecture.experts is not None
    experts = replace(whole.architecture.experts, count=count)
    architecture = replace(whole.architecture, experts=experts, layers=whole.architecture.layers[:1])
    weights: dict[str, Kept] = {}
    for name, shape in architecture.shapes().items():
        kept = whole.weights[name].parts(name)[name]
        weights[name] = Weight(kept.dtype, np.resize(kept.array, shape))
    return Network(architecture, weights)


def test_no_expert_is_read_but_the_chosen_ones() -> None:
    """Many more experts are hardly more work, and they are read without a look at each element's place."""
    few, many = of_one_layer(4), of_one_layer(64)
    programs = [scoring(network, 4).program for network in (few, many)]
    more = costs(programs[1]).evaluations - costs(programs[0]).evaluations
    sizes = [{n: w.parts(n)[n].array.size for n, w in network.weights.items()} for network in (few, many)]
    assert more < sum(sizes[1].values()) - sum(sizes[0].values())
    stacks = {size for name, size in sizes[1].items() if ".experts." in name}
    reads = [
        i
        for body in programs[1].bodies
        for i in body.instructions
        if i.op is Op.LOAD and body.parameters[i.a].elements in stacks
    ]
    assert len(reads) >= 3 and all(i.c == NO_GUARD for i in reads)


def test_experts_that_are_missing_or_differ_are_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "mixtral", tmp_path / "mixtral"))
    weights = {n: np.array(w.array).view(np.float16) for n, w in read_folder(folder).items()}
    name = "model.layers.0.block_sparse_moe.experts.3.w2.weight"
    for changed, match in (
        ({n: w for n, w in weights.items() if n != name}, r"'model.layers.0.mlp.experts.down_proj.weight' is of 3 exp"),
        (weights | {name: weights[name][:-1].copy()}, "experts of .* differ, or have not the shape"),
        (weights | {name.replace(".3.", ".4."): weights[name]}, "is of 5 experts, the configuration says 4"),
    ):
        save_file(changed, folder / "model.safetensors")
        with pytest.raises(TensorFileError, match=match):
            read_network(folder)
    save_file(weights, folder / "model.safetensors")
    assert read_network(folder).architecture.experts is not None


def test_experts_that_find_no_room_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(
        TensorFileError, match=r"'model.layers.0.mlp.experts.gate_proj.weight' find no room in .*: No sp"
    ):
        read_network(FOLDER / "mixtral")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_experts_per_tok": 5}, "5 of 4 experts cannot be chosen"),
        ({"num_local_experts": 1 << 20}, "cannot be chosen"),
        ({"shared_expert_intermediate_size": 4}, "'shared_expert_intermediate_size' is not known"),
    ],
)
def test_options_of_experts_that_cannot_be_are_refused(options: dict[str, int], match: str) -> None:
    config = json.loads((FOLDER / "mixtral" / "config.json").read_text())
    with pytest.raises(ConfigError, match=match):
        architecture_of(config | options)


def test_layers_of_qwen_without_experts_are_said_by_a_step_and_by_a_list() -> None:
    config = json.loads((FOLDER / "qwen3_moe" / "config.json").read_text())
    experts = architecture_of(
        config | {"num_hidden_layers": 6, "mlp_only_layers": [3], "decoder_sparse_step": 2}
    ).experts
    assert experts is not None and experts.without == {0, 2, 3, 4}
    with pytest.raises(ConfigError, match="mlp_only_layers is not a list of numbers"):
        architecture_of(config | {"mlp_only_layers": [-1]})


def test_gguf_files_of_qwen_say_their_experts() -> None:
    file = gguf.read(GGUF / "mixtral-q8_0.gguf")
    metadata = {name.replace("llama.", "qwen3moe."): value for name, value in file.metadata.items()}
    metadata |= {"general.architecture": "qwen3moe", "qwen3moe.expert_feed_forward_length": 24}
    norm = gguf.Tensor(gguf.KINDS[0], (8,), np.zeros(32, np.uint8))
    norms = {f"blk.{n}.attn_{word}_norm.weight": norm for n in range(2) for word in "qk"}
    network = network_of(gguf.File(metadata, file.tensors | norms), "it")
    assert network.architecture.head_norms
    assert network.architecture.experts == network_of(file, "it").architecture.experts
