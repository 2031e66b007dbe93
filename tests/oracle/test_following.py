"""The script that reads a release of Karpenter, on two small releases; and the page that it made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.oracle import following

PAGE = following.ROOT / "docs/engineering/following-karpenter.md"


_FLAG = 'fs.StringVar(&o.X, "scheduler-config", "")\n'


def a_release(folder: Path, *, reasons: list[str], fields: dict[str, Any], names: str, gates: str, codes: str) -> Path:
    """A module with one definition, names, options and codes."""
    spec = {"properties": {"reasons": {"type": "string", "enum": reasons}, **fields}}
    version = {"storage": True, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}
    files = {
        "pkg/apis/crds/x.yaml": yaml.safe_dump({"spec": {"names": {"kind": "NodePool"}, "versions": [version]}}),
        "pkg/apis/v1/labels.go": names,
        "pkg/apis/v1/labels_test.go": 'Group + "/only-in-a-test"',
        "pkg/operator/options/options.go": f"type FeatureGates struct {{\n\tinputStr string\n\n{gates}}}\n{_FLAG}",
        "pkg/errors/errors.go": codes,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    old = a_release(
        tmp_path / "old",
        reasons=["Empty", "Drifted"],
        fields={"gone": {"type": "string"}},
        names='Group + "/nodepool"',
        gates="\tNodeRepair bool\n",
        codes='"InsufficientInstanceCapacity"',
    )
    new = a_release(
        tmp_path / "new",
        reasons=["Drifted", "Empty", "Unhealthy"],
        fields={"weight": {"type": "integer"}, "hibernation": {"type": "boolean"}},
        names='Group + "/nodepool"\napis.Group + "/do-not-repair"\nGroup + "/hibernates-now"\nConditionTypeX = "Xylophone"',
        gates="\tNodeRepair  bool\n\tXylophones bool\n",
        codes='"InsufficientInstanceCapacity", "InvalidCapacityReservationState.Unavailable", "Xylophone.None"',
    )
    return old, new


def test_each_step_says_what_is_new_and_what_is_missing_here(releases: tuple[Path, Path]) -> None:
    old, new = releases
    definitions = (old / "pkg/apis/crds", new / "pkg/apis/crds")
    assert following.fields(*definitions) == [
        "NodePool spec.gone removed",
        "NodePool spec.hibernation MISSING",
        "NodePool spec.weight here",
    ]
    (value,) = following.values(*definitions)
    assert value.startswith("NodePool spec.reasons: ")
    assert value.count("Unhealthy") == 1
    names = following.changed(following.names("core", old), following.names("core", new))
    assert names == ["Xylophone MISSING", "karpenter.sh/do-not-repair here", "karpenter.sh/hibernates-now MISSING"]
    assert following.changed(following.options(old), following.options(new)) == ["Xylophones MISSING"]
    assert following.options(old) == {"NodeRepair", "--scheduler-config"}
    assert following.changed(following.codes(old), following.codes(new)) == [
        "InvalidCapacityReservationState.Unavailable here",
        "Xylophone.None MISSING",
    ]


def test_values_in_another_order_are_no_change(releases: tuple[Path, Path], tmp_path: Path) -> None:
    old, _ = releases
    other = a_release(tmp_path / "o", reasons=["Drifted", "Empty"], fields={}, names="", gates="", codes="")
    assert following.values(old / "pkg/apis/crds", other / "pkg/apis/crds") == []


def test_corpora_name_the_scenarios_that_are_judged_otherwise(tmp_path: Path) -> None:
    runner = (
        "import json, sys\n"
        "program = sys.argv[sys.argv.index('--cmd') + 1]\n"
        "other = 'failed' if 'new' in program else 'passed'\n"
        "rows = [{'name': 'same', 'status': 'passed'}, {'name': 'other', 'status': other}]\n"
        "open(sys.argv[sys.argv.index('--json') + 1], 'w').write(json.dumps({'results': rows}))\n"
    )
    for script in ("run.py", "run_disruption.py"):
        (tmp_path / script).write_text(runner)
    assert following.corpora(Path("/old"), Path("/new"), tmp_path) == ["other passed -> failed"]


def test_the_command_prints_the_rows_of_the_page(
    releases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = map(str, releases)
    monkeypatch.setattr(sys, "argv", ["following", "--provider", old, new, "--core", old, new])
    following.main()
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| fields",
        "| values",
        "| names of the core",
        "| gates and options of the core",
        "| names of the provider",
        "| gates and options of the provider",
        "| codes of errors",
    ]
    assert following.row("codes", []) == "| codes | nothing |\n"
    assert following.row("codes", [str(n) for n in range(42)]).endswith(", and 2 more |\n")


def test_all_that_the_release_brought_is_taken_in_or_decided() -> None:
    """What the page says is here must stay here."""
    text = PAGE.read_text()
    played = text[text.index("## Played for") :]
    assert "MISSING" not in played.partition("| step |")[2]
    named = [cell.removesuffix(" here") for cell in played.split("`") if cell.endswith(" here") and "spec." not in cell]
    assert len(named) >= 20
    assert [name for name in named if not following.is_named_here(name)] == []
    assert json.dumps(named).count("karpenter.sh/do-not-repair") == 1


@pytest.mark.ci
def test_the_recorded_requests_leave_nothing_undecided() -> None:
    assert following.requests() == []
