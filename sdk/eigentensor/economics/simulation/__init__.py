"""What happens to each party in many tasks: `play` lives them all at once, `estimate` says what that shows."""

from eigentensor.economics.simulation.book import PARTIES, Book
from eigentensor.economics.simulation.estimate import Estimate, estimate
from eigentensor.economics.simulation.events import Outcome, play

__all__ = ["PARTIES", "Book", "Estimate", "Outcome", "estimate", "play"]
