"""The tree of errors. Every one says what was wrong, why, and what to do.

EigenTensorError
├── ProgramError            a program, or bytes that should be one: `.rule` names what is broken
│   ├── FormatError         the bytes are not a program
│   └── RuleError           a program that is not valid
├── BindingError            names, shapes, dtypes or values given to a program do not fit it
├── CaptureError            a function cannot become a program
│   └── PaymentRefused      a file that is only read for its program wants to pay
├── ToleranceExceeded       no path to a computation is as exact as asked for
├── ExecutionError          a program could not be compiled or run here
│   ├── SandboxError        the sandbox ended the program, or what it left is no result
│   │   └── NoSandbox       this machine cannot confine a program
│   ├── LimitError          time, memory, processes or files ran out
│   │   └── ProcessKilled   the system killed the program's process, for want of memory, or somebody did
│   └── WrongBits           the device computes otherwise than the reference
├── WitnessError            a witness of one step is incomplete, malformed, or of another claim
├── DisputeError            the game about a result
│   ├── NotDisputable       a program that is too large for it
│   └── IllegalMove         a move that the rules refuse in this position
├── StoreError              blobs
│   ├── BlobNotFound
│   ├── BlobCorrupt         bytes are not what their name says
│   ├── BlobTooLarge
│   ├── StoreFull
│   ├── TensorFileError     bytes that should be a safetensors file
│   ├── GraphFileError      bytes that should be a graph
│   └── GatewayError        the gateway is away or refuses: `.status`
├── ChainError              node, transaction or contract
│   ├── Reverted            a contract refused: `.name`, `.arguments`
│   ├── Unreachable
│   ├── FeeTooHigh          gas costs more than the settings allow
│   ├── NotMined            a transaction found no place in the chain in time
│   └── NotSigned           a key that is elsewhere did not sign, or another one did
│       └── SignerAway      it does not answer, or not now
├── TaskError               the life of a task, as its client sees it
│   ├── TermsRefused        an order that the market would not take
│   ├── TaskNotFound
│   ├── NobodyAccepted      expired, escrow back
│   ├── ExecutorFailed      accepted, then no result in time; escrow back
│   ├── ExecutorConvicted   wrong or silent where it was checked; escrow back, stake slashed
│   ├── NotChecked          there is a result, but no verifier confirms it
│   ├── TaskCancelled       by the client, escrow back
│   ├── NotChallengeable    its window is over, or it ended otherwise
│   ├── ChallengeLost       the bond is gone
│   ├── SessionRewound      the executor of a session's earlier step was convicted: what followed is void
│   ├── SessionBusy         another process has it, or another work is under way in it
│   ├── KeyReused           an idempotency key that was used for another request
│   ├── NotYet              the wait was over before the task got there
│   ├── WrongResult         the bytes are not what the executor revealed
│   └── WrongReceipt        a receipt is not what it says: `.where` names the line
├── ChannelError            paid calls
│   ├── CallRefused         the operator does not take a call: nothing is owed for it
│   ├── CallConflict        another order stands at the call's place: go on from the newest voucher
│   ├── ChannelBusy         as many calls are under way as the offer lets: wait for one
│   ├── ChannelSpent        deposit, or what a batch may cost, is used up: `.needed`
│   ├── NoResponse          the operator does not answer: what was asked may have happened
│   └── ChannelClosed       it takes no calls: left, concluded, ended, or its pool is over
├── ClusterError            sessions at a cluster
│   ├── FrameRefused        bytes that are no frame, or one out of order: `.sequence`
│   ├── NotAdmitted         the door lets nobody in like this
│   ├── ConnectionLost      the other side of a session is away, and what the session held with it
│   └── WorkerLost          a worker of a cluster went away: its work is done again elsewhere
├── ConfigError             settings, keys, funds
│   ├── InsufficientFunds
│   │   └── BudgetSpent     a service may not spend more: `.limit`, `.spent`, `.needed`
│   └── ServiceBusy         another process has its folder, or too many wait for their turn
├── AppNotFound             nothing of this name, or no such version of it, is deployed here
└── ProcessDied             a process of a local network ended, or did not get ready
"""

from eigentensor.talk import callable_here


