"""Turns a template that was synthesized for invented names into one with parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_LITERAL: Final = re.compile(r"\$\{(?!!)")
"""What `Fn::Sub` would take for a variable: in its text, a literal `${` is written `${!`."""

_SUB, _IMPORT, _GET = "Fn::Sub", "Fn::ImportValue", "Fn::GetAtt"


class RewriteError(Exception):
    """A template has something that no parameter can stand for; the message says where."""


def with_parameters(part: Any, names: Mapping[str, str]) -> Any:
    """Replace invented names in every text of the part.

    Args:
        part: A template, or a part of it.
        names: Invented name → the parameter or pseudo parameter in its place. Where one is within another, the outer counts,
            so none may begin with another.

    Raises:
        RewriteError: If a key contains an invented name: CloudFormation evaluates functions in values alone.
    """
    return _replaced(part, names, re.compile("|".join(map(re.escape, names))))


def _replaced(part: Any, names: Mapping[str, str], written: re.Pattern[str]) -> Any:
    if isinstance(part, list):
        if len(part) == 1 and isinstance(part[0], str) and names.get(part[0], "").endswith("Ids"):
            return {"Ref": names[part[0]]}  # a list parameter stands for the whole list
        return [_replaced(value, names, written) for value in part]
    if isinstance(part, dict):
        wrong = next((key for key in part if written.search(key)), None)
        if wrong is not None:
            raise RewriteError(f"the key {wrong} depends on a parameter")
        if set(part) == {_SUB}:
            return {_SUB: _within_sub(part[_SUB], names, written)}
        return {key: _replaced(value, names, written) for key, value in part.items()}
    if not isinstance(part, str) or not written.search(part):
        return part
    if part in names:
        return {"Ref": names[part]}
    return {_SUB: written.sub(lambda match: f"${{{names[match[0]]}}}", _LITERAL.sub("${!", part))}


def _within_sub(text: Any, names: Mapping[str, str], written: re.Pattern[str]) -> Any:
    if isinstance(text, list):
        return [_within_sub(text[0], names, written), _replaced(text[1], names, written)]
    return written.sub(lambda match: f"${{{names[match[0]]}}}", text)


def merged(template: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Put the resources of the state stack into the template, which imports them so far.

    Raises:
        RewriteError: If both have a resource of the same id, or something is imported that the state stack does not export.
    """
    twice = set(template["Resources"]) & set(state["Resources"])
    if twice:
        raise RewriteError(f"both stacks have {', '.join(sorted(twice))}")
    exported = {stated["Export"]["Name"]: stated["Value"] for stated in state.get("Outputs", {}).values()}
    resources = {**state["Resources"], **template["Resources"]}
    return {**template, "Resources": {i: _own(resource, exported) for i, resource in resources.items()}}


def _own(part: Any, exported: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_own(value, exported) for value in part]
    if not isinstance(part, dict):
        return part
    if set(part) == {_IMPORT}:
        if part[_IMPORT] not in exported:
            raise RewriteError(f"{part[_IMPORT]} is imported, and the state stack does not export it")
        return exported[part[_IMPORT]]
    return {key: _own(value, exported) for key, value in part.items()}


def references(part: Any) -> set[str]:
    """Return the names that a part of a template refers to: parameters, resources and pseudo parameters."""
    if isinstance(part, list):
        return set().union(*map(references, part)) if part else set()
    if not isinstance(part, dict):
        return set()
    names = set().union(*map(references, part.values())) if part else set()
    if set(part) == {"Ref"}:
        names.add(part["Ref"])
    if set(part) == {_GET}:
        names.add(part[_GET][0] if isinstance(part[_GET], list) else part[_GET].partition(".")[0])
    if set(part) == {_SUB}:
        text = part[_SUB][0] if isinstance(part[_SUB], list) else part[_SUB]
        names |= {name.partition(".")[0] for name in re.findall(r"\$\{([^!}][^}]*)\}", text)}
    return names
