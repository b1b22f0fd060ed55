"""scancel: ends jobs, or sends them a signal.

Jobs are named by id (123, 123_4, 123_[1-5], 123.batch, 123.0) or found by filters, or both: then only the named jobs
that pass the filters are selected. No id and no filter is an error, not "everything". The controller selects in one
request, so that no job is missed between a listing and a signal; only -i lists first, since the user has to answer.

With ids, each job that could not be signalled is an error line and the status is 1. A job that has ended already is not
an error (-v reports it), unless it was to get a signal other than KILL (-Q hides that, too). An explicit KILL is the
same as no signal: it ends the job. A step (12.0) is ended or signalled alone; `12.batch` is the script.
"""

import os
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from cli.base.jobids import component_text, selector_text, wire_id
from cli.base.options import ACCEPTED, YES, Command, Option, OptionValues, parse
from cli.base.output import rows_text
from cli.base.run import CommandError, complain, need_own_process, run
from cli.base.users import find_entry
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, JobInfo, JobResult, ListJobsRequest
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.jobid import BATCH_STEP, format_job, parse_selectors
from penstock.values.refusals import TEXT, Code
from penstock.values.signals import parse_signal
from penstock.values.states import parse_job_states

#: The most ids, more than fit a command line when written out; for more use a filter.
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
    """States as the controller reads them. All of Slurm's states are accepted; ended jobs are never selected."""
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
    "[OPTIONS] [job_id[_array_id][.step_id]]",
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
        Option("verbose", "v", env="SCANCEL_VERBOSE", help="show every job", counted=True),
        _filter("reservation", "R", "reservations", _words, "of this reservation"),
        _filter("wckey", "", "wckeys", _words, "with this workload characterisation key"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "clusters to issue commands to, or all", "cluster"),
        Option("cluster", "", YES, dest="clusters"),
        Option("sibling", "", YES, help="accepted", metavar="cluster", status=ACCEPTED,
               note="there are no sibling jobs: no cluster is a member of a federation"),
        Option("cron", "c", help="act on jobs of crontabs, too, where ScronParameters=explicit_scancel requires it"),
    ),
)  # fmt: skip

