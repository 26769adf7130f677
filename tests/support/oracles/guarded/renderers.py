"""tinygrad's renderers for C and LLVM, writing every expression as it is.

Their own rules drop parentheses, and with them the order of operations, let LLVM contract and approximate, tell it that
signed integers never overflow, and trust vectors to be aligned.
"""

from typing import Any

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer
from tinygrad.renderer.cstyle import ClangRenderer, base_rewrite
from tinygrad.renderer.llvmir import CPULLVMRenderer, ldt
from tinygrad.renderer.llvmir import base_rewrite as llvm_rewrite
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UPat

HERE = Target("CPU")
OPERATORS = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.CDIV: "/", Ops.CMOD: "%", Ops.AND: "&", Ops.OR: "|",
    Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>", Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip
FUNCTIONS = {Ops.SQRT: "__builtin_sqrtf", Ops.TRUNC: "__builtin_truncf", Ops.MULACC: "__builtin_fmaf"}


def _operator(sign: str) -> Any:
    return lambda a, b, dtype: f"({a}{sign}{b})"


def _function(name: str) -> Any:
    return lambda *a: f"{name}({', '.join(a[:-1])})"


class C(ClangRenderer):  # type: ignore[misc]
    """C text for clang, ending in the function that the runtime calls."""

    code_for_op = (
        {op: _operator(sign) for op, sign in OPERATORS.items()}
        | {op: _function(name) for op, name in FUNCTIONS.items()}
        | {Ops.WHERE: lambda a, b, c, dtype: f"({a}?{b}:{c})"}
    )
    string_rewrite = (
        PatternMatcher(
            [
                (UPat.cvar("c").cast(dtypes.ints, name="x"), lambda ctx, c, x: ctx.whole(c.val, x.dtype)),
                (
                    UPat(GroupOp.ALU, name="x"),
                    lambda ctx, x: ctx.code_for_op[x.op](*(ctx[v] for v in x.src), x.dtype),
                ),
            ]
        )
        + base_rewrite
    )
    extra_matcher = None
    buffer_suffix = ""  # a result may lie over an operand
    kernel_typedef = "static inline __attribute__((always_inline)) void"

    def __init__(self) -> None:
        Renderer.__init__(self, HERE)

    def whole(self, number: int, dtype: Any) -> str:
        """An integer; C has no negative literals, and none of the smallest."""
        return f"(({self.render_dtype(dtype)}){number & (1 << 64) - 1:#x}ull)"

    def render_vector_prefix(self, dt: Any, count: int) -> str:
        name = self._render_dtype(dt, count, AddrSpace.REG)
        plain = self.render_dtype(dt)
        return f"typedef {plain} {name} __attribute__((aligned({dt.itemsize}),ext_vector_type({count})));"

    def _render_entry(self, function_name: str, bufs: list[Any]) -> str:
        arguments = ", ".join(_argument(u) for _, (u, _) in bufs)
        return (
            "long long kernel(void *const *buffers, const long long *variables, long long first, long long last) {\n"
            f"  if (last < 0) return 1;\n  if (first < last) {function_name}({arguments});\n  return last;\n}}\n"
        )


def _argument(u: Any) -> str:
    return f"variables[{u.expr[1:]}]" if u.addrspace is AddrSpace.ALU else f"buffers[{u.arg.slot}]"


_INTEGERS = {
    Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.AND: "and", Ops.OR: "or", Ops.XOR: "xor", Ops.SHL: "shl",
    Ops.CMPNE: "icmp ne", Ops.CMPEQ: "icmp eq",
}  # fmt: skip
_SIGNED = _INTEGERS | {Ops.CMPLT: "icmp slt", Ops.CDIV: "sdiv", Ops.CMOD: "srem", Ops.SHR: "ashr"}
_UNSIGNED = _INTEGERS | {Ops.CMPLT: "icmp ult", Ops.CDIV: "udiv", Ops.CMOD: "urem", Ops.SHR: "lshr"}
_FLOATS = {
    Ops.ADD: "fadd", Ops.SUB: "fsub", Ops.MUL: "fmul", Ops.FDIV: "fdiv", Ops.CMPLT: "fcmp olt", Ops.CMPNE: "fcmp une",
    Ops.CMPEQ: "fcmp oeq",
}  # fmt: skip
#: Names, and how many operands.
_INTRINSICS = {Ops.SQRT: ("llvm.sqrt.f32", 1), Ops.TRUNC: ("llvm.trunc.f32", 1), Ops.MULACC: ("llvm.fma.f32", 3)}


def _binary(r: dict[Any, str], x: Any) -> str:
    dtype = x.src[0].dtype
    names = _FLOATS if dtype in dtypes.floats else _SIGNED if dtype in dtypes.sints else _UNSIGNED
    return f"  {r[x]} = {names[x.op]} {ldt(dtype)} {r[x.src[0]]}, {r[x.src[1]]}"


