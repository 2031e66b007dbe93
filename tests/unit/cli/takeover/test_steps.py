"""What `adopt` finds of Karpenter's: each NodeClaim, instance and Node once, with why it cannot be adopted."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, JsonObject, NotFoundError
from cli.__main__ import main
from cli.takeover import steps
from cli.takeover.steps import (
    Adopter,
    AdoptionCandidate,
    AdoptionSurvey,
    Releasable,
    Releaser,
    ReleaseSurvey,
    adoption_document,
    adoption_survey,
    release_document,
)
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.takeover import (
    AdoptionState,
    Objection,
    OwnedClaim,
    ReleaseObjection,
)
from core.manifests.wire import resources
from core.reasons.code import AdoptionReason, ReleaseReason
from tests.builders import NOW, a_class_manifest
from tests.unit.cli.simulated_installation import OF_PROD, SimulatedInstallation, failing_once
from tests.unit.cli.takeover.site import a_site, an_instance
from tests.unit.lifecycle.records_for_tests import a_node, a_record
from tests.unit.lifecycle.takeover.karpenters_objects import (
    INSTANCE,
    NAME,
    PROVIDER_ID,
    TAGS,
    a_karpenter_node,
    a_manifest,
)
from tests.unit.lifecycle.takeover.karpenters_objects import NODE as ADOPTION_SURVEY_NODE

# An adoption stores its row first, then marks instance, node and NodeClaim; what another run stored is not overwritten.


class Environment:
    """Notes what is written, in order; `stored` is the row that the table has already."""

    cluster = "prod"

    def __init__(self, stored: ClaimRecord | None = None) -> None:
        self.done: list[Any] = []
        self._stored = stored
        self.clock = SimpleNamespace(now=lambda: NOW)
        self.stores = SimpleNamespace(claims=self, changes=SimpleNamespace(record=self.done.append))

    def restore(self, record: ClaimRecord) -> ClaimRecord | None:
        self.done.append(("row", record.name))
        return None if self._stored is not None else record

    def get(self, name: str) -> ClaimRecord | None:
        return self._stored if self._stored is not None and self._stored.name == name else None

    def tag(self, instance: Any, tags: Any) -> None:
        self.done.append(("tags", instance.instance_id, tags))

    def patch(self, resource: Any, name: str, patch_of: Any) -> None:
        self.done.append((resource.kind, name))
        self.patch_of = patch_of


def candidate(record: ClaimRecord | None, state: AdoptionState = AdoptionState.ADOPTABLE) -> AdoptionCandidate:
    return AdoptionCandidate(subject="NodeClaim/c", state=state, record=record, instance=an_instance("i-1"))


def adopted(environment: Any, found: AdoptionCandidate) -> list[Any]:
    Adopter(environment).adopt(found)
    done: list[Any] = environment.done
    return done


def test_a_row_of_the_same_instance_is_gone_on_with_and_another_is_not_overwritten() -> None:
    record = a_record()
    assert len(adopted(Environment(record), candidate(record))) == 4
    machine = msgspec.structs.replace(record.machine, instance_id="i-other")
    for other in (msgspec.structs.replace(record, machine=machine), msgspec.structs.replace(record, name="another")):
        environment: Any = Environment(other)
        with pytest.raises(ConflictError, match="claim c was stored by another run; run again"):
            Adopter(environment).adopt(candidate(record))
        assert environment.done == [("row", "c")]


KEPT = {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}


def survey(**world: Any) -> AdoptionSurvey:
    return adoption_survey(a_site(**world))


def one(**world: Any) -> AdoptionCandidate:
    (candidate,) = survey(**world).candidates
    return candidate


def our_row(provider_id: str = PROVIDER_ID) -> Any:
    record = a_record()
    own = {"provider_id": provider_id, "instance_id": provider_id.rpartition("/")[2]}
    return msgspec.structs.replace(record, name=NAME, machine=msgspec.structs.replace(record.machine, **own))


def test_a_working_node_can_be_adopted() -> None:
    found = one(node_claims=[a_manifest()], instances=[an_instance()])
    assert (found.subject, found.state, found.objection) == (f"NodeClaim/{NAME}", AdoptionState.ADOPTABLE, None)
    assert (found.node_claim, found.node, found.node_pool, found.drift) == (NAME, ADOPTION_SURVEY_NODE, "default", "")
    assert found.instance == an_instance()
    assert found.record is not None
    assert (found.record.name, found.record.instance_id, found.record.node_name) == (
        NAME,
        INSTANCE,
        ADOPTION_SURVEY_NODE,
    )
    assert found.record.machine is not None
    assert found.record.machine.offering.instance_type == "m5.large"


def test_instances_are_asked_for_by_what_node_claims_name() -> None:
    site = a_site(node_claims=[a_manifest(), {"metadata": {"name": "new"}}], instances=[an_instance()])
    adoption_survey(site)
    assert site.asked == [[INSTANCE], ["market"]]
    without = a_site(nodes=())
    assert adoption_survey(without) == AdoptionSurvey(candidates=(), classes=())
    assert without.asked == [[]]


def test_a_node_that_boots_has_the_name_that_its_node_claim_says() -> None:
    booting = {"nodes": (), "instances": [an_instance(launched_at=NOW - timedelta(minutes=1))]}
    assert one(node_claims=[a_manifest()], **booting).node == ADOPTION_SURVEY_NODE
    assert one(node_claims=[a_manifest(nodeName="")], **booting).node == ""
    for waited, state in ((0, AdoptionState.ADOPTABLE), (1, AdoptionState.REFUSED)):
        launched_at = NOW - REGISTRATION_TIMEOUT + timedelta(seconds=1 - waited)  # joins within 15 minutes
        assert (
            one(node_claims=[a_manifest()], nodes=(), instances=[an_instance(launched_at=launched_at)]).state == state
        )


def test_an_adoption_that_has_begun_goes_on_with_its_row() -> None:
    found = one(node_claims=[a_manifest()], instances=[an_instance()], rows=[our_row()])
    assert (found.state, found.record, found.drift) == (AdoptionState.BEGUN, our_row(), "")
    other = one(node_claims=[a_manifest()], instances=[an_instance()], rows=[our_row("aws:///us-east-1a/i-other")])
    assert (other.state, other.record) == (AdoptionState.REFUSED, None)


def test_what_is_ours_is_listed_as_such() -> None:
    manifest = a_manifest()
    manifest["metadata"]["annotations"][labels.CLAIM] = NAME
    manifest["metadata"]["finalizers"] = [labels.TERMINATION_FINALIZER]
    node = a_karpenter_node(annotations={labels.CLAIM: NAME}, finalizers=(labels.TERMINATION_FINALIZER,))
    instance = an_instance(tags={**TAGS, labels.CLAIM: NAME})
    found = one(node_claims=[manifest], nodes=[node], instances=[instance], rows=[our_row()])
    assert (found.state, found.record) == (AdoptionState.OURS, our_row())
    manifest["metadata"]["finalizers"] = None
    assert (
        one(node_claims=[manifest], nodes=[node], instances=[instance], rows=[our_row()]).state == AdoptionState.BEGUN
    )


def test_a_node_claim_that_cannot_be_read_stops_no_other() -> None:
    broken = a_manifest()
    broken["metadata"]["name"] = "a-broken"
    broken["spec"]["requirements"] = "none"
    first, second = survey(node_claims=[a_manifest(), broken], instances=[an_instance()]).candidates
    assert (first.subject, first.state, first.node_claim) == ("NodeClaim/a-broken", AdoptionState.REFUSED, "a-broken")
    assert first.objection is not None
    assert first.objection.reason == AdoptionReason.UNREADABLE
    assert "requirements" in first.objection.message
    assert second.state == AdoptionState.ADOPTABLE


def test_an_instance_of_karpenters_that_no_node_claim_names_is_refused() -> None:
    found = one(instances=[an_instance()])
    assert (found.subject, found.state, found.node, found.node_pool) == (
        f"Instance/{INSTANCE}",
        AdoptionState.REFUSED,
        ADOPTION_SURVEY_NODE,
        "default",
    )
    assert found.instance == an_instance()
    assert found.objection is not None
    assert (found.objection.reason, found.objection.message) == (
        AdoptionReason.NO_NODE_CLAIM,
        f"no NodeClaim names instance {INSTANCE}",
    )
    assert one(instances=[an_instance()], nodes=()).node == ""


@pytest.mark.parametrize(
    "known",
    [
        {"instances": [an_instance(tags={**TAGS, labels.CLAIM: NAME})]},
        {"instances": [an_instance(tags={"Name": "bastion"})]},
        {"instances": [an_instance()], "rows": [our_row()]},
    ],
    ids=["ours", "anybody's", "a row's"],
)
def test_an_instance_that_is_not_karpenters_is_not_listed(known: dict[str, Any]) -> None:
    assert survey(nodes=(), **known).candidates == ()


def test_a_node_of_karpenters_that_no_node_claim_names_is_refused() -> None:
    found = one()
    assert (found.subject, found.state, found.node, found.node_pool) == (
        f"Node/{ADOPTION_SURVEY_NODE}",
        AdoptionState.REFUSED,
        ADOPTION_SURVEY_NODE,
        "default",
    )
    assert found.objection is not None
    assert found.objection.reason == AdoptionReason.NO_NODE_CLAIM
    assert found.objection.message == f"no NodeClaim names Node {ADOPTION_SURVEY_NODE}"


@pytest.mark.parametrize(
    "node",
    [
        a_karpenter_node(annotations={labels.CLAIM: NAME}),
        a_karpenter_node(labels={labels.NODEPOOL: "default", labels.CLAIM: NAME}),
        a_karpenter_node(labels={"eks.amazonaws.com/nodegroup": "system"}),
    ],
    ids=["ours", "labelled as ours", "a node group's"],
)
def test_a_node_that_is_not_karpenters_is_not_listed(node: Any) -> None:
    assert survey(nodes=[node]).candidates == ()


def test_a_node_of_a_known_instance_is_not_listed_twice() -> None:
    assert [found.subject for found in survey(instances=[an_instance()]).candidates] == [f"Instance/{INSTANCE}"]
    assert survey(rows=[our_row()]).candidates == ()


@pytest.mark.parametrize(
    ("metadata", "is_freed"),
    [
        (KEPT, True),
        ({"finalizers": None}, False),
        ({"finalizers": ["acme.example/other"]}, False),
        ({**KEPT, "deletionTimestamp": "2026-11-20T00:00:00Z"}, False),
    ],
)
def test_classes_lose_karpenters_finalizer(metadata: dict[str, Any], is_freed: bool) -> None:
    found = survey(node_classes=[a_class_manifest(metadata=metadata)], nodes=())
    assert found.classes == (("default",) if is_freed else ())


def test_a_class_of_a_refused_node_claim_keeps_it() -> None:
    """Karpenter still needs the class for that node."""
    classes = [a_class_manifest(metadata=KEPT), a_class_manifest("other", metadata=KEPT)]
    world = {"node_classes": classes, "nodes": ()}
    assert survey(node_claims=[a_manifest()], **world).classes == ("other",)
    for spec in (None, {}, {"nodeClassRef": None}):
        without = {**copy.deepcopy(a_manifest()), "spec": spec}
        assert survey(node_claims=[without], **world).classes == ("default", "other")
    assert survey(node_claims=[a_manifest()], instances=[an_instance()], node_classes=classes).classes == (
        "default",
        "other",
    )


# `adopt` and `release`: nodes of the named installation change hands with `--yes`; the exit code says what remains.


Capture = pytest.CaptureFixture[str]


@pytest.fixture
def command_site(monkeypatch: pytest.MonkeyPatch) -> SimulatedInstallation:
    return SimulatedInstallation(monkeypatch)


def answered(capsys: Capture, *words: str) -> tuple[int, JsonObject]:
    code = main([*words, *OF_PROD, "-o", "json"])
    told = capsys.readouterr()
    assert told.out, told.err
    return code, json.loads(told.out)


def test_a_node_goes_to_karpenter_and_comes_back_with_yes_alone(
    command_site: SimulatedInstallation, capsys: Capture
) -> None:
    for name, before, done, owners in (
        ("release", "releasable", "released", (["ours"], ["Karpenter's"])),
        ("adopt", "adoptable", "adopted", (["Karpenter's"], ["ours"])),
    ):
        for more, state, owner in (((), before, owners[0]), (("--yes",), done, owners[1])):
            code, found = answered(capsys, name, *more)
            assert (code, [item["state"] for item in found["items"]], command_site.owners()) == (0, [state], owner), (
                found
            )


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_what_is_in_the_way_makes_the_exit_code_negative(
    name: str, command_site: SimulatedInstallation, capsys: Capture
) -> None:
    command_site.switch = "run"
    code, found = answered(capsys, name, "--yes")
    assert (code, command_site.owners()) == (1, ["ours"])
    assert "pause --cluster test --everything" in found["hindrances"][0]


def test_each_form_shows_the_nodes_of_its_direction(command_site: SimulatedInstallation, capsys: Capture) -> None:
    """A table says what to run next, and only the wide one has instances."""
    (claim,) = command_site.lab.claims
    for name in ("release", "adopt"):
        seen = {}
        for form in ("table", "wide", "name"):
            assert main([name, *OF_PROD, "-o", form]) == 0
            seen[form] = capsys.readouterr().out
        assert seen["name"] == f"nodeclaim/{claim.name}\n"
        assert ("INSTANCE" in seen["table"], "INSTANCE" in seen["wide"]) == (False, True)
        for form in ("table", "wide"):
            assert f"`fleetwright {name} --cluster test --yes`" in " ".join(seen[form].split())
        assert main(["release", *OF_PROD, "--yes"]) == 0


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_another_installation_is_not_touched(name: str, command_site: SimulatedInstallation) -> None:
    for number in range(1, len(OF_PROD), 2):
        assert main([name, *OF_PROD[:number], "another", *OF_PROD[number + 1 :], "--yes"]) == 2
    assert main([name]) == 2
    assert command_site.owners() == ["ours"]


# `adopt` and `release`: what prevents them is said first, a fault of one node hides no other, and another run goes on.


OURS, KARPENTERS = ["ours", "ours"], ["Karpenter's", "Karpenter's"]
GO_ON = "run this again: it continues from here"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> SimulatedInstallation:
    """Two nodes of ours, in a NodePool with the version of its hash."""
    site = SimulatedInstallation(monkeypatch, nodes=2)
    site.lab.kubernetes.amend(
        resources.NODE_POOLS, "default", {"metadata": {"annotations": {labels.NODEPOOL_HASH_VERSION: "v4"}}}
    )
    return site


@pytest.fixture
def karpenters(site: SimulatedInstallation) -> SimulatedInstallation:
    """Two nodes of Karpenter's, whose EC2NodeClass has its finalizer."""
    assert release(site) == (["released", "released"], True)
    site.lab.kubernetes.amend(
        resources.EC2_NODE_CLASSES, "default", {"metadata": {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}}
    )
    return site


