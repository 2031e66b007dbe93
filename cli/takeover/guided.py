"""The move from Karpenter and the way back as one course of steps: plan, freeze, hand over, start, verify, undo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.ports import PortError
from cli.answers.plan import API_VERSION
from cli.takeover import environment as opened
from cli.takeover.environment import TakeoverEnvironment, reporting_port_errors
from cli.takeover.steps import KEPT, adoption, release
from cli.terminal import output
from cli.terminal.output import counted
from cli.terminal.style import write_stderr
from core.api.objects import JsonObject
from core.brakes import Mode
from core.manifests.wire import resources

if TYPE_CHECKING:
    from cli.cluster.own_state import Installation

NAME_LABEL: Final = "app.kubernetes.io/name=karpenter"
"""The label of the Deployment in Karpenter's chart (`charts/karpenter/templates/_helpers.tpl`)."""

REPLICAS_BEFORE: Final = "fleetwright.dev/replicas-before-switch"
"""Annotation of Karpenter's Deployment while it is stopped: with how many replicas the way back starts it."""

REPLICAS_DEFAULT: Final = 2
"""Replicas of Karpenter's chart (`charts/karpenter/values.yaml`)."""

WAITS_AT_MOST: Final = timedelta(minutes=5)
"""How long to wait until both sides stand still, or until Karpenter runs: its Lease expires within a minute of its end."""

ROUND: Final = timedelta(seconds=15)
TRIES: Final = 3
"""The most attempts at a transfer. Each continues where the last one ended."""

DUE, DONE, BLOCKED, FAILED, UNDONE = "due", "done", "blocked", "failed", "undone"


class SwitchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants.

    Attributes:
        is_acting: Whether to carry it out; otherwise nothing is changed.
        deployment: Karpenter's Deployment as NAMESPACE/NAME, empty to find it by its label.
        leaves_refused: Whether to switch although some nodes cannot be adopted and stay Karpenter's.
        keeps_nodes: Whether voluntary disruption stays paused after the switch.
    """

    is_acting: bool = False
    deployment: str = ""
    leaves_refused: bool = False
    keeps_nodes: bool = False


class StepFailedError(Exception):
    """A step that cannot be completed; its text says why."""


class Switching(ABC):
    """Either direction: what both do to Karpenter's Deployment, to the kill switch, and to the record of steps.

    Attributes:
        steps: The steps so far, as data.
        items: What the transfer says of each node.
    """

    direction = ""

    def __init__(self, environment: TakeoverEnvironment, options: SwitchOptions) -> None:
        self.environment, self.options = environment, options
        self.steps: list[JsonObject] = []
        self.items: list[JsonObject] = []

    def course(self) -> tuple[JsonObject, bool]:
        """Plan, and carry it out if that is wanted; return the answer and whether all of it succeeded.

        Raises:
            InputError: If the cluster or the installation cannot be read: nothing was changed.
        """
        with reporting_port_errors(self.environment.cluster):
            problems, summary = self.planned()
        self._note("plan", BLOCKED if problems else DONE, "; ".join(problems) or summary)
        due = self.acts()
        if problems or not self.options.is_acting:
            for name, says, _ in due:
                self._note(name, DUE, says)
            return self._document(), not problems
        for name, _, act in due:
            try:
                self._note(name, DONE, act())
            except (PortError, StepFailedError) as error:
                self._note(name, FAILED, str(error))
                self._undo(name)
                return self._document(), False
        return self._document(), True

    @abstractmethod
    def planned(self) -> tuple[list[str], str]:
        """Return what prevents the switch, and what it is about. Raises PortError."""

    @abstractmethod
    def acts(self) -> Sequence[tuple[str, str, Callable[[], str]]]:
        """Return the steps in order: name, what it will do, and the act, which returns what it has done."""

    @abstractmethod
    def undone(self, failed: str) -> str:
        """Undo what came before the step that failed; return what is the state now. Raises PortError."""

    def deployments(self) -> dict[str, Any]:
        """Return Karpenter's Deployments by NAMESPACE/NAME. Raises PortError."""
        wanted = self.options.deployment
        items = self.environment.kubernetes.list(resources.DEPLOYMENTS, labels="" if wanted else NAME_LABEL).items
        named = {f"{deployment.metadata.namespace}/{deployment.metadata.name}": deployment for deployment in items}
        return {name: deployment for name, deployment in sorted(named.items()) if not wanted or name == wanted}

    def which_deployment(self, *, is_needed: bool) -> list[str]:
        """Return what is wrong with the choice of Karpenter's Deployment."""
        candidates = self.deployments()
        if len(candidates) == 1 or not (candidates or is_needed or self.options.deployment):
            return []
        which = (
            f"{len(candidates)} Deployments are labelled {NAME_LABEL}"
            if candidates
            else "Karpenter's Deployment was not found"
        )
        return [f"{which}: name it with --deployment NAMESPACE/NAME"]

    def scale(self, replicas: int, annotation: str | None) -> None:
        """Scale Karpenter's Deployment, if there is one. Raises PortError."""
        for deployment in self.deployments().values():
            body = {"metadata": {"annotations": {REPLICAS_BEFORE: annotation}}, "spec": {"replicas": replicas}}
            metadata = deployment.metadata
            self.environment.kubernetes.patch(resources.DEPLOYMENTS, metadata.name, body, namespace=metadata.namespace)

    def stop_karpenter(self) -> None:
        """Scale Karpenter to zero, and remember its replicas. Raises PortError."""
        for deployment in self.deployments().values():
            if deployment.spec.replicas:
                self.scale(0, str(deployment.spec.replicas))

    def start_karpenter(self) -> str:
        """Scale Karpenter to its former replicas; return what was done. Raises PortError."""
        for name, deployment in self.deployments().items():
            text = deployment.metadata.annotations.get(REPLICAS_BEFORE, "")
            replicas = deployment.spec.replicas or (int(text) if text.isdecimal() else 0) or REPLICAS_DEFAULT
            if not deployment.spec.replicas:
                self.scale(replicas, None)
            return f"Deployment {name} runs with {counted(replicas, 'replica')}"
        return ""

    def wait_until(self, is_reached: Callable[[], bool]) -> bool:
        """Wait, at most for `WAITS_AT_MOST`; return whether it was reached. Raises PortError."""
        until = self.environment.clock.now() + WAITS_AT_MOST
        while not is_reached():
            if self.environment.clock.now() + ROUND > until:
                return False
            self.environment.pause(ROUND)
        return True

    def stand_still(self) -> None:
        """Wait until neither side can act. Raises PortError, StepFailedError."""
        if not self.wait_until(lambda: not self.environment.hindrances()):
            raise StepFailedError("; ".join(self.environment.hindrances()))

    def transfer(self, direction: Callable[..., tuple[JsonObject, bool]], done: str) -> str:
        """Carry a transfer out; what a call has failed for is tried again. Raises StepFailedError."""
        total = 0
        for _ in range(TRIES):
            document, _is_complete = direction(self.environment, is_acting=True)
            self.items = document["items"]
            states = Counter(item["state"] for item in self.items)
            total += states[done]
            if not document["hindrances"] and not states[FAILED]:
                return f"{counted(total, 'node')} {done}"
        reasons = [*document["hindrances"], *(item["message"] for item in self.items if item["state"] == FAILED)]
        raise StepFailedError(reasons[0] if reasons else f"some nodes are not {done}")

    def _undo(self, failed: str) -> None:
        try:
            if summary := self.undone(failed):
                self._note("undo", UNDONE, summary)
        except PortError as error:
            self._note("undo", FAILED, f"{error}: run this again, or do it by hand")

    def _note(self, name: str, state: str, message: str) -> None:
        self.steps.append({"step": name, "state": state, "message": message})
        if self.options.is_acting:
            write_stderr(f"{name}: {state}: {message}")

    def _document(self) -> JsonObject:
        return {
            "apiVersion": API_VERSION,
            "kind": "Switch",
            "cluster": self.environment.cluster,
            "direction": self.direction,
            "acting": self.options.is_acting,
            "steps": self.steps,
            "items": self.items,
        }


