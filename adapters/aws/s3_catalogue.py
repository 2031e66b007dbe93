"""Stores the last market reading in S3, and builds catalogues from it (`adapters.ports.CatalogueStore`).

One object of compressed JSON has shapes and prices; sizes for a node class are computed here, so they reflect a change of the
class at once. A sandbox only asks S3 whether the object has changed.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from adapters.aws.service import AwsService
from adapters.ports import DeniedError, JsonObject, NotFoundError
from core.catalogue.build import DEFAULTS, CatalogueBuilder
from core.catalogue.facts import MarketFacts
from core.model.catalogue import Catalogue
from core.model.values.sizing_settings import SizingSettings

if TYPE_CHECKING:
    from core.price_terms.term_prices import TermPrices

KEY: Final = "catalogue/market.json.gz"
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
        """Return the last reading, None before the first. Raises PortError."""
        known = {"IfNoneMatch": self._etag} if self._etag else {}
        try:
            answer = self._s3.call("GetObject", Bucket=self._bucket, Key=KEY, **known)
        except NotFoundError:
            return None
        except DeniedError as error:
            if error.detail.startswith(_UNCHANGED):
                return self._facts
            raise
        facts = msgspec.json.decode(gzip.decompress(answer["Body"].read()), type=MarketFacts)
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

        Raises:
            NotFoundError: Before the first reading.
            PortError: If it cannot be read.
        """
        if self.facts() is None or self._builder is None:
            raise NotFoundError("s3:GetObject", f"{KEY}: the market was never read; run refresh_catalogue")
        with self._lock:
            listed = self._builder.catalogue(node_classes)
            return listed if self._terms is None else self._terms.of(listed, node_classes)
