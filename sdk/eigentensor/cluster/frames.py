"""Frames: all that travels between the client of a cluster and its door, and between the door and its workers.

Each side numbers its frames from 1 on, without a gap: one that is out of order is refused, since a tensor that comes
late is a wrong bit. What they are as bytes, `layouts` says.
"""

from enum import IntEnum
from typing import NamedTuple

from eigentensor import errors
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.dtypes import DType
from eigentensor.regions.boxes import Box
from eigentensor.sharding.plan import WorkerPlan

VERSION = 1  #: of frames and their layouts; both sides have the same
PIECE = 1 << 20  #: bytes of a tensor that one frame has at most
SMALL, SMALLS = 16, 16  #: bytes of a result that comes with what says that it is made, and how many such there are
TOKEN, IDENTITY, ROOT = 32, 16, 32  #: bytes
NUMBERS = 1 << 16  #: handles or variables that one list of a frame has at most
#: Errors that come as what they are.
REPORTED = frozenset(
    {
        "BindingError", "ConfigError", "ExecutionError", "LimitError", "NoSandbox", "NotAdmitted", "SandboxError",
        "TensorFileError", "WorkerLost", "WrongBits",
    }
)  # fmt: skip


class Kind(IntEnum):
    """What a frame is: asked by a client below 64, answered from there on; from 32 on between the door and a worker,
    from 48 on between workers."""

    HELLO = 1
    DEFINE = 2
    PUT = 3
    RUN = 4
    GET = 5
    FREE = 6
    CONFIG = 7
    STATS = 8
    WATCH = 9
    END = 10
    FIT = 11
    TENANT = 32
    BOX = 33
    ASSIGN = 34
    SHARE = 35
    FETCH = 36
    STOP = 37
    PARCEL = 48
    LAID = 49
    WELCOME = 64
    VALUE = 65
    STATISTICS = 66
    REPORT = 67
    FAILED = 68
    DONE = 69
    FITTED = 70


class Role(IntEnum):
    """As who somebody comes: to compute, to lend slots, or to look after the cluster."""

    CLIENT = 1
    WORKER = 2
    KEEPER = 3


class Topic(IntEnum):
    """What a keeper watches: how things stand; the log's lines at hand, then an empty one; and those as they come."""

    STATUS = 1
    TRACE = 2
    LOG = 3


class Hello(NamedTuple):
    """The first frame of whoever connects. `token` is of 32 bytes, zeros where none is needed; a client that names the
    `session` of 16 bytes goes on with it, a worker gives there what the door gave it when it comes to another worker,
    all others give zeros. The rest is a worker's: bytes of memory for each slot; where others reach it, addresses with
    spaces between, none if it takes no part in what several execute together; the node it is on, if Ray started it."""

    version: int
    semantics: int
    role: Role
    token: bytes = bytes(TOKEN)
    session: bytes = bytes(IDENTITY)
    slots: int = 0
    name: str = ""
    device: str = ""
    memory: int = 0
    exchange: str = ""
    node: str = ""


class Define(NamedTuple):
    """A program, encoded, and the names of signals by number of the call, ascending."""

    program: bytes
    signals: tuple[tuple[int, str], ...] = ()


class Put(NamedTuple):
    """A piece of a tensor, from byte `offset` on: pieces come in order, all of PIECE bytes but the last."""

    handle: int
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    data: bytes


class Run(NamedTuple):
    """A program on handles: of its inputs in the order of its records, and for its results in theirs, where 0 keeps
    none; the values of its variables; and handles that are forgotten afterwards."""

    root: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[int, ...] = ()
    freed: tuple[int, ...] = ()


class Get(NamedTuple):
    """A tensor is wanted: answered by Value, or Failed."""

    handle: int


class Free(NamedTuple):
    """Handles that are forgotten."""

    handles: tuple[int, ...]


class Configure(NamedTuple):
    """What the names of signals mean from here on: YAML."""

    signals: str


class Stats(NamedTuple):
    """How a session stands is wanted: answered by Statistics, or Failed."""


class Fit(NamedTuple):
    """How much room a defined program takes at the workers that are there is wanted, where all that it reads comes from
    the client; and then run after run that reads results of the last: `renewed` are results, by number, and the inputs
    that they become. Answered by Fitted, or Failed."""

    root: bytes
    renewed: tuple[tuple[int, int], ...] = ()


class Watch(NamedTuple):
    """A keeper wants to know: answered by a Report, or by one Report after the other."""

    topic: Topic


class Tenant(NamedTuple):
    """Frames that follow are of this session, as the door numbers it."""

    session: int


class Boxed(NamedTuple):
    """What PUT brings next are the elements, along one axis, of this box of the tensor, which has that shape."""

    handle: int
    shape: tuple[int, ...]
    box: Box


class Assign(NamedTuple):
    """A worker's part of plan `number` of a program: for each slot of the plan which of the addresses it is at, and
    what is done by those slots that are this worker's."""

    number: int
    root: bytes
    slots: tuple[int, ...]
    addresses: tuple[str, ...]
    parts: tuple[tuple[int, WorkerPlan], ...]


