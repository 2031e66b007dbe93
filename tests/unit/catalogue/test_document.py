"""The catalogue as a JSON document."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue import document
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, Offering
from tests.builders import a_type


def a_written_type(**changes: Any) -> dict[str, Any]:
    return {
        "name": "fake-it-3",
        "requirements": {"kubernetes.io/arch": ["amd64"], "example.com/size": ["small"]},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": 40},
        "overhead": {"cpu": "100m"},
        "offerings": [{"zone": "test-zone-1", "capacityType": "spot", "price": 0.12}],
        **changes,
    }


def a_document(*types: dict[str, Any]) -> bytes:
    return json.dumps({"instanceTypes": types}).encode()


def test_every_field_of_the_contract_is_read() -> None:
    """Users store catalogues in this format."""
    (found,) = document.decode(a_document(a_written_type())).default
    assert found.labels == {"example.com/size": ("small",), "kubernetes.io/arch": ("amd64",)}
    assert found.capacity == {"cpu": 4000, "memory": 8 * 2**30, "pods": 40}
    assert found.overhead == {"cpu": 100}
    assert found.offerings == (Offering(found.name, "test-zone-1", "spot", 120_000_000, True),)


def test_prices_are_read_to_the_last_digit() -> None:
    """They break ties between offerings."""
    offering = b'{"zone": "a", "capacityType": "spot", "price": 0.123456789}'
    raw = b'{"instanceTypes": [{"name": "x", "capacity": {}, "offerings": [' + offering + b"]}]}"
    assert document.decode(raw).default[0].offerings[0].price == 123_456_789


def test_labels_that_every_type_has_are_not_read_twice() -> None:
    """Name, zone and capacity type come from the type's name and its offerings."""
    own = {labels.INSTANCE_TYPE: ["fake-it-3"], labels.ZONE: ["z"], labels.CAPACITY_TYPE: ["spot"], "a": ["b"]}
    (found,) = document.decode(a_document(a_written_type(requirements=own))).default
    assert found.labels == {"a": ("b",)}


def test_quotas_are_read_and_written() -> None:
    """A plan on a laptop then exceeds none of them."""
    quotas = {"L-1216C47A": 64}
    raw = document.encode(document.decode(a_document(a_written_type())), quotas=quotas)
    assert document.vcpu_quotas(raw) == quotas
    assert document.vcpu_quotas(gzip.compress(a_document())) == {}


@pytest.mark.parametrize("quotas", [{"L-1": 5}, {"L-1216C47A": -1}, {"L-1216C47A": "many"}])
def test_a_quota_that_says_nothing_is_refused(quotas: dict[str, Any]) -> None:
    """A mistyped code would bind nothing, silently."""
    raw = json.dumps({"instanceTypes": [], "vcpuQuotas": quotas}).encode()
    with pytest.raises(InvalidInputError, match=r"vcpu|L-1"):
        document.vcpu_quotas(raw)


def test_a_gzipped_document_is_read_alike() -> None:
    """Catalogues of all EC2 types are large."""
    raw = a_document(a_written_type())
    assert document.decode(gzip.compress(raw)) == document.decode(raw)


def test_a_catalogue_round_trips() -> None:
    """It is stored in this format between invocations."""
    reserved = (labels.RESERVED, labels.SPOT)
    catalogue = Catalogue(
        default=(a_type(), a_type("m5.xlarge", price=0.192, extra={"nvidia.com/gpu": "1"})),
        by_node_class={"gpu": (a_type("g5.xlarge", capacity_types=reserved),)},
    )
    assert document.decode(document.encode(catalogue)) == catalogue


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "not JSON"),
        (b"\x1f\x8bno", "cannot be decompressed"),
        (b"{}", "instanceTypes"),
        (a_document(a_written_type(capacity={"cpu": "-1"})), "instance type fake-it-3: capacity.cpu"),
        (a_document(a_written_type(overhead={"cpu": "lots"})), "instance type fake-it-3: overhead.cpu"),
        (a_document(a_written_type(), a_written_type()), "fake-it-3: is listed twice"),
        (
            a_document(a_written_type(offerings=[{"zone": "a", "capacityType": "spot", "price": -1}])),
            "fake-it-3: offerings[0].price",
        ),
        (
            a_document(a_written_type(offerings=[{"zone": "a", "capacityType": "free", "price": 1}])),
            "fake-it-3: offerings[0].capacityType",
        ),
        (a_document(a_written_type(name=3)), "instanceTypes[0].name"),
    ],
)
def test_a_fault_is_named(raw: bytes, message: str) -> None:
    """Thousands of launches would rely on a wrong price."""
    with pytest.raises(InvalidInputError) as caught:
        document.decode(raw)
    assert message in str(caught.value)


