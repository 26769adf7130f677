"""One example per public method of tinygrad's Tensor: what is captured, and what is refused for which reason."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_random = np.random.default_rng(20261121)


def _normal(*shape: int) -> NDArray[np.float32]:
    return _random.standard_normal(shape).astype(np.float32)


#: Inputs that examples may name.
INPUTS: dict[str, NDArray[np.generic]] = {
    "x": _normal(4, 6),
    "y": _normal(4, 6),
    "m": _normal(6, 5),
    "q": _normal(6, 6),
    "r": _normal(3, 3),
    "v": _normal(8),
    "p": np.abs(_normal(4, 6)) + np.float32(0.1),
    "u": (_random.random((4, 6)) * 0.9 + 0.05).astype(np.float32),
    "z": np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5], np.float32),
    "i": _random.integers(-50, 50, (4, 6)).astype(np.int32),
    "j": _random.integers(1, 9, (4, 6)).astype(np.int32),
    "n": _random.integers(0, 6, (4, 6)).astype(np.int32),
    "t": _random.integers(0, 5, (4,)).astype(np.int32),
    "c": _random.integers(0, 255, (1, 8)).astype(np.uint8),
    "w": _random.integers(0, 1 << 32, (4, 6), dtype=np.uint32),
    "l": _random.integers(0, 1 << 62, (4,), dtype=np.uint64),
    "b": _random.random((4, 6)) < 0.5,
    "d": _random.random((4, 6)) < 0.5,
    "f": _normal(1, 2, 6, 6),
    "k": _normal(3, 2, 3, 3),
    "g": _normal(2, 3, 3, 3),
    "s": _normal(2, 5, 4),
}


class Example(NamedTuple):
    """An expression over INPUTS, Tensor and dtypes, and how far it may be from tinygrad's own result.

    tinygrad takes seconds to schedule those that are `slow`.
    """

    expression: str
    tolerance: float = 1e-5
    slow: bool = False


E = Example
SEEDED = "seeded(lambda: {})"
EXAMPLES: dict[str, Example] = {
    "T": E("x.T"), "abs": E("x.abs()"), "acos": E("u.acos()", 1e-3), "acosh": E("(p + 1).acosh()", 1e-4),
    "add": E("x.add(y)"), "all": E("b.all()"), "allclose": E("x.allclose(y)"), "any": E("b.any(1)"),
    "arange": E("Tensor.arange(3, 20, 2)"), "argmax": E("x.argmax(1)"), "argmin": E("x.argmin()"),
    "argsort": E("v.argsort()"), "asin": E("u.asin()", 1e-3), "asinh": E("x.asinh()", 1e-4),
    "assign": E("assigned(x, y)"), "atan": E("x.atan()", 1e-3), "atanh": E("u.atanh()", 1e-4),
    "avg_pool2d": E("f.avg_pool2d()"), "backward": E("backward(x, y)"),
    "batchnorm": E("f.batchnorm(None, None, f.mean((0, 2, 3)), f.var((0, 2, 3)).add(1e-5).rsqrt())", 1e-4),
    "bfloat16": E("x.bfloat16() + 1", 1e-2), "binary_crossentropy": E("u.binary_crossentropy(b.float())", 1e-4),
    "binary_crossentropy_logits": E("x.binary_crossentropy_logits(b.float())", 1e-4),
    "bitcast": E("x.bitcast(dtypes.int32)"), "bitwise_and": E("i.bitwise_and(j)"), "bitwise_not": E("i.bitwise_not()"),
    "bitwise_or": E("i.bitwise_or(j)"), "bitwise_xor": E("i.bitwise_xor(j)"), "bool": E("i.bool()"),
    "callify": E("(x + y).callify() * 2"), "cast": E("x.cast(dtypes.int8)"), "cat": E("x.cat(y, dim=1)"),
    "ceil": E("x.ceil()"), "celu": E("x.celu()", 1e-4), "chunk": E("x.chunk(3, dim=1)"), "clamp": E("x.clamp(-1, 1)"),
    "clip": E("x.clip(-1, 1)"), "clone": E("x.clone()"), "const": E("Tensor.const(3.5) + x"),
    "const_like": E("x.const_like(2.0) + x"), "contiguous": E("x.T.contiguous()"),
    "contiguous_backward": E("x.contiguous_backward() + 1"), "conv2d": E("f.conv2d(k, padding=1)", 1e-4),
    "conv_transpose2d": E("f.conv_transpose2d(g, stride=2)", 1e-4), "copysign": E("x.copysign(y)"),
    "cos": E("x.cos()", 1e-4), "cosh": E("x.cosh()", 1e-4), "cross_entropy": E("x.cross_entropy(t)", 1e-4),
    "cummax": E("x.cummax(1)"), "cummin": E("x.cummin(1)"), "cumprod": E("u.cumprod(1)"), "cumsum": E("x.cumsum(1)"),
    "detach": E("x.detach() + 1"), "diag": E("v.diag()"), "diagonal": E("q.diagonal()"), "div": E("x.div(p)"),
    "dot": E("x.dot(m)"), "dropout": E(SEEDED.format("trained(lambda: x.dropout(0.5))")),
    "einsum": E("Tensor.einsum('ij,jk->ik', x, m)"), "elu": E("x.elu()", 1e-4), "eq": E("i.eq(j)"),
    "empty": E("Tensor.empty(2, 3) * 0"), "empty_like": E("x.empty_like() * 0"), "erf": E("x.erf()", 1e-4),
    "exp": E("x.exp()", 1e-4), "exp2": E("x.exp2()", 1e-4), "expand": E("t.reshape(4, 1).expand(4, 3)"),
    "eye": E("Tensor.eye(4)"), "flatten": E("s.flatten(1)"), "flip": E("x.flip(0)"), "float": E("i.float()"),
    "floor": E("x.floor()"), "fmod": E("x.fmod(p)"), "full": E("Tensor.full((2, 3), 7.0)"),
    "full_like": E("x.full_like(2)"), "gather": E("x.gather(1, n)"), "gelu": E("x.gelu()", 1e-4),
    "glorot_uniform": E(SEEDED.format("Tensor.glorot_uniform(4, 4)")),
    "gradient": E("(x * y).sum().gradient(x, y)"), "half": E("x.half() * 3", 1e-2),
    "hardsigmoid": E("x.hardsigmoid()"), "hardswish": E("x.hardswish()"), "hardtanh": E("x.hardtanh()"),
    "image_conv2d": E("f.image_conv2d(k)"), "image_dot": E("x.image_dot(m)"),
    "int": E("x.int()"), "interpolate": E("f.interpolate((9, 9))", 1e-4),
    "invalids": E("Tensor.invalids(2, 3)"), "isclose": E("x.isclose(y)"), "isfinite": E("z.isfinite()"),
    "isinf": E("z.isinf()"), "isnan": E("z.isnan()"),
    "kaiming_normal": E(SEEDED.format("Tensor.kaiming_normal(4, 4)"), 1e-4),
    "kaiming_uniform": E(SEEDED.format("Tensor.kaiming_uniform(4, 4)")), "keccak": E("c.keccak()", slow=True),
    "layernorm": E("x.layernorm()", 1e-4), "leaky_relu": E("x.leaky_relu()"), "lerp": E("x.lerp(y, u)"),
    "linear": E("x.linear(m)"), "linspace": E("Tensor.linspace(0, 1, 7)"), "log": E("p.log()", 1e-4),
    "log10": E("p.log10()", 1e-4), "log2": E("p.log2()", 1e-4), "log_softmax": E("x.log_softmax()", 1e-4),
    "logaddexp": E("x.logaddexp(y)", 1e-4), "logcumsumexp": E("x.logcumsumexp(1)", 1e-4),
    "logical_not": E("b.logical_not()"), "logsigmoid": E("x.logsigmoid()", 1e-4),
    "logsumexp": E("x.logsumexp(1)", 1e-4), "long": E("x.long()"), "lshift": E("j.lshift(2)"),
    "masked_fill": E("x.masked_fill(b, -1)"), "masked_select": E("x.masked_select(b)"), "matmul": E("x.matmul(m)"),
    "max": E("x.max(1)"), "max_pool2d": E("f.max_pool2d()"),
    "max_unpool2d": E("Tensor.max_unpool2d(*f.max_pool2d(return_indices=True))"), "maximum": E("x.maximum(y)"),
    "mean": E("x.mean(1)"), "meshgrid": E("v.meshgrid(t)"), "min": E("x.min(1)"), "minimum": E("x.minimum(y)"),
    "mish": E("x.mish()", 1e-4), "mod": E("i.mod(j)"), "mul": E("x.mul(y)"),
    "multinomial": E(SEEDED.format("u.multinomial(3, replacement=True)")), "ne": E("i.ne(j)"), "neg": E("x.neg()"),
    "newton_schulz": E("q.newton_schulz(2, (3.4445, -4.7750, 2.0315))", 1e-3),
    "nll_loss": E("x.log_softmax().nll_loss(t)", 1e-4), "nonzero": E("i.nonzero()"),
    "normal": E(SEEDED.format("Tensor.normal(4, 4)"), 1e-4), "normalize": E("x.normalize()"),
    "one_hot": E("t.one_hot(6)"), "ones": E("Tensor.ones(2, 3)"), "ones_like": E("x.ones_like()"),
    "pad": E("x.pad((1, 2))"), "pad_to": E("x.pad_to(5, 8)"), "permute": E("s.permute(2, 0, 1)"),
    "pow": E("p.pow(y)", 1e-3), "prod": E("u.prod(1)"), "qr": E("r.qr()", 1e-3),
    "quick_gelu": E("x.quick_gelu()", 1e-4),
    "rand": E(SEEDED.format("Tensor.rand(4, 4)")), "rand_like": E(SEEDED.format("x.rand_like()")),
    "randint": E(SEEDED.format("Tensor.randint(4, 4, low=2, high=90)")),
    "randn": E(SEEDED.format("Tensor.randn(4, 4)"), 1e-4), "randn_like": E(SEEDED.format("x.randn_like()"), 1e-4),
    "random_bits": E("Tensor.random_bits(Tensor([1, 2], dtype='uint32'), Tensor([0, 0], dtype='uint32'), 9)"),
    "randperm": E(SEEDED.format("Tensor.randperm(9)")), "realize": E("(x + 1).realize() * 2"),
    "rearrange": E("s.rearrange('a b c -> (a c) b')"), "reciprocal": E("p.reciprocal()"), "relu": E("x.relu()"),
    "relu6": E("x.relu6()"), "repeat": E("x.repeat(2, 3)"), "repeat_interleave": E("x.repeat_interleave(2, 0)"),
    "replace": E("x.clone().replace(y)"), "reshape": E("x.reshape(3, 8)"), "roll": E("x.roll(2, 1)"),
    "round": E("(x * 4).round()"), "rshift": E("w.rshift(3)"), "rsqrt": E("p.rsqrt()"),
    "scaled_dot_product_attention": E("s.scaled_dot_product_attention(s, s)", 1e-4),
    "scaled_uniform": E(SEEDED.format("Tensor.scaled_uniform(4, 4)")), "scatter": E("x.scatter(1, n, y)"),
    "scatter_reduce": E("x.scatter_reduce(1, n, y, 'sum')"), "selu": E("x.selu()", 1e-4),
    "sequential": E("x.sequential([Tensor.relu, Tensor.exp])", 1e-4), "short": E("x.short()"),
    "shrink": E("x.shrink(((1, 3), (2, 6)))"), "shrink_to": E("x.shrink_to(2, 3)"), "sigmoid": E("x.sigmoid()"),
    "sign": E("x.sign()"), "silu": E("x.silu()"), "sin": E("x.sin()", 1e-4), "sinh": E("x.sinh()", 1e-4),
    "softmax": E("x.softmax()"), "softmin": E("x.softmin()"), "softplus": E("x.softplus()", 1e-4),
    "softsign": E("x.softsign()"), "sort": E("v.sort()"),
    "sparse_categorical_crossentropy": E("x.sparse_categorical_crossentropy(t)", 1e-4), "split": E("x.split(2, 1)"),
    "sqrt": E("p.sqrt()"), "square": E("x.square()"), "squeeze": E("f.squeeze(0)"), "stack": E("x.stack(y)"),
    "std": E("x.std(1)"), "std_mean": E("x.std_mean(1)"), "sub": E("x.sub(y)"), "sum": E("x.sum(1)"),
    "svd": E("svd_product(r)", 1e-2, slow=True), "swish": E("x.swish()"),
    "tan": E("x.tan()", 1e-2), "tanh": E("x.tanh()"),
    "threefry": E("l.threefry(l.flip(0))"), "topk": E("v.topk(3)"), "transpose": E("x.transpose()"),
    "to": E("x.to('CPU') + 1"), "tril": E("q.tril()"), "triu": E("q.triu()"), "trunc": E("x.trunc()"),
    "ufix": E("x.ufix(3) + x"), "unflatten": E("x.unflatten(1, (2, 3))"), "unfold": E("x.unfold(1, 3, 2)"),
    "uniform": E(SEEDED.format("Tensor.uniform(4, 4, low=-2, high=3)")), "unsqueeze": E("x.unsqueeze(1)"),
    "uprod": E("x.uprod(y, u)"), "usum": E("x.usum(y, u)"), "var": E("x.var(1)"), "var_mean": E("x.var_mean(1)"),
    "view": E("x.view(8, 3)"), "where": E("b.where(x, y)"), "zeros": E("Tensor.zeros(2, 3)"),
    "zeros_like": E("x.zeros_like()"), "double": E("x.double() * 2"), "item": E("x.sum().item() * x"),
    "numpy": E("Tensor(x.numpy())"), "tolist": E("Tensor(x.tolist())"), "data": E("Tensor(bytes(x.data()))"),
    "custom_kernel": E("custom(x)"), "alu": E("x.alu(Ops.MAX, y)"),
}  # fmt: skip

#: Public names that compute nothing, or nothing on one device, and what they are.
NOT_COMPUTED = {
    "describes a tensor": [
        "device", "dtype", "element_size", "grad", "is_floating_point", "is_param", "is_param_", "max_numel",
        "max_shape", "nbytes", "ndim", "numel", "shape", "size", "uop",
    ],
    "part of tinygrad's own machinery": ["as_param", "call", "linear_with_vars", "schedule_linear"],
    "reads a file, an address or a video stream": ["decode_hevc_frame", "from_blob", "from_url"],
    "places a tensor on devices": ["shard", "shard_", "shard_like", "to_"],
    "seeds the random numbers of later calls": ["manual_seed"],
}  # fmt: skip

#: Methods that compute, but that tinygrad does not turn into kernels here.
NOT_SCHEDULED = {"hash": "tinygrad needs more than 5 GB and many minutes to schedule it as one graph"}