FILTERS = ("users", "partitions", "names", "states", "nodes", "accounts", "qos", "reservations", "wckeys")


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Resolves the jobs, sends the request, reports failures."""
    line = parse(COMMAND, argv, os.environ)
    values = line.values
    if values.flag("me"):
        values["users"] = _user(str(os.getuid()))
    filters = {name: values.each(str, name) for name in FILTERS if values.flag(name)}
    whole, batch = _split_ids(line.positional)
    if not (whole or batch or filters):
        raise CommandError("No job identification provided")
    signal = 0 if values.number("signal") == SIGKILL and not _partial(values) else values.number("signal")
    groups = [(whole, values.flag("batch"))] if whole or not batch else []
    groups += [(batch, True)] if batch else []
    if values.number("verbose") > 2:
        _report_options(values, [*whole, *batch])
    requests = [
        CancelJobsRequest(
            filter=JobFilter(ids=ids, **filters),
            signal=signal,
            batch_only=batch_only,
            full=values.flag("full"),
            hurry=values.flag("hurry"),
            cron=values.flag("cron"),
        )
        for ids, batch_only in groups
    ]
    with Client.open() as client:
        if not values.text("clusters"):
            return _cancel_all(client, requests, values, bool(filters))
        from cli.base.clusters import in_turn, named_clusters

        found = named_clusters(COMMAND.name, values.text("clusters"), client.cluster)
        if found == [client.cluster]:
            return _cancel_all(client, requests, values, bool(filters))
    return in_turn(COMMAND.name, found, lambda one, number: _cancel_all(one, requests, values, bool(filters)))


def _cancel_all(client: Client, requests: list[CancelJobsRequest], values: OptionValues, filtered: bool) -> int:
    return max([_cancel(client, request, values, filtered) for request in requests], default=0)


def _partial(values: OptionValues) -> bool:
    return values.flag("batch") or values.flag("full")


def _split_ids(positional: list[str]) -> tuple[list[str], list[str]]:
    """Ids of whole jobs and of steps, and ids of jobs whose batch script alone is selected."""
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


def _cancel(client: Client, request: CancelJobsRequest, values: OptionValues, filtered: bool) -> int:
    try:
        if values.flag("interactive"):
            chosen = _choose(client, request.filter)
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
    if filtered and values.flag("verbose") and not any(result.code == 0 for result in reply.results):
        _report_no_match(values)
    return max((_report(result, request.signal, values, filtered) for result in reply.results), default=0)


def _report(result: JobResult, signal: int, values: OptionValues, filtered: bool) -> int:
    verbose = values.flag("verbose")
    if result.code == 0:
        if verbose:
            complain(COMMAND.name, f"{COMMAND.name}: {_described_action(result, signal)}", plain=True)
        return 0
    if verbose and not filtered:
        complain(COMMAND.name, f"{COMMAND.name}: {_described_action(result, signal)}", plain=True)
    harmless = result.code == Code.ALREADY_DONE and (filtered or not signal or values.flag("quiet"))
    harmless = harmless or (filtered and result.code == Code.INVALID_JOB_ID)
    if verbose or not harmless:
        what = "Kill job error on job step id" if "." in result.id else "Kill job error on job id"
        complain(COMMAND.name, f"{what} {result.id}: {result.text}")
    return 0 if harmless else 1


def _described_action(result: JobResult, signal: int) -> str:
    """What -v says of a job or step."""
    what = "step" if "." in result.id else "job"
    return f"Signal {signal} to {what} {result.id}" if signal else f"Terminating {what} {result.id}"


#: The filters in the order in which Slurm names them.
_FILTER_WORDS = {
    "accounts": "account", "names": "job_name", "nodes": "nodelist", "partitions": "partition", "qos": "qos",
    "reservations": "reservation", "states": "state", "users": "user_name", "wckeys": "wckey",
}  # fmt: skip


def _report_no_match(values: OptionValues) -> None:
    """With -v: no job passes the filters, which is no error."""
    said = (
        f"{word}={','.join(_shown_values(key, values.each(str, key)))} "
        for key, word in _FILTER_WORDS.items()
        if values.flag(key)
    )
    complain(COMMAND.name, f"No active jobs match ALL job filters, including: {''.join(said)}")


def _shown_values(key: str, named: Iterable[str]) -> Iterable[str]:
    return sorted(state.name for one in named for state in parse_job_states(one)[0]) if key == "states" else named


def _report_options(values: OptionValues, ids: list[str]) -> None:
    """With -vvv: the options in force."""
    shown = {
        "account": _first(values, "accounts"),
        **{name: str(values.flag(name)).lower() for name in ("batch", "ctld", "full", "hurry", "interactive")},
        "job_name": _first(values, "names"),
        "nodelist": _first(values, "nodes"),
        **{name: _first(values, f"{name}s" if name != "qos" else name) for name in ("partition", "qos", "reservation")},
        "sibling": values.text("sibling") or "(null)",
        "state": _first(values, "states"),
        "user_id": str(os.getuid()),
        "user_name": _first(values, "users"),
        "verbose": str(values.number("verbose")),
        "wckey": _first(values, "wckeys"),
        **{f"job_id[{number}]": one for number, one in enumerate(ids)},
    }
    for name, value in shown.items():
        complain(COMMAND.name, f"{COMMAND.name}: {name:<15}: {value}", plain=True)


def _first(values: OptionValues, key: str) -> str:
    return ",".join(values.each(str, key) or ("(null)",))


def _choose(client: Client, wanted: JobFilter) -> list[str] | None:
    """Lists the selected jobs and lets the user choose. None = none of the named jobs exists."""
    need_own_process()
    steps = [text for text in wanted.ids if "." in text]
    chosen, found = [], False
    for page in client.stream("ListJobs", ListJobsRequest(filter=wanted)):
        for job in page.jobs:
            found = True
            name = _shown_id(job)
            of_job = [text for text in steps if text.partition(".")[0] in (name, str(job.job_id))]
            whole = [] if of_job and len(steps) == len(wanted.ids) else [name]
            for what, one in (*(("job_id", one) for one in whole), *(("step_id", one) for one in of_job)):
                about = rows_text([f"Cancel {what}={one} name={job.request.name} partition={job.partition} [y/n]? "])
                print(about, end="", flush=True)  # noqa: T201
                if sys.stdin.readline().strip().lower() in ("y", "yes"):
                    chosen.append(one)
    return chosen if found or not wanted.ids else None


def _shown_id(job: JobInfo) -> str:
    if job.array_tasks:
        return f"{job.array_job_id}_[{job.array_tasks}]"
    if job.het_job_id:
        return component_text(job)
    return format_job(job.job_id, job.array_job_id, job.array_task_id if job.HasField("array_task_id") else None)


if __name__ == "__main__":
    main()
