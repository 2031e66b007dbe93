"""NodeClaim `karpenter.sh/v1`, and the fields that a NodePool's template shares with it: taints, class, durations."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Change
from core.api.schemas.metadata import Metadata
from core.api.schemas.requirement import REQUIREMENTS_MAX, ClaimRequirement
from core.api.schemas.taint import TAINT_RULES, TAINTS_MAX, TaintEntry

EXPIRE_AFTER: Final = "720h"


class NodeClassReference(ApiModel):
    """`nodeClassRef`: the node class by group, kind and name."""

    group: Annotated[str, Field(min_length=1, pattern=fields.NO_SLASH)]
    kind: fields.NonEmpty
    name: fields.NonEmpty

    changes = (
        Change("self.group == oldSelf.group", "group cannot be changed"),
        Change("self.kind == oldSelf.kind", "kind cannot be changed"),
    )


class ClaimTemplate(ApiModel):
    """What NodeClaims and NodePools' templates have in common."""

    taints: Annotated[list[TaintEntry], Field(max_length=TAINTS_MAX)] = []
    startup_taints: Annotated[list[TaintEntry], Field(max_length=TAINTS_MAX)] = []
    node_class_ref: NodeClassReference
    termination_grace_period: fields.Duration | None = None
    expire_after: fields.NillableDuration = EXPIRE_AFTER

    rules = TAINT_RULES


class ClaimResources(ApiModel):
    """`spec.resources` of a NodeClaim."""

    requests: dict[str, fields.Quantity] = {}


class NodeClaimSpec(ClaimTemplate):
    """`spec` of a NodeClaim."""

    requirements: Annotated[list[ClaimRequirement], Field(max_length=REQUIREMENTS_MAX)]
    resources: ClaimResources = Field(default_factory=ClaimResources)

    changes = (Change("self == oldSelf", "spec cannot be changed"),)


class NodeClaimObject(ApiModel):
    """A NodeClaim."""

    metadata: Metadata
    spec: NodeClaimSpec
