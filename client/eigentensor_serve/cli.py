"""`eigentensor serve`, `deploy`, `chat` and `app`: programs over HTTP, what is deployed there, and what is there."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor.errors import BindingError, ConfigError
from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.verbs import options
from eigentensor_client.verbs.options import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentensor.program import Program
    from eigentensor_serve import schemas
    from eigentensor_serve.apps.registry import App, Apps
    from eigentensor_serve.chatting import Conversation
    from eigentensor_serve.settings import Settings

serving = typer.Typer(help="Programs over HTTP, paid by this wallet within a budget.", rich_markup_mode=None)
token = typer.Typer(
    help="Tokens of those who may call: new, list, remove.", no_args_is_help=True, rich_markup_mode=None
)
serving.add_typer(token, name="token")

Data = Annotated[Path | None, typer.Option("--data", help="Folder of tokens, and of what was asked and paid.")]


@serving.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    local: Annotated[bool, typer.Option("--local", help="Execute here: no chain, no payment, no check.")] = False,
    channels: Annotated[
        bool, typer.Option("--channels", help="Call operators through channels: milliseconds, no task each.")
    ] = False,
    operators: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="URL", help="With --channels: where one takes calls [all that are known]."),
    ] = None,
    deposit: Annotated[
        str | None, typer.Option("--deposit", help="With --channels: tokens paid into one [a tenth of the budget].")
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="Tokens that a day may cost [1].")] = None,
    budget_total: Annotated[str | None, typer.Option("--budget-total", help="Tokens that all days may cost.")] = None,
    max_price: Annotated[
        str | None, typer.Option("--max-price", help="The most offered for a task, or a call [0.05].")
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option("--retries", min=0, help="How often a task is posted again whose escrow came back [0]."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on; 0 chooses a free one [8700].")] = None,
    device: Annotated[str | None, typer.Option("--device", help="With --local: what executes [CPU].")] = None,
    data: Data = None,
    network: options.NetworkName = None,
) -> None:
    """Serve until told to stop. More settings: EIGENTENSOR_SERVE_* (client/docs/pages/guides/app.md)."""
    if context.invoked_subcommand is not None:
        return
    from eigentensor.web.server import listen
    from eigentensor_serve.server import assembled, create_app, run

    settings = _settings(
        local=local or None, channels=channels or None, operators=operators or None, deposit=deposit, budget=budget,
        budget_total=budget_total, max_price=max_price, retries=retries, host=host, port=port, device=device, data=data,
        network=network,
    )  # fmt: skip
    screen = Screen()
    with listen(settings.host, settings.port) as listening, assembled(settings) as service:
        screen.head(service.network, service.account)
        if service.account is not None:
            total = "" if settings.budget_total is None else f", {settings.budget_total} in all"
            screen.say(f"may spend {settings.budget} tokens a day{total}; {_spending(settings)}")
        host_, port_ = listening.getsockname()[:2]
        name = f"[{host_}]" if ":" in host_ else host_
        screen.say(f"listening on http://{name}:{port_} · described at /openapi.json")
        run(create_app(service), listening)


def _spending(settings: "Settings") -> str:
    """What it spends on, in words."""
    if settings.channels:
        return f"at most {settings.max_price} for a call; {settings.deposits} into a channel at each operator it calls"
    times = f"{settings.retries} time{'s' * (settings.retries != 1)}"
    again = f"; without a result it is posted again, {times} at most" if settings.retries else ""
    return f"at most {settings.max_price} for a task's execution, and as much as its check takes{again}"


@token.command("new")
def new_token(
    name: Annotated[str, typer.Argument(help="Whose it is.")], data: Data = None, json: options.Json = False
) -> None:
    """Make a token, and print it: it is told only once."""
    from eigentensor_serve.tokens import Tokens

    made = Tokens(_settings(data=data).tokens).new(name)
    fields: schemas.Token = {"schema": "eigentensor.token/1", "name": name, "token": made}
    Screen(as_json=json).result(fields["schema"], fields, made)


@token.command("list")
def list_tokens(data: Data = None, json: options.Json = False) -> None:
    """List the names that tokens were made for."""
    from eigentensor_serve.tokens import Tokens

    names = list(Tokens(_settings(data=data).tokens))
    fields: schemas.TokenNames = {"schema": "eigentensor.token-names/1", "names": names}
    Screen(as_json=json).result(fields["schema"], fields, facts([[name] for name in names]))


@token.command("remove")
def remove_token(
    name: Annotated[str, typer.Argument(help="Whose it was.")], data: Data = None, json: options.Json = False
) -> None:
    """Make a token worthless, at once."""
    from eigentensor_serve.tokens import Tokens

    Tokens(_settings(data=data).tokens).remove(name)
    fields: schemas.TokenRemoved = {"schema": "eigentensor.token-removed/1", "name": name}
    Screen(as_json=json).result(fields["schema"], fields, f"the token of {name} is worthless now")


def _settings(**flags: Any) -> "Settings":
    from pydantic import ValidationError

    from eigentensor_serve.settings import Settings

    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(
            f"the settings are wrong: {wrong}", fix="`eigentensor serve --help` says what each may be."
        ) from None


chatting = typer.Typer(rich_markup_mode=None)


@chatting.command("chat")
def chat(
    name: Annotated[str, typer.Argument(metavar="APP", help="A chat app's name, or NAME@VERSION.")],
    message: Annotated[str | None, typer.Argument(help="What to say [lines of stdin, until it ends].")] = None,
    system: Annotated[str | None, typer.Option("--system", help="What the model is told before.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="The longest answer [all of the context].")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0, max=2, help="0: always the likeliest [1].")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed, the same answer [a drawn one].")] = None,
    token: Annotated[
        Path | None, typer.Option("--token", metavar="FILE", help="A file with the token that the service wants.")
    ] = None,
    data: options.ServeData = None,
    json: options.Json = False,
) -> None:
    """Chat with a deployed model: at the service that runs, or here, if it was deployed for this machine."""
    from eigentensor_client.inputs import existing
    from eigentensor_serve.apps.registry import Apps
    from eigentensor_serve.chatting import Conversation, served_by

    screen, settings = Screen(as_json=json), _settings(data=data)
    app, (base, _) = Apps(settings.data).get(name.partition("@")[0]), _served(data)
    if app.model is None or app.model.kind != "chat":
        raise BindingError(f"app {app.name!r} is no chat", fix="`eigentensor deploy` makes one of a model's folder.")
    asked = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    with served_by(base, app, settings.data) as where:
        talk = Conversation(where, name, options={word: value for word, value in asked.items() if value is not None})
        talk.token = existing(token).read_text().strip() if token else None
        talk.messages = [{"role": "system", "content": system}] if system else []
        for line in _lines() if message is None else [message]:
            _show_answer(screen, talk, line)


def _lines() -> "Iterator[str]":
    """What a person types, or stdin has, line by line."""
    is_terminal = sys.stdin.isatty()
    while True:
        try:
            line = input("> ") if is_terminal else input()
        except EOFError:
            return
        if line.strip():
            yield line


def _show_answer(screen: Screen, talk: "Conversation", line: str) -> None:
    """Text as it comes, or `eigentensor.answer/1`."""
    pieces = []
    for piece in talk.ask(line):
        pieces.append(piece)
        if not screen.as_json:
            typer.echo(piece, nl=False)
    fields: schemas.Answer = {
        "schema": "eigentensor.answer/1",
        "model": talk.model,
        "answer": "".join(pieces),
        "seed": talk.proof["seed"],
        "tasks": talk.proof["tasks"],
    }
    screen.result(fields["schema"], fields, "")
    for task in fields["tasks"]:
        screen.say(f"task {short(task['task'])}  {task['state']}")


deploying = typer.Typer(rich_markup_mode=None)


@deploying.command("deploy")
@grouped
def deploy(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM", help="A program file or uuid, MODEL.onnx, FILE.py:NAME, MODEL.gguf, or a model's folder."
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="The endpoint is /v1/apps/NAME.")],
    offer: options.Offer,
    local: Annotated[
        bool, typer.Option("--local", help="For `serve --local`: no chain, no payment, no check.")
    ] = False,
    weights: Annotated[
        str | None, typer.Option("--weights", "-w", metavar="FILE|UUID", help="The weights: a file, or their uuid.")
    ] = None,
    states: Annotated[
        str | None, typer.Option("--states", metavar="FILE|UUID", help="The first states: a file, or their uuid.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="A model file: chat or embeddings, with a tokenizer.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=2, help="Of a model: tokens that a text may have [at most 1024; encoders 256]."),
    ] = None,
    part: Annotated[str | None, typer.Option("--part", help="Of CLIP: text or image.")] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Of an encoder: texts or images in one execution [1].")
    ] = None,
    integer: Annotated[
        bool,
        typer.Option("--integer", help="Of a quantised model: products of integers, faster and not as exact."),
    ] = False,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="INPUT", help="An input of which a request may have fewer rows (first axis)."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Tokens that a day may cost [no limit of its own].")
    ] = None,
    wait: Annotated[str, typer.Option("--wait", help="What an answer waits for: result, checked or final.")] = "result",
    data: options.ServeData = None,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Deploy a program as the next version of an app, which a running `eigentensor serve` serves at once.

    ONNX models, Python files, language models and encoders (GGUF, or a folder of config.json, *.safetensors and
    tokenizer.json) become programs first, with weights of their own.
    """
    from eigentensor.chain import to_wei
    from eigentensor_client.client import Client
    from eigentensor_client.orders import check_stage, read_terms, terms_for
    from eigentensor_client.verbs.planned import plan_lines
    from eigentensor_serve.ahead import Ahead
    from eigentensor_serve.apps.deployment import Here, deploy_local, deploy_paid, read_named, with_rows
    from eigentensor_serve.apps.registry import Apps
    from eigentensor_serve.kept import serve_folder

    screen, there = Screen(as_json=json), Apps(data or serve_folder())
    check_stage(wait)
    if local and (budget is not None or offer.max_price is not None):
        raise BindingError("nothing is paid with --local", fix="Leave --max-price and --budget out, or --local.")
    if local:
        screen.head("none, on this machine", None)
        with Ahead(there.store) as ahead:
            parts = read_named(
                program, Here(there.store), weights, states, model, there, context, part, batch, integer=integer,
                early=ahead,
            )  # fmt: skip
            parts = ahead.kept(with_rows(parts, rows or []))
            app, price = deploy_local(there, name, parts), "nothing: this machine executes it"
    else:
        with Client(network, store=there.store) as client:
            screen.head(client.network.name, client.address)
            terms = terms_for(wait, read_terms(client.network, offer))
            parts = read_named(
                program, client.gateway, weights, states, model, there, context, part, batch, integer=integer
            )
            parts = with_rows(parts, rows or [])
            daily = None if budget is None else to_wei(budget, client.network.deployment.token_decimals)
            with screen.work() as bar:
                app, plan = deploy_paid(client, there, name, parts, terms, wait, daily, bar)
            for line in plan_lines(plan, client.amount, client.pace):
                screen.say(line)
            price = f"at most {client.amount(plan.escrow)}"
            price += "" if daily is None else f", {client.amount(daily)} a day"
    base, tokens = _served(data)
    show_deployed(screen, app, parts.program, price, base, tokens=tokens)


