"""The services over HTTP: a page of each OpenAPI document."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

from docs.making.markup import code, plain, table
from docs.making.schemas import described, kind_of
from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_aggregator.gateway import api as gateway
from eigentensor_aggregator.parts import Parts
from eigentensor_serve.server import assembled
from eigentensor_serve.server import create_app as service
from eigentensor_serve.settings import Settings

_METHODS = ("get", "put", "post", "patch", "delete", "head", "options")


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    # Routes need these parts when they answer; the document is made of types alone.
    parts = SimpleNamespace(
        settings=GatewaySettings(),
        network=SimpleNamespace(deployment=SimpleNamespace(parameters=None, domain=None)),
    )
    with TemporaryDirectory() as folder, assembled(Settings(local=True, data=Path(folder))) as running:
        served = service(running).openapi()
    return {
        "gateway.md": _page("The gateway over HTTP", gateway(cast(Parts, parts)).openapi()),
        "serve.md": _page("eigentensor serve over HTTP", served),
    }


def _page(title: str, document: Mapping[str, Any]) -> str:
    about = document["info"]
    parts = [f"# {title}", plain(about["summary"]), plain(about["description"])]
    parts.append("The document itself is at `/openapi.json` of the service.")
    for tag in document["tags"]:
        parts += [f"## {tag['name'].capitalize()}", plain(tag["description"])]
        for path, methods in document["paths"].items():
            for method in _METHODS:
                if method in methods and tag["name"] in methods[method].get("tags", ()):
                    parts += _operation(f"{method.upper()} {path}", methods[method], document["components"])
    parts.append("## Objects")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", *described(schema)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _operation(title: str, operation: Mapping[str, Any], components: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {code(title)}"
    yield plain(operation.get("description", ""))
    parameters = [
        (code(one["name"]), one["in"], kind_of(one.get("schema", {})), plain(one.get("description", "")))
        for one in operation.get("parameters", ())
    ]
    yield table(("parameter", "in", "is", ""), parameters)
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Takes {code(kind)}: {kind_of(media.get('schema', {}))}."
    yield table(
        ("answers", "", "with"), [_answer(status, one, components) for status, one in operation["responses"].items()]
    )


def _answer(status: str, response: Mapping[str, Any], components: Mapping[str, Any]) -> tuple[str, str, str]:
    if "$ref" in response:
        response = components["responses"][response["$ref"].rpartition("/")[2]]
    content = {kind: media.get("schema", {}) for kind, media in response.get("content", {}).items()}
    bodies = [f"{code(kind)}: {kind_of(schema)}" if schema else code(kind) for kind, schema in content.items()]
    return status, plain(response.get("description", "")), "; ".join(bodies)
