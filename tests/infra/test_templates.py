"""The synthesized templates match the wiring, protect state, and permit no more than is needed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from cli.arguments import own_code
from core import labels
from core.brakes import BrakeKind
from core.reasons.code import DecisionKind
from installation import metric_names
from installation.array_threads import ARRAY_THREADS
from installation.settings import Settings
from installation.wiring import ALL_BY_NAME, AUDIT_LOG_FILTER, BY_NAME, FUNCTIONS, PART_DECIDER, QUEUES, SCHEDULED_EVENT
from simulator.events import matches
from tests.access.template import actions_of, policies_of, statements_of
from tests.infra.conftest import ROOT, synthesize

Templates = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def provisioner(templates: Templates) -> Template:
    return Template.from_json(templates["fleetwright-fleetwright"])


@pytest.fixture(scope="session")
def state(templates: Templates) -> Template:
    return Template.from_json(templates["fleetwright-fleetwright-state"])


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    return dict(template.find_resources(kind))


def lambda_of(template: Template, name: str) -> tuple[str, dict[str, Any]]:
    handler = ALL_BY_NAME[name].handler
    found = [
        (i, r["Properties"])
        for i, r in of_type(template, "AWS::Lambda::Function").items()
        if r["Properties"]["Handler"] == handler
    ]
    assert len(found) == 1
    return found[0]


def alias_of(template: Template, function: str) -> str:
    """Logical id of the alias of a function, by the function's."""
    aliases = of_type(template, "AWS::Lambda::Alias").items()
    (found,) = (i for i, r in aliases if r["Properties"]["FunctionName"] == {"Ref": function})
    return found


def consumers(provisioner: Template) -> dict[str, str]:
    """Queue → the function that its messages start, by the function's name."""
    names = {lambda_of(provisioner, spec.name)[0]: spec.name for spec in FUNCTIONS}
    aliases = {i: r["Properties"]["FunctionName"]["Ref"] for i, r in of_type(provisioner, "AWS::Lambda::Alias").items()}
    found = {}
    for mapping in of_type(provisioner, "AWS::Lambda::EventSourceMapping").values():
        properties = mapping["Properties"]
        queue, text = properties["EventSourceArn"]["Fn::GetAtt"][0], json.dumps(properties["FunctionName"])
        (found[queue],) = {names[function] for alias, function in aliases.items() if alias in text or function in text}
    return found


def test_exactly_the_functions_whose_messages_lead_back_to_them_allow_loops(provisioner: Template) -> None:
    """Lambda drops the message that would start a function for the 17th time in a chain, unless the function allows it.

    Then nodes that boot for longer than half a minute are found by `reconcile`, two minutes later. A function that allows it
    without need would turn a defect into an endless loop.
    """
    started_by = consumers(provisioner)
    may_start: dict[str, set[str]] = {}
    for spec in FUNCTIONS:
        role = lambda_of(provisioner, spec.name)[1]["Role"]["Fn::GetAtt"][0]
        of_role = [p for p in policies_of(provisioner.to_json()).values() if {"Ref": role} in p.get("Roles", ())]
        statements = [s for policy in of_role for s in policy["PolicyDocument"]["Statement"]]
        text = json.dumps([statement for statement in statements if "sqs:SendMessage" in actions_of(statement)])
        may_start[spec.name] = {function for queue, function in started_by.items() if queue in text}
    reached = {name: set(next_ones) for name, next_ones in may_start.items()}
    for _ in FUNCTIONS:
        reached = {name: next_ones.union(*(reached[n] for n in next_ones)) for name, next_ones in reached.items()}
    assert started_by
    for spec in FUNCTIONS:
        allowed = lambda_of(provisioner, spec.name)[1].get("RecursiveLoop")
        assert allowed == ("Allow" if spec.name in reached[spec.name] else None), spec.name


@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda spec: spec.name)
def test_every_function_is_deployed_as_wired(provisioner: Template, spec: Any) -> None:
    _, properties = lambda_of(provisioner, spec.name)
    assert properties["Timeout"] == spec.timeout.total_seconds()
    assert properties["Environment"]["Variables"].items() >= ARRAY_THREADS.items()
    assert properties["MemorySize"] == spec.memory_mb
    assert properties.get("ReservedConcurrentExecutions") == spec.concurrency
    assert properties["Architectures"] == ["arm64"]


