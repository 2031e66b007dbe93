"""The catalogue as a JSON document."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue import document
from core.catalogue.build import instance_types
from core.catalogue.document import Shape, estimated_price, estimated_prices, read_shape
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, Offering
from tests.builders import a_type
from tests.unit.catalogue.one_type import M5, MARKET, offered
from tests.unit.catalogue.one_type import shape as shape_shape


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


# Which types are sold in which zones, and at which prices.


def test_spot_is_sold_only_where_it_has_a_price() -> None:
    """Otherwise, a launch is planned at a price that does not exist."""
    assert offered(MARKET) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, True),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_before_the_first_spot_prices_the_on_demand_price_is_used() -> None:
    """Otherwise, a new installation cannot launch spot at all."""
    assert ("b", "spot", 96_000_000, True) in offered(msgspec.structs.replace(MARKET, spot=None))


# Prices where no price list can be read.


def shape(cpus: int, gib: int, *, name: str = "x.large", **more: Any) -> Shape:
    return read_shape(
        {
            "InstanceType": name,
            "ProcessorInfo": {},
            "VCpuInfo": {"DefaultVCpus": cpus},
            "MemoryInfo": {"SizeInMiB": gib * 1024},
            "NetworkInfo": {},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("cpus", "gib", "listed"), [(2, 4, 89_250_000), (2, 8, 100_800_000), (2, 16, 132_300_000), (96, 384, 4_838_400_000)]
)
def test_an_estimate_is_near_the_list_price(cpus: int, gib: int, listed: int) -> None:
    """c7i, m7i and r7i in us-east-1: with wrong estimates, plans prefer the wrong family."""
    assert abs(estimated_price(shape(cpus, gib)) - listed) * 10 <= listed


def test_an_accelerator_has_a_price() -> None:
    """Otherwise, pods that need no accelerator run on the most expensive machines."""
    with_gpu = shape(4, 16, GpuInfo={"Gpus": [{"Name": "T4", "Count": 1}]})
    assert estimated_price(with_gpu) > estimated_price(shape(8, 32))


def test_what_a_list_lacks_is_estimated_at_the_level_of_its_region() -> None:
    """In a region half again as dear, new types would be launched first wherever the list is older than they are."""
    old, new = shape(2, 8, name="old.large"), shape(4, 16, name="new.xlarge")
    listed = {"old.large": estimated_price(old) * 3 // 2}
    found = estimated_prices([old, new], listed, region="eu-west-1")
    assert found["old.large"] == listed["old.large"]
    assert abs(found["new.xlarge"] - 2 * listed["old.large"]) <= 1_000_000
    assert estimated_prices([new], {}, region="us-iso-east-1") == {"new.xlarge": estimated_price(new)}


def test_estimates_in_china_are_in_yuan_as_its_spot_prices() -> None:
    """Read as dollars, every spot price would exceed the price on demand."""
    large = shape(2, 8, name="m5.large")
    listed = 1_013_000_000
    (found,) = estimated_prices([large], {}, region="cn-north-1").values()
    assert abs(found - listed) * 20 <= listed


@pytest.mark.parametrize(
    ("cpus", "mib", "price"),
    [
        (1, 0, 39_000_000),
        (0, 1024, 2_900_000),
        (0, 1, 2832),
        (3, 2048, 122_800_000),
        (448, 4096 * 1024, 29_350_400_000),
    ],
)
def test_a_machine_costs_39_thousandths_a_vcpu_and_29_ten_thousandths_a_gibibyte(
    cpus: int, mib: int, price: int
) -> None:
    described = shape(cpus, 0, MemoryInfo={"SizeInMiB": mib})
    assert estimated_price(described) == price


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ({}, 0),
        ({"GpuInfo": {"Gpus": [{"Count": 2}, {"Count": 1}]}}, 3),
        ({"InferenceAcceleratorInfo": {"Accelerators": [{"Count": 4}, {"Count": 1}]}}, 5),
        ({"NeuronInfo": {"NeuronDevices": [{"Count": 16}, {"Count": 1}]}}, 17),
        (
            {
                "GpuInfo": {"Gpus": [{"Count": 2}]},
                "InferenceAcceleratorInfo": {"Accelerators": [{"Count": 4}]},
                "NeuronInfo": {"NeuronDevices": [{"Count": 16}]},
            },
            22,
        ),
    ],
)
def test_every_accelerator_costs_four_tenths_whatever_it_is(devices: dict[str, Any], count: int) -> None:
    assert estimated_price(shape(2, 8, **devices)) - estimated_price(shape(2, 8)) == count * 400_000_000


def test_the_level_of_a_region_is_the_median_of_its_listed_types() -> None:
    """A single odd price moves nothing; of an even count, the upper of the middle two counts."""
    shapes = [shape(2, 8, name=name) for name in "abcdef"]
    (estimate,) = {estimated_price(one) for one in shapes}

    def level(*thousandths: int) -> int:
        listed = {name: -(-estimate * share // 1000) for name, share in zip("abcde", thousandths, strict=False)}
        return estimated_prices(shapes, listed, region="eu-west-1")["f"] * 1000 // estimate

    assert level(1500) == 1500
    assert level(1100, 1300) == 1300
    assert level(9000, 1200, 1100) == 1200
    assert level(1100, 1200, 1300, 1, 9000) == 1200
    assert level() == 1000


def test_the_level_of_china_is_ten() -> None:
    """Where a price is listed, its region's level is known from it."""
    one, other = shape(2, 8, name="a"), shape(4, 16, name="b")
    estimate = estimated_price(one)
    assert estimated_prices([one], {}, region="cn-northwest-1") == {"a": 10 * estimate}
    assert estimated_prices([one, other], {"a": estimate}, region="cn-north-1") == {
        "a": estimate,
        "b": estimated_price(other),
    }
    assert estimated_prices([one], {}, region="us-cn-1") == {"a": estimate}


