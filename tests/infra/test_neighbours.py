"""Clusters that share a table or a bucket reach only their own rows and objects, and the few that all of them share."""

from __future__ import annotations

import pytest

from adapters.aws.dynamodb import launch_memory
from infra.constructs.grants import state
from installation.wiring import BY_NAME
from tests.access import page
from tests.access.iam import Policy, Request
from tests.access.template import ACCOUNT, REGION, Deployment
from tests.infra.conftest import synthesize

ITEM_ACTIONS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem", "Query")


@pytest.fixture(scope="module", params=[True, False], ids=["shares", "alone"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Templates of a cluster that shares capacity with others, or does not."""
    context = {**page.CONTEXT, "shareCapacity": request.param}
    return Deployment(synthesize(tmp_path_factory.mktemp("neighbours"), context))


def test_the_names_of_shared_partitions_are_those_that_functions_use() -> None:
    assert (state.REFUSALS, state.REQUEST_RATES) == (launch_memory.PARTITION, launch_memory.PACE_PARTITION)


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_a_function_reaches_no_rows_of_another_cluster(deployment: Deployment, function: str) -> None:
    """Even where both use one table: a name that begins like another cluster's is another cluster's too."""
    policy, settings = deployment.policy(function), deployment.settings(function)
    own = settings.cluster_name
    for table in {settings.table_name, settings.shared_table_name} - {""}:
        for action in ITEM_ACTIONS:
            for partition in ("neighbour#claims#0", f"{own}-2#claims#0", f"x{own}#claims#0", own, "anything"):
                assert not policy.allows(row(action, table, partition)), (action, partition)
            if table != settings.table_name:
                assert not policy.allows(row(action, table, f"{own}#claims#0"))


def test_a_function_that_keeps_state_reaches_its_own_rows(deployment: Deployment) -> None:
    policy, settings = deployment.policy("execute"), deployment.settings("execute")
    for action in ITEM_ACTIONS:
        assert policy.allows(row(action, settings.table_name, f"{settings.cluster_name}#claims#0")), action


def test_clusters_share_refusals_and_counts_of_launches(deployment: Deployment) -> None:
    """The rates of requests are read and counted up: nobody replaces or deletes them."""
    policy, settings = deployment.policy("provision"), deployment.settings("provision")
    table = settings.shared_table_name or settings.table_name
    allowed = {p: may(policy, table, p) for p in (state.REFUSALS, state.REQUEST_RATES)}
    assert allowed == {
        state.REFUSALS: {"Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem"},
        state.REQUEST_RATES: {"GetItem", "UpdateItem"},
    }


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_only_the_reader_of_the_market_writes_to_the_shared_bucket_and_only_the_market(
    deployment: Deployment, function: str
) -> None:
    policy, settings = deployment.policy(function), deployment.settings(function)
    bucket = settings.shared_bucket_name or settings.bucket_name
    keys = ("catalogue/market.json.gz", "elsewhere/market.json.gz")
    writes = [policy.allows(Request("s3:PutObject", f"arn:aws:s3:::{bucket}/{key}")) for key in keys]
    assert writes == [function == "refresh_catalogue", False]


def may(policy: Policy, table: str, partition: str) -> set[str]:
    return {action for action in ITEM_ACTIONS if policy.allows(row(action, table, partition))}


def row(action: str, table: str, partition: str) -> Request:
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"
    return Request(f"dynamodb:{action}", arn, {"dynamodb:LeadingKeys": (partition,)})
