"""Scenarios in which every function makes each of its calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml

from infra.constructs.grants.instances import CLUSTER_TAG, POOL_TAG
from installation.cluster_roles import RULES_OF, verbs
from installation.wiring import ALL_BY_NAME, FunctionSpec
from lambdas.application.controllers import Application
from simulator.world import World, run
from tests.access.iam import Request
from tests.access.recording import Access, CheckedKubernetes, CheckedSession, Verb
from tests.access.requests import Authorizations
from tests.access.template import ACCOUNT, REGION, Deployment
from tests.builders import a_class_manifest
from tests.simulation.test_distributed_parts import TEAMS, of_team
from tests.simulation.worlds import catalogue, deployment, node_pool

_BUDGET: Final = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
RESERVED: Final = {"id": "cr-1", "instanceType": "m7g.large", "zone": "us-east-1a", "total": 1}
WINDOW: Final = {"nodes": "0", "schedule": "0 9 * * *", "duration": "1h"}


def life(folder: Path) -> Path:
    """Launch, consolidate, drift, expire, interrupt, delete, with budget windows, brakes, refusals and broken machines."""
    pool = _pool({"nodes": "100%"}, WINDOW)
    steps = [
        {"at": 0, "capacity": {"instanceType": "test.small", "available": 0}},
        _scaled("5m", 2),
        {"at": "9m", "interrupt": {"fraction": 0.5}},
        _scaled("12m", 9),
        {"at": "15m", "ami": {"alias": "al2023", "id": "ami-0new"}},
        {"at": "20m", "brake": {"mode": "pause-disruption"}},
        {"at": "22m", "brake": {"mode": "run"}},
        {"at": "23m", "apply": [_pool({"nodes": "50%"}, {**WINDOW, "duration": "2h"})]},
        {"at": "27m", "apply": [_pool({"nodes": "50%"})]},
        {"at": "28m", "boot": {"fail": 1}},
        _scaled("29m", 30),
        {"at": "30m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 1}},
        {"at": "50m", "delete": [{"kind": "NodePool", "name": "default", "namespace": ""}]},
    ]
    reserving = a_class_manifest(capacityReservationSelectorTerms=[{"tags": {"team": "ml"}}])
    return _written(folder, [reserving, pool, _BUDGET, deployment(6, cpu="3")], steps, "60m", "catalog.json")


def market(folder: Path) -> Path:
    """A few minutes on the whole market, read from EC2 and stored in S3; with a placement group and a reservation."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["reserved", "spot", "on-demand"]
    pool["spec"]["template"]["spec"]["requirements"] += [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7g.large", "m7i.large"]}
    ]
    placed = a_class_manifest(
        placementGroupSelector={"name": "spread"}, capacityReservationSelectorTerms=[{"id": RESERVED["id"]}]
    )
    objects = [placed, pool, deployment(3, cpu="1")]
    return _written(folder, objects, [_scaled("3m", 0)], "6m", None, capacityReservations=[RESERVED])


def parts(folder: Path) -> Path:
    """Two NodePools that share no pods, so that functions of their own decide about each."""
    objects = [a_class_manifest(), *(each for team in TEAMS for each in of_team(team))]
    settings = {"partNodes": 1, "distributeFrom": 1}
    scaled = [{"at": "5m", "scale": {"kind": "Deployment", "name": team, "replicas": 2}} for team in TEAMS]
    return _written(folder, objects, scaled, "9m", "catalog.json", settings=settings)


def _pool(*budgets: dict[str, Any]) -> dict[str, Any]:
    pool = node_pool(limits={"cpu": "400"})
    pool["spec"]["disruption"]["budgets"] = list(budgets)
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = "2m"
    return pool


def _scaled(at: str, replicas: int) -> dict[str, Any]:
    return {"at": at, "scale": {"kind": "Deployment", "name": "web", "replicas": replicas}}


