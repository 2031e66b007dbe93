"""The real API server takes our CustomResourceDefinitions, and then refuses what `fleetwright validate` refuses.

Both judge the public conformance scenarios and objects that differ from good ones in one place. Every disagreement is
printed and left in `build/e2e-crds.json`.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from adapters.ports import DeniedError, PortError
from core.api.crds import definitions
from core.api.objects import JsonObject
from core.api.older_versions import problems
from core.api.status import Problem
from tests.e2e.crd_corpus import corpus
from tests.e2e.parts.admin import Admin
from tests.e2e.parts.control_plane import ControlPlane
from tests.e2e.parts.processes import Processes

ROOT: Final = Path(__file__).parents[2]
SCENARIOS: Final = Path(os.environ.get("SHARED", str(ROOT.parent / "shared"))) / "conformance" / "validation"
REPORT: Final = ROOT / "build" / "e2e-crds.json"

WHOLE_CORPUS: Final = "FLEETWRIGHT_E2E_WHOLE_CORPUS"
"""Set it to ask about all 20,000 objects; otherwise about a few for each way of being wrong, and some good ones."""

GOOD: Final = "good"
EACH_MAX: Final = 1
GOOD_MAX: Final = 100

UNKNOWN_KUBELET_FIELD: Final = "there is no such field"
"""The API server cannot refuse a field that its schema does not know; it keeps it in `kubelet`, and the functions refuse
the class with the condition ValidationSucceeded (as Karpenter does)."""

UNKNOWN_TIME_ZONE: Final = "is not an IANA time zone"
"""No rule of a schema can look a zone up; the functions ignore such a Calendar and say so."""


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    folder = tmp_path_factory.mktemp("crds")
    with Processes(folder / "logs") as processes:
        plane = ControlPlane(processes, folder / "control-plane")
        plane.start_servers()
        plane.admin.apply(definitions())
        yield plane.admin
        plane.stop()


def refusal(admin: Admin, obj: JsonObject) -> str:
    """What the API server says against it, empty where it takes it."""
    try:
        admin.create(copy.deepcopy(obj), dry_run=True)
    except DeniedError as error:
        return error.detail
    return ""


def disagreements(admin: Admin, objects: Iterable[tuple[str, JsonObject]]) -> list[JsonObject]:
    found = []
    for label, obj in objects:
        theirs, ours = refusal(admin, obj), [str(problem) for problem in problems(obj)]
        if bool(theirs) != bool(ours):
            found.append({"object": label, "apiServer": theirs or "valid", "validate": ours or "valid"})
    return found


def report(part: str, asked: int, found: list[JsonObject]) -> None:
    """Leave the figures and the disagreements as data, and print them."""
    REPORT.parent.mkdir(exist_ok=True)
    whole: JsonObject = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    whole[part] = {"objects": asked, "disagreements": found}
    REPORT.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
    print(f"{part}: {asked} objects, {len(found)} disagreements")
    for one in found:
        print(f"  {one['object']}: API server: {one['apiServer']}; validate: {one['validate']}")


def are_deliberate(found: JsonObject) -> bool:
    """Whether only `validate` refuses the object, for what no schema can tell."""
    beyond_schemas = (UNKNOWN_KUBELET_FIELD, UNKNOWN_TIME_ZONE)
    return found["validate"] != "valid" and all(
        any(words in problem for words in beyond_schemas) for problem in found["validate"]
    )


def scenarios() -> list[JsonObject]:
    found = [yaml.safe_load(path.read_text()) for path in sorted(SCENARIOS.glob("*.yaml"))]
    return [scenario for scenario in found if scenario["command"] == "validate"]


def _way(problem: Problem) -> str:
    """A field of a kind and what is wrong with it, whatever the object, the entry and the value."""
    return re.sub(r"'.*'|[0-9]+", "", f"{problem.kind} {problem.field}: {problem.message}")


def picked() -> Iterator[tuple[str, JsonObject]]:
    """The corpus, or a few of it for each field and way of being wrong."""
    taken: Counter[str] = Counter()
    for label, obj in corpus():
        ways = {_way(problem) for problem in problems(obj)} or {GOOD}
        if WHOLE_CORPUS in os.environ or any(taken[way] < (GOOD_MAX if way == GOOD else EACH_MAX) for way in ways):
            taken.update(ways)
            yield label, obj


def test_the_public_scenarios_are_judged_alike(admin: Admin) -> None:
    if not SCENARIOS.is_dir():
        pytest.skip(f"no scenarios at {SCENARIOS}: set SHARED to their folder")
    objects = [(scenario["name"], obj) for scenario in scenarios() for obj in scenario["input"]]
    found = disagreements(admin, objects)
    report("scenarios", len(objects), found)
    assert not [one for one in found if not are_deliberate(one)]
    wrong = [
        scenario["name"]
        for scenario in scenarios()
        if scenario["expect"]["valid"] == any(refusal(admin, obj) for obj in scenario["input"])
    ]
    assert set(wrong) <= {one["object"] for one in found}


def test_objects_wrong_in_one_place_are_judged_alike(admin: Admin) -> None:
    objects = list(picked())
    found = disagreements(admin, objects)
    report("corpus", len(objects), found)
    assert not [one for one in found if not are_deliberate(one)]


def test_what_may_not_change_does_not(admin: Admin) -> None:
    """Otherwise, an edit would seem to work, and nothing would come of it."""
    pool, claim = (
        next(obj for label, obj in corpus() if label == wanted) for wanted in ("NodePool rich", "NodeClaim rich-0")
    )
    admin.apply([pool, claim])
    pools, claims = "nodepools.karpenter.sh", "nodeclaims.karpenter.sh"
    admin.patch(pools, "rich", {"spec": {"weight": 20}})
    with pytest.raises(PortError, match="kind cannot be changed"):
        admin.patch(pools, "rich", {"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}})
    with pytest.raises(PortError, match="replicas can be neither added"):
        admin.patch(pools, "rich", {"spec": {"replicas": 1, "weight": None, "limits": None}})
    with pytest.raises(PortError, match="spec cannot be changed"):
        admin.patch(claims, "rich-0", {"spec": {"expireAfter": "1h"}})


def test_defaults_are_written_into_what_is_stored(admin: Admin) -> None:
    """Drift hashes and people read the object as it is stored."""
    bare = next(obj for label, obj in corpus() if label == "NodePool static")
    stored = admin.create(copy.deepcopy(bare), dry_run=True)
    assert stored["spec"]["disruption"]["budgets"] == [{"nodes": "10%"}]
    assert stored["spec"]["template"]["spec"]["expireAfter"] == "720h"


def test_status_is_written_apart_from_the_spec(admin: Admin) -> None:
    """The functions may patch `nodepools/status` and nothing else of a NodePool but annotations."""
    admin.apply([next(obj for label, obj in corpus() if label == "NodePool static")])
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"nodes": 2, "resources": {"cpu": "8"}, "conditions": [condition]}
    admin.patch("nodepools.karpenter.sh", "static", {"status": status, "spec": {"replicas": 9}}, subresource="status")
    stored = admin.get("nodepools.karpenter.sh", "static")
    assert stored is not None
    assert (stored["status"]["nodes"], stored["spec"]["replicas"]) == (2, 3)