def _call(r: dict[Any, str], x: Any) -> str:
    arguments = ", ".join(f"float {r[s]}" for s in x.src)
    return f"  {r[x]} = call float @{_INTRINSICS[x.op][0]}({arguments})"


def _in_memory(u: Any) -> str:
    """The type of what an index points to: an element, or as many as a vector has, which lie as elements do."""
    return str(ldt(u.dtype, u.max_numel()))


def _load(r: dict[Any, str], x: Any, place: Any) -> str:
    kind = _in_memory(place)
    return f"  {r[x]} = load {kind}, {kind}* {r[place]}, align {place.dtype.itemsize}"


def _gated_load(r: dict[Any, str], x: Any, place: Any, other: Any, gate: Any) -> str:
    kind, label = _in_memory(place), r[x][1:]
    return "\n".join(
        (
            f"  br label %{label}_entry\n{label}_entry:",
            f"  br i1 {r[gate]}, label %{label}_load, label %{label}_exit\n{label}_load:",
            f"  %{label}_yes = load {kind}, {kind}* {r[place]}, align {place.dtype.itemsize}",
            f"  br label %{label}_exit\n{label}_exit:",
            f"  %{label} = phi {kind} [%{label}_yes, %{label}_load], [{r[other]}, %{label}_entry]",
        )
    )


def _store(r: dict[Any, str], place: Any, value: Any) -> str:
    kind = _in_memory(place)
    return f"  store {kind} {r[value]}, {kind}* {r[place]}, align {place.dtype.itemsize}"


class LLVM(CPULLVMRenderer):  # type: ignore[misc]
    """LLVM's text, with the function that the runtime calls."""

    code_for_op = dict.fromkeys([*_SIGNED, *_FLOATS, *_INTRINSICS, Ops.WHERE], lambda: None)
    string_rewrite = (
        PatternMatcher(
            [
                (
                    UPat(Ops.LOAD, src=(UPat.var("place"), UPat.var("other"), UPat.var("gate")), name="x"),
                    lambda ctx, x, place, other, gate: _gated_load(ctx, x, place, other, gate),
                ),
                (UPat.var("place").load(name="x"), lambda ctx, x, place: _load(ctx, x, place)),
                (UPat.var("place").store(UPat.var("value")), lambda ctx, place, value: _store(ctx, place, value)),
                (UPat(tuple(_INTRINSICS), name="x"), lambda ctx, x: _call(ctx, x)),
                (UPat(GroupOp.Binary, name="x"), lambda ctx, x: _binary(ctx, x)),
            ]
        )
        + llvm_rewrite
    )
    extra_matcher = None

    def __init__(self, triple: str) -> None:
        Renderer.__init__(self, HERE)
        self.triple = triple

    def _render_fn(self, name: str, args: list[Any], kernel: list[str], prefix: list[str] | None = None) -> str:
        pointers = ", ".join(
            f"ptr {text}" if u.addrspace is AddrSpace.GLOBAL else f"{ldt(u.dtype)} {text}" for text, u in args
        )
        declared = [f"declare float @{n}({', '.join(['float'] * count)})" for n, count in _INTRINSICS.values()]
        head = f"define internal void @{name}({pointers}) #0 {{"
        return "\n".join([*declared, head, *kernel, "  ret void\n}", _entry(name, args)])

    def render(self, uops: list[Any]) -> str:
        return f'target triple = "{self.triple}"\n{super().render(uops).lstrip()}'


def _entry(name: str, args: list[Any]) -> str:
    """The runtime's function: it loads the addresses of the buffers and the values of the variables."""
    body, passed = [], []
    for number, (_, u) in enumerate(args):
        if u.addrspace is AddrSpace.GLOBAL:
            body += [f"  %a{number} = getelementptr ptr, ptr %buffers, i64 {u.arg.slot}",
                     f"  %p{number} = load ptr, ptr %a{number}"]  # fmt: skip
            passed.append(f"ptr %p{number}")
        else:
            body += [f"  %a{number} = getelementptr i64, ptr %variables, i64 {u.expr[1:]}",
                     f"  %w{number} = load i64, ptr %a{number}",
                     f"  %p{number} = {'trunc i64' if u.dtype.itemsize < 8 else 'add i64 0,'} %w{number}"
                     + (f" to {ldt(u.dtype)}" if u.dtype.itemsize < 8 else "")]  # fmt: skip
            passed.append(f"{ldt(u.dtype)} %p{number}")
    return "\n".join(
        (
            "define i64 @kernel(ptr %buffers, ptr %variables, i64 %first, i64 %last) #1 {",
            "  %asked = icmp slt i64 %last, 0\n  br i1 %asked, label %count, label %some",
            "count:\n  ret i64 1\nsome:",
            "  %any = icmp slt i64 %first, %last\n  br i1 %any, label %run, label %done\nrun:",
            *body,
            f"  call void @{name}({', '.join(passed)})\n  br label %done\ndone:\n  ret i64 %last\n}}",
            'attributes #1 = { nounwind "no-builtins" }',
        )
    )