def test_every_function_has_a_role_of_its_own(provisioner: Template) -> None:
    found = of_type(provisioner, "AWS::Lambda::Function").values()
    ours = [f["Properties"] for f in found if f["Properties"]["Handler"].startswith("lambdas.")]
    assert len({json.dumps(properties["Role"]) for properties in ours}) == len(ours) == len(FUNCTIONS)


def test_the_market_is_read_before_a_deployment_is_done(provisioner: Template) -> None:
    """The schedule first fires minutes after it is made: until then nothing could be launched."""
    (market,) = of_type(provisioner, "Custom::FirstMarket").values()
    reader, _ = lambda_of(provisioner, "refresh_catalogue")
    versions = of_type(provisioner, "AWS::Lambda::Version")
    version = market["Properties"]["Version"]
    assert versions[version["Ref"]]["Properties"]["FunctionName"] == {"Ref": reader}
    policies = policies_of(provisioner.to_json())
    needed = {policies[name]["Roles"][0]["Ref"] for name in market["DependsOn"] if name in policies}
    roles = of_type(provisioner, "AWS::IAM::Role")
    names = {roles[role]["Properties"]["RoleName"].rpartition("us-east-1-")[2] for role in needed}
    assert names == {"refresh-catalogue", "first-market"}, "both roles must be whole before the first call"
    (invokes,) = (s for s in statements_of(provisioner.to_json()) if s["Resource"] == version)
    assert actions_of(invokes) == ["lambda:InvokeFunction"]


def test_logs_do_not_pile_up_for_ever(provisioner: Template) -> None:
    groups = provisioner.find_resources("AWS::Logs::LogGroup").values()
    assert [group["Properties"]["RetentionInDays"] for group in groups] == [30] * (len(FUNCTIONS) + 2)


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_a_message_nobody_can_handle_ends_in_a_dead_letter_queue(provisioner: Template, queue: Any) -> None:
    provisioner.has_resource_properties(
        "AWS::SQS::Queue",
        {
            "VisibilityTimeout": queue.visibility.total_seconds(),
            "RedrivePolicy": {"maxReceiveCount": queue.max_receives, "deadLetterTargetArn": Match.any_value()},
        },
    )
    provisioner.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "BatchSize": queue.batch_size,
            "MaximumBatchingWindowInSeconds": queue.batch_window.total_seconds(),
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        },
    )


def test_failed_events_and_invocations_are_kept(provisioner: Template) -> None:
    for rule in of_type(provisioner, "AWS::Events::Rule").values():
        assert all("DeadLetterConfig" in target for target in rule["Properties"]["Targets"])
    for schedule in of_type(provisioner, "AWS::Scheduler::Schedule").values():
        assert "DeadLetterConfig" in schedule["Properties"]["Target"]
    provisioner.resource_count_is("AWS::Lambda::EventInvokeConfig", len(FUNCTIONS))


@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda spec: spec.name)
def test_no_backlog_of_stale_events_piles_up(provisioner: Template, spec: Any) -> None:
    """Otherwise, behind a long run ticks would wait for hours, and then run without a pause."""
    logical, _ = lambda_of(provisioner, spec.name)
    configs = of_type(provisioner, "AWS::Lambda::EventInvokeConfig").values()
    (config,) = (c["Properties"] for c in configs if c["Properties"]["FunctionName"] == {"Ref": logical})
    assert alias_of(provisioner, logical) in json.dumps(config["Qualifier"]), (
        "what invokes the alias has no other bounds"
    )
    age = config["MaximumEventAgeInSeconds"]
    assert all(age <= schedule.every.total_seconds() for schedule in spec.schedules)
    assert (config["MaximumRetryAttempts"] == 0) == spec.is_repeated
    targets = [t for r in of_type(provisioner, "AWS::Events::Rule").values() for t in r["Properties"]["Targets"]]
    targets += [s["Properties"]["Target"] for s in of_type(provisioner, "AWS::Scheduler::Schedule").values()]
    own = [t for t in targets if t["Arn"] == {"Ref": alias_of(provisioner, logical)}]
    assert len(own) == len(spec.schedules) + bool(spec.rules)
    assert all(t["RetryPolicy"]["MaximumEventAgeInSeconds"] == age for t in own)


