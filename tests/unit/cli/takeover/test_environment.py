"""What keeps nodes from changing hands, and patches of objects that others write to."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import ConflictError
from cli.takeover.environment import (
    SETTLED_AFTER,
    TRIES,
    TakeoverEnvironment,
    adoption_table,
    all_of_adoption,
    all_of_release,
    release_table,
    subject_names,
)
from core.manifests.wire import resources
from tests.fakes.lab import Lab, LabAdapters

PARAMETER = "/fleetwright/test/mode"


class FakeSsm:
    """The kill switch's parameter."""

    def __init__(self, value: str, since: Any) -> None:
        self.answer = {"Parameter": {"Name": PARAMETER, "Value": value, "LastModifiedDate": since}}

    def call(self, operation: str, *, Name: str) -> Any:  # noqa: N803 - SSM's own spelling
        assert (operation, Name) == ("GetParameter", PARAMETER)
        return self.answer


def a_site(lab: Lab, value: str = "stop", age: timedelta = timedelta(hours=1)) -> TakeoverEnvironment:
    service: Any = FakeSsm(value, lab.clock.now() - age)
    return TakeoverEnvironment(LabAdapters(lab), service, service)


def test_nothing_is_in_the_way_once_everybody_stands_still() -> None:
    lab = Lab(kill_switch_parameter=PARAMETER)
    assert a_site(lab, age=SETTLED_AFTER).hindrances() == []
    assert a_site(lab, value=" STOP\n").hindrances() == []


@pytest.mark.parametrize("value", ["run", "pause-disruption", "halt"])
def test_functions_that_act_are_stopped_first(value: str) -> None:
    (told,) = a_site(Lab(kill_switch_parameter=PARAMETER), value).hindrances()
    assert "`fleetwright pause --cluster test --everything`" in told


def test_what_had_begun_is_waited_for() -> None:
    """Functions read the switch every 15 seconds, and a call of theirs takes 45 at most."""
    assert timedelta(seconds=60) == SETTLED_AFTER
    (told,) = a_site(Lab(kill_switch_parameter=PARAMETER), age=timedelta(seconds=20)).hindrances()
    assert "run this again in 41 seconds" in told


def test_without_a_kill_switch_nobody_can_stand_still() -> None:
    (told,) = a_site(Lab()).hindrances()
    assert "deploy the stack again" in told


@pytest.mark.parametrize("renewed", ["2026-11-19T23:59:30Z", None])
def test_karpenters_lease_is_found_in_any_namespace(renewed: str | None) -> None:
    lab = Lab(kill_switch_parameter=PARAMETER)
    spec = {"holderIdentity": "karpenter-1", "renewTime": renewed}
    metadata = {"name": "karpenter-leader-election", "namespace": "infra"}
    lab.kubernetes.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    (told,) = a_site(lab).hindrances()
    assert "kubectl -n infra scale deployment karpenter --replicas=0" in told


def test_a_lease_that_was_given_up_or_has_run_out_is_nobodys() -> None:
    for spec in ({"holderIdentity": ""}, {"holderIdentity": "k", "renewTime": "2026-11-19T23:58:00Z"}):
        lab = Lab(kill_switch_parameter=PARAMETER)
        metadata = {"name": "karpenter-leader-election", "namespace": "kube-system"}
        lab.kubernetes.put(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        )
        assert a_site(lab).hindrances() == []


def a_node(lab: Lab) -> None:
    lab.kubernetes.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {}})


def test_a_patch_is_made_again_from_what_somebody_wrote_meanwhile() -> None:
    """A kubelet's write between our read and our patch is not lost."""
    lab = Lab()
    a_node(lab)
    writes = [1]

    def patch_of(node: Any) -> Any:
        if writes:
            writes.pop()
            lab.kubernetes.amend(resources.NODES, "n", {"metadata": {"finalizers": ["of-another"]}})
        return {"metadata": {"finalizers": [*node.metadata.finalizers, "ours"]}}

    a_site(lab).patch(resources.NODES, "n", patch_of)
    assert lab.kubernetes.raw(resources.NODES, "n")["metadata"]["finalizers"] == ["of-another", "ours"]


