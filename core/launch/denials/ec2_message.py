"""Shortens EC2's messages: events are cut at 1,024 characters, and what to do comes after what EC2 said."""

from __future__ import annotations

import re
from typing import Final

SAID_MAX: Final = 400
"""Characters of EC2's message in an explanation. With the longest name of an EC2NodeClass (253), code, action, advice and the
id of a decision it fits into an event."""

_ENCODED: Final = re.compile(r"\s*(Encoded authorization failure message:\s*\S+)")


def shortened(message: str) -> str:
    """Return the message cut to `SAID_MAX`, without the encoded part of a missing permission and without a full stop."""
    text = _ENCODED.sub("", message).strip().rstrip(".")
    return text if len(text) <= SAID_MAX else f"{text[: SAID_MAX - 1].rstrip()}…"


def encoded_part(message: str) -> str:
    """Return what `aws sts decode-authorization-message` takes, with EC2's words before it; empty where there is none."""
    found = _ENCODED.search(message)
    return found[1] if found is not None else ""
