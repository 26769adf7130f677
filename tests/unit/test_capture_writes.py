"""Every way in which a function writes to tensors follows tinygrad step by step, or is refused by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Context, Tensor, UOp, dtypes, function, nn
from tinygrad.uop.ops import KernelInfo

from eigentensor import reference
from eigentensor.capture import GraphProgram, TensorContext, capture, capture_graph
from eigentensor.capture.returns import Returns
from eigentensor.capture.signatures import Signatures
from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower

STEPS = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
Step = Callable[[Any, Tensor, UOp], Tensor]
BOUND = UOp.variable("at", 0, 2).bind(1)


def zeros() -> Tensor:
    return Tensor(np.zeros((4, 3), np.float32)).realize()


class Slots:
    """Where no name is found for a tensor."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Model:
    """One tensor that it keeps, and whatever else a way to write needs."""

    def __init__(self, step: Step, **parts: Callable[[Any], Any]) -> None:
        self.step = step
        self.kept = zeros()
        for name, make in parts.items():
            setattr(self, name, make(self))

    def __call__(self, x: Tensor, at: UOp) -> Tensor:
        return self.step(self, x, at)


def stored(model: Any, view: Tensor, value: Tensor) -> Tensor:
    return Tensor(model.kept.uop.after(view.uop.store(value.uop)))


