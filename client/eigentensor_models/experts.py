"""Experts: each token is transformed by the few networks that score best for it, and no other one is read."""

from tinygrad import Tensor, dtypes


def best(scores: Tensor, count: int) -> Tensor:
    """The numbers of the `count` best scores, best first, and of equal ones the first: (…, n) → int32 (…, count)."""
    numbers = Tensor.arange(scores.shape[-1])
    mine, other = scores.unsqueeze(-1), scores.unsqueeze(-2)
    is_before = (other > mine) | (other == mine) & (numbers < numbers.reshape(-1, 1))
    places = is_before.sum(-1).unsqueeze(-2)
    is_there = places == Tensor.arange(count).reshape(-1, 1)
    return is_there.where(numbers, 0).sum(-1).cast(dtypes.int32).contiguous()


def shares(scores: Tensor, chosen: Tensor, *, among_chosen: bool) -> Tensor:
    """What each of the chosen adds, (…, count): its probability among them, if `among_chosen`, or else among all."""
    if among_chosen:
        return scores.gather(-1, chosen).softmax()
    return scores.softmax().contiguous().gather(-1, chosen)