def test_schedules_and_rules_are_those_of_the_wiring(provisioner: Template) -> None:
    schedules = [found["Properties"] for found in of_type(provisioner, "AWS::Scheduler::Schedule").values()]
    assert {json.loads(found["Target"]["Input"])["source"] for found in schedules} == {SCHEDULED_EVENT["source"]}
    assert {found["FlexibleTimeWindow"]["Mode"] for found in schedules} == {"OFF"}
    assert not [found for found in schedules if "GroupName" in found], "`reconcile` empties the group of the windows"
    seconds = sorted(s.every.total_seconds() for f in FUNCTIONS for s in f.schedules)
    assert sorted(seconds_of(found["ScheduleExpression"]) for found in schedules) == seconds
    patterns = [rule["Properties"]["EventPattern"] for rule in of_type(provisioner, "AWS::Events::Rule").values()]
    assert patterns == [{"$or": [rule.pattern for rule in f.rules]} for f in FUNCTIONS if f.rules]


def test_a_hundred_clusters_share_the_buses_of_an_account(provisioner: Template) -> None:
    """A bus takes 300 rules, and 100 in the newest regions; with ten for each cluster it was full with thirty."""
    assert len(of_type(provisioner, "AWS::Events::Rule")) == 1


def test_a_schedule_waits_for_the_permission_of_its_role(provisioner: Template) -> None:
    """Otherwise, the first ticks of an update are refused while the rules of the release before are deleted."""
    policies = of_type(provisioner, "AWS::IAM::Policy")
    for schedule in of_type(provisioner, "AWS::Scheduler::Schedule").values():
        target, role = schedule["Properties"]["Target"], schedule["Properties"]["Target"]["RoleArn"]["Fn::GetAtt"][0]
        granted = [
            (action, json.dumps(statement["Resource"]))
            for name in schedule["DependsOn"]
            if name in policies and policies[name]["Properties"]["Roles"] == [{"Ref": role}]
            for statement in policies[name]["Properties"]["PolicyDocument"]["Statement"]
            for action in actions_of(statement)
        ]
        assert ("lambda:InvokeFunction", json.dumps(target["Arn"])) in granted
        assert ("sqs:SendMessage", json.dumps(target["DeadLetterConfig"]["Arn"])) in granted
        assert {action for action, _ in granted} == {"lambda:InvokeFunction", "sqs:SendMessage"}


def test_no_event_is_meant_by_two_rules_of_the_wiring() -> None:
    """One rule of the bus stands for all of them, and delivers an event once; simulations deliver it for each."""
    rules = [rule for f in FUNCTIONS for rule in f.rules]
    for rule in rules:
        detail = {key: values[0] for key, values in rule.pattern.get("detail", {}).items()}
        event = {"source": rule.pattern["source"][0], "detail-type": rule.pattern["detail-type"][0], "detail": detail}
        assert [other.name for other in rules if matches(other.pattern, event)] == [rule.name]


def seconds_of(rate: str) -> float:
    number, unit = rate.removeprefix("rate(").removesuffix(")").split()
    return int(number) * {"minute": 60, "hour": 3600, "day": 86400}[unit.removesuffix("s")]


def test_the_audit_log_is_filtered_before_it_costs(provisioner: Template) -> None:
    provisioner.has_resource_properties(
        "AWS::Logs::SubscriptionFilter",
        {"FilterPattern": AUDIT_LOG_FILTER, "LogGroupName": "/aws/eks/fleetwright/cluster"},
    )


def test_the_environment_is_read_back_as_it_was_written(provisioner: Template) -> None:
    for name in BY_NAME:
        variables = lambda_of(provisioner, name)[1]["Environment"]["Variables"]
        plain = {key: value if isinstance(value, str) else f"reference-{key}" for key, value in variables.items()}
        settings = Settings.from_environment(plain)
        assert settings.cluster_name == "fleetwright"
        assert settings.shared_table_name == "reference-SHARED_TABLE_NAME"
        assert settings.shared_bucket_name == "reference-SHARED_BUCKET_NAME"
        assert bool(settings.disrupt_function_arn) == (name == "reconcile")
        assert plain["CODE_DIGEST"] == own_code()


def test_state_survives_a_deleted_stack(state: Template) -> None:
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket"):
        for resource in of_type(state, kind).values():
            assert resource["DeletionPolicy"] == "Retain"
    state.has_resource_properties(
        "AWS::DynamoDB::Table",
        {
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "TimeToLiveSpecification": Match.object_like({"Enabled": True}),
            "DeletionProtectionEnabled": True,
        },
    )


