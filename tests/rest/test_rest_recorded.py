"""What a real slurmrestd (26.11-dev, recorded on 2026-11-23) answers to requests, and what this one answers to the same ones.

Each row has the status and the error numbers of both; where these differ, a sentence of docs/rest.md says so. Of versions that
both serve: v0.0.43 to v0.0.46.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
import tidytree as tree
from liverest import LiveRest
from patience import ANSWER_S

SLURM, DB = "/slurm/v0.0.46", "/slurmdb/v0.0.46"
USER = "nobody"
FUTURE = "update_time=4000000000"
SCRIPT = "#!/bin/sh\n"
JOB = {"name": "recorded", "current_working_directory": "/tmp", "environment": ["A=1"], "script": SCRIPT, "hold": True}
PAGE = (tree.ROOT / "docs/rest.md").read_text(encoding="utf-8").partition("## Differences from slurmrestd")[2]
#: Words of the page's sentences about differences.
STATUSES = "Statuses of refusals are 4xx"
READABLE = "of `/slurmdb/` are readable for users"
TYPES = "A body without a Content-Type is refused with 415"


class Told(NamedTuple):
    """An answer: its status, and the error numbers in it."""

    status: int
    numbers: tuple[int, ...] = ()


class Row(NamedTuple):
    """One request. `who`: admin, user, or headers of its own; `ours`: where it is not Slurm's answer, and `why`."""

    method: str
    path: str
    slurm: Told
    body: Any = None
    who: str | dict[str, str] = "admin"
    ours: Told | None = None
    why: str = ""
    content: bytes | None = None


def described(**changes: Any) -> dict[str, Any]:
    """The body of a submission with other values; None leaves a member out."""
    return {"job": {name: value for name, value in (JOB | changes).items() if value is not None}}


def refused_value(number: int) -> Told:
    return Told(422, (number,))


RESERVATION = {"name": "r", "start_time": 4_000_000_000, "duration": 60, "users": [USER], "node_list": ["n1"]}
BAD = {"X-SLURM-USER-TOKEN": "a.b.c"}
KEPT: tuple[Row, ...] = (
    # Who asks
    Row("GET", f"{SLURM}/jobs", Told(401), who={}),
    Row("GET", f"{SLURM}/jobs", Told(401), who={"X-SLURM-USER-NAME": "root"}),
    Row("GET", f"{SLURM}/jobs", Told(401), who={"Authorization": "Basic cm9vdDp4"}),
    Row("GET", "/openapi/v3", Told(401), who={}),
    Row("GET", f"{SLURM}/jobs", Told(511, (1007,)), who=BAD, ours=Told(401, (1007,)), why=STATUSES),
    Row("GET", f"{SLURM}/shares", Told(500, (-1,)), who=BAD, ours=Told(401, (1007,)), why=STATUSES),
    Row("GET", f"{DB}/users", Told(502, (7000,)), who=BAD, ours=Told(401, (7000,)), why=STATUSES),
    Row("GET", f"{SLURM}/ping", Told(200), who=BAD, ours=Told(401, (1007,)), why=STATUSES),
    # What there is
    Row("GET", "/slurm/v0.0.46/nothing", Told(404)),
    Row("GET", "/slurm/v0.0.1/jobs", Told(404)),
    Row("PUT", f"{SLURM}/jobs", Told(404)),
    Row("HEAD", f"{SLURM}/ping", Told(404)),
    Row("OPTIONS", f"{SLURM}/ping", Told(404)),
    Row("GET", f"{SLURM}/job/4000000", Told(404, (2017,))),
    *(Row("GET", f"{SLURM}/job/{one}", Told(422, (9000,))) for one in ("abc", "0", "-1")),
    Row("GET", f"{SLURM}/jobs?update_time=x", Told(422, (9202, 9000))),
    # Submissions
    Row("POST", f"{SLURM}/job/submit", refused_value(2000), described(partition="none")),
    Row("POST", f"{SLURM}/job/submit", refused_value(2066), described(qos="none")),
    Row("POST", f"{SLURM}/job/submit", refused_value(2010), described(user_id="0"), "user"),
    Row("POST", f"{SLURM}/job/submit", refused_value(2127), described(environment=None)),
    Row("POST", f"{SLURM}/job/submit", refused_value(2063), described(current_working_directory=None)),
    Row("POST", f"{SLURM}/job/submit", refused_value(2012), described(script=SCRIPT + "#" * (5 << 20))),
    Row("POST", f"{SLURM}/job/submit", refused_value(9000), described(script=None)),
    # Changes
    Row("POST", f"{SLURM}/job/{{job}}", refused_value(2010), {"comment": "x"}, "user"),
    Row("POST", f"{SLURM}/job/4000000", refused_value(2017), {"comment": "x"}),
    Row("POST", f"{SLURM}/job/{{job}}", refused_value(2000), {"partition": "none"}),
    Row("POST", f"{SLURM}/job/{{ended}}", refused_value(2084), {"time_limit": 5}),
    Row("POST", f"{SLURM}/node/n1", refused_value(2010), {"comment": "x"}, "user"),
    Row("POST", f"{SLURM}/node/none", refused_value(2018), {"comment": "x"}),
    Row("POST", f"{SLURM}/reservation", refused_value(2010), RESERVATION, "user"),
    Row("DELETE", f"{SLURM}/reservation/none", refused_value(2053)),
    Row("DELETE", f"{SLURM}/partition/main", refused_value(2010), None, "user"),
    Row("DELETE", f"{SLURM}/partition/none", refused_value(2000)),
    Row("GET", f"{SLURM}/job/{{job}}/requeue", refused_value(2024)),
    # Accounting
    Row("POST", f"{DB}/accounts", refused_value(2002), {"accounts": [{"name": "a", "description": "a", "organization": "a"}]}, "user"),
    Row("POST", f"{DB}/tres", refused_value(2036), {"TRES": [{"type": "cpu"}]}),
    Row("POST", f"{DB}/accounts", refused_value(9200), {}),
    *(Row("GET", f"{DB}/{one}", refused_value(2002), None, "user", Told(200), READABLE) for one in ("wckeys", "config", "diag")),
    Row("GET", f"{DB}/user/none-such", Told(200)),
    Row("GET", f"{DB}/account/none", Told(200)),
    Row("GET", f"{DB}/job/4000000", Told(200)),
    Row("DELETE", f"{DB}/account/none", Told(304)),
    # Values of bodies
    Row("POST", f"{SLURM}/job/submit", Told(500, (9202,)), described(time_limit="soon"), ours=Told(422, (9202,)), why=STATUSES),
    Row("POST", f"{SLURM}/job/submit", Told(500, (9207,)), described(flags=["NONE"]), ours=Told(422, (9207,)), why=STATUSES),
    Row("POST", f"{SLURM}/job/submit", Told(500, (9209,)), {"job": 5}, ours=Told(422, (9209,)), why=STATUSES),
    Row("POST", f"{SLURM}/node/n1", Told(500, (9207,)), {"state": ["NONE"]}, ours=Told(422, (9207,)), why=STATUSES),
    Row("POST", f"{SLURM}/job/submit", Told(400), content=b"{"),
    Row("POST", f"{SLURM}/job/submit", Told(400), content=b'{"a": "\xff"}'),
    Row("POST", f"{SLURM}/job/submit", Told(400), content=b"[" * 5000 + b"]" * 5000),
    # Nothing new
    *(Row("GET", f"{SLURM}/{one}?{FUTURE}", Told(304)) for one in ("nodes", "partitions", "partition/main", "reservations")),
    *(Row("GET", f"{SLURM}/{one}?{FUTURE}", Told(200)) for one in ("jobs", "conf", "node/n1", "licenses")),
    # The trouble inside
    Row("GET", f"{SLURM}/node/none", Told(200, (0,))),
    Row("GET", f"{SLURM}/partition/none", Told(200)),
    Row("GET", f"{SLURM}/reservation/none", Told(200, (0,))),
    Row("DELETE", f"{SLURM}/job/4000000", Told(200, (2017,))),
    Row("DELETE", f"{SLURM}/job/{{ended}}", Told(200, (2021,))),
    Row("DELETE", f"{SLURM}/job/{{job}}", Told(200, (2002,)), None, "user"),
    Row("DELETE", f"{SLURM}/job/{{job}}?signal=NONE", Told(200, (0,))),
)  # fmt: skip
#: Requests whose heads are the matter.
HEADS: tuple[tuple[dict[str, str], Told, Told | None, str], ...] = (
    ({}, Told(500), Told(415), TYPES),
    ({"Content-Type": "text/plain"}, Told(415), None, ""),
    ({"Content-Type": "application/json; charset=utf-8"}, Told(415), None, ""),
    ({"Content-Type": "application/json", "Accept": "text/html"}, Told(415), None, ""),
)


