"""What the record says about pods, nodes and instances."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

POOL: Final = "karpenter.sh/nodepool"
CLAIM: Final = "karpenter.sh/nodeclaim"
LAUNCH: Final = "fleetwright.dev/launch"
AppliedObject = Mapping[str, Any]
"""An applied object; read-only for checkers."""


def claim_of(tags: Mapping[str, str]) -> str:
    """Return the claim that an instance's tags name, empty if none: instances of a shared launch have its name first."""
    claim = tags.get(CLAIM, "")
    return "" if claim == tags.get(LAUNCH) else claim


class PodFacts(msgspec.Struct, kw_only=True):
    """One pod."""

    namespace: str
    owner: str
    labels: dict[str, str]
    annotations: dict[str, str]
    grace_seconds: int
    created_at: datetime
    node: str = ""
    bound_at: datetime | None = None
    is_ready: bool = False
    is_finished: bool = False
    is_leaving: bool = False


class NodeFacts(msgspec.Struct, kw_only=True):
    """One node; `disrupted_for` is the reason on its taint, None while it carries none."""

    pool: str
    instance: str
    is_initialized: bool = False
    disrupted_for: str | None = None
    disrupted_at: datetime | None = None


class InstanceFacts(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        grace: Its NodePool's terminationGracePeriod at its launch.
        claim: The last claim that its tags named.
        launch: The shared launch; empty if the claim was launched alone.
    """

    instance_type: str
    pool: str
    token: str
    launched_at: datetime
    grace: str = ""
    claim: str = ""
    launch: str = ""
    ended_at: datetime | None = None
