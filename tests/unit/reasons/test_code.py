"""Every code is an enumeration member with a sentence on a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from adapters.run_report import Decision
from core import labels
from core.brakes import Action, BrakeKind, action_of
from core.lifecycle.deletion import VOLUNTARY
from core.reasons import code as base
from core.reasons import groups, nodes, pods, runs
from core.reasons.code import (
    BUDGETED,
    AdoptionReason,
    ClaimReason,
    DecisionKind,
    DocumentedCode,
    ReasonCode,
    Refusal,
    ReleaseReason,
    Stated,
    TargetReason,
    TerminationReason,
)
from core.reasons.groups import RequestReason
from core.reasons.nodes import DriftReason, NodeReason
from core.reasons.pods import BindingReason, EvictionReason, HeldPodReason, PodReason
from core.reasons.runs import CommandReason, DrainReason, FailureReason, GroupFate, GroupLeaves, RunReason
from tests import reference

ROOT = Path(__file__).parents[3]
ENUMERATIONS: tuple[type[DocumentedCode], ...] = (
    AdoptionReason,
    BrakeKind,
    ClaimReason,
    CommandReason,
    DecisionKind,
    DrainReason,
    DriftReason,
    EvictionReason,
    FailureReason,
    GroupFate,
    HeldPodReason,
    NodeReason,
    PodReason,
    BindingReason,
    ReleaseReason,
    RequestReason,
    RunReason,
    TargetReason,
    TerminationReason,
)


HOMES = (base, groups, nodes, pods, runs)
AT = datetime(2026, 11, 20, 0, 1, tzinfo=UTC)
TIME = "2026-11-20T00:01:00Z"

FULL = "no subnet of EC2NodeClass c has the free addresses that its node takes (a: s, t)"
OF_VOLUMES = {
    pods.VolumeCause.CLAIM_MISSING: "PersistentVolumeClaim a/c does not exist",
    pods.VolumeCause.CLAIM_GOES: "PersistentVolumeClaim a/c is being deleted",
    pods.VolumeCause.CLAIM_LOST: "PersistentVolumeClaim a/c lost its volume",
    pods.VolumeCause.EXCLUDES_OTHERS: "claim a/c excludes the volumes before it",
    pods.VolumeCause.VOLUME_MISSING: "PersistentVolumeClaim a/c is bound to o, which does not exist",
    pods.VolumeCause.VOLUME_GOES: "volume o of PersistentVolumeClaim a/c is being deleted",
    pods.VolumeCause.BINDS: "PersistentVolumeClaim a/c names o, but binding has not completed",
    pods.VolumeCause.NO_CLASS: "PersistentVolumeClaim a/c names no StorageClass and there is no default StorageClass",
    pods.VolumeCause.CLASS_MISSING: "StorageClass o of PersistentVolumeClaim a/c does not exist",
    pods.VolumeCause.MADE_BY_HAND: "PersistentVolumeClaim a/c waits for a volume that is made by hand",
    pods.VolumeCause.BINDS_AT_ONCE: "PersistentVolumeClaim a/c binds at once (o), which has not happened yet",
    pods.VolumeCause.NO_FREE_VOLUME: (
        "PersistentVolumeClaim a/c: no free volume of StorageClass o fits, and none is made"
    ),
}


def a_spread(
    counts: tuple[tuple[str, int], ...], lack: pods.SpreadBehind | pods.FewDomains | None = None
) -> pods.DomainsRefused:
    return pods.DomainsRefused(
        reason=PodReason.TOPOLOGY_SPREAD, key="zone", kind="spread", is_affinity=False, counts=counts, lack=lack
    )


WORDS: tuple[tuple[Refusal, str], ...] = (
    (nodes.BeingDeleted("n"), "node n is being deleted already"),
    (nodes.Unmanaged("n"), "node n has no NodeClaim"),
    (nodes.NotJoined("c"), "the node of NodeClaim c has not joined yet"),
    (nodes.Uninitialized("n"), "node n is not initialized yet"),
    (nodes.NodeReboots("n"), "Karpenter is rebooting node n"),
    (nodes.PodExpected("n", "pod a/p"), "pod a/p is expected on node n"),
    (nodes.NodeNotToDisrupt("n"), "node n has karpenter.sh/do-not-disrupt"),
    (nodes.NodeNotToDisrupt("n", AT), "node n has karpenter.sh/do-not-disrupt until 2026-11-20T00:01:00Z"),
    (nodes.PodNotToDisrupt("a/p"), "pod a/p has karpenter.sh/do-not-disrupt"),
    (nodes.NotToRepair("n"), "node n has karpenter.sh/do-not-repair"),
    (nodes.PodOfRunningGroup("a/p", "a/g"), "pod a/p belongs to group a/g, which runs"),
    (nodes.NodeUnreadable("n", "status: odd"), "node n: status: odd"),
    (nodes.PodUnreadable("a/p", "spec: odd"), "pod a/p: spec: odd"),
    (nodes.NodePoolMissing("d", "n"), "NodePool d of node n does not exist"),
    (nodes.NodePoolObserved("d"), "NodePool d is only observed: its annotation fleetwright.dev/mode says so"),
    (nodes.NodePoolInvalid("d", "spec: odd"), "NodePool d is invalid: spec: odd"),
    (nodes.NodePoolWithoutTypes("d"), "NodePool d has no instance types to choose from"),
    (nodes.KeepsReplicas("d", 3), "NodePool d keeps 3 nodes, regardless of their use"),
    (nodes.NeverConsolidated("d"), "consolidateAfter of NodePool d is Never"),
    (nodes.ConsolidatedLater("d", AT), "consolidateAfter of NodePool d is over at 2026-11-20T00:01:00Z"),
    (
        nodes.ConsolidatedWhenEmpty("d", "a/p", "n"),
        "NodePool d consolidates empty nodes only, and pod a/p runs on node n",
    ),
    (
        nodes.PodsLeave("d", AT),
        (
            "by forecast, pods of NodePool d leave at this time; "
            "until 2026-11-20T00:01:00Z consolidation removes empty nodes only"
        ),
    ),
    (nodes.RoomKept("n"), "a capacity buffer, or a member that a group awaits, uses the room of node n"),
    (
        nodes.PriceUnknown("n", "(none)"),
        "node n (instance type (none)) has no known type, zone and capacity type, so its price is unknown",
    ),
    (
        nodes.SavingsBelowMoves("d"),
        "the savings are too small for the pods that NodePool d (policy Balanced) would have to move",
    ),
    (nodes.DeletionBelowMoves("d"), "even deleting it saves too little for NodePool d (Balanced)"),
    (nodes.TargetBelowMoves("d"), "the policy Balanced of NodePool d asks for more saving per moved pod"),
    (nodes.PodUnplaced("a/p"), "pod a/p would find no place"),
    (nodes.PodUnplaced("a/p", "NodePool d: full"), "pod a/p would find no place: NodePool d: full"),
    (nodes.PodOnUninitialized("a/p"), "pod a/p would have to wait for a node that is not initialized"),
    (nodes.DISPLACES_PENDING, "pending pods would then need a new node instead"),
    (nodes.SeveralNodesNeeded(2), "its pods would need 2 new nodes"),
    (nodes.NO_CHEAPER_TYPE, "no cheaper instance type could hold its pods"),
    (nodes.MinValuesUnmet("zone"), "too few cheaper instance types for minValues of zone"),
    (nodes.NO_SPOT_FOR_SPOT, "a spot node is replaced by another only with the feature gate SpotToSpotConsolidation"),
    (nodes.TooFewSpotTypes(15, 3), "15 cheaper spot instance types are needed, there are 3"),
    (nodes.NotTried("n"), "the pass ended before node n was examined"),
    (nodes.NO_SLOTS, "the places for its pods are not open yet: pods of spot nodes have no others"),
    (nodes.PlaceLost("a/p"), "kube-scheduler would place the pods that move before so that none is left for a/p"),
    (
        nodes.SLOT_DENIED,
        "a rule denies one of its pods its place: once the pods of other nodes have moved there, or until they have",
    ),
    (nodes.SLOT_CHANGED, "consolidateAfter is not over for a node to which its pods would go"),
    (nodes.NO_LIMITS, "limits of NodePools leave no room for new nodes while this one is there"),
    (nodes.TOO_DEAR, "the new nodes for its pods may become as expensive as what they replace"),
    (nodes.NO_SAVING, "what it saves by itself is too little for new nodes"),
    (nodes.TOGETHER_ONLY, "it saves only together with more nodes than budgets let go at one time"),
    (
        nodes.TargetAwaitsPods("n", 0, AT),
        f"no other target is made until {TIME}: PodDisruptionBudgets keep n while pods that were moved start",
    ),
    (
        nodes.TargetAwaitsPods("n", 2, AT),
        f"no other target is made until {TIME}: PodDisruptionBudgets keep n and 2 more while pods that were moved start",
    ),
    (
        nodes.TargetAwaitsBudgets(nodes.NeverConsolidated("d")),
        "nothing is decided about it while the current target waits: consolidateAfter of NodePool d is Never",
    ),
    (nodes.GoesLater("n"), "node n goes in a later wave"),
    (
        nodes.GoesLater("n", nodes.NeverConsolidated("d")),
        "node n goes in a later wave: consolidateAfter of NodePool d is Never",
    ),
    (nodes.NEEDS_SPOT_GATE, "its pods would need a new spot node, and the feature gate SpotToSpotConsolidation is off"),
    (nodes.NoCheaperPlace(1, 0), "no place for its pod costs less than the node itself"),
    (
        nodes.NoCheaperPlace(2, 12_300_000),
        "no place for its 2 pods costs less than the node itself, with $0.0123 an hour for the moves",
    ),
    (
        nodes.EvictionRateReached("d", 2, 10, 9),
        "2 pods to evict: NodePool d allows 10 evictions an hour, and 9 of them are used up",
    ),
    (
        nodes.EvictionRateReached("", 2, 10, 9),
        "2 pods to evict: the cluster allows 10 evictions an hour, and 9 of them are used up",
    ),
    (
        nodes.BudgetShared("n"),
        "pods of node n share a PodDisruptionBudget with those of nodes that go in this pass",
    ),
    (nodes.ManyUnhealthy("d"), "too many nodes of NodePool d are unhealthy for a replacement to help"),
    (nodes.NoTypeToLaunch("d"), "NodePool d has no instance type to launch"),
    (nodes.ShrinksFirst("d", 4, 3), "NodePool d has 4 nodes and wants 3: it shrinks first"),
    (nodes.AwaitsReplacement("d"), "a node goes before its replacement comes; NodePool d waits for that"),
    (nodes.NoRoomForReplacement("d"), "limits.nodes of NodePool d leaves no room for a replacement"),
    (nodes.BudgetKeepsPod(pods.NotEvictedNow("a/p", "b")), "PodDisruptionBudget b does not let pod a/p be evicted now"),
    (nodes.MovedRecently("a/p", AT), f"pod a/p was moved a while ago and stays until {TIME}"),
    (
        nodes.MovedInVain("a/p", AT, "a/Job/w"),
        f"pod a/p stays until {TIME}: when pods of a/Job/w were moved last, new nodes were launched for them",
    ),
    (pods.SparesNone("0", 1), "maxUnavailable 0 spares none of 1 pod"),
    (pods.WantsAll("100%", 2, 2), "minAvailable 100% wants 2 of 2 pods"),
    (
        pods.NeverEvicted("a/p", "b", pods.SparesNone("0%", 2)),
        "PodDisruptionBudget b never lets pod a/p be evicted: maxUnavailable 0% spares none of 2 pods",
    ),
    (
        pods.GuardedTwice("a/p", "b, c"),
        "PodDisruptionBudgets b, c all select pod a/p, so it cannot be evicted at all",
    ),
    (pods.NotEvictedNow("a/p", "b"), "PodDisruptionBudget b does not let pod a/p be evicted now"),
    (pods.BEING_DELETED, "is being deleted"),
    (pods.ONLY_OBSERVED, "is only observed: its annotation fleetwright.dev/mode says so"),
    (pods.IS_STATIC, "is static: it keeps a fixed number of nodes and launches none for pods"),
    (pods.NOT_READY, "is not ready"),
    (
        pods.ZONES_UNKNOWN,
        f"demands {labels.ZONE_ID}, but no EC2NodeClass's subnets and no node tell which zone that is: use {labels.ZONE}",
    ),
    (pods.PoolInvalid("spec.weight: 101"), "is invalid: spec.weight: 101"),
    (
        pods.PoolLabelsInvalid("a b is none"),
        "is invalid: its name, class and labels become labels of its nodes, and a b is none",
    ),
    (pods.PoolClosed("office/nights", AT), f"is outside its hours until {TIME}, by rule office/nights"),
    (pods.PoolClosed("office/end", None), "is outside its hours by rule office/end, which has no end"),
    (pods.PoolContradicts("team"), "has contradictory requirements: they allow no value of team"),
    (pods.ClassInvalid("c", "spec.role"), "uses EC2NodeClass c, which is invalid: spec.role"),
    (pods.ClassBeingDeleted("c"), "uses EC2NodeClass c, which is being deleted"),
    (pods.ClassNotReady("c"), "uses EC2NodeClass c, which is not ready"),
    (runs.Invalid(nodes.PodUnplaced("a/p")), "pod a/p would find no place"),
    (
        runs.NoCandidate("c", nodes.Unmanaged("n")),
        "NodeClaim c is no longer a candidate: node n has no NodeClaim",
    ),
    (runs.NoCandidate("c", None), "NodeClaim c is no longer a candidate: it is gone"),
    (runs.NoLongerDrifted("n"), "node n is no longer drifted"),
    (runs.HealthyAgain("n"), "node n is healthy again"),
    (runs.NoLongerEmpty("n"), "node n is no longer empty"),
    (runs.BudgetsAllowFewer(1, 3, "Drifted"), "budgets let 1 of 3 nodes go for Drifted now"),
    (runs.LoneSpotNode("n"), "spot node n is the only one left, and other rules apply to its replacement"),
    (runs.PART_COSTS_MORE, "the nodes that may still go do not pay for their new nodes"),
    (runs.PART_SAVES_TOO_LITTLE, "the nodes that may still go save too little"),
    (runs.SAVES_NOTHING, "its pods now need new nodes that cost no less"),
    (runs.MoreNodesNeeded(1, 0), "its pods now need 1 new node, not 0"),
    (runs.MoreNodesNeeded(2, 1), "its pods now need 2 new nodes, not 1"),
    (runs.TypeUnsuited("m7i.large", "d-0"), "instance type m7i.large no longer suits replacement d-0"),
    (runs.NOT_RESERVED, "it is in no capacity reservation"),
    (runs.PoolChanges("d"), "another node of NodePool d goes or comes"),
    (runs.ReservationNotFull("cr-1"), "capacity reservation cr-1 is not full, or cannot be launched into again"),
    (runs.PlaceWanted("cr-1"), "a pod that waits would take the place in capacity reservation cr-1"),
    (runs.Lapsed(runs.NoLongerEmpty("n")), "node n is no longer empty"),
    (runs.OTHER_COMMAND, "another command applies to its nodes by now"),
    (runs.NeedsApproval(price=1, nodes=2), "every command waits"),
    (
        runs.NeedsApproval(price=400_000_000, above_price=300_000_000, nodes=2, above_nodes=1, namespaces=("a", "b")),
        "its nodes cost $0.4000 an hour, more than $0.3000; it has 2 nodes, more than 1; it moves pods of a, b",
    ),
    (runs.MovesMore(("a", "b")), "it would now move pods of a, b as well"),
    (groups.GroupMissing("PodGroup a/g"), "there is no PodGroup a/g, or it cannot be read"),
    (
        groups.SizeInvalid("g", "a/p", "size", "'many'"),
        "g: annotation size of pod a/p has 'many', which is not a whole number from 1 to 999999",
    ),
    (groups.SizeMissing("g", "a/p"), "g: pod a/p has no annotation fleetwright.dev/group-minimum"),
    (
        groups.MembersUnlike("g", (groups.Saying("priority 1", "a/p"), groups.Saying("priority 2", "a/q", 1))),
        (
            "members of g have different priorities or schedulers, so kube-scheduler starts none: "
            "priority 1 (a/p); priority 2 (a/q and 1 more)"
        ),
    ),
    (groups.MinimumTooHigh("g", 3, 2), "g starts with 3 members and has only 2"),
    (groups.SizesDiffer("g", 3, "JobSet j", 4), "g starts with 3 members, and JobSet j with 4"),
    (
        groups.MembersStateSizes("g", (groups.Saying("2", "a/p", 6), groups.Saying("3", "a/q"))),
        "members of g state different numbers of members: 2 (a/p and 6 more); 3 (a/q)",
    ),
    (
        groups.MembersStateSizes("g", tuple(groups.Saying(str(size), f"a/p{size}") for size in range(2, 9))),
        (
            "members of g state different numbers of members: "
            "2 (a/p2); 3 (a/p3); 4 (a/p4); 5 (a/p5); 6 (a/p6); and 2 more"
        ),
    ),
    (
        groups.MembersNameDomains("g", (groups.Saying("b, a", "a/p"), groups.Saying("none", "a/q"))),
        "members of g name different domains: b, a (a/p); none (a/q)",
    ),
    (
        groups.RunsApart("g", "zone", (groups.Saying("a", "a/p"), groups.Saying("b", "a/q"))),
        "members of group g run in several domains of zone: a (a/p); b (a/q)",
    ),
    (
        groups.TooManyToCome("a", 9),
        "the groups of namespace a have more than 9 members to come, and older ones come first",
    ),
    (
        groups.MembersAbsent(1, 3, 1, 1, AT),
        (
            "1 of 3 members can be planned for: 1 has not been created and 1 still has a scheduling gate; "
            "it waits for them since 2026-11-20 00:01 UTC"
        ),
    ),
    (
        groups.MembersAbsent(1, 5, 4, 0),
        "1 of 5 members can be planned for: 4 have not been created; it waits for them",
    ),
    (
        groups.MembersUnplaced("a/g", 1, 2, "a/p", (PodReason.POD_AFFINITY, "no zone")),
        "1 of 2 members of group a/g have a place; a/p has none [PodAffinity]: no zone",
    ),
    (
        groups.MembersUnplaced("a/g", 1, 2, keys=("zone", "rack")),
        (
            "1 of 2 members of group a/g have a place; "
            "no node and no NodePool offers a value of zone and rack that holds them"
        ),
    ),
    (
        groups.MembersUnplaced("a/g", 1, 2),
        "1 of 2 members of group a/g have a place; others take what the rest needs",
    ),
    (pods.NO_ALTERNATIVE, "every alternative of its required node affinity is empty"),
    (pods.NAMES_NODES, "its required node affinity names existing nodes (matchFields)"),
    (pods.ROOM_THERE, "its ProvisioningRequest asks for room on nodes that are there"),
    (pods.WANTS_NO_POOL, "it demands that karpenter.sh/nodepool does not exist"),
    (pods.RESERVATIONS_FULL, "all suitable capacity reservations are full"),
    (pods.HasResourceClaims(("a", "b")), "it has resource claims: a, b"),
    (pods.LabelRestricted("k"), "it selects nodes by k, which is restricted"),
    (pods.VolumesInvalid("odd"), "its volumes: odd"),
    (pods.SubnetsFull("c", (("a", ("s", "t")),)), FULL),
    (
        pods.QuotasSpent((pods.QuotaSpent("quota L-1, Standard spot", 1, 2), pods.QuotaSpent("q", 0, 4))),
        (
            "EC2's quota L-1, Standard spot, leaves 1 vCPUs and the smallest suitable instance type has 2; "
            "EC2's q, leaves 0 vCPUs and the smallest suitable instance type has 4"
        ),
    ),
    (
        pods.AmountSpent(owner="its", resource="d", left="1", whole="9", spent="8 of 9", price="3", lacking="2"),
        (
            "its limit d leaves $1 of $9 (8 of 9), and the cheapest suitable type may cost $3: "
            "a node comes once others that cost $2 an hour have left, or the limit is raised"
        ),
    ),
    (
        pods.AmountSpent(owner="its", resource="d", left="1", whole="9", spent="", price="3", lacking="2"),
        (
            "its limit d leaves $1 of $9, and the cheapest suitable type may cost $3: "
            "a node comes once others that cost $2 an hour have left, or the limit is raised"
        ),
    ),
    (
        pods.AmountSpent(owner="cap costs/all's", resource="cpu", unit="", left="2", whole="9", price="4", lacking="2"),
        (
            "cap costs/all's limit cpu leaves 2 of 9, and the smallest suitable type takes 4: "
            "a node comes once others with 2 cpu have left, or the limit is raised"
        ),
    ),
    (
        pods.LimitsSpent((("cpu", "0", ""), ("nodes", "1", " in group g"))),
        "its limits leave cpu 0, nodes 1 in group g, too little for another node",
    ),
    (
        pods.SpreadsBroken((("zone", "b"), ("zone", None))),
        "a new node in zone b or zone of a further node would break the spread of pods that have their place",
    ),
    (
        pods.KeyLacking(PodReason.POD_AFFINITY, "rack", "affinity"),
        "its nodes do not have rack, the topologyKey of the pod's affinity",
    ),
    (pods.NobodySelected("app=a"), "no pod that has or gets a node matches the pod's affinity: app=a"),
    (
        pods.DomainsRefused(reason=PodReason.POD_AFFINITY, key="host", kind="affinity", is_affinity=True, counts=None),
        "no host satisfies the pod's affinity (a new node has none of the pods that it must be near)",
    ),
    (
        pods.DomainsRefused(
            reason=PodReason.POD_ANTI_AFFINITY, key="host", kind="anti-affinity", is_affinity=False, counts=None
        ),
        "no host satisfies the pod's anti-affinity (on any node)",
    ),
    (a_spread(()), "no zone satisfies the pod's spread (pods now: none)"),
    (
        a_spread((("a", 1), ("b", 0)), pods.FewDomains(3, 2)),
        (
            "no zone satisfies the pod's spread (pods now: a: 1, b: 0); "
            "minDomains asks for 3 values of zone, and NodePools and nodes have 2"
        ),
    ),
    (
        a_spread((("a", 1),), pods.SpreadBehind(("b", "c"), "NodePool x", 1)),
        (
            "no zone satisfies the pod's spread (pods now: a: 1); b, c must fill up first (maxSkew 1) and count because of "
            "NodePool x; this NodePool cannot: demand the values of zone that may be used in the pod's node affinity, "
            "set nodeTaintsPolicy: Honor, or keep NodePool x out of it"
        ),
    ),
    (pods.NoneAvailable(2), "none of the 2 instance types of the claim has an offering that is available"),
    (
        pods.MinValuesBeyond((("arch", 2), ("zone", 3)), 70, 60),
        "minValues demand 2 of arch, 3 of zone, which takes 70 instance types; EC2 is asked for 60",
    ),
    (base.NAME_TAKEN, "metadata.name: a claim of another NodeClaim has this name"),
    (base.FieldsInvalid((("spec.a", "odd"), ("spec.b", "even"))), "spec.a: odd; spec.b: even"),
    (
        base.FieldsUnknown(("spec.a", "spec.b")),
        (
            "spec.a,spec.b: this version does not know it; update Fleetwright, or launch without it: "
            "annotate the NodeClaim with fleetwright.dev/ignored-fields: spec.a,spec.b"
        ),
    ),
    (
        base.FinalizerForeign("a/b"),
        "metadata.finalizers: a/b is another controller's; nothing is launched for an object that it holds",
    ),
    (base.NodeLabelsInvalid("odd"), "its name, class and labels become labels of its node, and odd"),
    (base.ClassOfOtherKind("AKS"), "spec.nodeClassRef.kind: 'AKS' is not EC2NodeClass"),
    (base.ClassGone("c", is_deleted=False), "spec.nodeClassRef.name: EC2NodeClass c does not exist"),
    (base.ClassGone("c", is_deleted=True), "spec.nodeClassRef.name: EC2NodeClass c is being deleted"),
    (base.ClassUnready("c"), "EC2NodeClass c: its condition Ready is not True"),
    (base.ClassUnready("c", "no subnets"), "EC2NodeClass c: no subnets"),
    (base.RequirementsUnmet("k"), "spec.requirements: no instance type meets that on k"),
    (base.RequirementsUnmet(""), "spec.requirements: no instance type meets them all"),
    (
        base.RequestsTooLarge(3),
        "spec.resources.requests: none of the 3 instance types that spec.requirements admit has as much",
    ),
    (base.NoneOpen(3), "none of the 3 suitable instance types is available now"),
    (
        base.ZonesFull("c", ("a", "b")),
        "no subnet of EC2NodeClass c has the free addresses that its node takes (a, b)",
    ),
    (base.NoRoomInLimits("NodePool d"), "the limits of NodePool d have no room for it"),
    (base.NoLaunch(base.NO_CAPACITY), "EC2 recently had no capacity for its offerings"),
    (base.NO_CAPACITY, "EC2 recently had no capacity for its offerings"),
    (base.OTHER_RETRIES, "another launch is retrying: EC2 recently had no capacity for its offerings"),
    (base.GROUP_REFUSED, "another node of its group, which starts together, cannot be launched"),
    (base.GROUP_CHANGED, "another node of its group, which starts together, is not launched"),
    (base.ONE_TRIES, "instances of its EC2NodeClass ended while they started: one is launched again first"),
    (base.PODS_ELSEWHERE, "none of its pods waits for a node any more"),
    (base.DenialsPause(("a", "b")), "a; b"),
    (base.DenialIsTried("a"), "another claim is retrying: a"),
    (
        base.PricesHaveRisen("0.3", "0.2"),
        "prices have risen since its plan: an instance may cost $0.3 an hour, and $0.2 are counted for it",
    ),
    (base.OverLimit("NodePool d", "cpu"), "NodePool d is over its limit of cpu without this claim's instance"),
    (runs.BudgetsSpent(("d", "e"), "Drifted"), "NodePools d, e let no more nodes go for Drifted"),
    *((pods.VolumeUnusable(cause, "a/c", "o"), words) for cause, words in OF_VOLUMES.items()),
    (runs.TakesApproval(("a", "b")), "it would now move pods of a, b, which takes approval"),
    (runs.ApprovalOver(False, AT), "nobody approved it within a day, until 2026-11-20 00:01 UTC"),
    (
        runs.ApprovalOver(True, AT),
        "it was approved, but budgets and brakes did not let it begin within a day, until 2026-11-20 00:01 UTC",
    ),
)
"""Each refusal with its words: other tests compare types and facts."""


@pytest.mark.parametrize(("refusal", "words"), WORDS, ids=[words for _, words in WORDS])
def test_a_refusal_is_worded(refusal: Refusal, words: str) -> None:
    assert refusal.message == words
    assert isinstance(refusal.reason, ReasonCode)


def test_each_refusal_is_among_the_worded() -> None:
    """A message that no test shows is read by nobody before it is printed."""
    worded = {type(refusal) for refusal, _ in WORDS} - {Stated}
    assert {kind for kind in Refusal.__subclasses__() if kind.__module__.startswith("core.")} - {Stated} == worded
    of_a_constraint = {pods.VolumeCause.USED_BY, pods.VolumeCause.USED_IN_PLAN}  # worded beside its other tests
    assert OF_VOLUMES.keys() == {*pods.VolumeCause} - of_a_constraint
    fixed = [value for home in HOMES for value in vars(home).values() if isinstance(value, Stated)]
    assert [value for value in fixed if all(value is not refusal for refusal, _ in WORDS)] == []


@pytest.mark.parametrize(
    ("leaves", "words"),
    [
        (GroupLeaves("ml/a", "RunsOn", 1, 8), "group ml/a (8 members, 1 leaves): the others run on"),
        (GroupLeaves("ml/a", "NotStarted", 2, 2), "group ml/a (2 members, all leave): it does not run yet"),
        (GroupLeaves("ml/a", "NotStarted", 1), "group ml/a (1 member leaves): it does not run yet"),
        (GroupLeaves("ml/a", "NotStarted", 1, 1), "group ml/a (1 member leaves): it does not run yet"),
        (GroupLeaves("ml/a", "RunsOn", 3, 2), "group ml/a (3 members leave): the others run on"),
        (GroupLeaves("ml/a", "", 2, 8), "group ml/a (8 members, 2 leave)"),
        (
            GroupLeaves("ml/a", "FromTheFuture", 2),
            "group ml/a (2 members leave): it loses them, and mostly starts again as a whole",
        ),
    ],
)
def test_a_group_that_loses_members_is_worded(leaves: GroupLeaves, words: str) -> None:
    assert leaves.sentence == words


@pytest.mark.parametrize("codes", ENUMERATIONS)
def test_every_code_has_a_sentence_and_is_on_the_page(codes: type[DocumentedCode]) -> None:
    page = reference.reason_codes()
    for code in codes:
        assert code.isalpha()
        assert code.meaning.endswith(".")
        assert not code.advice or code.advice.endswith(".")
        assert re.search(rf"\| (<a [^|]*></a>)?`{code}` \| {re.escape(code.meaning)} \|", page), code


def test_no_enumeration_is_forgotten() -> None:
    defined = {found.__name__ for base in (DocumentedCode, ReasonCode) for found in base.__subclasses__()}
    elsewhere = {"Remembered"}  # on the page of launch errors
    assert defined - elsewhere == {"ReasonCode", *(codes.__name__ for codes in ENUMERATIONS)}


def test_a_code_is_written_as_its_text() -> None:
    """Logs, rows and plans contain the code, never the member's name."""
    decision = Decision(DecisionKind.SKIP, "test", RunReason.PLANNER_BUSY)
    written = b'{"kind":"skip","subject":"test","reason":"PlannerBusy","message":"","decision_id":""}'
    assert msgspec.json.encode(decision) == written
    assert f"{PodReason.LIMIT_REACHED}" == "LimitReached"


