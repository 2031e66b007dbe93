"""Keys of labels, taints and annotations, and which of them users may set.

Sources: Kubernetes' well-known labels; Karpenter's API (`karpenter.sh`) and its AWS provider (`karpenter.k8s.aws`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
NODE_NAME: Final = "field:metadata.name"
"""A node's name, as matchFields of a node affinity select it; a text that no label's key can be."""

HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"

NODEPOOL: Final = "karpenter.sh/nodepool"
NODECLAIM: Final = "karpenter.sh/nodeclaim"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
REGISTERED: Final = "karpenter.sh/registered"
INITIALIZED: Final = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"
NODECLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE: Final = "karpenter.k8s.aws/capacity-reservation-interruptible"
RESERVATION_LABELS: Final = (RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)
"""The labels that only nodes in a capacity reservation have."""
PLACEMENT_GROUP_ID: Final = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = "karpenter.k8s.aws/placement-group-partition"
EXCLUDE_FROM_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_REPAIR: Final = "karpenter.sh/do-not-repair"
DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
NODECLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
NODECLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
HASH_VERSION: Final = "fleetwright-v2"
"""Our value of both annotations. It changes with the set of hashed fields, and with the default of a hashed field."""

TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"

SURGE: Final = "fleetwright.dev/surge"
"""Annotation of pods: their Deployment may be restarted if they cannot be evicted."""

GROUP: Final = "fleetwright.dev/group"
"""Annotation of pods: the group with which they start; `none` takes them out of every group."""

GROUP_MINIMUM: Final = "fleetwright.dev/group-minimum"
"""Annotation of such pods: how many of them must have a place before any gets a node."""

GROUP_TOPOLOGY: Final = "fleetwright.dev/group-topology"
"""Annotation of pods of any group: a topology key. All members need the same value of it."""

GROUP_DISRUPTION: Final = "fleetwright.dev/group-disruption"
"""Annotation of pods of any group: `all` if they stop together, `single` if one may be replaced."""

GROUP_OF_CLAIM: Final = "fleetwright.dev/launched-for-group"
"""Annotation of a claim: the group for whose members alone it is launched; all of them are, or none."""

SIZE_OF_GROUP: Final = "fleetwright.dev/launched-for-members"
"""Annotation of such a claim: how many members the group had in all."""

START_BEFORE: Final = "fleetwright.dev/start-before"
"""Annotation of pods that may wait: when they must have a node, as a time (RFC 3339) or a duration after their creation."""

WAITS_FOR: Final = "fleetwright.dev/waits-for"
"""Annotation of such pods: `spot` (the default) if spot nodes may be bought for them before, `room` if none may."""

CHARGED_TO: Final = "fleetwright.dev/charged-to"
"""Annotation of a claim: the caps that count it, each with the share of its node in millionths (`core.pools`)."""

MEMBER_TO_COME: Final = "fleetwright.dev/member-to-come"
"""Annotation of the pods of a plan that stand for members of a group whose controller has not created them yet."""

PROVISIONING_REQUEST: Final = "fleetwright.dev/provisioning-request"
"""Label of nodes that are bought for one ProvisioningRequest (`core.provisioning_requests`)."""

CONSUMES_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods: the ProvisioningRequest that provided their room."""

BOOKED_ROOM: Final = "fleetwright.dev/booked-room"
"""Annotation of the pods of a plan that stand for room which a ProvisioningRequest has booked."""

KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_GROUP_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/pod-group"
LEADER_WORKER_SET: Final = "leaderworkerset.sigs.k8s.io/name"
LEADER_WORKER_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LEADER_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LEADER_WORKER_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
LEADER_WORKER_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
LEADER_WORKER_TOPOLOGY: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
JOB_SET_PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_SET_JOB: Final = "jobset.sigs.k8s.io/job-index"
JOB_SET_KEY: Final = "jobset.sigs.k8s.io/job-key"
JOB_SET_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Labels and annotations by which other tools write groups (Kueue 0.17, Volcano, the coscheduling plugin, LeaderWorkerSet 0.9,
JobSet 0.12); sizes and topologies are annotations, and Volcano's group is one."""

