"""NodeClaims that a function writes at the end of its run, after others may have written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from lambdas.controllers.node_claims.karpenter_presence import KarpenterPresence
from lambdas.controllers.node_claims.node_claim_mirror import NodeClaimMirror
from lambdas.parallel_tasks import in_turn
from lambdas.run_report import RunReport
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.unit.lifecycle.records_for_tests import a_leaving, a_record

AGE = timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "after", "comes_back"),
    [
        (a_record(ClaimPhase.LAUNCHED, age=AGE), a_record(age=AGE), True),
        (a_record(age=AGE), a_leaving(reason="SpotInterrupted"), False),
        (a_leaving(is_final=True), a_leaving(terminated_at=NOW), False),
    ],
    ids=["it stays", "it goes", "it has been going"],
)
def test_a_lost_node_claim_is_made_again_unless_its_claim_goes(
    before: ClaimRecord, after: ClaimRecord, comes_back: bool
) -> None:
    """A run with an old row made the NodeClaim again that another had let go with its claim; it stayed for minutes."""
    lab = Lab()
    karpenter = KarpenterPresence(lab.kubernetes, lab.clock)
    mirror = NodeClaimMirror(lab.kubernetes, karpenter, lab.clock, in_turn, is_on=True)
    mirror.note(before, after)
    mirror.write(RunReport(), deadline=lab.clock.now() + timedelta(minutes=1))
    assert lab.kubernetes.names(NODE_CLAIMS) == (["c"] if comes_back else [])
