"""Reads the region's instance types, zones and prices from EC2 and the Pricing service (`adapters.ports.CatalogueSource`)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from adapters.aws.services import PAGES_MAX, AwsService
from adapters.observability import MISSING_PERMISSIONS, logger
from adapters.ports import Clock, DeniedError, JsonObject, NotFoundError, PortError, TransientError
from core.catalogue.build import DEFAULTS, CatalogueBuilder, MarketFacts
from core.catalogue.document import Market, Shape, estimated_prices, read_shape
from core.decompression import of_gzip
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.values import quantity
from core.model.values.quotas import SizingSettings

if TYPE_CHECKING:
    from core.price_terms import TermPrices


T = TypeVar("T")

SHAPES_FRESH_FOR: Final = timedelta(hours=12)
CLOCKS_APART: Final = timedelta(minutes=5)
"""The most by which the clock of another cluster's function may be ahead."""

PRICES_FRESH_FOR: Final = timedelta(minutes=55)
"""An hour less one period of `refresh_catalogue`, so that a run that starts slightly early still reads."""

CONFIRMED_FOR: Final = timedelta(hours=1)
"""How long types and zones that a sandbox has read itself count instead of others that a neighbour stored: two releases that
read them differently would else read them again in turn."""

_SPOT_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_TYPE_FILTERS: Final = (
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
)
_FAMILIES: Final = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
"""Tenancy and product family of hourly prices; metal is listed as dedicated."""

_PRICING_REGIONS: Final = (
    ("ap-", "ap-south-1"),
    ("cn-", "cn-northwest-1"),
    ("eu-isoe-", "eu-isoe-west-1"),
    ("eu-", "eu-central-1"),
    ("eusc-", "eusc-de-east-1"),
    ("us-isob-", "us-isob-east-1"),
    ("us-isof-", "us-isof-south-1"),
    ("us-iso-", "us-iso-east-1"),
)
"""Prefix of regions → where their Pricing service is, as botocore's table of endpoints has it; GovCloud has none."""

_CURRENCIES: Final = ("USD", "CNY", "EUR")
"""China's list is in yuan, the European Sovereign Cloud's in euros; a cluster never compares two lists."""


