"""`eigentensor receipt`: get a task's receipt, and hold a receipt to what proves it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import BindingError, BlobNotFound, EigenTensorError
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.challenge_open import MaxMemory, Unsafe
from eigentensor_client.verbs.meeting import looking, paying

if TYPE_CHECKING:
    from eigentensor.receipt import Receipt
    from eigentensor.receipt.calls import SignedCall
    from eigentensor.store import GatewayClient
    from eigentensor.task import Order
    from eigentensor_client.looking import Look
    from eigentensor_client.phases import Bar
    from eigentensor_client.schemas import results as schemas

app = typer.Typer(help="Receipts of tasks and calls: get, check.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where to write the receipt.")]
Outputs = Annotated[Path | None, typer.Option("--outputs", help="A safetensors file that should hold the outputs.")]
OnChain = Annotated[bool, typer.Option("--chain", help="Hold it to the chain: did it happen, how does it stand now.")]
Deep = Annotated[bool, typer.Option("--deep", help="Execute the program again, confined, and compare the result.")]
Seconds = Annotated[float, typer.Option("--timeout", min=0, help="Seconds that the execution of --deep may take.")]


@app.command()
def get(
    task: options.TaskName, output: Output, network: options.NetworkName = None, json: options.Json = False
) -> None:
    """Write the receipt of a task that has a result, or whose executor was convicted, as it stands now."""
    from eigentensor_client import receipts

    with paying(network, json=json) as (screen, client, _):
        receipt = client.receipt(client.task(task))
        receipts.write(output, receipt)
        fields: schemas.ReceiptFile = {
            "schema": "eigentensor.receipt-file/1",
            "file": str(output),
            **receipts.fields(receipt),
        }
        rows = [*receipts.summary(receipt), ["written", receipts.written(output, receipt)]]
        screen.result(fields["schema"], fields, facts(rows))


@app.command()
def check(
    file: File,
    outputs: Outputs = None,
    chain: OnChain = False,
    deep: Deep = False,
    timeout: Seconds = 3600,
    max_memory: MaxMemory = 8 << 30,
    unsafe_no_sandbox: Unsafe = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Say what a receipt proves, and what it leaves open; where it is not what it says, which line, with code 8.

    Of a task, or of a call. Alone it takes neither a network nor a key: signatures, hashes, and the market's rules.
    """
    from eigentensor.receipt import compare, outputs_of, prove
    from eigentensor.receipt.calls import SignedCall
    from eigentensor_client import receipts
    from eigentensor_client.inputs import existing

    receipt = receipts.load(file)
    if isinstance(receipt, SignedCall):
        means = (max_memory, timeout, unsafe_no_sandbox)
        _check_call(receipt, outputs, network, means, chain=chain, deep=deep, json=json)
        return
    proved = prove(receipt) + ([outputs_of(receipt, existing(outputs))] if outputs else [])
    checked, failed = receipts.Checked(receipt, tuple(proved)), None
    screen = Screen(as_json=json)
    if chain or deep:
        from eigentensor.chain import Reader
        from eigentensor.pace import UNKNOWN

        with looking(network, json=json) as (screen, chosen, gateway):
            standing, look, reader = None, None, Reader(chosen)
            with screen.work() as bar:
                if chain:
                    bar("asking the chain")
                    standing = compare(receipt, reader)
                if deep:
                    try:
                        look = _execute_task(receipt, gateway, bar, (max_memory, timeout, unsafe_no_sandbox))
                    except EigenTensorError as error:
                        failed = error  # what is known without it is said before
            pace = reader.node.pace() if chain else UNKNOWN
            checked = receipts.Checked(receipt, tuple(proved), standing, look, pace)
    fields = checked.to_json()
    screen.result(fields["schema"], fields, *checked.lines())
    if (why := failed or checked.failure()) is not None:
        raise why


def _check_call(
    call: "SignedCall", outputs: Path | None, network: str | None, means: tuple[int, float, bool], *, chain: bool,
    deep: bool, json: bool,
) -> None:  # fmt: skip
    from eigentensor.receipt.calls import compare, prove
    from eigentensor_client import receipts

    if outputs is not None:
        raise BindingError("--outputs is of receipts of tasks", fix="--deep compares what a call gave.")
    checked, failed, screen = receipts.CheckedCall(call, tuple(prove(call))), None, Screen(as_json=json)
    if chain or deep:
        from eigentensor.chain import Reader

        with looking(network, json=json) as (screen, chosen, gateway), screen.work() as bar:
            standing, look = None, None
            if chain:
                bar("asking the chain")
                standing = compare(call, Reader(chosen))
            if deep:
                try:
                    what = f"call {call.receipt.index}"
                    look = _execute(what, call.order, call.receipt.outputs_root, gateway, bar, means)
                except EigenTensorError as error:
                    failed = error  # what is known without it is said before
            checked = receipts.CheckedCall(call, checked.proved, standing, look)
    fields = checked.to_json()
    screen.result(fields["schema"], fields, *checked.lines())
    if (why := failed or checked.failure()) is not None:
        raise why


def _execute_task(receipt: "Receipt", gateway: "GatewayClient", bar: "Bar", means: tuple[int, float, bool]) -> "Look":
    claimed = receipt.life.outputs_root
    if claimed is None:
        raise BindingError("the executor revealed no result that --deep could compare", fix="Leave --deep out.")
    return _execute(f"task {receipt.task}", receipt.order, claimed, gateway, bar, means)


def _execute(
    what: str, order: "Order", claimed: bytes, gateway: "GatewayClient", bar: "Bar", means: tuple[int, float, bool]
) -> "Look":
    from eigentensor.reexecution.inputs import fetch_bound
    from eigentensor_client.looking import Means, look_again

    bar("fetching what the order names")
    try:
        bound = fetch_bound(gateway, order)
    except BlobNotFound as error:
        raise BlobNotFound(
            f"what {what} was executed with is not at the network's gateway, and its "
            f"result cannot be computed again: {error.what}",
            fix="--network names another gateway; `eigentensor blob put FILE` gives it what you still have.",
        ) from None
    return look_again(bound, claimed, gateway, Means(*means), bar)
