"""Resolves the instance profile of a class's nodes: the class's own, or one created for its role."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Final

from adapters.aws.node_class.owned_profiles import path_of
from adapters.aws.service import AwsService
from adapters.ports import Clock, ConflictError, DeniedError, NotFoundError
from core import labels
from core.catalogue.node_class import EC2NodeClass, without_path
from core.launch.template import tag_list

_NAME_MAX: Final = 128
_ROLE_TAKEN: Final = "LimitExceeded"
"""IAM's error if a profile already has its only role."""


KNOWN_FOR: Final = timedelta(minutes=15)
"""How long a profile is assumed to exist: a deleted one is created again afterwards (Karpenter)."""


class InstanceProfiles:
    """Finds instance profiles, and creates them.

    A profile's name is derived from cluster, region, class and role, so creation is idempotent, and a changed role gets another
    profile: nodes that still run under the old one keep their permissions.
    """

    def __init__(self, iam: AwsService, *, cluster: str, region: str, clock: Clock) -> None:
        self._iam = iam
        self._path = path_of(cluster, region)
        self._cluster = cluster
        self._region = region
        self._clock = clock
        self._known: dict[str, datetime] = {}

    def resolve(self, node_class: EC2NodeClass) -> str:
        """Return the name of the profile, created if it does not exist.

        Raises PortError; NotFoundError if the role does not exist.
        """
        name, now = self.name_of(node_class), self._clock.now()
        if not node_class.spec.role or node_class.spec.instance_profile:
            return name
        seen = self._known.get(name)
        if seen is None or now - seen >= KNOWN_FOR:
            self._ensure(name, without_path(node_class.spec.role), node_class)
            self._known[name] = now
        return name

    def name_of(self, node_class: EC2NodeClass) -> str:
        """Return the name of the profile in the class's spec: its own, or that of its role; empty for neither."""
        if node_class.spec.instance_profile or not node_class.spec.role:
            return node_class.spec.instance_profile
        role = without_path(node_class.spec.role)
        content = f"{self._region}/{self._cluster}/{node_class.name}/{node_class.metadata.uid}/{role}"
        digest = hashlib.sha256(content.encode()).hexdigest()[:20]
        return f"{self._cluster[: _NAME_MAX - len(digest) - 1]}_{digest}"

    def forget(self, name: str) -> None:
        """Look up the profile again at the next request."""
        self._known.pop(name, None)

    def _ensure(self, name: str, role: str, node_class: EC2NodeClass) -> None:
        try:
            profile = self._iam.call("GetInstanceProfile", InstanceProfileName=name)["InstanceProfile"]
        except NotFoundError:
            self._create(name, node_class)
            profile = {}
        if not profile.get("Roles"):
            self._add_role(name, role)

    def _create(self, name: str, node_class: EC2NodeClass) -> None:
        tags = {
            **node_class.spec.tags,
            f"kubernetes.io/cluster/{self._cluster}": "owned",
            labels.CLUSTER_TAG: self._cluster,
            labels.NODECLASS: node_class.name,
            labels.REGION: self._region,
        }
        try:
            self._iam.call(
                "CreateInstanceProfile",
                InstanceProfileName=name,
                Path=self._path,
                Tags=tag_list(tags),
            )
        except ConflictError:
            return  # another function created it concurrently

    def _add_role(self, name: str, role: str) -> None:
        try:
            self._iam.call("AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role)
        except DeniedError as error:
            if not error.detail.startswith(_ROLE_TAKEN):
                raise
