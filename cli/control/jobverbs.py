"""scontrol's keywords for jobs: hold, release, requeue, suspend, top, update, notify, wait_job, write batch_script.

Jobs are named by id, or all of one's own by `jobname=NAME`. A keyword that takes several jobs is applied to each; each
refusal is printed, and the status is 1 when there was one.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from cli.base.jobids import own_node
from cli.base.listing import emit
from cli.base.output import verbatim
from cli.base.run import CommandError, complain, need_own_process
from cli.base.users import find_uid
from cli.control import reservation, resize
from cli.control.keywords import (
    NAME,
    KeywordCall,
    Verb,
    ask,
    check_count,
    check_ids,
    find_word,
    job_number,
    list_jobs,
    refused,
)
from cli.control.update import bad_value, is_about_reservation, read_update
from cli.listings import show
from penstock.client import Client
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.v1.controller_pb2 import JobResult
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.states import ENDED

if TYPE_CHECKING:
    from cli.control.update import Update

JobControl = pb.ControlJobsRequest.Action
#: States that `Incomplete` means (scontrol(1), requeue).
INCOMPLETE = ("CONFIGURING", "RUNNING", "SUSPENDED")
REQUEUES = (JobControl.REQUEUE, JobControl.REQUEUE_HOLD, JobControl.REQUEUE_SPECIAL)
#: Values of `State=` of a requeue.
SPECIAL_EXIT = ("specialexit", "se")
#: Keywords for which Slurm's command prints the last refusal twice.
HOLDS = (JobControl.HOLD, JobControl.USER_HOLD, JobControl.RELEASE)
#: Codes of penstock.values.refusals, which is loaded only when there is one.
JOB_PENDING = 2023
INVALID_VALUE = 9000
INVALID_JOB_ID = 2017
ARRAY_RESIZE = "Job resizing not supported for job arrays"
NO_SUCH_JOB = "Invalid job id specified"
#: The poll interval of wait_job, which waits for a state of nodes.
WAIT_PAUSE_S = 1.0


def control(action: "pb.ControlJobsRequest.Action", words: str) -> Callable[[KeywordCall], int]:
    """Runs a keyword that applies one action to jobs."""

    def do(call: KeywordCall) -> int:
        if action in REQUEUES:
            # A job that requeues itself ends with all of its processes, this one too: its caller still gets the
            # success.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        more = f"\n{words} error: {NO_SUCH_JOB}" if action in HOLDS else ""
        request = pb.ControlJobsRequest(ids=named_jobs(call.words, more), action=action)
        results = ask("ControlJobs", request, words).results
        if action == JobControl.REQUEUE:  # a pending job is queued already
            results = [result for result in results if result.code != JOB_PENDING or is_task(result.id)]
        status = print_refusals(results)
        whole = [result for result in results if result.code and not is_task(result.id)]
        if whole and action in HOLDS:  # Slurm's command prints it twice
            complain(NAME, f"{words} error: {_words_of(whole[-1])[0]}", plain=True)
        return status

    return do


def named_jobs(words: list[str], more: str = "") -> list[str]:
    """Job ids, and for `jobname=NAME` those of the caller's (root: all users') jobs that have not ended."""
    ids: list[str] = []
    for word in words:
        key, equals, name = word.partition("=")
        if not equals or key.lower() not in ("jobname", "name"):
            ids += check_ids([word], more=more)
            continue
        users = [] if os.getuid() == 0 else [str(os.getuid())]
        jobs = list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(names=name.split(","), users=users)))
        found = [str(job.job_id) for job in jobs if job.state not in ENDED]
        if not found:
            raise CommandError(f"Job with name {name} not found", plain=True)
        ids += found
    return ids


def requeue(action: "pb.ControlJobsRequest.Action") -> Callable[[KeywordCall], int]:
    """`requeue|requeuehold [Incomplete] [State=SpecialExit] JOB...`."""

    def do(call: KeywordCall) -> int:
        words = []
        only_incomplete = False
        chosen = action
        for word in call.words:
            name, equals, state = word.lower().partition("=")
            if len(word) >= 3 and "incomplete".startswith(name):
                only_incomplete = True
            elif equals and name == "state":
                if state not in SPECIAL_EXIT:
                    raise CommandError(
                        f"Invalid job id specified for job {word}: the only state is SpecialExit", plain=True
                    )
                chosen = JobControl.REQUEUE_SPECIAL
            else:
                words.append(word)
        if not words:
            raise CommandError("too few arguments for keyword:requeue", plain=True)
        if only_incomplete:
            request = pb.ListJobsRequest(filter=pb.JobFilter(ids=named_jobs(words), states=INCOMPLETE))
            words = [str(job.job_id) for job in list_jobs(request)]
            if not words:
                return 0
        return control(chosen, "slurm_requeue")(call._replace(words=words))

    return do


def print_refusals(results: Iterable[JobResult]) -> int:
    """Prints the refusals among results; returns the status."""
    failed = [result for result in results if result.code or result.text]  # also of tasks that have none beside others
    for result in failed:
        complain(NAME, _of_job(result.id, *_words_of(result)), plain=True)
    return 1 if failed else 0


def is_task(job: str) -> bool:
    """Whether it names tasks of an array."""
    return "_" in job


def _of_job(job: str, words: str, more: str) -> str:
    """Slurm's line of a refusal: tasks of an array come before the words, without brackets."""
    return f"{job.replace('[', '').replace(']', '')}: {words}{more}" if is_task(job) else f"{words} for job {job}{more}"


