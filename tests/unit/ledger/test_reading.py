"""A decision is read completely, or the missing part is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from backports import zstd
from backports.zstd import CompressionParameter
from hypothesis import given
from hypothesis import strategies as st

from core import codec
from core.disruption import disrupt
from core.errors import InvalidInputError
from core.ledger.compression import compressed
from core.ledger.encoding import encode_catalogue, written_form
from core.ledger.entry import (
    DISRUPT,
    PROVISION,
    LedgerDocuments,
    LedgerEntry,
    decode_documents,
    decode_entry,
    encode_entry,
)
from core.ledger.outcome import catalogue_digest, decision_id, decode_outcomes, digest_of
from core.ledger.reading import (
    BASES_KEPT,
    CHAIN_MAX,
    DIFFERENCES_SHOWN,
    LedgerReader,
    base_key,
    days,
    decided_again,
    decision_key,
    decode_base,
    differences,
    encode_base,
    encode_decision_base,
    needed_base,
    outcome_key,
    pointer_key,
    read_decision_key,
)
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from tests.builders import NOW as REPLAYING_NOW
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

# Documents of the ledger, complete and as differences.


BASE = b"pods: " + bytes(range(256)) * 8
NEXT = BASE + b"one more"


def test_a_complete_document_needs_no_other() -> None:
    written = encode_base(BASE)
    assert (needed_base(written), decode_base(written)) == ("", BASE)


def test_a_difference_names_its_base_and_is_small() -> None:
    written = encode_base(NEXT, BASE)
    assert (needed_base(written), decode_base(written, BASE)) == (digest_of(BASE), NEXT)
    assert len(written) < len(encode_base(NEXT))


@pytest.mark.parametrize("against", [b"", NEXT])
def test_another_base_is_refused(against: bytes) -> None:
    """Otherwise, a decision would be repeated with the pods of another day."""
    with pytest.raises(InvalidInputError):
        decode_base(encode_base(NEXT, BASE), against)


def test_a_base_of_decisions_is_a_difference_by_elements() -> None:
    written = encode_decision_base(NEXT, BASE)
    assert (needed_base(written), decode_base(written, BASE)) == (digest_of(BASE), NEXT)


# Keys of the ledger's objects hold time, function and id, in order of time.


MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - Hypothesis takes naive bounds
NOW = datetime(2026, 11, 22, 5, 31, tzinfo=UTC)


@given(at=MOMENTS)
def test_a_key_round_trips(at: datetime) -> None:
    found = read_decision_key(decision_key("prod-1", at, "disrupt", "7f3a9c01de"))
    assert found is not None
    assert (found.at, found.function, found.id) == (at, "disrupt", "7f3a9c01de")


@given(first=MOMENTS, second=MOMENTS)
def test_keys_sort_by_time(first: datetime, second: datetime) -> None:
    """Otherwise, a listing must be read completely to find the last day."""
    names = [decision_key("c", at, "provision", "0") for at in (first, second)]
    assert (names[0] < names[1]) == (first < second)


@pytest.mark.parametrize(
    "key", ["decisions/c/of-disrupt", "bases/c/0f", "outcomes/c/2026/11/22/x-y-z", "decisions/a/b/c/d/e"]
)
def test_other_objects_are_not_decisions(key: str) -> None:
    assert read_decision_key(key) is None


def test_days_cover_the_span() -> None:
    assert [day.day for day in days(NOW - timedelta(days=2), NOW)] == [20, 21, 22]
    assert [day.day for day in days(NOW, NOW)] == [22]
    midnight = NOW.replace(hour=0, minute=0)
    assert [day.day for day in days(NOW - timedelta(days=1), midnight)] == [21, 22]


@pytest.mark.parametrize(
    ("since", "until", "count"),
    [
        (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC), 1),
        (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), 3),
        (datetime(2026, 11, 22, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC), 2),
        (datetime(2026, 11, 22, 12, tzinfo=UTC), datetime(2026, 11, 23, 11, tzinfo=UTC), 2),
    ],
)
def test_the_day_that_begins_with_the_last_moment_is_one_of_them(since: datetime, until: datetime, count: int) -> None:
    found = days(since, until)
    assert len(found) == count
    assert [(day.date(), day.time()) for day in found] == [
        (since.date() + timedelta(days=number), datetime.min.time()) for number in range(count)
    ]


def test_keys_are_what_releases_have_written() -> None:
    """An object under another key is lost to the reader, and to the rules that delete old ones."""
    assert decision_key("prod", NOW, "disrupt", "7f3a9c01de") == (
        "decisions/prod/2026/11/22/053100.000000Z-disrupt-7f3a9c01de"
    )
    assert outcome_key("prod", NOW, "execute", "0f") == "outcomes/prod/2026/11/22/053100.000000Z-execute-0f"
    assert base_key("prod", "0f") == "bases/prod/0f"
    assert pointer_key("prod", "disrupt") == "bases/prod/of-disrupt"
    found = read_decision_key(decision_key("prod", NOW, "disrupt", "7f3a9c01de"))
    assert found is not None
    assert found.cluster == "prod"


@pytest.mark.parametrize(
    "key",
    [
        "outcomes/c/2026/11/22/053100.000000Z-disrupt-0f",
        "decisions/c/2026/11/22/053100.000000Z-disrupt-0f/more",
        "decisions/c/2026/11/22",
        "",
    ],
)
def test_a_key_is_a_decisions_by_folder_and_depth(key: str) -> None:
    """Outcomes are stored under keys of the same form."""
    assert read_decision_key(key) is None


SECRET = "hunter2-in-an-annotation"


def a_world() -> Snapshot:
    snapshot = a_snapshot(pods=(a_pod("a"), a_pod("b")), node_pools=(a_pool(),), types=(a_type("m5.large"),))
    claim, node = a_node_of(a_type("m5.large"))
    annotations = {"team/token": SECRET, "karpenter.sh/do-not-disrupt": "true"}
    kept = msgspec.structs.replace(node, annotations=annotations)
    return msgspec.structs.replace(snapshot, nodes=(kept,), node_claims=(claim,))


def kept(snapshot: Snapshot) -> tuple[LedgerEntry, bytes, dict[str, bytes]]:
    """An entry of the snapshot's plan, and the objects that it needs."""
    plan, raw = codec.encode_plan(schedule(snapshot)), written_form(snapshot)
    catalogue = encode_catalogue(snapshot.catalogue)
    entry = LedgerEntry(
        id=decision_id("c", PROVISION, snapshot.now.isoformat(), plan),
        at=snapshot.now,
        cluster="c",
        function=PROVISION,
        version="1",
        is_greedy=True,
        catalogue=catalogue_digest(snapshot.catalogue),
        base=digest_of(raw),
        plan_digest=digest_of(plan),
        what="launch",
        reason="Launched",
    )
    objects = {
        base_key("c", entry.base): encode_base(raw),
        base_key("c", digest_of(catalogue)): encode_base(catalogue),
        base_key("c", entry.catalogue): encode_base(catalogue, catalogue),
    }
    return entry, encode_entry(entry, LedgerDocuments(raw, plan), raw), objects


