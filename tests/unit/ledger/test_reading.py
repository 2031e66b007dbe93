"""A decision is read completely, or the missing part is named."""

from __future__ import annotations

import msgspec
import pytest
from backports import zstd
from backports.zstd import CompressionParameter

from core import codec
from core.errors import InvalidInputError
from core.ledger.bases import decode_base, encode_base, needed_base
from core.ledger.digests import catalogue_digest, decision_id, digest_of
from core.ledger.encoding.compression import compressed
from core.ledger.entry import PROVISION, LedgerDocuments, LedgerEntry, decode_documents, decode_entry, encode_entry
from core.ledger.object_keys import base_key
from core.ledger.outcome import decode_outcomes
from core.ledger.reading import BASES_KEPT, CHAIN_MAX, LedgerReader
from core.ledger.replaying import decided_again, differences
from core.ledger.written_form import encode_catalogue, written_form
from core.model.catalogue import Catalogue
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

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
