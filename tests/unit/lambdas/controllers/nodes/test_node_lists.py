"""Which objects `execute` reads from the API server."""

from __future__ import annotations

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.observation.cluster_reader import UNBOUND
from adapters.run_report import RunReport
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.nodes.node_lists import FRESH_FOR, JOINING, NodeLists
from tests.fakes.lab import Lab, a_pending_pod


def interrupt(lab: Lab) -> None:
    for claim in lab.claims:
        lab.app.interruptions.run(
            {
                "source": "aws.ec2",
                "detail-type": "EC2 Spot Instance Interruption Warning",
                "detail": {"instance-id": claim.instance_id},
            },
            RunReport(),
        )


@pytest.fixture
def lists() -> list[str]:
    return []


@pytest.fixture
def lab(lists: list[str]) -> Lab:
    """Counts the objects of each list; a turn of binding lists all pods, up to its own bound."""
    found = Lab(bind_pods=False)
    found.kubernetes.put(a_pending_pod("p"))
    found.provision()
    found.boot()
    found.kubernetes.before_call = lambda call: lists.append(call) if call.startswith("list") else None
    return found


def test_no_list_grows_with_the_cluster(lab: Lab, lists: list[str]) -> None:
    """Otherwise, ten runs at once list five thousand nodes and a hundred thousand pods: half a gigabyte each."""
    lab.tick(4)
    (node,) = lab.kubernetes.names(kinds.NODES)
    assert lab.claim.is_settled
    lab.bind("p")
    interrupt(lab)
    lab.tick(12)
    assert lab.claims == ()
    assert set(lists) <= {
        f"list nodes {JOINING}",
        f"list pods {UNBOUND}",
        f"list pods spec.nodeName={node}",
        "list volumeattachments",
    }
    assert lists.count("list volumeattachments") <= 2


def test_a_node_is_found_whose_registration_was_not_stored(lab: Lab) -> None:
    """The function died after opening the node: the claim lacks the node's name, and would wait for 15 minutes."""
    (node,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"labels": {"karpenter.sh/registered": "true"}}})
    lab.tick(4)
    assert lab.claim.is_settled


def test_a_node_without_our_labels_is_found(lab: Lab) -> None:
    """A Custom AMI's user data belongs to the user."""
    (node,) = lab.kubernetes.names(kinds.NODES)
    assert "karpenter.sh/nodepool" not in lab.kubernetes.raw(kinds.NODES, node)["metadata"]["labels"]
    lab.tick(4)
    assert lab.claim.node_name == node


def test_an_initialized_node_is_found_whose_claim_does_not_know_it(lab: Lab) -> None:
    """Otherwise, a claim rebuilt while its node was not visible loses its machine, full of pods, after 15 minutes."""
    (node,) = lab.kubernetes.names(kinds.NODES)
    (instance,) = lab.cloud.instances()
    lab.cloud._instances[instance.instance_id] = msgspec.structs.replace(instance, private_dns_name=node)
    marks = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"labels": marks}})
    lab.tick(minutes=3)
    lab.tick(3)
    assert lab.claim.is_settled


def test_claims_that_wait_for_their_nodes_share_a_list(lists: list[str]) -> None:
    """Forty booting claims made six hundred lists a minute (seeds 18, 42, 50, 200)."""
    lab = Lab()
    for number in range(8):
        lab.kubernetes.put(a_pending_pod(f"p{number}", cpu="3"))
    lab.provision()
    claims = [claim.name for claim in lab.claims]
    assert len(claims) >= 4
    lab.clock.advance(seconds=30)
    lab.kubernetes.before_call = lambda call: lists.append(call) if call.startswith("list nodes") else None
    for _ in range(10):  # each message is handled in its own invocation
        for name in claims:
            lab.clock.advance(milliseconds=100)
            lab.execute(work_on_claim(name, lab.clock.now()))
        lab.clock.advance(seconds=1)
    assert 1 <= len(lists) <= 10


def test_a_list_that_ends_a_claim_is_a_fresh_one(lab: Lab, lists: list[str]) -> None:
    """Otherwise, a node that has just joined is terminated with its claim."""
    (node,) = lab.kubernetes.names(kinds.NODES)
    joined = lab.kubernetes.raw(kinds.NODES, node)
    lab.kubernetes.drop(kinds.NODES, node)
    lab.clock.advance(minutes=14, seconds=59)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    lab.kubernetes.put(joined)
    lab.clock.advance(seconds=1)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.claim.deletion is None
    assert lab.claim.is_registered
    assert len([call for call in lists if JOINING in call]) == 2


def test_lists_that_are_too_old_to_be_used_are_dropped() -> None:
    """Each may have five thousand nodes, and a sandbox lives for hours."""
    lab = Lab()
    found = NodeLists(lab.kubernetes, lab.clock)
    found.recent("old=1")
    lab.clock.advance(seconds=FRESH_FOR.total_seconds() / 2)
    found.recent("recent=1")
    lab.clock.advance(seconds=FRESH_FOR.total_seconds() / 2)
    found.recent("third=1")
    assert sorted(found._listed) == ["old=1", "recent=1", "third=1"]
    lab.clock.advance(milliseconds=1)
    found.recent("fourth=1")
    assert sorted(found._listed) == ["fourth=1", "recent=1", "third=1"]


def test_a_list_is_used_while_it_is_fresh() -> None:
    lab, calls = Lab(), list[str]()
    lab.kubernetes.before_call = calls.append
    found = NodeLists(lab.kubernetes, lab.clock)
    for seconds, lists in ((0.0, 1), (FRESH_FOR.total_seconds(), 1), (0.001, 2)):
        lab.clock.advance(seconds=seconds)
        found.recent("a=1")
        assert len(calls) == lists