def reader_of(objects: dict[str, bytes]) -> LedgerReader:
    def get(key: str) -> bytes:
        if key not in objects:
            raise InvalidInputError("is not there", subject=key)
        return objects[key]

    return LedgerReader(get)


def test_the_stored_entry_gives_the_same_plan() -> None:
    entry, raw, objects = kept(a_world())
    assert decode_entry(raw) == entry
    reader = reader_of(objects)
    documents = reader.documents(entry, raw)
    assert decided_again(entry, reader.snapshot(entry, documents)) == documents.plan


def test_a_missing_base_is_named() -> None:
    entry, raw, objects = kept(a_world())
    del objects[base_key("c", entry.base)]
    with pytest.raises(InvalidInputError, match=entry.base):
        reader_of(objects).documents(entry, raw)


def test_a_plan_with_another_header_is_refused() -> None:
    """Otherwise, the answer is about a decision that was never made."""
    entry, raw, objects = kept(a_world())
    with pytest.raises(InvalidInputError, match="its plan is not the one"):
        reader_of(objects).documents(msgspec.structs.replace(entry, plan_digest="0"), raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b"FLW1\xff\xff\xff\xff", b"FLW1\0\0\0\1x"])
def test_a_malformed_entry_is_reported(raw: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_entry(raw)


def test_an_entry_of_a_newer_schema_says_what_to_do() -> None:
    entry, _, _ = kept(a_world())
    raw = encode_entry(msgspec.structs.replace(entry, schema_version=99), LedgerDocuments(b"", b""), b"")
    with pytest.raises(InvalidInputError, match="update fleetwright"):
        decode_entry(raw)


def test_snapshot_and_plan_are_distinguished() -> None:
    entry, _, _ = kept(a_world())
    raw = encode_entry(entry, LedgerDocuments(b"", b"plan"), b"")
    assert decode_documents(raw, b"") == LedgerDocuments(b"", b"plan")


def test_a_base_is_complete_or_names_what_it_needs() -> None:
    whole, other = b"w" * 100, b"w" * 99 + b"x"
    written = encode_base(other, whole)
    assert needed_base(written) == digest_of(whole)
    assert decode_base(written, whole) == other
    with pytest.raises(InvalidInputError, match="difference to another"):
        decode_base(written)


def test_annotations_that_affect_no_decision_are_removed() -> None:
    """Users store tokens in annotations."""
    written = written_form(a_world())
    assert SECRET.encode() not in written
    assert b"karpenter.sh/do-not-disrupt" in written


def test_the_digest_of_a_catalogue_identifies_its_content() -> None:
    one, two = Catalogue(default=(a_type("m5.large"),)), Catalogue(default=(a_type("m5.large", price=9.0),))
    assert catalogue_digest(one) == catalogue_digest(Catalogue(default=(a_type("m5.large"),)))
    assert catalogue_digest(one) != catalogue_digest(two)
    assert catalogue_digest(one) != catalogue_digest(Catalogue(by_node_class={"": one.default}))


def test_differences_name_the_field() -> None:
    assert differences(b'{"a":{"b":[1,2]}}', b'{"a":{"b":[1,3]}}') == ["a.b[1]: 2 became 3"]
    assert differences(b'{"a":[1]}', b'{"a":[]}') == ["a: 1 elements became 0"]
    assert differences(b'{"a":1}', b'{"a":1}') == []


def test_an_unknown_function_cannot_be_replayed() -> None:
    entry, _, _ = kept(a_world())
    with pytest.raises(InvalidInputError, match="not a function that decides"):
        decided_again(msgspec.structs.replace(entry, function="dream"), a_world())


def test_malformed_outcomes_are_reported() -> None:
    with pytest.raises(InvalidInputError, match="outcomes of decisions"):
        decode_outcomes(b"\xff")


def chained(number: int) -> tuple[LedgerEntry, bytes, dict[str, bytes]]:
    """An entry, and documents of which each is the difference to the next; the last one is complete."""
    entry, _, _ = kept(a_world())
    chain = [b"w" * 100 + b"%d" % n for n in range(number)]
    objects = {base_key("c", digest_of(one)): encode_base(one, *chain[n + 1 : n + 2]) for n, one in enumerate(chain)}
    documents = LedgerDocuments(b"snapshot", b"")
    entry = msgspec.structs.replace(entry, base=digest_of(chain[0]), plan_digest=digest_of(b""))
    return entry, encode_entry(entry, documents, chain[0]), objects


def test_a_chain_of_differences_is_read() -> None:
    entry, raw, objects = chained(CHAIN_MAX)
    assert reader_of(objects).documents(entry, raw).snapshot == b"snapshot"


def test_a_longer_chain_is_refused() -> None:
    """A ledger may be somebody else's, with a circle of differences."""
    entry, raw, objects = chained(CHAIN_MAX + 1)
    with pytest.raises(InvalidInputError, match=f"ledger entry {entry.id}: needs more than {CHAIN_MAX} documents"):
        reader_of(objects).documents(entry, raw)


def test_a_missing_part_of_a_chain_is_named_with_the_entry_that_needs_it() -> None:
    entry, raw, objects = chained(4)
    missing = sorted(objects)[1]
    objects.pop(missing)
    needs = f"ledger entry {entry.id}: needs another document: {missing}: is not there"
    with pytest.raises(InvalidInputError, match=needs):
        reader_of(objects).documents(entry, raw)


def test_an_entry_of_release_1_is_read() -> None:
    """Its documents are a frame against the base, and its base is a snapshot alone."""
    entry, raw, objects = kept(a_world())
    reader = reader_of(objects)
    documents = reader.documents(entry, raw)
    header = msgspec.json.encode(msgspec.structs.replace(entry, schema_version=1), order="sorted")
    head, base = compressed(header), documents.snapshot + b" "
    whole = documents.snapshot + documents.plan + len(documents.snapshot).to_bytes(4, "big")
    options = {CompressionParameter.compression_level: 7, CompressionParameter.checksum_flag: 1}
    options |= {CompressionParameter.window_log: 27, CompressionParameter.enable_long_distance_matching: 1}
    body = zstd.compress(whole, options=options, zstd_dict=zstd.ZstdDict(base, is_raw=True).as_prefix)
    objects[base_key("c", digest_of(base))] = encode_base(base)
    old = msgspec.structs.replace(entry, base=digest_of(base))
    stored = b"FLW1" + len(head).to_bytes(4, "big") + head + body
    assert decode_entry(stored).schema_version == 1
    assert reader.documents(old, stored) == documents


def test_an_entry_is_read_by_its_key_with_its_bytes_and_its_form() -> None:
    entry, raw, objects = kept(a_world())
    reader = reader_of({**objects, "decisions/x": raw})
    assert reader.entry("decisions/x") == (entry, raw)
    documents = reader.documents(entry, raw)
    found = reader.form(entry, documents)
    assert (found.snapshot, found.catalogue) == (documents.snapshot, encode_catalogue(a_world().catalogue))


def test_the_bases_that_were_used_last_are_kept() -> None:
    """Consecutive decisions share them; each has tens of megabytes, so only some are."""
    entry, _, _ = kept(a_world())
    bases = [b"base %d" % number for number in range(BASES_KEPT + 1)]
    objects = {base_key("c", digest_of(one)): encode_base(one) for one in bases}
    asked: list[str] = []

    def get(key: str) -> bytes:
        asked.append(key)
        return objects[key]

    reader = LedgerReader(get)

    def read(number: int) -> bool:
        """Whether the base had to be read."""
        base, before = bases[number], len(asked)
        of_base = msgspec.structs.replace(entry, base=digest_of(base), plan_digest=digest_of(b""))
        reader.documents(of_base, encode_entry(of_base, LedgerDocuments(b"s", b""), base))
        return len(asked) > before

    assert [read(number) for number in range(BASES_KEPT)] == [True] * BASES_KEPT
    assert not read(0)  # now it was used later than the second one
    assert read(BASES_KEPT)
    assert not read(0)
    assert read(1)


# A decision is repeated by the function that made it, and a difference is named by its field.


TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE)
WORLD = a_snapshot(types=(TYPE,), pods=(a_pod("a"),), nodes=(NODE,), node_claims=(CLAIM,))