def show_deployed(screen: Screen, app: "App", program: "Program", price: str, base: str, *, tokens: bool) -> None:
    """`eigentensor.app/1`, and the command that asks a service at `base`, which may want tokens."""
    from eigentensor_serve.apps.schema import curl

    command = curl(app, program, base, tokens=tokens)
    serve = "eigentensor serve --local" if app.market is None else "eigentensor serve"
    lines = (
        facts([*rows_of(app, program), ["a task", price], *urls_of(app)]),
        f"while `{serve}` runs, this asks it:",
        command,
    )
    screen.result("eigentensor.app/1", {**app.to_json(), "curl": command}, *lines)


def _served(data: Path | None) -> tuple[str, bool]:
    """Where this user's service is, or will be, as its settings say, and whether it wants tokens."""
    from eigentensor_serve.tokens import Tokens

    settings = _settings(data=data)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{settings.port}", bool(Tokens(settings.tokens))


def rows_of(app: "App", program: "Program") -> list[list[str]]:
    """What people read of an app, which is of this program."""
    from eigentensor.program.products import products
    from eigentensor_client.verbs.planned import PRODUCTS

    how = products(program)
    model = [["model", f"{app.model.kind}, tokenizer {app.model.tokenizer}"]] if app.model else []
    rows = [["rows", f"1 to {app.rows.count} in a request, of {', '.join(app.rows.inputs)}"]] if app.rows else []
    market = f"network {app.market.network}, chain {app.market.domain.chain_id}" if app.market else "this machine"
    roots = {"reads prompts": app.reader, "weights": app.weights, "states": app.states}
    return [
        ["app", f"{app.name}, version {app.version}"],
        ["deployed", app.created],
        ["program", app.program],
        *([word, root] for word, root in roots.items() if root),
        *([["products", PRODUCTS[how]]] if how else []),
        *model,
        *rows,
        ["executed by", market],
    ]


