"""Lists the instance profiles that an installation created for its EC2NodeClasses, by their path, and deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from adapters.ports import AwsCalls, JsonObject, TransientError

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
