"""The functions' view is read once, of one moment, with all that holds their decisions back, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound

import cli.cluster.organisation
import cli.cluster.own_state
from adapters.ports import DeniedError, Listing, NotFoundError, TransientError
from adapters.runtime import SystemClock
from adapters.store import SweepState
from cli.cluster import own_state
from cli.cluster.organisation import AccountRegion, SearchPlace, account_region
from cli.cluster.own_state import (
    GivenObjects,
    Installation,
    OpenProposals,
    OwnState,
    _account,
    bounded_calls,
    find_installation,
    installation_in,
    is_open,
    open_proposals,
    read_own_state,
)
from cli.errors import InputError
from cli.manifests.inventory import Document, Inventory
from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.disruption.move_history import MoveHistory, Rollout, target_of
from core.disruption.target.move_price import settings_digest
from core.manifests.wire import resources
from core.model.plan import Command
from core.model.snapshot import EvictedNode
from tests.builders import NOW, a_stored_target
from tests.fakes.lab import SETTINGS, Lab, LabAdapters, a_node_pool, a_pending_pod

# Calls to AWS end within a minute, however a region behaves.


@pytest.mark.parametrize("more", [{}, {"connections": 32}])
def test_a_call_ends_within_a_minute_with_all_its_attempts(more: dict[str, int]) -> None:
    config = bounded_calls(**more)
    attempts = config.retries["total_max_attempts"]
    assert attempts > 1, "a call that is throttled once is tried again"
    assert attempts * (config.connect_timeout + config.read_timeout) < 60
    assert config.max_pool_connections == more.get("connections", config.max_pool_connections)


# An installation is found by its cluster: its stack's function `provision` has the settings of all.


FUNCTION = "AWS::Lambda::Function"


class Stacks:
    """A session, and its clients: stack → its resources, function → its environment, role → its credentials."""

    region_name = "eu-west-1"

    def __init__(
        self, stacks: dict[str, list[list[tuple[str, str, str]]]], functions: dict[str, dict[str, str]]
    ) -> None:
        self.stacks = stacks
        self.functions = functions

    def client(self, service: str, config: Any) -> Stacks:
        assert service in ("cloudformation", "lambda", "sts")
        assert config.connect_timeout < 10
        return self

    def get_paginator(self, name: str) -> Stacks:
        assert name == "list_stack_resources"
        return self

    def paginate(self, *, StackName: str) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        if StackName not in self.stacks:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "there is none"}}, "ListStackResources")
        for page in self.stacks[StackName]:
            keys = ("ResourceType", "LogicalResourceId", "PhysicalResourceId")
            yield {"StackResourceSummaries": [dict(zip(keys, one, strict=True)) for one in page]}

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        return {"Environment": {"Variables": self.functions[FunctionName]}} if self.functions[FunctionName] else {}

    def assume_role(self, *, RoleArn: str, RoleSessionName: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        if "denied" in RoleArn:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")
        assert RoleSessionName == "fleetwright"
        return {"Credentials": {"AccessKeyId": "A", "SecretAccessKey": "B", "SessionToken": RoleArn}}


RESOURCES = [
    [("AWS::IAM::Role", "provisionFunctionRole1", "no"), (FUNCTION, "executeFunction2", "execute")],
    [(FUNCTION, "provisionFunction3", "provision"), (FUNCTION, "provisionFunction4", "later")],
]


def stacks(**functions: dict[str, str]) -> Stacks:
    found = {"provision": SETTINGS.to_environment(), **functions}
    return Stacks({"fleetwright-prod": RESOURCES, "other": RESOURCES, "empty": RESOURCES[:1]}, found)


@pytest.mark.parametrize(("stack", "name"), [(None, "fleetwright-prod"), ("", "fleetwright-prod"), ("other", "other")])
def test_the_stack_is_named_after_the_cluster_or_given(stack: str | None, name: str) -> None:
    session: Any = stacks()
    found = installation_in(session, "prod", stack)
    assert (found.cluster, found.stack, found.settings, found.session) == ("prod", name, SETTINGS, session)


@pytest.mark.parametrize(
    ("stack", "environment", "said"),
    [
        ("empty", None, "the stack empty has no function `provision`\nhint: --stack names another stack"),
        ("none", None, "no installation for cluster prod: An error occurred (ValidationError)"),
        (None, {}, "provision: environment"),
        (None, {**SETTINGS.to_environment(), "PLAN_ROUNDS": "x"}, "hint: it is of another release than this program"),
    ],
)
def test_what_is_not_there_is_said(stack: str | None, environment: dict[str, str] | None, said: str) -> None:
    session: Any = stacks() if environment is None else stacks(provision=environment)
    with pytest.raises(InputError) as raised:
        installation_in(session, "prod", stack)
    assert said in str(raised.value)


def test_the_credentials_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def session(profile: str | None, region: str | None) -> Stacks:
        asked.append((profile, region))
        if profile == "none":
            raise ProfileNotFound(profile="none")
        return stacks()

    monkeypatch.setattr(cli.cluster.own_state, "_session", session)
    assert find_installation("prod", region="eu-west-1", profile="me", stack="other").stack == "other"
    with pytest.raises(InputError, match="no installation for cluster prod: The config profile") as raised:
        find_installation("prod", region=None, profile="none", stack=None)
    assert "--profile, --region and --stack say" in str(raised.value)
    assert asked == [("me", "eu-west-1"), ("none", None)]


def test_a_place_is_searched_under_its_role() -> None:
    """In the region of the user's own session: the role has none."""
    session: Any = stacks()
    found = account_region(SearchPlace(role="arn:role/reads", region="eu-west-1", session=session))
    credentials = found.session.get_credentials()
    assert (found.role, found.region, found.session.region_name) == ("arn:role/reads", "eu-west-1", "eu-west-1")
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("A", "B", "arn:role/reads")
    own = account_region(SearchPlace(role="", region="eu-west-1", session=session))
    assert own == AccountRegion(role="", region="eu-west-1", session=session)


