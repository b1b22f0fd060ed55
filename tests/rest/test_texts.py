"""Texts of items that are kept for pollers, and JSON as it is sent."""

import json

import pytest
import yaml
from fakerest import TOKEN, FakeRest

from cli.listings.jsonnode import node_object
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply, ListNodesReply, NodeInfo
from rest.limits import SLICE_ITEMS
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


@pytest.mark.parametrize("count", [SLICE_ITEMS, 2 * SLICE_ITEMS + 1])
def test_a_node_is_made_again_only_where_its_message_or_the_version_is_another(count, monkeypatch):
    """Of a list of more than some nodes; what is answered is the same, also as YAML."""
    made: list[str] = []

    def noted(node, cluster):
        made.append(node.name)
        return node_object(node, cluster)

    monkeypatch.setattr("rest.handlers.cluster.node_object", noted)
    reply = ListNodesReply(nodes=[NodeInfo(name=f"n{number}", cpus=4) for number in range(count)])
    rest = FakeRest({"ListNodes": reply})
    first = rest.get("/slurm/v0.0.46/nodes")
    assert [one["name"] for one in first.json()["nodes"]] == made == [one.name for one in reply.nodes]
    assert first.json()["last_update"]["number"] > 0 and "etag" in first.headers
    is_kept = count > SLICE_ITEMS
    made.clear()
    again = rest.get("/slurm/v0.0.46/nodes")
    assert again.json()["nodes"] == first.json()["nodes"] and bool(made) != is_kept
    reply.nodes[3].cpus = 8
    made.clear()
    changed = rest.get("/slurm/v0.0.46/nodes").json()["nodes"]
    assert (changed[3]["cpus"], changed[4]) == (8, first.json()["nodes"][4])
    assert made == (["n3"] if is_kept else [one.name for one in reply.nodes])
    made.clear()
    assert len(rest.get("/slurm/v0.0.43/nodes").json()["nodes"]) == len(made) == count
    text = rest.get("/slurm/v0.0.46/nodes", headers=TOKEN | {"Accept": "application/yaml"}).text
    assert yaml.safe_load(text)["nodes"] == changed and text.startswith("---")


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
