"""The page of an app: what it takes, what it gives, and a form to try it. Nothing on it comes from elsewhere."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from eigentensor.program import Program, Role
from eigentensor_client.serving.apps import App
from eigentensor_client.serving.apps_schema import curl, outputs, text_example

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem .3rem 0; }
tr { border-bottom: 1px solid var(--line); vertical-align: top; } td { overflow-wrap: anywhere; }
pre, textarea { font: 14px/1.4 ui-monospace, monospace; border: 1px solid var(--line); border-radius: 6px; }
pre { padding: .7rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
pre:has(output:empty) { display: none; }
textarea { width: 100%; box-sizing: border-box; padding: .7rem; background: transparent; color: inherit; }
button { font: inherit; padding: .4rem 1.2rem; margin: .5rem 0; }
"""
_SCRIPT = """
const form = document.querySelector("form"), answer = document.querySelector("output");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  answer.textContent = "…";
  const headers = {"Content-Type": "application/json"}, token = form.token.value;
  if (token) headers.Authorization = "Bearer " + token;
  try {
    const response = await fetch(form.dataset.url, {method: "POST", headers, body: form.body.value});
    const told = [...response.headers].filter(([name]) => name.startsWith("eigentensor-"));
    const lines = [response.status, ...told.map((pair) => pair.join(": ")), ""];
    answer.textContent = [...lines, (await response.text()).slice(0, 20000)].join("\\n");
  } catch (error) {
    answer.textContent = String(error);
  }
});
"""


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


#: Of the page: its own style and script, requests to its own server, nothing else.
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def page(app: App, program: Program, versions: Sequence[int], example: Any, url: str, price: str) -> str:
    """The page in HTML. `url` is where this server is reached, `price` says in words what a request costs."""
    path, body = text_example(app) or (f"/v1/apps/{app.name}", example or {})
    given = [[name, b.dtype.name.lower(), str(list(b.shape))] for name, b in program.named(Role.INPUT).items()]
    given += [[v.name, "variable", f"{v.minimum} to {v.maximum}"] for v in program.variables]
    gives = [[o["name"], o["dtype"], str(o["shape"])] for o in outputs(program)]
    facts = [
        ["program", app.program],
        ["weights", app.weights or "none"],
        ["version", f"{app.version} of {', '.join(map(str, versions))}, deployed {app.created}"],
        ["a request", price],
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(app.name)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(app.name)}</h1>
{_table((), facts)}
<h2>Takes</h2>
{_table(("name", "dtype", "shape"), given)}
<h2>Gives</h2>
{_table(("name", "dtype", "shape"), gives)}
<h2>Ask</h2>
<pre>{escape(curl(url + path, body))}</pre>
<p>The <a href="/v1/apps/{escape(app.name)}">schema and an example</a> are JSON.
Every answer says in its headers which task computed it, how that stands, and where its receipt is.</p>
<form data-url="{escape(path)}">
<label>Body <textarea name="body" rows="8" spellcheck="false">{escape(json.dumps(body, indent=1))}</textarea></label>
<label>Token, if this server wants one <input name="token" type="password" autocomplete="off"></label>
<p><button>Send</button></p>
</form>
<pre><output></output></pre>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    titles = f"<thead><tr>{''.join(f'<th>{escape(title)}</th>' for title in head)}</tr></thead>" if head else ""
    return f"<table>{titles}<tbody>{''.join(f'<tr>{cell}</tr>' for cell in cells)}</tbody></table>"
