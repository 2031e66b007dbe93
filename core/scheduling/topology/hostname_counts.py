"""Counts the pods of one topology group on each new node, where every node is a domain of its own."""

from __future__ import annotations

from core.scheduling.primitives.handles import ClaimMask


class HostnameCounts:
    """Counts by claim, and the claims that have reached a count as bit sets, so that a rule answers for all at once.

    Attributes:
        total: Pods on all claims.
    """

    def __init__(self, highest: int) -> None:
        """Start with none.

        Args:
            highest: The largest count that is ever queried.
        """
        self.total = 0
        self._counts: dict[int, int] = {}
        # [count], the claims with so many pods or more; a claim that gains a pod moves up one entry, so each change is one bit.
        self._reached = [ClaimMask(0)] * (highest + 1)

    def copy(self) -> HostnameCounts:
        """The counts as they are now."""
        other = HostnameCounts(len(self._reached) - 1)
        other.total, other._counts, other._reached = self.total, dict(self._counts), list(self._reached)
        return other

    def add(self, claim: int, times: int) -> None:
        """Count pods on a claim, or take them out again."""
        before = self._counts.get(claim, 0)
        after = self._counts[claim] = before + times
        self.total += times
        reached, bit = self._reached, 1 << claim
        while before < after:
            before += 1
            if before < len(reached):
                reached[before] |= bit
        while before > after:
            if before < len(reached):
                reached[before] &= ~bit
            before -= 1

    def with_at_least(self, count: int) -> ClaimMask:
        """The claims with so many pods, at least one, as a bit set."""
        return self._reached[count]
