"""The market: read from EC2 and Pricing, and stored."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import boto3
import msgspec
import pytest
from moto import mock_aws

from adapters.aws.market import (
    KEY,
    PRICES_FRESH_FOR,
    READ_AT_MOST,
    SHAPES_FRESH_FOR,
    AwsMarket,
    S3CatalogueStore,
    pricing_region,
)
from adapters.aws.services import AwsService
from adapters.ports import JsonObject, NotFoundError, PortError, TransientError
from adapters.run_report import RunReport
from core.catalogue.build import PRICES_STALE_AFTER, SHAPES_STALE_AFTER, MarketFacts
from core.model.catalogue import Catalogue
from core.price_terms import Discount, PriceTerms, TermPrices
from lambdas.controllers.refresh import CatalogueRefresh
from simulator.market.embedded import builtin_shapes
from tests.builders import NOW

DESCRIBED = {s.instance_type: msgspec.to_builtins(s) for s in builtin_shapes()}
TYPES = ("m5.large", "c7g.xlarge", "m5.metal")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time


class Region:
    """EC2 and Pricing as one service, one entry a page; `broken` operations fail, `asked` counts first pages."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.asked: list[str] = []
        self.requests: list[JsonObject] = []
        self.spot = {("m5.large", "us-east-1a"): "0.031", ("c7g.xlarge", "us-east-1b"): "0.05"}
        self.on_demand = {"m5.large": "0.096", "c7g.xlarge": "0.145", "m5.metal": "4.608"}
        self.types = [DESCRIBED[name] for name in TYPES]
        self.history_is_empty_for = ("", "")

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        self.asked.append(operation)
        self.requests.append(arguments)
        if operation in self.broken:
            raise TransientError(f"aws:{operation}", "down")
        answers = {
            "DescribeInstanceTypes": lambda: self.types,
            "DescribeInstanceTypeOfferings": lambda: [
                {"InstanceType": name, "Location": f"us-east-1{zone}"} for name in TYPES for zone in "ab"
            ],
            "DescribeSpotPriceHistory": self._spot_history,
            "GetProducts": lambda: self._products(arguments["Filters"]),
        }
        yield from answers[operation]()

    def _spot_history(self) -> list[JsonObject]:
        older = {"Timestamp": NOW - timedelta(days=1), "SpotPrice": "9.99"}
        now = {"Timestamp": NOW}
        return [
            {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": price, **when, **self._emptied(name, zone)}
            for (name, zone), price in self.spot.items()
            for when in (now, older)
        ]

    def _emptied(self, name: str, zone: str) -> JsonObject:
        return {"SpotPrice": ""} if (name, zone) == self.history_is_empty_for else {}

    def _products(self, filters: list[JsonObject]) -> list[str]:
        wanted = {entry["Field"]: entry["Value"] for entry in filters}
        is_metal = wanted["productFamily"] == "Compute Instance (bare metal)"
        assert wanted["tenancy"] == ("Dedicated" if is_metal else "Shared")
        return [
            json.dumps(
                {
                    "product": {"attributes": {"instanceType": name}},
                    "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": {"USD": price}}}}}},
                }
            )
            for name, price in self.on_demand.items()
            if ("metal" in name) == is_metal
        ]


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def market(region: Region, clock: Clock) -> AwsMarket:
    service: Any = region
    return AwsMarket(service, service, region="us-east-1", clock=clock)


def test_shapes_zones_and_prices_are_read(market: AwsMarket, region: Region) -> None:
    """An offering that is missing here can never be launched."""
    facts = market.read(None)
    assert [shape.instance_type for shape in facts.shapes] == sorted(TYPES)
    assert facts.market.offered["m5.large"] == ("us-east-1a", "us-east-1b")
    assert facts.market.on_demand == {"c7g.xlarge": 145_000_000, "m5.large": 96_000_000, "m5.metal": 4_608_000_000}
    assert facts.market.spot == {"c7g.xlarge": {"us-east-1b": 50_000_000}, "m5.large": {"us-east-1a": 31_000_000}}
    assert facts.problems == ()
    history = next(r for r in region.requests if "ProductDescriptions" in r)
    assert set(history["ProductDescriptions"]) == {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}


def test_recent_readings_are_not_repeated(market: AwsMarket, region: Region, clock: Clock) -> None:
    """EC2 throttles; shapes change with announcements, prices within hours."""
    facts = market.read(None)
    region.asked.clear()
    assert market.read(facts) == facts
    assert region.asked == []
    clock.time += PRICES_FRESH_FOR
    facts = market.read(facts)
    assert set(region.asked) == {"GetProducts", "DescribeSpotPriceHistory"}
    clock.time += SHAPES_FRESH_FOR
    market.read(facts)
    assert "DescribeInstanceTypes" in region.asked