def urls_of(app: "App") -> list[list[str]]:
    """Where `serve` answers for it."""
    texts = {"chat": "/v1/chat/completions", "embeddings": "/v1/embeddings"}
    text = [["as a model", f"{texts[app.model.kind]}, model {app.name!r}"]] if app.model else []
    if app.model and app.model.kind == "chat":
        text.append(["in a terminal", f"`eigentensor chat {app.name}`"])
    return [["endpoint", f"POST /v1/apps/{app.name}"], ["page", f"/apps/{app.name}"], *text]


apps = typer.Typer(
    help="What `deploy` deployed: list, show, rollback, remove.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="APP", help="An app's name.")]


@apps.command("list")
def list_(data: options.ServeData = None, json: options.Json = False) -> None:
    """List the apps, each in the version that is served."""
    screen, there = Screen(as_json=json), _apps(data)
    listed = [(one, there.versions(one.name)) for one in there.list()]
    rows = [
        [one.name, f"{one.version} of {len(versions)}", one.model.kind if one.model else "program",
         one.market.network if one.market else "this machine", short(one.program), one.created]
        for one, versions in listed
    ]  # fmt: skip
    columns = ("app", "version", "kind", "executed by", "program", "deployed")
    fields = {"apps": [{**one.to_json(), "versions": versions} for one, versions in listed]}
    screen.result("eigentensor.apps/1", fields, table(columns, rows) if rows else "nothing is deployed")


@apps.command()
def show(
    name: Name,
    version: Annotated[int | None, typer.Option("--version", help="A version [the one that is served].")] = None,
    data: options.ServeData = None,
    json: options.Json = False,
) -> None:
    """Show an app: what it is made of, its versions, where it is served."""
    from eigentensor.program.codec import decode

    there = _apps(data)
    one, versions, served = there.get(name, version), there.versions(name), there.get(name).version
    numbers = ", ".join(f"{number}, served" if number == served else str(number) for number in versions)
    rows = [*rows_of(one, decode(there.store.read(one.program))), ["versions", numbers], *urls_of(one)]
    Screen(as_json=json).result(
        "eigentensor.app/1", {**one.to_json(), "versions": versions, "served": served}, facts(rows)
    )


@apps.command()
def rollback(
    name: Name,
    to: Annotated[int | None, typer.Option("--to", help="The version to serve [the one before].")] = None,
    data: options.ServeData = None,
    json: options.Json = False,
) -> None:
    """Serve another version from now on; no version is lost."""
    one = _apps(data).rollback(name, to)
    Screen(as_json=json).result("eigentensor.app/1", one.to_json(), f"{one.name} is version {one.version} now")


@apps.command()
def remove(name: Name, data: options.ServeData = None, json: options.Json = False) -> None:
    """Forget an app, all its versions, and what no other app is made of. Tasks and receipts stay."""
    there = _apps(data)
    versions = there.versions(name)
    there.remove(name)
    line = f"{name} is gone: {len(versions)} version{'s' if len(versions) != 1 else ''}"
    fields: schemas.AppRemoved = {"schema": "eigentensor.app-removed/1", "name": name, "versions": versions}
    Screen(as_json=json).result(fields["schema"], fields, line)


def _apps(data: Path | None) -> "Apps":
    from eigentensor_serve.apps.registry import Apps
    from eigentensor_serve.kept import serve_folder

    return Apps(data or serve_folder())