def adopt(site: SimulatedInstallation, *, is_acting: bool = True) -> tuple[list[str], bool]:
    """The states of nodes and classes, and whether nothing remains."""
    document, is_complete = steps.adoption(site.environment(), is_acting=is_acting)
    assert document["acting"] == is_acting
    return [item["state"] for item in (*document["items"], *document["nodeClasses"])], is_complete


def release(site: SimulatedInstallation, *, is_acting: bool = True) -> tuple[list[str], bool]:
    """The states of the nodes, and whether nothing remains."""
    document, is_complete = steps.release(site.environment(), is_acting=is_acting)
    assert document["acting"] == is_acting
    return [item["state"] for item in document["items"]], is_complete


def keeps_finalizer(site: SimulatedInstallation) -> bool:
    metadata = site.lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")["metadata"]
    return bool(metadata["finalizers"])


def test_nodes_and_their_class_become_ours_only_on_request(karpenters: SimulatedInstallation) -> None:
    assert adopt(karpenters, is_acting=False) == (["adoptable"] * 3, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (KARPENTERS, True)
    assert adopt(karpenters) == (["adopted"] * 3, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (OURS, False)
    assert karpenters.lab.rows.changed_at == karpenters.lab.clock.now(), "functions use no older observation"
    assert adopt(karpenters) == (["ours", "ours"], True), "there is nothing left to do"


@pytest.mark.parametrize("is_acting", [False, True])
def test_what_prevents_a_change_of_hands_is_said_and_nothing_is_changed(
    karpenters: SimulatedInstallation, *, is_acting: bool
) -> None:
    karpenters.switch = "run"
    document, is_complete = steps.adoption(karpenters.environment(), is_acting=is_acting)
    assert "pause --cluster test --everything" in document["hindrances"][0]
    assert [item["state"] for item in document["items"]] == ["adoptable", "adoptable"]
    assert (is_complete, karpenters.owners(), keeps_finalizer(karpenters)) == (False, KARPENTERS, True)
    karpenters.switch = "stop"
    adopt(karpenters)
    karpenters.switch = "run"
    assert release(karpenters, is_acting=is_acting) == (["releasable", "releasable"], False)
    assert karpenters.owners() == OURS


@pytest.mark.parametrize(
    ("fault", "states", "then"),
    [
        ("patch nodes", ["failed", "adopted", "adoptable"], ["adopted", "ours", "adopted"]),
        ("patch nodeclaims", ["failed", "adopted", "adoptable"], ["adopted", "ours", "adopted"]),
        ("patch ec2nodeclasses", ["adopted", "adopted", "failed"], ["ours", "ours", "adopted"]),
    ],
)
def test_after_a_fault_the_class_stays_karpenters_until_another_run_has_adopted_all(
    fault: str, states: list[str], then: list[str], karpenters: SimulatedInstallation
) -> None:
    """As long as a node is Karpenter's, its EC2NodeClass cannot be deleted: only the finalizer sees to that."""
    karpenters.lab.kubernetes.before_call = failing_once(fault)
    document, is_complete = steps.adoption(karpenters.environment(), is_acting=True)
    parts = (*document["items"], *document["nodeClasses"])
    assert [part["state"] for part in parts] == states
    assert [part["subject"] for part in parts if part["state"] == "failed" and GO_ON in part["message"]]
    assert (is_complete, keeps_finalizer(karpenters)) == (False, True)
    assert adopt(karpenters) == (then, True)
    assert (karpenters.owners(), keeps_finalizer(karpenters)) == (OURS, False)


def test_a_change_that_cannot_be_recorded_is_told(karpenters: SimulatedInstallation) -> None:
    karpenters.lab.rows.before_call = failing_once("record")
    document, is_complete = steps.adoption(karpenters.environment(), is_acting=True)
    assert (is_complete, karpenters.owners()) == (False, OURS)
    assert GO_ON in document["hindrances"][0]
    assert adopt(karpenters) == (["ours", "ours"], True)
    assert karpenters.lab.rows.changed_at == karpenters.lab.clock.now()


def test_a_node_that_cannot_be_adopted_keeps_no_other_from_it(karpenters: SimulatedInstallation) -> None:
    """An instance of Karpenter's that no NodeClaim names stays as it is, and the answer says that something remains."""
    (first, *_) = karpenters.lab.cloud.instances()
    karpenters.lab.cloud.put(msgspec.structs.replace(first, instance_id="i-lost"))
    assert adopt(karpenters, is_acting=False) == (["adoptable", "adoptable", "refused", "adoptable"], False)
    assert adopt(karpenters) == (["adopted", "adopted", "refused", "adopted"], False)
    assert karpenters.owners() == [*OURS, "Karpenter's"]


def test_nodes_become_karpenters_only_on_request(site: SimulatedInstallation) -> None:
    assert release(site, is_acting=False) == (["releasable", "releasable"], True)
    assert (site.owners(), site.lab.kubernetes.raw(resources.NODE_POOLS, "default")["metadata"]["annotations"]) == (
        OURS,
        {labels.NODEPOOL_HASH_VERSION: "v4"},
    )
    assert release(site) == (["released", "released"], True)
    assert site.owners() == KARPENTERS
    assert release(site) == ([], True), "there is nothing left to do"


@pytest.mark.parametrize(
    ("fault", "states", "owners", "told"),
    [
        ("patch nodepools", ["releasable", "releasable"], OURS, True),
        ("create nodeclaims", ["failed", "released"], ["ours", "Karpenter's"], False),
        ("patch nodeclaims", ["failed", "released"], ["ours", "Karpenter's"], False),
        ("patch nodes", ["failed", "released"], ["ours", "Karpenter's"], False),
    ],
)
def test_a_fault_keeps_one_node_ours_unless_all_depend_on_it(
    fault: str, states: list[str], owners: list[str], told: bool, site: SimulatedInstallation
) -> None:
    """With the version of our hash on their NodePool, all nodes would count as drifted for Karpenter: then none is released."""
    site.lab.kubernetes.before_call = failing_once(fault)
    document, is_complete = steps.release(site.environment(), is_acting=True)
    assert [item["state"] for item in document["items"]] == states
    assert (is_complete, site.owners(), [GO_ON in one for one in document["hindrances"]]) == (
        False,
        owners,
        [True] if told else [],
    )
    done = ["released"] * owners.count("ours")
    assert release(site) == (done, True)
    assert site.owners() == KARPENTERS


def test_a_node_that_stays_ours_keeps_no_other_from_being_released(site: SimulatedInstallation) -> None:
    """One whose Node is gone is left to our functions, which end its instance."""
    (gone, _) = site.lab.claims
    site.lab.kubernetes.drop(resources.NODES, gone.node_name)
    assert release(site, is_acting=False) == (["kept", "releasable"], False)
    assert release(site) == (["kept", "released"], False)
    assert site.owners() == ["ours", "Karpenter's"]
    assert [record.name for record in site.lab.claims] == [gone.name]


# What a program reads of an adoption or a release, field by field.


EMPTY = dict.fromkeys(("nodeClaim", "node", "instance", "instanceType", "nodePool", "reason", "message", "drift"), "")


def test_an_adoption_has_all_that_is_known_of_each_candidate() -> None:
    whole = AdoptionCandidate(
        subject="NodeClaim/c",
        state=AdoptionState.ADOPTABLE,
        node_claim="c",
        node="n",
        node_pool="default",
        instance=an_instance("i-1"),
        drift="NodePoolDrifted",
    )
    refused = AdoptionCandidate(
        subject="Node/x",
        state=AdoptionState.REFUSED,
        objection=Objection(AdoptionReason.NO_NODE_CLAIM, "no NodeClaim names Node x"),
    )
    survey = AdoptionSurvey(candidates=(whole, refused), classes=("default", "gpu"))
    items: list[dict[str, Any]] = [
        {
            **EMPTY,
            "subject": "NodeClaim/c",
            "state": "adoptable",
            "nodeClaim": "c",
            "node": "n",
            "instance": "i-1",
            "instanceType": "m5.large",
            "nodePool": "default",
            "drift": "NodePoolDrifted",
        },
        {
            **EMPTY,
            "subject": "Node/x",
            "state": "refused",
            "reason": "NoNodeClaim",
            "message": f"no NodeClaim names Node x. {AdoptionReason.NO_NODE_CLAIM.advice}",
        },
    ]
    assert adoption_document("prod", survey, ["Karpenter runs"], is_acting=True) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Adoption",
        "cluster": "prod",
        "acting": True,
        "hindrances": ["Karpenter runs"],
        "items": items,
        "nodeClasses": [
            {"subject": "EC2NodeClass/default", "state": "adoptable"},
            {"subject": "EC2NodeClass/gpu", "state": "adoptable"},
        ],
    }


def test_a_release_has_all_that_is_known_of_each_claim() -> None:
    record, node = a_record(), a_node()
    owned = OwnedClaim(record=record, node_claim=None, node=node, tagged=("i-1",), pool_uid="u")
    whole = Releasable(subject="NodeClaim/c", owned=owned, instance=an_instance("i-1"), drift="NodePoolDrifted")
    objection = ReleaseObjection(ReleaseReason.NOT_IN_TABLE, "claim x is not in the table")
    kept = Releasable(subject="Instance/i-2", objection=objection)
    survey = ReleaseSurvey(claims=(whole, kept), commands=3)
    assert release_document("prod", survey, [], is_acting=False) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Release",
        "cluster": "prod",
        "acting": False,
        "hindrances": [],
        "commands": 3,
        "items": [
            {
                **EMPTY,
                "subject": "NodeClaim/c",
                "state": "releasable",
                "nodeClaim": "c",
                "node": node.name,
                "instance": "i-1",
                "instanceType": "m5.large",
                "nodePool": record.plan.node_pool,
                "drift": "NodePoolDrifted",
            },
            {
                **EMPTY,
                "subject": "Instance/i-2",
                "state": "kept",
                "reason": "NotInTable",
                "message": f"claim x is not in the table. {ReleaseReason.NOT_IN_TABLE.advice}",
            },
        ],
    }