@pytest.mark.parametrize("broken", ["DescribeInstanceTypes", "GetProducts", "DescribeSpotPriceHistory"])
def test_a_partial_reading_keeps_the_other_part(broken: str, market: AwsMarket, region: Region, clock: Clock) -> None:
    """Otherwise, a Pricing outage would stop the cluster from scaling."""
    facts = market.read(None)
    clock.time += SHAPES_FRESH_FOR
    region.broken.add(broken)
    region.on_demand["m5.large"] = "0.1"
    region.spot = {("m5.large", "us-east-1b"): "0.04"}
    again = market.read(facts)
    assert again.shapes == facts.shapes
    assert (again.market.on_demand["m5.large"] == 100_000_000) == (broken != "GetProducts")
    assert again.market.spot_price("m5.large", "us-east-1a") == 31_000_000
    assert (again.market.spot_price("m5.large", "us-east-1b") == 40_000_000) == (broken != "DescribeSpotPriceHistory")
    assert [problem for problem in again.problems if broken in problem]


def test_a_spot_price_that_vanishes_is_launched_at_no_more(market: AwsMarket, region: Region, clock: Clock) -> None:
    """It stayed for ever, so plans chose what EC2 no longer sold; nodes that run there still need a price."""

    def offering(facts: MarketFacts) -> tuple[int, bool]:
        """Price and availability of m5.large, spot, in us-east-1a."""
        types = facts.builder().catalogue(()).default
        offerings = next(found.offerings for found in types if found.name == "m5.large")
        (found,) = (o for o in offerings if (o.zone, o.capacity_type) == ("us-east-1a", "spot"))
        return found.price, found.available

    facts = market.read(None)
    assert offering(facts) == (31_000_000, True)
    sold = dict(region.spot)
    del region.spot[("m5.large", "us-east-1a")]
    clock.time += PRICES_FRESH_FOR
    facts = market.read(facts)
    assert offering(facts) == (31_000_000, False)
    clock.time += PRICES_FRESH_FOR
    region.broken.add("DescribeSpotPriceHistory")
    facts = market.read(facts)
    assert offering(facts) == (31_000_000, False)
    region.broken.clear()
    region.spot = sold
    assert offering(market.read(facts)) == (31_000_000, True)


def test_spot_prices_are_read_at_every_run_while_instances_run(
    market: AwsMarket, region: Region, clock: Clock, bucket: str
) -> None:
    """A price that rose half an hour ago decided where nodes were bought. A reading that says the same is not stored."""
    refresh, store = CatalogueRefresh(market, a_store(bucket), clock), a_store(bucket)
    refresh.refresh(RunReport(), is_used=True)
    read, saved = [], []
    for is_used, price in ((False, "0.031"), (True, "0.031"), (False, "0.04"), (True, "0.04"), (True, "0.04")):
        clock.time += timedelta(minutes=5)
        region.asked.clear()
        region.spot[("m5.large", "us-east-1a")] = price
        report = RunReport()
        refresh.refresh(report, is_used=is_used)
        read.append(tuple(region.asked))
        saved.append(report.counts.get("catalogueSaved", 0))
    assert read == [() if one in (0, 2) else ("DescribeSpotPriceHistory",) for one in range(5)]
    assert saved == [0, 0, 0, 1, 0]
    facts = store.facts()
    assert facts is not None
    assert (facts.market.spot_price("m5.large", "us-east-1a"), facts.prices_read_at) == (40_000_000, NOW)


def test_a_failed_reading_between_the_hours_is_reported_and_changes_no_price(
    market: AwsMarket, region: Region, clock: Clock
) -> None:
    """The hourly reading says when prices are too old."""
    facts = market.read(None)
    clock.time += timedelta(minutes=5)
    region.broken.add("DescribeSpotPriceHistory")
    again = market.read(facts, is_used=True)
    assert again.market == facts.market
    assert ["DescribeSpotPriceHistory" in problem for problem in again.problems] == [True]
    region.broken.clear()
    assert market.read(again).problems == ()


def test_a_first_reading_without_types_fails(market: AwsMarket, region: Region) -> None:
    """With an empty catalogue, every pod would be reported as unschedulable."""
    region.broken.add("DescribeInstanceTypes")
    with pytest.raises(PortError):
        market.read(None)


