"""Tasks whose receipts tests look at, led on a local chain: one for each thing that a receipt can be about."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from eigentensor import merkle
from eigentensor.chain import Chain, Opening, anvil_account
from eigentensor.dispute import Publish, deadline_of
from eigentensor.program.codec import HEADER, MAGIC
from eigentensor.task import NONE, Leaf, commitment, order_uuid, sign_order
from eigentensor.tracing import Claim
from eigentensor_local.anvil import pass_seed
from support.stories.game_table import CLIENT
from support.stories.market import OTHER, SALT, Life

OUTPUTS, STATES = b"\5" * 32, b"\6" * 32
#: What the executor commits to: the outputs root of these two.
ROOT = merkle.outputs_root(OUTPUTS, STATES)

#: Leads a task that is certainly checked, with verifiers.
Story = Callable[[Life, Sequence[Chain]], None]


def confirmed(life: Life, verifiers: Sequence[Chain]) -> None:
    """Final, checked(1)."""
    checked(life, verifiers)
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    verifiers[0].market.close(life.order)
    verifiers[0].market.settle(life.order, life.index_of(verifiers[0]))


def checked(life: Life, verifiers: Sequence[Chain]) -> None:
    """A verifier agrees; the window is open."""
    life.drawn(ROOT)
    index = life.answer(verifiers[0], ROOT)
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.reveal(verifiers[0], index + 1, ROOT)


def unanswered(life: Life, verifiers: Sequence[Chain]) -> None:
    """One of two that went together, posted by somebody else; drawn, and nobody answered: final, unchecked."""
    client, operator, domain = life.client, life.operator, life.client.deployment.domain
    orders = [life.order, replace(life.order, nonce=99)]
    uuids = [order_uuid(order, domain) for order in orders]
    client.market.deposit(client.address, sum(order.escrow for order in orders))
    operator.market.post_many(orders, [sign_order(order, domain, anvil_account(CLIENT)) for order in orders])
    operator.market.accept_many(operator.address, orders)
    hidden = [commitment(domain, uuid, operator.address, 0, ROOT, SALT) for uuid in uuids]
    operator.market.commit_many(operator.address, uuids, hidden)
    pass_seed(life.anvil, client, life.order, drawn=True)
    life.pass_checks()
    operator.market.reveal_many(orders, [Opening(uuid, ROOT, SALT) for uuid in uuids])
    life.anvil.mine_past(client.market.deadline_of(life.task))
    client.market.close_many(orders)


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
    convict(life, verifiers)


def convict(life: Life, verifiers: Sequence[Chain]) -> None:
    """What follows a contradiction."""
    (game,) = life.client.games.open(life.task)
    life.anvil.mine_past(life.client.market.answers_by(life.task))
    life.anvil.mine(200)
    verifiers[1].games.timeout(game, life.client.games.at(game).position)
    verifiers[1].market.slash(life.order)


def silent(life: Life, verifiers: Sequence[Chain]) -> None:
    """Drawn and never revealed: convicted, with a verifier's answer opened."""
    life.drawn(ROOT)
    index = life.answer(verifiers[0], ROOT)
    life.pass_checks()
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    life.client.market.close(life.order)
    life.reveal(verifiers[0], index + 1, ROOT)


def defended(life: Life, verifiers: Sequence[Chain]) -> None:
    """An answer is exposed; another's challenger never moves, and the executor gets its part of the bond: unchecked."""
    header, records, calls = HEADER.pack(MAGIC, 1, 0, 1, 1, 2, 1, 1, 0), b"\6" * 32, (b"\7" * 32, b"\x08" * 32)
    life.order = replace(life.order, program=merkle.program_root_of(header, records))
    life.task = order_uuid(life.order, life.client.deployment.domain)
    life.drawn(ROOT)
    index = life.answer(verifiers[0], ROOT)
    verifiers[1].market.expose(life.order, Opening(life.task, ROOT, SALT, index + 1))
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.client.market.challenge(life.client.address, life.order)
    (game,) = life.client.games.open(life.task)
    claim = Claim(life.order.program, NONE, NONE, NONE, NONE, 1, merkle.tree_root([*calls, ROOT]), ROOT)
    publish = Publish(life.order.as_tuple(), claim, header, records, (*calls, ROOT), ())
    life.operator.games.play(game, life.client.games.at(game).position, publish)
    position = life.client.games.at(game).position
    life.anvil.mine_past(deadline_of(position))
    verifiers[1].games.timeout(game, position)
    life.client.market.close(life.order)


def demanded(life: Life, verifiers: Sequence[Chain]) -> None:
    """The client demands two leaves, which the executor does not show: convicted, and what was prepaid is back."""
    life.drawn(ROOT)
    life.pass_checks()
    life.reveal(life.operator, root=ROOT)
    life.client.market.deposit(life.client.address, 2 * life.parameters.g_chunk)
    life.client.market.demand(life.order, [Leaf(False, 0, 0), Leaf(True, 1, 7)])
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    life.client.market.close(life.order)


STORIES: tuple[Story, ...] = (
    confirmed, checked, unanswered, contradicted, convicted, silent, demanded, defended,
)  # fmt: skip
