"""The Python API: a page for each package that people import, whose docstrings mkdocstrings reads."""

from collections.abc import Mapping

#: Page → its title, what it is for, its modules: packages, and in them names.
_PAGES: Mapping[str, tuple[str, str, str]] = {
    "functions": ("Functions", "A tinygrad function as a paid task.", "eigentensor_client: function"),
    "client": (
        "Client",
        "Plan, post, wait, fetch, verify; for threads and for asyncio.",
        "eigentensor_client: client async_client session orders results tasks",
    ),
    "channels": (
        "Paid calls",
        "Calls out of a channel, from Python.",
        "eigentensor_client.channels: channel async_channel operators scheme",
    ),
    "capture": (
        "Capture",
        "A tinygrad function or an ONNX model becomes a program.",
        "eigentensor.capture: function context raising weights; eigentensor.lowering: graph_program",
    ),
    "graph": (
        "Graphs",
        "Tensors with NumPy's operators, lowered to a program as they are written.",
        "eigentensor.graph: builder tensor creation moves arithmetic selection",
    ),
    "program": (
        "Programs",
        "The format: model, bytes, validity, cost.",
        "eigentensor.program: model codec written validity ops cost binding",
    ),
    "meaning": (
        "Meaning and names",
        "The reference interpreter, and roots.",
        "eigentensor: reference merkle; eigentensor.numerics: operations dtypes",
    ),
    "runtime": ("Runtime", "The same bits, fast.", "eigentensor.runtime: compiled devices doctor"),
    "streams": (
        "Streams and GT",
        "Tensors that look computed at once.",
        "eigentensor.gt: tensors creation nn signal; eigentensor.stream: gradients optimisers",
    ),
    "cluster": (
        "Clusters",
        "A session at a cluster, and programs on many workers.",
        "eigentensor.cluster: session remote local; eigentensor.sharding: signals plan",
    ),
    "disputes": (
        "Disputes",
        "Traces, positions and moves of a game.",
        "eigentensor: tracing player; eigentensor.dispute: rules moves position strategy",
    ),
    "chain": (
        "Chain and tasks",
        "Orders, messages, events; the life of a task.",
        "eigentensor.chain: chain reader network; eigentensor.task: order life objects; "
        "eigentensor.economics: terms pricing",
    ),
    "store": (
        "Blobs and receipts",
        "Bytes by name; one file that proves what became of a task.",
        "eigentensor.store: gateway local tensors; eigentensor.receipt: model proof",
    ),
}


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    made = {f"python/{name}.md": _page(*page) for name, page in _PAGES.items()}
    lines = [f"* [{title}]({name}.md): {what}" for name, (title, what, _) in _PAGES.items()]
    made["python/index.md"] = (
        "# Python\n\nWhat public names promise, from their docstrings. Shapes are tuples, amounts are wei, times are\n"
        "blocks, unless a text says otherwise.\n\n" + "\n".join(lines) + "\n"
    )
    return made


def _page(title: str, what: str, packages: str) -> str:
    parts = (part.split(": ") for part in packages.split("; "))
    modules = [f"{package}.{name}" for package, names in parts for name in names.split()]
    return "\n\n".join([f"# {title}", what, *(f"::: {module}" for module in modules)]) + "\n"
