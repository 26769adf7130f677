"""A client's session: its tensors by the numbers that it chose, its programs, what it wants executed. No I/O.

Whatever a frame asks for is settled when it comes: names become tensors at once, so that a number which is forgotten
afterwards changes nothing of what was asked before. What fails leaves poison in its results, never an exception:
FrameRefused alone is raised, of what no client of this version sends.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import finalize

from eigentensor import merkle
from eigentensor.cluster import frames
from eigentensor.cluster.pieces import Gathered
from eigentensor.cluster.session import PROGRAMS, check_inputs_alone
from eigentensor.errors import BindingError, ConfigError, EigenTensorError, FormatError, FrameRefused, LimitError
from eigentensor.latest import Latest
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import decode
from eigentensor.program.fitting import check_variables, wanted
from eigentensor.program.model import Program, Role
from eigentensor.sharding.signals import Signals, parse
from eigentensor_cluster.tensors import Defined, Job, Poison, Recipe, Tensor


@dataclass(frozen=True, slots=True)
class Quota:
    """What a session may have at a time: bytes and handles of tensors, programs, runs that wait. Of more programs those
    are forgotten that were defined or run longest ago. A client whose runs are as many waits itself: its frames are not
    read meanwhile."""

    held: int = 8 << 30
    handles: int = 1 << 16
    programs: int = PROGRAMS
    queued: int = 1 << 12


@dataclass(slots=True)
class Share:
    """What a worker has done for a session."""

    runs: int = 0
    seconds: float = 0.0


@dataclass(eq=False, slots=True, weakref_slot=True)
class Session:
    """One client's. `number` is the cluster's for it, `identity` what its client goes on by after a lost connection."""

    number: int
    identity: bytes
    member: str
    quota: Quota
    numbers: Iterator[int]  #: of the tensors of the whole cluster
    tensors: dict[int, Tensor] = field(default_factory=dict)
    programs: Latest[bytes, Defined | Poison] = field(init=False)
    queue: deque[Job] = field(default_factory=deque)  #: in order
    again: deque[Job] = field(default_factory=deque)  #: what was lost: before the others
    under_way: int = 0
    is_sharing: bool = False  #: one of them is executed by several workers: others that are wait
    taken: int = 1  #: the sequence number of the last frame
    held: int = 0  #: bytes
    kept: int = 0  #: bytes of what came from the client and is kept for what was made of it
    runs: int = 0
    compiled: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    allowance: float | None = None  #: seconds of slots that its member may take in a minute
    fault: Poison | None = None  #: of signals that were refused: nothing is executed until there are others
    dropped: list[Tensor] = field(default_factory=list)  #: whose elements nobody needs any more
    refused: list[tuple[int, str, Poison]] = field(default_factory=list)  #: frames and kinds of which nothing comes
    _gathered: Gathered | None = None
    _skipped: int = 0  # the tensor whose further pieces are passed over

    def __post_init__(self) -> None:
        self.programs = Latest(self.quota.programs)

    @property
    def is_full(self) -> bool:
        """Whether as many runs wait as may."""
        return len(self.queue) >= self.quota.queued

    def take(self, sequence: int, frame: frames.Frame) -> bool:
        """Does what a frame asks for, if it is one that has no answer; whether it is. Raises FrameRefused."""
        self.taken = sequence
        if self._gathered is not None and not isinstance(frame, frames.Put):
            raise FrameRefused(sequence, f"the rest of tensor {self._gathered.number} should come here")
        match frame:
            case frames.Define():
                self.define(sequence, frame, read_program(frame.program))
            case frames.Put():
                self._put(sequence, frame)
            case frames.Run():
                self._run(sequence, frame)
            case frames.Free():
                self._free(frame.handles)
            case frames.Configure():
                self._configure(sequence, frame.signals)
            case _:
                return False
        return True

    def go_on(self) -> None:
        """Its client has another connection: a tensor that had not come whole is none."""
        if self._gathered is not None:
            self._free((self._gathered.number,))
            self._gathered = None

    def statistics(self, asked: int, memory: int) -> frames.Statistics:
        """The answer to frame `asked`, where one program may take so many bytes."""
        workers = tuple(frames.Worked(name, share.runs, share.seconds) for name, share in self.shares.items())
        programs = sum(isinstance(one, Defined) for one in self.programs.values())
        return frames.Statistics(
            asked, len(self.tensors), self.held, programs, self.runs, self.compiled, workers, memory
        )

    def use(self, tensor: Tensor) -> None:
        """Somebody is going to read a tensor."""
        tensor.uses += 1

    def leave(self, tensor: Tensor) -> None:
        """Who used it does not any more."""
        tensor.uses -= 1
        self.drop(tensor)

    def drop(self, tensor: Tensor) -> None:
        """Drops a tensor's elements if nobody needs them. What it was made of may be needed still, so what came from
        the client stays as long as something may have to be made of it again."""
        if tensor.is_held or tensor.uses or tensor.is_pending:
            return
        if tensor.is_counted:
            tensor.is_counted, self.held = False, self.held - tensor.size
            if tensor.copy is not None:
                self.kept += tensor.size
                finalize(tensor, _forget, self, tensor.size)
        self.dropped.append(tensor)

    def clear(self) -> None:
        """Forgets everything, at the end of the session."""
        for tensor in self.tensors.values():
            tensor.is_held = False
        self.tensors.clear()
        self.programs.clear()
        self.queue.clear()
        self.again.clear()
        self._gathered = None

    def _configure(self, sequence: int, text: str) -> None:
        try:
            self.signals, self.fault = parse(text), None
        except ConfigError as error:
            self.fault = Poison(sequence, error)

    def define(self, sequence: int, frame: frames.Define, program: Program | EigenTensorError) -> None:
        """Does what DEFINE asks for, whose program was read, maybe elsewhere. Raises FrameRefused."""
        self.taken = sequence
        try:
            root = merkle.program_root(frame.program)
        except FormatError as error:
            raise FrameRefused(sequence, f"DEFINE is of no program: {error}") from error
        if isinstance(known := self.programs.use(root), Defined):
            known.signals = frame.signals
        elif isinstance(program, Program):
            self.programs[root] = Defined(root, program, frame.program, frame.signals)
        else:
            self.refused.append((sequence, "DEFINE", poison := Poison(sequence, program)))
            self.programs[root] = poison

    def _put(self, sequence: int, frame: frames.Put) -> None:
        if self._gathered is None and frame.offset and frame.handle == self._skipped:
            return
        if self._gathered is None:
            self._check_new(sequence, [frame.handle])
            if frame.offset:
                raise FrameRefused(sequence, f"tensor {frame.handle} begins in its middle")
            tensor = Tensor(next(self.numbers), frame.dtype, frame.shape)
            self.tensors[frame.handle] = tensor
            if (error := self._over([tensor])) is not None:
                tensor.poison, tensor.is_counted, self._skipped = Poison(sequence, error), False, frame.handle
                self.refused.append((sequence, "PUT", tensor.poison))
                return
            self.held += tensor.size
            self._gathered = Gathered(frame)
        gathered = self._gathered
        gathered.add(sequence, frame)
        if gathered.is_whole:
            self._gathered = None
            tensor = self.tensors[gathered.number]
            try:
                tensor.copy = gathered.array()
            except BindingError as error:
                tensor.poison = Poison(sequence, error)
                self.refused.append((sequence, "PUT", tensor.poison))

    def _run(self, sequence: int, frame: frames.Run) -> None:
        self._check_new(sequence, [handle for handle in frame.outputs if handle])
        recipe = self._recipe(sequence, frame)
        made: list[Tensor] = []
        if isinstance(recipe, Recipe):
            program = recipe.defined.program
            for index, (handle, result) in enumerate(zip(frame.outputs, program.results, strict=True)):
                if handle:
                    dtype = program.parameter(result.buffer).dtype
                    made.append(Tensor(next(self.numbers), dtype, result.shape, recipe, index))
            if (error := self._over(made)) is not None:
                recipe = Poison(sequence, error)
        if isinstance(recipe, Poison):
            self.refused.append((sequence, "RUN", recipe))
            for handle in filter(None, frame.outputs):
                if len(self.tensors) < 2 * self.quota.handles:
                    poisoned = Tensor(next(self.numbers), DType.BOOL, (0,), poison=recipe, is_counted=False)
                    self.tensors[handle] = poisoned
        else:
            for handle, tensor in zip(filter(None, frame.outputs), made, strict=True):
                self.tensors[handle], tensor.is_pending = tensor, True
                self.held += tensor.size
            for one in recipe.inputs:
                one.uses += 1
            self.queue.append(Job(recipe, made))
        self._free(frame.freed)

    def _recipe(self, sequence: int, frame: frames.Run) -> Recipe | Poison:
        defined = self.programs.use(frame.root)
        if defined is None:
            return Poison(sequence, BindingError(f"program {frame.root.hex()} is not defined in this session"))
        if isinstance(defined, Poison):
            return defined
        if self.fault is not None:
            return self.fault
        try:
            inputs = self._inputs(defined.program, frame)
        except BindingError as error:
            return Poison(sequence, error)
        poison = next((one.poison for one in inputs if one.poison is not None), None)
        return poison or Recipe(defined, inputs, frame.variables, sequence)

    def _inputs(self, program: Program, frame: frames.Run) -> tuple[Tensor, ...]:
        """The tensors of a program's inputs. Raises BindingError where they do not fit it."""
        records = [b for b in program.buffers if b.role is Role.INPUT]
        if (len(frame.inputs), len(frame.outputs)) != (len(records), len(program.results)):
            raise BindingError("as many handles are needed as the program has inputs, and results")
        if len(frame.variables) != len(program.variables):
            raise BindingError("as many values are needed as the program has variables")
        if program.variables:
            named = zip(program.variables, frame.variables, strict=True)
            check_variables(program, {variable.name: value for variable, value in named}, 1)
        inputs = []
        for record, handle in zip(records, frame.inputs, strict=True):
            tensor = self.tensors.get(handle)
            if tensor is None:
                raise BindingError(f"there is no tensor {handle} for {record.name!r}")
            if tensor.poison is None and (tensor.dtype, tensor.shape) != (record.dtype, record.shape):
                actual = f"{tensor.dtype.name.lower()} of shape {tensor.shape}"
                raise BindingError(f"tensor {record.name!r}: expected {wanted(record)}, given {actual}")
            inputs.append(tensor)
        return tuple(inputs)

    def _free(self, handles: tuple[int, ...]) -> None:
        for handle in handles:
            if (tensor := self.tensors.pop(handle, None)) is not None:
                tensor.is_held = False
                self.drop(tensor)

    def _check_new(self, sequence: int, handles: list[int]) -> None:
        """Raises FrameRefused for a number that is zero, or has a tensor."""
        for handle in handles:
            if handle == 0 or handle in self.tensors:
                raise FrameRefused(sequence, f"the number {handle} was given before")
        if len(set(handles)) != len(handles):
            raise FrameRefused(sequence, "a number is given twice")

    def _over(self, tensors: list[Tensor]) -> LimitError | None:
        """Why there is no room for more tensors; None where there is."""
        if self.held + sum(tensor.size for tensor in tensors) > self.quota.held:
            what = f"a session holds {self.quota.held:,} bytes at most"
        elif len(self.tensors) + len(tensors) > self.quota.handles:
            what = f"a session has {self.quota.handles:,} tensors at most"
        else:
            return None
        return LimitError(what, fix="Free tensors that are not needed any more.")


def read_program(encoded: bytes) -> Program | EigenTensorError:
    """The program that these bytes are, or what is wrong with it as one of a session."""
    try:
        check_inputs_alone(program := decode(encoded))
    except EigenTensorError as error:
        return error
    return program


def _forget(session: Session, size: int) -> None:
    session.kept -= size
