"""From files and names to an app: everything is checked, and where it belongs, before the app is served."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from eigentensor.errors import BindingError, BlobNotFound
from eigentensor.program import Program
from eigentensor.store import LocalStore
from eigentensor.store.gateway import Progress
from eigentensor_client import transfer
from eigentensor_client.byte_pairs import BytePairs
from eigentensor_client.client import Client
from eigentensor_client.files import read_tensors
from eigentensor_client.inputs import existing
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import Plan
from eigentensor_client.sources import captured, is_captured, read_program
from eigentensor_client.transfer import Keeper, Part, Report, silent
from eigentensor_models.early import NOBODY, Early
from eigentensor_models.encoding import Encoding
from eigentensor_models.model import Model as LanguageModel
from eigentensor_models.model import is_model, load
from eigentensor_serve.apps.models import Chat, Embeddings, Model, read_model
from eigentensor_serve.apps.registry import App, Apps, Market
from eigentensor_serve.rows import Rows


@dataclass(frozen=True, slots=True)
class Parts:
    """What an app is made of, read: weights and states are tensors, or the root of some; `reader` is the program that
    reads for one that writes."""

    program: Program
    weights: Part
    states: Part
    model: Model | None
    rows: Rows | None = None
    reader: Program | None = None

    @property
    def step(self) -> int:
        """How often one task executes the program, if nothing else is asked for."""
        return self.model.step if isinstance(self.model, Chat) else 1


class Here:
    """This machine as the place where an app's parts are kept: its store, which takes from the cache what it lacks."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store

    def has(self, name: str | bytes) -> bool:
        """Whether it is there, or was in this machine's cache and is there now."""
        cache = LocalStore()
        if name not in self.store and name in cache:
            self.store.put(cache.path(name))
        return name in self.store

    def upload(self, source: str | bytes | Path, progress: Progress | None = None) -> str:
        """What is in the store is where it belongs."""
        return self.store.names(source).blob if not isinstance(source, Path) else self.store.put(source)

    def fetch(self, name: str | bytes, progress: Progress | None = None) -> Path:
        """The file of a blob. Raises BlobNotFound."""
        self.has(name)
        return self.store.path(name)


def read_parts(program: Program, weights: str | None, states: str | None, model: Path | None, apps: Apps) -> Parts:
    """Reads files; the tokenizer goes into the store. Weights and states are paths, or uuids.

    Raises BlobNotFound, TensorFileError, ConfigError; BindingError if the program is not what the model file says.
    """
    model_ = None
    if model is not None:
        model_, path = read_model(model)
        data = existing(path).read_bytes()
        model_.fit(program, BytePairs.from_bytes(data))
        model_ = replace(model_, tokenizer=apps.store.put(data))
    return Parts(program, _part(weights), _part(states), model_)


def read_named(
    program: str,
    keeper: Keeper,
    weights: str | None,
    states: str | None,
    model: Path | None,
    apps: Apps,
    context: int | None = None,
    part: str | None = None,
    batch: int | None = None,
    *,
    integer: bool = False,
    early: Early = NOBODY,
) -> Parts:
    """As `read_parts`, of what a user may name as a program; what is captured brings its own weights and states, a
    model as people have it its text, too. `context` is how long its texts may be, `integer` how its quantised matrices
    are multiplied, `part` one of an encoder's, which encodes a `batch` at once. `early` is told of
    programs as soon as they are there, and of a language model's weights.

    Raises CaptureError, ProgramError, too.
    """
    if is_model(program):
        if weights or states or model:
            raise BindingError(f"{program} has weights and a text of its own", fix="Name it alone.")
        loaded = load(Path(program), context, part, batch, integer=integer, early=early)
        if isinstance(loaded, Encoding):
            early.program(loaded.graph.program)
            return _encoder(loaded, apps)
        return _language_model(loaded, apps)
    if integer:
        raise BindingError(f"{program} says itself how it computes", fix="Leave --integer out, or name a GGUF file.")
    for option, value in (("context", context), ("part", part), ("batch", batch)):
        if value is not None:
            raise BindingError(f"{program} has no --{option} to choose", fix="Leave it out, or name a model's folder.")
    if not is_captured(program):
        given = read_program(program, keeper)
        early.program(given)
        return read_parts(given, weights, states, model, apps)
    graph, _ = captured(program, {}, None if weights is None else Path(weights))
    early.program(graph.program)
    parts = read_parts(graph.program, None, states, model, apps)
    return replace(parts, weights=dict(graph.weights), states=parts.states or dict(graph.states))


