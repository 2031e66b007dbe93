"""The callers: a role for each function, with its own credentials as in Lambda."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from moto.iam.models import iam_backends
from moto.sts.models import AssumedRole, sts_backends

from installation.cluster_roles import RULES_OF, group_of
from installation.wiring import FUNCTIONS, FunctionSpec
from simulator.aws.installation import ACCOUNT_ID

ADMIN_KEY: Final = "FLEETWRIGHTADMIN"
"""The access key for setting the account up. Letters only: DynamoDB Local accepts no other characters."""

_TRUST: Final = '{"Version": "2012-10-17", "Statement": []}'


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a role.

    Attributes:
        role_arn: The role's ARN as in access entries.
        secret_key: The key that signs requests.
        role_id: The role's unique id.
    """

    account: str
    role_arn: str
    session_name: str
    access_key: str
    secret_key: str
    session_token: str
    role_id: str

    @property
    def arn(self) -> str:
        """The ARN that `sts:GetCallerIdentity` returns."""
        return f"arn:aws:sts::{self.account}:assumed-role/{self.role_arn.rpartition('/')[2]}/{self.session_name}"

    def environment(self) -> dict[str, str]:
        """The variables in which SDKs look for credentials."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }


class Identities:
    """The functions' roles and sessions, which moto's IAM and STS keep."""

    def __init__(self, region: str) -> None:
        iam, self._sts = iam_backends[ACCOUNT_ID]["aws"], sts_backends[ACCOUNT_ID]["aws"]
        self._sessions: dict[str, AssumedRole] = {}
        for spec in FUNCTIONS:
            role = iam.create_role(role_name(spec), _TRUST, "/", None, "", [], None)
            self._sessions[spec.name] = self._sts.assume_role(region, spec.name, role.arn, "", 12 * 3600, "")

    def of_function(self, spec: FunctionSpec) -> Caller:
        """Return the session of the function's sandboxes."""
        return _caller(self._sessions[spec.name])

    def of_key(self, access_key: str) -> Caller | None:
        """Return the caller with this access key, or None if the key is unknown, revoked or expired."""
        found = self._sts.get_assumed_role_from_access_key(access_key)
        return None if found is None or _is_over(found) else _caller(found)

    def knows(self, access_key: str) -> bool:
        """Return whether AWS accepts requests signed with this key."""
        return access_key == ADMIN_KEY or self.of_key(access_key) is not None

    def revoke(self, spec: FunctionSpec) -> None:
        """Revoke the function's credentials."""
        self._sts.assumed_roles.remove(self._sessions[spec.name])

    def access_entries(self) -> Mapping[str, tuple[str, ...]]:
        """Return role → Kubernetes groups, as in the stack's access entries (`infra.constructs.cluster_access`)."""
        return {found.role_arn: (group_of(name),) for name, found in self._sessions.items() if name in RULES_OF}


def role_name(spec: FunctionSpec) -> str:
    """The role of a function."""
    return f"fleetwright-{spec.name}"


def _caller(session: AssumedRole) -> Caller:
    return Caller(
        account=session.account_id,
        role_arn=session.role_arn,
        session_name=session.session_name,
        access_key=session.access_key_id,
        secret_key=str(session.secret_access_key),
        session_token=session.session_token,
        role_id=session.user_id.partition(":")[0],
    )


def _is_over(session: Any) -> bool:
    expiration: datetime = session.expiration
    return expiration.replace(tzinfo=expiration.tzinfo or UTC) <= datetime.now(UTC)


# Reads the tokens that EKS accepts: a presigned `sts:GetCallerIdentity`, checked as EKS's authenticator and STS do.
#
# Source: the rules of aws-iam-authenticator, which EKS runs, and AWS Signature Version 4 for query strings. EKS does not look
# at `X-Amz-Expires` beyond its range: a token counts for fifteen minutes from its signing.


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
