"""Why a function has each permission: for the page `docs/reference/permissions.md` and the test of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOOKS_UP: Final = "Resolves an EC2NodeClass."
_PROFILE: Final = "Makes the instance profile of an EC2NodeClass that names a role."
_IDLE_PROFILE: Final = "Deletes instance profiles that no EC2NodeClass and no instance needs any more."
_BRAKE: Final = "Reads a brake."
_TABLE: Final = "Keeps claims, commands, leases, counters and brakes."
_LAUNCH: Final = "Launches an instance for a claim, or asks EC2 whether it would (`DryRun`)."
_MARKET: Final = "Reads instance types, zones and prices."
_WINDOW: Final = "Keeps a schedule for each budget window of a NodePool."

WHY_ACTION: Final[Mapping[str, str]] = {
    "arc-zonal-shift:GetManagedResource": _BRAKE,
    "cloudwatch:DescribeAlarms": _BRAKE,
    "dynamodb:ConditionCheckItem": "Writes only while its lease holds.",
    "dynamodb:DeleteItem": _TABLE,
    "dynamodb:GetItem": _TABLE,
    "dynamodb:PutItem": _TABLE,
    "dynamodb:Query": _TABLE,
    "dynamodb:UpdateItem": _TABLE,
    "ec2:CreateFleet": _LAUNCH,
    "ec2:CreateLaunchTemplate": _LAUNCH,
    "ec2:CreateTags": "Tags what a launch creates; names instances that were launched together.",
    "ec2:DeleteLaunchTemplate": "Prunes launch templates that are long out of use.",
    "ec2:DescribeCapacityReservations": _LOOKS_UP,
    "ec2:DescribeImages": _LOOKS_UP,
    "ec2:DescribeInstanceStatus": "Finds instances that fail their status checks.",
    "ec2:DescribeInstanceTypeOfferings": _MARKET,
    "ec2:DescribeInstanceTypes": _MARKET,
    "ec2:DescribeInstances": "Finds the cluster's instances by their tags; counts what the account runs, for quotas.",
    "ec2:DescribeLaunchTemplates": "Prunes launch templates that are long out of use.",
    "ec2:DescribePlacementGroups": _LOOKS_UP,
    "ec2:DescribeSecurityGroups": _LOOKS_UP,
    "ec2:DescribeSpotPriceHistory": _MARKET,
    "ec2:DescribeSubnets": _LOOKS_UP,
    "ec2:RunInstances": _LAUNCH,
    "ec2:TerminateInstances": "Ends the instance of a claim whose node is drained.",
    "eks:DescribeCluster": "Finds the API server.",
    "iam:AddRoleToInstanceProfile": _PROFILE,
    "iam:CreateInstanceProfile": _PROFILE,
    "iam:DeleteInstanceProfile": _IDLE_PROFILE,
    "iam:GetInstanceProfile": _PROFILE,
    "iam:ListInstanceProfiles": _IDLE_PROFILE,
    "iam:PassRole": "Hands the node role to instances, or the role of schedules to the scheduler.",
    "iam:RemoveRoleFromInstanceProfile": _IDLE_PROFILE,
    "iam:TagInstanceProfile": _PROFILE,
    "pricing:GetProducts": _MARKET,
    "s3:GetObject": "Reads the last reading of the market, the ledger's base documents, or a part of a large cluster.",
    "states:DescribeExecution": "Ends the wait for an execution that has failed.",
    "states:StartExecution": "Has functions of their own decide about the parts of a large cluster.",
    "s3:ListBucket": "Tells an object that is not there from one that is denied.",
    "s3:PutObject": "Stores the reading of the market, what the ledger keeps, or a part of a large cluster with its decision.",
    "scheduler:CreateSchedule": _WINDOW,
    "scheduler:DeleteSchedule": _WINDOW,
    "scheduler:GetSchedule": _WINDOW,
    "scheduler:ListSchedules": _WINDOW,
    "scheduler:UpdateSchedule": _WINDOW,
    "servicequotas:ListServiceQuotas": "Reads EC2's vCPU quotas, within which plans stay.",
    "sns:Publish": "Tells people which command waits for their approval.",
    "sqs:SendMessage": "Wakes another function.",
    "ssm:GetParameter": _BRAKE,
    "ssm:GetParameters": _LOOKS_UP,
}
"""AWS action → what a function does by it; `BY_LAMBDA` says it of what Lambda does under the function's role."""

