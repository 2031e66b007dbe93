"""IAM's instance profiles, each with at most one role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock


class _Profile(msgspec.Struct):
    described: dict[str, Any]
    roles: list[str] = []


class InstanceProfiles:
    """Answers IAM's calls about instance profiles. `roles` are the account's roles, by name."""

    def __init__(self, clock: VirtualClock, account: str, roles: Iterable[str]) -> None:
        self._clock = clock
        self._account = account
        self._roles = frozenset(roles)
        self._profiles: dict[str, _Profile] = {}

    def arn_of(self, name: str) -> str:
        """Return the ARN of the profile with this name or ARN; empty for none."""
        arns = {key: str(profile.described["Arn"]) for key, profile in self._profiles.items()}
        return arns.get(name) or next((arn for arn in arns.values() if arn == name), "")

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:GetInstanceProfile. Raises AwsError if there is none."""
        profile = self._find(request["InstanceProfileName"])
        roles = [
            {
                "Path": "/",
                "RoleName": role,
                "RoleId": f"AROA{role.upper():0<17.17}",
                "Arn": f"arn:aws:iam::{self._account}:role/{role}",
                "CreateDate": profile.described["CreateDate"],
            }
            for role in profile.roles
        ]
        return {"InstanceProfile": {**profile.described, "Roles": roles}}

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:CreateInstanceProfile. Raises AwsError if it exists."""
        name, path = request["InstanceProfileName"], request.get("Path", "/")
        if name in self._profiles:
            raise AwsError("EntityAlreadyExists", f"Instance Profile {name} already exists.", 409)
        described = {
            "Path": path,
            "InstanceProfileName": name,
            "InstanceProfileId": f"AIPA{len(self._profiles):017d}",
            "Arn": f"arn:aws:iam::{self._account}:instance-profile{path}{name}",
            "CreateDate": self._clock.now(),
            "Tags": [dict(tag) for tag in request.get("Tags") or ()],
        }
        self._profiles[name] = _Profile(described)
        return self.get(request)

    def add_role(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:AddRoleToInstanceProfile.

        Raises:
            AwsError: If there is no such profile or role, or the profile has a role already.
        """
        profile, role = self._find(request["InstanceProfileName"]), request["RoleName"]
        if role not in self._roles:
            raise AwsError("NoSuchEntity", f"The role with name {role} cannot be found.", 404)
        if profile.roles:
            raise AwsError("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", 409)
        profile.roles.append(role)
        return {}

    def remove_role(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:RemoveRoleFromInstanceProfile. Raises AwsError if there is no such profile, or it has not the role."""
        profile, role = self._find(request["InstanceProfileName"]), request["RoleName"]
        if role not in profile.roles:
            raise AwsError("NoSuchEntity", f"The role with name {role} cannot be found.", 404)
        profile.roles.remove(role)
        return {}

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:DeleteInstanceProfile. Raises AwsError if there is none, or it has a role."""
        name = request["InstanceProfileName"]
        if self._find(name).roles:
            raise AwsError(
                "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.", 409
            )
        del self._profiles[name]
        return {}

    def list_all(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer iam:ListInstanceProfiles, on one page."""
        prefix = request.get("PathPrefix", "/")
        found = [name for name, profile in self._profiles.items() if profile.described["Path"].startswith(prefix)]
        profiles = [self.get({"InstanceProfileName": name})["InstanceProfile"] for name in sorted(found)]
        return {"InstanceProfiles": profiles, "IsTruncated": False}

    def _find(self, name: str) -> _Profile:
        found = self._profiles.get(name)
        if found is None:
            raise AwsError("NoSuchEntity", f"Instance Profile {name} cannot be found.", 404)
        return found
