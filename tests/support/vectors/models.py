"""tests/vectors/models: small models of each family, written by transformers, and what it computes with them.

python -m support.vectors.models [NAME…]    # in tests/, where PyTorch and transformers are

A folder is a model as `save_pretrained` writes it, and `expected.safetensors`, in float32: `prompt`, the scores
`prefill` after each of its tokens, 64 `tokens` that are the likeliest, and the scores `decoded` before each of them.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "vectors" / "models"
COUNT = 64  # tokens that follow the prompt
SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.5], "long_factor": [1.0, 2.0, 3.0]}
LONG |= {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 128}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
LINEAR = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e5}}
NEAR = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}

#: By the folder's name: the family, what its configuration says beside `SIZES`, the dtype of its file.
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "llama2": ("llama", {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}, "float16"),
    "llama3": ("llama", {"rope_parameters": LLAMA3}, "bfloat16"),
    "smollm": ("llama", {"tie_word_embeddings": True, "num_attention_heads": 3, "num_key_value_heads": 1,
                         "hidden_size": 24}, "bfloat16"),
    "mistral": ("mistral", {"sliding_window": 10, "head_dim": 16}, "bfloat16"),
    "qwen2": ("qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1,
                        "tie_word_embeddings": True}, "float32"),
    "qwen3": ("qwen3", {"head_dim": 16, "rope_parameters": YARN}, "bfloat16"),
    "phi3": ("phi3", {"rope_parameters": LONG, "max_position_embeddings": 512,
                      "original_max_position_embeddings": 128}, "bfloat16"),
    "gemma2": ("gemma2", {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 12}, "bfloat16"),
    "gemma3": ("gemma3_text", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 12,
                               "num_hidden_layers": 3, "layer_types": ["sliding_attention", "sliding_attention",
                                                                       "full_attention"],
                               "rope_parameters": LINEAR | NEAR}, "bfloat16"),
    "mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24}, "bfloat16"),
    "qwen3_moe": ("qwen3_moe", {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 3,
                                "num_hidden_layers": 3, "moe_intermediate_size": 8, "mlp_only_layers": [1],
                                "rope_parameters": DYNAMIC}, "bfloat16"),
}  # fmt: skip


def written(name: str, folder: Path, seed: int) -> None:
    """Writes the model of that name: weights are drawn so that scores differ."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    family, more, dtype = MODELS[name]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SIZES | more))
    with torch.no_grad():
        for place, parameter in model.named_parameters():
            if parameter.ndim > 1:  # words of Gemma are multiplied: of larger ones all would repeat themselves
                small = 0.15 if "gemma" in name and "embed" in place else 1.0
                parameter.normal_(0, 1.5 * small * parameter.shape[1] ** -0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size="30KB" if name == "llama3" else "5GB")


def expected(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """What transformers computes with a model in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    prompt = torch.tensor([[1, *np.random.default_rng(5).integers(3, 96, 11).tolist()]])
    with torch.no_grad():
        out = model(prompt, use_cache=True)
        prefill, scores, tokens = out.logits[0], [out.logits[0, -1]], []
        for _ in range(COUNT):
            tokens.append(scores[-1].argmax().reshape(1, 1))
            out = model(tokens[-1], past_key_values=out.past_key_values, use_cache=True)
            scores.append(out.logits[0, -1])
    return {
        "prompt": prompt[0].numpy().astype(np.int32),
        "prefill": prefill.numpy(),
        "tokens": torch.cat(tokens).flatten().numpy().astype(np.int32),
        "decoded": torch.stack(scores[:COUNT]).numpy(),
    }


def is_clear(arrays: dict[str, np.ndarray[Any, Any]]) -> bool:
    """Whether each token is likelier than others by more than rounding, and not always the same."""
    best = np.sort(arrays["decoded"], axis=1)
    return bool((best[:, -1] - best[:, -2]).min() > 2e-3) and len(set(arrays["tokens"].tolist())) > 16


def main() -> None:
    from safetensors.numpy import save_file

    for name in sys.argv[1:] or MODELS:
        folder = FOLDER / name
        for seed in range(20):
            shutil.rmtree(folder, ignore_errors=True)
            written(name, folder, seed)
            if is_clear(arrays := expected(folder)):
                break
        save_file(arrays, folder / "expected.safetensors")


if __name__ == "__main__":
    main()
