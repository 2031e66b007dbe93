"""Deletes instance profiles that no EC2NodeClass needs any more and no instance has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from adapters.aws.node_class.instance_profile import InstanceProfiles
from adapters.aws.node_class.owned_profiles import OwnedProfiles
from adapters.aws.service import AwsService
from adapters.ports import Clock, JsonObject, NotFoundError
from core.catalogue.node_class import read_node_class
from core.errors import InvalidInputError

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
        for profile in [found for found in idle if found["Arn"] not in used][:DELETED_MAX]:
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
            asked = {"Name": "iam-instance-profile.arn", "Values": list(arns[start : start + _FILTER_VALUES_MAX])}
            found = self._ec2.items("DescribeInstances", "Reservations", Filters=[states, asked], MaxResults=1000)
            for described in (one for reservation in found for one in reservation.get("Instances", ())):
                used.add((described.get("IamInstanceProfile") or {}).get("Arn", ""))
        return frozenset(used)
