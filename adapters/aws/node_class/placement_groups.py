"""Finds the placement group of an EC2NodeClass."""

from __future__ import annotations

from adapters.aws.service import AwsService
from adapters.ports import JsonObject, NotFoundError
from core.catalogue.node_class import PlacementGroupSelector

AVAILABLE = "available"


class PlacementGroups:
    """Looks up groups by id or name."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def resolve(self, selector: PlacementGroupSelector) -> JsonObject:
        """Return the group as `placementGroup` of a status. Raises NotFoundError if none is available, PortError."""
        what = f"placement group {selector.id or selector.name}"
        asked = (
            {"name": "group-id", "value": selector.id}
            if selector.id
            else {"name": "group-name", "value": selector.name}
        )
        filters = [{"Name": asked["name"], "Values": [asked["value"]]}]
        answer = self._ec2.call("DescribePlacementGroups", Filters=filters)
        groups = answer.get("PlacementGroups") or ()
        found = next((group for group in groups if group.get("State") == AVAILABLE), None)
        if found is None:
            states = ", ".join(sorted({str(group.get("State")) for group in groups}))
            said = (
                f"{what} is {states}, not available" if states else f"{what} does not exist in this account and region"
            )
            raise NotFoundError("ec2:DescribePlacementGroups", said)
        return {
            "id": found["GroupId"],
            "name": found.get("GroupName", ""),
            "strategy": found.get("Strategy", ""),
            "partitions": found.get("PartitionCount") or 0,
        }
