"""How rounds notice that objects changed, and write no more than what did."""

from __future__ import annotations

from typing import Any

import pytest

from core.manifests.wire import api_resources as kinds
from lambdas.controllers.resync.reconciliation_resync import versions
from lambdas.controllers.status.status_writer import Present, StatusWriter, _replacing, condition
from tests.builders import a_class_manifest
from tests.fakes.lab import Lab


def an_object(name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version}}


def test_objects_are_the_same_by_name_uid_and_version_in_any_order() -> None:
    """Otherwise, an edited NodePool is seen with the next whole observation only."""
    one, other = an_object("a", "1"), an_object("b", "1")
    assert versions([one, other]) == versions([other, one])
    for changed in (an_object("b", "2"), an_object("b", "1", "v"), an_object("c", "1"), {}):
        assert versions([one, other]) != versions([one, changed])


@pytest.mark.parametrize(
    ("present", "wanted", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": None}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": 1}, None, None),
        ({"a": 1}, [1], [1]),
        (None, {"a": 1}, {"a": 1}),
        ("x", "y", "y"),
    ],
)
def test_a_mapping_in_a_status_is_replaced_whole(present: Any, wanted: Any, patch: Any) -> None:
    """A merge patch keeps what it does not name: a limit that is gone would be shown for ever."""
    assert _replacing(present, wanted) == patch


@pytest.mark.parametrize(
    ("status", "given", "reason"),
    [
        ("True", "", "Ready"),
        ("False", "", "ReadyFailed"),
        ("Unknown", "", "AwaitingReconciliation"),
        ("False", "SubnetsNotFound", "SubnetsNotFound"),
    ],
)
def test_a_condition_has_the_reason_that_is_usual_for_its_status(status: str, given: str, reason: str) -> None:
    """Users and their tools wait for these words, which are Karpenter's."""
    assert condition("Ready", status, "why", reason=given) == {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "why",
    }


@pytest.mark.parametrize("status", ["x", 5, {"conditions": 5}, {"conditions": ["x", None, {"status": "True"}]}])
def test_a_status_that_is_no_status_is_replaced(status: object) -> None:
    """Its own writer raised an error in every round, so the object kept it for ever."""
    lab = Lab()
    lab.kubernetes.put({**a_class_manifest("strange", metadata={"generation": 1}), "status": status})
    present = Present.of(kinds.EC2_NODE_CLASSES, lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "strange"))
    assert StatusWriter(lab.kubernetes, lab.clock).write(present, {"conditions": [condition("Ready", "True")]})
    (found,) = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "strange")["status"]["conditions"]
    assert (found["type"], found["status"]) == ("Ready", "True")
