"""Counts the pods of one hostname group on each new node."""

from __future__ import annotations

from core.scheduling.primitives.handles import ClaimMask


class HostnameCounts:
    """Counts by claim, and bit sets of the claims that have reached a count, so that a rule covers all claims at once.

    Attributes:
        total: Pods on all claims.
    """

    def __init__(self, highest: int) -> None:
        """Start without pods.

        Args:
            highest: The largest count that is queried.
        """
        self.total = 0
        self._counts: dict[int, int] = {}
        # [count], the claims with at least that many pods; a claim that gains a pod enters one more set, so each change is one
        # bit.
        self._reached = [ClaimMask(0)] * (highest + 1)

    def copy(self) -> HostnameCounts:
        """Return an independent copy of the counts."""
        other = HostnameCounts(len(self._reached) - 1)
        other.total, other._counts, other._reached = self.total, dict(self._counts), list(self._reached)
        return other

    def add(self, claim: int, times: int) -> None:
        """Count pods on a claim, or remove them with negative `times`."""
        before = self._counts.get(claim, 0)
        after = self._counts[claim] = before + times
        self.total += times
        reached, bit = self._reached, 1 << claim
        if times == 1:  # nearly always
            if after < len(reached):
                reached[after] |= bit
            return
        while before < after:
            before += 1
            if before < len(reached):
                reached[before] |= bit
        while before > after:
            if before < len(reached):
                reached[before] &= ~bit
            before -= 1

    def with_at_least(self, count: int) -> ClaimMask:
        """Return the claims with at least `count` pods (at least one), as a bit set."""
        return self._reached[count]
