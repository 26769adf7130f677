"""How a session of this process executes a program: compiled, by workers, or by whatever gives a result soonest."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.program.binding import iteration_values
from eigentensor.program.model import Body, Program, Result
from eigentensor.runtime.memory.plan import HOST
from eigentensor.system import processors

if TYPE_CHECKING:
    from eigentensor.runtime.devices import Loaded
    from eigentensor.runtime.sharded import Sharded

Values = NDArray[Any]
Arrays = Mapping[int, Values]
#: Gives results of a program, by any key, on flat inputs by number of buffer and values of variables.
Execution = Callable[[Arrays, Mapping[str, int], Mapping[int, Result]], dict[int, Values]]


def soonest(program: Program, constants: Arrays, heavy: Collection[Body] = (), threads: int | None = None) -> Execution:
    """By the reference, but heavy bodies by a processor: these are compiled now, all at once. Raises ExecutionError if
    they cannot be."""
    codes, number_of_threads = None, threads or processors()
    if heavy:
        from eigentensor.cache import Cache, default_folder
        from eigentensor.runtime import devices
        from eigentensor.runtime.cpu.calls import Codes

        codes = Codes(devices.of(HOST), Cache(default_folder()))
        codes.compile(heavy)

    def execute(arrays: Arrays, variables: Mapping[str, int], results: Mapping[int, Result]) -> dict[int, Values]:
        reference.check_arithmetic()
        known = {**arrays, **constants}
        values, written = iteration_values(program, variables), [known[number] for number in range(len(known))]
        for number, call in enumerate(program.calls):
            body = program.bodies[call.body]
            if codes is None or body not in codes.bodies:
                written.append(reference.result(program, written, number, values))
            else:
                read, own = [written[a] for a in call.arguments], [values[v] for v in call.variables]
                written.append(codes.result(body, read, own, number_of_threads))
        return {key: written[result.buffer].reshape(result.shape) for key, result in results.items()}

    return execute


def on_device(loaded: "Loaded", program: Program) -> Execution:
    """By a program on a device, whose constants are bound."""

    def execute(arrays: Arrays, variables: Mapping[str, int], results: Mapping[int, Result]) -> dict[int, Values]:
        loaded.run(arrays, [iteration_values(program, variables)])
        return {key: loaded.read(result) for key, result in results.items()}

    return execute


def on_workers(sharded: "Sharded", inputs: Mapping[str, int]) -> Execution:
    """By workers of this process. `inputs` are numbers of buffers by name."""
    buffers = sharded.program.buffers

    def execute(arrays: Arrays, variables: Mapping[str, int], results: Mapping[int, Result]) -> dict[int, Values]:
        given = {name: arrays[number].reshape(buffers[number].shape) for name, number in inputs.items()}
        outputs = sharded.run(given, variables).outputs
        return {key: outputs[result.name] for key, result in results.items()}

    return execute