def test_logical_ids_of_what_is_kept_never_change(state: Template) -> None:
    """Another id would make CloudFormation create an empty table and leave the claims behind."""
    assert sorted(of_type(state, "AWS::DynamoDB::Table")) == ["TableCD117FA1"]
    assert sorted(of_type(state, "AWS::S3::Bucket")) == ["Bucket83908E77"]


def test_both_dashboards_show_what_the_functions_tell(provisioner: Template) -> None:
    """A metric with another name is an empty graph on the night it is needed."""
    source = "".join(path.read_text() for folder in ("adapters", "lambdas") for path in (ROOT / folder).rglob("*.py"))
    counted = set(re.findall(r'report\.count\(\s*"(\w+)"', source))
    used = re.findall(r"report\.decide\(\s*DecisionKind\.(\w+)", source)
    counted |= {f"decisions{DecisionKind[kind].capitalize()}" for kind in used}
    counted |= {value for name, value in vars(metric_names).items() if name.isupper() and isinstance(value, str)}
    counted |= {metric_names.stopped_by(kind) for kind in BrakeKind}
    counted |= set(map(metric_names.alarm_count, metric_names.ALARMS))
    assert set(metric_names.METRICS) <= counted
    pages = of_type(provisioner, "AWS::CloudWatch::Dashboard").values()
    names = set(re.findall(r'Fleetwright\\*",\\*"(\w+)', json.dumps([p["Properties"]["DashboardBody"] for p in pages])))
    assert len(pages) == 2
    assert names <= set(map(metric_names.in_cloudwatch, metric_names.METRICS))


def test_nothing_is_allowed_by_wildcard(provisioner: Template) -> None:
    for statement in statements_of(provisioner.to_json()):
        assert not [action for action in actions_of(statement) if action.endswith(":*") or action == "*"]


READ_ONLY = (
    "ec2:Describe",
    "pricing:Get",
    "scheduler:List",
    "arc-zonal-shift:Get",
    "cloudwatch:Describe",
    "servicequotas:List",
    "iam:List",
)


def test_whatever_changes_something_names_its_resources(provisioner: Template) -> None:
    for statement in statements_of(provisioner.to_json()):
        if statement["Resource"] == "*":
            assert all(action.startswith(READ_ONLY) for action in actions_of(statement)), statement


def test_instances_are_terminated_only_with_our_tags(provisioner: Template) -> None:
    found = [s for s in statements_of(provisioner.to_json()) if "ec2:TerminateInstances" in actions_of(s)]
    assert found
    for statement in found:
        assert statement["Condition"]["StringEquals"] == {"aws:ResourceTag/eks:eks-cluster-name": "fleetwright"}
        assert statement["Condition"]["StringLike"][f"aws:ResourceTag/{labels.CLAIM}"] == "*", (
            "Karpenter's have the others"
        )


def test_every_service_takes_a_role_only_for_this_account(provisioner: Template) -> None:
    """Otherwise, another account's function or schedule could use our permissions."""
    mine = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    roles = [role["Properties"] for role in of_type(provisioner, "AWS::IAM::Role").values()]
    assert len(roles) == len(FUNCTIONS) + 4, "the windows', the update's, its check's and the first market's"
    for role in roles:
        assert [trust.get("Condition") for trust in role["AssumeRolePolicyDocument"]["Statement"]] == [mine]


def test_buckets_are_private_and_refuse_plain_http(state: Template) -> None:
    buckets, policies = of_type(state, "AWS::S3::Bucket"), of_type(state, "AWS::S3::BucketPolicy")
    assert buckets
    for bucket in buckets.values():
        blocked = bucket["Properties"]["PublicAccessBlockConfiguration"]
        assert set(blocked) == {"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"}
        assert all(blocked.values())
    guarded = set()
    for policy in policies.values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}:
                assert (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")
                assert statement["Principal"] in ("*", {"AWS": "*"})
                guarded.add(policy["Properties"]["Bucket"]["Ref"])
    assert guarded == set(buckets)


def test_every_log_group_goes_with_the_stack(provisioner: Template) -> None:
    """Lambda makes a group for a function without one, and nothing removes it."""
    groups = of_type(provisioner, "AWS::Logs::LogGroup")
    assert all(group["DeletionPolicy"] == "Delete" for group in groups.values())
    for function in of_type(provisioner, "AWS::Lambda::Function").values():
        assert function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] in groups


