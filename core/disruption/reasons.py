"""Why nodes go, and why they do not: the closed lists of codes that plans may carry."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EMPTY: Final = "Empty"
DRIFTED: Final = "Drifted"
UNDERUTILIZED: Final = "Underutilized"
UNHEALTHY: Final = "Unhealthy"
"""Why an ill node goes. Budgets cannot name it, so those count that name no reason."""

REASONS: Final = (UNDERUTILIZED, EMPTY, DRIFTED)
"""Karpenter's three reasons for voluntary disruption; budgets are counted for each."""

DO_NOT_DISRUPT: Final = "DoNotDisrupt"
POD_DISRUPTION_BUDGET: Final = "PodDisruptionBudget"
BUDGET: Final = "Budget"
CONSOLIDATE_AFTER: Final = "ConsolidateAfter"
POLICY_WHEN_EMPTY: Final = "PolicyWhenEmpty"
NO_CHEAPER_OPTION: Final = "NoCheaperOption"
PODS_UNSCHEDULABLE: Final = "PodsUnschedulable"
NOT_MANAGED: Final = "NotManaged"
NOT_INITIALIZED: Final = "NotInitialized"
NOMINATED: Final = "Nominated"
UNREADABLE_NODE: Final = "UnreadableNode"
UNREADABLE_POD: Final = "UnreadablePod"
CAPACITY_BUFFER: Final = "CapacityBuffer"
PAUSED: Final = "Paused"
DELETING: Final = "Deleting"
NODE_POOL_NOT_FOUND: Final = "NodePoolNotFound"
NODE_POOL_INVALID: Final = "NodePoolInvalid"
STATIC_POOL: Final = "StaticPool"
UNKNOWN_INSTANCE_TYPE: Final = "UnknownInstanceType"
SPOT_TO_SPOT: Final = "SpotToSpot"
BALANCED: Final = "Balanced"
DRAIN_BLOCKED: Final = "DrainBlocked"
NOT_TRIED: Final = "NotTried"
MANY_UNHEALTHY: Final = "ManyUnhealthy"

MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        DO_NOT_DISRUPT: "The node or one of its pods carries karpenter.sh/do-not-disrupt.",
        POD_DISRUPTION_BUDGET: "A PodDisruptionBudget does not let one of its pods be evicted now.",
        BUDGET: "The NodePool's disruption budgets allow no more nodes to go now for this reason.",
        CONSOLIDATE_AFTER: "The time since the last pod came or went is shorter than consolidateAfter, or that is Never.",
        POLICY_WHEN_EMPTY: "The NodePool consolidates empty nodes only, and pods run here.",
        NO_CHEAPER_OPTION: "Nothing cheaper could hold its pods.",
        PODS_UNSCHEDULABLE: "One of its pods would find no place.",
        NOT_MANAGED: "No NodeClaim stands behind it, so it is not ours.",
        NOT_INITIALIZED: "It has not joined or is not yet ready for its first pods.",
        NOMINATED: "Pods that need a place are expected on it.",
        UNREADABLE_NODE: "A field of the Node cannot be read, so nothing is known for certain of what runs there.",
        UNREADABLE_POD: "A field of one of its pods cannot be read, so what it needs elsewhere is not known.",
        CAPACITY_BUFFER: "It is empty, and a capacity buffer keeps its room free.",
        PAUSED: "Disruption of its NodePool is paused: new nodes of the pool do not join.",
        DELETING: "It is being deleted already.",
        NODE_POOL_NOT_FOUND: "Its NodePool does not exist, or has no instance types to choose from.",
        NODE_POOL_INVALID: "Its NodePool is invalid, so its nodes are left alone.",
        STATIC_POOL: "Its NodePool keeps a fixed number of nodes; only drift replaces them.",
        UNKNOWN_INSTANCE_TYPE: "Its instance type, zone or capacity type is unknown, so it has no price to beat.",
        SPOT_TO_SPOT: "A spot node is replaced by another only with the gate SpotToSpotConsolidation and enough cheaper types.",
        BALANCED: "Under the policy Balanced the savings do not outweigh the pods that would have to move.",
        DRAIN_BLOCKED: "Its last drain came no further and was given back, so it is left alone for a while.",
        MANY_UNHEALTHY: "It is ill, and so are so many nodes of its NodePool that new ones would hardly help.",
        NOT_TRIED: "The round ended before this node's turn came; the next one looks at it.",
    }
)
"""Code of `blocked[].reason` → what it means, in one sentence."""
