"""The process behind the device CPU:LLVM: C text on standard input, object code on standard output.

`python -I -S llvm_backend.py WHAT LIBRARY [CLANG AND ITS FLAGS]`. clang only reads the text; LIBRARY, a libLLVM of any
other release, optimises and assembles what it read. Without clang the input is LLVM's own text or bitcode. WHAT is
`object`, or `optimised` for LLVM's text after optimising, or `describe` for what the code depends on. Only the standard
library is used: starting this must be quick, and in a sandbox nothing else is seen.
"""

import ctypes
import os
import platform
import subprocess
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

#: clang writes down what it read, with nothing done to it: also no inlining of what must be inlined.
READ_ONLY = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")
#: Releases 18 to 21 compile the vectors of AVX-512 for a processor that an older clang has named only if this is said.
WIDE = ("-Xclang", "-target-feature", "-Xclang", "+evex512")
PASSES = b"default<O2>"
#: Release 19 makes vectors of scalars, and too narrow ones: (float)(uint64_t)x of several int32 x loses the sign before
#: it is taken as unsigned. Our text has the vectors that it needs.
SETTINGS = (b"llvm", b"-vectorize-slp=false")
FAMILIES = {"x86_64": "X86", "amd64": "X86", "aarch64": "AArch64", "arm64": "AArch64", "riscv64": "RISCV"}
DEFAULT, PIC, OBJECT, RETURN_STATUS = 2, 2, 1, 2  # members of LLVM's enumerations


class Library:
    """The functions of a libLLVM that are used, all of them of its stable C interface."""

    def __init__(self, path: str) -> None:
        self.dll = ctypes.CDLL(path)
        family = FAMILIES[platform.machine().lower()]
        for component in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
            self.call(f"LLVMInitialize{family}{component}", None)
        words = (c_char_p * len(SETTINGS))(*SETTINGS)
        self.call("LLVMParseCommandLineOptions", None, c_int(len(SETTINGS)), words, None)

    def call(self, name: str, result: type | None, *arguments: object) -> object:
        """What a function of libLLVM's C interface gives, as a type of ctypes; None for nothing."""
        function = getattr(self.dll, name)
        function.restype = result
        return function(*arguments)

    def pointer(self, name: str, *arguments: object) -> c_void_p:
        """The same, of a function that gives an object or a list."""
        return c_void_p(self.call(name, c_void_p, *arguments))  # type: ignore[arg-type]

    def text(self, name: str, *arguments: object) -> bytes:
        """The same, of a function that gives a string; empty where it gives none."""
        return self.call(name, c_char_p, *arguments) or b""  # type: ignore[return-value]

    def check(self, name: str, *arguments: object) -> None:
        """A function that is not zero where it fails, and then sets a message."""
        message = c_char_p()
        if self.call(name, c_int, *arguments, byref(message)):
            sys.exit(f"{name}: {(message.value or b'').decode(errors='replace')}")

    def version(self) -> str:
        """The release of this libLLVM, as 21.1.0."""
        numbers = [c_uint() for _ in range(3)]
        self.call("LLVMGetVersion", None, *map(byref, numbers))
        return ".".join(str(n.value) for n in numbers)

    def processor(self) -> tuple[bytes, bytes]:
        """Name and features of this machine's processor, as LLVM says them."""
        return self.text("LLVMGetHostCPUName"), self.text("LLVMGetHostCPUFeatures")

    def module(self, code: bytes) -> c_void_p:
        """The verified module of some bitcode or LLVM text. Ends the process if this libLLVM cannot read it."""
        context, module, message = self.pointer("LLVMContextCreate"), c_void_p(), c_char_p()
        buffer = self.pointer("LLVMCreateMemoryBufferWithMemoryRangeCopy", code, c_size_t(len(code)), b"kernel")
        if self.call("LLVMParseIRInContext", c_int, context, buffer, byref(module), byref(message)):
            sys.exit(f"this libLLVM cannot read the code: {(message.value or b'').decode(errors='replace')}")
        self.check("LLVMVerifyModule", module, c_int(RETURN_STATUS))
        return module

    def machine(self, module: c_void_p) -> c_void_p:
        """A processor like this one, as the library knows it; what clang chose stands in the code and goes first."""
        triple, target = self.text("LLVMGetTarget", module), c_void_p()
        self.check("LLVMGetTargetFromTriple", triple, byref(target))
        levels = (c_int(DEFAULT), c_int(PIC), c_int(0))
        return self.pointer("LLVMCreateTargetMachine", target, triple, *self.processor(), *levels)

    def optimise(self, module: c_void_p, machine: c_void_p) -> None:
        """The passes of `PASSES`, run on a module for a machine. Ends the process with LLVM's words if one fails."""
        options = self.pointer("LLVMCreatePassBuilderOptions")
        error = self.call("LLVMRunPasses", c_void_p, module, PASSES, machine, options)
        if error:
            sys.exit(self.text("LLVMGetErrorMessage", c_void_p(error)).decode(errors="replace"))  # type: ignore[arg-type]

    def assemble(self, module: c_void_p, machine: c_void_p) -> bytes:
        """The object code of a module for a machine, as ELF. Ends the process if LLVM cannot make it."""
        buffer, message = c_void_p(), c_char_p()
        name, arguments = "LLVMTargetMachineEmitToMemoryBuffer", (machine, module, c_int(OBJECT), byref(message))
        if self.call(name, c_int, *arguments, byref(buffer)):
            sys.exit(f"{name}: {(message.value or b'').decode(errors='replace')}")
        start, size = self.pointer("LLVMGetBufferStart", buffer), self.call("LLVMGetBufferSize", c_size_t, buffer)
        return ctypes.string_at(start, size)  # type: ignore[arg-type]


def main(what: str, path: str, clang: list[str]) -> bytes:
    """What the process writes for C or LLVM text on its standard input: a description, optimised text, or object
    code."""
    library = Library(path)
    if what == "describe":
        return b"\n".join((f"LLVM {library.version()}".encode(), *library.processor(), PASSES, *SETTINGS[1:]))
    code = sys.stdin.buffer.read()
    if clang:
        wide = WIDE if b"+evex512" in library.processor()[1] else ()
        done = subprocess.run([*clang, *READ_ONLY, *wide], input=code, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        code = done.stdout
    module = library.module(code)
    machine = library.machine(module)
    library.optimise(module, machine)
    if what == "optimised":
        return library.text("LLVMPrintModuleToString", module)
    return library.assemble(module, machine)


if __name__ == "__main__":
    sys.stdout.buffer.write(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
    sys.stdout.buffer.flush()
    os._exit(0)  # the system frees what LLVM holds, sooner than LLVM does