# A release: commands and versions of hashes first; of each claim its NodeClaim first and its row last.


NODE_CLAIM = {"metadata": {"name": "c", "uid": "uid-c", "finalizers": [labels.TERMINATION_FINALIZER]}}


class ReleasedEnvironment:
    """Notes what is written, in order."""

    cluster = "prod"

    def __init__(self, *, fault: Exception | None = None, lists: dict[Any, list[Any]] | None = None) -> None:
        self.done: list[Any] = []
        self.patches: dict[str, Any] = {}
        self._fault, self._lists = fault, lists or {}
        self.kubernetes = SimpleNamespace(
            list=lambda resource: SimpleNamespace(items=self._lists[resource]),
            create=self._create,
            patch=self._write,
            delete=lambda resource, name: self.done.append(("delete", resource.kind, name)),
            get=lambda resource, name: NODE_CLAIM if (resource, name) == (resources.NODE_CLAIMS, "c") else None,
        )
        commands = SimpleNamespace(all=lambda: ("one", "two"), remove=lambda one: self.done.append(("drop", one)))
        claims = SimpleNamespace(forget=lambda record: self.done.append(("forget", record.name)))
        self.stores = SimpleNamespace(commands=commands, claims=claims)

    def _create(self, resource: Any, body: Any) -> None:
        self.done.append(("create", resource.kind, body))
        if self._fault is not None:
            raise self._fault

    def _write(self, resource: Any, name: str, body: Any, subresource: str = "") -> None:
        if isinstance(self._fault, NotFoundError):
            raise self._fault
        self.done.append(("write", resource.kind, name, body, subresource))

    def patch(self, resource: Any, name: str, patch_of: Any) -> None:
        self.done.append(("patch", resource.kind, name))
        self.patches[resource.kind] = patch_of

    def tag(self, instance: Any, tags: Any) -> None:
        self.done.append(("tag", instance.instance_id, tags))

    def untag(self, instance: Any, keys: Any) -> None:
        self.done.append(("untag", instance.instance_id, keys))


