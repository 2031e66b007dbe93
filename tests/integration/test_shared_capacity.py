"""Two clusters of one account and region: what one learns of EC2's capacity and prices, the other knows."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import msgspec
import pytest

from adapters.composition.functions import Adapters
from adapters.run_report import RunReport
from core.catalogue.build import MarketFacts
from core.catalogue.document import Market
from core.model.catalogue import OfferingKey
from lambdas.controllers.refresh import CatalogueRefresh
from tests.fakes.account import create_table
from tests.fakes.lab import SETTINGS, Lab, aws

REFUSED = OfferingKey("m5.large", "us-east-1a", "spot")


class ReadOnce:
    """A market that counts how often it is read whole."""

    def __init__(self, lab: Lab) -> None:
        self._clock = lab.clock
        self.readings = 0

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:
        if previous is not None:
            return previous
        self.readings += 1
        now = self._clock.now()
        return MarketFacts(shapes=(), market=Market(region="us-east-1"), shapes_read_at=now, prices_read_at=now)


class Clusters:
    """Two clusters with a table and a bucket each, and a table and a bucket between them."""

    def __init__(self, session: boto3.Session) -> None:
        self.lab = Lab()
        self.source = ReadOnce(self.lab)
        self.session = session
        for name in ("shop", "batch", "shared"):
            create_table(session.client("dynamodb"), name)
            session.client("s3").create_bucket(Bucket=f"{name}-bucket")

    def of(self, cluster: str, shared: str = "shared") -> Adapters:
        settings = msgspec.structs.replace(
            SETTINGS,
            cluster_name=cluster,
            table_name=cluster,
            bucket_name=f"{cluster}-bucket",
            shared_table_name=shared,
            shared_bucket_name=f"{shared}-bucket" if shared else "",
        )
        return Adapters(settings, self.session, self.lab.clock, catalogue_source=self.source)

    def rows(self, table: str) -> int:
        return int(self.session.client("dynamodb").scan(TableName=table)["Count"])


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with aws() as session:
        yield Clusters(session)


def test_a_refusal_of_one_cluster_keeps_the_other_away(clusters: Clusters) -> None:
    now = clusters.lab.clock.now()
    clusters.of("shop").stores.unavailable.mark([REFUSED], now)
    assert clusters.of("batch").stores.unavailable.refused(now).avoided == {REFUSED}
    assert (clusters.rows("shared"), clusters.rows("shop")) == (1, 0)


def test_prices_are_read_once_for_all(clusters: Clusters) -> None:
    for cluster in ("shop", "batch", "shop"):
        given = clusters.of(cluster)
        CatalogueRefresh(given.catalogue_source, given.catalogues, given.clock).refresh(RunReport())
    assert clusters.source.readings == 1
    assert clusters.of("batch").catalogues.facts() is not None


def test_what_is_a_clusters_own_stays_its_own(clusters: Clusters) -> None:
    now = clusters.lab.clock.now()
    shop = clusters.of("shop")
    shop.stores.nominations.nominate(["node-1"], now=now, until=now.replace(year=now.year + 1))
    assert (clusters.rows("shop"), clusters.rows("shared")) == (1, 0)
    assert clusters.of("batch").stores.nominations.until(now) == {}


def test_a_cluster_that_shares_nothing_has_all_in_its_own_table(clusters: Clusters) -> None:
    now = clusters.lab.clock.now()
    clusters.of("shop", shared="").stores.unavailable.mark([REFUSED], now)
    assert clusters.rows("shop") == 1
    assert clusters.of("batch").stores.unavailable.refused(now).avoided == frozenset()
