"""What people read of an instance's end."""

from __future__ import annotations

import pytest

from core.model.values.instance_end import InstanceEnd


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (
            InstanceEnd("Client.InternalError", "Client error on launch"),
            "Client.InternalError: Client error on launch",
        ),
        (InstanceEnd("Server.InternalError"), "Server.InternalError"),
        (InstanceEnd("", ""), ""),
    ],
)
def test_an_end_is_told_with_its_code(end: InstanceEnd, said: str) -> None:
    assert end.said == said
