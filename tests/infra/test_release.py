"""What a release consists of: each file has a test, the same sources give the same bytes, and nothing is left to fill in."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from core.version import VERSION as OWN
from infra.context import KEYS
from infra.release import artefacts, bill, channels, charts, image, parameters, requirements
from infra.release.__main__ import STATED, copy_sources
from infra.release.archives import digest_of_folder, pack_tar, pack_zip, sha256
from infra.release.rewriting import RewriteError, merged, references, with_parameters
from infra.release.settings_digest import digest_of
from infra.release.templates import INVENTED, NOT_A_SETTING, VARIANTS, template_of
from infra.release.version import Version, VersionError
from installation.cluster_roles import manifests
from installation.settings import Settings
from tests.infra.conftest import synthesize
from tests.release.channel_checks import gitlab_component, run_script
from tests.release.checks import CHECKS, Place

ROOT = Path(__file__).parents[2]
RELEASED_VERSION = Version("1.2.3")
LINES = [
    line
    for name in ("requirements.txt", "requirements-cli.txt")
    for line in (ROOT / name).read_text().splitlines()
    if line and not line.startswith(("#", "-"))
]
"""What the wheel may ask for: each must be in the lock, or no release can be built."""


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, str]:
    """The files for other channels, of a wheel and a plugin that are there in name alone."""
    for name in ("fleetwright_eks-1.2.3-py3-none-any.whl", "plugin.zip"):
        (tmp_path / name).write_text(name)
    wheel, plugin = sorted(tmp_path.iterdir())
    return channels.written(channels.values(RELEASED_VERSION, wheel, plugin))


def test_every_file_of_a_release_has_a_test_that_there_is() -> None:
    assert {name for _, name in artefacts.TEST_OF} == set(CHECKS)
    with pytest.raises(LookupError, match="has no test"):
        artefacts.test_of("notes.txt")


def test_a_release_lists_its_files_with_digests_that_sha256sum_accepts(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "x-1.2.3.tgz").write_bytes(b"x")
    found = artefacts.collected(tmp_path)
    artefacts.write_checksums(tmp_path, found)
    release = artefacts.Release(version="1.2.3", commit="", is_modified=False, artefacts=found, not_checked=[])
    artefacts.write(tmp_path, release)
    assert artefacts.read(tmp_path) == release
    assert [artefact.file for artefact in artefacts.collected(tmp_path)] == ["charts/x-1.2.3.tgz"]
    checked = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=False)  # noqa: S607
    assert checked.returncode == 0


def test_a_zip_has_the_same_bytes_whenever_it_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.py").write_text("b")
    pack_zip(folder, tmp_path / "first.zip")
    digest = digest_of_folder(folder)
    (folder / "b.py").unlink()
    (folder / "b.py").write_text("b")
    pack_zip(folder, tmp_path / "second.zip")
    assert sha256(tmp_path / "first.zip") == sha256(tmp_path / "second.zip")
    (folder / "b.py").write_text("c")
    assert digest_of_folder(folder) != digest


def test_the_version_is_stated_once_and_the_copy_of_the_sources_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "core" / "version.py").read_text()
    assert STATED.findall(text) == [f'VERSION: Final = "{OWN}"']
    (tmp_path / "sources" / "core").mkdir(parents=True)
    (tmp_path / "sources" / "core" / "version.py").write_text(text)
    (tmp_path / "sources" / "build").mkdir()
    monkeypatch.setattr("infra.release.__main__.ROOT", tmp_path / "sources")
    copy_sources(tmp_path / "copied", Version("2.0.0-rc.1"))
    assert 'VERSION: Final = "2.0.0rc1"' in (tmp_path / "copied" / "core" / "version.py").read_text()
    assert not (tmp_path / "copied" / "build").exists()


def test_everything_that_the_command_line_needs_is_locked_with_hashes() -> None:
    """Otherwise, the single file would hold what nobody has looked at."""
    locked = requirements.entries()
    needed = requirements.closure(LINES)
    assert {"kubernetes", "pyyaml", "certifi", "urllib3"} <= set(needed)
    assert all("--hash=sha256:" in locked[name] for name in needed)
    assert "argparse-manpage" not in needed, "it has no wheel"


def test_the_bill_of_materials_lists_each_package_once_with_its_version() -> None:
    made = bill.of_command_line(LINES, RELEASED_VERSION)
    refs = [component["bom-ref"] for component in made["components"]]
    assert len(refs) == len(set(refs))
    assert f"pkg:pypi/pyyaml@{requirements.version_of(requirements.entries()['pyyaml'])}" in refs
    assert made["dependencies"][0]["dependsOn"] == refs


def test_no_text_for_another_channel_is_left_to_fill_in(texts: dict[str, str]) -> None:
    left = {path: re.findall(r"@[A-Z][A-Z0-9_]+@", text) for path, text in texts.items()}
    assert {path: names for path, names in left.items() if names} == {}
    assert yaml.safe_load(texts["krew/fleetwright.yaml"])["spec"]["version"] == "v1.2.3"
    assert all(f'"{variant.name}"' in texts["terraform/variables.tf"] for variant in VARIANTS)


def test_nothing_tells_people_to_install_a_name_that_a_stranger_may_take(texts: dict[str, str]) -> None:
    """Until a release is on an index, the wheel is named by its path or URL."""
    assert not [path for path, text in texts.items() if re.search(r"fleetwright(-eks)?==", text)]


@pytest.mark.ci
def test_the_action_validates_compares_and_notes_what_later_steps_read(texts: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(texts["github-action/run.sh"])
    made = run_script(script, tmp_path)
    assert made["code"] == "0"
    assert "| nodes |" in made["markdown"]
    assert json.loads(made["sarif"])["runs"]


def test_the_component_declares_what_it_reads(texts: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gitlab").mkdir()
    (tmp_path / "gitlab" / "fleetwright.yml").write_text(texts["gitlab/fleetwright.yml"])
    assert "can be read" in gitlab_component(tmp_path)


def test_a_wrong_version_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.release", "v1", str(tmp_path / "release")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert ran.returncode == 1
    assert "'v1' is not a version" in ran.stderr
    assert not (tmp_path / "release").exists()


class Notes(BaseHTTPRequestHandler):
    """GitLab's notes of one merge request, two on a page."""

    notes: ClassVar[list[dict[str, Any]]] = []
    tokens: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        page = int(parse_qs(urlsplit(self.path).query)["page"][0])
        self._reply(self.notes[2 * page - 2 : 2 * page], str(page + 1) if len(self.notes) > 2 * page else "")

    def do_POST(self) -> None:
        assert self.path == "/api/v4/projects/7/merge_requests/9/notes"
        self.notes.append({"id": len(self.notes) + 1, "body": self._body()})
        self._reply(self.notes[-1], "")

    def do_PUT(self) -> None:
        note = self.notes[int(self.path.rpartition("/")[2]) - 1]
        note["body"] = self._body()
        self._reply(note, "")

    def _body(self) -> str:
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def _reply(self, answer: Any, following: str) -> None:
        self.tokens.add(str(self.headers["PRIVATE-TOKEN"]))
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("X-Next-Page", following)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Say nothing."""


def test_gitlabs_component_keeps_one_comment(texts: dict[str, str], tmp_path: Path) -> None:
    """Other people's notes stay, also those of earlier pages; the second run replaces what the first wrote."""
    _, jobs = yaml.safe_load_all(texts["gitlab/fleetwright.yml"])
    script = jobs["fleetwright"]["script"][-1]
    Notes.notes[:] = [{"id": number, "body": f"note {number}"} for number in (1, 2, 3)]
    with ThreadingHTTPServer(("127.0.0.1", 0), Notes) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        around = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "CI_API_V4_URL": f"http://127.0.0.1:{server.server_address[1]}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "9",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc",
            "TOKEN": "secret",
        }
        try:
            for text in ("first", "second"):
                (tmp_path / "fleetwright-diff.md").write_text(text)
                subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=around, check=True, timeout=60)  # noqa: S603 - ours
            subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=around | {"TOKEN": ""}, check=True)  # noqa: S603 - ours
        finally:
            server.shutdown()
            thread.join()
    assert [note["body"] for note in Notes.notes] == ["note 1", "note 2", "note 3", "<!-- fleetwright -->\nsecond"]
    assert Notes.tokens == {"secret"}