def test_a_patch_is_given_up_after_some_attempts() -> None:
    lab = Lab()
    a_node(lab)
    tries = []

    def patch_of(_: Any) -> Any:
        tries.append(1)
        lab.kubernetes.amend(resources.NODES, "n", {"metadata": {"labels": {"a": str(len(tries))}}})
        return {"metadata": {}}

    with pytest.raises(ConflictError):
        a_site(lab).patch(resources.NODES, "n", patch_of)
    assert len(tries) == TRIES


# The answers of `adopt` and `release` for people.


HINDRANCE = "Karpenter runs: stop it"


def item(number: int, state: str, **more: str) -> dict[str, str]:
    found = {
        "subject": f"NodeClaim/default-{number}",
        "state": state,
        "node": f"ip-10-0-0-{number}.ec2.internal",
        "instance": f"i-{number:017x}",
        "instanceType": "m5.xlarge",
        "nodePool": "default",
        "reason": "",
        "message": "",
        "drift": "",
    }
    return found | more


def answer(*items: dict[str, str], acting: bool = False, hindrances: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {"cluster": "prod", "acting": acting, "hindrances": list(hindrances), "items": list(items), "commands": 0}
    return {**found, "nodeClasses": [{"subject": "EC2NodeClass/default", "state": "adoptable"}] if items else []}


def test_a_row_is_a_line_and_empty_columns_are_left_out() -> None:
    """Seven columns did not fit: half of each row was on a second line."""
    lines = adoption_table(answer(item(4, "adoptable"), item(5, "adoptable"))).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["STATE", "SUBJECT", "NODE", "NODEPOOL"],
        ["adoptable", "NodeClaim/default-4", "ip-10-0-0-4.ec2.internal", "default"],
        ["adoptable", "NodeClaim/default-5", "ip-10-0-0-5.ec2.internal", "default"],
        ["adoptable", "EC2NodeClass/default"],
    ]
    wide = all_of_adoption(answer(item(4, "ours", drift="NodePoolDrifted"))).splitlines()
    assert wide[0].split() == ["STATE", "SUBJECT", "NODE", "INSTANCE", "TYPE", "NODEPOOL", "DRIFT"]


def test_one_reason_of_many_nodes_is_told_once() -> None:
    refused = [
        item(number, "refused", reason="NodeLeaves", message="it is being deleted. Wait.") for number in range(5)
    ]
    text = adoption_table(answer(*refused))
    named = "NodeClaim/default-0, NodeClaim/default-1, NodeClaim/default-2 +2"
    assert f"{named}: NodeLeaves: it is being deleted. Wait." in text.replace("\n    ", " ")
    assert text.count("it is being deleted") == 1


def test_every_object_with_a_reason_is_named_in_the_wide_form() -> None:
    """It was cut to three names there, too, and nothing else had the others."""
    refused = [item(number, "refused", reason="NodeLeaves", message="it leaves. Wait.") for number in range(5)]
    named = ", ".join(f"NodeClaim/default-{number}" for number in range(5))
    for table in (all_of_adoption, all_of_release):
        assert f"{named}: NodeLeaves: it leaves. Wait." in " ".join(table(answer(*refused)).split())


def test_what_to_do_next_follows_what_prevents_it() -> None:
    """The command was offered at once, and then refused."""
    looked = adoption_table(answer(item(4, "adoptable"), hindrances=(HINDRANCE,)))
    assert looked.endswith(f"Not now: {HINDRANCE}.\nThen run `fleetwright adopt --cluster prod --yes` to adopt 1 node.")
    acted = adoption_table(answer(item(4, "adoptable"), acting=True, hindrances=(HINDRANCE,)))
    assert acted.endswith(f"Not now: {HINDRANCE}.\nNothing was changed.")
    given = release_table(answer(item(4, "releasable"), hindrances=(HINDRANCE,)))
    assert given.endswith("Then run `fleetwright release --cluster prod --yes` to release 1 node to Karpenter.")


