"""Gradients where numbers are very large, very small or infinite: what is differentiated, for tinygrad and PyTorch.

`support.vectors.gradients` asks both what they are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
_SIZES = [
    0, 1e-45, 1e-40, 1e-38, 1e-30, 1e-20, 1e-10, 1e-3, 0.4, 1.5, 3.5, 5.5, 10.2, 17, 44.5, 52.5, 89, 104, 1e3, 1e6,
    1e10, 1e19, 1e20, 1e30, 3e38, np.inf,
]  # fmt: skip
_FEW = [0, 1e-45, 1e-40, 1e-30, 0.4, 3.5, 104, 1e20, 3e38]
_ROWS = [
    [0.25, 1.5, -1.5, 0.5, 2.5, -2.5],
    [1e-30, -1e-30, 2e-30, 3e-30, 1e-20, -1e-20],
    [1e-40, -1e-40, 2e-40, 3e-42, 1e-45, -1e-38],
    [-104, -89, -52.5, 0.25, 52.5, 104],
    [1e4, -1e4, 1e3, 0.5, -0.5, 20],
    [1e18, -1e18, 3e17, 2e17, 1, -1],
    [3e38, -3e38, 1e38, 0.5, 1, -1],
    [100.25, 100.5, 100.75, 101, 101.25, 101.5],
    [-1e9, -1e9, -1e9, 0.5, -1e9, 1.5],
    [-np.inf, 0.25, 0.5, -np.inf, 1, 2],
]
#: What goes in: both signs of every size, all pairs of a few, and rows that are computed as one. A gradient is of the
#: sum of results times `w`, which is of their shape.
X: Values = np.array([s * size for size in _SIZES for s in (1, -1)], np.float32)
_SIGNED: Values = np.array([s * size for size in _FEW for s in (1, -1)], np.float32)
INPUTS: dict[str, Values] = {
    "x": X,
    "a": np.repeat(_SIGNED, len(_SIGNED)),
    "b": np.tile(_SIGNED, len(_SIGNED)),
    "r": np.array(_ROWS, np.float32),
}
WEIGHTS: Values = np.array([1, -2, 0.5, 4, -0.25, 3], np.float32)


class Case(NamedTuple):
    """An expression of tinygrad over `x`, over `a` and `b`, or over `r`, and the one of PyTorch if it is another."""

    ours: str
    theirs: str = ""

    @property
    def takes(self) -> list[str]:
        return [name for name in INPUTS if name in compile(self.ours, "<case>", "eval").co_names]


C = Case
CASES: dict[str, Case] = {
    "abs": C("x.abs()"), "acos": C("x.acos()"), "acosh": C("x.acosh()"), "asin": C("x.asin()"),
    "asinh": C("x.asinh()"), "atan": C("x.atan()"), "atanh": C("x.atanh()"), "celu": C("x.celu()", "F.celu(x)"),
    "clamp": C("x.clamp(-1, 2)"), "clip": C("x.clip(-1, 2)"), "cos": C("x.cos()"), "cosh": C("x.cosh()"),
    "elu": C("x.elu()", "F.elu(x)"), "erf": C("x.erf()"), "exp": C("x.exp()"), "exp2": C("x.exp2()"),
    "gelu": C("x.gelu()", "F.gelu(x, approximate='tanh')"), "hardsigmoid": C("x.hardsigmoid()", "F.hardsigmoid(x)"),
    "hardswish": C("x.hardswish()", "F.hardswish(x)"), "hardtanh": C("x.hardtanh()", "F.hardtanh(x)"),
    "leaky_relu": C("x.leaky_relu()", "F.leaky_relu(x)"), "log": C("x.log()"), "log10": C("x.log10()"),
    "log2": C("x.log2()"), "logsigmoid": C("x.logsigmoid()", "F.logsigmoid(x)"), "mish": C("x.mish()", "F.mish(x)"),
    "neg": C("x.neg()"), "quick_gelu": C("x.quick_gelu()", "x * (1.702 * x).sigmoid()"),
    "reciprocal": C("x.reciprocal()"), "relu": C("x.relu()"), "relu6": C("x.relu6()", "F.relu6(x)"),
    "rsqrt": C("x.rsqrt()"), "selu": C("x.selu()", "F.selu(x)"), "sigmoid": C("x.sigmoid()"),
    "silu": C("x.silu()", "F.silu(x)"), "sin": C("x.sin()"), "sinh": C("x.sinh()"),
    "softplus": C("x.softplus()", "F.softplus(x)"), "softsign": C("x.softsign()", "F.softsign(x)"),
    "sqrt": C("x.sqrt()"), "square": C("x.square()"), "swish": C("x.swish()", "F.silu(x)"), "tan": C("x.tan()"),
    "tanh": C("x.tanh()"), "a cube": C("x ** 3"), "a half power": C("x ** 1.5"), "a power of two": C("2 ** x"),
    "by hand": C("x.exp() / (1 + x.exp())", "x.sigmoid()"), "gelu by erf": C("x.gelu('none')", "F.gelu(x)"),
    "add": C("a.add(b)"), "sub": C("a.sub(b)"), "mul": C("a.mul(b)"), "div": C("a.div(b)"),
    "maximum": C("a.maximum(b)"), "minimum": C("a.minimum(b)"), "pow": C("a.abs().pow(b)"),
    "fmod": C("a.fmod(b)"), "logaddexp": C("a.logaddexp(b)"), "copysign": C("a.copysign(b)"),
    "lerp": C("a.lerp(b, 0.25)"), "where": C("(a > b).where(a, b)", "torch.where(a > b, a, b)"),
    "quotient of quotients": C("a / b / (a.abs() + 1)"),
    "sum": C("r.sum(1)"), "mean": C("r.mean(1)"), "max": C("r.max(1)", "r.amax(1)"), "min": C("r.min(1)", "r.amin(1)"),
    "prod": C("r.prod(1)"), "var": C("r.var(1)"), "std": C("r.std(1)"), "softmax": C("r.softmax(1)"),
    "softmin": C("(-r).softmax(1)"), "log_softmax": C("r.log_softmax(1)"), "logsumexp": C("r.logsumexp(1)"),
    "logcumsumexp": C("r.logcumsumexp(1)"), "cumsum": C("r.cumsum(1)"), "cumprod": C("r.cumprod(1)"),
    "layernorm": C("r.layernorm()", "F.layer_norm(r, (6,))"), "normalize": C("r.normalize()", "F.normalize(r)"),
    "matmul": C("r.matmul(r.T)"), "gated": C("r.silu() * r.tanh()", "F.silu(r) * r.tanh()"),
    "attention": C("r.scaled_dot_product_attention(r, r)", "F.scaled_dot_product_attention(r, r, r)"),
    "cross_entropy": C("r.log_softmax(1)[:, 2]"),
    "binary_crossentropy": C(
        "r.sigmoid().binary_crossentropy((r > 0).float(), reduction='none')",
        "F.binary_cross_entropy(r.sigmoid(), (r > 0).float(), reduction='none')",
    ),
    "binary_crossentropy_logits": C(
        "r.binary_crossentropy_logits((r > 0).float(), reduction='none')",
        "F.binary_cross_entropy_with_logits(r, (r > 0).float(), reduction='none')",
    ),
}  # fmt: skip
#: Methods of `tensor_methods` that have no case here, and why.
ELSEWHERE = {
    "moves, picks or copies elements": [
        "T", "assign", "cat", "chunk", "clone", "contiguous", "contiguous_backward", "cummax", "cummin", "detach",
        "diag", "diagonal", "expand", "flatten", "flip", "gather", "masked_fill", "masked_select", "max_pool2d",
        "max_unpool2d", "meshgrid", "pad", "pad_to", "permute", "rearrange", "repeat", "repeat_interleave", "replace",
        "reshape", "roll", "scatter", "sequential", "shrink", "shrink_to", "sort", "split", "squeeze", "stack",
        "to", "topk", "transpose", "tril", "triu", "unflatten", "unfold", "unsqueeze", "view", "callify", "realize",
    ],
    "is a sum or product of elements, as cases above": [
        "avg_pool2d", "conv2d", "conv_transpose2d", "dot", "einsum", "image_conv2d", "image_dot", "interpolate",
        "linear", "scatter_reduce", "uprod", "usum", "alu", "ufix", "newton_schulz", "qr", "svd",
    ],
    "is made of cases above": [
        "backward", "batchnorm", "dropout", "gradient", "nll_loss", "scaled_dot_product_attention",
        "sparse_categorical_crossentropy", "std_mean", "var_mean",
    ],
    "has no gradient, or none that depends on values": [
        "all", "allclose", "any", "arange", "argmax", "argmin", "argsort", "bfloat16", "bitcast", "bitwise_and",
        "bitwise_not", "bitwise_or", "bitwise_xor", "bool", "cast", "ceil", "const", "const_like", "custom_kernel",
        "data", "double", "empty", "empty_like", "eq", "eye", "float", "floor", "full", "full_like", "glorot_uniform",
        "half", "int", "invalids", "isclose", "isfinite", "isinf", "isnan", "item", "kaiming_normal",
        "kaiming_uniform", "keccak", "linspace", "logical_not", "long", "lshift", "mod", "multinomial", "ne", "nonzero",
        "normal", "numpy", "one_hot", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like",
        "random_bits", "randperm", "round", "rshift", "scaled_uniform", "short", "sign", "threefry", "tolist", "trunc",
        "uniform", "zeros", "zeros_like",
    ],
}  # fmt: skip
