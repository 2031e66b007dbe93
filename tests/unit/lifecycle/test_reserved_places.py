"""Who holds places in reservations."""

from __future__ import annotations

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase
from core.lifecycle.reserved_places import held_places
from core.model.catalogue import Offering
from tests.unit.lifecycle.records_for_tests import a_record


def test_claims_hold_places_from_the_moment_that_they_are_stored() -> None:
    offering = Offering("m5.large", "us-east-1a", labels.RESERVED, 1, True, "cr-1", 2, "default")
    other = msgspec.structs.replace(offering, reservation_id="cr-2")
    waiting = a_record(ClaimPhase.REQUESTED, offerings=(offering, other))
    running = a_record()
    assert running.machine is not None
    running = msgspec.structs.replace(running, machine=msgspec.structs.replace(running.machine, offering=offering))
    assert held_places([waiting, running, a_record()]) == {"cr-1": 2, "cr-2": 1}
