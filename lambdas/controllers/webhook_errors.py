"""Recognizes errors of the API server that an admission webhook caused."""

from __future__ import annotations

from typing import Final

from adapters.ports import PortError

_WEBHOOK: Final = ' webhook "'
"""Text in every error message of the API server about an admission webhook."""


def is_of_webhook(error: PortError) -> bool:
    """Whether an admission webhook caused the error, so that it concerns one object, not the server.

    The API server passes on any status code and delay of a webhook.
    """
    return _WEBHOOK in error.detail