@pytest.fixture
def people(rest: LiveRest) -> Iterator[dict[str, httpx.Client]]:
    """Connections by the word in a row."""
    found = {"admin": rest.as_user(), "user": rest.as_user(USER)}
    yield found
    for one in found.values():
        one.close()


def told(reply: httpx.Response) -> Told:
    """What an answer says, and in which status."""
    if not reply.content or not reply.headers["content-type"].startswith("application/json"):
        return Told(reply.status_code)
    document = reply.json()
    inside = [one["error"]["code"] for one in document.get("status", ()) if isinstance(one, dict)]
    return Told(reply.status_code, (*(one["error_number"] for one in document.get("errors", ())), *inside))


@pytest.mark.root
def test_each_request_is_answered_as_by_slurm_or_as_the_page_says(
    rest: LiveRest, people: dict[str, httpx.Client]
) -> None:
    admin = people["admin"]
    held, ended = (admin.post(f"{SLURM}/job/submit", json=described()).json()["job_id"] for _ in range(2))
    assert admin.delete(f"{SLURM}/job/{ended}").status_code == 200
    different = []
    for row in KEPT:
        path = row.path.format(job=held, ended=ended)
        body: dict[str, Any] = {} if row.body is None else {"json": row.body}
        if row.content is not None:
            body = {"content": row.content, "headers": {"Content-Type": "application/json"}}
        if isinstance(row.who, str):
            reply = people[row.who].request(row.method, path, **body)
        else:
            reply = httpx.request(row.method, f"{rest.url}{path}", headers=row.who, timeout=ANSWER_S)
        if told(reply) != (row.ours or row.slurm):
            different.append(f"{row.method} {row.path} {row.who}: {told(reply)}, Slurm {row.slurm}: {reply.text[:300]}")
    for head, slurm, ours, _ in HEADS:
        reply = admin.post(f"{SLURM}/job/submit", content=b'{"job": {}}', headers=head)
        if told(reply) != (ours or slurm):
            different.append(f"{head}: {told(reply)}, Slurm {slurm}: {reply.text[:300]}")
    assert not different, "\n".join(different)


def test_the_page_has_a_sentence_for_each_difference() -> None:
    for why in [row.why for row in KEPT if row.ours is not None] + [
        why for _, _, ours, why in HEADS if ours is not None
    ]:
        assert why and re.sub(r"\s+", " ", why) in re.sub(r"\s+", " ", PAGE), why
    assert all(row.ours != row.slurm for row in KEPT)
