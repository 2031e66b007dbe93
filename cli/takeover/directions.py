"""Both directions of the transfer, from the survey to the answer."""

from __future__ import annotations

from collections.abc import Callable

from adapters.ports import PortError
from cli.takeover.adopter import Adopter
from cli.takeover.documents import RELEASABLE, adoption_document, release_document
from cli.takeover.environment import TakeoverEnvironment, reporting_port_errors
from cli.takeover.releaser import Releaser
from cli.takeover.steps import in_turn
from core.api.objects import JsonObject
from core.lifecycle.takeover.adoption import AdoptionState

_DUE = (AdoptionState.ADOPTABLE, AdoptionState.BEGUN)


def adoption(environment: TakeoverEnvironment, *, is_acting: bool) -> tuple[JsonObject, bool]:
    """Return what is adoptable or was adopted, and whether nothing prevents it or remains.

    Raises:
        InputError: If the cluster, the table or EC2 cannot be read.
    """
    adopter = Adopter(environment)
    with reporting_port_errors(environment.cluster):
        hindrances = environment.hindrances()
        survey = adopter.survey()
    document = adoption_document(environment.cluster, survey, hindrances, is_acting=is_acting)
    items = list(zip(document["items"], survey.candidates, strict=True))
    is_complete = not hindrances and all(found.state is not AdoptionState.REFUSED for found in survey.candidates)
    if not is_acting or hindrances:
        return document, is_complete
    due = [(part, found) for part, found in items if found.state in _DUE]
    classes = list(zip(document["nodeClasses"], survey.classes, strict=True))
    is_done = in_turn(environment, due, adopter.adopt, "adopted")
    is_done = is_done and in_turn(environment, classes, adopter.free_class, "adopted")
    is_finished = _tried(document, adopter.finish)
    return document, is_complete and is_done and is_finished


def release(environment: TakeoverEnvironment, *, is_acting: bool) -> tuple[JsonObject, bool]:
    """Return what is releasable or was released, and whether nothing prevents it or remains.

    Raises:
        InputError: If the cluster, the table or EC2 cannot be read.
    """
    releaser = Releaser(environment)
    with reporting_port_errors(environment.cluster):
        hindrances = environment.hindrances()
        survey = releaser.survey()
    document = release_document(environment.cluster, survey, hindrances, is_acting=is_acting)
    is_complete = not hindrances and all(found.objection is None for found in survey.claims)
    if not is_acting or hindrances:
        return document, is_complete
    if not _tried(document, releaser.begin):
        return document, False
    due = [pair for pair in zip(document["items"], survey.claims, strict=True) if pair[0]["state"] == RELEASABLE]
    return document, in_turn(environment, due, releaser.release, "released") and is_complete


def _tried(document: JsonObject, act: Callable[[], None]) -> bool:
    """Take a common step; return whether it succeeded. If not, the answer says what to do."""
    try:
        act()
    except PortError as error:
        document["hindrances"].append(f"{error}; run this again: it continues from here")
        return False
    return True
