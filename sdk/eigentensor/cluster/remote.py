"""A session at a cluster: what is asked goes out in batches, and nothing is waited for but tensors and figures."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor import merkle
from eigentensor.cluster import frames
from eigentensor.cluster.address import named, read_token
from eigentensor.cluster.connection import Connection
from eigentensor.cluster.frames import Frame, Role
from eigentensor.cluster.pieces import Gathered, puts
from eigentensor.cluster.session import NOTHING, PROGRAMS, Stats, WorkerStats, check_inputs_alone
from eigentensor.errors import BindingError, ClusterError, ConnectionLost, ExecutionError, FrameRefused
from eigentensor.latest import Latest
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import encode
from eigentensor.program.fitting import check_names, check_variables
from eigentensor.program.model import Program
from eigentensor.program.model import Role as Of
from eigentensor.sharding.signals import parse

PAUSE = 1e-3  #: seconds that a small frame waits for others
IDLE = 100  #: pauses without a frame after which one is waited for
KNOWN = PROGRAMS // 2  #: programs that count as defined: fewer than the cluster knows, so that it knows all of them


class _Defined(NamedTuple):
    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class RemoteSession:
    """A `Session` at a cluster's door. Safe for several threads, which take turns.

    All but `get` and `stats` returns at once. A lost connection is ConnectionLost, from then on; for 50 seconds a new
    session that is given its `identity` has its tensors.
    """

    def __init__(
        self,
        address: str | None = None,
        token: str | None = None,
        *,
        identity: bytes = bytes(16),
        seconds: float | None = None,
    ) -> None:
        """`address` is what `cluster up` shows, by default that of the environment or this user's own; `token` names a
        file. All that is asked has to be answered within `seconds` from now on, if there are some: else the connection
        counts as lost. Raises ConfigError, ConnectionLost, NotAdmitted."""
        self._connection = Connection(named(address), Role.CLIENT, read_token(token), identity, seconds)
        self.identity = self._connection.session
        self._programs: Latest[bytes, _Defined] = Latest(KNOWN)
        self._lock, self._some, self._over = threading.Lock(), threading.Event(), False
        self._lost: ClusterError | None = None
        threading.Thread(target=self._flush, name="cluster session", daemon=True).start()

    def define(self, program: Program, signals: Mapping[int, str] = NOTHING) -> bytes:
        """As `Session.define`."""
        check_inputs_alone(program)
        encoded = encode(program)
        root = merkle.program_root(encoded)
        self._send(frames.Define(encoded, tuple(sorted(signals.items()))))
        self._programs[root] = _Defined(
            program, tuple(program.named(Of.INPUT)), tuple(result.name for result in program.results)
        )
        return root

    def has(self, root: bytes) -> bool:
        """As `Session.has`."""
        return root in self._programs

    def put(self, handle: int, value: NDArray[Any], dtype: DType) -> None:
        """As `Session.put`. Raises BindingError if the array is not of the dtype's storage type."""
        self._send(*puts(handle, value, dtype))

    def run(
        self,
        root: bytes,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        variables: Mapping[str, int] = NOTHING,
        freed: Sequence[int] = (),
    ) -> None:
        """As `Session.run`. Raises BindingError for a program that is not defined, or for names that are not its."""
        defined = self._programs.use(root)
        if defined is None:
            raise BindingError(f"program {root.hex()} is not defined in this session", fix="Call `define` first.")
        program, takes, gives = defined
        if inputs.keys() != set(takes):
            check_names("tensor", dict.fromkeys(takes), inputs)
        if unknown := outputs.keys() - set(gives):
            raise BindingError(f"unknown outputs: {', '.join(sorted(unknown))}", fix=f"There are {', '.join(gives)}.")
        if variables or program.variables:
            check_variables(program, variables, 1)
        self._send(
            frames.Run(
                root,
                tuple([inputs[name] for name in takes]),
                tuple([outputs.get(name, 0) for name in gives]),
                tuple([variables[v.name] for v in program.variables]),
                tuple(freed),
            )
        )

    def get(self, handle: int) -> NDArray[Any]:
        """As `Session.get`."""
        with self._lock:
            asked, frame = self._asked(frames.Get(handle))
            gathered = None
            while True:
                if not isinstance(frame, frames.Value) or frame.asked != asked:
                    raise self._failed(frame, asked)
                gathered = gathered or Gathered(frame)
                gathered.add(asked, frame)
                if gathered.is_whole:
                    break
                frame = self._received()
        array = gathered.array()
        array.flags.writeable = False
        return array

    def free(self, handles: Sequence[int]) -> None:
        """As `Session.free`."""
        for first in range(0, len(handles), frames.NUMBERS):
            self._send(frames.Free(tuple(handles[first : first + frames.NUMBERS])))

    def configure(self, signals: str) -> None:
        """As `Session.configure`. Raises ConfigError, which names the line, for what are no signals."""
        parse(signals)
        self._send(frames.Configure(signals))

    def stats(self) -> Stats:
        """As `Session.stats`."""
        with self._lock:
            asked, frame = self._asked(frames.Stats())
            if not isinstance(frame, frames.Statistics) or frame.asked != asked:
                raise self._failed(frame, asked)
        workers = tuple(WorkerStats(*worked) for worked in frame.workers)
        return Stats(frame.handles, frame.held, frame.programs, frame.runs, frame.compiled, workers, frame.memory)

    def within(self, seconds: float | None) -> None:
        """All that is asked has to be answered within so many seconds from now on, if there are some: else the
        connection counts as lost."""
        with self._lock:
            self._check()
            self._connection.within(seconds)

    def fit(self, root: bytes, renewed: Mapping[str, str] = NOTHING) -> tuple[int, int]:
        """Bytes of a defined program at the worker that would hold most of it now, and those that there are for it;
        `renewed` are inputs, by outputs, of a run that goes on from those of the last one. Where there are too few, a
        run would raise LimitError. Raises WorkerLost where no worker is, and what is wrong with the program."""
        defined = self._programs[root]
        pairs = tuple((defined.outputs.index(made), defined.inputs.index(name)) for made, name in renewed.items())
        with self._lock:
            asked, frame = self._asked(frames.Fit(root, pairs))
            if not isinstance(frame, frames.Fitted) or frame.asked != asked:
                raise self._failed(frame, asked)
        return frame.held, frame.memory

    def close(self) -> None:
        """As `Session.close`."""
        with self._lock:
            if self._over:
                return
            self._over = True
            with suppress(ClusterError):
                if self._lost is None:
                    self._connection.send(frames.End())
                    self._connection.flush()
            self._connection.close()
            self._some.set()

    def __enter__(self) -> "RemoteSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, *some: Frame) -> None:
        with self._lock:
            self._check()
            try:
                for frame in some:
                    self._connection.send(frame)
            except ConnectionLost as error:
                self._lost = error
                raise
        if not self._some.is_set():
            self._some.set()

    def _asked(self, frame: Frame) -> tuple[int, Frame]:
        """The number of a question, and the first frame that answers it."""
        self._check()
        try:
            asked = self._connection.send(frame)
            self._connection.flush()
        except ConnectionLost as error:
            self._lost = error
            raise
        return asked, self._received()

    def _received(self) -> Frame:
        try:
            return self._connection.receive()
        except (ConnectionLost, FrameRefused) as error:
            self._lost = error
            raise

    def _failed(self, frame: Frame, asked: int) -> Exception:
        """The error of an answer that is none to the question; of one to none, the door has ended the session."""
        error: Exception = FrameRefused(asked, "its answer is one to something else")
        if isinstance(frame, frames.Failed):
            error = frames.error_of(frame)
            if frame.asked == asked:
                return error
        self._lost = ConnectionLost(f"the door ended the session: {error}")
        self._connection.close()
        return error

    def _check(self) -> None:
        if self._over:
            raise ExecutionError("the session is closed", fix="Begin another one.")
        if self._lost is not None:
            raise self._lost

    def _flush(self) -> None:
        """The life of a thread: sends what nobody waits for, soon. While there is something now and then it looks by
        itself: to be woken each time would hold up whoever asks."""
        idle = 0
        while True:
            self._some.wait()
            time.sleep(PAUSE)
            if not self._lock.acquire(blocking=False):
                continue  # whoever has it sends what waits, or is done soon
            try:
                if self._over or self._lost is not None:
                    return
                if self._connection.is_waiting:
                    self._connection.flush()
                    idle = 0
                elif (idle := idle + 1) >= IDLE:
                    self._some.clear()
                    idle = 0
            except ConnectionLost as error:
                self._lost = error
                return
            finally:
                self._lock.release()
