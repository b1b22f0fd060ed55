"""The document that the simulator replays a change of policy from (sim/policyplay.py): the cluster's accounts as changes from an
empty tree, the changes of a plan, and the jobs of the last days. Pure.
"""

from collections.abc import Iterator

from cli.accounts.policydiff import difference
from cli.accounts.policyfile import Policy
from cli.base.document import Json
from penstock.v1.accounting_pb2 import JobRecord
from penstock.v1.governance_pb2 import Change
from penstock.values.taskset import TaskSet
from penstock.values.tres import parse_tres

_US = 1_000_000
_DAY_S = 86_400


def replay_document(conf: str, jobs: list[Json], present: Policy, changes: list[Change]) -> Json:
    """The document. `conf`: the configuration in force."""
    accounts = difference(Policy({("qos", "normal"): {}}, {}), present).changes()
    return {"conf": conf, "jobs": jobs, "present": list(map(_plain, accounts)), "changes": list(map(_plain, changes))}


def _plain(change: Change) -> Json:
    """A message as a dict for the simulator."""
    one = getattr(change, str(change.WhichOneof("what")))
    found: Json = {"action": int(one.action), "names": list(one.names), "changes": dict(one.changes)}
    if change.WhichOneof("what") == "accounts":
        found["entity"] = one.entity
        found |= {name: list(getattr(one, name)) for name in ("accounts", "partitions", "users")}
    return found


def replayed(record: JobRecord, since_us: int, most: int) -> Iterator[Json]:
    """The jobs of a record that was submitted since then, or is in the queue now: each pending task of an array is one, of
    which there are at most so many."""
    if record.submit_at_us < since_us and record.end_at_us:
        return
    asked = parse_tres(record.tres_alloc or record.tres_req)
    limit_s = record.time_limit_s
    if record.start_at_us and record.end_at_us:
        run_s = (record.end_at_us - record.start_at_us) // _US
    else:
        run_s = limit_s if limit_s > 0 else _DAY_S
    found = {
        "user": record.user_name, "account": record.request.account or "root", "partition": record.partition,
        "qos": record.request.qos, "submit_s": max(record.submit_at_us, since_us) // _US, "run_s": max(0, run_s),
        "limit_s": limit_s, "procs": max(1, record.cpus_alloc or record.cpus_req),
        "nodes": record.nodes_alloc or record.nodes_req, "gpus": asked.get("gres/gpu", 0), "mem_mb": asked.get("mem", 0),
    }  # fmt: skip
    waiting = len(TaskSet.parse(record.array_tasks)) if record.array_tasks else 1
    if record.end_at_us and not record.start_at_us:
        return  # cancelled before it began
    for _ in range(min(waiting, most)):
        yield found
