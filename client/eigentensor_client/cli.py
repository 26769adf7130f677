"""The command `eigentensor`: finds its verbs by name and imports one only when it is used.

Nothing heavy may be imported here, nor by a verb before it runs: `--help` answers within 200 ms.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from math import isfinite
from typing import Annotated, Any

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError
from typer._click.types import FloatParamType
from typer.core import TyperGroup
from typer.main import get_command

from eigentensor import errors, spending
from eigentensor.errors import ConfigError, EigenTensorError
from eigentensor.system import LINUX
from eigentensor.talk import QUIET, callable_here
from eigentensor.talk import command as command_here
from eigentensor.version import VERSION
from eigentensor_client.screen import columns_of
from eigentensor_client.tables import folded
from eigentensor_client.usage import EXAMPLES

#: name: (its Typer application under eigentensor_client.verbs, one line of help). Where no place is named the package
#: beside this one that has the verb offers it, as other parts do.
VERBS = {
    "init": ("init:app", "Write an example to begin with into an empty folder, or list what there is."),
    "devnet": ("", "A local network: chain, contracts, aggregator and operators, until Ctrl-C."),
    "demo": ("", "What the protocol does, on a local network: checked tasks, a lie and its conviction."),
    "plan": ("run:plan", "What a task would cost, and what cheating would cost its executor. Nothing is sent."),
    "run": ("run:app", "Run a program on somebody else's device, pay for it, fetch the verified result."),
    "ps": ("task:ps", "The account's tasks, newest first."),
    "logs": ("task:logs", "What happened to a task, a line each as it happens."),
    "get": ("task:get", "Fetch the verified result of a task."),
    "cancel": ("task:cancel", "Take back a task that nobody accepted."),
    "task": ("task:app", "One task: show, explain, cancel, logs."),
    "session": ("session:app", "Tasks that go on from each other's states: start, run, wait, show, states, rewind."),
    "channel": ("channel:app", "Paid calls in milliseconds: open, list, show, fund, leave, close, watch, receipt."),
    "deploy": ("", "Make a program with its weights an endpoint of `serve`, in versions."),
    "chat": ("", "Chat with a deployed model, here or at the service that runs."),
    "app": ("", "What is deployed: list, show, rollback, remove."),
    "challenge": ("challenge:app", "Games about results: look again, challenge, play, follow, be paid."),
    "serve": ("", "Programs over HTTP, paid by this wallet within a budget; or --local, executed here."),
    "receipt": ("receipt:app", "Files that prove what became of tasks and calls: get, check."),
    "program": ("program:app", "Program files: capture, import, check, show."),
    "optimise": ("optimise:app", "Find the fastest program for a graph, within a tolerance, on this machine."),
    "economics": ("", "What cheating would pay: simulate, payoffs, tune, plot, channels. Nothing is sent."),
    "tune": ("tune:app", "Measure which schedules run a program fastest on this machine."),
    "blob": ("blob:app", "Bytes by name: put, get."),
    "wallet": ("wallet:app", "The account that pays: show, deposit, withdraw, fund, new, import, list."),
    "network": ("network:app", "Which networks there are, and where a value comes from: list, show."),
    "doctor": ("doctor:app", "Hold every device of this machine to the reference, and say what it lacks."),
    "completion": ("completion:app", "A script that lets a shell complete this command: bash, zsh, fish."),
}
PARTS = {
    "watch": "Re-execute what others executed, and challenge what differs.",
    "operator": "Execute strangers' programs for money: bench, up, run, status, leave. Or choose one that does: list.",
    "cluster": "One program on many devices, for one user or many: up, worker, status, top, log, trace, run, down.",
    "aggregator": "Serve blobs and tasks over HTTP, and send what is due.",
}
#: What a client adds to the nouns of other parts: Typer applications under eigentensor_client.verbs.
ADDED = {"operator": ("operators:app",)}
#: The code with which the command ends after an error: the table of client/README.md says what each means.
_KINDS: dict[int, tuple[type[EigenTensorError], ...]] = {
    1: (EigenTensorError,),
    2: (errors.BindingError, errors.TensorFileError, errors.GraphFileError),
    3: (errors.ConfigError, errors.NotAdmitted),
    4: (errors.BlobNotFound, errors.TaskNotFound, errors.AppNotFound),
    5: (errors.InsufficientFunds,),
    6: (errors.NobodyAccepted, errors.ExecutorFailed, errors.TaskCancelled),
    7: (errors.CaptureError, errors.ToleranceExceeded, errors.ExecutionError),
    8: (errors.BlobCorrupt, errors.WrongBits, errors.WitnessError, errors.WrongResult, errors.WrongReceipt),
    9: (errors.NotYet, errors.NotMined),
    10: (
        errors.ChainError,
        errors.StoreError,
        errors.ProcessDied,
        errors.ServiceBusy,
        errors.NoResponse,
        errors.ClusterError,
    ),
    11: (errors.ProgramError, errors.DisputeError, errors.BlobTooLarge, errors.Reverted, errors.TaskError),
    12: (errors.ExecutorConvicted, errors.SessionRewound),
    13: (errors.NotChecked,),
    14: (errors.ChallengeLost,),
    15: (errors.ChannelError,),
}
_CODES = {kind: code for code, kinds in _KINDS.items() for kind in kinds}
#: What there is of the command where an error's topic is this.
_TOPICS = {
    "blob": "`eigentensor blob put FILE` gives the gateway a blob.",
    "cast": "`--cast float32` does that.",
    "channel": "`eigentensor channel list` shows yours; `channel open` opens one, `channel fund` adds to its deposit.",
    "cluster": "`eigentensor cluster up` starts one and shows its address, `cluster status` says how it stands.",
    "funds": "`eigentensor wallet fund` gives tokens and coins on a local chain, `--to ADDRESS` to another account.",
    "joining": "`eigentensor operator up` does what is missing.",
    "keystore": "`eigentensor wallet list` shows those that have names, `wallet new` and `wallet import` make one.",
    "leaving": "`eigentensor operator leave` says until when.",
    "machine": "`eigentensor doctor` tries every device, and looks for such libraries.",
    "network": "`eigentensor network list` shows which there are, `eigentensor devnet` starts a local one.",
    "outputs": "`eigentensor get` fetches them.",
    "program": "`eigentensor program show` says what a program takes.",
    "receipt": "`eigentensor receipt get TASK -o FILE` writes one.",
    "shapes": "`eigentensor program import --shape NAME=1,2` gives one; `run` takes that of the input that is given.",
    "task": "`eigentensor ps` lists the tasks of your account.",
}
#: What is wrong with a file or folder that somebody named, rather than with this program.
PLACES = {
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ELOOP, errno.EMFILE,
    errno.ENAMETOOLONG, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
}  # fmt: skip
COMPLETES = "_EIGENTENSOR_COMPLETE"  #: set by a shell that asks how a command line goes on


class Verbs(TyperGroup):
    """Loads a verb when it is called; other packages offer theirs as entry points of the group `eigentensor.verbs`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names: the verbs, then the parts of the network."""
        return [*VERBS, *PARTS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        if place := VERBS.get(cmd_name, ("",))[0]:
            return _helpful(_loaded(place, cmd_name))
        from importlib.metadata import entry_points

        offers = tuple(entry_points(group="eigentensor.verbs", name=cmd_name))
        if not offers:
            return None
        command = _command(offers[0].load(), cmd_name)
        for place in ADDED.get(cmd_name, ()):
            added = _loaded(place, "list")
            command.add_command(added, added.name)
        return _helpful(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Raises a usage error that names what is meant by a word that is nearly a verb."""
        from difflib import get_close_matches

        word = args[0]
        near = [] if word in self.list_commands(ctx) else get_close_matches(word, self.list_commands(ctx), 1)
        if near and not ctx.resilient_parsing:
            raise UsageError(f"No such command {word!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names and their lines, without importing what they stand for."""
        from typer._click.shell_completion import CompletionItem

        lines = {name: line for name, (_, line) in VERBS.items()} | PARTS
        items = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return items or super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the lines of `--help`: the verbs, then the parts of the network."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])
        with formatter.section("Parts of the network"):
            formatter.write_dl(list(PARTS.items()))


def _loaded(place: str, name: str) -> Any:
    module, _, attribute = place.partition(":")
    return _command(getattr(import_module(f"eigentensor_client.verbs.{module}"), attribute), name)


def _command(app: typer.Typer, name: str) -> Any:
    app.rich_markup_mode = None  # plain help, the same for all parts
    app._add_completion = False  # `eigentensor completion` is for the whole command
    command = get_command(app)
    command.name = name
    return command


def _helpful(command: Any) -> Any:
    """The same command, with `--quiet` wherever something can be said, numbers that are some, and examples at the end
    of the help."""
    for words, leaf in leaves(command.name, command):
        for parameter in leaf.params:
            if isinstance(parameter.type, FloatParamType):
                parameter.type = _finite(parameter.type)
        leaf.params.append(_QUIET)
        if lines := EXAMPLES.get(words):
            leaf.epilog = "\n".join(("\b", "Examples:", *(f"{command_here()} {line}" for line in lines)))
    return command


def _finite(kind: Any) -> Any:
    """The same type of numbers, without those that no bound refuses: what is no number, and what has no end."""
    finite, read = copy(kind), kind.convert

    def convert(value: Any, parameter: Any, context: Any) -> Any:
        number = read(value, parameter, context)
        return number if isfinite(number) else kind.fail(f"{value!r} is no number that ends.", parameter, context)

    finite.convert = convert
    return finite


def leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and those below it by the words that call them, as far as they do something themselves."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from leaves(f"{words} {name}", below)
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield words, command


def _be_quiet(wanted: bool) -> None:
    QUIET.set(wanted)


def _quiet(
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", callback=_be_quiet, expose_value=False, help="Say nothing but data and errors."),
    ] = False,
) -> None:
    """Only its option is used."""