def test_a_release_names_the_page_that_it_is_given() -> None:
    assert channels.homepage("") == channels.NO_HOMEPAGE
    assert channels.homepage("https://github.com/owner/name/") == "https://github.com/owner/name"
    for wrong in ("http://example.com", "example.com", "https://a b.com", 'https://example.com/"x'):
        with pytest.raises(VersionError, match="is not an address"):
            channels.homepage(wrong)


# The Helm charts of a release: the functions' permissions in the cluster, and the definitions.


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


# The templates of a release: one stack for any cluster, with parameters, that makes what `cdk deploy` makes.


DIGESTS: Final = {"base": "b" * 64, "solver": "c" * 64}
OTHER_CODE: Final = {"base": "d" * 64, "solver": "c" * 64}
TEMPLATES_VERSION: Final = Version("1.2.3")

SHAPE: Final = {"vpc", "mode", "shareCapacity", "tableName", "distributeFrom"}
"""Keys of the context that decide which resources there are: other templates, or a checkout."""

TOLD_OTHERWISE: Final = {
    "account": "AWS::AccountId",
    "region": "AWS::Region",
    "cluster": "ClusterName",
    "nodeRoles": "NodeRole",
    "auditLogGroup": "AuditLogSubscription",
    "imageParameters": "a checkout: a list of ARNs in a policy",
}

