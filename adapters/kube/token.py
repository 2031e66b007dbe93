"""Creates bearer tokens for EKS: a presigned STS request that proves our identity without being sent."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from botocore.model import ServiceId
from botocore.signers import RequestSigner

from adapters.ports import Clock, DeniedError, Session

PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
VALID_FOR: Final = timedelta(minutes=14)
"""EKS accepts a token for 15 minutes from its signing."""

_URL_SECONDS: Final = 60
"""Validity stated in the presigned URL; EKS requires 60."""

_DOMAINS: Final = (
    ("cn-", "amazonaws.com.cn"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
)
"""Prefix of regions → domain of their partition's services: EKS accepts a token for its own partition's STS only."""

Presign = Callable[[], str]


class EksToken:
    """The bearer token of one cluster, renewed shortly before it expires."""

    def __init__(self, presign: Presign, clock: Clock) -> None:
        self._presign = presign
        self._clock = clock
        self._made: tuple[datetime, str] | None = None

    def __call__(self) -> str:
        """Return the token. Raises DeniedError if the function has no credentials."""
        now = self._clock.now()
        made = self._made
        if made is None or not timedelta(0) <= now - made[0] < VALID_FOR:
            url = self._presign()
            made = self._made = (now, PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="))
        return made[1]

    def renew(self) -> None:
        """Discard the token: the server rejected it."""
        self._made = None


def presigner(session: Session, *, cluster: str) -> Presign:
    """Return a function that signs `sts:GetCallerIdentity` for `cluster` with the session's credentials, offline."""

    def presign() -> str:
        credentials, region = session.get_credentials(), session.region_name
        if credentials is None:
            raise DeniedError("sts:GetCallerIdentity", "no AWS credentials")
        signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", credentials, session.events)
        request: dict[str, Any] = {
            "method": "GET",
            "url": f"https://sts.{region}.{domain_of(region)}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {CLUSTER_HEADER: cluster},
            "context": {},
        }
        url: str = signer.generate_presigned_url(
            request, region_name=region, expires_in=_URL_SECONDS, operation_name=""
        )
        return url

    return presign


def domain_of(region: str) -> str:
    """Return the domain of the services of the region's partition."""
    return next((domain for prefix, domain in _DOMAINS if region.startswith(prefix)), "amazonaws.com")
