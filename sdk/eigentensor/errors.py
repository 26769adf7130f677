"""The tree of errors. Every one says what was wrong, why, and what to do.

EigenTensorError
├── ProgramError            a program, or bytes that should be one
│   ├── FormatError         the bytes are not a program
│   └── RuleError           a validity rule is broken: `.rule` names it
├── BindingError            names, shapes, dtypes or values given to a program do not fit it
├── CaptureError            a function cannot become a program
├── ExecutionError          a program could not be compiled or run here
│   ├── SandboxError        no sandbox, or the sandbox ended the program
│   └── LimitError          time, memory, processes or files ran out
├── StoreError              blobs
│   ├── BlobNotFound
│   └── BlobCorrupt
├── ChainError              node, transaction or contract
│   ├── Reverted            a contract refused: `.name`, `.arguments`
│   └── Unreachable
├── TaskError               the life of a task, as its client sees it
└── ConfigError             settings, keys, funds
"""


class EigenTensorError(Exception):
    """Base of all errors that are expected to be raised.

    `exit_code` is what the command line returns (table in client/README.md); `fix` is one sentence on what to do, or empty.
    """

    exit_code = 1

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class ProgramError(EigenTensorError):
    exit_code = 11


class FormatError(ProgramError):
    """The bytes are not a canonical program: truncated, oversized, unknown codes, reserved bytes set."""


class RuleError(ProgramError):
    """A well-formed program breaks a validity rule."""

    def __init__(self, rule: str, where: str, what: str, *, fix: str = "") -> None:
        super().__init__(f"{rule}: {where}: {what}" if where else f"{rule}: {what}", fix=fix)
        self.rule = rule
        self.where = where


class BindingError(EigenTensorError):
    """Inputs, weights, states or variables do not fit the program; says what was expected and what was given."""

    exit_code = 2


class CaptureError(EigenTensorError):
    exit_code = 7


class ExecutionError(EigenTensorError):
    exit_code = 7


class SandboxError(ExecutionError):
    pass


class LimitError(ExecutionError):
    pass


class StoreError(EigenTensorError):
    exit_code = 10


class BlobNotFound(StoreError):
    exit_code = 4


class BlobCorrupt(StoreError):
    exit_code = 8


class ChainError(EigenTensorError):
    exit_code = 10


class Reverted(ChainError):
    """A contract refused a call; name and arguments are those of its custom error."""

    exit_code = 11

    def __init__(self, name: str, arguments: tuple[object, ...] = (), *, fix: str = "") -> None:
        super().__init__(f"{name}({', '.join(map(str, arguments))})", fix=fix)
        self.name = name
        self.arguments = arguments


class Unreachable(ChainError):
    pass


class TaskError(EigenTensorError):
    pass


class ConfigError(EigenTensorError):
    exit_code = 3