def test_a_gzipped_document_is_bounded_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a megabyte can stand for a gigabyte."""
    packed = gzip.compress(a_document())
    with pytest.raises(InvalidInputError, match="cannot be decompressed: its end is missing"):
        document.decode(packed[:-9])
    monkeypatch.setattr(document, "DECOMPRESSED_MAX", len(a_document()) - 1)
    with pytest.raises(InvalidInputError, match="when decompressed"):
        document.decode(packed)


def test_a_document_in_several_gzip_members_is_read_whole() -> None:
    """Tools that compress in parallel write such files."""
    written = a_document()
    assert document.decode(gzip.compress(written[:50]) + gzip.compress(written[50:])) == document.decode(written)


def test_a_catalogue_with_every_field_round_trips() -> None:
    """Reserved places, limits of volumes, and what cannot be launched at present."""
    offerings = (
        Offering("m5.large", "a", "on-demand", 96_000_001, False),
        Offering("m5.large", "a", "reserved", 9, True, "cr-1", 3, "default", interruptible=True),
        Offering("m5.large", "b", "reserved", 9, True, "cr-2", 1, "capacity-block", interruptible=False),
    )
    given = msgspec.structs.replace(a_type("m5.large"), offerings=offerings, attach_limit=7, overhead={"cpu": 70})
    assert document.decode(document.encode(Catalogue((given,)))) == Catalogue((given,))
    plain = msgspec.structs.replace(given, offerings=(), attach_limit=None)
    assert document.decode(document.encode(Catalogue((plain,)))).default[0].attach_limit is None
    assert "attachLimit" not in document.encode(Catalogue((plain,))).decode()


def test_the_origin_is_read_as_it_was_written() -> None:
    """`plan` warns of prices of another region."""
    origin = document.CatalogueOrigin(region="eu-west-1", date="2026-11-01")
    assert document.origin(document.encode(Catalogue(()), origin)) == origin
    assert document.origin(document.encode(Catalogue(()))) == document.CatalogueOrigin()
    with pytest.raises(InvalidInputError, match="catalogue"):
        document.origin(b'{"region": 5}')


@pytest.mark.parametrize("price", ["NaN", "Infinity", "-0.01", "-Infinity"])
def test_a_price_is_a_number_of_zero_or_more(price: str) -> None:
    offering = {"zone": "a", "capacityType": "spot", "price": price}
    with pytest.raises(InvalidInputError, match=r"offerings\[0\]\.price.*is not a price"):
        document.decode(a_document(a_written_type(offerings=[offering])))
    free = {**offering, "price": 0}
    assert document.decode(a_document(a_written_type(offerings=[free]))).default[0].offerings[0].price == 0


def test_a_field_of_the_wrong_type_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInputError) as caught:
        document.decode(a_document(a_written_type(offerings=[{"zone": 5, "capacityType": "spot", "price": 1}])))
    assert caught.value.field == "instanceTypes[0].offerings[0].zone"
    assert caught.value.problem == "Expected `str`, got `int`"


def test_old_names_of_labels_are_read_by_the_new_ones() -> None:
    """A pod may select by either."""
    own = {"beta.kubernetes.io/arch": ["arm64"]}
    assert document.decode(a_document(a_written_type(requirements=own))).default[0].labels == {labels.ARCH: ("arm64",)}


def test_a_document_may_have_256_mebibytes() -> None:
    assert document.DECOMPRESSED_MAX == 256 * 2**20
