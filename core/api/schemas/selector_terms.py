"""The terms by which an EC2NodeClass selects subnets, security groups, images and capacity reservations.

All conditions of a term must hold; any one of several terms is enough. Karpenter refuses a list for mixing an id with
other conditions only where every term of it does so; a single such term works, and its id wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from core.ami_families.image_parameters import LATEST
from core.ami_families.registry import BY_ALIAS
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule

TERMS_MAX: Final = 30

_ONLY_LATEST: Final = [alias for alias, family in BY_ALIAS.items() if not family.has_releases]

Tags = Annotated[dict[str, str], Field(max_length=20)]


def _empty_tags(term: JsonObject) -> list[Location]:
    return [("tags", key) for key, value in term.get("tags", {}).items() if not key or not value]


def cel_has_any(names: Iterable[str], of: str = "self") -> str:
    """Return a CEL expression: whether one of the fields is set."""
    return " || ".join(f"has({of}.{name})" for name in names)


def _needs_one_of(*names: str) -> Rule:
    def broken(term: JsonObject) -> list[Location]:
        return [] if any(name in term for name in names) else [()]

    return Rule((), broken, f"needs at least one of {', '.join(names)}", cel_has_any(names))


_TAGS_ARE_FULL: Final = Rule(
    ("tags",),
    _empty_tags,
    "tags need a key and a value; use * to match every value",
    "!has(self.tags) || self.tags.all(key, key != '' && self.tags[key] != '')",
)


class SubnetTerm(ApiModel):
    """One entry of `spec.subnetSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.SUBNET_ID)] | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id"))


class SecurityGroupTerm(ApiModel):
    """One entry of `spec.securityGroupSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.SECURITY_GROUP_ID)] | None = None
    name: str | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id", "name"))


class ReservationTerm(ApiModel):
    """One entry of `spec.capacityReservationSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.RESERVATION_ID)] | None = None
    owner_id: Annotated[str, Field(pattern=fields.ACCOUNT_ID)] | None = None
    instance_match_criteria: Literal["open", "targeted"] | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id", "instanceMatchCriteria"))


def _unknown_family(term: JsonObject) -> list[Location]:
    family = term.get("alias", "al2@").partition("@")[0]
    return [] if family in BY_ALIAS else [("alias",)]


def _without_releases(term: JsonObject) -> list[Location]:
    family, _, release = term.get("alias", "").partition("@")
    return [("alias",)] if family in _ONLY_LATEST and release != LATEST else []


def _alone(*names: str) -> Rule:
    """The rule that refuses the first field beside one of the others."""
    first, *others = names

    def broken(term: JsonObject) -> list[Location]:
        return [(first,)] if first in term and any(name in term for name in others) else []

    listed = f"{', '.join(others[:-1])} or {others[-1]}"
    return Rule(
        (), broken, f"cannot be combined with {listed}", f"!has(self.{first}) || !({cel_has_any(others)})", first
    )


class AmiTerm(ApiModel):
    """One entry of `spec.amiSelectorTerms`."""

    alias: Annotated[str, Field(pattern=fields.AMI_ALIAS, max_length=30)] | None = None
    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.AMI_ID)] | None = None
    name: str | None = None
    owner: str | None = None
    ssm_parameter: str | None = None

    rules = (
        _TAGS_ARE_FULL,
        _needs_one_of("tags", "id", "name", "alias", "ssmParameter"),
        Rule(
            ("alias",),
            _unknown_family,
            f"its family is not one of {', '.join(BY_ALIAS)}",
            f"!has(self.alias) || self.alias.split('@')[0] in {list(BY_ALIAS)}",
        ),
        Rule(
            ("alias",),
            _without_releases,
            "this family supports only the version latest",
            f"!has(self.alias) || !(self.alias.split('@')[0] in {_ONLY_LATEST}) || self.alias.find('@.*') == '@{LATEST}'",
        ),
        _alone("id", "alias", "tags", "name", "owner"),
        _alone("alias", "tags", "name", "owner"),
    )


def every_term_mixes(field: str, name: str, others: Iterable[str]) -> Rule:
    """The rule that refuses a list in which every term combines `name` with one of `others`."""
    forbidden = tuple(others)

    def broken(spec: JsonObject) -> list[Location]:
        terms = spec.get(field, [])
        mixed = all(name in term and any(other in term for other in forbidden) for term in terms)
        return [(field, index, name) for index in range(len(terms))] if mixed else []

    mixing = f"has(term.{name}) && ({cel_has_any(forbidden, of='term')})"
    cel = f"!has(self.{field}) || self.{field}.size() == 0 || !self.{field}.all(term, {mixing})"
    return Rule((field,), broken, f"cannot be combined with {' or '.join(forbidden)}", cel)
