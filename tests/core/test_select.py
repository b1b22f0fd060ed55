"""Filters over jobs: each alone, and together."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctld.core.jobs.select import matching
from ctld.core.records.events import JobFilter
from ctld.core.records.request import JobRequest

JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"wckey": "k", "reservation": "maint,other"},
    "reserved": {"reservation": "maint"},
}


@pytest.mark.parametrize(
    ("which", "names"),
    [
        (JobFilter(), ["keyed", "plain", "reserved"]),
        (JobFilter(wckeys=("k",)), ["keyed"]),
        (JobFilter(wckeys=("x",)), []),
        (JobFilter(reservations=("maint",)), ["keyed", "reserved"]),
        (JobFilter(reservations=("other", "x")), ["keyed"]),
        (JobFilter(reservations=("maint",), wckeys=("k",)), ["keyed"]),
        (JobFilter(reservations=("main",)), []),
    ],
)
def test_filters(which, names):
    jobs: list[Any] = [SimpleNamespace(request=JobRequest(name=name, **fields)) for name, fields in JOBS.items()]
    assert sorted(job.request.name for job in matching(jobs, which)) == names