def _language_model(model: LanguageModel, apps: Apps) -> Parts:
    tokenizer = apps.store.put(model.text.to_bytes())
    chat = Chat(tokenizer, end=model.ends[0], ends=model.ends[1:])
    writer, reader = model.programs.writer, model.programs.reader.program
    chat.fit(writer.program, model.text)
    chat.fit_reader(writer.program, reader)
    return Parts(writer.program, dict(writer.weights), dict(writer.states), chat, reader=reader)


def _encoder(encoding: Encoding, apps: Apps) -> Parts:
    program, weights = encoding.graph.program, dict(encoding.graph.weights)
    if encoding.text is None:
        return Parts(program, weights, {}, None)
    model = Embeddings(apps.store.put(encoding.text.to_bytes()), pooling="none", normalise=False)  # the program does
    model.fit(program, encoding.text)
    return Parts(program, weights, {}, model)


def with_rows(parts: Parts, names: Sequence[str]) -> Parts:
    """The parts of an app to which a request may give fewer rows of the inputs of these names.

    Raises BindingError where a row's results might depend on other rows, and for models, whose rows are texts.
    """
    if not names:
        return parts
    if parts.model is not None:
        raise BindingError("the rows of a model are its texts", fix="Leave --rows out, or --model.")
    from eigentensor.regions.rows import rows_of  # seldom asked for

    count, outputs = rows_of(parts.program, names)
    return replace(parts, rows=Rows(count, tuple(names), outputs))


def deploy_paid(
    client: Client,
    apps: Apps,
    name: str,
    parts: Parts,
    terms: Terms,
    stage: str = "result",
    budget: int | None = None,
    report: Report = silent,
) -> tuple[App, Plan]:
    """Gives the gateway what it does not have, and serves the app from now on. Nothing is spent.

    The client keeps its blobs in the store of the apps. Raises what `Client.plan` raises, StoreError, BindingError.
    """
    client.check_program(parts.program, terms, parts.step)
    if parts.reader is not None:
        client.check_program(parts.reader, terms)
    app = _app(name, parts, client.gateway, report)
    market = Market(client.network.name, client.network.deployment.domain)
    app = apps.add(replace(app, market=market, terms=terms, stage=stage, budget=budget))
    weights, states = (_root(root) for root in (app.weights, app.states))
    work = Work(parts.program, {}, weights, states, repeat=parts.step)
    return app, client.estimate(work, terms)


def deploy_local(apps: Apps, name: str, parts: Parts) -> App:
    """As `deploy`, for this machine alone: what is named by a uuid must be here. Raises BlobNotFound, BindingError."""
    return apps.add(_app(name, parts, Here(apps.store)))


def _app(name: str, parts: Parts, keeper: Keeper, report: Report = silent) -> App:
    """The app of parts that are kept now."""
    roots = transfer.upload_fixed(keeper, parts.program, parts.weights, parts.states, report)
    reader = None
    if parts.reader is not None:
        reader = transfer.upload_fixed(keeper, parts.reader, roots.weights, roots.states, report).program.hex()
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    weights, states = (root.hex() if any(root) else None for root in (roots.weights, roots.states))
    return App(name, 0, created, roots.program.hex(), weights, states, parts.model, rows=parts.rows, reader=reader)


def _root(name: str | None) -> Part:
    return {} if name is None else bytes.fromhex(name)


def _part(word: str | None) -> Part:
    """The tensors of a file, or the root that a uuid is."""
    if word is None or Path(word).exists():
        return read_tensors(Path(word) if word else None)
    try:
        root = bytes.fromhex(word.removeprefix("0x"))
    except ValueError:
        root = b""
    if len(root) != 32:
        raise BlobNotFound(f"neither a file nor a uuid: {word}", fix="Name a .safetensors file, or its uuid.")
    return root