def test_without_a_price_list_the_shipped_one_stands_in_until_there_is_one(market: AwsMarket, region: Region) -> None:
    """Otherwise, nothing can be launched in GovCloud, or where the account may not read prices."""
    region.broken.add("GetProducts")
    facts = market.read(None)
    assert facts.prices_are_estimates
    assert facts.market.on_demand["m5.large"] == 96_000_000
    assert set(facts.market.on_demand) == {shape.instance_type for shape in facts.shapes}
    assert [problem for problem in facts.problems if "estimated" in problem]
    assert market.read(facts).prices_are_estimates
    region.broken.clear()
    again = market.read(facts)
    assert not again.prices_are_estimates
    assert again.market.on_demand["m5.large"] == 96_000_000
    region.broken.add("GetProducts")
    assert not market.read(again).prices_are_estimates


@pytest.mark.parametrize("price", ["", "0", "0.0000000000", "-1", "NaN", "Infinity", "free"])
def test_a_price_that_is_none_counts_as_not_listed(price: str, market: AwsMarket, region: Region, clock: Clock) -> None:
    """The whole reading failed, so that every price became old; and at a price of zero, plans would choose nothing else."""
    region.spot[("m5.large", "us-east-1a")] = region.on_demand["m5.large"] = price
    facts = market.read(None)
    assert facts.problems == ()
    assert facts.market.spot_price("c7g.xlarge", "us-east-1b") == 50_000_000
    assert facts.market.on_demand == {"c7g.xlarge": 145_000_000, "m5.metal": 4_608_000_000}


def test_a_spot_price_that_becomes_empty_is_launched_at_no_more(
    market: AwsMarket, region: Region, clock: Clock
) -> None:
    facts = market.read(None)
    region.history_is_empty_for = ("m5.large", "us-east-1a")
    clock.time += PRICES_FRESH_FOR
    facts = market.read(facts)
    assert facts.market.spot_price("m5.large", "us-east-1a") == 31_000_000
    assert facts.market.unlisted_spot == {"m5.large": ("us-east-1a",)}


def test_without_spot_prices_a_first_reading_uses_on_demand_prices(market: AwsMarket, region: Region) -> None:
    """Otherwise, spot is impossible until the first good reading."""
    region.broken.add("DescribeSpotPriceHistory")
    facts = market.read(None)
    assert facts.market.spot_price("m5.large", "us-east-1b") == 96_000_000


def test_an_empty_answer_is_ignored(market: AwsMarket, region: Region, clock: Clock) -> None:
    """EC2 once returned nothing; all types would vanish and every node drift."""
    facts = market.read(None)
    clock.time += SHAPES_FRESH_FOR
    region.types = []
    assert market.read(facts).shapes == facts.shapes


def test_a_type_that_cannot_be_sized_hides_no_other(market: AwsMarket, region: Region) -> None:
    """Otherwise, a new kind of machine at AWS stops all launches."""
    region.types = [{"InstanceType": "z9.odd"}, *region.types]
    assert len(market.read(None).shapes) == len(TYPES)


def test_prices_are_read_from_a_region_with_the_service() -> None:
    """Pricing has three endpoints for all public regions; credentials of a partition are refused in another."""
    own = ("eusc-de-east-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1")
    assert [pricing_region(region) for region in own] == list(own)
    assert [pricing_region(r) for r in ("us-east-1", "sa-east-1", "eu-west-1", "ap-south-2", "cn-north-1")] == [
        "us-east-1",
        "us-east-1",
        "eu-central-1",
        "ap-south-1",
        "cn-northwest-1",
    ]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="state")
        yield "state"


def a_store(bucket: str, terms: TermPrices | None = None) -> S3CatalogueStore:
    return S3CatalogueStore(AwsService(boto3.client("s3", region_name="us-east-1")), bucket, terms=terms)


def test_a_reading_is_stored_for_other_functions(market: AwsMarket, clock: Clock, bucket: str) -> None:
    """Otherwise, provision would have no catalogue, or one of its own."""
    with pytest.raises(NotFoundError, match="refresh_catalogue"):
        a_store(bucket).catalogue([])
    report = RunReport()
    CatalogueRefresh(market, a_store(bucket), clock).refresh(report)
    assert report.counts == {
        "catalogueSaved": 1,
        "instanceTypes": 3,
        "onDemandPrices": 3,
        "spotPrices": 2,
        "estimatedPrices": 0,
        "staleMarket": 0,
    }
    store = a_store(bucket)
    assert store.facts() == market.read(store.facts())
    assert [found.name for found in store.catalogue([]).default] == sorted(TYPES)


