"""Parts that are started together and stopped together, whatever happens in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.e2e.parts.admin import Admin
from tests.e2e.parts.control_plane import ControlPlane
from tests.e2e.parts.processes import Processes


class Together(ABC):
    """A control plane and whatever else a subclass starts in `start`; what it enters into `opened` is left in reverse order.

    Attributes:
        folder: The folder of the parts' files; their logs are in its `logs`.
    """

    control_plane: ControlPlane

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened = ExitStack()
        self.processes = self.opened.enter_context(Processes(folder / "logs"))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.opened.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    @property
    def admin(self) -> Admin:
        """An administrator's client."""
        return self.control_plane.admin

    @abstractmethod
    def start(self) -> None:
        """Start all parts. Raises PartError."""

    def start_control_plane(
        self, *, authentication_webhook: Path | None = None, has_hollow_kubelets: bool = False
    ) -> None:
        """Start it in a folder of its own; it has an `admin` from now on. Raises PartError."""
        self.control_plane = ControlPlane(
            self.processes,
            self.folder / "control-plane",
            authentication_webhook=authentication_webhook,
            has_hollow_kubelets=has_hollow_kubelets,
        )
        self.opened.callback(self.control_plane.stop)
        self.control_plane.start()