def _words_of(refusal: "JobResult | PenstockError") -> tuple[str, str]:
    """Slurm's words of a refusal, and the text after them, with its colon."""
    from penstock.values.refusals import TEXT

    words = next((text for code, text in TEXT.items() if code == refusal.code), "")
    if not words or not refusal.text.startswith(words):
        return refusal.text, ""
    return words, refusal.text[len(words) :]


def update(call: KeywordCall) -> int:
    """`update JobId=|JobName=|NodeName=|PartitionName=|ReservationName= KEY=VALUE...`, and SlurmctldDebug=."""
    if is_about_reservation(call.words):
        return reservation.update(call.words)
    what = read_update(call.words)
    if what.kind == "step":
        return _update_step(what, next(word for word in call.words if word.lower().startswith("step")))
    if what.kind == "job":
        request = pb.UpdateJobsRequest(changes=what.changes)
        if what.by_name:
            request.job_name = what.target
            request.user = what.user or ("" if os.getuid() == 0 else str(os.getuid()))
        else:
            request.ids.extend(check_ids([what.target]))
        if (uid := call.options.of(int, "uid")) is not None:
            request.as_uid = uid
        status = print_refusals(_ask_update(request, what))
        if not (status or what.by_name) and resize.KEYS & what.changes.keys():
            resize.write_scripts(what.target)
        return status
    if what.kind == "node":
        ask("UpdateNodes", pb.UpdateNodesRequest(names=what.target, changes=what.changes), "slurm_update")
    elif what.kind == "debug":
        ask("SetController", pb.SetControllerRequest(debug_level=what.target), "slurm_set_debug_level")
    else:
        ask("UpdatePartition", pb.UpdatePartitionRequest(name=what.target, changes=what.changes), "slurm_update")
    return 0


def _update_step(what: "Update", word: str) -> int:
    """`update StepId=JOB[.STEP] TimeLimit=`: sent as the update of a job under a key of its own."""
    try:
        parse_selector(what.target)
    except BadValue:
        raise CommandError(f"Invalid StepID parameter: {word}\nRequest aborted", plain=True) from None
    request = pb.UpdateJobsRequest(ids=[what.target], changes={"steptimelimit": what.changes["timelimit"]})
    with Client.open() as client:
        try:
            results = client.call("UpdateJobs", request).results
        except PenstockError as error:
            if error.code == INVALID_VALUE:
                raise CommandError(f"Invalid TimeLimit value: {error.text}") from error
            raise refused("slurm_update", error) from error
    for result in results:
        if result.code:
            raise CommandError(f"slurm_update error: {result.text}", plain=True)
    return 0


def _ask_update(request: pb.UpdateJobsRequest, what: "Update") -> Sequence[JobResult]:
    """Sends the update and returns the results; a refusal of the whole request becomes Slurm's message for the value,
    or the job's."""
    with Client.open() as client:
        try:
            reply: pb.JobResultsReply = client.call("UpdateJobs", request)
            for line in reply.user_messages:  # of the site's submit filter
                complain("scontrol", f"scontrol: {line}", plain=True)
            return reply.results
        except Unreachable as error:
            raise refused("slurm_update", error) from error
        except PenstockError as error:
            if error.text.endswith(ARRAY_RESIZE):
                raise CommandError(ARRAY_RESIZE) from error
            if error.code == INVALID_JOB_ID and what.by_name:
                whose = f"user ID {request.user} and " if what.user else ""
                raise CommandError(f"No jobs with {whose}name '{what.target}'") from error
            words, more = _words_of(error)
            key, colon, fault = more.removeprefix(": ").partition(": ")
            if error.code == INVALID_VALUE and colon and key in what.changes:
                raise CommandError(bad_value(key, what.changes[key], fault)) from error
            raise CommandError(
                "\n".join(_of_job(job, words, more) for job in request.ids or [what.target]), plain=True
            ) from error