# Instance types as EC2 describes them.


@pytest.mark.parametrize(
    "changes",
    [
        {"SupportedVirtualizationTypes": ["paravirtual"]},
        {"ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}},
        {"InstanceType": "m5.unsold"},
    ],
)
def test_machines_that_cannot_be_nodes_are_left_out(changes: dict[str, Any]) -> None:
    """Examples: a Mac, a paravirtual type, a type that the region does not sell."""
    assert instance_types([shape_shape(**changes)], MARKET) == ()


def test_an_incomplete_description_names_the_type_and_the_field() -> None:
    """An operator must find out which type EC2 describes in a new way."""
    with pytest.raises(InvalidInputError, match=r"m5\.large.*VCpuInfo"):
        read_shape({k: v for k, v in M5.items() if k != "VCpuInfo"})


def test_what_a_description_leaves_out_is_not_there() -> None:
    """EC2 omits what a type does not have: counts are then zero, and nothing is supported."""
    structs = [
        found for found in vars(document).values() if isinstance(found, type) and issubclass(found, msgspec.Struct)
    ]
    defaults = [
        (struct.__name__, field.name, field.default)
        for struct in structs
        for field in msgspec.structs.fields(struct)
        if field.encode_name[0].isupper()  # EC2's names; the catalogue's own begin small
        and field.default is not msgspec.NODEFAULT
        and isinstance(field.default, int | float)
    ]
    assert len(defaults) > 15
    assert [one for one in defaults if one[2]] == []


def test_a_shape_is_written_as_ec2_describes_it() -> None:
    """Stored shapes are read as descriptions; fields that are not there are left out."""
    least = {**M5, "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}}
    assert msgspec.json.decode(msgspec.json.encode(read_shape(M5))) == least


@pytest.mark.parametrize(("default", "interfaces"), [(0, 5), (1, 7), (2, 99)])
def test_pods_addresses_come_from_the_default_card(default: int, interfaces: int) -> None:
    """Where EC2 describes no such card, its figure of the whole type counts."""
    cards = [{"NetworkCardIndex": index, "MaximumNetworkInterfaces": count} for index, count in ((0, 5), (1, 7))]
    network = {"DefaultNetworkCardIndex": default, "MaximumNetworkInterfaces": 99, "NetworkCards": cards}
    assert shape_shape(NetworkInfo=network).network_info.default_card.maximum_network_interfaces == interfaces


@pytest.mark.parametrize(
    ("architectures", "name"),
    [
        (["x86_64"], "amd64"), (["arm64"], "arm64"), (["i386", "x86_64"], "amd64"), (["x86_64", "arm64"], "amd64"),
        (["arm64_mac"], ""), ([], ""),
    ],
)  # fmt: skip
def test_the_first_architecture_that_kubernetes_knows_counts(architectures: list[str], name: str) -> None:
    found = shape_shape(ProcessorInfo={"SupportedArchitectures": architectures})
    assert (found.architecture, found.can_run_nodes) == (name, bool(name))
