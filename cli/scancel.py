"""scancel: end jobs, or send them a signal.

Jobs are named by id (123, 123_4, 123_[1-5], 123.batch, 123.0) or found by filters, or both: then only the named jobs that
pass the filters are meant. No id and no filter is a mistake, not "everything". The controller does the finding in one
request, so that no job slips through between a listing and a signal; only -i lists first, as a person has to answer.

With ids, each job that could not be signalled is an error line and the status is 1. A job that has ended already is what
was wished: that is no error (-v tells), unless it was to get a signal other than KILL (-Q hides that, too). An explicit
KILL is the same as no signal: it ends the job. A step (12.0) is ended or signalled alone; `12.batch` is the script.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from cli.jobids import component_text, selector_text, wire_id
from cli.options import ACCEPTED, YES, Command, Option, parse
from cli.run import CommandError, complain, need_own_process, run
from cli.users import find_entry
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, JobInfo, JobResult, ListJobsRequest
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.jobid import BATCH_STEP, format_job, parse_selectors
from penstock.values.refusals import TEXT, Code
from penstock.values.signals import parse_signal
from penstock.values.states import parse_job_states

#: More ids than fit a command line as written-out numbers; more is a filter's work.
IDS_MAX = 262_144
SIGKILL = 9


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _user(text: str) -> list[str]:
    entry = find_entry(text)
    if entry is None:
        raise CommandError(f"Invalid user name: {text}")
    return [entry.pw_name]


def _states(text: str) -> list[str]:
    """States as the controller reads them. Any that Slurm has may be said; jobs that have ended are never meant."""
    for word in _words(text):
        try:
            parse_job_states(word)
        except BadValue as error:
            valid = "Valid job states are PENDING, RUNNING, and SUSPENDED"
            raise CommandError(f"Invalid job state specified: {word}\n{valid}", plain=True) from error
    return [word.upper() for word in _words(text)]


def _signal(text: str) -> int:
    try:
        return parse_signal(text)
    except BadValue as error:
        raise CommandError(f"Unknown job signal: {text}", plain=True, detail=str(error)) from error


def _nodes(text: str) -> list[str]:
    expand(text)
    return [text]


def _filter(name: str, short: str, field: str, convert: Callable[[str], object], what: str) -> Option:
    return Option(name, short, YES, f"SCANCEL_{name.upper()}", f"act only on jobs {what}", name, field, convert=convert)


COMMAND = Command(
    "scancel",
    "[OPTIONS...] [job_id[_array_id][.step_id]]...",
    (
        _filter("account", "A", "accounts", _words, "charging this account"),
        Option("batch", "b", env="SCANCEL_BATCH", help="signal batch shell for specified job"),
        Option("ctld", env="SCANCEL_CTLD", help="accepted; signals always go through the controller"),
        Option("full", "f", env="SCANCEL_FULL", help="signal batch shell and all steps for specified job"),
        Option("hurry", "H", env="SCANCEL_HURRY", help="avoid burst buffer stage out"),
        Option("interactive", "i", env="SCANCEL_INTERACTIVE", help="require response from user for each job"),
        Option("me", help="act only on jobs of the calling user"),
        _filter("name", "n", "names", lambda text: [text], "with this name")._replace(metavar="job_name"),
        Option("jobname", "", YES, dest="names", convert=lambda text: [text]),  # an older spelling of --name
        _filter("nodelist", "w", "nodes", _nodes, "on these nodes")._replace(env="", metavar="nodes"),
        _filter("partition", "p", "partitions", _words, "in this partition"),
        _filter("qos", "q", "qos", _words, "with this quality of service"),
        Option("quiet", "Q", help="do not report jobs that have already completed"),
        Option("signal", "s", YES, help="signal to send to job, default is SIGKILL", metavar="name | integer",
               convert=_signal),
        _filter("state", "t", "states", _states, "in this state: PENDING, RUNNING or SUSPENDED"),
        _filter("user", "u", "users", _user, "of this user")._replace(metavar="user_name"),
        Option("verbose", "v", env="SCANCEL_VERBOSE", help="tell about every job", counted=True),
        _filter("reservation", "R", "reservations", _words, "of this reservation"),
        _filter("wckey", "", "wckeys", _words, "with this workload characterisation key"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask, or all", "cluster"),
        Option("cluster", "", YES, dest="clusters"),
        Option("sibling", "", YES, help="accepted", metavar="cluster", standing=ACCEPTED,
               note="there are no sibling jobs: no cluster is a member of a federation"),
        Option("cron", "c", help="act on jobs of crontabs, too, where ScronParameters=explicit_scancel asks for this"),
    ),
)  # fmt: skip

FILTERS = ("users", "partitions", "names", "states", "nodes", "accounts", "qos", "reservations", "wckeys")


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Find out what is meant, ask for it, tell what went wrong."""
    line = parse(COMMAND, argv, os.environ)
    values = line.values
    if values.get("me"):
        values["users"] = _user(str(os.getuid()))
    filters = {name: values[name] for name in FILTERS if values.get(name)}
    whole, batch = _split_ids(line.positional)
    if not (whole or batch or filters):
        raise CommandError("No job identification provided")
    signal = 0 if values.get("signal") == SIGKILL and not _partial(values) else values.get("signal", 0)
    groups = [(whole, bool(values.get("batch")))] if whole or not batch else []
    groups += [(batch, True)] if batch else []
    status = 0
    with Client.open() as client:
        if values.get("clusters"):
            from cli.listing import check_clusters

            check_clusters(values["clusters"], client.cluster.cluster_name)
        for ids, batch_only in groups:
            request = CancelJobsRequest(
                filter=JobFilter(ids=ids, **filters),
                signal=signal,
                batch_only=batch_only,
                full=bool(values.get("full")),
                hurry=bool(values.get("hurry")),
                cron=bool(values.get("cron")),
            )
            status = max(status, _cancel(client, request, values, bool(filters)))
    return status