def test_a_place_that_cannot_be_searched_says_why() -> None:
    session: Any = stacks()
    with pytest.raises(InputError, match=r"sts:AssumeRole: .*AccessDenied"):
        account_region(SearchPlace(role="arn:role/denied", region="eu-west-1", session=session))
    with pytest.raises(InputError, match="no credentials"):
        account_region(SearchPlace(role="", region="eu-west-1", problem=f"no credentials: {NoCredentialsError()}"))


# The account of a kill switch is in the ARN of its parameter.


@pytest.mark.parametrize(
    ("entry", "account"),
    [
        ({"ARN": "arn:aws:ssm:eu-west-1:123456789012:parameter/x"}, "123456789012"),
        ({"ARN": "arn:aws:ssm:eu-west-1:123456789012"}, "123456789012"),
        ({"ARN": "arn:aws:ssm:eu-west-1"}, ""),
        ({}, ""),
    ],
)
def test_the_account_is_the_fifth_part_of_an_arn(entry: dict[str, str], account: str) -> None:
    assert _account(entry) == account


def test_objects_that_were_read_before_are_listed_and_not_selected() -> None:
    found = GivenObjects({resources.PODS: ["p", "q"]})
    assert found.list(resources.PODS) == Listing(("p", "q"))
    assert found.list(resources.NODES) == Listing(())
    for words in ({"fields": "spec.nodeName=n"}, {"labels": "a=b"}):
        with pytest.raises(NotFoundError):
            found.list(resources.PODS, **words)


class Site:
    """Somebody who may read the cluster `prod`: NodePools `default`, with a node for a pod, `other` and `third`, with none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab()
        self.lab.kubernetes.put(a_pending_pod("web"))
        self.lab.settle()
        self.lab.bind("web")
        self.lab.kubernetes.put(a_node_pool("other"), a_node_pool("third"))
        self.node = self.lab.claim.node_name
        self.clock: Any = None
        self.fault: Exception | None = None
        monkeypatch.setattr(own_state, "ReadOnlyAdapters", self._adapters)
        monkeypatch.setattr(own_state, "kubernetes_of", lambda _, cluster, __: {"prod": self.lab.kubernetes}[cluster])

    def _adapters(self, settings: Any, session: Any, clock: Any) -> LabAdapters:
        self.clock = clock
        return LabAdapters(self.lab)

    def read(self, given: Inventory | None = None, **moment: Any) -> OwnState:
        """What is read of the installation, at the lab's moment; whoever writes meanwhile fails the test."""
        session: Any = None
        installation = Installation(cluster="prod", stack="s", settings=self.lab.settings, session=session)
        self.lab.rows.before_call = self._call
        try:
            return read_own_state(installation, given, **{"now": self.lab.clock.now(), **moment})
        finally:
            self.lab.rows.before_call = lambda _: None

    def _call(self, kind: str) -> None:
        assert kind.startswith("read")
        if self.fault is not None:
            raise self.fault

    def proposes(self, name: str, *, at: datetime) -> Proposal:
        """The row of a command that removes the node."""
        command = Command(reason="Empty", method="emptiness", nodes=(self.node,), claims=(self.lab.claim.name,))
        row = Proposal(id=name, command=command, why="it is empty", text="", proposed_at=at)
        self.lab.rows.proposals[name] = row
        return row


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_the_present_is_read_of_the_cluster_itself(site: Site) -> None:
    found = site.read(now=None)
    assert abs(found.snapshot.now - SystemClock().now()) < timedelta(minutes=1)
    assert [(pod.name, pod.node_name) for pod in found.snapshot.pods] == [("web", site.node)]
    assert [claim.name for claim in found.snapshot.node_claims] == list(found.view.claims) == [site.lab.claim.name]
    assert (found.snapshot.rollouts, found.snapshot.paused_pools, found.snapshot.stored_target) == ({}, {}, None)
    assert (found.brakes, found.sweeps, found.proposals) == (EngagedBrakes(), {}, None)


