"""Which vCPU quota an instance type counts in."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.errors import InvalidInputError
from core.model.values.quotas import (
    BY_NAME,
    CODES,
    LIMITS_FRESH_FOR,
    USED_FRESH_FOR,
    InstanceEnd,
    QuotaReading,
    SizingSettings,
    names_node,
    quota_of,
    settings_from,
    sharing,
)
from tests.builders import NOW

# What people read of an instance's end.


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (
            InstanceEnd("Client.InternalError", "Client error on launch"),
            "Client.InternalError: Client error on launch",
        ),
        (InstanceEnd("Server.InternalError"), "Server.InternalError"),
        (InstanceEnd("", ""), ""),
    ],
)
def test_an_end_is_told_with_its_code(end: InstanceEnd, said: str) -> None:
    assert end.said == said


# A node is found by what a table shows of its name.


NODE = "ip-10-0-0-4.ec2.internal"


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        (NODE, True),
        ("ip-10-0-0-4", True),
        ("ip-10-0-0-4.ec2", True),
        ("ip-10-0-0", False),
        ("ip-10-0-0-4.", False),
        ("", False),
    ],
)
def test_a_name_may_lack_its_domain(text: str, is_meant: bool) -> None:
    """`ip-10-0-0` begins other names, too."""
    assert names_node(text, NODE) is is_meant


# Quotas as last read.


READING = QuotaReading(
    limits={"L-1216C47A": 100, "L-34B43A08": 64},
    used={"": {"L-1216C47A": 30}, "other": {"L-1216C47A": 10, "L-34B43A08": 80}, "ours": {"L-1216C47A": 50}},
    limits_read_at=NOW,
    used_read_at=NOW,
)


def test_a_cluster_may_run_what_others_do_not() -> None:
    """Its own nodes are counted from its own claims, which are newer."""
    assert READING.left_to("ours", NOW) == {"L-1216C47A": 60, "L-34B43A08": 0}
    assert READING.left_to("new", NOW) == {"L-1216C47A": 10, "L-34B43A08": 0}


def test_an_old_reading_says_nothing() -> None:
    """EC2 applies its quotas itself; a plan under outdated ones could hold back pods for nothing."""
    assert READING.left_to("ours", NOW + USED_FRESH_FOR)
    assert READING.left_to("ours", NOW + USED_FRESH_FOR + timedelta(seconds=1)) == {}


def test_limits_that_could_not_be_read_for_hours_bound_nothing() -> None:
    """A permission was taken away, the quota was raised since, and instances are still counted."""
    later = NOW + LIMITS_FRESH_FOR
    counted = msgspec.structs.replace(READING, used_read_at=later)
    assert counted.left_to("ours", later)
    assert counted.left_to("ours", later + timedelta(seconds=1)) == {}


def test_a_quota_is_short_from_nine_tenths_on() -> None:
    """What others run counts, too; a quota of zero was never wanted."""
    assert READING.is_short("L-1216C47A")
    assert READING.is_short("L-34B43A08")
    fewer = msgspec.structs.replace(READING, limits={"L-1216C47A": 101, "L-34B43A08": 0})
    assert not any(fewer.is_short(code) for code in (*fewer.limits, "L-unknown"))


def test_instances_of_others_are_not_ours() -> None:
    """Spot prices are read every five minutes for our own instances only."""
    assert READING.has_own_instances
    assert not msgspec.structs.replace(READING, used={"": {"L-1216C47A": 30}, "ours": {}}).has_own_instances


@pytest.mark.parametrize(
    ("used", "has_own"),
    [
        ({}, False),
        ({"": {"L-1": 5}}, False),
        ({"a": {}}, False),
        ({"a": {}, "b": {"L-1": 5}}, True),
        ({"": {"L-1": 5}, "a": {"L-1": 5}}, True),
    ],
)
def test_instances_of_any_cluster_are_our_own(used: dict[str, dict[str, int]], *, has_own: bool) -> None:
    """Those of others have no cluster."""
    reading = QuotaReading(limits={}, used=used, limits_read_at=NOW, used_read_at=NOW)
    assert reading.has_own_instances is has_own


# How users give the settings that size nodes.


def test_the_share_is_a_decimal_whatever_its_name_says() -> None:
    """Karpenter's variable ends in PERCENT, too."""
    assert settings_from(vm_memory_overhead_percent="0.075", reserved_enis=2) == SizingSettings(
        vm_memory_overhead_ppm=75_000, reserved_enis=2
    )


