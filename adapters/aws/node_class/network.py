"""Selects the subnets and security groups of an EC2NodeClass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adapters.aws.service import AwsService
from adapters.ports import JsonObject
from core.catalogue.node_class import SelectorTerm


class NetworkSelection:
    """Looks up networks by the terms of a class."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def subnets(self, terms: Iterable[SelectorTerm]) -> list[JsonObject]:
        """Return `status.subnets`, each with its free IPv4 addresses as `free` (None: unknown); most first, ties by id.

        Raises PortError.
        """
        found: dict[str, Any] = {}
        for filters in term_filters(terms, id_filter="subnet-id"):
            for subnet in self._ec2.items("DescribeSubnets", "Subnets", Filters=filters, MaxResults=500):
                found[subnet["SubnetId"]] = subnet
        entries = [
            {
                "id": subnet["SubnetId"],
                "zone": subnet["AvailabilityZone"],
                "zoneID": subnet.get("AvailabilityZoneId", ""),
                "free": None if subnet.get("Ipv6Native") else subnet.get("AvailableIpAddressCount"),
            }
            for subnet in found.values()
        ]
        return sorted(entries, key=lambda entry: (-(entry["free"] or 0), entry["id"]))

    def security_groups(self, terms: Iterable[SelectorTerm]) -> list[JsonObject]:
        """Return `status.securityGroups`, by id. Raises PortError."""
        found: dict[str, str] = {}
        for filters in term_filters(terms, id_filter="group-id", name_filter="group-name"):
            for group in self._ec2.items("DescribeSecurityGroups", "SecurityGroups", Filters=filters, MaxResults=500):
                found[group["GroupId"]] = group.get("GroupName", "")
        return [{"id": group, "name": found[group]} for group in sorted(found)]


def term_filters(
    terms: Iterable[SelectorTerm], *, id_filter: str, name_filter: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """Return one set of filters for each query: all ids together, all names together, each set of tags alone.

    Within a term an id wins over a name, and a name over tags (Karpenter).
    """
    all_terms = list(terms)
    ids = sorted({term.id for term in all_terms if term.id})
    if ids:
        yield [{"Name": id_filter, "Values": ids}]
    names = sorted({term.name for term in all_terms if name_filter and term.name and not term.id})
    if names:
        yield [{"Name": name_filter, "Values": names}]
    for term in all_terms:
        if term.tags and not term.id and not (name_filter and term.name):
            yield tag_filters(term.tags)


def tag_filters(tags: dict[str, str]) -> list[dict[str, Any]]:
    """Return filters for all of these tags; the value `*` matches any value of the key."""
    return [
        {"Name": "tag-key", "Values": [key]} if tags[key] == "*" else {"Name": f"tag:{key}", "Values": [tags[key]]}
        for key in sorted(tags)
    ]
