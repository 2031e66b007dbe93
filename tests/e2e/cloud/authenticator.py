"""The authenticator that EKS runs beside its API server: tokens to users, by access entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from adapters.ports import JsonObject
from tests.e2e.cloud.identities import Caller, Identities, TokenError, caller_of
from tests.e2e.local_server import Handler, LocalServer

PATH: Final = "/authenticate"


class Authenticator:
    """Answers the API server's token reviews (`authentication.k8s.io`) over HTTP on 127.0.0.1.

    Attributes:
        refused: The reasons for which tokens were refused, oldest first.
        entries: Role → Kubernetes groups; a caller whose role has no entry is refused.
    """

    def __init__(self, identities: Identities, cluster: str) -> None:
        self._identities = identities
        self._cluster = cluster
        self.entries: dict[str, tuple[str, ...]] = dict(identities.access_entries())
        self.refused: list[str] = []
        self._server = LocalServer(_handler(self), "authenticator")
        self.url = f"http://{self._server.address}{PATH}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start answering."""
        self._server.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop()

    def write_webhook_config(self, path: Path) -> Path:
        """Write the kubeconfig for kube-apiserver's `--authentication-token-webhook-config-file`; returns `path`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "authenticator", "cluster": {"server": self.url}}],
            "users": [{"name": "kube-apiserver", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "authenticator", "user": "kube-apiserver"}}],
            "current-context": "webhook",
        }
        path.write_bytes(msgspec.json.encode(config))
        return path

    def review(self, review: JsonObject) -> JsonObject:
        """Return the TokenReview with its status, in the API version of the request."""
        try:
            status = self._status(str((review.get("spec") or {}).get("token") or ""))
        except TokenError as error:
            self.refused.append(str(error))
            status = {"authenticated": False, "error": str(error)}
        return {"apiVersion": review.get("apiVersion"), "kind": "TokenReview", "status": status}

    def _status(self, token: str) -> JsonObject:
        caller = caller_of(token, self._cluster, datetime.now(UTC), self._identities.of_key)
        groups = self.entries.get(caller.role_arn)
        if groups is None:
            raise TokenError(f"{caller.role_arn} has no access entry")
        return {"authenticated": True, "user": _user(caller, groups)}


def username_of(caller: Caller) -> str:
    """Return EKS's user name for a role's session if the access entry names no user."""
    return caller.arn


def _user(caller: Caller, groups: tuple[str, ...]) -> JsonObject:
    extra: Mapping[str, str] = {
        "accessKeyId": caller.access_key,
        "arn": caller.arn,
        "canonicalArn": caller.role_arn,
        "principalId": caller.role_id,
        "sessionName": caller.session_name,
    }
    return {
        "username": username_of(caller),
        "uid": f"aws-iam-authenticator:{caller.account}:{caller.role_id}",
        "groups": list(groups),
        "extra": {key: [value] for key, value in extra.items()},
    }


def _handler(authenticator: Authenticator) -> type[Handler]:
    class Reviews(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the base class names it
            review = msgspec.json.decode(self.body(), type=dict[str, Any])
            self.reply(200, {"Content-Type": "application/json"}, msgspec.json.encode(authenticator.review(review)))

    return Reviews
