"""Why a check has no answer."""

from __future__ import annotations


class NotAllowedError(Exception):
    """The credentials do not permit a call; the message names the action."""


class NotAnsweredError(Exception):
    """A call failed for a reason of its own, such as a throttled or suspended service; the message names it."""


class NoClusterError(Exception):
    """No EKS cluster has the name, so checks about it are impossible."""


def unanswered(error: NotAllowedError | NotAnsweredError) -> str:
    """Return what a finding says of a call without an answer."""
    return f"these credentials may not call {error}" if isinstance(error, NotAllowedError) else str(error)
