"""Attention as an operator: heads in groups, a cache, masks of several kinds."""

from typing import Any

from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.arithmetic import matmul
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import operator, refuse

_UNSEEN = -float("inf")


@operator("Attention", since=23)
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, seen: Tensor | None = None, is_causal: int = 0, q_num_heads: int | None = None,
    kv_num_heads: int | None = None, qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: Any = None, left_window_size: int = -1, right_window_size: int = -1, *, node: Node,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`seen` are how many keys of a cache each of the batch has. A query that may see no key gives zeros.

    The second and third results are keys and values with what was before them, the fourth is what `…_mode` names:
    0 the scores, 1 after the soft cap, 2 after the mask, 3 after the softmax.
    """
    if (past_key is None) != (past_value is None) or (seen is not None and past_key is not None):
        raise refuse(node, "a cache that is neither whole nor absent", "check it with onnx.checker")
    flat = q.ndim == 3
    if flat:
        if not q_num_heads or not kv_num_heads:
            raise refuse(node, "tensors of 3 dimensions without numbers of heads", "check it with onnx.checker")
        q, k, v = _heads(q, q_num_heads, node), _heads(k, kv_num_heads, node), _heads(v, kv_num_heads, node)
    before = 0 if past_key is None else past_key.shape[2]
    keys = k if past_key is None else past_key.cat(k, dim=2)
    values = v if past_value is None else past_value.cat(v, dim=2)
    if q.shape[1] % keys.shape[1] or keys.shape[1] != values.shape[1]:
        raise refuse(node, f"{q.shape[1]} heads of queries and {keys.shape[1]} of keys", "check it with onnx.checker")
    group = q.shape[1] // keys.shape[1]
    root = (q.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    factor = Tensor(root, dtype=q.dtype)
    scores = matmul(q * factor, keys.repeat_interleave(group, 1).transpose(-1, -2) * factor)
    shown = [scores]
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    shown.append(scores)
    bias = _bias(q, keys, mask, before, seen, is_causal, (left_window_size, right_window_size))
    masked = scores if bias is None else scores + bias
    shown.append(masked)
    weights = masked.cast(softmax_precision or q.dtype)
    weights = weights.softmax(-1)
    if bias is not None:
        weights = (bias.max(-1, keepdim=True) == _UNSEEN).where(0, weights)
    weights = weights.cast(q.dtype)
    shown.append(weights)
    result = matmul(weights, values.repeat_interleave(group, 1))
    if flat:
        result = result.permute(0, 2, 1, 3).flatten(2)
    if not 0 <= qk_matmul_output_mode < len(shown):
        raise refuse(node, f"qk_matmul_output_mode = {qk_matmul_output_mode}")
    return result, keys, values, shown[qk_matmul_output_mode]


def _heads(x: Tensor, count: int, node: Node) -> Tensor:
    if count < 1 or x.shape[2] % count:
        raise refuse(node, f"{x.shape[2]} in {count} heads", "check it with onnx.checker")
    return x.reshape(*x.shape[:2], count, -1).permute(0, 2, 1, 3)


def _bias(
    q: Tensor,
    keys: Tensor,
    mask: Tensor | None,
    before: int,
    seen: Tensor | None,
    is_causal: int,
    size: tuple[int, int],
) -> Tensor | None:
    """What is added to each score: −∞ where a query may not see a key. None if every query may see every key."""
    queries, count = q.shape[2], keys.shape[2]
    parts: list[Tensor] = []
    if mask is not None:
        outside = False if mask.dtype is dtypes.bool else _UNSEEN
        missing = count - mask.shape[-1]
        if missing > 0:
            mask = mask.pad((*[(0, 0)] * (mask.ndim - 1), (0, missing)), value=outside)
        parts.append(mask.where(0, _UNSEEN) if mask.dtype is dtypes.bool else mask)
    at = Tensor.arange(queries).reshape(queries, 1) + before
    if seen is not None:
        at = at + (seen.cast(dtypes.int32).reshape(-1, 1, 1, 1) - queries)
    distance = at - Tensor.arange(count)
    left, right = size
    allowed = [distance >= 0] if is_causal else []
    allowed += [distance <= left] if left >= 0 else []
    allowed += [distance >= -right] if right >= 0 else []
    allowed += [] if seen is None else [Tensor.arange(count) < seen.cast(dtypes.int32).reshape(-1, 1, 1, 1)]
    parts += [holds.where(0, _UNSEEN) for holds in allowed]
    return None if not parts else sum(parts[1:], parts[0]).cast(q.dtype)