def row(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept[at] = x
    return m.kept.sum(0)


def rows_by_number(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept[Tensor([0, 2])] = x.expand(2, 3) + m.kept[0]
    return m.kept.sum(0)


def added(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept += x
    return m.kept.sum(0)


def replaced(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.replace(m.kept + x)
    return m.kept.sum(0)


def moved(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.assign(m.kept[1:].cat(x.reshape(1, 3)))
    return m.kept.sum(0) + m.kept[0]


def through_a_view(m: Any, x: Tensor, at: UOp) -> Tensor:
    view = m.kept[1:3]
    view.assign(view + x)
    return m.kept.sum(0) + view.sum(0)


def transposed(m: Any, x: Tensor, at: UOp) -> Tensor:
    return stored(m, m.kept.T, m.kept.T + x.reshape(3, 1)).sum(0)


def every_other(m: Any, x: Tensor, at: UOp) -> Tensor:
    return stored(m, m.kept[::2], m.kept[::2] + x).sum(0)


def two_stores(m: Any, x: Tensor, at: UOp) -> Tensor:
    stores = [m.kept[n : n + 1].uop.store((x + n + m.kept[0]).reshape(1, 3).uop) for n in (0, 1)]
    return Tensor(m.kept.uop.after(*stores)).sum(0)


def realized(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.assign(m.kept + x).realize()
    m.kept.assign(m.kept * 2)
    return m.kept.sum(0)


def position(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.assign(m.kept + Tensor(at) * x)
    return Tensor(at).eq(0).where(x, m.kept.sum(0))


def halves(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.half.assign((m.half + x).cast(dtypes.half))
    return m.half.sum(0).float()


def drawn(m: Any, x: Tensor, at: UOp) -> Tensor:
    return x + Tensor.rand(3) + Tensor.randint(3, low=0, high=10)


def drawn_from_a_seed(m: Any, x: Tensor, at: UOp) -> Tensor:
    Tensor.manual_seed(5)
    return x + Tensor.rand(3) + Tensor.rand(3)


def trained(m: Any, x: Tensor, at: UOp) -> Tensor:
    with Context(TRAINING=1):
        m.optimizer.zero_grad()
        for factor in (1, 2):
            ((m.layer(x * factor).dropout(0.2) - 1) ** 2).mean().backward()
        m.optimizer.step()
    return m.layer.weight.sum(0)


def layer(_: Any) -> nn.Linear:
    made = nn.Linear(3, 2)
    Tensor.realize(*nn.state.get_parameters(made))
    return made


def optimizer(m: Any) -> Any:
    return nn.optim.SGD(nn.state.get_parameters(m.layer), lr=0.01, momentum=0.9)


def normalised(m: Any, x: Tensor, at: UOp) -> Tensor:
    with Context(TRAINING=1):
        rows = x.reshape(1, 3) * Tensor.arange(4).reshape(4, 1)
        return m.norm(rows).sum(0) + m.norm.running_mean


def converted_once(m: Any, x: Tensor, at: UOp) -> Tensor:
    if m.raw.dtype != dtypes.float32:
        m.raw = m.raw.float() * 2
    return x * m.raw


def remembered(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.last = x * 2  # nobody reads it
    return x + m.kept.sum(0)


#: Ways to write, with the parts of their models.
FOLLOWED: dict[Step, dict[str, Callable[[Any], Any]]] = {
    row: {}, rows_by_number: {}, added: {}, replaced: {}, moved: {}, through_a_view: {}, transposed: {},
    every_other: {}, two_stores: {}, realized: {}, position: {}, drawn: {}, drawn_from_a_seed: {},
    halves: {"half": lambda _: Tensor(np.zeros((4, 3), np.float16))},
    trained: {"layer": layer, "optimizer": optimizer},
    normalised: {"norm": lambda _: nn.BatchNorm(3)},
    converted_once: {"raw": lambda _: Tensor([1, 2, 3])},
    remembered: {"last": lambda _: zeros()},
}  # fmt: skip


def of_graph(*args: Any, **options: Any) -> GraphProgram:
    return lower(capture_graph(*args, **options))


def followed(graph: GraphProgram) -> list[NDArray[Any]]:
    states, outputs = dict(graph.states), []
    for at, x in enumerate(STEPS):
        bound = {variable.name: at for variable in graph.program.variables}
        results = reference.execute(graph.program, {"x": x, **graph.weights, **states}, bound)
        states = dict(results.states)
        outputs.append(results.outputs["output"])
    return outputs


def by_tinygrad(model: Model) -> list[NDArray[Any]]:
    variable = UOp.variable("at", 0, 2)
    return [model(Tensor(x).realize(), variable.bind(at)).numpy() for at, x in enumerate(STEPS)]


@pytest.mark.parametrize("step", FOLLOWED, ids=lambda step: step.__name__)
def test_every_step_is_tinygrads(step: Step) -> None:
    with Context(DEV="PYTHON" if step is not halves else "CPU"):  # which compiles nothing, and has no halves
        Tensor.manual_seed(3)
        expected = by_tinygrad(Model(step, **FOLLOWED[step]))
    with Context(DEV="CPU"):
        for way in (capture, of_graph):
            Tensor.manual_seed(3)
            model = Model(step, **FOLLOWED[step])
            graph = way(model, [STEPS[0]], model, variables={"at": (0, 2)})
            np.testing.assert_allclose(followed(graph), expected, rtol=1e-5, atol=1e-6)


def test_an_assignment_that_tinygrad_loses_is_numpys() -> None:
    """tinygrad 0.14.0 does nothing for a stride, and mixes up what is turned around."""

    def function(x: Tensor, kept: Tensor) -> Tensor:
        kept[::2] = kept[::2] + x
        kept[::-1] = kept * 2
        return kept + 0

    kept = np.arange(12, dtype=np.float32).reshape(4, 3)
    graph = capture(function, [STEPS[0], kept])
    expected = kept.copy()
    expected[::2] += STEPS[0]
    expected = expected[::-1] * 2
    assert np.array_equal(reference.execute(graph.program, {"x": STEPS[0], "kept": kept}).outputs["output"], expected)


def given_another(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept = m.kept + x
    return m.kept.sum(0)


def given_another_in_a_list(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.parts[0] = (m.parts[0] + 1).realize()
    return x + m.parts[0].sum(0)


def exchanged(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept, m.other = m.other, m.kept
    return x + m.kept.sum(0)


def in_slots(m: Any, x: Tensor, at: UOp) -> Tensor:
    tensor = m.slots.tensor
    tensor.assign(tensor + x)
    return tensor.sum(0)


def stored_in_slots(m: Any, x: Tensor, at: UOp) -> Tensor:
    tensor = m.slots.tensor
    return Tensor(tensor.uop.after(tensor[at : at + 1].uop.store(x.reshape(1, 3).uop))).sum(0)


def added_to_another(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.assign(m.kept + 1)
    return m.slots.tensor.sum() + m.kept.sum(0) + x


def added_to_a_part(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.part.assign(m.part + 1)
    return m.kept.sum(0) + x


def gradients_add_up(m: Any, x: Tensor, at: UOp) -> Tensor:
    (m.kept * x).sum().backward()
    assert m.kept.grad is not None
    return m.kept.grad.sum(0)


def seeded_late(m: Any, x: Tensor, at: UOp) -> Tensor:
    noise = Tensor.rand(3)
    Tensor.manual_seed(4)
    return x + noise


def bound_within(m: Any, x: Tensor, at: UOp) -> Tensor:
    at = UOp.variable("at", 0, 2).bind(0)
    m.kept[at : at + 1].assign(x.reshape(1, 3))
    return m.kept.sum(0)


def bound_outside(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept[BOUND : BOUND + 1].assign(x.reshape(1, 3))
    return m.kept.sum(0)


def unbound(m: Any, x: Tensor, at: UOp) -> Tensor:
    number = at.unbind()[1]
    m.kept[number : number + 1].assign(x.reshape(1, 3))
    return m.kept.sum(0)


def only_scheduled(m: Any, x: Tensor, at: UOp) -> Tensor:
    stored(m, m.kept, m.kept + x).schedule_linear()
    return m.kept.sum(0)


def assigned_in_a_function(m: Any, x: Tensor, at: UOp) -> Tensor:
    @function(allow_implicit=True)  # type: ignore[untyped-decorator]
    def run(x: Tensor) -> Tensor:
        m.kept.assign(m.kept + x)
        return m.kept.sum(0).contiguous()

    return run(x)


def padded(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.pad(((0, 1), (0, 0))).assign(x.expand(5, 3))
    return m.kept.sum(0)


def expanded(m: Any, x: Tensor, at: UOp) -> Tensor:
    return stored(m, m.kept[0:1].expand(4, 3), m.kept + x).sum(0)


def waited_for_with_another(m: Any, x: Tensor, at: UOp) -> Tensor:
    return Tensor((x * 2).contiguous().uop.after(m.kept.uop.store((m.kept + x).uop)))


def read_in_no_order(m: Any, x: Tensor, at: UOp) -> Tensor:
    return stored(m, m.kept, m.kept + x).sum(0) + m.kept.sum(0)


def memory(m: Any, x: Tensor, at: UOp) -> Tensor:
    m.kept.uop.buffer.copy_from(m.kept.uop.buffer)
    return m.kept.sum(0)


SLOTS = {"slots": lambda _: Slots(zeros())}
REFUSED: dict[Step, tuple[str, dict[str, Callable[[Any], Any]]]] = {
    given_another: ("the function gives 'kept' another tensor", {}),
    given_another_in_a_list: ("the function gives 'parts.0' another tensor", {"parts": lambda _: [zeros()]}),
    exchanged: ("the function gives 'other' another tensor", {"other": lambda _: zeros()}),
    in_slots: (r"a tensor of shape \(4, 3\) is assigned, and no name", SLOTS),
    stored_in_slots: ("a tensor of 12 elements is assigned, and no name", SLOTS),
    added_to_another: (
        "'kept' is assigned and lies in the storage of a tensor without",
        {"slots": lambda m: Slots(m.kept.reshape(12))},
    ),
    added_to_a_part: ("'part' is assigned and lies in the storage of 'kept'", {"part": lambda m: m.kept[1:3]}),
    gradients_add_up: ("a gradient that is read is added to", {}),
    seeded_late: ("draws random numbers, and then sets the seed", {}),
    bound_within: ("a variable is bound within the function", {}),
    bound_outside: ("the variable 'at' is bound by the order, and to a number", {}),
    unbound: ("the value of a variable is read", {}),
    only_scheduled: ("schedules what nothing runs", {}),
    assigned_in_a_function: ("a function of tinygrad assigns to a tensor from outside", {}),
    padded: ("not a box|writes through PAD", {}),
    expanded: ("not a box|writes through EXPAND", {}),
    memory: ("copy requires allocated buffers", {}),
}


@pytest.mark.parametrize("way", [capture, of_graph])
@pytest.mark.parametrize("step", REFUSED, ids=lambda step: step.__name__)
def test_what_no_state_would_show_is_refused_by_name(step: Step, way: Callable[..., GraphProgram]) -> None:
    what, parts = REFUSED[step]
    with Context(DEV="CPU"):
        model = Model(step, **parts)
        with pytest.raises(CaptureError, match=what) as refused:
            way(model, [STEPS[0]], model, variables={"at": (0, 2)})
        assert refused.value.fix
        assert np.array_equal(model.kept.numpy(), np.zeros((4, 3), np.float32))


@pytest.mark.parametrize(
    ("step", "what"),
    [(waited_for_with_another, "is waited for with another"), (read_in_no_order, "stored to and read, in no order")],
)
def test_an_order_that_a_graph_has_not_is_refused(step: Step, what: str) -> None:
    model = Model(step)
    with pytest.raises(CaptureError, match=what):
        capture_graph(model, [STEPS[0]], model, variables={"at": (0, 2)})


# Kernels that the user writes.


def elementwise(to: UOp, of: UOp) -> UOp:
    i = UOp.range(12, 0)
    return to.flatten()[i].store(of.flatten()[i] + 1).end(i).sink(arg=KernelInfo())


def second(of: UOp, to: UOp) -> UOp:
    return elementwise(to, of)


def backwards(to: UOp, of: UOp) -> UOp:
    i = UOp.range(12, 0)
    return to.flatten()[i].store(of.flatten()[11 - i] + 1).end(i).sink(arg=KernelInfo())


def twice(to: UOp, of: UOp) -> UOp:
    i = UOp.range(12, 0)
    stores = to.flatten()[i].store(of.flatten()[i]), of.flatten()[i].store(to.flatten()[i])
    return UOp.group(*stores).end(i).sink(arg=KernelInfo())


def test_kernels_of_users_write_to_states() -> None:
    def run(m: Any, x: Tensor, at: UOp) -> Tensor:
        return Tensor.custom_kernel(m.kept, (m.kept + x).contiguous(), fxn=elementwise)[0].sum(0)

    def run_second(m: Any, x: Tensor, at: UOp) -> Tensor:
        return Tensor.custom_kernel((m.kept + x).contiguous(), m.kept, fxn=second)[1].sum(0)

    for step in (run, run_second):
        model = Model(step)
        graph = capture(model, [STEPS[0]], model, variables={"at": (0, 2)})
        assert list(graph.states) == ["kept"]
        np.testing.assert_allclose(followed(graph), by_tinygrad(Model(step)))


@pytest.mark.parametrize(
    ("kernel", "what"), [(backwards, "reads what it writes, at other elements"), (twice, "stores more than once")]
)
def test_kernels_of_users_whose_result_depends_on_an_order_are_refused(kernel: Any, what: str) -> None:
    def run(m: Any, x: Tensor, at: UOp) -> Tensor:
        return Tensor.custom_kernel(m.kept, m.kept, fxn=kernel)[0].sum(0) + x

    model = Model(run)
    with pytest.raises(CaptureError, match=what):
        capture(model, [STEPS[0]], model, variables={"at": (0, 2)})


# Contexts, and functions as their callers see them.


def test_a_context_refuses_a_state_without_a_name() -> None:
    context = TensorContext()
    x, kept = context.add_graph_input("x", (4, 3)), zeros()
    kept.assign(kept + x)
    with pytest.raises(CaptureError, match="no name of it is found"):
        context.compile_to_graph(kept * 2)


def test_calls_go_on_with_tinygrads_random_numbers() -> None:
    def noisy(x: Tensor) -> Tensor:
        return x + Tensor.rand(3)

    with Context(DEV="CPU"):
        Tensor.manual_seed(7)
        expected = [noisy(Tensor(x)).numpy() for x in STEPS]
        Tensor.manual_seed(7)
        signatures = Signatures(noisy)
        for x, y in zip(STEPS, expected, strict=True):
            (use,) = signatures.uses([((Tensor(x),), {})])
            graph = use.captured.graph
            results = reference.execute(graph.program, {**use.inputs, **use.weights, **use.states})
            elsewhere = Returns.from_json(use.returns.to_json(__name__), __name__, signatures.tensors())
            got = elsewhere.filled(graph.program, results.outputs, results.states)
            np.testing.assert_allclose(got.numpy(), y)


def in_place(x: Tensor) -> Tensor:
    x += 1
    return x * 2


def in_storage(x: Tensor) -> Tensor:
    return Tensor(x.uop.after(x.uop.store((x * 2).uop))) + 1


@pytest.mark.parametrize("of", [in_place, in_storage])
def test_a_call_does_not_assign_to_its_arguments(of: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureError, match="the argument 'x' is assigned"):
        Signatures(of).uses([((Tensor(STEPS[0]),), {})])


def test_a_call_does_not_give_names_other_tensors() -> None:
    with Context(DEV="CPU"):
        model = Model(given_another)

        def call(x: Tensor) -> Tensor:
            return model(x, BOUND)

        signatures = Signatures(call)
        for _ in range(2):  # nothing is kept of the first
            with pytest.raises(CaptureError, match="gives 'kept' another tensor"):
                signatures.uses([((Tensor(STEPS[0]),), {})])
            assert np.array_equal(model.kept.numpy(), np.zeros((4, 3), np.float32))
