"""What a program reads of an adoption or a release, field by field."""

from __future__ import annotations

from typing import Any

from cli.takeover.adoption_survey import AdoptionCandidate, AdoptionSurvey
from cli.takeover.documents import adoption_document, release_document
from cli.takeover.releaser import Releasable, ReleaseSurvey
from core.lifecycle.takeover.adoption import AdoptionState, Objection
from core.lifecycle.takeover.release import OwnedClaim, ReleaseObjection
from core.reasons.takeover import AdoptionReason, ReleaseReason
from tests.unit.cli.takeover.site import an_instance
from tests.unit.lifecycle.records_for_tests import a_node, a_record

EMPTY = dict.fromkeys(("nodeClaim", "node", "instance", "instanceType", "nodePool", "reason", "message", "drift"), "")


def test_an_adoption_has_all_that_is_known_of_each_candidate() -> None:
    whole = AdoptionCandidate(
        subject="NodeClaim/c",
        state=AdoptionState.ADOPTABLE,
        node_claim="c",
        node="n",
        node_pool="default",
        instance=an_instance("i-1"),
        drift="NodePoolDrifted",
    )
    refused = AdoptionCandidate(
        subject="Node/x",
        state=AdoptionState.REFUSED,
        objection=Objection(AdoptionReason.NO_NODE_CLAIM, "no NodeClaim names Node x"),
    )
    survey = AdoptionSurvey(candidates=(whole, refused), classes=("default", "gpu"))
    items: list[dict[str, Any]] = [
        {
            **EMPTY,
            "subject": "NodeClaim/c",
            "state": "adoptable",
            "nodeClaim": "c",
            "node": "n",
            "instance": "i-1",
            "instanceType": "m5.large",
            "nodePool": "default",
            "drift": "NodePoolDrifted",
        },
        {
            **EMPTY,
            "subject": "Node/x",
            "state": "refused",
            "reason": "NoNodeClaim",
            "message": f"no NodeClaim names Node x. {AdoptionReason.NO_NODE_CLAIM.advice}",
        },
    ]
    assert adoption_document("prod", survey, ["Karpenter runs"], is_acting=True) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Adoption",
        "cluster": "prod",
        "acting": True,
        "hindrances": ["Karpenter runs"],
        "items": items,
        "nodeClasses": [
            {"subject": "EC2NodeClass/default", "state": "adoptable"},
            {"subject": "EC2NodeClass/gpu", "state": "adoptable"},
        ],
    }


def test_a_release_has_all_that_is_known_of_each_claim() -> None:
    record, node = a_record(), a_node()
    owned = OwnedClaim(record=record, node_claim=None, node=node, tagged=("i-1",), pool_uid="u")
    whole = Releasable(subject="NodeClaim/c", owned=owned, instance=an_instance("i-1"), drift="NodePoolDrifted")
    objection = ReleaseObjection(ReleaseReason.NOT_IN_TABLE, "claim x is not in the table")
    kept = Releasable(subject="Instance/i-2", objection=objection)
    survey = ReleaseSurvey(claims=(whole, kept), commands=3)
    assert release_document("prod", survey, [], is_acting=False) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Release",
        "cluster": "prod",
        "acting": False,
        "hindrances": [],
        "commands": 3,
        "items": [
            {
                **EMPTY,
                "subject": "NodeClaim/c",
                "state": "releasable",
                "nodeClaim": "c",
                "node": node.name,
                "instance": "i-1",
                "instanceType": "m5.large",
                "nodePool": record.plan.node_pool,
                "drift": "NodePoolDrifted",
            },
            {
                **EMPTY,
                "subject": "Instance/i-2",
                "state": "kept",
                "reason": "NotInTable",
                "message": f"claim x is not in the table. {ReleaseReason.NOT_IN_TABLE.advice}",
            },
        ],
    }