def test_codes_stored_by_another_version_can_be_read() -> None:
    """A renamed code must not make a row unreadable."""
    assert TerminationReason.stored("Expired") is TerminationReason.EXPIRED
    assert TerminationReason.stored("FromTheFuture") is TerminationReason.OTHER
    with pytest.raises(ValueError, match="'Nonsense' is not a PodReason"):
        PodReason.of("Nonsense")


FILES = sorted(path for package in ("core", "adapters", "lambdas", "cli") for path in (ROOT / package).rglob("*.py"))

CODE = re.compile(r"[A-Z][a-z]+([A-Z][a-z]*)*")
TAKES_A_CODE = re.compile(
    r"^(decide|leave|refuse|begin|begin_within|leaving|expedited|count_failure|end_outcome|_drop|_has_begun|"
    r"Stated|EvictionRefusal|Blocked|Blocker|Unschedulable|PodFinding|PoolFinding|"
    r"BeginTermination|Forget|Abandon|CancelDrain|ReportNode|Deletion|Interruption)$"
)


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if TAKES_A_CODE.match(name):
                yield node


def literals_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals in place of a code: passed as a reason, or compared with a `reason`."""
    for call in calls(tree):
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(given, ast.Constant) and isinstance(given.value, str) and CODE.fullmatch(given.value):
                yield given
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "reason":
            for side in node.comparators:
                if isinstance(side, ast.Constant) and isinstance(side.value, str) and CODE.fullmatch(side.value):
                    yield side


@pytest.mark.ci
def test_a_code_is_never_a_literal() -> None:
    """A literal is on no page, and nothing finds a typo in it."""
    found = [
        f"{path.relative_to(ROOT)}:{literal.lineno} {literal.value}"
        for path in FILES
        if "manifests" not in path.parts  # reads Kubernetes' own reasons
        for literal in literals_of(ast.parse(path.read_text()))
    ]
    assert not found


def test_the_search_for_literals_finds_them() -> None:
    source = (
        "decide(kind, name, 'PlannerBusy')\nif step.reason == 'Timeout':\n    Stated(reason='NotTried', message='no')"
    )
    assert [found.value for found in literals_of(ast.parse(source))] == ["PlannerBusy", "NotTried", "Timeout"]


def test_a_clause_begins_in_lower_case_unless_it_begins_with_a_name() -> None:
    """Pods were told that "eC2 has no capacity"."""
    assert ClaimReason.INSUFFICIENT_CAPACITY.clause.startswith("EC2 has")
    assert TerminationReason.SCHEDULED_CHANGE.clause.startswith("AWS will")
    assert NodeReason.BUDGET.meaning[0].isupper()
    assert NodeReason.BUDGET.clause[0].islower()
    assert not any(code.clause.startswith("karpenter") for enum in ENUMERATIONS for code in enum)


# Codes for the state of a target begin with the object that they are about.


def test_each_code_begins_with_its_subject() -> None:
    assert all(code.startswith("Target") for code in TargetReason)


# Termination reasons in rows of other versions.


def test_an_unknown_reason_is_mandatory() -> None:
    """Only voluntary disruptions wait for brakes and budgets."""
    assert TerminationReason.OTHER not in VOLUNTARY
    assert action_of(TerminationReason.OTHER) is Action.EVACUATE
    assert all(action_of(reason) is Action.DISRUPT for reason in BUDGETED)
