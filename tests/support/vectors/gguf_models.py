"""tests/vectors/gguf_models: GGUF files of small models, written by the library gguf, and what others make of them.

python -m support.vectors.gguf_models    # in tests/, where gguf, PyTorch and transformers are

`expected.json` has for each file: the sha256 of each tensor as gguf makes it float32, under the name of its family;
tokens of texts; and what transformers computes with the file in float32: 32 tokens, and the scores before the last.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from support.vectors import model_texts, models

FOLDER = Path(__file__).parents[2] / "vectors" / "gguf_models"
COUNT = 32
#: By the file's name: the folder of the model, and the kind of its matrices.
FILES = {
    "llama-q8_0": ("model_texts/llama", "Q8_0"),
    "qwen2-q4_0": ("model_texts/qwen2", "Q4_0"),
    "llama3-f32": ("models/llama3", "F32"),
    "qwen3-bf16": ("models/qwen3", "BF16"),
    "gemma2-f16": ("models/gemma2", "F16"),
    "gemma3-q8_0": ("models/gemma3", "Q8_0"),
    "mixtral-q8_0": ("models/mixtral", "Q8_0"),
}
#: `general.architecture` by `model_type`, where they differ.
ARCHITECTURES = {"gemma3_text": "gemma3", "mixtral": "llama"}


def written(name: str) -> None:
    """Writes one file, as llama.cpp's converter names and orders what is in it."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    source, kind = FILES[name]
    folder = FOLDER.parent / source
    config = json.loads((folder / "config.json").read_text())
    arch = ARCHITECTURES.get(config["model_type"], config["model_type"])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    parameters = config["rope_parameters"]
    _rotary(writer, parameters, size)
    if arch.startswith("gemma"):
        writer.add_sliding_window(config["sliding_window"])
        if arch == "gemma3":
            writer.add_rope_freq_base_swa(parameters["sliding_attention"]["rope_theta"])
            writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
        if arch == "gemma2":
            writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if "num_local_experts" in config:
        writer.add_expert_count(config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
    _tokens(writer, folder, config["vocab_size"])
    blocks = config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), blocks)
    for key, tensor in _apart(model.state_dict()).items():
        if key == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        array = tensor.numpy()
        if arch == "llama" and (".q_proj." in key or ".k_proj." in key):
            heads = config["num_attention_heads" if ".q_proj." in key else "num_key_value_heads"]
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if arch.startswith("gemma") and "norm.weight" in key:
            array = array + 1
        place = names.get_name(key, try_suffixes=(".weight", ".bias"))
        wanted = gguf.GGMLQuantizationType[kind if array.ndim > 1 and ".gate." not in key else "F32"]
        if array.ndim > 1 and "Q" in wanted.name and array.shape[-1] % 32:
            wanted = gguf.GGMLQuantizationType.F16  # as quantisers do where blocks do not fit
        writer.add_tensor(place, gguf.quants.quantize(array, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _apart(state: dict[str, Any]) -> dict[str, Any]:
    """The same with the first two matrices of experts apart, as files have them."""
    named = {}
    for key, tensor in state.items():
        at, packed, _ = key.partition("experts.gate_up_proj")
        if not packed:
            named[key.replace("experts.down_proj", "experts.down_proj.weight")] = tensor
            continue
        for word, part in zip(("gate", "up"), tensor.chunk(2, dim=1), strict=True):
            named[f"{at}experts.{word}_proj.weight"] = part
    return named


def _rotary(writer: Any, parameters: dict[str, Any], size: int) -> None:
    import gguf

    parameters = parameters.get("full_attention", parameters)
    writer.add_rope_freq_base(parameters["rope_theta"])
    if parameters["rope_type"] == "llama3":
        angles = 1 / parameters["rope_theta"] ** (np.arange(0, size, 2) / size)
        turns = parameters["original_max_position_embeddings"] * angles / (2 * np.pi)
        low, high, factor = (parameters[n] for n in ("low_freq_factor", "high_freq_factor", "factor"))
        share = np.clip((turns - low) / (high - low), 0, 1)
        writer.add_tensor("rope_freqs.weight", (1 / ((1 - share) / factor + share)).astype(np.float32))
    elif parameters["rope_type"] != "default":
        writer.add_rope_scaling_type(gguf.RopeScalingType(parameters["rope_type"]))
        writer.add_rope_scaling_factor(parameters["factor"])
        if "original_max_position_embeddings" in parameters:
            writer.add_rope_scaling_orig_ctx_len(parameters["original_max_position_embeddings"])


def _tokens(writer: Any, folder: Path, size: int) -> None:
    """The tokenizer of a folder as metadata; letters where it has none."""
    path = folder / "tokenizer.json"
    if not path.exists():
        path = model_texts.FOLDER / "qwen2" / "tokenizer.json"
    whole = json.loads(path.read_text())
    tokens = sorted(whole["model"]["vocab"], key=whole["model"]["vocab"].__getitem__)
    added = {one["id"]: one["content"] for one in whole["added_tokens"]}
    tokens = [added.get(number, token) for number, token in enumerate(tokens)]
    tokens += [added[number] for number in sorted(added) if number >= len(tokens)]
    tokens = (tokens + [f"[PAD{number}]" for number in range(len(tokens), size)])[:size]
    kinds = [3 if number in added else 6 if token.startswith("<0x") else 1 for number, token in enumerate(tokens)]
    if whole["model"]["byte_fallback"]:
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([float(-number) for number in range(len(tokens))])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        kinds[0] = 2
        writer.add_chat_template(model_texts.INST)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        known = set(tokens)
        merges = [merge for merge in whole["model"]["merges"] if {*merge, "".join(merge)} <= known]
        writer.add_token_merges([" ".join(merge) for merge in merges])
        writer.add_eos_token_id(min(381, size - 1))
        writer.add_chat_template(model_texts.CHATML)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)


def dequantised(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a file by their names there, as gguf makes them float32."""
    import gguf

    reader = gguf.GGUFReader(FOLDER / f"{name}.gguf")
    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}


def digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, np.float32).tobytes()).hexdigest()


def expected(name: str) -> dict[str, Any]:
    """What others make of a file."""
    import torch
    from transformers import AutoModelForCausalLM

    source, _ = FILES[name]
    row: dict[str, Any] = {"tensors": {key: digest(array) for key, array in dequantised(name).items()}}
    if source.startswith("model_texts"):
        row["texts"] = json.loads((FOLDER.parent / source / "expected.json").read_text())["texts"]
    config = models.FOLDER.parent / source
    size = json.loads((config / "config.json").read_text()).get("head_dim")
    more = {"query_pre_attn_scalar": size} if "gemma" in name else {}  # which these files cannot say
    model = AutoModelForCausalLM.from_pretrained(
        config, dtype=torch.float32, attn_implementation="eager", **more
    ).eval()
    lacks, unknown = model.load_state_dict(_state(name, model), strict=False)
    assert not lacks and not unknown
    prompt = [1, *np.random.default_rng(5).integers(3, 96, 11).tolist()]
    tokens, out, scores = [], model(torch.tensor([prompt]), use_cache=True), None
    with torch.no_grad():
        for _ in range(COUNT):
            scores = out.logits[0, -1]
            tokens.append(int(scores.argmax()))
            out = model(torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True)
    assert scores is not None
    return row | {"prompt": prompt, "tokens": tokens, "scores": [float(f"{value:.7g}") for value in scores.tolist()]}


def _state(name: str, model: Any) -> dict[str, Any]:
    """The tensors of a file under transformers' names, in its order of rows."""
    import gguf
    import torch

    config = model.config
    arch = ARCHITECTURES.get(config.model_type, config.model_type)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), config.num_hidden_layers)
    arrays, state = dequantised(name), {}
    for key in _apart(model.state_dict()):
        array = arrays.get(names.get_name(key, try_suffixes=(".weight", ".bias")))
        if array is None:
            continue
        if arch == "llama" and (".q_proj." in key or ".k_proj." in key):
            heads = config.num_attention_heads if ".q_proj." in key else config.num_key_value_heads
            array = array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if arch.startswith("gemma") and "norm.weight" in key:
            array = array - 1
        state[key] = torch.from_numpy(np.array(array, np.float32))
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    for key in model.state_dict():
        if "experts.gate_up_proj" in key:
            parts = [state.pop(key.replace("gate_up_proj", f"{word}_proj.weight")) for word in ("gate", "up")]
            state[key] = torch.cat(parts, dim=1)
        elif "experts.down_proj" in key:
            state[key] = state.pop(f"{key}.weight")
    return state


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = {}
    for name in FILES:
        written(name)
        rows[name] = expected(name)
    (FOLDER / "expected.json").write_text(json.dumps(rows, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