def test_objects_that_are_given_are_the_cluster_at_the_given_moment(site: Site) -> None:
    given = Inventory()
    for resource in (resources.NODE_POOLS, resources.EC2_NODE_CLASSES, resources.NODES):
        for listed in site.lab.kubernetes.list(resource).items:
            given.add(resource, listed, Document("given", 0, {}))
    found = site.read(given)
    assert (found.snapshot.now, found.snapshot.pods) == (site.lab.clock.now(), ())
    assert [node.name for node in found.snapshot.nodes] == [site.node]
    assert (site.clock.now(), site.clock.worked()) == (found.snapshot.now, timedelta(0))


def test_brakes_hold_the_snapshot_and_its_target_back_as_disrupt_does(site: Site) -> None:
    """An observed pool is not paused: what it would do is what is asked."""
    lab = site.lab
    target = a_stored_target(site.node, settings=settings_digest(site.read().snapshot))
    LabAdapters(lab).targets.write(target)
    lab.brakes.hold(Brake(BrakeKind.OBSERVED, "observed", node_pool="other"), NOW)
    lab.brakes.hold(Brake(BrakeKind.POOL_BREAKER, "too many failed", node_pool="third"), NOW)
    lab.brakes.failed("third", "never joined", NOW)
    lab.rows.sweeps = {"drift": SweepState(clean_at=NOW, failures=2)}
    found = site.read()
    assert [brake.kind for brake in found.brakes.brakes] == [BrakeKind.POOL_BREAKER, BrakeKind.OBSERVED]
    assert {breaker.node_pool: breaker.failures for breaker in found.breakers} == {"default": 0, "third": 1}
    assert found.sweeps == lab.rows.sweeps
    assert (found.snapshot.paused_pools, found.snapshot.stored_target) == ({"third": "too many failed"}, target)
    lab.brakes.hold(Brake(BrakeKind.POOL_BREAKER, "its node stays", node_pool="default"), NOW)
    found = site.read()
    assert found.snapshot.paused_pools == {"default": "its node stays", "third": "too many failed"}
    assert found.snapshot.stored_target == msgspec.structs.replace(target, drains=())


def test_a_pool_that_has_shrunk_shows_its_brake(site: Site) -> None:
    gone = EvictedNode(node_pool="default", pods=1, at=NOW, cpu=200_000)
    site.lab.rows.moves = MoveHistory(evicted_nodes={"gone": gone})
    assert [(brake.kind, brake.node_pool) for brake in site.read().brakes.brakes] == [(BrakeKind.SHRINKING, "default")]


def test_a_rollout_bounds_drift_until_it_is_proven(site: Site) -> None:
    lab = site.lab
    changed = {"template": {"metadata": {"labels": {"team": "web"}}}}
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"spec": changed})
    found = site.read().snapshot
    assert {pool: gate.allowed for pool, gate in found.rollouts.items()} == {"default": 0}, "it may be taken back"
    (pool,) = (one for one in found.node_pools if one.name == "default")
    begun = Rollout(node_pool="default", target=target_of(pool, found), started_at=NOW - timedelta(hours=1))
    lab.rows.moves = MoveHistory(rollouts={"default": begun})
    assert {pool: gate.allowed for pool, gate in site.read().snapshot.rollouts.items()} == {"default": 1}
    proven = msgspec.structs.replace(begun, is_proven=True)
    lab.rows.moves = MoveHistory(rollouts={"default": proven})
    assert site.read().snapshot.rollouts == {}


def test_nodes_of_proposals_that_wait_are_kept_where_commands_need_approval(site: Site) -> None:
    now = site.lab.clock.now()
    waits, _ = site.proposes("waits", at=now), site.proposes("expired", at=now - EXPIRES_AFTER)
    found = site.read()
    assert (found.proposals, found.snapshot.node_claims[0].hold) == (None, None)
    site.lab.settings = msgspec.structs.replace(site.lab.settings, mode="approve")
    found = site.read()
    hold = found.snapshot.node_claims[0].hold
    assert found.proposals == (waits,)
    assert hold is not None
    assert hold.message.startswith("proposal waits waits until")


def test_a_market_that_was_read_long_ago_is_told(site: Site) -> None:
    assert (site.read().prices_read_at, site.read().stale_market) == (NOW, ())
    site.lab.clock.advance(days=30)
    assert [part.name for part in site.read().stale_market] == ["Prices", "InstanceTypes"]


