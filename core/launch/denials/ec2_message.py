"""Shortens EC2's messages: events are cut at 1,024 characters, and the advice comes after EC2's message."""

from __future__ import annotations

import re
from typing import Final

SAID_MAX: Final = 400
"""The most characters of EC2's message in an explanation. With the longest name of an EC2NodeClass (253), code, action, advice
and a decision's id, it fits into an event."""

_ENCODED: Final = re.compile(r"\s*(Encoded authorization failure message:\s*\S+)")


def shortened(message: str) -> str:
    """Return the message cut to `SAID_MAX`, without the encoded part of a missing permission and without a full stop."""
    text = _ENCODED.sub("", message).strip().rstrip(".")
    return text if len(text) <= SAID_MAX else f"{text[: SAID_MAX - 1].rstrip()}…"


def encoded_part(message: str) -> str:
    """Return the input of `aws sts decode-authorization-message`, with EC2's words before it; empty if the message has none."""
    found = _ENCODED.search(message)
    return found[1] if found is not None else ""
