"""Reads the tokens that EKS accepts: a presigned `sts:GetCallerIdentity`, checked as EKS's authenticator and STS do.

Source: the rules of aws-iam-authenticator, which EKS runs, and AWS Signature Version 4 for query strings. EKS does not look
at `X-Amz-Expires` beyond its range: a token counts for fifteen minutes from its signing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from tests.e2e.cloud.identities import Caller

PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
VALID_FOR: Final = timedelta(minutes=15)
LENGTH_MAX: Final = 4096
EXPIRES_MAX: Final = 900

_ALLOWED: Final = frozenset(
    f"x-amz-{name}"
    for name in (
        "algorithm",
        "credential",
        "date",
        "expires",
        "security-token",
        "signature",
        "signedheaders",
        "user-agent",
    )
) | {"action", "version"}
_EMPTY_BODY: Final = hashlib.sha256(b"").hexdigest()


class TokenError(Exception):
    """The token is refused; the message is the reason."""


def caller_of(token: str, cluster: str, now: datetime, look_up: Callable[[str], Caller | None]) -> Caller:
    """Return the caller who signed the token.

    Args:
        token: As in the Authorization header, without `Bearer`.
        cluster: The name of the cluster that asks; a token signed for another one is refused.
        now: The present moment.
        look_up: Returns the caller with an access key.

    Raises:
        TokenError: If the token is malformed, too old, for another cluster, or of an unknown caller.
    """
    url = urlsplit(_presigned_url(token))
    if url.scheme != "https" or not _is_sts(url.netloc) or url.path != "/":
        raise TokenError(f"{url.scheme}://{url.netloc}{url.path} is not STS")
    given = parse_qsl(url.query, keep_blank_values=True)
    parameters = {key.lower(): value for key, value in given}
    if len(parameters) != len(given) or not parameters.keys() <= _ALLOWED:
        raise TokenError("query parameters that are doubled or not allowed")
    _check(parameters, now)
    caller = look_up(parameters.get("x-amz-credential", "").partition("/")[0])
    if caller is None:
        raise TokenError("InvalidClientTokenId: the security token included in the request is invalid")
    signature = _signature(given, parameters, {"host": url.netloc, CLUSTER_HEADER: cluster}, caller)
    if not hmac.compare_digest(signature, parameters.get("x-amz-signature", "")):
        raise TokenError("SignatureDoesNotMatch: signed with another key or for another cluster")
    if parameters.get("x-amz-security-token", "") != caller.session_token:
        raise TokenError("InvalidClientTokenId: the session token is another's")
    return caller


def _presigned_url(token: str) -> str:
    if len(token) > LENGTH_MAX or not token.startswith(PREFIX):
        raise TokenError(f"no token that starts with {PREFIX}")
    encoded = token.removeprefix(PREFIX)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenError("not base64") from error


def _is_sts(host: str) -> bool:
    parts = host.split(".")
    return parts[0] == "sts" and parts[-2:] == ["amazonaws", "com"] and len(parts) in (3, 4)


def _check(parameters: Mapping[str, str], now: datetime) -> None:
    if parameters.get("action") != "GetCallerIdentity":
        raise TokenError(f"the action is {parameters.get('action')}, not GetCallerIdentity")
    if CLUSTER_HEADER not in parameters.get("x-amz-signedheaders", "").split(";"):
        raise TokenError(f"{CLUSTER_HEADER} is not signed")
    expires = parameters.get("x-amz-expires", "")
    if not expires.isdecimal() or int(expires) > EXPIRES_MAX:
        raise TokenError(f"X-Amz-Expires is {expires!r}")
    try:
        signed_at = datetime.strptime(parameters.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise TokenError("X-Amz-Date is no time") from error
    if not now - VALID_FOR < signed_at <= now + VALID_FOR:
        raise TokenError(f"signed at {signed_at:%H:%M:%S}, over {VALID_FOR} ago or in the future")


def _signature(
    given: list[tuple[str, str]],
    parameters: Mapping[str, str],
    headers: Mapping[str, str],
    caller: Caller,
) -> str:
    """Return the expected signature (AWS Signature Version 4 in the query string)."""
    signed = parameters["x-amz-signedheaders"].split(";")
    _, scope = parameters["x-amz-credential"].split("/", 1)
    day, region, service, ending = (scope.split("/") + [""] * 4)[:4]
    unsigned = sorted((quote(k, safe="~"), quote(v, safe="~")) for k, v in given if k.lower() != "x-amz-signature")
    query = "&".join(f"{key}={value}" for key, value in unsigned)
    lines = "".join(f"{name}:{headers.get(name, '')}\n" for name in signed)
    canonical = "\n".join(("GET", "/", query, lines, ";".join(signed), _EMPTY_BODY))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", parameters["x-amz-date"], scope, digest))
    key = f"AWS4{caller.secret_key}".encode()
    for part in (day, region, service, ending):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()
