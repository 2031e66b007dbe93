"""Every request of these tests is checked as AWS would check it."""

from __future__ import annotations

from tests.checked_requests import check_every_request

check_every_request()
