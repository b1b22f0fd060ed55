"""Item 9, by the REST daemon: a small body that stands for very much is refused before it is expanded, as by the controller.

The attack: `POST /util/v0.0.46/hostlist` with `n[0-65534]` some thousand times in one body. The path asks the controller nothing,
so that any token, also one that nobody has checked, kept the daemon's loop for minutes. Its relatives: lists of job ids,
node lists of components, and texts of megabytes that are taken apart before the controller could refuse them.
"""

import json
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest

from penstock.v1.accounting_pb2 import ListRecordsReply
from penstock.v1.controller_pb2 import JobResultsReply, SubmitJobReply
from penstock.v1.governance_pb2 import ReportReply
from penstock.values import hostlist
from rest.contract.parse import FLAGS_MAX
from rest.handlers import jobfields
from rest.limits import TEXT_CHARS_MAX
from tests.security.test_31_rest_requests import JOB

SLURM, DB, UTIL = "/slurm/v0.0.46", "/slurmdb/v0.0.46", "/util/v0.0.46"
ALL_NODES = "n[0-65534]"
#: Task ids that touch nowhere, so that they are kept one by one.
TASKS = f"1_[{','.join(map(str, range(0, 9000, 2)))}]"
LONG = "x," * TEXT_CHARS_MAX
COMPONENT = {"name": "b", "current_working_directory": "/tmp"}


def components(*lists: str) -> dict[str, Any]:
    return {"jobs": [JOB, *(COMPONENT | {"required_nodes": [one]} for one in lists)]}


@pytest.mark.parametrize(("path", "body"), [
    (f"{UTIL}/hostlist", {"hostnames": [ALL_NODES] * 2}),
    (f"{UTIL}/hostnames", {"hostlist": ",".join([ALL_NODES] * 2)}),
    (f"{UTIL}/hostnames", {"hostlist": LONG * 40}),
    (f"{SLURM}/jobs/requeue", {"jobs": [TASKS] * 20}),
    (f"{SLURM}/nodes", {"name": [ALL_NODES] * 2, "comment": "x"}),
    (f"{SLURM}/new/node", {"node_conf": f"NodeName=n1 {LONG}"}),
    (f"{SLURM}/job/submit", components(ALL_NODES, "m[0-65534]")),
    (f"{SLURM}/job/allocate", {"hetjob": components(ALL_NODES, "m[0-65534]")["jobs"]}),
    (f"{SLURM}/job/submit", {"job": {**JOB, "licenses": LONG}}),
    (f"{SLURM}/job/submit", {"job": {**JOB, "tres_per_node": LONG}}),
    (f"{SLURM}/job/submit", {"job": {**JOB, "excluded_nodes": ["n1"] * TEXT_CHARS_MAX}}),
    (f"{SLURM}/job/submit", {"job": {**JOB, "flags": ["SPREAD_JOB"] * (FLAGS_MAX + 1)}}),
    (f"{DB}/jobs", {"job_id_list": [TASKS] * 20, "job_rec": {"extra": "x"}}),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_09_what_stands_for_too_much_is_refused_and_asks_nobody(path: str, body: Any) -> None:
    rest = FakeRest()
    reply = rest.request("POST", path, json=body)
    assert reply.status_code == 422, reply.text[:300]
    assert "limit is" in reply.text or "more than" in reply.text or "1_[0,2,4" in reply.text
    assert len(reply.content) < 2000  # what was sent does not come back
    assert rest.calls == []


def test_09_a_signal_of_megabytes_comes_not_back() -> None:
    reply = FakeRest().request("DELETE", f"{SLURM}/jobs", json={"jobs": ["1"], "signal": LONG})
    assert reply.status_code == 422 and len(reply.content) < 2000


def test_09_components_with_the_same_list_expand_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the controller: it is charged once, and written out twice, for the charge and for the option."""
    expanded: list[str] = []
    expand = hostlist.expand

    def noted(text: str, *more: Any) -> list[str]:
        expanded.append(text)
        return expand(text, *more)

    monkeypatch.setattr(hostlist, "expand", noted)
    monkeypatch.setattr(jobfields, "expand", noted)
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=1)})
    body = components(*[ALL_NODES] * 100)
    assert rest.request("POST", f"{SLURM}/job/submit", json=body).status_code == 200
    assert expanded.count(ALL_NODES) <= 2


def test_09_what_a_large_cluster_asks_for_is_carried_out() -> None:
    rest = FakeRest({"ControlJobs": JobResultsReply()})
    reply = rest.request("POST", f"{UTIL}/hostlist", json={"hostnames": [ALL_NODES]})
    assert reply.json()["hostlist"] == ALL_NODES
    ids = [TASKS, *(str(number) for number in range(1, 20_000))]
    content = json.dumps({"jobs": ids}).encode()
    headers = TOKEN | {"Content-Type": "application/json"}
    assert rest.request("POST", f"{SLURM}/jobs/requeue", content=content, headers=headers).status_code == 200


#: An empty answer each, so that only what is made of the query can fail.
EMPTY = {"ListRecords": ListRecordsReply(), "Report": ReportReply()}
FAR = "9" * 18  # as many digits as a number of a query may have


@pytest.mark.parametrize("query", [
    f"{DB}/jobs?start_time={FAR}", f"{DB}/jobs?end_time={FAR}", f"{DB}/jobs?start_time=10000000000000",
    f"/penstock/v1/usage?start={FAR}", f"/penstock/v1/usage?end={FAR}", f"/penstock/v1/usage?start=1&end={FAR}",
])  # fmt: skip
def test_09_a_time_that_no_calendar_has_is_refused(query: str) -> None:
    rest = FakeRest(EMPTY)
    reply = rest.get(query)
    assert reply.status_code == 422 and "cannot be read" in reply.text, reply.text[:300]
    assert rest.calls == []
