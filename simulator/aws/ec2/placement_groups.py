"""The embedded account's placement groups: one of each strategy, named after it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

import msgspec

from simulator.aws.ec2.filters import filtered, of_fields

PARTITIONS: Final = 3


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group; `partitions` is 0 for every strategy but `partition`."""

    id: str
    name: str
    strategy: str
    partitions: int = 0
    state: str = "available"


GROUPS: Final = (
    PlacementGroup(id="pg-0cluster", name="cluster", strategy="cluster"),
    PlacementGroup(id="pg-0partition", name="partition", strategy="partition", partitions=PARTITIONS),
    PlacementGroup(id="pg-0spread", name="spread", strategy="spread"),
    PlacementGroup(id="pg-0gone", name="gone", strategy="spread", state="deleting"),
)


class PlacementGroups:
    """Describes the groups, and places instances in them."""

    def __init__(self) -> None:
        self._launched = count()

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribePlacementGroups."""
        return {"PlacementGroups": [_described(one) for one in filtered(GROUPS, request.get("Filters"), _values)]}

    def problem(self, asked: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the error code and message with which EC2 refuses a launch into a missing group; None for an existing one."""
        wanted = asked.get("GroupId") or asked.get("GroupName")
        if not wanted or self._find(wanted) is not None:
            return None
        return "InvalidPlacementGroup.Unknown", f"The Placement Group '{wanted}' is unknown."

    def place(self, asked: Mapping[str, Any]) -> tuple[str, int]:
        """Return the group and the partition of one more instance: EC2 fills partitions evenly if none is requested."""
        group = self._find(asked.get("GroupId") or asked.get("GroupName") or "")
        if group is None:
            return "", 0
        chosen = next(self._launched) % group.partitions + 1 if group.partitions else 0
        return group.id, int(asked.get("PartitionNumber") or chosen)

    def _find(self, wanted: str) -> PlacementGroup | None:
        return next((one for one in GROUPS if wanted in (one.id, one.name) and one.state == "available"), None)


def _described(group: PlacementGroup) -> dict[str, Any]:
    described = {"GroupId": group.id, "GroupName": group.name, "Strategy": group.strategy, "State": group.state}
    return {**described, "PartitionCount": group.partitions} if group.partitions else described


def _values(group: PlacementGroup, name: str) -> tuple[str, ...]:
    fields = {"group-id": group.id, "group-name": group.name, "strategy": group.strategy, "state": group.state}
    return of_fields(fields, name)