GROUP_LABELS: Final = (KUEUE_GROUP, COSCHEDULING_GROUP, LEADER_WORKER_SET, JOB_SET)
GROUP_ANNOTATIONS: Final = (
    *(GROUP, GROUP_MINIMUM, GROUP_TOPOLOGY, GROUP_DISRUPTION),
    *(KUEUE_GROUP_COUNT, KUEUE_TOPOLOGY, VOLCANO_GROUP),
    *(LEADER_WORKER_SIZE, LEADER_WORKER_TOPOLOGY, JOB_SET_TOPOLOGY),
    CONSUMES_REQUEST,
)
"""All that are read of pods to find their groups, besides the labels of one tool that follow from its first."""

VPA_UPDATES: Final = "vpaUpdates"
"""Annotation of pods whose sizes a VerticalPodAutoscaler set when they were created."""

CLAIM: Final = "fleetwright.dev/claim"
"""Tag of every instance of ours, with its claim's name: only those are ever taken for ours, so another provisioner's are safe.
On nodes an annotation."""

TERMINATION_FINALIZER: Final = "fleetwright.dev/termination"
"""Our finalizer on Node objects: a deleted one stays until its pods have left and its instance is gone."""

KARPENTER_FINALIZER: Final = "karpenter.sh/termination"
"""Karpenter's finalizer on its NodeClaims and Nodes; only its controller removes it."""

KARPENTER_CLASS_FINALIZER: Final = "karpenter.k8s.aws/termination"
"""Karpenter's finalizer on EC2NodeClasses."""

CLAIM_SPEC: Final = "fleetwright.dev/claim-spec"
"""Annotation of a node: what its claim was launched for (`core.lifecycle.registration`)."""

LAUNCH: Final = "fleetwright.dev/launch"
"""Tag of instances that were launched with one request for several claims: the launch's name."""

DECISION: Final = "fleetwright.dev/decision"
"""Annotation and tag: id of the decision in the ledger that launched the claim."""

MADE_BY_HAND: Final = "fleetwright.dev/made-by-hand"
"""Annotation and tag: UID of the hand-made NodeClaim that the claim was launched for."""

COMMITMENT: Final = "fleetwright.dev/commitment"
"""Annotation: the reserved instances or Savings Plan that cover the node according to the plan that launched it."""

PRICE_FACTORS: Final = "fleetwright.dev/price-factors"
RESERVATION_PLACES: Final = "fleetwright.dev/capacity-reservation-places"
"""Annotation of an EC2NodeClass: reservation id → how many instances of this cluster it can hold at most, as JSON. Karpenter's
definition of the class has no field for it, and the API server drops fields that it does not know."""

UPCOMING_RESERVATIONS: Final = "fleetwright.dev/upcoming-capacity-reservations"
"""Annotation of an EC2NodeClass: its reservations that have not begun, as JSON
(`core.catalogue.reservations`)."""

PLACEMENT_GROUP: Final = "fleetwright.dev/placement-group"
"""Annotation of an EC2NodeClass: the placement group that it selects, as JSON (`core.catalogue.node_memory`)."""

SUBNET_ADDRESSES: Final = "fleetwright.dev/subnet-addresses"
"""Annotation of an EC2NodeClass: its subnets with few free addresses, as JSON (`core.catalogue.free_addresses`)."""

LAUNCH_VALIDATION: Final = "fleetwright.dev/launch-validation"
"""Annotation of an EC2NodeClass: EC2's last answer about launches from it (`core.launch.validation`)."""

IGNORED_FIELDS: Final = "fleetwright.dev/ignored-fields"
"""Annotation of an EC2NodeClass: paths of fields that this version does not know, and without which nodes may be launched."""

CONSUMABLE_CAPACITY: Final = "karpenter.k8s.aws/nvidia-consumable-capacity"
"""Karpenter's annotation of an EC2NodeClass: how resource claims share a GPU."""

PREFIX_DELEGATION: Final = "fleetwright.dev/prefix-delegation"
"""Annotation of an EC2NodeClass: `true` where the VPC CNI gives its nodes prefixes of addresses."""

NODE_MEMORY: Final = "fleetwright.dev/node-memory"
"""Annotation of an EC2NodeClass: memory of instance types as its nodes reported it (`core.catalogue.discovered`)."""

LARGEST_NODE: Final = "fleetwright.dev/largest-node"
SHARED_LIMITS: Final = "fleetwright.dev/shared-limits"
"""Annotation of a NodePool: limits that it shares with all NodePools that name the same group."""