class AwsMarket:
    """Reads shapes, zones and prices."""

    def __init__(self, ec2: AwsService, pricing: AwsService, *, region: str, clock: Clock, author: str = "") -> None:
        """`author`: the cluster in whose name the market is read."""
        self._ec2 = ec2
        self._pricing = pricing
        self._region = region
        self._clock = clock
        self._author = author
        self._own: Market | None = None
        """What this sandbox read last: prices in it are confirmed."""
        self._own_types: _Types | None = None
        """The types and zones that this sandbox read last."""

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:
        """Return the current facts.

        A part that cannot be read keeps its previous value and is named in `problems`. Prices are added or replaced, never
        removed: an instance type no longer listed still prices running nodes. Spot prices that a reading lacks are marked
        (`Market.unlisted_spot`). On-demand prices that were never read come from the shipped list, and estimates replace those
        that it lacks: some regions have no Pricing service, some accounts no permission.

        Every cluster of the account writes the stored reading, so it is input. Prices far from every list are read again, and
        are not believed until then. Types and zones are believed once this sandbox has read the same. A time in the future
        counts as long ago.

        With `is_used`, spot prices are read in any case; `prices_read_at` remains the time of all prices.

        Raises:
            PortError: If types or zones cannot be read and were never read before.
        """
        now = self._clock.now()
        problems: list[str] = []
        kept = previous or MarketFacts(
            shapes=(), market=Market(region=self._region), shapes_read_at=now, prices_read_at=now
        )
        stored = kept.market
        kept = self._believed(self._with_own_types(_without_future(kept, now), now, problems), problems)
        market, shapes, prices_at = kept.market, kept.shapes, kept.prices_read_at
        is_estimated = kept.prices_are_estimates
        if not market.on_demand or is_estimated or now - prices_at >= PRICES_FRESH_FOR:
            market, is_estimated, is_whole = self._all_prices(market, shapes, problems, is_estimated=is_estimated)
            prices_at = now if is_whole else prices_at
        elif is_used:
            market = _with_prices(market, {}, _attempt(lambda: self._spot(now), problems, is_required=False))
        if prices_at == now:
            self._own = market
        return MarketFacts(
            shapes=shapes,
            market=market,
            shapes_read_at=kept.shapes_read_at,
            prices_read_at=prices_at,
            prices_are_estimates=is_estimated,
            problems=tuple(problems),
            author=kept.author if market == stored else self._author,
        )

    def _all_prices(
        self, market: Market, shapes: tuple[Shape, ...], problems: list[str], *, is_estimated: bool
    ) -> tuple[Market, bool, bool]:
        """Return the market with the prices that can be read, whether some are estimates, and whether none is missing."""
        listed = _attempt(self._on_demand, problems, is_required=False)
        spot = _attempt(lambda: self._spot(self._clock.now()), problems, is_required=False)
        is_estimated = listed is None and (is_estimated or not market.on_demand)
        if is_estimated:
            listed, problem = _without_reading(self._region, shapes)
            problems.append(problem)
        return _with_prices(market, listed or {}, spot), is_estimated, listed is not None and spot is not None

    def _with_own_types(self, kept: MarketFacts, now: datetime, problems: list[str]) -> MarketFacts:
        """Return the reading with types and zones that are fresh, and that this sandbox has read itself if it could."""
        types, own_types = _Types(kept.shapes, kept.market.offered, kept.shapes_read_at), self._own_types
        is_fresh = bool(types.shapes) and now - types.read_at < SHAPES_FRESH_FOR
        if own_types is None or not is_fresh or (types.differ(own_types) and now - own_types.read_at >= CONFIRMED_FOR):
            read = _attempt(self._shapes_and_zones, problems, is_required=not types.shapes)
            if read is None:
                return kept
            types = self._own_types = _Types(*read, now)
        elif types.differ(own_types):
            types = own_types
        market = msgspec.structs.replace(kept.market, offered=types.offered)
        return msgspec.structs.replace(kept, shapes=types.shapes, market=market, shapes_read_at=types.read_at)

    def _believed(self, kept: MarketFacts, problems: list[str]) -> MarketFacts:
        """Return the stored reading without doubtful prices; if there are any, all prices are due to be read."""
        if self._own is not None and (kept.market.on_demand, kept.market.spot) == (self._own.on_demand, self._own.spot):
            return kept
        trusted_prices = self._own.on_demand if self._own is not None else _shipped(self._region, kept.shapes)
        doubtful = kept.market.doubtful_types(trusted_prices)
        if not doubtful:
            return kept
        problems.append(
            f"prices of {len(doubtful)} types, {doubtful[0]} first, are far from every list: cluster "
            f"{kept.author or '(unknown)'} stored them, and they are read again"
        )
        listed = {name: trusted_prices[name] for name in doubtful if name in trusted_prices}
        market = _with_prices(kept.market.without_prices(doubtful), listed, None)
        long_ago = kept.prices_read_at - PRICES_FRESH_FOR
        return msgspec.structs.replace(
            kept, market=market, prices_read_at=min(long_ago, self._clock.now() - PRICES_FRESH_FOR)
        )

    def _shapes_and_zones(self) -> tuple[tuple[Shape, ...], dict[str, tuple[str, ...]]]:
        shapes = []
        for description in self._ec2.items(
            "DescribeInstanceTypes", "InstanceTypes", Filters=list(_TYPE_FILTERS), MaxResults=100
        ):
            try:
                shapes.append(read_shape(description))
            except InvalidInputError:
                continue  # one instance type that cannot be sized must not hide the others
        zones: dict[str, set[str]] = {}
        for offer in self._ec2.items(
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            MaxResults=1000,
        ):
            zones.setdefault(offer["InstanceType"], set()).add(offer["Location"])
        _must_have(bool(shapes) and bool(zones), "ec2:DescribeInstanceTypes")
        ordered = tuple(sorted(shapes, key=lambda shape: shape.instance_type))
        return ordered, {name: tuple(sorted(zones[name])) for name in sorted(zones)}

    def _on_demand(self) -> dict[str, int]:
        prices: dict[str, int] = {}
        for tenancy, family in _FAMILIES:
            for text in self._pricing.items(
                "GetProducts",
                "PriceList",
                ServiceCode="AmazonEC2",
                FormatVersion="aws_v1",
                MaxResults=100,
                Filters=_product_filters(self._region, tenancy, family),
            ):
                prices |= _listed(text)
        _must_have(bool(prices), "pricing:GetProducts")
        return prices

    def _spot(self, now: datetime) -> dict[str, dict[str, int]]:
        latest: dict[tuple[str, str], tuple[datetime, int]] = {}
        for entry in self._ec2.items(
            "DescribeSpotPriceHistory",
            "SpotPriceHistory",
            ProductDescriptions=list(_SPOT_PRODUCTS),
            StartTime=now,
            MaxResults=1000,
        ):
            amount = _charged(entry.get("SpotPrice"))
            if amount:
                where, price = (entry["InstanceType"], entry["AvailabilityZone"]), (entry["Timestamp"], amount)
                latest[where] = max(latest.get(where, price), price)
        _must_have(bool(latest), "ec2:DescribeSpotPriceHistory")
        prices: dict[str, dict[str, int]] = {}
        for (instance_type, zone), (_, price_now) in sorted(latest.items()):
            prices.setdefault(instance_type, {})[zone] = price_now
        return prices


