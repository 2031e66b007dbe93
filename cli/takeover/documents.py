"""The answers of `adopt` and `release` as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cli.answers.plan_document import API_VERSION
from cli.takeover.adoption_survey import AdoptionCandidate, AdoptionSurvey
from cli.takeover.releaser import Releasable, ReleaseSurvey
from core.api.objects import JsonObject

KEPT: Final = "kept"
RELEASABLE: Final = "releasable"


def adoption_document(
    cluster: str, survey: AdoptionSurvey, hindrances: Sequence[str], *, is_acting: bool
) -> JsonObject:
    """Return everything of Karpenter's; `state` is refused, adoptable, begun or ours, later adopted or failed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Adoption",
        "cluster": cluster,
        "acting": is_acting,
        "hindrances": list(hindrances),
        "items": [_candidate(found) for found in survey.candidates],
        "nodeClasses": [{"subject": f"EC2NodeClass/{name}", "state": "adoptable"} for name in survey.classes],
    }


def release_document(cluster: str, survey: ReleaseSurvey, hindrances: Sequence[str], *, is_acting: bool) -> JsonObject:
    """Return everything of ours; `state` is kept or releasable, later released or failed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Release",
        "cluster": cluster,
        "acting": is_acting,
        "hindrances": list(hindrances),
        "commands": survey.commands,
        "items": [_releasable(found) for found in survey.claims],
    }


def _candidate(found: AdoptionCandidate) -> JsonObject:
    instance = found.instance
    return {
        "subject": found.subject,
        "state": str(found.state),
        "nodeClaim": found.node_claim,
        "node": found.node,
        "instance": instance.instance_id if instance is not None else "",
        "instanceType": instance.instance_type if instance is not None else "",
        "nodePool": found.node_pool,
        "reason": str(found.objection.reason) if found.objection is not None else "",
        "message": f"{found.objection.message}. {found.objection.reason.advice}" if found.objection is not None else "",
        "drift": found.drift,
    }


def _releasable(found: Releasable) -> JsonObject:
    record, instance = found.owned.record if found.owned is not None else None, found.instance
    node = found.owned.node if found.owned is not None else None
    return {
        "subject": found.subject,
        "state": RELEASABLE if found.objection is None else KEPT,
        "nodeClaim": record.name if record is not None else "",
        "node": node.name if node is not None else "",
        "instance": instance.instance_id if instance is not None else "",
        "instanceType": instance.instance_type if instance is not None else "",
        "nodePool": record.plan.node_pool if record is not None else "",
        "reason": str(found.objection.reason) if found.objection is not None else "",
        "message": f"{found.objection.message}. {found.objection.reason.advice}" if found.objection is not None else "",
        "drift": found.drift,
    }
