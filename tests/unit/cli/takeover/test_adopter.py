"""An adoption stores its row first, then marks instance, node and NodeClaim; what another run stored is not overwritten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError
from cli.takeover.adopter import Adopter
from cli.takeover.adoption_survey import AdoptionCandidate
from core import labels
from core.errors import InvariantError
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.takeover.adoption import AdoptionState
from core.lifecycle.takeover.ownership import class_made_ours, our_tags
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.unit.cli.takeover.site import an_instance
from tests.unit.lifecycle.records_for_tests import a_record


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


def test_the_row_comes_first_and_the_node_claim_last() -> None:
    record = a_record()
    tags = ("tags", "i-1", our_tags(record, "prod"))
    assert adopted(Environment(), candidate(record)) == [("row", "c"), tags, ("Node", "n"), ("NodeClaim", "c")]
    begun = candidate(record, AdoptionState.BEGUN)
    assert adopted(Environment(), begun) == [tags, ("Node", "n"), ("NodeClaim", "c")]


def test_a_node_that_has_not_registered_is_not_marked_yet() -> None:
    record = a_record(ClaimPhase.LAUNCHED)
    assert ("Node", "") not in adopted(Environment(), candidate(record))


def test_a_row_of_the_same_instance_is_gone_on_with_and_another_is_not_overwritten() -> None:
    record = a_record()
    assert len(adopted(Environment(record), candidate(record))) == 4
    machine = msgspec.structs.replace(record.machine, instance_id="i-other")
    for other in (msgspec.structs.replace(record, machine=machine), msgspec.structs.replace(record, name="another")):
        environment: Any = Environment(other)
        with pytest.raises(ConflictError, match="claim c was stored by another run; run again"):
            Adopter(environment).adopt(candidate(record))
        assert environment.done == [("row", "c")]


@pytest.mark.parametrize("lacking", ["record", "instance"])
def test_without_a_row_or_an_instance_nothing_is_adopted(lacking: str) -> None:
    environment: Any = Environment()
    with pytest.raises(InvariantError):
        Adopter(environment).adopt(msgspec.structs.replace(candidate(a_record()), **{lacking: None}))
    assert environment.done == []


def test_a_class_loses_karpenters_finalizer_and_a_change_is_recorded() -> None:
    environment: Any = Environment()
    adopter = Adopter(environment)
    adopter.free_class("default")
    kept = [labels.KARPENTER_CLASS_FINALIZER, "example.com/keeps"]
    for finalizers in (kept, None):
        body = environment.patch_of({"metadata": {"finalizers": finalizers}})
        assert body == {"metadata": class_made_ours(list(finalizers or ()))}
    adopter.finish()
    assert environment.done == [(kinds.EC2_NODE_CLASSES.kind, "default"), NOW]
