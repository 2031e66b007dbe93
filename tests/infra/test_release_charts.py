"""The Helm charts of a release: the functions' permissions in the cluster, and the definitions."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import yaml

from infra.release import charts
from infra.release.archives import pack_tar, sha256
from infra.release.version import Version
from installation.cluster_roles import manifests

VERSION = Version("1.2.3-rc.1")
ARGUMENTS = {**{name: argument for name, (argument, _) in charts.FLAGS.items()}, charts.SHADOW: "shadow"}


def rendered(template: str, values: dict[str, bool]) -> list[object]:
    """What Helm makes of a template that has nothing but `if .Values.NAME`, `else` and `end`, each on a line."""
    shown, kept = [True], []
    for line in template.splitlines():
        if match := re.fullmatch(r"\{\{- if \.Values\.(\w+) \}\}", line):
            shown.append(shown[-1] and values[match[1]])
        elif line == "{{- else }}":
            shown[-1] = shown[-2] and not shown[-1]
        elif line == "{{- end }}":
            shown.pop()
        elif shown[-1]:
            kept.append(line)
    assert shown == [True]
    assert "{{" not in "".join(kept)
    return [document for document in yaml.safe_load_all("\n".join(kept)) if document]


@pytest.mark.parametrize("chosen", list(itertools.product((False, True), repeat=4)))
def test_the_chart_grants_what_the_list_of_permissions_says(chosen: tuple[bool, ...]) -> None:
    values = dict(zip(ARGUMENTS, chosen, strict=True))
    wanted = manifests(**{ARGUMENTS[name]: value for name, value in values.items()})
    assert rendered(charts.access(VERSION)["fleetwright-access/templates/access.yaml"], values) == list(wanted)


def test_values_and_their_schema_have_the_same_names() -> None:
    chart = charts.access(VERSION)
    values = yaml.safe_load(chart["fleetwright-access/values.yaml"])
    schema = yaml.safe_load(chart["fleetwright-access/values.schema.json"])
    assert values == dict.fromkeys(ARGUMENTS, False)
    assert set(schema["properties"]) == {*ARGUMENTS, "global"}


def test_definitions_are_those_of_the_repository() -> None:
    chart = charts.definitions(VERSION)
    texts = {path.rpartition("/")[2]: text for path, text in chart.items() if "/templates/" in path}
    folder = Path(__file__).parents[2] / "crds"
    assert texts == {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}


@pytest.mark.parametrize("chart", [charts.access(VERSION), charts.definitions(VERSION)])
def test_charts_have_the_releases_version_and_accept_eks(chart: dict[str, str]) -> None:
    """`v1.33.1-eks-1` is a prerelease to SemVer, which a bound without a suffix refuses."""
    (stated,) = (yaml.safe_load(text) for path, text in chart.items() if path.endswith("/Chart.yaml"))
    assert stated["version"] == stated["appVersion"] == "1.2.3-rc.1"
    assert stated["kubeVersion"].endswith("-0")


def test_a_chart_is_packed_with_the_same_bytes(tmp_path: Path) -> None:
    files = charts.access(VERSION)
    pack_tar(files, tmp_path / "a.tgz")
    pack_tar(dict(reversed(files.items())), tmp_path / "b.tgz")
    assert sha256(tmp_path / "a.tgz") == sha256(tmp_path / "b.tgz")
