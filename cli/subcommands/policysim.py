"""penstock policy plan: replays the jobs of the last days and the live queue under the current policy and the new one.
The jobs come from the accounting records, the accounts as changes from an empty tree, the machine from the controller's
configuration; the simulator (sim/policyplay.py) runs as its own process, since commands do not import it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

# Any: members of a document of JSON
from typing import Any, Final

from cli.accounts.policydiff import Difference, name_of
from cli.accounts.policyreplay import replay_document, replayed
from cli.accounts.policystate import cluster_policy
from cli.base.format import TableColumn, TableStyle, table_lines
from cli.base.listing import list_records, now_us
from cli.base.run import CommandError
from penstock.client import Client
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.controller_pb2 import RenderConfigRequest
from penstock.v1.governance_pb2 import Change
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int

#: The most jobs: a replay of this many takes some minutes.
JOBS_MAX: Final = 100_000
DAYS_MAX: Final = 366
_US: Final = 1_000_000
_DAY_S: Final = 86_400

_Json = dict[str, Any]
#: A column of accounts, with the waiting times before and after.
_TableColumn = TableColumn[str, tuple[_Json, _Json]]


def days_of(text: str | None, default: int) -> int:
    """--days."""
    if text is None:
        return default
    try:
        return parse_int(text, 0, DAYS_MAX, "--days")
    except BadValue as error:
        raise CommandError(str(error)) from None


def compare(client: Client, changes: list[Change], days: int) -> _Json:
    """Runs sim/policyplay.py; returns its answer."""
    conf = client.call("RenderConfig", RenderConfigRequest()).text
    jobs = list(_jobs(client, days))
    if len(jobs) > JOBS_MAX:
        raise CommandError(f"more than {JOBS_MAX} jobs in {days} days: replay fewer with --days")
    document = replay_document(conf, jobs, cluster_policy(client), changes)
    command = [sys.executable, "-m", "sim", "policy"]
    done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise CommandError(f"the replay failed: {last[0]} (--days=0 plans without it)")
    answer: _Json = json.loads(done.stdout)
    return answer


def _jobs(client: Client, days: int) -> Iterator[_Json]:
    """The jobs submitted in that time or in the queue now."""
    now = now_us()
    since_us = now - days * _DAY_S * _US
    request = ListRecordsRequest(start_at_us=since_us, no_steps=True)
    for record in list_records(client, request):
        yield from replayed(record, since_us, JOBS_MAX + 1)


# ---- words -------------------------------------------------------------------------------------------------------


def table(effect: _Json, days: int) -> list[str]:
    """Waiting times by account, before and after."""
    before, after = effect["before"], effect["after"]
    names = sorted({*before, *after})
    if not names:
        return [f"No jobs in the last {days} days: nothing to replay."]
    columns: list[_TableColumn] = [
        TableColumn("Account", 16, lambda name, view: name),
        *map(_column, _COLUMNS),
    ]
    total = sum(one["jobs"] for one in before.values())
    heading = f"Replay of the last {days} days ({total} jobs): waiting times under the current policy and the new one"
    return ["", heading, *table_lines(columns, names, (before, after), TableStyle("", False, True))]


#: Heading, width, before or after, figure.
_COLUMNS = (
    ("Jobs", 8, 0, "jobs"), ("Mean", 12, 0, "mean_s"), ("-> Mean", 12, 1, "mean_s"), ("Median", 12, 0, "median_s"),
    ("-> Median", 12, 1, "median_s"), ("95 %", 12, 0, "p95_s"), ("-> 95 %", 12, 1, "p95_s"), ("Refused", 8, 0, "refused"),
    ("-> Refused", 10, 1, "refused"), ("Waiting", 8, 0, "waiting"), ("-> Waiting", 10, 1, "waiting"),
)  # fmt: skip


def _column(row: tuple[str, int, int, str]) -> _TableColumn:
    heading, width, which, figure = row

    def value(name: str, view: tuple[_Json, _Json]) -> str:
        found = view[which].get(name, {}).get(figure)
        if found is None:
            return "-"
        return format_duration(found) if figure.endswith("_s") else str(found)

    return TableColumn(heading, width, value)


def document(found: Difference, effect: _Json | None) -> _Json:
    """The plan as a document."""
    steps = [
        {
            "sign": step.sign,
            "what": name_of(step.key),
            "changes": {k: list(pair) for k, pair in step.differences.items()},
        }
        for step in found.steps
    ]
    return {"steps": steps, "not_in_the_file": [name_of(k) for k in found.unnamed], "waits": effect}
