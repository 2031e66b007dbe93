"""Indexes the claims of one plan as bit sets of their positions: one operation covers all of them."""

from __future__ import annotations

from bisect import insort

from core.scheduling.capacity.claim_profile import ClaimProfile
from core.scheduling.primitives.handles import ClaimMask


class ClaimIndex:
    """Which claims have which profile, and how many pods each has.

    Attributes:
        open: Claims that may still have room for some pod.
        counts: The numbers of pods that any claim has, ascending. A plan of large nodes has hundreds that no claim has.
        by_count: Each of these numbers → the claims with that many pods.
        profiles: Each claim's profile.
    """

    def __init__(self) -> None:
        self.open = ClaimMask(0)
        self.counts: list[int] = []
        self.by_count: dict[int, ClaimMask] = {}
        self.profiles: list[ClaimProfile] = []

    def add(self, profile: ClaimProfile) -> None:
        """Add a claim without pods."""
        bit = 1 << len(self.profiles)
        self.profiles.append(profile)
        profile.claims |= bit
        self.open |= bit
        self._put(0, bit)

    def add_pod(self, claim: int, pods: int) -> None:
        """Record that a claim with this number of pods has one more."""
        bit = 1 << claim
        left = self.by_count[pods] ^ bit
        if left:
            self.by_count[pods] = left
        else:
            del self.by_count[pods]
            self.counts.remove(pods)
        self._put(pods + 1, bit)

    def _put(self, pods: int, bit: int) -> None:
        there = self.by_count.get(pods)
        if there is None:
            insort(self.counts, pods)
            self.by_count[pods] = ClaimMask(bit)
        else:
            self.by_count[pods] = there | bit

    def change_profile(self, claim: int, profile: ClaimProfile) -> None:
        """Record that a claim has another profile."""
        bit = 1 << claim
        self.profiles[claim].claims ^= bit
        profile.claims |= bit
        self.profiles[claim] = profile

    def close(self, claim: int) -> None:
        """Record that a claim is full."""
        self.open &= ~(1 << claim)
