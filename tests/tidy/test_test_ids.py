"""Every process of a test run collects the same tests, by the same ids."""

from __future__ import annotations

import pytest


def test_no_id_is_made_of_bytes(request: pytest.FixtureRequest) -> None:
    named_by_bytes = [
        item.nodeid
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and any(isinstance(value, bytes) and "\\x" in item.callspec.id for value in item.callspec.params.values())
    ]
    assert named_by_bytes == []