class EigenTensorError(Exception):
    """Base of all errors that are expected to be raised.

    `fix` says what to do, in one sentence, by default what mostly helps with errors of this kind. `topic` is a word for
    where there is more, by default that of the usual fix: the command has a verb for it.
    """

    usual_fix = ""
    usual_topic = ""

    def __init__(self, what: str, *, fix: str = "", topic: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix or self.usual_fix
        self.topic = topic or ("" if fix else self.usual_topic)
        if self.fix:
            self.add_note(callable_here(self.fix))  # a traceback shows it


class ProgramError(EigenTensorError):
    """`rule` names what is broken (`program.validity.sentences` lists all), `where` the record or instruction."""

    def __init__(self, rule: str, where: str, what: str, *, fix: str = "") -> None:
        super().__init__(f"{rule}: {where}: {what}" if where else f"{rule}: {what}", fix=fix)
        self.rule = rule
        self.where = where


class FormatError(ProgramError):
    """The bytes are not the encoding of a program: truncated, oversized, unknown codes, reserved bytes set."""


class RuleError(ProgramError):
    """A well-formed program breaks a validity rule."""


class BindingError(EigenTensorError):
    """Inputs, weights, states or variables do not fit the program; says what was expected and what was given."""

    usual_fix = "Give what the program declares: its inputs, weights, states and variables."
    usual_topic = "program"


class CaptureError(EigenTensorError):
    """A function cannot become a program: the reason, and the line of the user's code where it is known."""

    def __init__(self, reason: str, *, fix: str = "", line: str = "", topic: str = "") -> None:
        super().__init__(f"{reason} ({line})" if line else reason, fix=fix, topic=topic)
        self.reason = reason
        self.line = line


class PaymentRefused(CaptureError):
    """A file that is only read for its program wants to pay for something. Nothing is spent."""


class ToleranceExceeded(EigenTensorError):
    """No path to what a graph means is within the tolerance on the sample of inputs."""


class ExecutionError(EigenTensorError):
    """A program could not be compiled or executed here."""


class SandboxError(ExecutionError):
    """The sandbox ended the program, or what it left is no result."""


class NoSandbox(SandboxError):
    """Says nothing about the program: elsewhere, or later, it may run."""


class LimitError(ExecutionError):
    """Time, memory, processes or files ran out."""


class ProcessKilled(LimitError):
    """Once more may do well: nothing says that it was the program."""


class WrongBits(ExecutionError):
    """A device computed an element otherwise than the reference: it must not be trusted with anything."""


class WitnessError(EigenTensorError):
    """A witness from which no verdict follows: something is missing, left over, or leads to other roots."""


class DisputeError(EigenTensorError):
    """The game about a result."""


class NotDisputable(DisputeError):
    """Nobody could be convicted of a wrong result of this program: it is neither posted nor accepted."""


class IllegalMove(DisputeError):
    """The contract would revert."""


class StoreError(EigenTensorError):
    """A blob could not be kept, found or checked."""


class BlobNotFound(StoreError):
    usual_fix = "Check the name; upload what the gateway lacks."
    usual_topic = "blob"


class BlobCorrupt(StoreError):
    """The bytes are not what their name says."""


class BlobTooLarge(StoreError):
    """There is no room for a blob of this size, ever."""


class StoreFull(StoreError):
    """There is no room for more."""


class TensorFileError(StoreError):
    """Not a safetensors file, or one with a dtype that programs do not have."""

    usual_fix = "Check which file is named; `eigentensor.store.save_safetensors` or the library safetensors writes one."


class GraphFileError(StoreError):
    """Not a graph in JSON, or one with a node that there cannot be."""

    usual_fix = "Name a file that `eigentensor.store.graphs.save_graph` wrote, or FILE.py:NAME."


class GatewayError(StoreError):
    """The gateway did not answer (`status` is None) or refused with an HTTP status."""

    def __init__(self, what: str, *, status: int | None = None, fix: str = "", topic: str = "") -> None:
        super().__init__(what, fix=fix, topic=topic)
        self.status = status


class ChainError(EigenTensorError):
    usual_fix = "Try again; if it stays so, check the network file and the node that it names."


class Reverted(ChainError):
    """A contract refused a call; name and arguments are those of its custom error."""

    usual_fix = "Look at how things stand now, then try again."

    def __init__(
        self, name: str, arguments: tuple[object, ...] = (), *, words: str = "", fix: str = "", topic: str = ""
    ) -> None:
        """`words` say what the error means; without them its name is spelled out."""
        spelled = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
        super().__init__(f"{words or f'a contract refused:{spelled}'} ({name})", fix=fix, topic=topic)
        self.name = name
        self.arguments = arguments


class Unreachable(ChainError):
    """The node does not answer."""


class FeeTooHigh(ChainError):
    """Gas costs more than the settings allow."""


class NotMined(ChainError):
    """A transaction found no place in the chain in time."""


class NotSigned(ChainError):
    """A key that is elsewhere did not sign, or another one did. Nothing was sent."""

    usual_fix = "Look at the signer that the settings name: what it refuses, and which keys it has."


class SignerAway(NotSigned):
    """The signer does not answer, or not now."""

    usual_fix = "Try again; if it stays so, look whether it runs, and at the way to it."


class TaskError(EigenTensorError):
    """A task, or its order, is not in the state for what is asked of it."""


class TermsRefused(TaskError):
    """An order that the market would not take."""


class TaskNotFound(TaskError):
    usual_fix = "Check the uuid, which has 64 hex digits, and the network."
    usual_topic = "task"


class NobodyAccepted(TaskError):
    """No operator took the task in time; the escrow is back."""


class ExecutorFailed(TaskError):
    """The task was accepted and has no result in time; the escrow is back."""


class ExecutorConvicted(TaskError):
    """The executor was wrong, or silent where it was checked; the escrow is back, its stake slashed."""


class NotChecked(TaskError):
    """There is a result, but no verifier confirms it."""


class TaskCancelled(TaskError):
    """The client took the task back, and the escrow."""


class NotChallengeable(TaskError):
    """Nothing is spent."""


class ChallengeLost(TaskError):
    """A game that the challenger lost: it decides nothing about the result."""


class SessionRewound(TaskError):
    """A session stands where its step `step` begins: that one and all after it are to be run again."""

    def __init__(self, what: str, step: int, *, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.step = step


class SessionBusy(TaskError):
    """Nothing is spent."""


class KeyReused(TaskError):
    """Nothing is spent."""


class NotYet(TaskError):
    """The wait was over before the task got there."""


class WrongResult(TaskError):
    """The bytes are not what the executor revealed."""


class WrongReceipt(TaskError):
    """`where` is the path of the line in the receipt, such as `events[3].block_hash`; empty where it is the whole."""

    usual_fix = "Do not rely on it: read the task's receipt anew."
    usual_topic = "receipt"

    def __init__(self, where: str, what: str, *, fix: str = "") -> None:
        super().__init__(f"{where}: {what}" if where else f"this is no receipt: {what}", fix=fix)
        self.where = where


class ChannelError(EigenTensorError):
    """Paid calls, as their client sees them."""


class CallRefused(ChannelError):
    """The operator does not take a call, and signs no receipt: nothing is owed for it, nor for those behind it."""


class CallConflict(ChannelError):
    """Another order stands at the call's place in its channel."""


class ChannelBusy(ChannelError):
    """As many calls are under way as the offer lets."""

    usual_fix = "Wait for one of them, or open another channel."


class ChannelSpent(ChannelError):
    """What a call costs is not left: `needed` are the wei that are missing."""

    usual_fix = "Add to its deposit, or wait for its batch to be committed."
    usual_topic = "channel"

    def __init__(self, what: str, needed: int, *, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.needed = needed


class NoResponse(ChannelError):
    """The operator gives no response. A call stays under way: the same bytes are sent again, and paid for once."""

    usual_fix = "Ask again later; if it stays away, close the channel: what is not spent comes back."
    usual_topic = "channel"


class ChannelClosed(ChannelError):
    """It takes no calls any more, or not yet."""

    usual_fix = "Open another one."
    usual_topic = "channel"


class ClusterError(EigenTensorError):
    """Sessions at a cluster, as their client, the door or a worker sees them."""


class FrameRefused(ClusterError):
    """Nothing that comes behind it is read. `sequence` is the number of the frame, or of the one that should come."""

    usual_fix = "Both sides are to be of one version, and nobody else speaks there: connect anew."

    def __init__(self, sequence: int, what: str, *, fix: str = "") -> None:
        super().__init__(f"frame {sequence}: {what}", fix=fix)
        self.sequence = sequence


class NotAdmitted(ClusterError):
    """A wrong token or certificate, another version, or a worker that computes otherwise."""


class ConnectionLost(ClusterError):
    """`session` names what a new connection may go on with for a while; empty: nothing."""

    usual_fix = "Connect anew when it is there again."
    usual_topic = "cluster"

    def __init__(self, what: str, *, session: bytes = b"", fix: str = "", topic: str = "") -> None:
        super().__init__(what, fix=fix, topic=topic)
        self.session = session


class WorkerLost(ClusterError):
    """Nobody but the cluster itself sees it, unless there is no other worker for too long."""


class ConfigError(EigenTensorError):
    """Settings, keys or funds are missing or wrong."""


class InsufficientFunds(ConfigError):
    """The account has too little for the escrow, or for gas."""


class BudgetSpent(InsufficientFunds):
    """Amounts in wei; `period` says which budget. Nothing is spent."""

    def __init__(self, limit: int, spent: int, needed: int, period: str) -> None:
        super().__init__(
            f"the budget {period} is {limit} wei; {spent} are spent or held, and this may cost {needed}",
            fix="Offer a lower max_price, wait until what is held comes back, or raise the budget.",
        )
        self.limit, self.spent, self.needed = limit, spent, needed


class ServiceBusy(ConfigError):
    """Another process has the folder, or too many wait for their turn."""


class AppNotFound(EigenTensorError):
    """Nothing of this name, or no such version of it, is deployed here."""


class ProcessDied(EigenTensorError):
    """Carries the name of the process and the last lines that it wrote."""

    def __init__(self, name: str, code: int | None, log: str) -> None:
        ended = "did not get ready in time" if code is None else f"ended with code {code}"
        super().__init__(f"{name} {ended}; its last lines:\n{log}")
        self.name = name
        self.code = code