def notify(call: KeywordCall) -> int:
    """`notify JOB TEXT...`."""
    from cli.control.showsteps import notify as notify_step

    return notify_step(call)


def write(call: KeywordCall) -> int:
    """`write batch_script JOB [FILE]`, `write config [FILE]`."""
    what, *words = call.words
    name = find_word(what, ("batch_script", "config"))
    if name is None:
        raise CommandError(f"invalid write argument:{what}", plain=True)
    if name == "config":
        return _write_config(words)
    check_count(Verb(1, 2, write), words, "write")
    try:
        job_id = job_number(words[0].partition("_")[0])  # the tasks of an array have one script
    except CommandError as error:
        from penstock.values.refusals import TEXT, Code

        raise CommandError(f"job script retrieval failed: {TEXT[Code.INVALID_JOB_ID]}", plain=True) from error
    script = _batch_script(job_id)
    path = words[1] if len(words) > 1 else f"slurm-{job_id}.sh"
    if path == "-":
        verbatim(script.decode("utf-8", "surrogateescape"))
        return 0
    try:
        with open(path, "wb") as file:
            file.write(script)
    except OSError as error:
        raise CommandError(f"failed to open file `{path}`: {error.strerror}", plain=True) from error
    print(f"batch script for job {job_id} written to {path}")  # noqa: T201
    return 0


def _batch_script(job_id: int) -> bytes:
    with Client.open() as client:
        try:
            script: bytes = client.call("GetBatchScript", pb.GetBatchScriptRequest(job_id=job_id)).script
        except PenstockError as error:
            raise CommandError(f"job script retrieval failed: {error.text}", plain=True) from error
    return script


def _write_config(words: list[str]) -> int:
    """Writes the configuration in force as a slurm.conf: to the given path, to that of SLURM_CONF_OUT, or beside the
    one in use, with the time in its name."""
    check_count(Verb(0, 1, write), words, "write")
    text = ask("RenderConfig", pb.RenderConfigRequest(), "slurm_load_ctl_conf").text
    path = words[0] if words else os.environ.get("SLURM_CONF_OUT", "")
    if path == "-":
        sys.stdout.write(text)
        return 0
    if not path:
        lines = ask("ShowConfig", pb.ShowConfigRequest(), "slurm_load_ctl_conf").lines
        conf = next((line.value for line in lines if line.key == "SLURM_CONF"), "slurm.conf")
        path = f"{conf}.{time.strftime('%Y%m%d%H%M%S')}"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    print(f"Slurm config saved to {path}")  # noqa: T201
    return 0


def completing(call: KeywordCall) -> int:
    """`completing`: jobs whose nodes are still ending them."""
    report = call.report()
    for job in list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(states=["COMPLETING"]))):
        emit([show.completing_line(job, report)])
    return 0


def listjobs(call: KeywordCall) -> int:
    """`listjobs [NODE]`: jobs that are on this node."""
    node = call.words[0] if call.words else own_node()
    jobs = list_jobs(
        pb.ListJobsRequest(filter=pb.JobFilter(nodes=[node], states=["RUNNING", "SUSPENDED", "COMPLETING"]))
    )
    if not jobs:
        raise CommandError(f"No slurm jobs found on node {node}", plain=True)
    print("JOBID", *(job.job_id for job in jobs), sep="\n")  # noqa: T201
    return 0


def wait_job(call: KeywordCall) -> int:
    """`wait_job JOB`: until its nodes are ready for use, or it has ended (status 1)."""
    try:
        job_id = job_number(call.words[0])
    except CommandError as error:
        raise CommandError(f"Invalid job_id {call.words[0]}", plain=True) from error
    need_own_process()
    while True:
        jobs = list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(ids=[str(job_id)]), all_states=True))
        if not jobs:
            raise CommandError(f"{NAME}: Problem running job {job_id}", plain=True)
        if jobs[0].state in ("RUNNING", "STOPPED", "SUSPENDED"):
            print(f"Nodes {jobs[0].node_list} are ready for job {job_id}")  # noqa: T201
            return 0
        if jobs[0].state in ENDED or jobs[0].state == "COMPLETING":
            raise CommandError(f"{NAME}: Job {job_id} no longer running", plain=True)
        time.sleep(WAIT_PAUSE_S)


def uid_of(text: str) -> int:
    """Parses --uid: a user by name or number. Raises BadValue."""
    uid = find_uid(text)
    if uid is None:
        raise BadValue("no such user")
    return uid
