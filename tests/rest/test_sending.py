"""Entity tags, compression, and long lists as streams, in process."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest

from penstock.errors import Unreachable
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply
from penstock.v1.controller_pb2 import (
    GpuReadingInfo,
    JobInfo,
    JobResultsReply,
    ListGpuReadingsReply,
    ListJobsReply,
    ListNodesReply,
    ListPartitionsReply,
    ListReservationsReply,
    NodeInfo,
    PartitionInfo,
    PingReply,
    ReservationInfo,
)
from penstock.v1.governance_pb2 import ReportReply, ReportRow
from rest.limits import HELD_BYTES_MAX, TAG_BYTES_MAX
from rest.sending import takes_gzip

CURRENT = "/slurm/v0.0.46"
NODES = {"ListNodes": ListNodesReply(nodes=[NodeInfo(name=f"n{number}") for number in range(20)])}
#: A job of some 100,000 bytes on the wire.
JOB_TEXT = "x" * 100_000


def tagged(rest: FakeRest, path: str, tag: str = "", **headers: str) -> Any:
    more = {"If-None-Match": tag} if tag else {}
    return rest.get(path, headers=TOKEN | more | headers)


# ---- entity tags


def test_what_a_caller_has_is_not_sent_again():
    rest, other = FakeRest(NODES), FakeRest(NODES)
    first = tagged(rest, f"{CURRENT}/nodes")
    tag = first.headers["etag"]
    assert first.status_code == 200 and tag.startswith('W/"') and "private" in first.headers["cache-control"]
    for one in (rest, other):  # of any daemon
        for header in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
            again = tagged(one, f"{CURRENT}/nodes", header)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert tagged(rest, f"{CURRENT}/nodes", '"x"').status_code == 200
    rest.client.replies["ListNodes"] = ListNodesReply(nodes=[NodeInfo(name="n0", reason="cable")])
    changed = tagged(rest, f"{CURRENT}/nodes", tag)
    assert changed.status_code == 200 and changed.headers["etag"] != tag


def test_each_request_has_its_own_tag():
    rest = FakeRest(NODES)
    tags = {
        tagged(rest, path, Accept=accept).headers["etag"]
        for path in (f"{CURRENT}/nodes", "/slurm/v0.0.43/nodes", f"{CURRENT}/node/n1", f"{CURRENT}/nodes?update_time=1")
        for accept in ("application/json", "application/yaml")
    }
    assert len(tags) == 8


def test_no_tag_for_what_is_refused_or_changes_something():
    rest = FakeRest({"ControlJobs": JobResultsReply(), "Ping": Unreachable()})
    for path in (f"{CURRENT}/job/1/requeue", f"{CURRENT}/ping", f"{CURRENT}/job/x"):
        reply = tagged(rest, path, "*")
        assert reply.status_code != 304 and "etag" not in reply.headers
    assert [one[0] for one in rest.calls] == ["ControlJobs", "Ping"]
    assert "etag" not in rest.post(f"{CURRENT}/jobs/requeue", {"jobs": ["1"]}).headers


def test_a_poller_costs_no_items(monkeypatch):
    """The tag is known before any job is made."""
    rest = FakeRest({"ListJobs": ListJobsReply(jobs=[JobInfo(job_id=1)])})
    tag = tagged(rest, f"{CURRENT}/jobs").headers["etag"]
    monkeypatch.setattr("rest.handlers.jobs.object_of", None)
    assert tagged(rest, f"{CURRENT}/jobs", tag).status_code == 304


class Moments:
    """A controller that knows the moments of its answers, by the proof of who asks: each sees a job of its own."""

    def __init__(self, pages: int = 1, text: str = "") -> None:
        self.moment = b"one"
        self.listed = 0  # lists that were made
        self.ended = 0  # answers without a list that were read to their ends
        self.seen: list[bytes] = []
        self._pages = [ListJobsReply(jobs=[JobInfo(job_id=1, reason_detail=text)])] * pages
        self.rest = FakeRest()
        self.rest.client.follow = self.follow  # type: ignore[method-assign]  # pages of this test

    async def follow(
        self, method: str, request: Any, timeout_s: float | None = None, *, proof: Any = None, read_as: Any = None
    ) -> AsyncIterator[Any]:
        self.seen.append(request.known)
        moment = self.moment + repr(proof).encode()
        yield ListJobsReply(moment=moment, unchanged=request.known == moment)
        if request.known == moment:
            self.ended += 1
            return
        self.listed += 1
        for page in self._pages:
            yield page
        yield ListJobsReply(jobs=[JobInfo(job_id=2, user_name=repr(proof))])


def test_an_unchanged_list_of_jobs_is_not_made():
    """The controller is asked whether it is, for each caller."""
    there = Moments()
    tag = tagged(there.rest, f"{CURRENT}/jobs").headers["etag"]
    for header in (tag, f'"x", {tag}'):
        again = tagged(there.rest, f"{CURRENT}/jobs", header)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert there.listed == 1
    assert there.ended == 2  # a connection whose answer is left before its end is closed
    other = {"X-SLURM-USER-TOKEN": "d.e.f", "If-None-Match": tag}
    stranger = there.rest.get(f"{CURRENT}/jobs", headers=other)  # the tag of what another one may see
    assert stranger.status_code == 200 and stranger.headers["etag"] != tag and there.listed == 2
    for path in ("/slurm/v0.0.45/jobs", f"{CURRENT}/jobs?update_time=1", f"{CURRENT}/jobs/state"):  # other questions
        assert tagged(there.rest, path, tag).status_code == 200
        assert there.seen[-1] == b""
    there.moment = b"two"  # something was committed that is in no answer: the tag is still the same
    listed = there.listed
    for lists in (1, 1):
        assert tagged(there.rest, f"{CURRENT}/jobs", tag).status_code == 304
        assert there.listed == listed + lists


@pytest.mark.parametrize("path", ["jobs?first=0&count=2", "queue", "forecast?order=name"])
def test_an_unchanged_window_or_count_is_not_made(path: str):
    there = Moments()
    tag = tagged(there.rest, f"/penstock/v1/{path}").headers["etag"]
    assert tagged(there.rest, f"/penstock/v1/{path}", tag).status_code == 304 and there.listed == 1
    there.moment = b"two"
    assert tagged(there.rest, f"/penstock/v1/{path}", tag).status_code == 304 and there.listed == 2


class PolledPlaces:
    """A controller that knows the moments of nodes, partitions and reservations."""

    def __init__(self, moment: bytes = b"one") -> None:
        self.moment = moment
        self.listed = 0
        self.rest = FakeRest({
            "ListNodes": lambda request: self.answer(request, ListNodesReply(nodes=[NodeInfo(name="n1")])),
            "ListGpuReadings": lambda request: self.answer(request, ListGpuReadingsReply(readings=[GpuReadingInfo(node="n1")])),
            "ListPartitions": lambda request: self.answer(request, ListPartitionsReply(partitions=[PartitionInfo(name="p")])),
            "ListReservations": lambda request: self.answer(request, ListReservationsReply(reservations=[ReservationInfo(name="r")])),
        })  # fmt: skip

    def answer(self, request: Any, reply: Any) -> Any:
        assert request.HasField("known")
        reply.moment = self.moment
        if self.moment and request.known == self.moment:
            return type(reply)(moment=self.moment, unchanged=True)
        self.listed += 1
        return reply


@pytest.mark.parametrize(
    "path",
    [f"{CURRENT}/{path}" for path in ("nodes", "node/n1", "partitions", "partition/p", "reservations", "reservation/r")]
    + ["/penstock/v1/gpus", "/penstock/v1/gpus/readings"],
)
def test_an_unchanged_list_of_places_is_not_made(path: str):
    there, elsewhere, older = PolledPlaces(), PolledPlaces(b"other"), PolledPlaces(b"")
    tag = tagged(there.rest, path).headers["etag"]
    for _ in range(2):
        again = tagged(there.rest, path, tag)
        assert (again.status_code, again.content, again.headers["etag"], there.listed) == (304, b"", tag, 1)
    assert tagged(there.rest, path, '"x"').status_code == 200 and there.listed == 2
    there.moment = b"two"  # what has changed is not in the answer
    assert tagged(there.rest, path, tag).status_code == 304 and there.listed == 3
    assert tagged(there.rest, path, tag).status_code == 304 and there.listed == 3
    for other in (elsewhere, older):  # the tag is of no daemon and no controller; an older one knows no moments
        assert [tagged(other.rest, path, tag).status_code for _ in range(2)] == [304, 304]
    assert (elsewhere.listed, older.listed) == (1, 2)


def test_a_list_without_an_end_in_sight_has_the_tag_of_its_moment():
    there, elsewhere = Moments(60, JOB_TEXT), Moments(60, JOB_TEXT)
    first = tagged(there.rest, f"{CURRENT}/jobs")
    tag = first.headers["etag"]
    assert len(first.json()["jobs"]) == 61 and there.listed == 1
    assert tagged(there.rest, f"{CURRENT}/jobs", tag).status_code == 304
    assert tagged(elsewhere.rest, f"{CURRENT}/jobs", tag).status_code == 304  # another daemon
    assert (there.listed, elsewhere.listed) == (1, 0)
    there.moment = b"two"
    changed = tagged(there.rest, f"{CURRENT}/jobs", tag)
    assert changed.status_code == 200 and changed.headers["etag"] != tag


def test_jobs_that_run_have_a_new_tag_each_second(monkeypatch):
    """Their elapsed time is in the answer."""
    ended, runs = JobRecord(job_id=1, end_at_us=5), JobRecord(job_id=2)
    for record, same in ((ended, True), (runs, False)):
        rest = FakeRest({"ListRecords": ListRecordsReply(records=[record])})
        tags = []
        for at_s in (100, 100, 200):
            monkeypatch.setattr("rest.app.now_us", lambda at_s=at_s: at_s * 1_000_000)
            tags.append(tagged(rest, "/slurmdb/v0.0.46/job/1").headers["etag"])
        first, again, later = tags
        assert first == again and (first == later) is same


# ---- gzip


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True), ("GZIP;q=0.5, br", True), ("*", True), ("identity, *;q=0", False), ("gzip;q=0", False),
        ("gzip; q=0.0", False), ("br", False), ("", False),
    ],
)  # fmt: skip
def test_who_takes_gzip(header, taken):
    assert takes_gzip(header) is taken
    reply = tagged(FakeRest(NODES), f"{CURRENT}/nodes", **{"Accept-Encoding": header})
    assert (reply.headers.get("content-encoding") == "gzip") is taken
    assert len(reply.json()["nodes"]) == 20 and "Accept-Encoding" in reply.headers["vary"]


def test_a_short_answer_is_not_compressed():
    reply = tagged(FakeRest({"Ping": PingReply()}), "/util/v0.0.46/nothing", **{"Accept-Encoding": "gzip"})
    assert "content-encoding" not in reply.headers


# ---- long lists


def jobs_page(first: int, count: int) -> ListJobsReply:
    return ListJobsReply(jobs=[JobInfo(job_id=first + job + 1, reason_detail=JOB_TEXT) for job in range(count)])


def usage_page(first: int, count: int) -> ReportReply:
    rows = [ReportRow(keys=[f"{JOB_TEXT}{first + row}"]) for row in range(count)]
    return ReportReply(rows=rows, rolled_up_to_us=0 if first else 7)


class Pages:
    """The controller's pages, and how many were taken when each part of the answer was sent."""

    def __init__(
        self, pages: int, jobs: int, error_after: int = -1, gone_after: int = 10**9, make: Any = jobs_page,
        moment: bytes = b"",
    ) -> None:  # fmt: skip
        self.gone_after = gone_after
        self._moment = moment
        self._make = make
        self.taken = 0
        self.sent: list[tuple[int, bytes]] = []
        self.has_ended = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self._pages, self._jobs, self._error_after = pages, jobs, error_after

    async def follow(
        self, method: str, request: Any, timeout_s: float | None = None, *, proof: Any = None, read_as: Any = None
    ) -> AsyncIterator[Any]:
        if self._moment:
            yield ListJobsReply(moment=self._moment)
        for page in range(self._pages):
            if page == self._error_after:
                raise Unreachable
            self.taken += 1
            yield self._make(page * self._jobs, self._jobs)

    def get(self, path: str, **headers: str) -> "Pages":
        rest = FakeRest()
        rest.client.follow = self.follow  # type: ignore[method-assign]  # pages of this test

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], dict(message["headers"])
            else:
                self.sent.append((self.taken, message["body"]))
                self.has_ended = not message.get("more_body", False)

        waiting = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            for message in waiting:
                return message
            while len(self.sent) < self.gone_after:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        said = [(name.lower().encode(), text.encode()) for name, text in (TOKEN | headers).items()]
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": said, "client": None,
                 "root_path": "", "http_version": "1.1", "scheme": "http", "server": None}  # fmt: skip
        asyncio.run(rest.transport.app(scope, receive, send))  # type: ignore[arg-type]  # httpx and Starlette type scopes differently
        return self

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.sent)