def test_a_warm_function_sees_a_new_reading_and_decodes_an_old_one_once(
    market: AwsMarket, region: Region, clock: Clock, bucket: str
) -> None:
    """Otherwise, stale prices would last as long as the sandbox; decoding each time would cost every run its start."""
    refresh, store = CatalogueRefresh(market, a_store(bucket), clock), a_store(bucket)
    refresh.refresh(RunReport())
    first = store.catalogue([])
    assert store.catalogue([]).default is first.default
    clock.time += PRICES_FRESH_FOR
    region.on_demand["m5.large"] = "0.2"
    refresh.refresh(RunReport())
    prices = {o.price for t in store.catalogue([]).default if t.name == "m5.large" for o in t.offerings}
    assert 200_000_000 in prices


def test_a_changed_class_has_its_own_sizes_at_once(market: AwsMarket, clock: Clock, bucket: str) -> None:
    """Otherwise, pods would be planned by the old kubelet settings until the next hourly reading."""
    CatalogueRefresh(market, a_store(bucket), clock).refresh(RunReport())
    store = a_store(bucket)
    for max_pods in (20, 30):
        node_class = {"metadata": {"name": "c"}, "spec": {"kubelet": {"maxPods": max_pods}}}
        assert {t.capacity["pods"] for t in store.catalogue([node_class]).types_for("c")} == {max_pods}


