"""The page names every call of the doctor's checks: without one of them a check says `unknown`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import cli.doctor
from core.manifests.wire.resources import Resource
from tests.unit.cli.doctor.test_examples_on_the_page import PAGE

FOLDER: Final = Path(cli.doctor.__file__).parent
ACTION_OF: Final = {"s3:ListObjectsV2": "s3:ListBucket"}
"""Calls whose permission has another name."""

WITHOUT_PERMISSION: Final = {"sts:GetCallerIdentity"}
"""AWS answers it to everybody."""


def calls(*methods: str) -> Iterator[tuple[str, ast.Call]]:
    """Module and call, of every call of these methods in the doctor's code."""
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                yield f"cli.doctor.{path.stem}", node


def asked_of_aws() -> set[str]:
    found, unnamed = set(), []
    for module, call in calls("ask", "every"):
        names = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
        if len(names) == 2:
            found.add(f"{names[0]}:{names[1]}")
        else:
            unnamed.append(module)
    assert unnamed == ["cli.doctor.network"], "only `every` passes on what it is given"
    return {ACTION_OF.get(one, one) for one in found} - WITHOUT_PERMISSION


def asked_of_the_api_server() -> set[tuple[str, str, str]]:
    """API group, resource and verb."""
    found = set()
    for module, call in calls("find", "list"):
        if ast.unparse(call.func) not in ("account.api.find", "account.api.list"):
            continue
        what = call.args[0]
        name = ast.unparse(what.value if isinstance(what, ast.Subscript) else what)
        asked: Any = getattr(import_module(module), name)
        verb = "get" if ast.unparse(call.func).endswith("find") else "list"
        resources = [asked] if isinstance(asked, Resource) else list(asked.values())
        found |= {(one.group, one.plural, verb) for one in resources}
    return found


def test_the_page_names_every_call_to_aws() -> None:
    """Nobody was told which permissions the doctor needs."""
    (policy,) = re.findall(r"```json\n(\{\"Version\".*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (statement,) = json.loads(policy)["Statement"]
    assert statement["Action"] == sorted(asked_of_aws())


def test_the_page_names_everything_that_is_read_from_the_api_server() -> None:
    rows = re.findall(r"^\| (\S*) \| `(\w+)` \| `(get|list)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {(group.strip("`").replace("core", ""), plural, verb) for group, plural, verb in rows} == (
        asked_of_the_api_server()
    )
