"""Who takes part in a task, and what for: policies over one event model, which compose into mixtures."""

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Literal

Party = Literal["client", "executor", "verifiers", "challengers"]


class SelfConviction(Enum):
    """When an executor has itself convicted by another account of its own, before others do."""

    NEVER = "never"
    CORNERED = "cornered"  # only once it would be convicted anyway
    ALWAYS = "always"


class Reveals(Enum):
    """What an executor does when it is drawn, or is not."""

    ALWAYS = "always"
    UNSEEN = "unseen"  # not where a stranger has answered
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Agent:
    """What one party does otherwise than the honest, who are all defaults. `party` is whose payoff is looked at; an
    executor's accounts, seats and bought challengers are one party with it."""

    name: str
    party: Party
    does: str
    works: bool = True  # executes; otherwise the result is wrong
    owns: bool = False  # uses the coalition's seats, which say what it wants without executing
    walks: bool = False  # does not commit where something better came along
    reveals: Reveals = Reveals.ALWAYS
    convicts: SelfConviction = SelfConviction.NEVER
    bribes: bool = False  # pays strangers that answer what they lose by agreeing, where that is cheaper
    buys: bool = False  # has a bought challenger lose a game, first
    sells: bool = False  # sells the opening of its commitment to a drawn verifier, which executes nothing then
    guesses: bool = False  # strangers' seats answer without having executed
    starves: bool = False  # its client keeps the inputs from verifiers
    griefs: int = 0  # how many challenges a right result meets

    def __post_init__(self) -> None:
        if self.sells and not self.works:
            raise ValueError("only the opening of a right result is worth buying")


HONEST = Agent("honest", "executor", "executes, commits, reveals")
LAZY = Agent("lazy", "executor", "commits to something wrong, and hopes not to be drawn", works=False)
COLLUDING = Agent("colluding", "executor", "the same with a share of the seats, which agree", works=False, owns=True)
CORNERED = replace(
    COLLUDING, name="laundering", does="colludes; where it is caught, its own challenge wins first",
    convicts=SelfConviction.CORNERED,
)  # fmt: skip
MANY_SEATS = Agent("many seats", "executor", "executes, and its own seats check it without executing", owns=True)
SELF_CONVICTING = Agent(
    "self-convicting", "executor", "lies, and challenges itself for the reward", works=False, owns=True,
    convicts=SelfConviction.ALWAYS,
)  # fmt: skip
BRIBING = replace(COLLUDING, name="bribing", does="colludes, and pays drawn strangers to agree", bribes=True)
BUYING = replace(COLLUDING, name="bought challenger", does="colludes; a bought challenger loses first", buys=True)
UNSEEN = replace(
    COLLUDING, name="selective reveal", does="colludes, and reveals unless a stranger answered", reveals=Reveals.UNSEEN
)
WITHHOLDING = Agent("withholding", "executor", "executes, commits, and never reveals", reveals=Reveals.NEVER)
FREE_OPTION = Agent("free option", "executor", "accepts, and walks away where something better comes", walks=True)
SELLING = Agent("selling", "executor", "sells its opening to a drawn verifier, for what executing costs", sells=True)
COPYING = Agent("copying", "verifiers", "answers without executing or buying an opening", guesses=True)
GRIEFING = Agent("griefing", "challengers", "challenges a right result", griefs=1)
HOSTILE_CLIENT = Agent(
    "hostile client", "client", "keeps the inputs from verifiers, and challenges the result", starves=True, griefs=1
)

AGENTS = {
    agent.name: agent
    for agent in (
        HONEST, LAZY, COLLUDING, CORNERED, BRIBING, BUYING, UNSEEN, SELF_CONVICTING, MANY_SEATS, WITHHOLDING,
        FREE_OPTION, SELLING, COPYING, GRIEFING, HOSTILE_CLIENT,
    )
}  # fmt: skip


def mixture(*agents: Agent) -> Agent:
    """All that they do at once; of two that contradict each other the later one wins. ValueError where they are of
    different parties."""
    if len({agent.party for agent in agents}) != 1:
        raise ValueError("a mixture is of one party")
    own = ("name", "party", "does")
    deviations = {
        f.name: value for agent in agents for f in fields(Agent)
        if f.name not in own and (value := getattr(agent, f.name)) != f.default
    }  # fmt: skip
    name, does = (joint.join(getattr(agent, of) for agent in agents) for joint, of in (("+", "name"), ("; ", "does")))
    return Agent(name, agents[0].party, does, **deviations)


#: Those that bring about a wrong result.
CHEATS = tuple(agent for agent in AGENTS.values() if not agent.works)
