"""Sessions: paid tasks of one program, of which each goes on with the states that the one before it left.

The states stay at the gateway: an order names them by their root. What is asked is in the session's file before it is
sent, and what came of it before it is told: whatever ends this process, nothing is lost and nothing is paid twice.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from eigentensor.errors import BindingError, ConfigError
from eigentensor.program import Program
from eigentensor_client import transfer, waiting
from eigentensor_client.history import History
from eigentensor_client.orders import Terms
from eigentensor_client.progress import Progress
from eigentensor_client.results import Plan, TaskResult, Tensors
from eigentensor_client.session_file import SessionFile
from eigentensor_client.transfer import Part, Tell, silent

if TYPE_CHECKING:
    from eigentensor_client.client import Client


class Session(Progress):
    """Begun by `Client.session`, taken up again by `Client.resume`; for one thread. Usable as a context manager.

    Steps are numbered from 0; `step` is the number of the next one.
    """

    @classmethod
    def start(
        cls,
        client: "Client",
        program: Program,
        weights: Part,
        states: Part,
        terms: Terms,
        path: Path | None = None,
        tell: Tell = silent,
    ) -> Self:
        """As `Client.session`."""
        if not program.new_states:
            raise BindingError("the program has no states: no task goes on from another", fix="Post it as a task.")
        client.check_program(program, terms)
        with ExitStack() as undo:
            file = None if path is None else SessionFile(path, new=True)
            if file is not None:
                undo.callback(file.close)
            roots = transfer.upload_fixed(client.gateway, program, weights, states, tell)
            domain = client.network.deployment.domain
            history = History(domain, client.address, roots.program, roots.weights, roots.states, terms)
            session = cls(client, program, history)
            if file is not None:
                session._move(file)
            undo.pop_all()
        return session

    @classmethod
    def resume(cls, client: "Client", path: Path) -> Self:
        """As `Client.resume`."""
        file = SessionFile(path)
        try:
            history = file.read()
            mine = (client.network.deployment.domain, client.address)
            if (history.domain, history.client) != mine:
                raise ConfigError(
                    f"the session in {path} is of account {history.client} on market {history.domain.market} "
                    f"of chain {history.domain.chain_id}",
                    fix="Name its network and its keystore.",
                )
            session = cls(client, client.program(history.program.hex()), history, file)
            session._check_end()
            return session
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process have the file."""
        if self._file is not None:
            self._file.close()

    def save(self, path: Path) -> None:
        """From now on the session is in this new file, whole after every change. Raises SessionBusy, ConfigError."""
        self._move(SessionFile(path, new=True))

    # ---- Going on ----

    def run(
        self,
        inputs: Tensors,
        *,
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        stage: str = "result",
        terms: Terms | None = None,
        timeout: float | None = None,
        tell: Tell = silent,
    ) -> TaskResult:
        """The next step: a task from the states that the last one left, waited for until `stage`.

        If this very step is under way already, it is waited for instead. A task that ends without a result is paid for
        by nobody, and asked for again from the same states, up to ATTEMPTS times. `terms` hold from now on.
        The result's states stay at the gateway: `states` fetches them.

        Raises what `Client.run` raises; SessionBusy if another work is under way; SessionRewound, before anything is
        spent on this step, if the executor of an earlier one was convicted; BlobNotFound while the executor has not
        uploaded the result. The step is under way after NotYet, NotChecked and BlobNotFound.
        """
        with self.going_on():
            return waiting.finish(self.running(inputs, variables or {}, repeat, stage, terms, timeout, tell))

    def wait(self, stage: str = "final", *, timeout: float | None = None, tell: Tell = silent) -> None:
        """Waits until the step under way, if there is one, and all before it have reached a stage.

        `timeout` is for each of them. Raises as `run`.
        """
        with self.going_on():
            waiting.finish(self.awaiting(stage, timeout, tell))

    # ---- What there is ----

    def plan(self, repeat: int = 1) -> Plan:
        """What a step costs. Raises NotDisputable if it would be refused."""
        work = self._work({}, {}, repeat)
        self.client.check_program(self.program, self.history.terms, repeat)
        return self.client.estimate(work, self.history.terms)

    def result(self, step: int = -1, tell: Tell = silent) -> TaskResult:
        """The result of a step, the last one by default, fetched and verified again. Raises as `Client.fetch`."""
        if not -self.step <= step < self.step:
            raise BindingError(f"there is no step {step}", fix=f"The session has {self.step} of them.")
        task = self.client.view(self.history.steps[step].order)
        return self.client.fetch(task, tell, states=False)

    def states(self, tell: Tell = silent) -> Tensors:
        """The states with which the next step begins; this machine's cache keeps a copy, should the gateway lose them.

        Raises BlobNotFound if they are gone.
        """
        return transfer.download_states(self.client.gateway, self.program, self.history.next_states, tell)

    def _move(self, file: SessionFile) -> None:
        file.write(self.history)
        self.close()
        self._file = file
