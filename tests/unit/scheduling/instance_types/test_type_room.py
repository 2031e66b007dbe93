"""How much types hold."""

from __future__ import annotations

import msgspec

from core.model.pod import HostPort
from core.scheduling.instance_types.type_room import TypeRoom
from tests.builders import a_type

TYPES = (msgspec.structs.replace(a_type("a", cpu="2"), attach_limit=3), a_type("b", cpu="4"))
ROOM = TypeRoom(TYPES, [(2000, 8), (4000, 4)], [(0, 0), (0, 0)], [(), (HostPort(80),)])


def test_what_fits_any_type() -> None:
    """Otherwise, a node is opened that is too small."""
    assert ROOM.fits(0b11, (2000, 8))
    assert not ROOM.fits(0b11, (4000, 8))
    assert ROOM.fitting(0b11, (3000, 1)) == 0b10


def test_no_pod_fits_where_there_are_no_types() -> None:
    """An EC2NodeClass without instance types must leave its pods pending with a reason, not end the plan."""
    assert not TypeRoom((), [], [], []).fits(0, (2000, 8))


def test_ports_and_attachments_of_types() -> None:
    """Otherwise, a pod is placed beside a DaemonSet's pod with its port, or on a node that cannot attach its volumes."""
    assert ROOM.port_mask((HostPort(80),)) == 0b01
    assert ROOM.port_mask(()) == 0b11
    assert (ROOM.attach_mask(3), ROOM.attach_mask(4)) == (0b11, 0b10)


def test_limits_count_capacity_before_any_reservation() -> None:
    """Otherwise, a NodePool's limits are charged less than the node has."""
    less = ROOM.with_overhead([(500, 0), (0, 0)], [(), ()])
    assert less.capacities("cpu").largest(0b01) == 2000
    assert less.fitting(0b11, (2000, 0)) == 0b10