def entry(function: str, **changes: Any) -> LedgerEntry:
    fixed = {
        "cluster": "c",
        "version": "1",
        "catalogue": "d",
        "base": "b",
        "plan_digest": "p",
        "what": "",
        "reason": "",
    }
    return LedgerEntry(id="i", at=REPLAYING_NOW, function=function, **{**fixed, "improve_iterations": 3, **changes})


def test_each_function_decides_again_under_the_recorded_bound() -> None:
    bounded = msgspec.structs.replace(WORLD, options=msgspec.structs.replace(WORLD.options, improve_iterations=3))
    assert decided_again(entry(PROVISION), WORLD) == codec.encode_plan(schedule(bounded))
    assert decided_again(entry(DISRUPT), WORLD) == codec.encode_disruption_plan(disrupt(bounded))


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]: 2 became 3"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: 1 elements became 2"]),
        ({"a": [{"b": 1}, 2]}, {"a": [{"b": 2}]}, ["a: 2 elements became 1", "a[0].b: 1 became 2"]),
        ({"a": [1]}, {"a": {"b": 1}}, ['a: [1] became {"b": 1}']),
        ({"a": {"b": 1}}, {"a": [1]}, ['a: {"b": 1} became [1]']),
        ({"a": [1]}, {"a": "x"}, ['a: [1] became "x"']),
        ({"a": [1]}, {"a": "xy"}, ['a: [1] became "xy"']),
        ({"a": 1, "b": 1}, {"b": 2, "c": 3}, ["a: 1 became null", "b: 1 became 2", "c: null became 3"]),
        ({"a": "x" * 118}, {"a": 1}, [f'a: "{"x" * 118}" became 1']),
        ({"a": "x" * 119}, {"a": 1}, [f'a: "{"x" * 119}… became 1']),
    ],
)
def test_differences_are_named_by_their_path(before: object, after: object, found: list[str]) -> None:
    assert differences(json.dumps(before).encode(), json.dumps(after).encode()) == found


def test_only_the_first_differences_are_shown() -> None:
    before, after = ({f"k{number}": value for number in range(9)} for value in (1, 2))
    shown = differences(json.dumps(before).encode(), json.dumps(after).encode())
    assert shown == [f"k{number}: 1 became 2" for number in range(DIFFERENCES_SHOWN)]