class FromKarpenter(Switching):
    """Stops Karpenter, adopts its nodes, and starts the functions."""

    direction = "from-karpenter"

    def planned(self) -> tuple[list[str], str]:
        """Return what prevents the switch: a mode or a switch that is missing, refused nodes, an unknown Deployment."""
        environment, problems = self.environment, list[str]()
        if environment.settings.is_shadow:
            problems.append("the functions run as a shadow, which changes nothing: deploy them with `mode: act` first")
        if not environment.settings.kill_switch_parameter:
            problems.append(
                "the functions have no kill switch, so they cannot be kept from acting: deploy the stack again"
            )
        problems += self.which_deployment(is_needed=environment.karpenter_runs())
        document, _ = adoption(environment, is_acting=False)
        self.items = document["items"]
        states = Counter(item["state"] for item in self.items)
        if states["refused"] and not self.options.leaves_refused:
            problems.append(
                f"{counted(states['refused'], 'node')} cannot be adopted: `fleetwright adopt --cluster {environment.cluster}` "
                "says why; --leave-refused switches without them"
            )
        drifted = sum(bool(item["drift"]) for item in self.items)
        summary = f"{counted(states['adoptable'] + states['begun'], 'node')} to adopt, {drifted} of them drifted"
        return problems, f"{summary}, {states['ours']} ours already, {states['refused']} left to Karpenter"

    def acts(self) -> Sequence[tuple[str, str, Callable[[], str]]]:
        """Return freeze, hand over, start and verify."""
        mode = "pauses voluntary disruption" if self.options.keeps_nodes else "lets them act"
        return (
            (
                "freeze",
                "stops the functions and scales Karpenter to 0; pods that need a node wait from here",
                self._freeze,
            ),
            ("hand over", "records each node as ours; no node is replaced, no pod is moved", self._adopt),
            ("start", f"turns the functions' kill switch: {mode}", self._start),
            ("verify", "reads again that every node is ours and that Karpenter is gone", self._verify),
        )

    def undone(self, failed: str) -> str:
        """Start Karpenter again if no node is ours yet; otherwise say how to go on or back."""
        if failed not in ("freeze", "hand over") or any(item["state"] in ("adopted", "ours") for item in self.items):
            return ""
        return f"{self.start_karpenter() or 'Karpenter was not scaled'}; the functions stay stopped"

    def _freeze(self) -> str:
        self.environment.turn(Mode.STOP)
        self.stop_karpenter()
        self.stand_still()
        return "the functions are stopped and Karpenter's Lease is free"

    def _adopt(self) -> str:
        return self.transfer(adoption, "adopted")

    def _start(self) -> str:
        mode = Mode.PAUSE_DISRUPTION if self.options.keeps_nodes else Mode.RUN
        self.environment.turn(mode)
        return f"the kill switch is at {mode}; the functions notice within 15 seconds"

    def _verify(self) -> str:
        document, _ = adoption(self.environment, is_acting=False)
        self.items = document["items"]
        waiting = [item["subject"] for item in self.items if item["state"] not in ("ours", "refused")]
        if waiting:
            raise StepFailedError(f"{output.several(waiting)} became Karpenter's meanwhile: run this again")
        if self.environment.karpenter_runs():
            raise StepFailedError(
                "Karpenter's Lease is held again: something scaled it up, such as a GitOps controller"
            )
        return f"{counted(sum(item['state'] == 'ours' for item in self.items), 'node')} ours, Karpenter is stopped"


