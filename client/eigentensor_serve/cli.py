"""`eigentensor serve`: programs over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor.errors import ConfigError
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options

if TYPE_CHECKING:
    from eigentensor_serve import schemas
    from eigentensor_serve.settings import Settings

app = typer.Typer(help="Programs over HTTP, paid by this wallet within a budget.", rich_markup_mode=None)
token = typer.Typer(
    help="Tokens of those who may call: new, list, remove.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(token, name="token")

Data = Annotated[Path | None, typer.Option("--data", help="Folder of tokens, and of what was asked and paid.")]


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    local: Annotated[bool, typer.Option("--local", help="Execute here: no chain, no payment, no check.")] = False,
    budget: Annotated[str | None, typer.Option("--budget", help="Tokens that a day may cost [1].")] = None,
    budget_total: Annotated[str | None, typer.Option("--budget-total", help="Tokens that all days may cost.")] = None,
    max_price: Annotated[str | None, typer.Option("--max-price", help="The most offered for a task [0.05].")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on; 0 chooses a free one [8700].")] = None,
    device: Annotated[str | None, typer.Option("--device", help="With --local: what executes [CPU].")] = None,
    data: Data = None,
    network: options.NetworkName = None,
) -> None:
    """Serve until told to stop. More settings: EIGENTENSOR_SERVE_* (client/README.md)."""
    if context.invoked_subcommand is not None:
        return
    from eigentensor.web.listening import listen
    from eigentensor_serve import running
    from eigentensor_serve.server import create_app

    settings = _settings(
        local=local or None, budget=budget, budget_total=budget_total, max_price=max_price, host=host, port=port,
        device=device, data=data, network=network,
    )  # fmt: skip
    screen = Screen()
    with listen(settings.host, settings.port) as listening, running.assembled(settings) as service:
        screen.head(service.network, service.account)
        if service.account is not None:
            total = "" if settings.budget_total is None else f", {settings.budget_total} in all"
            price = f"at most {settings.max_price} for a task's execution, and as much as its check takes"
            screen.say(f"may spend {settings.budget} tokens a day{total}; {price}")
        host_, port_ = listening.getsockname()[:2]
        name = f"[{host_}]" if ":" in host_ else host_
        screen.say(f"listening on http://{name}:{port_} · described at /openapi.json")
        running.run(create_app(service), listening)


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


def _settings(**given: Any) -> "Settings":
    from pydantic import ValidationError

    from eigentensor_serve.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"the settings are wrong: {said}", fix="client/README.md has the table.") from None
