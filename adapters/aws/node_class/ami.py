"""Selects the machine images of an EC2NodeClass: by alias, id, SSM parameter, name, owner or tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from adapters.aws.node_class.network import tag_filters
from adapters.aws.service import AwsService
from adapters.ports import JsonObject
from core import labels
from core.ami_families.registry import family_of
from core.catalogue.node_class import SelectorTerm
from core.catalogue.shape import ARCHITECTURES

_NAMES_PER_CALL: Final = 10
_DEFAULT_OWNERS: Final = ("amazon", "self")


class Images:
    """Looks up images by the terms of a class."""

    def __init__(self, ec2: AwsService, ssm: AwsService) -> None:
        self._ec2 = ec2
        self._ssm = ssm

    def resolve(self, terms: Sequence[SelectorTerm], kubernetes_version: str, now: datetime) -> list[JsonObject]:
        """Return `status.amis`: for each set of requirements the best image, newest first. Raises PortError."""
        candidates = [
            (image, [*variant, *_architecture(image)])
            for image, variants in self._matching(terms, kubernetes_version)
            for variant in variants
            if image.get("Architecture") in ARCHITECTURES
        ]
        best: dict[str, tuple[JsonObject, list[JsonObject]]] = {}
        for image, requirements in candidates:
            ordered = sorted(requirements, key=lambda r: (len(r["key"]), r["key"]))
            known = best.get(repr(ordered))
            if known is None or _rank(image, now) > _rank(known[0], now):
                best[repr(ordered)] = (image, ordered)
        newest_first = sorted(best.values(), key=lambda pair: repr(pair[1]))
        newest_first.sort(key=lambda pair: pair[0]["ImageId"])
        newest_first.sort(key=lambda pair: str(pair[0].get("CreationDate", "")), reverse=True)
        return [_status(image, requirements, now) for image, requirements in newest_first]

    def _matching(
        self, terms: Sequence[SelectorTerm], kubernetes_version: str
    ) -> Iterator[tuple[JsonObject, Sequence[Sequence[JsonObject]]]]:
        for term in terms:
            if term.alias:
                yield from self._by_alias(term.alias, kubernetes_version)
        parameters = sorted({term.ssm_parameter for term in terms if term.ssm_parameter})
        ids = {value for value in self._values(parameters).values() if value.startswith("ami-")}
        ids |= {term.id for term in terms if term.id}
        yield from (
            (image, [[]]) for image in self._images([{"Name": "image-id", "Values": sorted(ids)}] if ids else [])
        )
        for term in terms:
            if not (term.alias or term.id or term.ssm_parameter):
                yield from ((image, [[]]) for image in self._by_description(term))

    def _by_alias(
        self, alias: str, kubernetes_version: str
    ) -> Iterator[tuple[JsonObject, Sequence[Sequence[JsonObject]]]]:
        parameters = family_of("", alias).images(kubernetes_version, alias.partition("@")[2])
        values = self._values([parameter.path for parameter in parameters])
        found = {i["ImageId"]: i for i in self._images([{"Name": "image-id", "Values": sorted(set(values.values()))}])}
        for parameter in parameters:
            image = found.get(values.get(parameter.path, ""))
            if image is not None:
                yield image, parameter.serves

    def _by_description(self, term: SelectorTerm) -> Iterable[JsonObject]:
        filters = tag_filters(term.tags)
        if term.name:
            filters.append({"Name": "name", "Values": [term.name]})
        owners = [term.owner] if term.owner else list(_DEFAULT_OWNERS) if term.name else []
        return self._images(filters, owners) if filters or owners else ()

    def _images(self, filters: list[dict[str, Any]], owners: Sequence[str] = ()) -> Iterator[JsonObject]:
        if any(not wanted["Values"] for wanted in filters) or not (filters or owners):
            return
        more: JsonObject = {"Owners": list(owners)} if owners else {}
        available = {"Name": "state", "Values": ["available"]}
        yield from self._ec2.items(
            "DescribeImages", "Images", Filters=[*filters, available], IncludeDeprecated=True, MaxResults=1000, **more
        )

    def _values(self, names: Sequence[str]) -> dict[str, str]:
        """Return parameter → image id; missing parameters are left out, since not every variant is published everywhere."""
        values: dict[str, str] = {}
        for start in range(0, len(names), _NAMES_PER_CALL):
            answer = self._ssm.call("GetParameters", Names=list(names[start : start + _NAMES_PER_CALL]))
            values |= {found["Name"]: found["Value"] for found in answer.get("Parameters", ())}
        return values


def _architecture(image: JsonObject) -> list[JsonObject]:
    return [{"key": labels.ARCH, "operator": "In", "values": [ARCHITECTURES[image["Architecture"]]]}]


def _rank(image: JsonObject, now: datetime) -> tuple[bool, str, str]:
    """Rank by not deprecated, then newer, then the larger name (Karpenter)."""
    return not _is_deprecated(image, now), str(image.get("CreationDate", "")), str(image.get("Name", ""))


def _is_deprecated(image: JsonObject, now: datetime) -> bool:
    text = image.get("DeprecationTime")
    return bool(text) and datetime.fromisoformat(str(text)) <= now


def _status(image: JsonObject, requirements: list[JsonObject], now: datetime) -> JsonObject:
    deprecated = {"deprecated": True} if _is_deprecated(image, now) else {}
    return {"id": image["ImageId"], "name": image.get("Name", ""), "requirements": requirements, **deprecated}