class _Types(msgspec.Struct, frozen=True):
    """The instance types, the zones that sell each, and when they were read."""

    shapes: tuple[Shape, ...]
    offered: dict[str, tuple[str, ...]]
    read_at: datetime

    def differ(self, others: _Types) -> bool:
        """Whether the types or their zones are others, whenever they were read."""
        return (self.shapes, self.offered) != (others.shapes, others.offered)


def _without_future(kept: MarketFacts, now: datetime) -> MarketFacts:
    """Return the reading with parts of long ago where it says that they will be read in the future."""
    times = {name: getattr(kept, name) for name in ("shapes_read_at", "prices_read_at")}
    future = {name: now - SHAPES_FRESH_FOR for name, read_at in times.items() if read_at > now + CLOCKS_APART}
    return msgspec.structs.replace(kept, **future)


def pricing_region(region: str) -> str:
    """Return the region whose Pricing endpoint serves `region`: the service has few endpoints, and each partition its own."""
    return next((serving for prefix, serving in _PRICING_REGIONS if region.startswith(prefix)), "us-east-1")


def _shipped(region: str, shapes: tuple[Shape, ...]) -> dict[str, int]:
    from adapters.list_prices import price_list

    shipped = price_list(region)
    return {} if shipped is None else shipped.prices(shapes)


def _without_reading(region: str, shapes: tuple[Shape, ...]) -> tuple[dict[str, int], str]:
    """Return on-demand prices that were not read from AWS, and the messages about them."""
    from adapters.list_prices import price_list

    shipped = price_list(region)
    if shipped is None:
        origin = "they are estimated from the size of each type"
        return estimated_prices(shapes, {}, region=region), f"on-demand prices were never read: {origin}"
    origin = f"they are the list's of {shipped.date}, and estimated from its size for a type that it lacks"
    prices = estimated_prices(shapes, shipped.prices(shapes), region=region)
    return prices, f"on-demand prices were never read: {origin}"


def _attempt(read: Callable[[], T], problems: list[str], *, is_required: bool) -> T | None:
    try:
        return read()
    except PortError as error:
        if is_required:
            raise
        MISSING_PERMISSIONS.leave_out(error)  # estimated prices and an old market are causes of an alarm
        problems.append(str(error))
        return None


def _with_prices(market: Market, listed: dict[str, int], spot: dict[str, dict[str, int]] | None) -> Market:
    market = msgspec.structs.replace(market, on_demand=dict(sorted({**market.on_demand, **listed}.items())))
    return market if spot is None else _with_spot(market, spot)


def _with_spot(market: Market, listed: dict[str, dict[str, int]]) -> Market:
    """Return the market with these spot prices; a missing one keeps its last price and is marked."""
    earlier_prices = market.spot or {}
    merged = {
        name: {**earlier_prices.get(name, {}), **listed.get(name, {})} for name in sorted({*earlier_prices, *listed})
    }
    unlisted = {name: tuple(sorted(merged[name].keys() - listed.get(name, {}).keys())) for name in merged}
    return msgspec.structs.replace(
        market, spot=merged, unlisted_spot={name: zones for name, zones in unlisted.items() if zones}
    )


def _product_filters(region: str, tenancy: str, family: str) -> list[JsonObject]:
    wanted = {
        "regionCode": region,
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
    }
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]


def _listed(text: str) -> dict[str, int]:
    """Return instance type → price for one entry of the price list: the last price in it that is not zero (Karpenter)."""
    entry = msgspec.json.decode(text)
    name = ((entry.get("product") or {}).get("attributes") or {}).get("instanceType")
    prices = [
        _charged(amount)
        for term in ((entry.get("terms") or {}).get("OnDemand") or {}).values()
        for dimension in (term.get("priceDimensions") or {}).values()
        for currency, amount in (dimension.get("pricePerUnit") or {}).items()
        if currency in _CURRENCIES
    ]
    charged = [price for price in prices if price]
    return {name: charged[-1]} if name and charged else {}