_SPREADING: Final = "Finds the pods that a default spread constraint is about."
_NEXT_POD: Final = "Knows the template of the pod that follows, and the pods that a default spread constraint is about."
_ADMISSION: Final = "Knows what the API server adds to pods of a template, and which it refuses."
_VOLUME: Final = "Knows where a pod's volumes can be, and how many a node holds."
_GROUP: Final = "Knows how many pods of a group start together, and which of them are still to come."
_BUFFER: Final = "Reads CapacityBuffers and what they keep room for."

WHY_LISTED: Final[Mapping[str, str]] = {
    "calendars": "Knows what holds for NodePools at which hours.",
    "capacitybuffers": _BUFFER,
    "provisioningrequests": "Reads ProvisioningRequests, for whose pods it finds or buys room.",
    "csidrivers": _VOLUME,
    "csinodes": _VOLUME,
    "daemonsets": "Knows what runs on each new node.",
    "deployments": _BUFFER,
    "ec2nodeclasses": "Reads what nodes are made of.",
    "jobsets": _GROUP,
    "leaderworkersets": _GROUP,
    "leases": "Asks whether Karpenter runs, before it shows a claim as a NodeClaim.",
    "limitranges": _ADMISSION,
    "namespaces": "Matches namespace selectors of affinity terms.",
    "nodeclaims": "Finds NodeClaims that users deleted, and those that are out of date.",
    "nodeoverlays": "Reads prices and capacities that the user changed.",
    "nodepools": "Reads which nodes may be.",
    "nodes": "Knows which nodes are there, and in which state.",
    "persistentvolumeclaims": _VOLUME,
    "persistentvolumes": _VOLUME,
    "poddisruptionbudgets": "Evicts and plans only what budgets allow.",
    "podgroups": _GROUP,
    "pods": "Knows which pods wait, and what runs where.",
    "podtemplates": _BUFFER,
    "priorityclasses": "Plans pods in the order of their priority.",
    "replicasets": _NEXT_POD,
    "replicationcontrollers": _SPREADING,
    "runtimeclasses": _ADMISSION,
    "services": _SPREADING,
    "statefulsets": _NEXT_POD,
    "storageclasses": _VOLUME,
    "volumeattachments": "Ends an instance only when its volumes are detached.",
    "workloads": _GROUP,
}
"""Kubernetes resource → why an observation of the cluster lists it."""

