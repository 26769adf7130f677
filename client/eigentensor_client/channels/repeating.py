"""Calls that are executed again by their client, and games about those that are wrong: confined, as operators do."""

import threading
from pathlib import Path
from typing import Any

from eigentensor import merkle
from eigentensor.chain import Chain
from eigentensor.channel.signed import index_of
from eigentensor.errors import StoreError, WrongBits
from eigentensor.player import Player
from eigentensor.program import Program, Role, decode
from eigentensor.program.binding import shaped
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram, Tensors, fetch_program, load_role
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.runtime import devices
from eigentensor.store import GatewayClient
from eigentensor.store.tensors import load_flat, parse_flat
from eigentensor.task import NONE, Order
from eigentensor_client.channels.ledger import Account, Call, Ledger

_MEMORY = 8 << 30  # bytes of a program's tensors
_SECONDS = 600.0


class Repeater:
    """Of one ledger's calls, whose inputs it keeps; programs, weights and states come from this machine's cache or the
    gateway. A program stays in its sandbox from call to call, until `close`."""

    def __init__(self, chain: Chain, gateway: GatewayClient, ledger: Ledger, *, unsafe: bool = False) -> None:
        """`unsafe` does without the sandbox."""
        self._chain, self._gateway, self._ledger = chain, gateway, ledger
        self._unsafe = unsafe
        self._limits = confined.limits(_MEMORY, _SECONDS)
        self._players: dict[bytes, Player] = {}
        self._warm: dict[tuple[bytes, bytes], WarmExecution] = {}
        self._lock = threading.Lock()  # a look by hand and one of the watch may meet

    def close(self) -> None:
        """Ends the programs' processes."""
        with self._lock:
            for execution in self._warm.values():
                execution.close()
            self._warm.clear()

    def repeat(self, account: Account, call: Call) -> bool | None:
        """Whether a call gives what its receipt says; None: this machine lacks states that the operator keeps. One that
        does not is executed once more, in a process of its own.

        Raises StoreError where the program or its weights are nowhere, ExecutionError, WrongBits if this device cannot
        be trusted.
        """
        claimed, computation = call.receipt.outputs_root, call.computation
        with self._lock:
            execution = self._execution(call)
            tensors = self._tensors(execution.program, call)
            if tensors is None:
                return None
            results = execution.execute(tensors, computation.variables, computation.repeat, _SECONDS)
        if (root := merkle.results_root(execution.program, results)) == claimed:
            return True
        bound = self._bound(account, call)
        assert bound is not None  # whoever has the tensors has all of it
        again, _ = confined.repeated(bound, root, self._limits, unsafe=self._unsafe)
        if again != root:
            raise WrongBits(f"this device gives {root.hex()}, and then {again.hex()}")
        return False

    def _execution(self, call: Call) -> WarmExecution:
        """The call's program with its weights, ready; of each there is one."""
        key = call.computation.program, call.computation.weights
        if key not in self._warm:
            program = decode(self._gateway.fetch(key[0]).read_bytes())
            weights = self._gateway.fetch(key[1]) if key[1] != NONE else None
            device = devices.default(confined=not self._unsafe)
            self._warm[key] = WarmExecution(program, weights, self._limits, device=device, unsafe=self._unsafe)
        return self._warm[key]

    def _tensors(self, program: Program, call: Call) -> Tensors | None:
        """The inputs and states that a call computes on; None where its states are not here."""
        tensors = shaped(program, parse_flat(call.body)) if call.body else {}
        states = call.computation.states
        if states == NONE or program.named(Role.STATE).keys() <= tensors.keys():
            return tensors
        if states not in self._gateway.store and not self._gateway.has(states):
            return None
        return {**tensors, **load_role(self._gateway.fetch(states), program, Role.STATE)}

    def turn(self, account: Account, game: int) -> None:
        """Makes the next move of a game of this account about one of the channel's calls, if it is its turn, or ends it
        where the operator let its clock run out. Raises ChainError, DisputeError, ExecutionError."""
        channel = account.agreement.channel
        if channel not in self._players:

            def load(task: bytes, order: Order) -> BoundProgram:
                bound = self._bound(account, self._ledger.call(channel, index_of(order)))
                if bound is None:
                    raise StoreError(f"states of task {task.hex()} are not here")
                return bound

            retrace = confined.retracing(self._limits, unsafe=self._unsafe)
            self._players[channel] = Player(self._chain, self._chain.address, load, retrace, calls=True, wait=0)
        self._players[channel].turn(game)

    def _bound(self, account: Account, call: Call) -> BoundProgram | None:
        """All that the call binds; None without its states."""
        order = call.order_in(account.agreement.deal, account.agreement.channel)
        program = fetch_program(self._gateway, order)
        files, tensors = list[Path](), dict[str, Any]()
        if call.body:
            files.append(self._gateway.store.path(self._gateway.store.put(call.body)))
            tensors |= shaped(program, load_flat(files[-1]))
        for role, root in ((Role.WEIGHT, order.weights), (Role.STATE, order.states)):
            if root != NONE and not program.named(role).keys() <= tensors.keys():
                if role is Role.STATE and root not in self._gateway.store and not self._gateway.has(root):
                    return None
                files.append(self._gateway.fetch(root))
                tensors |= load_role(files[-1], program, role)
        return BoundProgram(program, tuple(files), tensors, call.computation.variables, order.repeat)