def _partial(values: dict[str, Any]) -> bool:
    return bool(values.get("batch") or values.get("full"))


def _split_ids(positional: list[str]) -> tuple[list[str], list[str]]:
    """Ids of whole jobs and of steps, and ids of which only the batch script is meant."""
    whole: list[str] = []
    batch: list[str] = []
    for text in positional:
        try:
            selectors = parse_selectors(text)
        except BadValue as error:
            raise CommandError(f"Invalid job id {text[:80]}", detail=str(error)) from error
        for selector in selectors:
            if selector.step_id == BATCH_STEP:
                batch.append(selector_text(selector))
            else:
                whole.append(wire_id(selector))
    if len(whole) + len(batch) > IDS_MAX:
        raise CommandError(f"{len(whole) + len(batch)} job ids given, the limit is {IDS_MAX}")
    return whole, batch


def _cancel(client: Client, request: CancelJobsRequest, values: dict[str, Any], filtered: bool) -> int:
    try:
        if values.get("interactive"):
            chosen = _ask(client, request.filter)
            if chosen is None:
                raise PenstockError(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
            if not chosen:
                return 0
            request.filter.CopyFrom(JobFilter(ids=chosen))
        reply = client.call("CancelJobs", request)
    except PenstockError as error:
        if not request.filter.ids:
            raise
        first, more = request.filter.ids[0], " and others" if len(request.filter.ids) > 1 else ""
        raise PenstockError(
            error.code, f"Kill job error on job id {first}{more}: {error.text}", error.detail
        ) from error
    return max((_report(result, request.signal, values, filtered) for result in reply.results), default=0)


def _report(result: JobResult, signal: int, values: dict[str, Any], filtered: bool) -> int:
    verbose = bool(values.get("verbose"))
    if result.code == 0:
        if verbose:
            what = "step" if "." in result.id else "job"
            deed = f"Signal {signal} to {what}" if signal else f"Terminating {what}"
            complain(COMMAND.name, f"{COMMAND.name}: {deed} {result.id}", plain=True)
        return 0
    harmless = result.code == Code.ALREADY_DONE and (filtered or not signal or values.get("quiet"))
    harmless = harmless or (filtered and result.code == Code.INVALID_JOB_ID)
    if verbose or not harmless:
        what = "Kill job error on job step id" if "." in result.id else "Kill job error on job id"
        complain(COMMAND.name, f"{what} {result.id}: {result.text}")
    return 0 if harmless else 1


def _ask(client: Client, wanted: JobFilter) -> list[str] | None:
    """List the jobs that are meant and let the user choose. None = jobs were named, and there is none of them."""
    need_own_process()
    chosen, found = [], False
    for page in client.stream("ListJobs", ListJobsRequest(filter=wanted)):
        for job in page.jobs:
            found = True
            name = _shown_id(job)
            print(f"Cancel job_id={name} name={job.request.name} partition={job.partition} [y/n]? ", end="", flush=True)  # noqa: T201
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                chosen.append(name)
    return chosen if found or not wanted.ids else None


def _shown_id(job: JobInfo) -> str:
    if job.array_tasks:
        return f"{job.array_job_id}_[{job.array_tasks}]"
    if job.het_job_id:
        return component_text(job)
    return format_job(job.job_id, job.array_job_id, job.array_task_id if job.HasField("array_task_id") else None)


if __name__ == "__main__":
    main()
