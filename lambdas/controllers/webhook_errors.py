"""Recognizes errors of the API server that an admission webhook caused."""

from __future__ import annotations

from typing import Final

from lambdas.ports import PortError

_WEBHOOK: Final = ' webhook "'
"""Text in every message of the API server about an admission webhook that failed or refused."""


def is_of_webhook(error: PortError) -> bool:
    """Whether an admission webhook is the cause: it speaks for one object, not for the server.

    The API server passes on whatever status code and delay a webhook answers.
    """
    return _WEBHOOK in error.detail
