"""`sbatch --lint`: runs the rules of cli/lint/lint.py, and asks the controller about the job. Nothing is queued.

The controller checks the request as with --test-only, so that a job that can never run is reported with the reason with
which its submission would be refused; it also lists its reservations. If it does not answer, these checks are skipped
and a line says so.

Statuses: 0 when nothing was found, 1 when something was.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from cli.base.options import Command, OptionValues
from cli.base.run import CommandError, warn
from cli.lint.lint import RULES, LintReservation, crossing, lint
from cli.lint.lintwords import Finding, LintScript, read
from penstock.client import Client
from penstock.errors import PenstockError, Unreachable
from penstock.v1.common_pb2 import JobRequest
from penstock.v1.controller_pb2 import (
    ListPartitionsRequest,
    ListReservationsRequest,
    PartitionInfo,
    SubmitJobReply,
    SubmitJobRequest,
)
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.hostlist import expand

if TYPE_CHECKING:
    from cli.base.document import Json

TIMEOUT_S = 60.0
RULE_NAMES = (*(rule.name for rule in RULES), "refused", "crosses-reservation")


class LintQuestion(NamedTuple):
    """The controller's answer about the job."""

    findings: list[Finding]
    start: SubmitJobReply | None


def run_lint(
    name: str, data: bytes, command: Command, outside: OptionValues,
    request: Callable[[OptionValues], SubmitJobRequest],
) -> int:  # fmt: skip
    """Checks a script and prints the findings. `request` builds the request from the values."""
    script = read(data, command, outside)
    found = lint(script)
    asked = LintQuestion([], None)
    try:
        with Client.open(TIMEOUT_S) as client:
            asked = _lint(client, script, request)
    except PenstockError as error:
        warn(command.name, f"the controller was not asked: {error.text}")
    found = sorted([*found, *asked.findings], key=lambda finding: (finding.line, finding.rule))
    if "json" in outside or "yaml" in outside:
        from cli.base.document import write_document

        write_document(document(name, found, asked.start), outside)
    else:
        print("\n".join(report(name, found, asked.start)))  # noqa: T201
    return 1 if found else 0


def _lint(client: Client, script: LintScript, request: Callable[[OptionValues], SubmitJobRequest]) -> LintQuestion:
    values = script.values()
    found: list[Finding] = []
    start = None
    try:
        wanted = request(values)
        wanted.test_only = True
        start = client.call("SubmitJob", wanted)
    except CommandError as error:
        found.append(Finding(0, "refused", str(error).replace("\n", "; "), ""))
        return LintQuestion(found, None)
    except Unreachable:
        raise
    except PenstockError as error:
        text = f"{error.text}{f': {error.detail}' if error.detail else ''}"
        found.append(Finding(0, "refused", f"sbatch would be refused: {text}", ""))
    try:
        found += _reservations(client, script, wanted.job)
    except Unreachable:
        raise
    except PenstockError:  # they may not see them
        pass
    return LintQuestion(found, start)


def _reservations(client: Client, script: LintScript, job: JobRequest) -> Iterator[Finding]:
    reply = client.call("ListReservations", ListReservationsRequest())
    reserved = [
        LintReservation(r.name, r.start_at_us, r.end_at_us, frozenset(expand(r.node_list))) for r in reply.reservations
    ]
    if not reserved:
        return
    partitions = [
        p for p in client.call("ListPartitions", ListPartitionsRequest()).partitions
        if p.name in job.partitions or (not job.partitions and p.is_default)
    ]  # fmt: skip
    nodes = frozenset(name for p in partitions for text in p.nodes for name in expand(text))
    limit_s = _limit_s(job, partitions)
    now_us = time.time_ns() // 1000
    start_us = max(now_us, job.begin_at_us)
    for one, longest_s in crossing(script.values(), limit_s, nodes, reserved, start_us):
        line = script.line_of("time")
        yield Finding(
            line, "crosses-reservation", _crossing_text(one, limit_s, start_us), _crossing_fix(one, longest_s)
        )


def _limit_s(job: JobRequest, partitions: list[PartitionInfo]) -> int:
    """The job's time limit, or its default."""
    if job.HasField("time_limit_s"):
        return job.time_limit_s
    limits = [p.default_time_s or p.max_time_s for p in partitions]
    return -1 if not limits or any(limit <= 0 for limit in limits) else max(limits)


def _crossing_text(one: LintReservation, limit_s: int, now_us: int) -> str:
    limit = "no time limit" if limit_s < 0 else f"a time limit of {format_duration(limit_s)}"
    when = f"from {format_date(one.start_at_us)}" if one.start_at_us > now_us else "now"
    return (
        f"with {limit} the job runs into reservation {one.name} ({when} until {format_date(one.end_at_us)}), and would "
        "start after it"
    )


def _crossing_fix(one: LintReservation, longest_s: int) -> str:
    if longest_s < 60:
        return f"wait, or ask for it: --reservation={one.name}"
    return f"--time={format_duration(longest_s // 60 * 60)} or less starts before it"


def report(name: str, found: list[Finding], start: SubmitJobReply | None) -> Iterator[str]:
    """The report as text."""
    for finding in found:
        place = f"{name}:{finding.line}" if finding.line else name
        yield f"{place}: {finding.rule}: {finding.text}"
        if finding.fix:
            yield f"    {finding.fix}"
    if start is not None and start.start_at_us:
        where = f"{start.cpus} processors on nodes {start.node_list} in partition {start.partition}"
        yield f"{name}: it would start at {format_date(start.start_at_us)} using {where}"
    count = "nothing found" if not found else "1 finding" if len(found) == 1 else f"{len(found)} findings"
    yield f"{name}: {count}, nothing was queued"


def document(name: str, found: list[Finding], start: SubmitJobReply | None) -> "Json":
    """The report as a document."""
    expected = None
    if start is not None and start.start_at_us:
        expected = {
            "time": start.start_at_us // 1_000_000, "cpus": start.cpus, "nodes": start.node_list,
            "partition": start.partition,
        }  # fmt: skip
    return {"script": name, "findings": [finding._asdict() for finding in found], "start": expected}
