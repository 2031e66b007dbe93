"""What the core raises, and what a caller should do about each.

    FleetwrightError
    ├── InvalidInputError        skip the object, report a condition; trying again will not help
    └── OutOfTimeError           decide about less, and about the rest next time
    InvariantError               a bug of ours: caught only where one object is set aside (`core.containment`)

What the domain expects (a pod that fits nowhere, a node that may not go) is data with a reason code, not an exception.
"""

from __future__ import annotations


class FleetwrightError(Exception):
    """Base of everything that callers may want to catch; never raised itself."""


class InvalidInputError(FleetwrightError):
    """An object, or one field of it, is invalid.

    Attributes:
        subject: What was being read, such as `NodePool default`; empty if the caller adds it.
        field: Path of the field, such as `spec.limits.cpu`; empty for the object as a whole.
        problem: What is wrong with it, as the end of a sentence.
    """

    def __init__(self, problem: str, *, subject: str = "", field: str = "") -> None:
        self.subject = subject
        self.field = field
        self.problem = problem
        super().__init__(problem)  # copies call it with the same arguments, and restore the fields afterwards

    def __str__(self) -> str:
        return ": ".join(part for part in (self.subject, self.field, self.problem) if part)

    def within(self, *, subject: str = "", field: str = "") -> InvalidInputError:
        """Return the same error for the caller: `field` is prepended to its path, `subject` replaces an empty one."""
        joined = self.field if not field else field if not self.field else _join(field, self.field)
        return InvalidInputError(self.problem, subject=self.subject or subject, field=joined)


class OutOfTimeError(FleetwrightError):
    """The time for a decision is over before it is made. What was decided so far is dropped."""


class InvariantError(AssertionError):
    """A condition that holds by construction is violated: a bug here, not an invalid input."""


def invariant(holds: bool, message: str) -> None:
    """Raise an error if `holds` is false.

    Raises:
        InvariantError: If `holds` is false.
    """
    if not holds:
        raise InvariantError(message)


def _join(outer: str, inner: str) -> str:
    return f"{outer}{inner}" if inner.startswith("[") else f"{outer}.{inner}"