def _option(verb: Any) -> Any:
    app = typer.Typer(add_completion=False)
    app.command()(verb)
    return get_command(app).params[0]


_QUIET = _option(_quiet)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(VERSION)
        raise typer.Exit


app = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Run a tinygrad computation on somebody else's GPU, pay for it, and be sure of the result."""


def exit_code(kind: type[EigenTensorError]) -> int:
    """That of the nearest base that stands in the table."""
    return next(_CODES[base] for base in kind.__mro__ if base in _CODES)


def report(error: EigenTensorError, *, as_json: bool) -> None:
    """Prints what went wrong, why, and what to do: to stderr, and as one object to stdout if JSON is wanted."""
    fix = f"{error.fix} {_TOPICS.get(error.topic, '')}".strip()
    words = {"what": error.what, "why": str(error.__cause__ or ""), "fix": callable_here(fix)}
    _report(type(error).__name__, words, exit_code(type(error)), as_json=as_json)


def _report(name: str, words: dict[str, str], code: int, *, as_json: bool) -> None:
    if as_json:
        with suppress(OSError):  # stdout may be what is wrong
            typer.echo(json.dumps({"schema": "eigentensor.error/1", "error": name, **words, "exit_code": code}))
    width = columns_of(sys.stderr) - 7
    for label, text in zip(("error", "  why", "  fix"), words.values(), strict=True):
        if text:
            typer.echo(f"{label}  " + "\n       ".join(folded(text, width)), err=True)