def test_a_long_list_is_made_while_it_is_sent():
    """Beyond what is held, each part of the answer has been sent before the next page is taken."""
    pages = Pages(100, 1).get(f"{CURRENT}/jobs")
    assert pages.status == 200 and pages.has_ended and b"content-length" not in pages.headers
    held = HELD_BYTES_MAX // len(JOB_TEXT) + 1
    taken = [count for count, _ in pages.sent]
    assert taken == [held] * (held + 1) + list(range(held + 1, 101)) + [100, 100]
    assert b"etag" not in pages.headers
    found = json.loads(pages.body)
    assert [one["job_id"] for one in found["jobs"]] == list(range(1, 101))
    assert found["errors"] == [] and found["meta"]["plugin"]["data_parser"] == "data_parser/v0.0.46"


def test_the_first_part_of_a_long_list_leaves_early():
    """With a moment: its tag needs no more of the list."""
    pages = Pages(40, 1, moment=b"one").get(f"{CURRENT}/jobs")
    held = TAG_BYTES_MAX // len(JOB_TEXT) + 1
    assert [count for count, _ in pages.sent][: held + 2] == [held] * (held + 1) + [held + 1]
    assert pages.has_ended and b"etag" in pages.headers and len(json.loads(pages.body)["jobs"]) == 40
    short = Pages(held - 1, 1, moment=b"one").get(f"{CURRENT}/jobs")  # a tag of what is in it
    other = Pages(held - 1, 1, moment=b"two").get(f"{CURRENT}/jobs")
    assert short.headers[b"etag"] == other.headers[b"etag"] != pages.headers[b"etag"]


