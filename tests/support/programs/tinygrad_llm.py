"""tinygrad's own language model with small random weights, in each of its kinds."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
from tinygrad import Tensor, nn


def _without_kernels() -> None:
    """tinygrad 0.14.0 imports kernels for AMD's processors that its wheel lacks: here nobody has such a processor."""
    amd = ModuleType("tinygrad.llm.kernels.amd")
    parts = {"Linear": nn.Linear, "gated_delta_prefill": None, "flash_attention": None}
    amd.__dict__.update(parts, amd_custom_kernels_supported=lambda device: False)
    package = ModuleType("tinygrad.llm.kernels")
    package.__dict__["amd"] = amd
    sys.modules.setdefault(package.__name__, package)
    sys.modules.setdefault(amd.__name__, amd)


_without_kernels()

from tinygrad.llm.model import ExpertGating, SSMConfig, Transformer, TransformerConfig  # noqa: E402

POSITIONS = 32
_SMALL = {
    "num_blocks": 2, "dim": 16, "hidden_dim": 24, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5, "vocab_size": 31,
    "head_dim": 4, "rope_theta": 1e4, "rope_dim": 4, "v_head_dim": 4, "max_context": POSITIONS,
}  # fmt: skip
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {},
    "qk_norm": {"qk_norm": 4},
    "qk_norm of all heads": {"qk_norm": 16, "n_kv_heads": 4},
    "bias": {"qkv_bias": True},
    "experts": {**_EXPERTS, "norm_topk_prob": True},
    "biased experts": {**_EXPERTS, "norm_topk_prob": True, "expert_gating_func": ExpertGating.SIGMOID,
                       "expert_bias": True, "routed_scaling_factor": 2.5},
    "experts of all": {**_EXPERTS, "expert_gating_func": ExpertGating.SQRT_SOFTPLUS},
    "latent": {"kv_lora_rank": 8, "q_lora_rank": 8, "head_dim": 8, "v_head_dim": 6},
    "shared experts": {**_EXPERTS, "shared_expert_dim": 12, "leading_dense_blocks": 1, "dense_hidden_dim": 20},
    "latent experts": {**_EXPERTS, "kv_lora_rank": 8, "head_dim": 8, "v_head_dim": 6, "shared_expert_dim": 12,
                       "shared_expert_gate": False},
    "recurrent by channel": {"ssm": SSMConfig(4, 4, 2, 2, 8, kda=True), "ssm_layers": (True, False), "qk_norm": 4},
    "recurrent": {"ssm": SSMConfig(4, 4, 2, 2, 8), "ssm_layers": (True, False), "qk_norm": 4, "attn_output_gate": True},
}  # fmt: skip


def model(kind: str) -> Transformer:
    """A language model of a kind, with the same weights at each call."""
    made = Transformer(TransformerConfig(**(_SMALL | KINDS[kind])))
    random = np.random.default_rng(3)
    for tensor in nn.state.get_parameters(made):
        values = random.normal(0, 0.3, tensor.shape).astype(np.float32)
        tensor.replace(Tensor(values).cast(tensor.dtype).realize())
    return made
