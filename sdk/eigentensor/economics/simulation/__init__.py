"""What happens to each party in many tasks: `play` lives them all at once, `estimate` says what that shows."""

from eigentensor.economics.simulation.estimate import Estimate, estimate
from eigentensor.economics.simulation.events import Outcome, play
from eigentensor.economics.simulation.ledger import PARTIES, Ledger

__all__ = ["PARTIES", "Estimate", "Ledger", "Outcome", "estimate", "play"]
