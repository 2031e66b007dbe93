"""Indexes the claims of one plan as bit sets of their positions: one operation covers all of them."""

from __future__ import annotations

from core.scheduling.capacity.claim_profile import ClaimProfile
from core.scheduling.primitives.handles import ClaimMask


class ClaimIndex:
    """Which claims have which profile, and how many pods each has.

    Attributes:
        open: Claims that may still have room for some pod.
        by_count: For each number of pods, the claims with that many.
        profiles: Each claim's profile.
    """

    def __init__(self) -> None:
        self.open = ClaimMask(0)
        self.by_count: list[ClaimMask] = [ClaimMask(0)]
        self.profiles: list[ClaimProfile] = []

    def add(self, profile: ClaimProfile) -> None:
        """Add a claim without pods."""
        bit = 1 << len(self.profiles)
        self.profiles.append(profile)
        profile.claims |= bit
        self.open |= bit
        self.by_count[0] |= bit

    def fill(self, claim: int, before: int, after: int) -> None:
        """Record that a claim has more pods than before."""
        while len(self.by_count) <= after:
            self.by_count.append(ClaimMask(0))
        bit = 1 << claim
        self.by_count[before] ^= bit
        self.by_count[after] |= bit

    def change_profile(self, claim: int, profile: ClaimProfile) -> None:
        """Record that a claim has another profile."""
        bit = 1 << claim
        self.profiles[claim].claims ^= bit
        profile.claims |= bit
        self.profiles[claim] = profile

    def close(self, claim: int) -> None:
        """Record that a claim is full."""
        self.open &= ~(1 << claim)