def test_objects_are_named_as_kubectl_does() -> None:
    assert subject_names(answer(item(4, "ours"), item(5, "begun"))) == "nodeclaim/default-4\nnodeclaim/default-5"
    assert subject_names(answer()) == ""


STATES = ((), ("adoptable",), ("begun",), ("failed",), ("ours",), ("ours", "refused"), ("adoptable", "failed", "ours"))


@pytest.mark.parametrize(
    ("states", "acting", "is_hindered", "drifted"), [*itertools.product(STATES, *[(False, True)] * 2, (0, 1, 2))]
)
def test_the_next_step_of_an_adoption(states: tuple[str, ...], acting: bool, is_hindered: bool, drifted: int) -> None:
    items = [item(n, state, drift="Drifted" if n < drifted else "") for n, state in enumerate(states)]
    document = answer(*items, acting=acting, hindrances=(HINDRANCE,) if is_hindered else ())
    waiting = sum(state in ("adoptable", "begun") for state in states)
    wanted = [", ".join(f"1 {state}" for state in sorted(states)) or "No node of Karpenter's was found."]
    wanted += ["There is nothing left to adopt."] if states == ("ours",) else []
    if count := min(drifted, len(states)):
        of = "1 node of them count" if count == 1 else f"{count} nodes of them count"
        wanted.append(f"{of} as drifted for us: their NodePools' budgets say when they are replaced.")
    wanted += [f"Not now: {HINDRANCE}."] if is_hindered else []
    if waiting and not acting:
        wanted.append(
            f"{'Then run' if is_hindered else 'Run'} `fleetwright adopt --cluster prod --yes` to adopt 1 node."
        )
    elif waiting and is_hindered:
        wanted.append("Nothing was changed.")
    elif waiting or "failed" in states:
        wanted.append("The rest is unchanged: run the command again.")
    elif acting:
        wanted.append("`fleetwright resume --cluster prod` lets the functions manage them.")
    assert " ".join(adoption_table(document).split("\n\n")[-1].split()) == " ".join(wanted)


RELEASED = ((), ("released",), ("releasable",), ("released", "releasable"), ("failed",), ("released", "failed"))


@pytest.mark.parametrize(
    ("states", "acting", "is_hindered", "commands"), [*itertools.product(RELEASED, *[(False, True)] * 2, (0, 1, 2))]
)
def test_the_next_step_of_a_release(states: tuple[str, ...], acting: bool, is_hindered: bool, commands: int) -> None:
    """Karpenter is started last: it ends instances with its tags that have no NodeClaim."""
    items = [item(n, state) for n, state in enumerate(states)]
    document = answer(*items, acting=acting, hindrances=(HINDRANCE,) if is_hindered else ())
    nothing = "No node is Fleetwright's: there is nothing to release."
    wanted = [", ".join(f"1 {state}" for state in sorted(states)) or nothing]
    if commands:
        of = "1 command" if commands == 1 else f"{commands} commands"
        wanted.append(f"{of} of disruption under way: dropped with the release.")
    wanted += [f"Not now: {HINDRANCE}."] if is_hindered else []
    if "releasable" in states and not acting:
        run = "Then run" if is_hindered else "Run"
        wanted.append(f"{run} `fleetwright release --cluster prod --yes` to release 1 node to Karpenter.")
    elif acting and {*states} - {"released"}:
        wanted.append("Do not start Karpenter yet: it terminates instances with its tags that have no NodeClaim.")
    elif acting:
        wanted.append("Now start Karpenter, and remove the stacks once its NodeClaims are Ready.")
    assert " ".join(release_table(document | {"commands": commands}).split("\n\n")[-1].split()) == " ".join(wanted)