def _charged(amount: object) -> int:
    """Return a price in nano-dollars; 0 for one that is empty, unreadable or not positive: it must not hide the others."""
    try:
        return max(0, quantity.nanodollars(str(amount)))
    except InvalidInputError:
        return 0


def _must_have(has_any: bool, call: str) -> None:
    """Raise an error for an empty answer: every region sells something."""
    if not has_any:
        raise TransientError(call, "the answer is empty")


# Stores the last market reading in S3, and builds catalogues from it (`adapters.ports.CatalogueStore`).
#
# One object of compressed JSON has shapes and prices; sizes for a node class are computed here, so they reflect a change of the
# class at once. A sandbox only asks S3 whether the object has changed.


KEY: Final = "catalogue/market.json.gz"
READ_AT_MOST: Final = 64 << 20
"""The most bytes of a reading; one has about two million."""

_UNCHANGED: Final = "304"


class S3CatalogueStore:
    """Keeps the reading in one bucket."""

    def __init__(
        self, s3: AwsService, bucket: str, settings: SizingSettings = DEFAULTS, terms: TermPrices | None = None
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._settings = settings
        self._terms = terms
        self._etag = ""
        self._facts: MarketFacts | None = None
        self._builder: CatalogueBuilder | None = None
        self._lock = Lock()  # not held during calls to S3

    def facts(self) -> MarketFacts | None:
        """Return the last reading, None before the first and where it cannot be read. Raises PortError."""
        condition = {"IfNoneMatch": self._etag} if self._etag else {}
        try:
            answer = self._s3.call("GetObject", Bucket=self._bucket, Key=KEY, **condition)
        except NotFoundError:
            return None
        except DeniedError as error:
            if error.detail.startswith(_UNCHANGED):
                return self._facts
            raise
        try:
            document = of_gzip(answer["Body"].read(), at_most=READ_AT_MOST, subject=KEY)
            facts = msgspec.json.decode(document, type=MarketFacts)
        except (InvalidInputError, msgspec.MsgspecError, RecursionError) as error:
            logger.error("the market cannot be read", extra={"problem": f"{type(error).__name__}: {error}"})
            return None
        with self._lock:
            if self._facts is None or (facts.shapes, facts.market) != (self._facts.shapes, self._facts.market):
                self._builder = facts.builder(self._settings)
            self._facts, self._etag = facts, answer["ETag"]
        return facts

    def save(self, facts: MarketFacts) -> None:
        """Replace the reading. Raises PortError."""
        body = gzip.compress(msgspec.json.encode(facts), mtime=0)
        self._s3.call(
            "PutObject",
            Bucket=self._bucket,
            Key=KEY,
            Body=body,
            ContentType="application/json",
        )

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:
        """Return the catalogue for these EC2NodeClass manifests, at the prices of the terms.

        It is of the last reading that this sandbox could read, until `refresh_catalogue` replaces one that is damaged.

        Raises:
            NotFoundError: Before the first reading.
            PortError: If the bucket does not answer.
        """
        self.facts()
        if self._builder is None:
            raise NotFoundError("s3:GetObject", f"{KEY}: there is no market that can be read; run refresh_catalogue")
        with self._lock:
            listed = self._builder.catalogue(node_classes)
            return listed if self._terms is None else self._terms.of(listed, node_classes)


# Objects in one bucket under a common prefix (`adapters.ports.ListedObjects`).


class S3Objects:
    """Puts, gets and lists whole objects."""

    def __init__(self, s3: AwsService, bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one. Raises PortError."""
        self._s3.call("PutObject", Bucket=self._bucket, Key=self._prefix + key, Body=body)

    def get(self, key: str) -> bytes:
        """Read an object. Raises NotFoundError, PortError."""
        answer = self._s3.call("GetObject", Bucket=self._bucket, Key=self._prefix + key)
        body: bytes = answer["Body"].read()
        return body

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the names with this prefix behind `after`, in order. Raises PortError."""
        behind = {"StartAfter": self._prefix + after} if after else {}
        for _ in range(PAGES_MAX):
            page = self._s3.call("ListObjectsV2", Bucket=self._bucket, Prefix=self._prefix + prefix, **behind)
            listed = [str(item["Key"]) for item in page.get("Contents") or ()]
            yield from (key.removeprefix(self._prefix) for key in listed)
            if not page.get("IsTruncated") or not listed:
                return
            behind = {"StartAfter": listed[-1]}
        raise TransientError("s3:ListObjectsV2", f"more than {PAGES_MAX} pages")
