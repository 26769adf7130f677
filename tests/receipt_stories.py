"""Tasks whose receipts tests look at, led on a local chain: one for each thing that a receipt can be about."""

from collections.abc import Callable, Sequence

from eigentensor import merkle
from eigentensor.chain import Chain
from market_life import OTHER, Life

OUTPUTS, STATES = b"\5" * 32, b"\6" * 32
#: What the executor commits to: the outputs root of these two.
ROOT = merkle.outputs_root(OUTPUTS, STATES)

#: Leads a task that is certainly checked, with verifiers.
Story = Callable[[Life, Sequence[Chain]], None]


def confirmed(life: Life, verifiers: Sequence[Chain]) -> None:
    """Final, checked(1)."""
    checked(life, verifiers)
    life.anvil.mine_past(life.client.deadline_of(life.task))
    verifiers[0].close(life.order)
    verifiers[0].settle(life.order, life.index_of(verifiers[0]))


def checked(life: Life, verifiers: Sequence[Chain]) -> None:
    """A verifier agrees; the window is open."""
    life.drawn(ROOT)
    index = life.answer(verifiers[0], ROOT)
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.reveal(verifiers[0], index + 1, ROOT)


def unanswered(life: Life, verifiers: Sequence[Chain]) -> None:
    """Drawn, and nobody answered: final, unchecked."""
    life.drawn(ROOT)
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.anvil.mine_past(life.client.deadline_of(life.task))
    life.client.close(life.order)


def contradicted(life: Life, verifiers: Sequence[Chain]) -> None:
    """A verifier has other bits, and a game is open."""
    life.drawn(ROOT)
    index = life.answer(verifiers[0], OTHER)
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.reveal(verifiers[0], index + 1, OTHER)


def convicted(life: Life, verifiers: Sequence[Chain]) -> None:
    """The executor lets its clock in that game run out, and is slashed."""
    contradicted(life, verifiers)
    (game,) = life.client.open_games(life.task)
    life.anvil.mine_past(life.client.answers_by(life.task))
    life.anvil.mine(200)
    verifiers[1].timeout(game, life.client.game(game).position)
    verifiers[1].slash(life.order)


def silent(life: Life, verifiers: Sequence[Chain]) -> None:
    """Drawn and never revealed: convicted, with a verifier's answer opened."""
    life.drawn(ROOT)
    index = life.answer(verifiers[0], ROOT)
    life.pass_checks()
    life.anvil.mine_past(life.client.deadline_of(life.task))
    life.client.close(life.order)
    life.reveal(verifiers[0], index + 1, ROOT)


STORIES: tuple[Story, ...] = (confirmed, checked, unanswered, contradicted, convicted, silent)