_CONTINUES: Final = "Reads what has happened since the last run, instead of the whole list."
WHY_DONE: Final[Mapping[tuple[str, str], str]] = {
    ("capacitybuffers/status", "patch"): "Says whether a buffer's room is there.",
    ("provisioningrequests/status", "patch"): "Says whether a request's room is there; Kueue starts the workload then.",
    (
        "deployments",
        "patch",
    ): "Restarts a single replica: its new pod is up before the old one goes.",
    ("ec2nodeclasses", "get"): "Launches from the present class.",
    (
        "ec2nodeclasses",
        "patch",
    ): "Annotates the hash that drift is found by, what EC2 said about launches, and what nodes have.",
    ("ec2nodeclasses/status", "patch"): "Says what a class resolves to, and whether it is ready.",
    ("events", "create"): "Tells a pod, node or NodePool what was decided about it.",
    ("nodeclaims", "create"): "Shows a claim as a NodeClaim.",
    ("nodeclaims", "delete"): "Lets the NodeClaim of a claim go that ends.",
    ("nodeclaims", "get"): "Sees whether a user makes or deletes a NodeClaim, and whose finalizers it has.",
    ("nodeclaims", "patch"): "Labels the NodeClaim of a claim, and takes its finalizer off at the end.",
    ("nodeclaims/status", "patch"): "Says on a NodeClaim how far its node is.",
    ("nodepools", "get"): "Compares with the present NodePool.",
    ("nodepools", "patch"): "Annotates the hash that drift is found by.",
    ("nodepools/status", "patch"): "Says what a NodePool uses, whether it is ready, and which brake keeps its nodes.",
    ("nodeoverlays/status", "patch"): "Says which fields of a NodeOverlay have no effect.",
    ("nodes", "delete"): "Takes away the Node of an instance that is gone.",
    ("nodes", "get"): "Writes only to the present version of a node.",
    ("nodes", "patch"): "Labels and taints nodes, and holds them by a finalizer until they are drained.",
    ("nodes", "watch"): _CONTINUES,
    ("pods", "watch"): _CONTINUES,
    ("pods", "patch"): "Gives pods of nodes that go next a low deletion cost, so that scale-in removes them first.",
    ("pods", "delete"): "Ends pods when a drain's time is over.",
    ("pods/binding", "create"): "Binds pods to the node that was launched for them (`bindPods`).",
    ("pods/eviction", "create"): "Drains a node.",
    ("pods/status", "patch"): "Nominates pods for the node that was launched for them (`nominatePods`).",
}
"""Kubernetes resource and verb other than list → what a function does by it."""

BY_LAMBDA: Final[Mapping[str, str]] = {
    "logs:CreateLogStream": "Lambda writes the function's log.",
    "logs:PutLogEvents": "Lambda writes the function's log.",
    "sqs:ReceiveMessage": "Lambda polls the queue for the function.",
    "sqs:DeleteMessage": "Lambda polls the queue for the function.",
    "sqs:ChangeMessageVisibility": "Lambda polls the queue for the function.",
    "sqs:GetQueueAttributes": "Lambda polls the queue, or sends failed invocations to it.",
    "sqs:GetQueueUrl": "Lambda polls the queue, or sends failed invocations to it.",
    "sqs:SendMessage": "Lambda sends failed invocations to the queue of failures.",
}
"""Permissions that no function uses directly."""

_MISSING: Final = "A missing object is reported as missing, not as denied."
_CLASS: Final = "A class whose status nobody has written yet is resolved at the launch."
_GROUP: Final = "An EC2NodeClass selects a placement group."
_RESOLVES: Final = {
    "ec2:DescribeCapacityReservations": _CLASS,
    "ec2:DescribeImages": _CLASS,
    "ec2:DescribePlacementGroups": _GROUP,
    "ec2:DescribeSecurityGroups": _CLASS,
    "ec2:DescribeSubnets": _CLASS,
    "iam:AddRoleToInstanceProfile": _CLASS,
    "iam:CreateInstanceProfile": _CLASS,
    "iam:GetInstanceProfile": _CLASS,
    "iam:TagInstanceProfile": _CLASS,
    "ssm:GetParameters": _CLASS,
}
SELDOM: Final[Mapping[str, Mapping[str, str]]] = {
    "provision": {
        "dynamodb:DeleteItem": "A claim that EC2 refuses is forgotten.",
        **_RESOLVES,
    },
    "disrupt": {
        "sns:Publish": "A command waits for approval (`mode: approve`).",
        "states:DescribeExecution": "An execution holds the lease of its cluster.",
    },
    "execute": {"s3:ListBucket": _MISSING, **_RESOLVES},
    "interrupt": {"ec2:DescribeInstances": "A notice is about an instance that no claim has."},
    "reconcile": {
        "s3:GetObject": "An instance found by its tag is adopted with what its type has.",
        "s3:ListBucket": _MISSING,
        "ec2:DescribePlacementGroups": _GROUP,
        "ec2:DeleteLaunchTemplate": "Templates are pruned when they are weeks old.",
        "iam:DeleteInstanceProfile": "An EC2NodeClass is gone, or has another role.",
        "iam:RemoveRoleFromInstanceProfile": "IAM deletes no profile that has a role.",
        "dynamodb:DeleteItem": "A brake is released; what a lost table left over is dropped.",
        "dynamodb:ConditionCheckItem": "Claims are requested again only under the lease.",
        "scheduler:UpdateSchedule": "A schedule that another run has just made is set right.",
    },
    "refresh_catalogue": {"s3:ListBucket": _MISSING},
}
"""Function → permissions that the recorded worlds do not use, and why they are needed nevertheless."""

