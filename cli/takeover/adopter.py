"""Creates our claims from Karpenter's NodeClaims, one by one; the next run completes an interrupted adoption."""

from __future__ import annotations

from typing import Any

import msgspec

from adapters.ports import ConflictError, JsonObject
from cli.takeover.adoption_survey import AdoptionCandidate, AdoptionSurvey, adoption_survey
from cli.takeover.environment import TakeoverEnvironment
from core.api.objects import sequence
from core.errors import invariant
from core.lifecycle.records import ClaimRecord
from core.lifecycle.takeover import ownership
from core.lifecycle.takeover.adoption import AdoptionState
from core.manifests.wire import api_resources as kinds


class Adopter:
    """Surveys and adopts."""

    def __init__(self, environment: TakeoverEnvironment) -> None:
        self._environment = environment

    def survey(self) -> AdoptionSurvey:
        """Read everything of Karpenter's. Raises PortError."""
        return adoption_survey(self._environment)

    def adopt(self, candidate: AdoptionCandidate) -> None:
        """Adopt one candidate: first store the row, which holds its share of the limits, then write the marks on all objects.

        Raises:
            PortError: If a part failed; the next run continues from there.
        """
        record, instance, environment = candidate.record, candidate.instance, self._environment
        invariant(record is not None and instance is not None, f"{candidate.subject} is not to be adopted")
        assert record is not None  # noqa: S101 - tells the type checker what the line above ensures
        assert instance is not None  # noqa: S101
        if candidate.state is AdoptionState.ADOPTABLE:
            record = self._stored(record)
        environment.tag(instance, ownership.our_tags(record, environment.cluster))
        if record.node_name:  # an unregistered node gets all marks at registration
            environment.patch(kinds.NODES, record.node_name, lambda node: {"metadata": _node_metadata(record, node)})
        environment.patch(
            kinds.NODE_CLAIMS,
            record.name,
            lambda obj: {"metadata": ownership.node_claim_made_ours(record, obj)},
        )

    def free_class(self, name: str) -> None:
        """Remove Karpenter's finalizer from an EC2NodeClass, which only Karpenter would. Raises PortError."""

        def freed(obj: JsonObject) -> JsonObject:
            return {"metadata": ownership.class_made_ours(list(sequence(obj["metadata"].get("finalizers"))))}

        self._environment.patch(kinds.EC2_NODE_CLASSES, name, freed)

    def finish(self) -> None:
        """Record a change, so that no function uses an older observation. Raises PortError."""
        self._environment.stores.changes.record(self._environment.clock.now())

    def _stored(self, record: ClaimRecord) -> ClaimRecord:
        claims = self._environment.stores.claims
        stored = claims.restore(record) or claims.get(record.name)
        if stored is None or stored.instance_id != record.instance_id:
            raise ConflictError(
                "dynamodb:TransactWriteItems", f"claim {record.name} was stored by another run; run again"
            )
        return stored


def _node_metadata(record: ClaimRecord, node: Any) -> JsonObject:
    owners = [msgspec.to_builtins(owner) for owner in node.metadata.owner_references]
    return ownership.node_made_ours(record, node.metadata.finalizers, owners)
