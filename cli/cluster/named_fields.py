"""Tables of the fields of objects that name a user's objects, and of those that are left out."""

from __future__ import annotations

import re
from typing import Final

from core import labels

NAMES: Final = frozenset(
    {
        *(
            "name",
            "nodeName",
            "nominatedNodeName",
            "claimName",
            "volumeName",
            "storageClassName",
            "persistentVolumeName",
        ),
        *("priorityClassName", "uid", "schedulerName", "id", "instanceProfile", "imageID", "role"),
        *("kmsKeyID", "snapshotID", "ssmParameter"),
    }
)
"""Fields whose text names a user's object."""

LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "tags"})
SELECTOR: Final = "selector"
"""A selector: a map of labels in Services and ReplicationControllers, an object elsewhere."""

KEYED: Final = frozenset({"key", "topologyKey"})
KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
QUANTITIES: Final = frozenset({"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources"})
LEFT_OUT: Final = frozenset({"userData", "message", "context", "kubeletUserData"})
GROUPS: Final = ("apiVersion", "apiGroup", "group")
ACCOUNTS: Final = frozenset({"owner", "ownerID"})
DRIVERS: Final = frozenset({"driver", "provisioner"})
KUBELET: Final = "kubelet"
"""An open object: decisions read numbers and amounts of it, and its other texts name hosts, files, images and networks."""

HEADERS: Final = "staticPodURLHeader"
"""A setting of the kubelet that may hold a password."""

_NUMBER: Final = r"[0-9]{1,11}(?:\.[0-9]{1,9})?"
AMOUNT: Final = re.compile(
    rf"[+-]?(?:{_NUMBER}(?:%|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{{1,2}})?|(?:{_NUMBER}(?:h|ms|us|µs|μs|ns|m|s)){{1,6}})"
)
"""A number, a quantity, a share or a duration, in the units of Kubernetes and Go. Longer numbers may be an account's."""

ADDRESS: Final = "192.0.2.1"
"""Replaces a cluster's addresses (RFC 5737: for documentation)."""

ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - all addresses, as Kubernetes writes them
ACCOUNT: Final = re.compile(r"\d{12}")
"""The id of an account."""

RENAMED_ANNOTATIONS: Final = frozenset(
    {
        labels.CLAIM,
        labels.MADE_BY_HAND,
        labels.NODEPOOL_HASH,
        labels.NODECLASS_HASH,
        "volume.beta.kubernetes.io/storage-class",
    }
)
"""Annotations that name an object or contain a hash. Hashes are only compared; real ones would confirm guesses."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SOURCES: Final = frozenset({"awsElasticBlockStore", "local", "hostPath"})
"""Sources of volumes, of which decisions read only the presence."""

NAMESPACES: Final = "namespaces"
