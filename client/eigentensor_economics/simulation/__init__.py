"""What happens to each party in many tasks: `play` lives them all at once, `estimate` says what that shows."""

from eigentensor_economics.simulation.estimate import Estimate, estimate
from eigentensor_economics.simulation.events import Outcome, play
from eigentensor_economics.simulation.ledger import PARTIES, Ledger

__all__ = ["PARTIES", "Estimate", "Ledger", "Outcome", "estimate", "play"]