EXPIRY: Final = "fleetwright.dev/expiry"
MOVES: Final = "fleetwright.dev/moves"
STEERED: Final = "fleetwright.dev/deletion-cost"
"""Annotation of a pod: the deletion cost that we wrote. Any other cost is the user's."""

EVICTIONS_PER_HOUR: Final = "fleetwright.dev/evictions-per-hour"

CALENDAR: Final = "fleetwright.dev/calendar"
"""Annotation of a NodePool: the spec of a Calendar for it, as JSON, where the kind is not installed."""

MODE: Final = "fleetwright.dev/mode"
"""Annotation of a NodePool: with `observe`, its decisions are recorded but not carried out."""

OBSERVE: Final = "observe"

REBOOTING_TAINT: Final = "karpenter.sh/rebooting"
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"
UNREGISTERED_TAINT: Final = "karpenter.sh/unregistered"

SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = (RESERVED, SPOT, ON_DEMAND)

EKS_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
"""Label of nodes in EKS managed node groups: `ON_DEMAND`, `SPOT` or `CAPACITY_BLOCK`."""

CLUSTER_TAG: Final = "eks:eks-cluster-name"

AWS_GROUP: Final = "karpenter.k8s.aws"
CORE_GROUP: Final = "karpenter.sh"

OWN_GROUP: Final = "fleetwright.dev"

OWN_PREFIX: Final = "fleetwright.dev/"
"""Begins every key of ours."""
TENANCY: Final = f"{AWS_GROUP}/instance-tenancy"
SHARED_TENANCY: Final = "default"
"""EC2's name for the tenancy of hardware shared with other accounts."""

_AWS_TYPE_LABELS: Final = tuple(
    f"{AWS_GROUP}/instance-{suffix}"
    for suffix in (
        "accelerator-count",
        "accelerator-manufacturer",
        "accelerator-name",
        "capability-flex",
        "category",
        "cpu",
        "cpu-manufacturer",
        "cpu-sustained-clock-speed-mhz",
        "ebs-bandwidth",
        "encryption-in-transit-supported",
        "family",
        "generation",
        "gpu-count",
        "gpu-manufacturer",
        "gpu-memory",
        "gpu-name",
        "hypervisor",
        "local-nvme",
        "memory",
        "network-bandwidth",
        "size",
        "tenancy",
    )
)

WELL_KNOWN: Final = frozenset(
    {
        NODEPOOL,
        ZONE,
        REGION,
        INSTANCE_TYPE,
        ARCH,
        OS,
        CAPACITY_TYPE,
        WINDOWS_BUILD,
        RESERVATION_ID,
        RESERVATION_TYPE,
        RESERVATION_INTERRUPTIBLE,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
        *_AWS_TYPE_LABELS,
    }
)
"""Labels that every node gets; a pod may select on them although no NodePool names them.

`ZONE_ID` is not among them: no offering says which id its zone has. A new snapshot replaces requirements for an id by ones for
its zone (`core.manifests.assemble`); nothing can meet those for unknown ids.
"""

ALIASES: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    EBS_ZONE: ZONE,
}
"""Deprecated label key → its present key; also the EBS driver's own key for the zone (Karpenter on AWS)."""

RESTRICTED_DOMAINS: Final = (CORE_GROUP,)

_KEPT_FROM_KUBELETS: Final = ("kubernetes.io", "k8s.io")
"""Label domains that a kubelet may not set on its own node (NodeRestriction); we set them once it has registered."""


def normalized(key: str) -> str:
    """Return the present form of the key: deprecated aliases are replaced, all others returned unchanged."""
    return ALIASES.get(key, key)


def without_own(values: Mapping[str, str]) -> dict[str, str]:
    """Return annotations or tags without our keys, which only we write: they identify a node's owner and why it leaves."""
    return {key: value for key, value in values.items() if not key.startswith(OWN_PREFIX)}


def is_restricted(key: str) -> bool:
    """Whether users may not set or select this label (Karpenter, restricted labels)."""
    if key in WELL_KNOWN:
        return False
    return key == HOSTNAME or _is_within(RESTRICTED_DOMAINS, key)


def is_kept_from_kubelets(key: str) -> bool:
    """Whether a kubelet may not set this label on its own node, so that pods may rely on it."""
    return _is_within(_KEPT_FROM_KUBELETS, key)


def _is_within(domains: tuple[str, ...], key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == allowed or domain.endswith("." + allowed) for allowed in domains)
