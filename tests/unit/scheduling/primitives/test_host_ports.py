"""When two pods use the same port."""

from __future__ import annotations

import pytest

from core.model.pod import HostPort
from core.scheduling.primitives.host_ports import conflict


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ((), False),
        ((HostPort(80),), True),
        ((HostPort(81),), False),
        ((HostPort(443), HostPort(80)), True),
        ((HostPort(80, "UDP"),), False),
    ],
)
def test_a_port_is_used_once(taken: tuple[HostPort, ...], expected: bool) -> None:
    """Otherwise, the kubelet refuses the second pod."""
    assert conflict((HostPort(80),), taken) is expected