def test_usage_is_made_while_it_is_sent():
    pages = Pages(100, 1, make=usage_page).get("/penstock/v1/usage")
    assert pages.status == 200 and pages.has_ended and pages.taken == 100
    assert min(taken for taken, _ in pages.sent) <= HELD_BYTES_MAX // len(JOB_TEXT) + 1
    found = json.loads(pages.body)
    assert len(found["rows"]) == 100 and found["rolled_up_to_us"] == 7 and found["start_at_us"] < found["end_at_us"]


def test_a_list_in_pages_is_the_one_as_a_whole():
    streamed = Pages(4, 1).get(f"{CURRENT}/jobs")
    jobs = [JobInfo(job_id=number, reason_detail=JOB_TEXT) for number in range(1, 5)]
    plain = FakeRest({"ListJobs": ListJobsReply(jobs=jobs[:1])}).get(f"{CURRENT}/jobs").json()
    found = json.loads(streamed.body)
    assert len(found["jobs"]) == 4 and found["jobs"][:1] == plain["jobs"] and found.keys() == plain.keys()
    tag = streamed.headers[b"etag"].decode()
    unchanged = Pages(4, 1).get(f"{CURRENT}/jobs", **{"If-None-Match": tag})
    assert (unchanged.status, unchanged.body) == (304, b"")
    packed = Pages(4, 1).get(f"{CURRENT}/jobs", **{"Accept-Encoding": "gzip"})
    assert (
        json.loads(gzip.decompress(packed.body))["jobs"] == found["jobs"] and len(packed.body) < len(streamed.body) / 5
    )
    written = Pages(4, 1).get(f"{CURRENT}/jobs", Accept="application/yaml")
    assert written.headers[b"content-type"].startswith(b"application/yaml")
    assert json.loads(written.body)["jobs"] == found["jobs"]  # which is YAML, too


def test_a_list_that_ends_early_has_no_end(caplog):
    pages = Pages(100, 1, error_after=60).get(f"{CURRENT}/jobs")
    assert (
        pages.status == 200 and not pages.has_ended and "ends early" in caplog.text and "Traceback" not in caplog.text
    )
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(pages.body)
    packed = Pages(100, 1, error_after=60).get(f"{CURRENT}/jobs", **{"Accept-Encoding": "gzip"})
    assert not packed.has_ended
    with pytest.raises(EOFError):
        gzip.decompress(packed.body)
    at_once = Pages(100, 1, error_after=0).get(f"{CURRENT}/jobs")
    assert (at_once.status, at_once.has_ended) == (503, True)


def test_nothing_more_is_made_for_a_caller_who_is_gone():
    pages = Pages(100, 1, gone_after=60).get(f"{CURRENT}/jobs")
    assert not pages.has_ended and 60 <= len(pages.sent) <= 62 and pages.taken <= 62
