"""Programs executed by this machine: in this process what its user deployed or names, confined what holders of tokens
name."""

from collections import OrderedDict
from functools import cached_property
from typing import Any

from eigentensor.program import Role
from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.cost import Cost, Needs, costs
from eigentensor.reexecution.inputs import load_role
from eigentensor.store import LocalStore
from eigentensor_client.files import Tensors
from eigentensor_serve.backend import Ask
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

_COMPILED = 4  # programs with their weights that stay in memory
_COUNTED = 256  # programs of which it is known what they cost
#: What takes some milliseconds: evaluations, bytes; parts (calls, buffers, results), however small.
QUICK, QUICK_PARTS = 1_000_000, 256


class Executor:
    """One execution at a time is the caller's business; asking what is compiled is for any thread."""

    def __init__(self, store: LocalStore, settings: Settings, tokens: Tokens) -> None:
        self._store, self._settings, self._tokens = store, settings, tokens
        self._compiled: OrderedDict[tuple[str, str | None], Any] = OrderedDict()
        self._costs: dict[str, Cost] = {}

    @cached_property
    def device(self) -> str:
        """What executes in this process: the device of the settings, or the default."""
        from eigentensor.runtime import devices  # with tinygrad

        return self._settings.device or devices.default()

    def has_compiled(self, ask: Ask) -> bool:
        """Whether the program and its weights are in memory, whatever becomes of their files."""
        return (ask.uuid, ask.weights) in self._compiled and not self._is_confined(ask)

    def has_counted(self, uuid: str) -> bool:
        """Whether it is known what a program costs."""
        return uuid in self._costs

    def needs(self, ask: Ask) -> Needs:
        """Evaluations and bytes that an execution takes."""
        cost = self._cost(ask)
        return Needs(cost.evaluations * ask.repeat, cost.all_bytes)

    def is_quick(self, ask: Ask) -> bool:
        """Whether to change to another thread would take longer than to execute it."""
        program, cost = ask.program, self._cost(ask)
        parts = cost.calls * ask.repeat + len(program.buffers) + len(program.results)
        is_small = cost.evaluations * ask.repeat <= QUICK and cost.all_bytes + cost.result_bytes <= QUICK
        return is_small and parts <= QUICK_PARTS and self.has_compiled(ask)

    def run(self, ask: Ask, tensors: Tensors, caller: str) -> Results:
        """For a holder of a token, or with an empty name for this machine's user. Raises what is wrong with the tensors
        or the program."""
        if not self._is_confined(ask, caller):
            results: Results = self._runner(ask).run(tensors, ask.variables, ask.repeat)
            return results
        from eigentensor.reexecution import confined
        from eigentensor.runtime import devices
        from eigentensor.runtime.sandbox.execution import run_sandboxed

        tensors = tensors | self._weights(ask)
        limits = confined.limits(self._settings.max_memory, self._settings.patience)
        device = self._settings.device or devices.default(confined=True)
        return run_sandboxed(encode(ask.program), tensors, ask.variables, ask.repeat, limits, device=device)

    def _cost(self, ask: Ask) -> Cost:
        """Counted once for a program: that takes longer than to execute a small one."""
        cost = self._costs.get(ask.uuid) or costs(ask.program)
        if len(self._costs) >= _COUNTED:
            self._costs.clear()
        self._costs[ask.uuid] = cost
        return cost

    def _is_confined(self, ask: Ask, caller: str = "") -> bool:
        """What a holder of a token named stays confined when there are no tokens any more."""
        return ask.app is None and (bool(caller) or bool(self._tokens))

    def _runner(self, ask: Ask) -> Any:
        """The program compiled with its weights; the ones used last stay."""
        from eigentensor.runtime import CompiledGraph

        name = (ask.uuid, ask.weights)
        if name not in self._compiled:
            self._compiled[name] = CompiledGraph(ask.program, self._weights(ask), device=self.device)
        self._compiled.move_to_end(name)
        while len(self._compiled) > _COMPILED:
            self._compiled.popitem(last=False)
        return self._compiled[name]

    def _weights(self, ask: Ask) -> Tensors:
        return {} if ask.weights is None else load_role(self._store.path(ask.weights), ask.program, Role.WEIGHT)
