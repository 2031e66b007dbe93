"""Resolves the instance profile of a class's nodes: the class's own, or one created for its role."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from adapters.aws.services import AwsService
from adapters.ports import AwsCalls, Clock, ConflictError, DeniedError, JsonObject, NotFoundError, TransientError
from core import labels
from core.catalogue.node_class import EC2NodeClass, read_node_class, without_path
from core.errors import InvalidInputError
from core.launch.template import tag_list

# Lists the instance profiles that an installation created for its EC2NodeClasses, by their path, and deletes them.


PAGES_MAX: Final = 100
"""The most pages of a hundred instance profiles; an account has at most a thousand, unless its quota was raised."""


def path_of(cluster: str, region: str) -> str:
    """Return the path of the instance profiles of one cluster and region; permissions are limited to it."""
    return f"/fleetwright/{region}/{cluster}/"


class OwnedProfiles:
    """The profiles below the path of one cluster and region."""

    def __init__(self, iam: AwsCalls, *, cluster: str, region: str) -> None:
        self._iam = iam
        self._path = path_of(cluster, region)

    def all(self) -> Iterator[JsonObject]:
        """Yield each profile as IAM describes it, with its roles. Raises PortError."""
        more: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            page = self._iam.call("ListInstanceProfiles", PathPrefix=self._path, **more)
            yield from page["InstanceProfiles"]
            if not page.get("IsTruncated"):
                return
            more = {"Marker": page["Marker"]}
        raise TransientError("iam:ListInstanceProfiles", f"more than {PAGES_MAX} pages")

    def delete(self, profile: JsonObject) -> None:
        """Remove a profile's role, then delete it. Raises PortError; NotFoundError if it is gone."""
        name = profile["InstanceProfileName"]
        for role in profile.get("Roles") or ():
            self._iam.call("RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role["RoleName"])
        self._iam.call("DeleteInstanceProfile", InstanceProfileName=name)


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


# Deletes instance profiles that no EC2NodeClass needs any more and no instance has.


KEPT_FOR: Final = timedelta(days=1)
"""The minimum age of a deleted profile: EC2 may list a launched instance with some delay."""

DELETED_MAX: Final = 50
"""The most profiles that one round deletes: two slow calls to IAM each; the next round continues."""

_ANY_OTHER_STATE: Final = ("pending", "running", "shutting-down", "stopping", "stopped")
_FILTER_VALUES_MAX: Final = 200


class UnusedProfiles:
    """Finds and deletes unused profiles.

    An account may have a thousand, and each new class, or new role of a class, creates one.
    """

    def __init__(self, ec2: AwsService, made: InstanceProfiles, owned: OwnedProfiles, clock: Clock) -> None:
        self._ec2 = ec2
        self._made = made
        self._owned = owned
        self._clock = clock

    def prune(self, node_classes: Iterable[JsonObject]) -> int:
        """Delete the profiles that none of these classes, which are all, needs; return how many.

        Raises:
            PortError: If a profile cannot be deleted, or EC2 does not say which are in use.
        """
        kept = {name for manifest in node_classes for name in self._asked_for(manifest)}
        old = self._clock.now() - KEPT_FOR
        idle = [
            profile
            for profile in self._owned.all()
            if profile["InstanceProfileName"] not in kept and profile["CreateDate"] <= old
        ]
        used = self._in_use([profile["Arn"] for profile in idle])
        deleted = 0
        for profile in [idle_profile for idle_profile in idle if idle_profile["Arn"] not in used][:DELETED_MAX]:
            self._made.forget(profile["InstanceProfileName"])
            try:
                self._owned.delete(profile)
            except NotFoundError:
                continue
            deleted += 1
        return deleted

    def _asked_for(self, manifest: JsonObject) -> set[str]:
        """Return the profile in a class's status, and the one that its present spec resolves to."""
        names = {str((manifest.get("status") or {}).get("instanceProfile") or "")}
        with suppress(
            InvalidInputError
        ):  # an invalid class launches nothing, and profiles of its instances count as in use
            names.add(self._made.name_of(read_node_class(manifest)))
        return names

    def _in_use(self, arns: Sequence[str]) -> frozenset[str]:
        """Return those of these profiles that any instance in the region has. Raises PortError."""
        states = {"Name": "instance-state-name", "Values": list(_ANY_OTHER_STATE)}
        used: set[str] = set()
        for start in range(0, len(arns), _FILTER_VALUES_MAX):
            arn_filter = {"Name": "iam-instance-profile.arn", "Values": list(arns[start : start + _FILTER_VALUES_MAX])}
            reservations = self._ec2.items(
                "DescribeInstances", "Reservations", Filters=[states, arn_filter], MaxResults=1000
            )
            for described in (
                instance for reservation in reservations for instance in reservation.get("Instances", ())
            ):
                used.add((described.get("IamInstanceProfile") or {}).get("Arn", ""))
        return frozenset(used)