BY_CONTENT: Final = {"AWS::Lambda::Version", "AWS::IAM::ManagedPolicy"}
"""Kinds whose ids depend on the code, or that the CDK makes where a role's policy is too long."""

Template = dict[str, Any]


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template that acts by itself, synthesized once for all of xdist's workers."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    path = shared / "released.json"
    with (shared / "released.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(template_of(VARIANTS[0], TEMPLATES_VERSION, DIGESTS, shared / "released")))
    return dict(json.loads(path.read_text()))


def of_kind(template: Template, kind: str) -> dict[str, Template]:
    return {i: found for i, found in template["Resources"].items() if found["Type"] == kind}


def resolved(part: Any, given: dict[str, Any]) -> Any:
    """The part with parameters' values, and every other reference as its text."""
    if isinstance(part, dict) and set(part) == {"Ref"}:
        return given.get(part["Ref"], f"<{part['Ref']}>")
    if isinstance(part, dict) and set(part) == {"Fn::Join"}:
        joined = resolved(part["Fn::Join"][1], given)
        return part["Fn::Join"][0].join(joined if isinstance(joined, list) else joined.split(","))
    if isinstance(part, dict) and set(part) == {"Fn::Sub"}:
        text = part["Fn::Sub"]
        for name, value in given.items():
            text = text.replace(f"${{{name}}}", str(value))
        return text
    if isinstance(part, dict) and set(part) == {"Fn::If"}:
        return resolved(part["Fn::If"][1 if part["Fn::If"][0] == "FollowsZonalShift" else 2], given)
    if isinstance(part, list):
        return [resolved(value, given) for value in part]
    return part if isinstance(part, str) else json.dumps(part)


def test_it_needs_neither_bootstrap_nor_another_stack(released: Template) -> None:
    written = json.dumps(released)
    assert "cdk-hnb" not in written
    assert "BootstrapVersion" not in written
    assert "Fn::ImportValue" not in written
    assert not [name for name in INVENTED if name in written]
    assert "RoleName" not in written, "CAPABILITY_IAM is enough"


def test_every_reference_leads_somewhere_and_every_parameter_is_used(released: Template) -> None:
    known = {*released["Parameters"], *released["Resources"]}
    rest = references({key: released[key] for key in ("Conditions", "Resources", "Outputs")})
    assert {name for name in rest - known if not name.startswith("AWS::")} == set()
    assert set(released["Parameters"]) <= rest
    grouped = released["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in grouped for name in group["Parameters"]) == sorted(released["Parameters"])


def test_it_makes_what_cdk_deploy_makes(released: Template, templates: dict[str, Template]) -> None:
    """Otherwise, a stack of one could not be updated by the other, and tests of one would say nothing about the other."""
    deployed = (
        templates["fleetwright-fleetwright"]["Resources"] | templates["fleetwright-fleetwright-state"]["Resources"]
    )
    kinds = {i: found["Type"] for i, found in deployed.items() if found["Type"] not in BY_CONTENT}
    ours = {i: found["Type"] for i, found in released["Resources"].items() if found["Type"] not in BY_CONTENT}
    assert {i: kind for i, kind in kinds.items() if ours.get(i) != kind} == {}
    added = {i for i in ours if i not in kinds}
    assert {i for i in added if not i.startswith("Settings")} == {"AlarmSubscription", "NodeAccessEntry"}


def test_with_defaults_functions_have_the_settings_of_cdk_deploy(
    released: Template, templates: dict[str, Template]
) -> None:
    given = {name: stated["Default"] for name, stated in released["Parameters"].items() if "Default" in stated}
    given = {name: str(value) for name, value in given.items()}
    given |= {"ClusterName": "fleetwright", "AWS::Region": "us-east-1"}
    ours, theirs = of_kind(released, "AWS::Lambda::Function"), templates["fleetwright-fleetwright"]["Resources"]
    compared = 0
    for i, function in ours.items():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        if "CLUSTER_NAME" not in variables:
            continue
        mine = Settings.from_environment({name: resolved(value, given) for name, value in variables.items()})
        stated = theirs[i]["Properties"]["Environment"]["Variables"]
        other = Settings.from_environment({name: resolved(value, {}) for name, value in stated.items()})
        assert _without_places(mine) == _without_places(other)
        compared += 1
    assert compared == 7


def _without_places(settings: Settings) -> dict[str, Any]:
    values = {field: getattr(settings, field) for field in settings.__struct_fields__}
    return {f: v for f, v in values.items() if not f.endswith(("table_name", "bucket_name", "cluster_arn"))}


def test_a_changed_setting_publishes_versions_and_changes_the_functions(released: Template) -> None:
    """Lambda refuses a version of an unchanged function, and CloudFormation asks for none while the version has not changed."""
    digest = {"Fn::GetAtt": ["SettingsDigest", "Digest"]}
    versions = of_kind(released, "AWS::Lambda::Version")
    assert len(versions) == 7
    for version in versions.values():
        assert version["Properties"]["Description"] == digest
        function = released["Resources"][version["Properties"]["FunctionName"]["Ref"]]
        assert function["Properties"]["Environment"]["Variables"]["SETTINGS_DIGEST"] == digest
    digested = set(released["Resources"]["SettingsDigest"]["Properties"]) - {"ServiceToken"}
    assert digested == set(released["Parameters"]) - NOT_A_SETTING


def test_digests_of_settings_differ_by_value_alone() -> None:
    settings = {"ServiceToken": "arn", "PollSeconds": "10", "PriceTerms": "x" * 4000}
    assert digest_of(settings) == digest_of({**dict(reversed(settings.items())), "ServiceToken": "other"})
    assert digest_of(settings) != digest_of({**settings, "PollSeconds": "11"})
    assert len(digest_of(settings)) <= 256, "the longest description of a version"


def test_without_a_canary_no_alarm_stops_an_update(released: Template) -> None:
    """CodeDeploy stops every deployment while an alarm of its group is on: the update that ends the alarm, too."""
    groups = of_kind(released, "AWS::CodeDeploy::DeploymentGroup")
    assert len(groups) == 7
    for group in groups.values():
        stated = {
            name: group["Properties"][name]["Fn::If"] for name in ("AlarmConfiguration", "AutoRollbackConfiguration")
        }
        assert all(condition == "UpdatesAtOnce" for condition, _, _ in stated.values())
        assert stated["AlarmConfiguration"][1] == {"Alarms": [], "Enabled": False}
        assert "DEPLOYMENT_STOP_ON_ALARM" in stated["AutoRollbackConfiguration"][2]["Events"]
        assert "DEPLOYMENT_STOP_ON_ALARM" not in stated["AutoRollbackConfiguration"][1]["Events"]


def test_new_code_publishes_versions_of_its_functions_alone(released: Template, tmp_path: Path) -> None:
    """Lambda does not notice a new zip under an old name, so the name has the digest of the contents."""
    other = template_of(VARIANTS[0], TEMPLATES_VERSION, OTHER_CODE, tmp_path)
    gone = {i for i in released["Resources"] if i not in other["Resources"]}
    functions = {released["Resources"][i]["Properties"]["FunctionName"]["Ref"] for i in gone}
    written = {i: json.dumps(released["Resources"][i]["Properties"]["Code"]) for i in functions}
    assert written
    assert all("fleetwright-base-1.2.3-bbbbbbbbbbbb.zip" in code for code in written.values())
    assert all(i.split("Function")[0] + "Function" for i in gone)


def test_every_key_of_the_context_is_a_parameter_or_a_template() -> None:
    """A new setting must not be left out of releases."""
    known = {*parameters.CLUSTER, *parameters.CODE, *parameters.OPERATION, *parameters.declared_settings()}
    left = {key for key in KEYS if key[0].upper() + key[1:] not in known}
    assert left == SHAPE | set(TOLD_OTHERWISE)


def test_each_mode_has_every_setting_that_has_an_effect_in_it() -> None:
    every = set(parameters.declared_settings())
    assert every - set(parameters.settings_of("approve")) == set()
    bounds = {"ApprovalTopicArn", "ApproveAboveDollars", "ApproveAboveNodes", "ApproveNamespaces"}
    assert every - set(parameters.settings_of("act")) == bounds
    assert every - set(parameters.settings_of("shadow")) == bounds | {"CommandTopicArn"}


def test_a_topic_that_a_parameter_names_takes_the_place_of_the_stacks_own(released: Template) -> None:
    (topic,) = of_kind(released, "AWS::SNS::Topic").values()
    assert topic["Condition"] == "MakesAlarmTopic"
    own = {"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, {"Ref": next(iter(of_kind(released, topic["Type"])))}]}
    alarms = of_kind(released, "AWS::CloudWatch::Alarm").values()
    assert {json.dumps(alarm["Properties"]["AlarmActions"]) for alarm in alarms} == {json.dumps([own])}
    (subscription,) = of_kind(released, "AWS::SNS::Subscription").values()
    assert subscription["Properties"]["TopicArn"] == own


def test_roles_may_do_what_any_value_of_a_parameter_needs(released: Template, with_everything: Template) -> None:
    """Without the permission, alarms that pause cannot be read, and a brake that cannot be read counts as engaged."""
    wanted, ours = _allowed(with_everything), _allowed(released)
    assert {role: missing for role in wanted if (missing := wanted[role] - ours.get(role, set()))} == {}
    disrupts = [statement for statement in _statements(released, "disrupt") if "sns:Publish" in json.dumps(statement)]
    published = {"Action": "sns:Publish", "Effect": "Allow", "Resource": {"Ref": "CommandTopicArn"}}
    assert disrupts == [{"Fn::If": ["HasCommandTopic", published, {"Ref": "AWS::NoValue"}]}]


@pytest.fixture(scope="session")
def with_everything(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """What `cdk deploy` makes if every key that a released template offers has a value that asks for permissions."""
    topic = "arn:aws:sns:us-east-1:123456789012:commands"
    given = {"pausingAlarms": ["checkout"], "forecast": "on", "commandTopicArn": topic, "followZonalShift": True}
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    return dict(synthesize(tmp_path_factory.mktemp("everything"), {**flags, **given})["fleetwright-fleetwright"])


def _statements(template: Template, function: str) -> list[Template]:
    roles = of_kind(template, "AWS::IAM::Policy") | of_kind(template, "AWS::IAM::ManagedPolicy")
    ours = [policy for i, policy in roles.items() if i.startswith(f"{function}Role")]
    return [statement for policy in ours for statement in policy["Properties"]["PolicyDocument"]["Statement"]]


def _allowed(template: Template) -> dict[str, set[str]]:
    """Function → the actions that its role may take somewhere, with or without a condition of the template."""
    allowed: dict[str, set[str]] = {}
    for function in ("provision", "disrupt", "execute", "interrupt", "reconcile"):
        for statement in _statements(template, function):
            stated = statement["Fn::If"][1] if "Fn::If" in statement else statement
            actions = [stated["Action"]] if isinstance(stated["Action"], str) else stated["Action"]
            on = "ledger" if "ledger/" in json.dumps(stated["Resource"]) else ""
            allowed.setdefault(function, set()).update(f"{action} {on}" for action in actions)
    return allowed


def test_every_setting_says_what_it_does() -> None:
    declared = parameters.declared_settings()
    assert all(len(stated["Description"]) > 10 for stated in declared.values())
    assert declared["LookSeconds"]["MaxValue"] == 59
    assert declared["PreferencePolicy"]["AllowedValues"] == ["Respect", "Ignore"]


def test_text_within_a_template_keeps_its_dollars() -> None:
    given = {"Value": "${x} of Zq", "Sub": {"Fn::Sub": "${A} Zq"}, "Ids": ["zq-1"], "Whole": "Zq"}
    made = with_parameters(given, {"Zq": "Name", "zq-1": "SubnetIds"})
    assert made == {
        "Value": {"Fn::Sub": "${!x} of ${Name}"},
        "Sub": {"Fn::Sub": "${A} ${Name}"},
        "Ids": {"Ref": "SubnetIds"},
        "Whole": {"Ref": "Name"},
    }


def test_a_key_cannot_be_a_parameter() -> None:
    with pytest.raises(RewriteError, match="aws:tag/Zq"):
        with_parameters({"aws:tag/Zq": "x"}, {"Zq": "Name"})


def test_stacks_are_joined_only_if_everything_imported_is_there() -> None:
    state = {"Resources": {"T": {}}, "Outputs": {"O": {"Value": {"Ref": "T"}, "Export": {"Name": "s:T"}}}}
    importing = {"Resources": {"F": {"Table": {"Fn::ImportValue": "s:T"}}}}
    assert merged(importing, state)["Resources"] == {"T": {}, "F": {"Table": {"Ref": "T"}}}
    with pytest.raises(RewriteError, match="does not export"):
        merged({"Resources": {"F": {"Table": {"Fn::ImportValue": "s:B"}}}}, state)
    with pytest.raises(RewriteError, match="both stacks have T"):
        merged({"Resources": {"T": {}}}, state)


# Versions that can be released, as people and as pip write them.


@pytest.mark.parametrize(
    ("text", "of_python"), [("1.2.0", "1.2.0"), ("1.2.0-rc.1", "1.2.0rc1"), ("0.1.0-alpha.0", "0.1.0a0")]
)
def test_pip_and_people_write_the_same_version(text: str, of_python: str) -> None:
    assert Version(text).of_python == of_python


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "1.02.3", "1.2.3+local", "1.2.3-dev", "1.2.3/../x"])
def test_what_a_file_name_or_a_chart_could_not_carry_is_refused(text: str) -> None:
    with pytest.raises(VersionError, match="expected 1"):
        Version(text)


def test_checksums_are_signed_and_a_change_of_them_is_noticed(tmp_path: Path) -> None:
    key, release = tmp_path / "key", tmp_path / "release"
    release.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)  # noqa: S603, S607
    (release / artefacts.CHECKSUMS).write_text("00  a.whl\n")
    artefacts.sign_checksums(release, str(key))
    artefacts.verify_checksums(release)
    assert artefacts.collected(release) == []
    (release / artefacts.CHECKSUMS).write_text("01  a.whl\n")
    with pytest.raises(subprocess.CalledProcessError):
        artefacts.verify_checksums(release)


@pytest.mark.slow  # it packs the interpreter twice
@pytest.mark.skipif(sys.platform != "linux", reason="images are made on Linux")
def test_the_image_has_the_same_bytes_and_runs_what_is_in_it(tmp_path: Path) -> None:
    """An interpreter alone passed once: a library that a package loads was missing."""
    site = tmp_path / "site" / "fleetwright_eks"
    site.mkdir(parents=True)
    (site / "__main__.py").write_text(
        f"import ssl, sqlite3, sys, zlib\nprint('{RELEASED_VERSION.of_python} on-demand', sys.argv[1:], ssl.OPENSSL_VERSION)\n"
    )
    first, second = (tmp_path / name / image.file_name(RELEASED_VERSION) for name in ("one", "two"))
    for target in (first, second):
        target.parent.mkdir()
        image.write(site.parent, target, RELEASED_VERSION)
    assert first.read_bytes() == second.read_bytes()
    (tmp_path / "work").mkdir()
    if os.geteuid() == 0:
        assert "2 layers" in CHECKS["image"](Place(first.parent, tmp_path / "work", "1.2.3"))