class BackToKarpenter(Switching):
    """Stops the functions, releases their nodes, and starts Karpenter."""

    direction = "back"

    def planned(self) -> tuple[list[str], str]:
        """Return what prevents the way back: nodes that are kept, a running Karpenter, an unknown Deployment."""
        environment, problems = self.environment, list[str]()
        if not environment.settings.kill_switch_parameter:
            problems.append("the functions have no kill switch, so they cannot be stopped: deploy the stack again")
        if environment.karpenter_runs():
            problems.append("Karpenter runs already: scale it to 0 first, it ends instances that have no NodeClaim yet")
        problems += self.which_deployment(is_needed=False)
        document, _ = release(environment, is_acting=False)
        self.items = document["items"]
        states = Counter(item["state"] for item in self.items)
        if states[KEPT]:
            problems.append(
                f"{counted(states[KEPT], 'node')} cannot be released: `fleetwright release --cluster {environment.cluster}` "
                "says why, and what to do"
            )
        return problems, f"{counted(states['releasable'], 'node')} to release"

    def acts(self) -> Sequence[tuple[str, str, Callable[[], str]]]:
        """Return freeze, hand over, start and verify."""
        return (
            ("freeze", "stops the functions; pods that need a node wait from here", self._freeze),
            (
                "hand over",
                "writes Karpenter's NodeClaim of each node; no node is replaced, no pod is moved",
                self._release,
            ),
            ("start", "scales Karpenter to its former number of replicas, and waits for its Lease", self._start),
            ("verify", "reads again that no node is ours", self._verify),
        )

    def undone(self, failed: str) -> str:
        """Let the functions go on if no node was released yet; otherwise they and Karpenter stay stopped."""
        if failed != "freeze" or not self._before:
            return ""
        self.environment.turn(self._before)
        return f"the kill switch is at {self._before} again"

    _before = ""

    def _freeze(self) -> str:
        self._before = self.environment.mode()
        self.environment.turn(Mode.STOP)
        self.stand_still()
        return "the functions are stopped"

    def _release(self) -> str:
        return self.transfer(release, "released")

    def _start(self) -> str:
        summary = self.start_karpenter()
        if not summary:
            return "no Deployment of Karpenter's was found: install it now"
        if not self.wait_until(self.environment.karpenter_runs):
            raise StepFailedError(f"{summary}, but Karpenter holds no Lease yet: look at its pods and logs")
        return f"{summary} and holds its Lease"

    def _verify(self) -> str:
        document, _ = release(self.environment, is_acting=False)
        self.items = document["items"]
        if self.items:
            raise StepFailedError(f"{counted(len(self.items), 'node')} ours still: run this again")
        return "no node is ours; remove the stacks once every NodeClaim is Ready"


def switched(installation: Installation, options: SwitchOptions, *, is_back: bool) -> tuple[JsonObject, bool]:
    """Switch an installation's cluster in either direction; return the answer and whether nothing prevents or failed it.

    Raises:
        InputError: If the cluster or the installation cannot be read: nothing was changed.
    """
    environment = opened.open_environment(installation)
    return (BackToKarpenter if is_back else FromKarpenter)(environment, options).course()


def switch_table(document: JsonObject) -> str:
    """Format the steps and what to run next."""
    rows = [(step["step"], step["state"], step["message"]) for step in document["steps"]]
    return "\n\n".join((output.table(("STEP", "STATE", "WHAT"), rows), output.wrapped(_next(document))))


def _next(document: JsonObject) -> str:
    words = "--back" if document["direction"] == BackToKarpenter.direction else "--from karpenter"
    command = f"fleetwright switch {words} --cluster {document['cluster']} --yes"
    states = [step["state"] for step in document["steps"]]
    if BLOCKED in states:
        return "Nothing was changed."
    if not document["acting"]:
        return f"Nothing was changed. `{command}` carries it out, and undoes what fails before a node changes hands."
    if FAILED not in states:
        other = "--back" if words != "--back" else "--from karpenter"
        return f"Done. `fleetwright switch {other} --cluster {document['cluster']}` shows the way back."
    if UNDONE in states:
        return "No node changed hands. Mend what failed, and run this again."
    return (
        f"Some nodes may have changed hands: `{command}` continues from here. Until then neither side launches nodes."
    )