def owned(**changes: Any) -> OwnedClaim:
    fields = {"record": a_record(), "node_claim": NODE_CLAIM, "node": a_node(), "tagged": ("i-1",), "pool_uid": "u"}
    return OwnedClaim(**{**fields, **changes})


def released(environment: Any, claim: OwnedClaim, *, is_there: bool = True, drift: str = "") -> list[Any]:
    instance = an_instance("i-1") if is_there else None
    Releaser(environment).release(Releasable(subject="NodeClaim/c", owned=claim, instance=instance, drift=drift))
    done: list[Any] = environment.done
    return done


NODE = ("patch", "Node", a_node().name)
FORGOTTEN = ("forget", "c")


@pytest.mark.parametrize("fault", [None, NotFoundError("kube:patch", "404")])
def test_a_claim_that_was_never_launched_is_given_up(fault: Exception | None) -> None:
    """Its NodeClaim would be an order to Karpenter."""
    done = released(ReleasedEnvironment(fault=fault), owned(record=a_record(ClaimPhase.REQUESTED), node_claim=None))
    gone = [("write", "NodeClaim", "c", {"metadata": {"finalizers": None}}, ""), ("delete", "NodeClaim", "c")]
    assert done == [*([] if fault else gone), FORGOTTEN]


def test_commands_are_dropped_and_versions_of_hashes_removed_where_there_are_any() -> None:
    """Until Karpenter has written its own, hashes of different versions would make all nodes count as drifted."""

    def obj(name: str, annotations: dict[str, str] | None) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": annotations}}

    pool, node_class = labels.NODEPOOL_HASH_VERSION, labels.NODECLASS_HASH_VERSION
    lists: dict[Any, list[Any]] = {
        resources.NODE_POOLS: [obj("a", {pool: "v4"}), obj("b", None), obj("c", {"other": "x"})],
        resources.EC2_NODE_CLASSES: [obj("d", {node_class: "v4", "other": "x"})],
    }
    environment: Any = ReleasedEnvironment(lists=lists)
    Releaser(environment).begin()
    assert environment.done == [
        ("drop", "one"),
        ("drop", "two"),
        ("write", "NodePool", "a", {"metadata": {"annotations": {pool: None}}}, ""),
        ("write", "EC2NodeClass", "d", {"metadata": {"annotations": {node_class: None}}}, ""),
    ]