_VOLUMES: Final = "where a pod has a volume"
_SPREADS: Final = "where the scheduler has default spread constraints"
_TEMPLATES: Final = "where a StatefulSet has pods, a DaemonSet has none yet, or a buffer keeps room"
_GROUPS: Final = "where a pod names such a group"
_REQUESTS: Final = "where the cluster serves ProvisioningRequests"
_BUFFERS: Final = "with the feature gate CapacityBuffer"
SELDOM_LISTED: Final[Mapping[str, str]] = {
    "persistentvolumes": _VOLUMES,
    "persistentvolumeclaims": _VOLUMES,
    "storageclasses": _VOLUMES,
    "csidrivers": _VOLUMES,
    "csinodes": _VOLUMES,
    "volumeattachments": _VOLUMES,
    "services": _SPREADS,
    "replicationcontrollers": _SPREADS,
    "replicasets": "where a pod was resized in place, or the scheduler has default spread constraints",
    "statefulsets": "where a StatefulSet has pods, or the scheduler has default spread constraints",
    "limitranges": _TEMPLATES,
    "runtimeclasses": _TEMPLATES,
    "deployments": _BUFFERS,
    "podtemplates": _BUFFERS,
    "capacitybuffers": _BUFFERS,
    "provisioningrequests": _REQUESTS,
    "podgroups": _GROUPS,
    "workloads": _GROUPS,
    "leaderworkersets": _GROUPS,
    "jobsets": _GROUPS,
    "nodeoverlays": "with the feature gate NodeOverlay",
    "leases": "where a NodeClaim is to be made",
}
"""Kubernetes resource → when it is listed, where the recorded worlds do not."""

SELDOM_DONE: Final[Mapping[tuple[str, str, str, str], str]] = {
    (
        "execute",
        "",
        "pods/status",
        "patch",
    ): "pods that kube-scheduler binds, such as those with volumes, are nominated",
    ("provision", "autoscaling.x-k8s.io", "capacitybuffers/status", "patch"): _BUFFERS,
    ("provision", "autoscaling.x-k8s.io", "provisioningrequests/status", "patch"): _REQUESTS,
    ("execute", "", "events", "create"): "a command begins, or a drain makes no progress",
    ("execute", "karpenter.sh", "nodeclaims", "get"): "somebody deletes a NodeClaim",
    ("execute", "karpenter.sh", "nodepools", "get"): "a drain is cancelled",
    ("reconcile", "karpenter.sh", "nodeclaims", "create"): "a NodeClaim is lost",
    ("reconcile", "karpenter.sh", "nodeclaims", "get"): "somebody makes a NodeClaim",
    ("reconcile", "karpenter.sh", "nodeclaims", "patch"): "the claim of a NodeClaim is gone",
    ("reconcile", "karpenter.sh", "nodeclaims", "delete"): "the claim of a NodeClaim is gone",
    ("reconcile", "karpenter.sh", "nodeclaims/status", "patch"): "a node drifts, or becomes consolidatable",
    ("reconcile", "karpenter.sh", "nodeoverlays/status", "patch"): "a NodeOverlay has an unknown field",
    ("execute", "karpenter.sh", "nodeclaims", "patch"): "a claim ends",
    ("reconcile", "", "events", "create"): "a rollout stops",
    ("reconcile", "", "nodes", "get"): "a node is tainted without a command",
    ("reconcile", "", "nodes", "patch"): "a lost command left a node tainted",
    ("reconcile", "karpenter.k8s.aws", "ec2nodeclasses", "get"): "an instance found by its tag is adopted",
}
"""Function, API group, resource and verb → when the functions call it, where the recorded worlds do not."""