def test_roles_keep_their_names_and_are_told(provisioner: Template) -> None:
    """Policies of keys and of organizations name them: a new name at each deployment would lock nodes' volumes."""
    names = {r["Properties"].get("RoleName") for r in of_type(provisioner, "AWS::IAM::Role").values()}
    assert {f"fleetwright-fleetwright-us-east-1-{name.replace('_', '-')}" for name in BY_NAME} <= names
    outputs = provisioner.find_outputs("*")
    assert len([name for name in outputs if name.startswith("RoleOf")]) == len(FUNCTIONS)


def test_only_the_node_role_is_passed_to_ec2(provisioner: Template) -> None:
    to_ec2 = [s for s in statements_of(provisioner.to_json()) if "iam:PassRole" in actions_of(s) and "Condition" in s]
    assert to_ec2
    for statement in to_ec2:
        assert "FleetwrightNodeRole" in json.dumps(statement["Resource"])


def test_the_same_commit_gives_the_same_templates(templates: Templates, tmp_path: Path) -> None:
    """The same in two processes with different orders of sets."""
    assert synthesize(tmp_path, {}) == templates


def test_another_cluster_is_another_pair_of_stacks(tmp_path: Path) -> None:
    other = synthesize(tmp_path, {"cluster": "payments", "auditLogGroup": "", "nodeRole": "PaymentsNodes"})
    assert sorted(other) == ["fleetwright", "fleetwright-payments", "fleetwright-payments-state"]
    template = Template.from_json(other["fleetwright-payments"])
    template.resource_count_is("AWS::Logs::SubscriptionFilter", 0)
    assert "PaymentsNodes" in json.dumps(other["fleetwright-payments"])


@pytest.mark.slow  # a synthesis of its own: `make lint-templates` runs it
def test_a_cluster_may_keep_to_itself(tmp_path: Path) -> None:
    found = synthesize(tmp_path, {"shareCapacity": "false"})
    assert sorted(found) == ["fleetwright-fleetwright", "fleetwright-fleetwright-state"]
    assert "SHARED_" not in json.dumps(found)


def test_a_restored_table_takes_the_place_of_the_stacks_own(tmp_path: Path) -> None:
    """Otherwise, point-in-time recovery has no way back: it makes a table of another name."""
    found = synthesize(tmp_path / "restored", {"tableName": "restored"})
    state = found["fleetwright-fleetwright-state"]
    assert [r["DeletionPolicy"] for r in state["Resources"].values() if r["Type"] == "AWS::DynamoDB::Table"] == [
        "Retain"
    ]
    assert any("Table" in name for name in state["Outputs"])
    provisioner = json.dumps(found["fleetwright-fleetwright"])
    functions = [
        r
        for r in found["fleetwright-fleetwright"]["Resources"].values()
        if r["Type"] == "AWS::Lambda::Function" and r["Properties"]["Handler"].startswith("lambdas.")
    ]
    tables = {f["Properties"]["Environment"]["Variables"].get("TABLE_NAME", "restored") for f in functions}
    assert tables == {"restored"}
    assert "table/restored" in provisioner


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return synthesize(tmp_path_factory.mktemp("distributed"), {"partNodes": 2500, "distributeFrom": 15000})


@pytest.fixture(scope="module")
def machine(distributed: Templates) -> dict[str, Any]:
    """The state machine's properties, with the logical ids of functions in the place of their ARNs."""
    template = Template.from_json(distributed["fleetwright-fleetwright"])
    (found,) = of_type(template, "AWS::StepFunctions::StateMachine").values()
    properties: dict[str, Any] = found["Properties"]
    texts = [
        part if isinstance(part, str) else part.get("Ref") or part["Fn::GetAtt"][0]
        for part in properties["DefinitionString"]["Fn::Join"][1]
    ]
    return {**properties, "Definition": json.loads("".join(texts))}


def test_without_the_key_no_template_has_anything_of_the_state_machine(templates: Templates) -> None:
    """Step Functions, its rights and `decide_part` are for the few clusters that are too large without them."""
    written = json.dumps(templates)
    assert [
        word
        for word in ("states:", "AWS/States", "StepFunctions", "decide_part", '"parts/', "PARTS_")
        if word in written
    ] == []


