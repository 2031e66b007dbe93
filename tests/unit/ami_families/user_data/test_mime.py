"""Several documents in one user data."""

from __future__ import annotations

from typing import Any

import pytest

from core.ami_families.al2 import AL2
from core.ami_families.al2023 import AL2023
from core.ami_families.user_data.mime import SHELL, Part, is_archive, read_archive, write_archive
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import (
    changed,
    documents,
)


@pytest.mark.parametrize("family", [AL2, AL2023])
@pytest.mark.parametrize("ending", ["--BOUND--", ""])
def test_the_users_archive_is_unpacked_and_its_parts_kept(family: Any, ending: str) -> None:
    """Otherwise, the inner archive is handed to no interpreter."""
    own = (
        'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="BOUND"\r\n\r\n--BOUND\r\n'
        "Content-Type: text/x-shellscript\r\nX-Note: kept\r\n\r\n#!/bin/sh\r\necho 1\r\n\r\n--BOUND\r\n"
        f"Content-Type: text/cloud-config\r\n\r\npackages: [jq]\r\n{ending}"
    )
    first, second, _ = documents(family.user_data(changed(user_data=own)))
    assert (first.get_content_type(), first["X-Note"]) == ("text/x-shellscript", "kept")
    assert str(first.get_payload()).strip() == "#!/bin/sh\necho 1"
    assert second.get_content_type() == "text/cloud-config"


@pytest.mark.parametrize("own", ["MIME-Version: 1.0\n\nno boundary", 'Content-Type: x; boundary="b"\n\nnothing'])
def test_a_broken_archive_names_the_field(own: str) -> None:
    """The message must name userData; EC2's does not."""
    with pytest.raises(InvalidInputError, match=r"spec\.userData"):
        AL2023.user_data(changed(user_data=own))


@pytest.mark.parametrize("family", [AL2, AL2023])
@pytest.mark.parametrize(
    ("own", "content_type"),
    [
        ("#cloud-config\npackages: [jq]\n", "text/cloud-config"),
        ("\n#cloud-config \r\npackages: [jq]\n", "text/cloud-config"),
        ("#cloud-config-archive\n- type: text/x-shellscript\n", "text/x-shellscript"),
        ("#!/bin/sh\n#cloud-config\n", "text/x-shellscript"),
    ],
)
def test_a_cloud_config_keeps_its_content_type(family: Any, own: str, content_type: str) -> None:
    """As a script it was executed: every line was a comment or an error, and nothing was applied."""
    first, _ = documents(family.user_data(changed(user_data=own)))
    assert first.get_content_type() == content_type


def test_the_boundary_is_karpenters_unless_a_document_has_it_as_a_line() -> None:
    """Such a line would end the document, and the rest of the user's script would be lost."""
    assert 'boundary="//"' in write_archive([Part.of(SHELL, "echo --//")])
    assert 'boundary="///"' in write_archive([Part.of(SHELL, "echo\n--//")])
    assert 'boundary="////"' in write_archive([Part.of(SHELL, "--//"), Part("X-Note: y\n--///", "z")])


def test_what_stands_before_the_first_boundary_and_after_the_end_is_no_document() -> None:
    own = "content-type: multipart/mixed; BOUNDARY=b; x=y\n\npreamble\n--b\nA: 1\n\nx\n\ny\n--b--\n--b\nB: 2\n\nlost"
    assert is_archive(own)
    assert read_archive(own) == (Part("A: 1", "x\n\ny"),)