def test_a_cluster_that_cannot_be_read_is_named(site: Site) -> None:
    site.fault = TransientError("dynamodb:Query", "503")
    with pytest.raises(InputError, match="cluster prod cannot be read: dynamodb:Query") as refused:
        site.read()
    assert "--profile and --region say whose permissions count" in (refused.value.hint or "")


# A verdict is stored once, on one proposal that still waits.


def a_proposal(name: str, minutes: int = 0, **changes: Any) -> Proposal:
    command = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("a",))
    return Proposal(
        id=name, command=command, why="w", text="t", proposed_at=NOW + timedelta(minutes=minutes), **changes
    )


class Store:
    """Proposals in memory; they are refused, or end right after a verdict, as asked."""

    def __init__(self, *proposals: Proposal, end: ProposalEnd | None = None, refusal: Exception | None = None) -> None:
        self.kept = {proposal.id: proposal for proposal in proposals}
        self.end, self.refusal = end, refusal

    def all(self) -> tuple[Proposal, ...]:
        if self.refusal is not None:
            raise self.refusal
        return tuple(self.kept.values())

    def answer(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        self.kept[proposal.id] = msgspec.structs.replace(proposal, verdict=verdict, end=self.end or proposal.end)


def opened(store: Store, monkeypatch: pytest.MonkeyPatch, *, rule: object = "all") -> OpenProposals:
    monkeypatch.setattr(own_state, "Adapters", lambda *_: SimpleNamespace(proposals=store))
    settings = SimpleNamespace(approval_rule=lambda: rule, table_name="t", cluster_name="prod")
    session = SimpleNamespace(client=lambda *_, **__: None)
    installation: Any = SimpleNamespace(cluster="prod", stack="own", settings=settings, session=session)
    return OpenProposals(installation)


YES = ProposalVerdict(is_approved=True, by="ada", at=NOW)
NO = ProposalVerdict(is_approved=False, by="ada", at=NOW)
LAPSED = ProposalEnd(reason="ProposalLapsed", message="", at=NOW)


def test_proposals_are_listed_by_time_and_named_by_a_part_of_their_id(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(a_proposal("bbbb1", 2), a_proposal("aaaa2", 1), a_proposal("aaaa1", 1), a_proposal("bbbb"))
    found = opened(store, monkeypatch)
    assert [proposal.id for proposal in found.all()] == ["bbbb", "aaaa1", "aaaa2", "bbbb1"]
    assert [found.one(wanted).id for wanted in ("bbbb", "bbbb1", "aaaa2")] == ["bbbb", "bbbb1", "aaaa2"]
    for wanted, problem in (
        ("aaa", "'aaa' is too short"),
        ("aaaa", "2 proposals begin with 'aaaa'"),
        ("cccc", "there is no proposal 'cccc'"),
    ):
        with pytest.raises(InputError, match=problem):
            found.one(wanted)


@pytest.mark.parametrize(
    ("before", "verdict", "is_stored"),
    [
        ({}, YES, True),
        ({}, NO, True),
        ({"verdict": YES}, NO, True),
        ({"verdict": YES}, YES, False),
        ({"verdict": NO}, NO, False),
        ({"verdict": NO}, YES, False),
        ({"end": LAPSED}, YES, False),
        ({"proposed_at": NOW - EXPIRES_AFTER}, YES, False),
    ],
)
def test_a_verdict_is_stored_while_the_proposal_waits(
    before: dict[str, Any], verdict: ProposalVerdict, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = msgspec.structs.replace(a_proposal("aaaa"), **before)
    store = Store(waiting)
    after = opened(store, monkeypatch).answer("aaaa", verdict)
    assert store.kept["aaaa"] == after
    assert after == (msgspec.structs.replace(waiting, verdict=verdict) if is_stored else waiting)


def test_what_the_functions_did_meanwhile_is_seen_after_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(a_proposal("aaaa"), end=LAPSED)
    assert opened(store, monkeypatch).answer("aaaa", NO).end == LAPSED


def test_a_table_that_cannot_be_read_and_functions_that_ask_nobody_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the proposals of prod cannot be read: dynamodb:Query: no"):
        opened(Store(refusal=DeniedError("dynamodb:Query", "no")), monkeypatch).all()
    with pytest.raises(InputError, match="the functions of own wait for no approval"):
        opened(Store(), monkeypatch, rule=None)


def test_open_proposals_wait_for_a_person_at_that_moment() -> None:
    waits, ended = a_proposal("a"), a_proposal("b", end=LAPSED)
    over = msgspec.structs.replace(a_proposal("c"), proposed_at=NOW - EXPIRES_AFTER)
    approved = a_proposal("d", verdict=YES)
    assert open_proposals((waits, ended, over, approved), NOW) == (waits, approved)
    assert is_open(over, NOW - timedelta(seconds=1))
