"""Dividing whole cores among jobs of unequal weight."""

from __future__ import annotations

from collections.abc import Sequence


def apportion(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide `total` cores by weight: equal weights get equally many, others by largest remainder, each at least 1.

    With equal weights the rest of the division stays undivided, as in the guide's table. Ties go to the earlier job.

    Args:
        total: whole cores, at least one for each weight.
        weights: compute slices, positive.

    Raises:
        ValueError: fewer cores than weights.
    """
    if total < len(weights):
        raise ValueError(f"{total} cores are not enough for {len(weights)} jobs")
    if len(set(weights)) <= 1:
        return tuple(total // len(weights) for _ in weights)
    shares = dict.fromkeys(range(len(weights)), 1)
    # Whoever's part is below one core gets one, and the others divide what is left; that can push further ones below.
    sharing = set(shares)
    left = total
    whole = sum(weights)
    while small := {i for i in sharing if left * weights[i] < whole}:
        sharing -= small
        left -= len(small)
        whole = sum(weights[i] for i in sharing)
    for i in sharing:
        shares[i] = left * weights[i] // whole
    spare = left - sum(shares[i] for i in sharing)
    by_remainder = sorted(sharing, key=lambda i: (-(left * weights[i] % whole), i))
    for i in by_remainder[:spare]:
        shares[i] += 1
    return tuple(shares.values())
