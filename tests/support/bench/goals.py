"""What a figure is to reach, and whether it does."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of a figure, at least or at most; `unit` stands behind both."""

    bound: float
    least: bool = True
    unit: str = ""

    def is_reached(self, figure: float) -> bool:
        """Whether it is."""
        return figure >= self.bound if self.least else figure <= self.bound


def judge(figures: Iterable[tuple[str, float, Goal]]) -> None:
    """A line for each figure: what it is of, the figure, its goal, reached or missed."""
    for what, figure, goal in figures:
        bound = f"{'≥' if goal.least else '≤'} {goal.bound:g}{goal.unit}"
        verdict = "reached" if goal.is_reached(figure) else "missed"
        sys.stdout.write(f"{what}: {figure:.3g}{goal.unit}, goal {bound}: {verdict}\n")
    sys.stdout.flush()
