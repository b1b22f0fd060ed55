"""Texts of items that are kept for pollers, and JSON as it is sent."""

import json

import pytest
from fakerest import FakeRest

from penstock.v1.controller_pb2 import JobInfo, ListJobsReply
from rest.sending import json_bytes
from rest.texts import KeptTexts

CURRENT, OLD = "/slurm/v0.0.46/jobs", "/slurm/v0.0.43/jobs"
#: Together longer than a list that is made as a whole.
COUNT = 200


def page(changed: int = 0) -> ListJobsReply:
    jobs = [JobInfo(job_id=number, user_name="x" * 400, state="PENDING") for number in range(1, COUNT + 1)]
    if changed:
        jobs[changed - 1].state = "RUNNING"  # another kind of job
    return ListJobsReply(jobs=jobs)


def test_a_job_is_made_again_only_where_its_message_or_the_version_is_another(monkeypatch):
    from rest.handlers import jobs

    made: list[int] = []
    object_of = jobs.object_of

    def counted(one: JobInfo, call):
        made.append(one.job_id)
        return object_of(one, call)

    monkeypatch.setattr(jobs, "object_of", counted)
    rest = FakeRest({"ListJobs": page()})
    first = rest.get(CURRENT).json()
    assert [one["job_id"] for one in first["jobs"]] == list(range(1, COUNT + 1))
    assert made[:2] == [1, 2] and len(made) == 4  # the second one shows what all have: two with marks, and no other
    assert rest.get(CURRENT).json()["jobs"] == first["jobs"] and len(made) == 4
    rest.client.replies["ListJobs"] = page(changed=7)
    again = rest.get(CURRENT).json()["jobs"]
    assert made[4:] == [7] and [one["job_state"] for one in again].count(["RUNNING"]) == 1
    assert again[:6] + again[7:] == first["jobs"][:6] + first["jobs"][7:]
    older = rest.get(OLD).json()["jobs"]
    assert len(made) == 4 + 1 + 5 and older[0].keys() != again[0].keys()


def test_the_least_lately_used_go_first():
    texts = KeptTexts(bytes_max=10)
    made: list[bytes] = []

    def of(form: str, data: bytes) -> bytes:
        return texts.of(form, data, lambda: made.append(data) or b"1234")

    for form, data in (("a", b"x"), ("a", b"y"), ("a", b"x"), ("b", b"x")):  # the last one takes the place of y
        assert of(form, data) == b"1234"
    assert made == [b"x", b"y", b"x"] and texts.size == 8
    of("a", b"x")
    assert len(made) == 3
    of("a", b"y")
    assert made[3:] == [b"y"]


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "é\u2028",
        "\x7f",
        "\x9b2J",
        "\ud8ff",
        'quote " and \\',
        "\n\x00",
        1 << 70,
        0.5,
        None,
        [{"a": True}],
    ],
)
def test_json_has_no_control_characters_and_is_utf8(value):
    data = json_bytes({"value": value})
    assert json.loads(data.decode()) == {"value": value}
    assert data.decode().isprintable()