@pytest.mark.parametrize("share", ["7.5%", "1.5", "-0.1", "NaN", ""])
def test_a_memory_overhead_that_is_not_a_fraction_is_refused(share: str) -> None:
    """75 instead of 0.075 would leave nodes without memory, and every pod unschedulable."""
    with pytest.raises(InvalidInputError, match="VM_MEMORY_OVERHEAD_PERCENT"):
        settings_from(vm_memory_overhead_percent=share, reserved_enis=0)


@pytest.mark.parametrize(
    ("instance_type", "quota"),
    [
        ("m7g.large", "Standard"),
        ("im4gn.large", "Standard"),
        ("d3en.xlarge", "Standard"),
        ("t3.small", "Standard"),
        ("hpc7a.96xlarge", "HPC"),
        ("p4de.24xlarge", "P"),
        ("p5en.48xlarge", "P5"),
        ("p6-b200.48xlarge", "P6"),
        ("g5g.xlarge", "G and VT"),
        ("gr6.4xlarge", "G and VT"),
        ("inf2.xlarge", "Inf"),
        ("trn1.2xlarge", "Trn"),
        ("u7i-12tb.224xlarge", "High Memory"),
        ("u-6tb1.56xlarge", "High Memory"),
        ("x2gd.metal", "X"),
        ("dl1.24xlarge", "DL"),
        ("f2.6xlarge", "F"),
        ("vt1.3xlarge", "G and VT"),
        ("g4dn.xlarge", "G and VT"),
        ("a1.medium", "Standard"),
        ("z1d.large", "Standard"),
        ("hs1.8xlarge", "Standard"),
        ("p2.xlarge", "P"),
        ("p7.large", "P"),
        ("new1.large", "Standard"),
        ("", "Standard"),
    ],
)
def test_a_type_counts_in_the_quota_of_its_letters(instance_type: str, quota: str) -> None:
    """Otherwise, a short quota for GPUs closes every other type, or none."""
    assert quota_of(instance_type).name == quota


def test_a_quota_has_the_code_that_a_person_can_request_more_of() -> None:
    assert "L-34B43A08" in BY_NAME["Standard"].described(labels.SPOT)
    assert "L-417A185B" in BY_NAME["P"].described(labels.ON_DEMAND)
    assert BY_NAME["HPC"].described(labels.SPOT) == "HPC spot"


def test_p5_shares_its_quota_on_demand_and_has_one_of_its_own_on_spot() -> None:
    """Otherwise, spot plans of p5 are bounded by the quota of p2, p3 and p4."""
    older, p5 = BY_NAME["P"], BY_NAME["P5"]
    assert older.code(labels.ON_DEMAND) == p5.code(labels.ON_DEMAND)
    assert older.code(labels.SPOT) != p5.code(labels.SPOT)
    assert [quota.name for quota in sharing([p5], [labels.ON_DEMAND])] == ["P", "P5", "P6"]
    assert [quota.name for quota in sharing([p5], [labels.SPOT])] == ["P5"]
    assert [quota.name for quota in sharing([BY_NAME["HPC"]], [labels.SPOT])] == ["HPC"]


@pytest.mark.parametrize(
    ("name", "on_demand", "spot"),
    [
        ("Standard", "L-1216C47A", "L-34B43A08"),
        ("DL", "L-6E869C2A", "L-85EED4F7"),
        ("F", "L-74FC7D96", "L-88CF9481"),
        ("G and VT", "L-DB2E81BA", "L-3819A6DF"),
        ("HPC", "L-F7808C92", ""),
        ("High Memory", "L-43DA4232", ""),
        ("Inf", "L-1945791B", "L-B5D1601B"),
        ("P", "L-417A185B", "L-7212CCBC"),
        ("P5", "L-417A185B", "L-C4BD4855"),
        ("P6", "L-417A185B", ""),
        ("Trn", "L-2C3B7624", "L-6B0D517C"),
        ("X", "L-7295265B", "L-E3A00192"),
    ],
)
def test_codes_are_those_of_service_quotas(name: str, on_demand: str, spot: str) -> None:
    """A person requests more of the code; under a wrong one, of another quota."""
    quota = BY_NAME[name]
    assert (quota.code(labels.ON_DEMAND), quota.code(labels.RESERVED), quota.code(labels.SPOT)) == (
        on_demand,
        on_demand,
        spot,
    )
    assert {on_demand, spot} - {""} <= CODES