def _written(
    folder: Path,
    objects: list[dict[str, Any]],
    steps: list[dict[str, Any]],
    duration: str,
    catalog: str | None,
    **spec_fields: Any,
) -> Path:
    (folder / "catalog.json").write_text(json.dumps(catalogue()))
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    spec = {
        "start": "2026-11-20T00:00:00Z",
        "duration": duration,
        "seed": 1,
        "manifests": ["objects.yaml"],
        "steps": steps,
        **spec_fields,
    }
    document = {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": "access"},
        "spec": spec if catalog is None else {**spec, "catalog": catalog},
    }
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


# Plays a scenario with every function restricted to its permissions in the templates.


NODE_ROLE: Final = "FleetwrightNodeRole"


def played(deployment: Deployment, folder: Path) -> dict[str, Access]:
    """Return each function's calls in the worlds of `tests.access.world`, checked against its role; `folder` is empty."""
    with held_to(deployment, {name: verbs(rules) for name, rules in RULES_OF.items()}) as accesses:
        for scenario in (life, market, parts):
            own = folder / scenario.__name__
            own.mkdir()
            run(scenario(own), ledger=own / "ledger")
    return accesses


def seldom_asked(deployment: Deployment) -> list[Request]:
    """Return what the calls need for which the worlds are too short or too plain, with the parameters of their adapters."""
    settings = deployment.settings("disrupt")
    known = Authorizations(NODE_ROLE)
    tags = [{"Key": CLUSTER_TAG, "Value": settings.cluster_name}, {"Key": POOL_TAG, "Value": "default"}]
    template = {"LaunchTemplateName": "fleetwright/old", "LaunchTemplateData": {}}
    kinds = [{"ResourceType": "launch-template", "Tags": tags}]
    known.learn("ec2:CreateLaunchTemplate", {**template, "TagSpecifications": kinds}, {})
    profile = {"InstanceProfileName": "old"}
    known.learn("iam:CreateInstanceProfile", {**profile, "Path": f"/fleetwright/{REGION}/{settings.cluster_name}/"}, {})
    schedule = {"Name": "old", "GroupName": deployment.settings("reconcile").schedule_group}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("sns:Publish", {"TopicArn": settings.approval_topic_arn}),
        ("ec2:DeleteLaunchTemplate", template),
        ("iam:RemoveRoleFromInstanceProfile", {**profile, "RoleName": NODE_ROLE}),
        ("iam:DeleteInstanceProfile", profile),
        ("scheduler:UpdateSchedule", schedule),
        ("ssm:GetParameters", {"Names": ["/images/al2023"]}),
    ]
    if settings.parts_machine_arn:
        execution = f"{settings.parts_machine_arn.replace(':stateMachine:', ':execution:')}:one"
        calls.append(("stepfunctions:DescribeExecution", {"executionArn": execution}))
    return [request for name, given in calls for request in known.of(name, given)]


@contextmanager
def held_to(
    deployment: Deployment, allowed: Mapping[str, frozenset[Verb]], functions: Iterable[str] = ALL_BY_NAME
) -> Iterator[dict[str, Access]]:
    """Check calls of the deployed functions by policy and ClusterRole within this block; yields function → its calls."""
    authorizations = Authorizations(NODE_ROLE)
    accesses = {
        name: Access(deployment.policy(name), allowed.get(name, frozenset()), authorizations) for name in functions
    }
    build = World.application

    def checked(of: World, spec: FunctionSpec) -> Application:
        settings, access = deployment.settings(spec.name), accesses[spec.name]
        authorizations.rename(of.account.settings, settings)
        session, api = of.account.session, of.cluster.api
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{settings.cluster_name}"
        of.account.session = CheckedSession(session, access)  # type: ignore[assignment]
        of.cluster.api = CheckedKubernetes(api, access, arn)  # type: ignore[assignment]
        of._catalogues = None
        try:
            return build(of, spec)
        finally:
            of.account.session, of.cluster.api = session, api

    with patch.object(World, "application", checked):
        yield accesses
