"""Indexes the claims of one plan as bit sets of their positions: one operation covers all of them."""

from __future__ import annotations

from bisect import bisect_left

from core.scheduling.capacity.claim_profile import ClaimProfile
from core.scheduling.primitives.handles import ClaimMask


class ClaimIndex:
    """Which claims have which profile, and how many pods each has.

    Attributes:
        open: Claims that may still have room for some pod.
        by_count: The sets of claims with equal numbers of pods, the fewest pods first. None is empty: a plan of large nodes has
            hundreds of numbers that no claim has now.
        profiles: Each claim's profile.
    """

    def __init__(self) -> None:
        self.open = ClaimMask(0)
        self.by_count: list[ClaimMask] = []
        self.profiles: list[ClaimProfile] = []
        self._counts: list[int] = []  # [position in by_count], the number of pods

    def add(self, profile: ClaimProfile) -> None:
        """Add a claim without pods."""
        bit = 1 << len(self.profiles)
        self.profiles.append(profile)
        profile.claims |= bit
        self.open |= bit
        if self._counts[:1] == [0]:
            self.by_count[0] |= bit
        else:
            self._insert(0, 0, ClaimMask(bit))

    def add_pod(self, claim: int, pods: int) -> None:
        """Record that a claim with this number of pods has one more."""
        bit = ClaimMask(1 << claim)
        here = bisect_left(self._counts, pods)
        left = self.by_count[here] ^ bit
        if self._counts[here + 1 : here + 2] != [pods + 1]:
            self._insert(here + 1, pods + 1, bit)
        else:
            self.by_count[here + 1] |= bit
        if left:
            self.by_count[here] = left
        else:
            del self._counts[here], self.by_count[here]

    def _insert(self, position: int, pods: int, claims: ClaimMask) -> None:
        self._counts.insert(position, pods)
        self.by_count.insert(position, claims)

    def change_profile(self, claim: int, profile: ClaimProfile) -> None:
        """Record that a claim has another profile."""
        bit = 1 << claim
        self.profiles[claim].claims ^= bit
        profile.claims |= bit
        self.profiles[claim] = profile

    def close(self, claim: int) -> None:
        """Record that a claim is full."""
        self.open &= ~(1 << claim)
