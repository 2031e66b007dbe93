"""The callers: a role for each function, with its own credentials as in Lambda."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

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
