"""Makes the tokens of launch requests: with the same one, EC2 repeats its answer instead of launching again."""

from __future__ import annotations

from hashlib import blake2b


class LaunchTokens:
    """The tokens of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def of(self, name: str, attempt: int, made_by_hand: str = "") -> str:
        """Return the token of a claim's attempt.

        Our names are unique, but users may use one again for another NodeClaim, with another UID (`made_by_hand`).
        """
        return self._digest(f"{name}/{made_by_hand}/{attempt}" if made_by_hand else f"{name}/{attempt}")

    def of_shared(self, first: str) -> str:
        """Return the token of a launch that several claims share, by its first claim's name."""
        return self.of(f"{first}/shared", 0)

    def again(self, token: str) -> str:
        """Return the token that follows one to which EC2 has answered for good."""
        return self._digest(f"{token}/again")

    def _digest(self, subject: str) -> str:
        return blake2b(f"{self._cluster}/{subject}".encode(), digest_size=16).hexdigest()
