"""Many snapshots are read like each alone, and what is equal in two of them is one object."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.errors import InvalidInputError
from core.ledger.encoding.form_reader import FormReader, SnapshotForm
from core.ledger.written_form import encode_catalogue, read_form, written_form
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

TYPE = a_type("m5.large")
MINUTE = timedelta(minutes=1)
CATALOGUE = encode_catalogue(Catalogue(default=(TYPE,)))


def a_world() -> Snapshot:
    claim, node = a_node_of(TYPE, "n1")
    pods = (a_pod("a", node_name="n1"), a_pod("b", cpu="2"), a_pod("c"))
    return a_snapshot(pods=pods, node_pools=(a_pool(),), types=(TYPE,), nodes=(node,), node_claims=(claim,))


def form(snapshot: Snapshot) -> SnapshotForm:
    return SnapshotForm(written_form(snapshot), CATALOGUE)


def test_each_snapshot_is_read_as_alone() -> None:
    """Specs have numbers in the order of their pods, so a pod that left renumbers those of others."""
    first = a_world()
    later = msgspec.structs.replace(first, now=first.now + MINUTE, pods=first.pods[1:], subnet_addresses={"s": 1})
    moved = msgspec.structs.replace(first.pods[2], node_name="n1")
    last = msgspec.structs.replace(later, now=later.now + MINUTE, pods=(moved, *first.pods[:2]), nodes=())
    reader = FormReader()
    for one in (first, later, last, first):
        assert reader.read(form(one)) == read_form(form(one).snapshot, Catalogue(default=(TYPE,)))


def test_what_two_snapshots_share_is_one_object() -> None:
    """Else each of a week's snapshots would take 40 ms instead of 8, and nothing could be remembered of a pod."""
    first = a_world()
    other = msgspec.structs.replace(first.pods[0], node_name="")
    later = msgspec.structs.replace(first, now=first.now + MINUTE, pods=(other, *first.pods[1:]))
    reader = FormReader()
    one, two = reader.read(form(first)), reader.read(form(later))
    assert [a is b for a, b in zip(one.pods, two.pods, strict=True)] == [False, True, True]
    assert one.nodes is two.nodes
    assert one.node_pools is two.node_pools
    assert one.catalogue is two.catalogue
    assert one.pods[0].spec is two.pods[0].spec


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b'"spec":1', b'"spec":7', "refers to a spec that is not there"),
        (b'"kind":"Snapshot"', b'"kind":"Plan"', "is a Plan, not a Snapshot"),
        (b'"cluster":"', b'"cluster":7,"x":"', "cannot be read: Expected `str`"),
        (b'"namespace":', b'"namespace":7,"x":', "cannot be read: Expected `str`"),
        (b'"now":', b'"then":', "cannot be read: it has no `now`"),
    ],
)
def test_a_damaged_snapshot_is_refused(before: bytes, after: bytes, problem: str) -> None:
    whole = form(msgspec.structs.replace(a_world(), cluster="prod")).snapshot
    assert before in whole
    with pytest.raises(InvalidInputError, match=problem):
        FormReader().read(SnapshotForm(whole.replace(before, after), CATALOGUE))


def test_what_did_not_change_is_the_same_pod_whatever_else_did() -> None:
    first = a_world()
    reader = FormReader()
    one = reader.read(form(first))
    two = reader.read(form(msgspec.structs.replace(first, now=first.now + MINUTE)))
    assert all(a is b for a, b in zip(one.pods, two.pods, strict=True))
    more = msgspec.structs.replace(first, pods=(*first.pods, a_pod("d", cpu="3")))
    three = reader.read(form(more))
    assert [a is b for a, b in zip(two.pods, three.pods, strict=False)] == [True, True, True]


@pytest.mark.parametrize("moves", [False, True])
def test_a_pod_with_the_same_record_and_another_spec_is_another_pod(moves: bool) -> None:
    """Its record stays the same bytes, for it names the spec by number: a resized pod would keep its old requests."""
    first = a_world()
    resized = msgspec.structs.replace(first.pods[1], spec=a_pod("b", cpu="3").spec)
    last = msgspec.structs.replace(first.pods[2], node_name="n1") if moves else first.pods[2]
    reader = FormReader()
    reader.read(form(first))
    pods = (first.pods[0], resized, last)
    assert reader.read(form(msgspec.structs.replace(first, pods=pods))).pods == pods


def test_pods_of_a_snapshot_that_lost_a_spec_are_refused() -> None:
    """Also where the pods are those of the last one, byte by byte, and where the number is the first that is missing."""
    whole = form(a_world())
    specs = msgspec.json.decode(whole.snapshot)["specs"]
    assert len(specs) == 2
    second = msgspec.json.encode(specs[1])
    cut = whole.snapshot.replace(b"," + second, b"")
    assert cut != whole.snapshot
    reader = FormReader()
    reader.read(whole)
    for one in (reader, FormReader()):
        with pytest.raises(InvalidInputError, match="refers to a spec that is not there"):
            one.read(SnapshotForm(cut, CATALOGUE))
