"""MiniStack, an AWS emulator that nobody here wrote: in an environment of its own, on loopback, with invented credentials."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

import boto3
from botocore.config import Config

VERSION: Final = "1.5.33"
ACCOUNT, REGION, CLUSTER = "123456789012", "us-east-1", "fleetwright"
PORT: Final = 45661
ENDPOINT: Final = f"http://127.0.0.1:{PORT}"
START_SECONDS: Final = 60.0


class NotInstalledError(Exception):
    """MiniStack cannot be installed or started here; the message says why."""


def require_free(*ports: int) -> None:
    """Raise NotInstalledError if somebody listens on one of the ports, which neither MiniStack nor we can choose."""
    for port in ports:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                raise NotInstalledError(f"port {port} is taken, perhaps by another run: nothing was deployed")


def client(service: str) -> Any:
    """Return a client of the emulator; it never reaches AWS."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=180)
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, endpoint_url=ENDPOINT, region_name=REGION, config=config, **keys)


def install(folder: Path) -> Path:
    """Return MiniStack's program, in a virtual environment in this folder. Raises NotInstalledError."""
    program = folder / "bin" / "ministack"
    if program.exists():
        return program
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, timeout=300)  # noqa: S603
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"ministack=={VERSION}", "boto3"]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=600)  # noqa: S603
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"MiniStack {VERSION} cannot be installed from PyPI: {error}") from error
    return program


class MiniStack:
    """A running emulator; the context ends it."""

    def __init__(self, program: Path, state: Path) -> None:
        self._program = program
        self._state = state

    def __enter__(self) -> Self:
        self._state.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(PORT),
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_REGION": REGION,
            "S3_DATA_DIR": str(self._state / "s3"),
            "STATE_DIR": str(self._state / "state"),
            "LAMBDA_EXECUTOR": "local",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._log = (self._state / "ministack.log").open("wb")
        command = [str(self._program)]
        self._process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)  # noqa: S603
        end = time.monotonic() + START_SECONDS
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError(f"MiniStack did not start: {self._state / 'ministack.log'}")
            time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{ENDPOINT}/_ministack/health", timeout=2):  # noqa: S310 - loopback
                return True
        except OSError:
            return False
