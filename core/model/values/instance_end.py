"""EC2's reason for the end of an instance."""

from __future__ import annotations

import msgspec


class InstanceEnd(msgspec.Struct, frozen=True):
    """EC2's `StateReason`. `code` is empty if EC2 gives no reason; `message` lacks the code that EC2 repeats there."""

    code: str
    message: str = ""

    @property
    def said(self) -> str:
        """The code and its message for people."""
        return ": ".join(part for part in (self.code, self.message) if part)
