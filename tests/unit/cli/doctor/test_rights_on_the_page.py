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
from cli.doctor.probe import PERMISSION_OF, PROBES
from core.manifests.wire.resources import Resource
from tests.unit.cli.doctor.test_examples_on_the_page import PAGE

PROVING: Final = PAGE.with_name("proving-run.md")
FOLDER: Final = Path(cli.doctor.__file__).parent
ACTION_OF: Final = {"s3:ListObjectsV2": "s3:ListBucket"}
"""Calls whose permission has another name."""

WITHOUT_PERMISSION: Final = {"sts:GetCallerIdentity", "none"}
"""AWS answers it to everybody."""


def calls(*methods: str, probes: bool) -> Iterator[tuple[str, ast.Call]]:
    """Module and call, of every call of these methods in the doctor's checks, or in its probes."""
    for path in sorted(FOLDER.glob("*.py")):
        if (path.stem == "probe") != probes:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                yield f"cli.doctor.{path.stem}", node


def asked_of_aws(*, probes: bool = False) -> set[str]:
    """The permissions for the calls. `Account` itself passes on what it is given."""
    found, unnamed = set(), []
    for module, call in calls("ask", "every", "answered", probes=probes):
        names = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
        if len(names) == 2:
            found.add(f"{names[0]}:{names[1]}")
        else:
            unnamed.append(module)
    assert set(unnamed) <= {"cli.doctor.network", "cli.doctor.recording"}
    return {ACTION_OF.get(one, PERMISSION_OF.get(one, one)) for one in found} - WITHOUT_PERMISSION


def asked_of_the_api_server(*, probes: bool = False) -> set[tuple[str, str, str]]:
    """API group, resource and verb."""
    found = set()
    for module, call in calls("find", "list", probes=probes):
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
    assert permitted_on(PAGE) == sorted(asked_of_aws())


def permitted_on(page: Path) -> list[str]:
    (policy,) = re.findall(r"```json\n(\{\"Version\".*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (statement,) = json.loads(policy)["Statement"]
    actions: list[str] = statement["Action"]
    return actions


def test_the_page_of_the_proving_run_names_what_the_probes_ask_beyond() -> None:
    """And each probe says the same of itself."""
    asked = asked_of_aws(probes=True)
    assert permitted_on(PROVING) == sorted(asked - asked_of_aws())
    said = {one["permission"] for made in PROBES.values() for one in made.listed()}
    assert sorted(said - {"none"} - asked_of_aws()) == sorted(asked - asked_of_aws())
    assert read_on(PROVING) == asked_of_the_api_server(probes=True)


def test_the_page_of_the_proving_run_has_a_row_for_each_probe() -> None:
    named = re.findall(r"^\| `([a-z0-9-]+)` \| [^|`]+\|$", PROVING.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == list(PROBES)


def test_the_page_names_everything_that_is_read_from_the_api_server() -> None:
    assert read_on(PAGE) == asked_of_the_api_server()


def read_on(page: Path) -> set[tuple[str, str, str]]:
    rows = re.findall(r"^\| (\S*) \| `(\w+)` \| `(get|list)` \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {(group.strip("`").replace("core", ""), plural, verb) for group, plural, verb in rows}
