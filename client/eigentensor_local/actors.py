"""Operators as tests and demos need them: each plays one part. No other package has any of this.

`python -m eigentensor_local.actors operator run …` is `eigentensor operator run …` of an operator that lies: about
whatever it computes, or, where the environment has LIE, about one paid call alone.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.chain import Admission, Chain, Mined
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.task import Order
from eigentensor.tracing import Execution, Retrace, outputs_of
from eigentensor_client.cli import main

#: In the environment: which paid call an operator lies about, by how many it executed before.
LIE = "EIGENTENSOR_LOCAL_LIE"


class SilentOperator:
    """Accepts tasks and is never heard of again: no commit, no reveal."""

    def __init__(self, chain: Chain, operator: str) -> None:
        """`chain` acts with the hot signer of `operator`, which has joined and has collateral in the market."""
        self.chain = chain
        self.operator = operator

    def accept(self, order: Order, admission: Admission | None = None) -> Mined:
        """Raises what `Chain.accept` raises: Reverted if somebody else was faster."""
        return self.chain.market.accept(self.operator, order, admission)


def lied(program: Program, results: Results) -> Results:
    """The results with one bit flipped: the lowest one of the first element of the first result that has one."""
    buffer = _lied_about(program)
    outputs, states = (
        {name: _flipped(array) if records[name].buffer == buffer else array for name, array in arrays.items()}
        for records, arrays in ((program.outputs, results.outputs), (program.new_states, results.states))
    )
    return Results(outputs, states)


def lying(retrace: Retrace) -> Retrace:
    """Accounts that agree with `lied`: the call that computed the flipped bit is said to have done so."""

    def lie(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = frozenset(),
    ) -> Execution:
        buffer = _lied_about(program)
        number = (repeat - 1) * len(program.calls) + buffer - len(program.buffers)
        true = retrace(program, tensors, variables, repeat, keep={*keep, number})
        wrong = _flipped(true.kept[number])
        root = merkle.array_root(program.parameter(buffer).dtype, wrong)
        calls = (*true.calls[:number], root, *true.calls[number + 1 :])
        return replace(true, calls=calls, outputs=outputs_of(program, calls), kept={**true.kept, number: wrong})

    return lie


def lie_as_operator() -> None:
    """From here on the operator's daemon in this process lies about every task, and defends its lies in every game."""
    from eigentensor_operator.device import Device

    device: Any = Device
    execute = device.execute

    def execute_wrongly(self: Any, bound: BoundProgram, seconds: float, seed: bytes) -> Results:
        return lied(bound.program, execute(self, bound, seconds, seed))

    device.execute = execute_wrongly
    _defend()


def lie_in_call(number: int) -> None:
    """From here on the operator's daemon in this process lies about one of the paid calls that it executes, when it
    has executed `number` of them, and defends that in the game about it. It must check none of others, and take no
    tasks."""
    from eigentensor.reexecution.warm import WarmExecution

    warm: Any = WarmExecution
    execute, executed = warm.execute_all_async, count()

    async def execute_wrongly(self: Any, *arguments: Any) -> list[Results]:
        truth: list[Results] = await execute(self, *arguments)
        return [lied(self.program, results) if next(executed) == number else results for results in truth]

    warm.execute_all_async = execute_wrongly
    _defend()


def _defend() -> None:
    from eigentensor_operator.device import Device

    device: Any = Device
    retrace = device.retrace
    device.retrace = lambda self, policy: lying(retrace(self, policy))


def _lied_about(program: Program) -> int:
    """The buffer with the bit that is flipped."""
    return next(r.buffer for r in program.results if program.parameter(r.buffer).elements)


def _flipped(array: Any) -> Any:
    wrong = np.array(array, order="C")
    wrong.reshape(-1)[:1].view(np.uint8)[0] ^= 1
    return wrong


if __name__ == "__main__":
    if LIE in os.environ:
        lie_in_call(int(os.environ[LIE]))
    else:
        lie_as_operator()
    main()
