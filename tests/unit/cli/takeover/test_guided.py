"""`switch`: a whole move and its way back, dry by default, undone where no node has changed hands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.ports import TransientError
from cli.__main__ import main
from cli.takeover.guided import REPLICAS_BEFORE, REPLICAS_DEFAULT, TRIES, WAITS_AT_MOST
from core.manifests.wire import resources
from tests.unit.cli.simulated_installation import OF_PROD, SimulatedInstallation, failing_once

Capture = pytest.CaptureFixture[str]

FROM, BACK = ("--from", "karpenter"), ("--back",)
OURS, KARPENTERS = ["ours", "ours"], ["Karpenter's", "Karpenter's"]


class Site(SimulatedInstallation):
    """Two nodes of ours, and Karpenter's Deployment, which holds its Lease for as long as it has replicas."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        super().__init__(monkeypatch, nodes=2, **settings)
        self.karpenter_works = True
        labels = {"app.kubernetes.io/name": "karpenter"}
        metadata = {"name": "karpenter", "namespace": "kube-system", "labels": labels}
        self.lab.kubernetes.put(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 0}}
        )
        self.lab.kubernetes.after_call = self._elect

    def _elect(self, call: str) -> None:
        """Take or give up the Lease, as Karpenter's controllers do when they begin and end."""
        if call == "patch deployments":
            self.lease(is_held=bool(self.replicas) and self.karpenter_works)

    def lease(self, *, is_held: bool) -> None:
        metadata = {"name": "karpenter-leader-election", "namespace": "kube-system"}
        spec = {"holderIdentity": "karpenter-1" if is_held else ""}
        self.lab.kubernetes.put(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        )

    @property
    def replicas(self) -> int:
        deployment = self.lab.kubernetes.raw(resources.DEPLOYMENTS, "karpenter", "kube-system")
        return int(deployment["spec"]["replicas"])

    def annotation(self) -> str | None:
        metadata = self.lab.kubernetes.raw(resources.DEPLOYMENTS, "karpenter", "kube-system")["metadata"]
        found = metadata.get("annotations", {}).get(REPLICAS_BEFORE)
        return None if found is None else str(found)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Karpenter manages the cluster with three replicas; the functions are stopped."""
    site = Site(monkeypatch)
    assert main(["release", *OF_PROD, "--yes"]) == 0
    site.lab.kubernetes.patch(resources.DEPLOYMENTS, "karpenter", {"spec": {"replicas": 3}}, namespace="kube-system")
    site.lab.clock.advance(minutes=1)
    return site


def switched(capsys: Capture, *words: str) -> tuple[int, dict[str, str], list[str]]:
    """The exit code, each step's state, and the steps' messages."""
    capsys.readouterr()
    code = main(["switch", *words, *OF_PROD, "-o", "json"])
    steps = json.loads(capsys.readouterr().out)["steps"]
    return code, {step["step"]: step["state"] for step in steps}, [step["message"] for step in steps]


ALL = ("plan", "freeze", "hand over", "start", "verify")


def test_there_and_back_moves_no_node(site: Site, capsys: Capture) -> None:
    before = [instance.instance_id for instance in site.lab.cloud.instances()]
    assert site.owners() == KARPENTERS
    code, states, _ = switched(capsys, *FROM, "--yes")
    assert (code, states) == (0, dict.fromkeys(ALL, "done"))
    assert (site.owners(), site.switch, site.replicas, site.annotation()) == (OURS, "run", 0, "3")
    code, states, _ = switched(capsys, *BACK, "--yes")
    assert (code, states) == (0, dict.fromkeys(ALL, "done"))
    assert (site.owners(), site.switch, site.replicas, site.annotation()) == (KARPENTERS, "stop", 3, None)
    assert [instance.instance_id for instance in site.lab.cloud.instances()] == before


def test_without_yes_nothing_changes(site: Site, capsys: Capture) -> None:
    code, states, messages = switched(capsys, *FROM)
    assert (code, states) == (0, {"plan": "done", **dict.fromkeys(ALL[1:], "due")})
    assert messages[0] == "2 nodes to adopt, 0 of them drifted, 0 ours already, 0 left to Karpenter"
    assert (site.owners(), site.switch, site.replicas) == (KARPENTERS, "stop", 3)
    assert main(["switch", *FROM, *OF_PROD]) == 0
    assert "`fleetwright switch --from karpenter --cluster test --yes` carries it out" in " ".join(
        capsys.readouterr().out.split()
    )


def test_nodes_may_be_kept_for_a_while(site: Site, capsys: Capture) -> None:
    assert switched(capsys, *FROM, "--yes", "--keep-nodes")[0] == 0
    assert site.switch == "pause-disruption"


def test_a_karpenter_that_is_scaled_up_again_is_found_and_gets_its_nodes(site: Site, capsys: Capture) -> None:
    """A GitOps controller restores the replicas: no node has changed hands, so Karpenter goes on."""
    site.lab.kubernetes.after_call = lambda _: None  # the Lease stays held
    started = site.lab.clock.now()
    code, states, messages = switched(capsys, *FROM, "--yes")
    assert (code, states) == (1, {"plan": "done", "freeze": "failed", "undo": "undone"})
    assert "Karpenter runs: its Lease in namespace kube-system is held" in messages[1]
    assert (site.owners(), site.replicas, site.switch) == (KARPENTERS, 3, "stop")
    assert site.lab.clock.now() - started <= WAITS_AT_MOST


@pytest.mark.parametrize("call", ["patch nodes", "patch nodeclaims"])
def test_a_call_that_fails_once_is_made_again(site: Site, capsys: Capture, call: str) -> None:
    site.lab.kubernetes.before_call = failing_once(call)
    code, states, messages = switched(capsys, *FROM, "--yes")
    assert (code, states["hand over"], site.owners()) == (0, "done", OURS), messages


def test_when_some_nodes_are_ours_karpenter_is_not_started(site: Site, capsys: Capture) -> None:
    """It would end the instances whose NodeClaims are ours by half."""
    refused = [0]

    def refuse(call: str) -> None:
        if call == "patch nodeclaims":
            refused[0] += 1
            if refused[0] > 1:
                raise TransientError(call, "503")

    site.lab.kubernetes.before_call = refuse
    code, states, _ = switched(capsys, *FROM, "--yes")
    assert (code, states) == (1, {"plan": "done", "freeze": "done", "hand over": "failed"})
    assert (site.replicas, site.switch, refused[0]) == (0, "stop", 1 + TRIES)
    site.lab.kubernetes.before_call = lambda _: None
    assert switched(capsys, *FROM, "--yes")[0] == 0
    assert (site.owners(), site.switch, site.annotation()) == (OURS, "run", "3")


def test_what_cannot_be_adopted_keeps_everything_as_it_is(site: Site, capsys: Capture) -> None:
    (name, *_) = site.lab.kubernetes.names(resources.NODE_CLAIMS)
    site.lab.kubernetes.amend(resources.NODE_CLAIMS, name, {"metadata": {"deletionTimestamp": "2026-11-20T00:00:00Z"}})
    code, states, messages = switched(capsys, *FROM, "--yes")
    assert (code, states["plan"], site.replicas) == (1, "blocked", 3)
    assert "1 node cannot be adopted" in messages[0]
    code, states, _ = switched(capsys, *FROM, "--yes", "--leave-refused")
    assert (code, states["verify"]) == (0, "done")
    assert sorted(site.owners()) == ["Karpenter's", "ours"]


def test_functions_that_change_nothing_cannot_start(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    Site(monkeypatch, mode="shadow")
    code, states, messages = switched(capsys, *FROM, "--yes")
    assert (code, states["plan"]) == (1, "blocked")
    assert "deploy them with `mode: act` first" in messages[0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--deployment", "other/karpenter"), "Karpenter's Deployment was not found"),
        (("--deployment", "karpenter"), None),
    ],
)
def test_karpenters_deployment_may_be_named(
    site: Site, capsys: Capture, words: tuple[str, ...], problem: str | None
) -> None:
    if problem is None:
        assert main(["switch", *FROM, *OF_PROD, *words]) == 2
        assert "is not NAMESPACE/NAME" in capsys.readouterr().err
    else:
        code, _, messages = switched(capsys, *FROM, "--yes", *words)
        assert (code, site.replicas) == (1, 3)
        assert problem in messages[0]


def test_the_way_back_begins_with_the_functions_still_in_charge(site: Site, capsys: Capture) -> None:
    """Karpenter runs although nodes are ours: nothing is released."""
    assert switched(capsys, *FROM, "--yes")[0] == 0
    site.lease(is_held=True)
    site.lab.clock.advance(minutes=1)
    code, states, messages = switched(capsys, *BACK, "--yes")
    assert (code, states["plan"], site.switch, site.owners()) == (1, "blocked", "run", OURS)
    assert "Karpenter runs already" in messages[0]


def test_a_karpenter_that_does_not_come_up_is_said(site: Site, capsys: Capture) -> None:
    assert switched(capsys, *FROM, "--yes")[0] == 0
    site.karpenter_works = False
    code, states, messages = switched(capsys, *BACK, "--yes")
    assert (code, states["start"], site.owners()) == (1, "failed", KARPENTERS)
    assert "holds no Lease yet" in messages[3]
    assert site.replicas == 3


def test_a_way_back_without_an_annotation_starts_as_many_as_the_chart(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    site = Site(monkeypatch)
    assert switched(capsys, *BACK, "--yes")[0] == 0
    assert (site.owners(), site.replicas) == (KARPENTERS, REPLICAS_DEFAULT)


def test_a_freeze_that_fails_lets_the_functions_go_on(site: Site, capsys: Capture) -> None:
    assert switched(capsys, *FROM, "--yes")[0] == 0
    site.lab.clock.advance(minutes=1)
    waits = site.lab.clock.pause

    def pause(duration: Any) -> None:
        site.lease(is_held=True)
        waits(duration)

    site.lab.clock.pause = pause  # type: ignore[method-assign]
    code, states, _ = switched(capsys, *BACK, "--yes")
    assert (code, states) == (1, {"plan": "done", "freeze": "failed", "undo": "undone"})
    assert (site.switch, site.owners()) == ("run", OURS)