def _prepare_streams() -> None:
    """Streams that were closed lead nowhere. What a terminal has no letters for, or is no text, is written escaped."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 -- as long as the process lives
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb and exits with a code of the table in client/README.md."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if LINUX:
        os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")  # the other one loads a parser of C
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # a command of its own, with rich and click
    _prepare_streams()
    as_json = "--json" in words
    if COMPLETES in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        with spending.command(is_process=arguments is None):
            code = get_command(app)(words, prog_name=command_here(), complete_var=COMPLETES, standalone_mode=False)
        sys.stdout.flush()
    except EigenTensorError as error:
        report(error, as_json=as_json)
        code = exit_code(type(error))
    except NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except UsageError as error:
        place = error.ctx.command_path if error.ctx else "eigentensor"
        usage = {"what": error.format_message(), "why": "", "fix": f"`{place} --help` shows what it takes."}
        _report("UsageError", usage, error.exit_code, as_json=as_json)
        code = error.exit_code
    except typer.Abort:  # a question was not answered
        code = 130
    except BrokenPipeError:  # whoever read stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # 128 and the number of SIGPIPE
    except OSError as error:
        if error.errno not in PLACES:
            raise
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        fix = "Check that the place is there, that you may read and write there, and that there is room."
        code = exit_code(ConfigError)
        _report("OSError", {"what": what, "why": "", "fix": fix}, code, as_json=as_json)
    except Exception as error:
        cause = getattr(error, "orig", error)  # of SQLAlchemy's
        if type(cause).__module__ != "sqlite3":  # which most verbs need not import
            raise
        fix = "Check that the folder of its data is there, that you may write there, and that there is room."
        report(ConfigError(f"the database of this command cannot be used: {cause}", fix=fix), as_json=as_json)
        code = exit_code(ConfigError)
    sys.exit(code if isinstance(code, int) else 0)
