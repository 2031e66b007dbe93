"""The templates of a release: one stack for any cluster, with parameters, that makes what `cdk deploy` makes."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from infra.context import KEYS
from infra.release import parameters
from infra.release.rewriting import RewriteError, merged, references, with_parameters
from infra.release.settings_digest import digest_of
from infra.release.templates import INVENTED, NOT_A_SETTING, VARIANTS, template_of
from infra.release.version import Version
from installation.settings import Settings

DIGESTS: Final = {"base": "b" * 64, "solver": "c" * 64}
OTHER_CODE: Final = {"base": "d" * 64, "solver": "c" * 64}
VERSION: Final = Version("1.2.3")

SHAPE: Final = {"vpc", "mode", "shareCapacity", "tableName", "alarmTopicArn", "approvalTopicArn"}
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
            path.write_text(json.dumps(template_of(VARIANTS[0], VERSION, DIGESTS, shared / "released")))
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
    other = template_of(VARIANTS[0], VERSION, OTHER_CODE, tmp_path)
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
