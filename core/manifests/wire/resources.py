"""The kinds of Kubernetes objects that we read or write, and how the API addresses them."""

from __future__ import annotations

from typing import Final

import msgspec


class Resource(msgspec.Struct, frozen=True, order=True):
    """One kind: `plural` is its name in URLs and in RBAC rules."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)


PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service")
POD_TEMPLATES: Final = Resource("", "v1", "podtemplates", "PodTemplate")
EVENTS: Final = Resource("", "v1", "events", "Event")
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", "ReplicationController")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
VOLUME_ATTACHMENTS: Final = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
POD_DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
HORIZONTAL_POD_AUTOSCALERS: Final = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SCALED_OBJECTS: Final = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")
CAPACITY_BUFFERS: Final = Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer")
PROVISIONING_REQUESTS: Final = Resource("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest")
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload")
VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING_POD_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
NODE_POOLS: Final = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLAIMS: Final = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
NODE_OVERLAYS: Final = Resource("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", namespaced=False)
CALENDARS: Final = Resource("fleetwright.dev", "v1alpha1", "calendars", "Calendar", namespaced=False)
EC2_NODE_CLASSES: Final = Resource("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", namespaced=False)

ALL: Final = tuple(sorted(value for value in list(globals().values()) if isinstance(value, Resource)))
OLDER_KINDS: Final = {"Provisioner": NODE_POOLS, "AWSNodeTemplate": EC2_NODE_CLASSES}
"""Kinds of Karpenter's older versions, and what they are now."""
_KARPENTER_GROUPS: Final = (NODE_POOLS.group, EC2_NODE_CLASSES.group)
_LEGACY_GROUPS: Final = ("extensions",)
_SAME_KIND: Final = {(r.group, r.kind): r for r in (VOLCANO_POD_GROUPS, COSCHEDULING_POD_GROUPS)}
"""Group and kind of those whose name Kubernetes gave to a kind of its own, too."""

BY_KIND: Final = {resource.kind: resource for resource in ALL if (resource.group, resource.kind) not in _SAME_KIND}
GROUP_KINDS: Final = (
    *(POD_GROUPS, WORKLOADS, VOLCANO_POD_GROUPS, COSCHEDULING_POD_GROUPS),
    *(LEADER_WORKER_SETS, JOB_SETS),
)
"""Kinds that say how pods start together. They are read only where a pod names one."""


def resource_read(group: str, kind: str) -> Resource | None:
    """Return the kind if it is one that we read: the name alone is ambiguous, other groups have a Service too."""
    if group in _KARPENTER_GROUPS and kind in OLDER_KINDS:
        return OLDER_KINDS[kind]
    resource = _SAME_KIND.get((group, kind)) or BY_KIND.get(kind)
    return resource if resource is not None and group in (resource.group, *_LEGACY_GROUPS) else None
