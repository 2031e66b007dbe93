"""What EC2's answer to one request means for each claim of a shared launch."""

from __future__ import annotations

from typing import Any

import msgspec

from adapters.ports import Instance, Launched, RefusedOffering
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.catalogue import OfferingKey
from core.reasons.claim import ClaimReason
from lambdas.controllers.launching.launch_answer import ONE_TRIES, LaunchAnswer
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_record

KEY = OfferingKey("m5.large", "us-east-1a", "spot")


def a_claim(share: int) -> ClaimRecord:
    return msgspec.structs.replace(a_record(ClaimPhase.REQUESTED, shares=3, share=share), name=f"c{share}")


def launched(count: int, *refused: RefusedOffering, **changes: Any) -> LaunchAnswer:
    """An answer for three claims with this many instances."""
    instances = tuple(
        Instance(
            instance_id=f"i-{number}",
            instance_type=KEY.instance_type,
            zone=KEY.zone,
            capacity_type=KEY.capacity_type,
            state="running",
            launched_at=NOW,
        )
        for number in range(count)
    )
    asked = {claim.name: claim for claim in map(a_claim, range(3))}
    return LaunchAnswer(**{"asked": asked, "launched": Launched(instances=instances, refused=refused), **changes})


def test_each_claim_has_the_instance_of_its_share() -> None:
    found = [launched(2).instance_of(a_claim(share)) for share in range(3)]
    assert [instance and instance.instance_id for instance in found] == ["i-0", "i-1", None]


def test_without_an_answer_no_claim_has_an_instance() -> None:
    assert LaunchAnswer().instance_of(a_claim(0)) is None
    assert LaunchAnswer().shortage() == ""


def test_a_shortage_names_each_refusal_once_and_stays_short() -> None:
    refused = [RefusedOffering(KEY, code, "sold out") for code in ("B", "A", "B")]
    assert launched(1, *refused).shortage() == "EC2 launched 1 of the 3 asked for; B: sold out; A: sold out"
    assert len(launched(1, RefusedOffering(KEY, "B", "x" * 600)).shortage()) == 500


class TestATry:
    """Of a class whose instances ended while they started, one is launched until its node joins."""

    def test_leaves_out_the_claims_that_were_not_asked_for(self) -> None:
        answer = launched(1, asked={"c0": a_claim(0)}, is_try=True)
        assert answer.left_out(a_claim(0)) is None
        found = answer.left_out(a_claim(1))
        assert found is not None
        assert (found.reason, found.message) == (ClaimReason.LAUNCH_HELD_BACK, ONE_TRIES)

    def test_is_said_of_no_other_launch(self) -> None:
        assert launched(1, asked={}).left_out(a_claim(1)) is None
