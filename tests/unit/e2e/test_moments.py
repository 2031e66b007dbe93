"""The moments of a claim, which show where the seconds of a burst go."""

from __future__ import annotations

from datetime import timedelta

from core.lifecycle.records import Moments
from tests.builders import NOW
from tests.e2e.moments import seconds_since_pods
from tests.unit.lifecycle.records_for_tests import a_record


def test_moments_count_from_the_first_pod() -> None:
    moments = Moments(pods_created_at=NOW, heard_at=NOW + timedelta(seconds=3), opened_at=NOW + timedelta(seconds=30))
    record = a_record(moments=moments, requested_at=NOW + timedelta(seconds=4))
    assert seconds_since_pods(record) == {"heard": 3.0, "planned": 4.0, "opened": 30.0}


def test_a_claim_without_pods_has_no_such_moments() -> None:
    assert seconds_since_pods(a_record(moments=Moments(opened_at=NOW))) == {}