def test_the_key_adds_and_changes_nothing_else(templates: Templates, distributed: Templates) -> None:
    assert distributed["fleetwright"] == templates["fleetwright"]
    before, after = (each["fleetwright-fleetwright"]["Resources"] for each in (templates, distributed))
    kinds = Counter(after[name]["Type"] for name in after.keys() - before.keys())
    assert kinds["AWS::StepFunctions::StateMachine"] == 1
    assert kinds["AWS::Lambda::Function"] == 1
    assert kinds["AWS::IAM::Role"] == 2
    assert not {kind for kind in kinds if kind.startswith(("AWS::Events", "AWS::Scheduler", "AWS::SQS"))}
    disrupt = lambda_of(Template.from_json(distributed["fleetwright-fleetwright"]), "disrupt")[1]
    assert disrupt["MemorySize"] == PART_DECIDER.memory_mb
    rules = [
        rule
        for resource in distributed["fleetwright-fleetwright-state"]["Resources"].values()
        if resource["Type"] == "AWS::S3::Bucket"
        for rule in resource["Properties"]["LifecycleConfiguration"]["Rules"]
    ]
    assert {"ExpirationInDays": 1, "Prefix": "parts/", "Status": "Enabled"} in rules


def test_the_machine_decides_about_parts_and_joins_them(distributed: Templates, machine: dict[str, Any]) -> None:
    template = Template.from_json(distributed["fleetwright-fleetwright"])
    own = {
        function.name: f"{lambda_of(template, function.name)[0]}:live"
        for function in (PART_DECIDER, BY_NAME["disrupt"])
    }
    definition, parts = machine["Definition"], machine["Definition"]["States"]["Parts"]
    child, join = parts["ItemProcessor"]["States"]["DecidePart"], definition["States"]["Join"]
    assert (machine["StateMachineType"], definition["StartAt"], parts["Next"]) == ("STANDARD", "Parts", "Join")
    assert parts["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert [task["Parameters"]["FunctionName"] for task in (child, join)] == [own["decide_part"], own["disrupt"]]
    assert parts["ToleratedFailurePercentage"] == 100
    assert parts["Catch"][0]["Next"] == "Join"
    assert [state["ResultPath"] for state in (parts, child, join)] == [None] * 3, "outputs may have 256 KiB"


def test_every_step_of_the_machine_ends(machine: dict[str, Any]) -> None:
    """A task without a time-out waits for a year, and the decisions of all parts with it."""
    definition = machine["Definition"]
    tasks = [definition["States"]["Join"], definition["States"]["Parts"]["ItemProcessor"]["States"]["DecidePart"]]
    for task, spec in zip(tasks, (BY_NAME["disrupt"], PART_DECIDER), strict=True):
        assert spec.timeout.total_seconds() < task["TimeoutSeconds"] < definition["TimeoutSeconds"]
        assert all(0 < retry["MaxAttempts"] <= 6 for retry in task["Retry"])


def test_the_machines_role_invokes_two_functions_and_nothing_else(
    distributed: Templates, machine: dict[str, Any]
) -> None:
    template = distributed["fleetwright-fleetwright"]
    role = machine["RoleArn"]["Fn::GetAtt"][0]
    trust = template["Resources"][role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert [statement["Principal"] for statement in trust] == [{"Service": "states.amazonaws.com"}]
    assert "aws:SourceAccount" in json.dumps(trust)
    policies = [
        resource["Properties"]["PolicyDocument"]["Statement"]
        for resource in template["Resources"].values()
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        and {"Ref": role} in resource["Properties"].get("Roles", ())
    ]
    by_action = {action: s["Resource"] for statements in policies for s in statements for action in actions_of(s)}
    assert set(by_action) == {
        "lambda:InvokeFunction",
        "states:StartExecution",
        "states:DescribeExecution",
        "states:StopExecution",
    }
    assert len(by_action["lambda:InvokeFunction"]) == 2
    assert all(json.dumps(resource).endswith(':live"]]}') for resource in by_action["lambda:InvokeFunction"])
    assert "stateMachine:fleetwright-fleetwright-parts" in json.dumps(by_action["states:StartExecution"])
    for action in ("states:DescribeExecution", "states:StopExecution"):
        assert all(":execution:fleetwright-fleetwright-parts" in json.dumps(each) for each in by_action[action])
