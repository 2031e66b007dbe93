"""The common base of all codes: a stable text, its meaning, and advice."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

PAGE: Final = "docs/reference/reason-codes.md"
"""The page of all reason codes; each code is an anchor."""

_NAMES: Final = ("Karpenter",)
"""Names that are written like the first word of any sentence; others, such as EC2, have more capitals."""


class DocumentedCode(StrEnum):
    """Base of the enumerations. A member equals its code; users read it in plans, logs, events and metrics.

    Attributes:
        meaning: Its meaning, in one sentence.
        advice: What to do about it, in one sentence; empty if there is nothing to do.
    """

    meaning: str
    advice: str

    def __new__(cls, value: str, meaning: str, advice: str = "") -> Self:
        """A member."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.advice = advice
        return member

    @classmethod
    def of(cls, text: str, default: Self | None = None) -> Self:
        """Return the member with this code; `default` if there is none, for instance for a code that another version stored.

        Raises:
            ValueError: If there is none and no default.
        """
        found = next((member for member in cls if member == text), default)
        if found is None:
            raise ValueError(f"{text!r} is not a {cls.__name__}")
        return found

    @property
    def clause(self) -> str:
        """The meaning as the end of a sentence; names such as EC2 keep their capitals."""
        first, _, rest = self.meaning.removesuffix(".").partition(" ")
        is_name = first in _NAMES or not first.istitle()
        return f"{first if is_name else first.lower()} {rest}".rstrip()


class ReasonCode(DocumentedCode):
    """Base of the codes that state a reason."""
