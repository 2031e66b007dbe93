"""Access to the cluster: the functions' roles by EKS' access entries, with the ClusterRole's permissions, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from adapters.kube import EksToken, Endpoint, HttpKubernetes, Transport, presigner
from adapters.ports import DeniedError
from adapters.runtime import SystemClock
from core.manifests.wire.resources import NODES
from installation.cluster_roles import RULES_OF
from installation.metric_names import FAILED_SWEEPS
from installation.wiring import BY_NAME
from tests.e2e.cloud.identities import Caller
from tests.e2e.functions.sandbox import OK
from tests.e2e.parts.admin import until
from tests.e2e.world import World

CACHED_SECONDS = 120.0
"""The API server remembers a review for five seconds."""


def as_caller(world: World, caller: Caller, *, cluster: str = "") -> HttpKubernetes:
    """The functions' own client, with these credentials."""
    session = boto3.Session(caller.access_key, caller.secret_key, caller.session_token, "us-east-1")
    endpoint = Endpoint(world.control_plane.url, world.cloud.certificate_authority)
    token = EksToken(presigner(session, cluster=cluster or world.cloud.settings.cluster_name), SystemClock())
    return HttpKubernetes(Transport(lambda: endpoint, token))


@pytest.mark.parametrize("function", sorted(RULES_OF))
def test_each_function_gets_in_with_its_role_and_gets_no_further(world: World, function: str) -> None:
    """If this failed, a function could not work on EKS, or had too many permissions."""
    caller = world.cloud.identities.of_function(BY_NAME[function])
    as_caller(world, caller).list(NODES)
    assert may(world, caller, "list", "", "nodes")
    assert not may(world, caller, "list", "", "secrets")
    assert not may(world, caller, "create", "", "pods")
    assert not may(world, caller, "delete", "karpenter.sh", "nodepools")


@pytest.mark.parametrize("function", sorted(set(BY_NAME) - set(RULES_OF)))
def test_a_function_that_asks_the_cluster_for_nothing_is_not_let_in(world: World, function: str) -> None:
    """If this failed, a stolen role of a function that only sends messages would open the cluster."""
    caller = world.cloud.identities.of_function(BY_NAME[function])
    with pytest.raises(DeniedError, match="401"):
        as_caller(world, caller).list(NODES)


def may(world: World, caller: Caller, verb: str, group: str, resource: str) -> bool:
    """Whether RBAC lets this caller: asked as the administrator, for a refusal of the caller's own would be one to explain."""
    attributes = {"verb": verb, "group": group, "resource": resource}
    groups = list(world.authenticator.entries[caller.role_arn])
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": caller.arn, "groups": groups, "resourceAttributes": attributes},
    }
    return bool(world.admin.create(review)["status"].get("allowed"))


def test_a_token_for_another_cluster_is_refused(world: World) -> None:
    """If this failed, an identity with access to one cluster could enter all of them."""
    caller = world.cloud.identities.of_function(BY_NAME["provision"])
    with pytest.raises(DeniedError, match="401"):
        as_caller(world, caller, cluster="another").list(NODES)


@pytest.fixture
def shut_out(world: World) -> Iterator[str]:
    """`reconcile`, whose role has just lost its access entry."""
    entries, name = world.authenticator.entries, "reconcile"
    role = world.cloud.identities.of_function(BY_NAME[name]).role_arn
    taken = entries.pop(role)
    yield name
    entries[role] = taken
    until(lambda: failed_sweeps(world, name) == 0, seconds=CACHED_SECONDS, what="the role is let in again")


def failed_sweeps(world: World, function: str) -> int:
    """How many sweeps one run of `reconcile` could not do: it ends well all the same, and its alarms stand on this count."""
    run = world.wake(function)
    assert run.outcome == OK
    assert run.response is not None
    return int(run.response.get(FAILED_SWEEPS, 0))


def test_a_role_without_access_entry_is_told_so_in_the_functions_log(world: World, shut_out: str) -> None:
    """If this failed, an installation whose access entries are missing would look healthy and do nothing."""
    before = len(world.cloud.instances.all())
    until(lambda: failed_sweeps(world, shut_out) > 0, seconds=CACHED_SECONDS, what="its token counts no more")
    said = world.log_of(shut_out).read_text()
    assert "401 Unauthorized" in said
    assert len(world.cloud.instances.all()) == before