def test_the_functions_plan_at_the_prices_of_the_terms(market: AwsMarket, clock: Clock, bucket: str) -> None:
    """The reading stays EC2's list, so clusters with other terms can share it."""
    CatalogueRefresh(market, a_store(bucket), clock).refresh(RunReport())
    store = a_store(bucket, TermPrices(PriceTerms(discounts=(Discount(ppm=250_000),), public_address=5_000_000)))
    node_class = {"metadata": {"name": "c"}, "spec": {"associatePublicIPAddress": True}}

    def prices(catalogue: Catalogue, name: str) -> list[int]:
        types = catalogue.types_for(name)
        return [o.price for found in types for o in found.offerings if o.capacity_type == "on-demand"]

    listed, paid = a_store(bucket).catalogue([node_class]), store.catalogue([node_class])
    assert prices(paid, "c") == [price * 3 // 4 + 5_000_000 for price in prices(listed, "c")]
    assert store.catalogue([node_class]).types_for("c") is paid.types_for("c")


def test_a_part_that_could_not_be_read_is_reported(
    market: AwsMarket, region: Region, clock: Clock, bucket: str
) -> None:
    """Prices that are days old must not go unnoticed."""
    refresh = CatalogueRefresh(market, a_store(bucket), clock)
    refresh.refresh(RunReport())
    clock.time += PRICES_FRESH_FOR
    region.broken.add("GetProducts")
    report = RunReport()
    refresh.refresh(report)
    assert report.counts["catalogueProblems"] == 1
    assert report.decisions[0].reason == "NotRead"


def test_a_market_that_stays_unread_is_an_alarm(market: AwsMarket, region: Region, clock: Clock, bucket: str) -> None:
    """A permission that somebody removes after the first reading failed no run: plans used its prices for ever."""
    refresh = CatalogueRefresh(market, a_store(bucket), clock)
    refresh.refresh(RunReport())
    region.broken |= {"GetProducts", "DescribeInstanceTypes"}
    counted = []
    for waited in (timedelta(), PRICES_STALE_AFTER - timedelta(seconds=1), timedelta(seconds=1), SHAPES_STALE_AFTER):
        clock.time += waited
        report = RunReport()
        refresh.refresh(report)
        counted.append(report.counts["staleMarket"])
    assert counted == [0, 0, 1, 2]
    said = [decision.message for decision in report.decisions]
    assert any("prices were last read at" in text for text in said)
    region.broken.clear()
    refresh.refresh(recovered := RunReport())
    assert recovered.counts["staleMarket"] == 0


def stored_by_a_neighbour(facts: MarketFacts, on_demand: int, spot: int) -> MarketFacts:
    prices = {**facts.market.on_demand, "m5.large": on_demand}
    market = msgspec.structs.replace(facts.market, on_demand=prices, spot={"m5.large": {"us-east-1a": spot}})
    return msgspec.structs.replace(facts, market=market, author="neighbour")


@pytest.mark.parametrize("is_new_sandbox", [True, False])
@pytest.mark.parametrize(("on_demand", "spot"), [(1, 31_000_000), (9_600_000_000, 31_000_000), (96_000_000, 1)])
def test_prices_far_from_every_list_are_not_believed_of_a_neighbour(
    region: Region, clock: Clock, on_demand: int, spot: int, *, is_new_sandbox: bool
) -> None:
    """Clusters share one reading: whoever can write it could make every other cluster move to a type of their choice."""
    service: Any = region
    market = AwsMarket(service, service, region="us-east-1", clock=clock, author="shop")
    facts = market.read(None)
    if is_new_sandbox:
        market = AwsMarket(service, service, region="us-east-1", clock=clock, author="shop")
    assert facts.author == "shop"
    read = market.read(stored_by_a_neighbour(facts, on_demand, spot))
    assert (read.market.on_demand, read.market.spot, read.author) == (facts.market.on_demand, facts.market.spot, "shop")
    (problem,) = read.problems
    assert "cluster neighbour stored them" in problem


def test_a_doubtful_price_is_dropped_even_where_none_can_be_read(market: AwsMarket, region: Region) -> None:
    facts = market.read(None)
    region.broken |= {"GetProducts", "DescribeSpotPriceHistory"}
    read = market.read(stored_by_a_neighbour(facts, 1, 1))
    assert read.market.on_demand["m5.large"] == 96_000_000
    assert read.market.spot == {}


def test_prices_within_the_band_are_believed_and_what_was_read_itself_however_it_changed(
    market: AwsMarket, region: Region, clock: Clock
) -> None:
    facts = market.read(None)
    region.asked.clear()
    near = stored_by_a_neighbour(facts, 2 * 96_000_000, 31_000_000)
    assert (market.read(near), region.asked) == (near, [])
    region.on_demand["m5.large"] = "9.6"
    clock.time += PRICES_FRESH_FOR
    raised = market.read(facts)
    assert raised.market.on_demand["m5.large"] == 9_600_000_000
    region.asked.clear()
    assert (market.read(raised).market, region.asked) == (raised.market, [])


@pytest.mark.parametrize("is_new_sandbox", [True, False])
def test_types_that_a_neighbour_stored_are_believed_once_they_are_read(
    region: Region, clock: Clock, *, is_new_sandbox: bool
) -> None:
    """With ten times the memory of a type, every cluster of the account would put ten times the pods on it."""
    service: Any = region
    market = AwsMarket(service, service, region="us-east-1", clock=clock, author="shop")
    facts = market.read(None)
    if is_new_sandbox:
        market = AwsMarket(service, service, region="us-east-1", clock=clock, author="shop")
    first, *others = facts.shapes
    larger = msgspec.structs.replace(first, v_cpu_info=msgspec.structs.replace(first.v_cpu_info, default_v_cpus=999))
    zones = msgspec.structs.replace(facts.market, offered={first.instance_type: ("us-east-1a",)})
    clock.time += timedelta(minutes=5)
    told = msgspec.structs.replace(facts, shapes=(larger, *others), market=zones, shapes_read_at=clock.time)
    read = market.read(told)
    assert (read.shapes, read.market.offered, read.author) == (facts.shapes, facts.market.offered, "shop")
    region.asked.clear()
    assert market.read(told).shapes == facts.shapes
    assert region.asked == [], "two releases that read types differently do not make each other read"


@pytest.mark.parametrize("field", ["shapes_read_at", "prices_read_at"])
def test_a_reading_of_the_future_is_due(market: AwsMarket, region: Region, clock: Clock, field: str) -> None:
    """With a time ten years ahead, no cluster of the account would read prices or types again."""
    facts = market.read(None)
    region.asked.clear()
    read = market.read(msgspec.structs.replace(facts, **{field: NOW + timedelta(days=3650)}))
    assert getattr(read, field) == clock.now()
    assert ("DescribeInstanceTypes" if field == "shapes_read_at" else "GetProducts") in region.asked


@pytest.mark.parametrize(
    "body",
    [b"", b"no gzip", gzip.compress(b"[" * 5_000), gzip.compress(b"{}"), gzip.compress(b" " * (READ_AT_MOST + 1))],
)
def test_a_damaged_reading_is_replaced_and_ends_no_plan(
    market: AwsMarket, clock: Clock, bucket: str, body: bytes
) -> None:
    """Every cluster of the account writes the object; the reader of the market raised, and so it stayed for ever."""
    warm = a_store(bucket)
    CatalogueRefresh(market, warm, clock).refresh(RunReport())
    warm.catalogue([])
    boto3.client("s3", region_name="us-east-1").put_object(Bucket=bucket, Key=KEY, Body=body)
    assert [planned.name for planned in warm.catalogue([]).default] == sorted(TYPES)
    with pytest.raises(NotFoundError, match="refresh_catalogue"):
        a_store(bucket).catalogue([])
    CatalogueRefresh(market, a_store(bucket), clock).refresh(RunReport())
    assert [planned.name for planned in a_store(bucket).catalogue([]).default] == sorted(TYPES)
