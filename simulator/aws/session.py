"""Sessions and clients of the embedded account, with boto3's methods, answers and exceptions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ParamValidationError, ReadTimeoutError
from botocore.validate import ParamValidator

from simulator.aws.errors import AwsError
from simulator.aws.retries import Retries, Try
from simulator.aws.wire import Wire
from simulator.invocation.calls import Call

_ATTEMPTS: Final = 3
"""The SDK's default, for clients without a configuration."""


class Session:
    """Replaces a `boto3.Session`. There is one shared client per service, whose only state is its quota of retries.

    Args:
        rng: Draws the tokens that the SDK makes for calls that may be repeated.
        validates: Whether parameters are checked against the services' descriptions before they are sent, as boto3 does.
    """

    def __init__(self, wire: Wire, region: str, rng: Random, *, validates: bool = True) -> None:
        self.region_name = region
        self._wire = wire
        self._rng = rng
        self._validates = validates
        self._made: dict[str, Client] = {}
        self.events = None  # nothing is signed

    def get_credentials(self) -> None:
        """Return no credentials: the simulated account needs none."""

    def client(self, service_name: str, *, config: Config | None = None, **_: Any) -> Client:
        """Return the client of a service; the configuration of the first call counts."""
        if service_name not in self._made:
            retries = (config.retries if config else None) or {}
            attempts = retries.get("total_max_attempts", _ATTEMPTS)
            self._made[service_name] = Client(
                service_name, self._wire, attempts, self._new_token, validates=self._validates
            )
        return self._made[service_name]

    def _new_token(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))


class Client:
    """Replaces a boto3 client.

    Attributes:
        meta: Its `service_model`, as botocore describes it.
        exceptions: Its exceptions by name.
    """

    def __init__(
        self, service: str, wire: Wire, attempts: int, new_token: Callable[[], str], *, validates: bool
    ) -> None:
        model = service_model(service)
        self.meta = SimpleNamespace(service_model=model)
        self.exceptions = _exceptions(service)
        self._service = service
        self._wire = wire
        self._new_token = new_token
        self._validates = validates
        self._retries = Retries(model, attempts)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = _operations(self._service).get(name)
        if operation is None:
            raise AttributeError(f"{self._service} has no operation {name}")
        model = self.meta.service_model.operation_model(operation)

        def call(**parameters: Any) -> dict[str, Any]:
            return self._call(model, parameters)

        # Found without `__getattr__` from now on.
        setattr(self, name, call)
        return call

    def _call(self, operation: Any, parameters: dict[str, Any]) -> dict[str, Any]:
        for member in operation.idempotent_members:
            parameters.setdefault(member, self._new_token())
        if self._validates:
            _validate(operation, parameters)
        call = Call(service=self._service, operation=operation.name, parameters=parameters)
        tried = Try(operation)
        self._wire.begin()
        while True:
            try:
                answer = self._wire.attempt(call)
            except AwsError as error:
                failure: Exception = self._client_error(error, operation.name, tried.attempt - 1)
            except ReadTimeoutError as error:
                failure = error
            else:
                self._retries.succeeded(tried)
                return {**answer, "ResponseMetadata": _metadata(200, tried.attempt - 1)}
            wait = self._retries.wait_after(tried, failure)
            if wait is None:
                raise failure
            self._wire.spend(timedelta(seconds=wait))
            tried.attempt += 1

    def _client_error(self, error: AwsError, operation: str, retries: int) -> Exception:
        response = {
            "Error": {"Code": error.code, "Message": error.message},
            "ResponseMetadata": _metadata(error.status, retries),
            **error.fields,
        }
        failure: Exception = self.exceptions.from_code(error.code)(response, operation)
        return failure


@cache
def service_model(service: str) -> Any:
    """A service's description: megabytes of JSON, so it is read once in a process."""
    return botocore.session.get_session().get_service_model(service)


@cache
def _exceptions(service: str) -> Any:
    return ClientExceptionsFactory().create_client_exceptions(service_model(service))


@cache
def _operations(service: str) -> Mapping[str, str]:
    return {xform_name(name): name for name in service_model(service).operation_names}


def _validate(operation: Any, parameters: dict[str, Any]) -> None:
    report = ParamValidator().validate(parameters, operation.input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


def _metadata(status: int, retries: int) -> dict[str, Any]:
    return {"HTTPStatusCode": status, "RetryAttempts": retries}
