"""A second, independent way from a body to object code: tinygrad's code generation, kept from changing any bit.

It never serves tasks: tests hold it to the reference beside the runtime's own text, of which it uses nothing. Bodies
become tinygrad's UOps (`lowering`), operations are made total in terms of these (`arithmetic`), tinygrad's passes run
with its simplifier confined to index arithmetic (`pipeline`), and renderers that change no expression write C text or
LLVM's (`renderers`). `Guarded` is all of it as a Toolchain.
"""

from support.oracles.guarded.toolchain import Guarded, clang, llvm

__all__ = ["Guarded", "clang", "llvm"]
