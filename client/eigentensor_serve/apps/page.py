"""The page of an app: what it takes, what it gives, and a form to try it. Nothing on it comes from elsewhere."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from eigentensor.program import Program, Role
from eigentensor_serve.apps.registry import App
from eigentensor_serve.apps.schema import outputs, rows_word, text_example

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
# Blocks: the second is written into the page of the first, and has names of its own.
_SCRIPT = """
{
const form = document.querySelector("form"), answer = document.querySelector("output");
form.token.value = sessionStorage.getItem("token") ?? "";
async function ask(url, options) {
  answer.textContent = "…";
  const headers = {"Content-Type": "application/json"}, token = form.token.value;
  if (token) headers.Authorization = "Bearer " + token;
  try {
    const response = await fetch(url, {headers, ...options});
    const fields = [...response.headers].filter(([name]) => name.startsWith("eigentensor-"));
    const lines = [response.status, ...fields.map((pair) => pair.join(": ")), ""];
    answer.textContent = [...lines, (await response.text()).slice(0, 20000)].join("\\n");
  } catch (error) {
    answer.textContent = String(error);
  }
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(form.dataset.url, {method: "POST", body: form.body.value});
});
for (const link of document.querySelectorAll("a")) link.addEventListener("click", (event) => {
  event.preventDefault();
  ask(event.target.href);
});
}
"""
_SIGN_IN = """
{
const form = document.querySelector("form"), answer = document.querySelector("output");
async function enter(token) {
  try {
    const response = await fetch(location.href, {headers: {Authorization: "Bearer " + token}});
    if (response.status == 401) sessionStorage.removeItem("token");
    if (!response.ok) throw (await response.json()).detail;
    const page = await response.text();
    sessionStorage.setItem("token", token);
    document.open();
    document.write(page);
    document.close();
  } catch (error) {
    answer.textContent = String(error);
  }
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(form.token.value);
});
if (sessionStorage.getItem("token")) enter(sessionStorage.getItem("token"));
}
"""


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


#: Of both pages: their own style and scripts, requests to their own server, nothing else.
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(_STYLE)}; "
    f"script-src {_hash(_SCRIPT)} {_hash(_SIGN_IN)}; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def page(app: App, program: Program, described: Mapping[str, Any], price: str) -> str:
    """The page in HTML. `described` is what the service says of the app, `price` in words what a request costs."""
    inputs = [
        [name, b.dtype.name.lower(), rows_word(b.shape, name, app.rows)]
        for name, b in program.named(Role.INPUT).items()
    ]
    inputs += [[v.name, "variable", f"{v.minimum} to {v.maximum}"] for v in program.variables]
    gives = [[o["name"], o["dtype"], rows_word(o["shape"], o["name"], app.rows)] for o in outputs(program)]
    facts = [
        ["program", app.program],
        ["weights", app.weights or "none"],
        ["version", f"{app.version} of {', '.join(map(str, described['versions']))}, deployed {app.created}"],
        ["a request", price],
    ]
    return f"""{_head(app.name)}
<h1>{escape(app.name)}</h1>
{_table((), facts)}
<h2>Takes</h2>
{_table(("name", "dtype", "shape"), inputs)}
<h2>Gives</h2>
{_table(("name", "dtype", "shape"), gives)}
<h2>Ask</h2>
<pre>{escape(described["curl"])}</pre>
<p>The <a href="{escape(described["url"])}">schema and an example</a> are JSON, and so is
<a href="{escape(described["openapi"])}">OpenAPI</a>. Lists of numbers are answered with lists of numbers.
Every answer says in its headers which task computed it, how that stands, and where its receipt is.</p>
{_form(app, described)}
<pre><output></output></pre>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _form(app: App, described: Mapping[str, Any]) -> str:
    """A request to be changed and sent; a large one is not for a page."""
    path, body = text_example(app) or (described["url"], described["example"])
    text = "{}" if body is None else json.dumps(body, indent=1)
    return f"""<form data-url="{escape(path)}">
<label>Body <textarea name="body" rows="8" spellcheck="false">{escape(text)}</textarea></label>
<label>Token, if this server wants one <input name="token" type="password" autocomplete="off"></label>
<p><button>Send</button></p>
</form>"""


def sign_in() -> str:
    """The page that a browser gets first where there are tokens: it asks for one, keeps it as long as its tab is open,
    and opens the page that was wanted. It says nothing about what there is."""
    return f"""{_head("A token, please")}
<h1>A token, please</h1>
<p>This service answers to those who have one. <code>eigentensor serve token new NAME</code> makes one.</p>
<form>
<label>Token <input name="token" type="password" autocomplete="off" required autofocus></label>
<p><button>Open</button></p>
</form>
<pre><output></output></pre>
<script>{_SIGN_IN}</script>
</body>
</html>
"""


def _head(title: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    titles = f"<thead><tr>{''.join(f'<th>{escape(title)}</th>' for title in head)}</tr></thead>" if head else ""
    return f"<table>{titles}<tbody>{''.join(f'<tr>{cell}</tr>' for cell in cells)}</tbody></table>"
