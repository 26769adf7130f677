"""`eigentensor session`: paid tasks of one program that go on from each other's states."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying
from eigentensor_client.verbs.options import grouped
from eigentensor_client.verbs.timeout import within

if TYPE_CHECKING:
    from eigentensor_client.history import History
    from eigentensor_client.results import TaskResult
    from eigentensor_client.schemas import results as schemas
    from eigentensor_client.session import Session
    from eigentensor_client.tables import Table

app = typer.Typer(
    help="Tasks that go on from each other's states: start, run, wait, show, states, rewind.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(metavar="SESSION", help="The session's file.")]


@app.command()
@grouped
def start(
    file: File,
    program: options.ProgramName,
    states: Annotated[Path, typer.Option("--states", help="The first states, a safetensors file.")],
    offer: options.Offer,
    weights: options.Weights = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Begin a session in a new file: give the gateway the program, its weights and first states. Nothing is spent."""
    from eigentensor_client.files import read_tensors
    from eigentensor_client.orders import read_terms
    from eigentensor_client.sources import read_program
    from eigentensor_client.verbs.planned import plan_lines

    with paying(network, json=json) as (screen, client, _):
        decoded, terms = read_program(program, client.gateway), read_terms(client.network, offer)
        with screen.work() as bar:
            session = client.session(decoded, read_tensors(weights), read_tensors(states), terms, file, bar)
        with session:
            for line in plan_lines(session.plan(), client.amount, client.pace):
                screen.say(line)
            show_history(screen, session.history)


@app.command()
def run(
    file: File,
    input: options.Inputs = None,  # noqa: A002
    variable: options.Variables = None,
    repeat: options.Repeat = 1,
    output: options.Output = None,
    wait: options.Wait = "result",
    timeout: options.Timeout = None,
    max_price: Annotated[str | None, typer.Option("--max-price", help="Another price from now on, in tokens.")] = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Pay for the next step and fetch its outputs; the same command goes on with a step that was interrupted."""
    from eigentensor.chain import to_wei
    from eigentensor_client.files import check_places, read_inputs
    from eigentensor_client.inputs import read_variables

    check_places(output)
    with within(timeout) as clock, _resumed(network, file, json=json) as (screen, session):
        terms = None
        if max_price is not None:
            price = to_wei(max_price, session.client.network.deployment.token_decimals)
            terms = replace(session.history.terms, max_price=price)
        inputs, variables = read_inputs(input), read_variables(variable)
        with screen.work() as bar:
            result = session.run(
                inputs, variables=variables, repeat=repeat, stage=wait, terms=terms, timeout=clock.left(), report=bar
            )
        _result(screen, session, session.step - 1, result, output)


@app.command()
def wait(
    file: File,
    output: options.Output = None,
    stage: Annotated[str, typer.Option("--wait", help="result, checked or final.")] = "final",
    timeout: options.Timeout = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Wait for the step under way, and until all steps have come so far; write the last one's outputs."""
    from eigentensor_client.files import check_places, write_tensors

    check_places(output)
    with within(timeout) as clock, _resumed(network, file, json=json) as (screen, session):
        with screen.work() as bar:
            session.wait(stage, timeout=clock.left(), report=bar)
        if output is not None:
            write_tensors(output, session.result().outputs, session.program)
        show_history(screen, session.history)


@app.command()
def show(file: File, network: options.NetworkName = None, json: options.Json = False) -> None:
    """Show the steps of a session, and what became of their tasks."""
    with _resumed(network, file, json=json) as (screen, session):
        session.look()
        show_history(screen, session.history)


@app.command()
def states(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the states.")],
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Fetch the states with which the next step begins; this machine keeps a copy, should the gateway lose them."""
    from eigentensor.program import Kind
    from eigentensor_client.files import write_tensors

    with _resumed(network, file, json=json) as (screen, session):
        with screen.work() as bar:
            write_tensors(output, session.states(bar), session.program, Kind.STATE)
        fields: schemas.StepStates = {
            "schema": "eigentensor.states/1",
            "step": session.step,
            "states": session.history.next_states.hex(),
            "file": str(output),
        }
        screen.result(fields["schema"], fields, str(output))


@app.command()
def rewind(
    file: File,
    step: Annotated[int, typer.Argument(metavar="STEP", help="The step that is to be the next one.")],
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Go back to where a step begins. What nobody has accepted yet is taken back; the rest stays paid."""
    with _resumed(network, file, json=json) as (screen, session):
        session.rewind(step)
        show_history(screen, session.history)


@contextmanager
def _resumed(network: str | None, file: Path, *, json: bool) -> Iterator[tuple[Screen, "Session"]]:
    with paying(network, json=json) as (screen, client, _), client.resume(file) as session:
        try:
            yield screen, session
        except KeyboardInterrupt:
            if session.history.under_way is not None:
                screen.say(f"the task goes on: `eigentensor session wait {file}` or the same command takes it up")
            raise


def _result(screen: Screen, session: "Session", step: int, result: "TaskResult", output: Path | None) -> None:
    from eigentensor_client.verbs.outputs import result_lines, result_object, write_files
    from eigentensor_client.verbs.show import Show

    shown, program = Show(session.client.network, lambda: session.client.pace), session.program
    files = write_files(program, result, output)
    lines: list[str | Table] = [facts([["step", str(step)], ["states", result.states_root.hex()]])]
    lines += [*shown.task_lines(result.task), *result_lines(program, result, files)]
    fields: schemas.StepResult = {
        **result_object(shown, program, result, files),
        "schema": "eigentensor.step/1",
        "step": step,
        "states": result.states_root.hex(),
    }
    screen.result(fields["schema"], fields, *lines)


def show_history(screen: Screen, history: "History") -> None:
    """`eigentensor.session/1`, as its file has it."""
    rows = [
        [str(n), short(history.task(s.order)), _described(s.asked.variables, s.order.repeat), short(s.states.hex()),
         "final" if s.final else "result"]
        for n, s in enumerate(history.steps)
    ]  # fmt: skip
    if asked := history.under_way:
        task = history.task(asked.order)
        rows.append(
            [str(len(history.steps)), short(task), _described(asked.variables, asked.order.repeat), "–", "under way"]
        )
    rows += [[str(void.step), short(void.task), "–", "–", f"void: {void.why}"] for void in history.void]
    head = facts([["program", history.program.hex()], ["states", history.next_states.hex()]])
    columns = ("step", "task", "variables", "states after", "is")
    fields = history.to_json()
    screen.result(fields["schema"], fields, head, *([table(columns, rows)] if rows else []))


def _described(variables: Mapping[str, int], repeat: int) -> str:
    words = [f"{name} {value}" for name, value in variables.items()] + ([f"× {repeat}"] if repeat > 1 else [])
    return ", ".join(words) or "–"