class Share(NamedTuple):
    """A worker's part of run `run` of a plan, with handles and variables as of Run: answered by Done, or Failed."""

    plan: int
    run: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[int, ...] = ()


class Fetch(NamedTuple):
    """A box of a tensor is wanted, along these axes of it: answered by Value, its elements along one, or Failed."""

    handle: int
    axes: tuple[int, ...]
    box: Box


class Stop(NamedTuple):
    """A run is over, since another worker failed: nobody waits for boxes of it any more."""

    run: int


class Parcel(NamedTuple):
    """A piece of the elements of a box, as of Put, along one axis, which a slot sends to another in a run: message
    `number` of those between the two."""

    run: int
    sender: int
    receiver: int
    number: int
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    data: bytes


class Laid(NamedTuple):
    """A box that a slot sends to another in a run, as of Parcel, whose elements lie in memory that both sides have
    mapped, from byte `offset` on."""

    run: int
    sender: int
    receiver: int
    number: int
    dtype: DType
    elements: int
    offset: int


class End(NamedTuple):
    """A session is over, and all that it holds is forgotten: the client's own, or the one that a worker is named."""

    session: int = 0


class Welcome(NamedTuple):
    """The answer to Hello: the session's identity, for a worker that by which workers of the cluster know each other;
    the sequence number of the last frame that it took; a name. A worker that mapped what came with another's Hello
    answers with the bytes that it begins with."""

    session: bytes
    taken: int
    name: str


class Value(NamedTuple):
    """A piece of the tensor that frame `asked` wanted, as of Put."""

    asked: int
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    data: bytes


class Worked(NamedTuple):
    """What a worker did for a session."""

    name: str
    runs: int
    seconds: float


class Statistics(NamedTuple):
    """How a session stands: handles, bytes held, programs, runs, kernels compiled, and what each worker did; and bytes
    that one program may take at most for its buffers at the workers that are there, 0 where none is."""

    asked: int
    handles: int
    held: int
    programs: int
    runs: int
    compiled: int
    workers: tuple[Worked, ...] = ()
    memory: int = 0


class Fitted(NamedTuple):
    """The room for a program: bytes of the worker that holds most of it, and those that there are for it."""

    asked: int
    held: int
    memory: int


class Report(NamedTuple):
    """A line of what a keeper watches."""

    asked: int
    line: str


class Failed(NamedTuple):
    """What frame `asked` wanted is not there: frame `cause` failed, with an error of this name, what and fix."""

    asked: int
    cause: int
    error: str
    what: str
    fix: str = ""


class Done(NamedTuple):
    """A worker has executed what Run or Share `asked` for, in so many seconds of a slot, with so many new kernels; it
    has sent so many bytes to other slots. `small` are the elements of results of at most SMALL bytes, by number of the
    result: up to SMALLS of them, so that nobody need ask for them."""

    asked: int
    seconds: float
    compiled: int
    sent: int = 0
    small: tuple[tuple[int, bytes], ...] = ()


Frame = (
    Hello | Define | Put | Run | Get | Free | Configure | Stats | Fit | Watch | Tenant | End
    | Boxed | Assign | Share | Fetch | Stop | Parcel | Laid
    | Welcome | Value | Statistics | Fitted | Report | Failed | Done
)  # fmt: skip


def failure(asked: int, cause: int, error: EigenTensorError) -> Failed:
    """The answer that carries an error; a long text is cut."""
    return Failed(asked, cause, type(error).__name__, _cut(error.what), _cut(error.fix))


def error_of(failed: Failed) -> EigenTensorError:
    """The error that an answer carries, of its own class where that is one a session may raise, else ExecutionError."""
    kind, what, fix = failed.error, failed.what, failed.fix
    if kind in ("FormatError", "RuleError"):
        rule, _, rest = what.partition(": ")
        refused: EigenTensorError = getattr(errors, kind)(rule, "", rest, fix=fix)
        return refused
    if kind in REPORTED:
        error: EigenTensorError = getattr(errors, kind)(what, fix=fix)
        return error
    return errors.ExecutionError(f"{kind}: {what}", fix=fix)


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:0xFFFF].decode(errors="ignore")


#: What a client, a keeper or a worker sends to the door; what the door answers; what it asks of workers; who answer.
ASKED = frozenset({*(kind for kind in Kind if kind < Kind.TENANT)})
ANSWERED = frozenset({Kind.WELCOME, Kind.VALUE, Kind.STATISTICS, Kind.FITTED, Kind.REPORT, Kind.FAILED})
ORDERED = frozenset(
    {
        Kind.WELCOME, Kind.FAILED, Kind.TENANT, Kind.END, Kind.DEFINE, Kind.PUT, Kind.RUN, Kind.GET, Kind.FREE,
        *(kind for kind in Kind if Kind.BOX <= kind <= Kind.STOP),
    }
)  # fmt: skip
WORKED = frozenset({Kind.HELLO, Kind.VALUE, Kind.FAILED, Kind.DONE})
