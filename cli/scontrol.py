"""scontrol: look at and change the state of the cluster, one keyword at a time.

Keywords and entities are read in any case and may be cut short while they stay unique. What Slurm has and this version
has not is listed by name and fails with that message; what Slurm does not know either fails in Slurm's words.
Interactive mode is left out: a shell does it.
"""

import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from cli import reservation, show
from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.entities import ENTITIES, ENTITIES_LATER, WITH_JSON
from cli.jobids import own_node
from cli.keywords import (
    NAME,
    Call,
    Verb,
    ask,
    check_count,
    check_ids,
    find_word,
    job_number,
    list_jobs,
    of_steps,
    words_of,
)
from cli.options import NO, VERSION_TEXT, Command, Option, later, parse
from cli.run import CommandError, complain, run
from cli.update import is_about_reservation, read_update
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.errors import Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.refusals import TEXT, Code

PING_TIMEOUT_S = 5.0
ERROR_NUMBER_MAX = 2**31 - 1
DOWN_BANNER = "*" * 41 + "\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n" + "*" * 41
Action = pb.ControlJobsRequest.Action

FOOTER = """Keywords:
  show job|step|node|partition|reservation [NAME]   state of one or all (-d details, -o one line each)
  create reservation [ReservationName=NAME] KEY=VALUE...
  delete ReservationName=NAME
  show config                         the configuration in force
  show hostnames|hostlist|hostlistsorted [LIST]
  show licenses [NAME]                how many of each there are, and how many are used
  show topology [SWITCH|BLOCK|NODE]   switches or blocks (topoconf: as topology.conf)
  show story JOB                      what happened to a job, in order
  hold|uhold|release JOB...           keep pending jobs from starting, or no longer
  requeue|requeuehold JOB...          run again from the start (held, if so asked)
  suspend|resume JOB...               stop running jobs, and let them go on (operators)
  update JobId=|NodeName=|PartitionName=|ReservationName= KEY=VALUE...
  reboot [ASAP] [nextstate=RESUME|DOWN] [reason=TEXT] ALL|NODES   when nothing runs there (cancel_reboot NODES)
  notify JOB TEXT                     a line for the error output of a job
  write batch_script JOB [FILE|-]     the script of a job, to slurm-JOB.sh if no file is named
  liststeps [NODE]  listpids [JOB[.STEP] [NODE]]  pidinfo PID   on this node, or the one that is named
  completing  listjobs [NODE]  ping  reconfigure  shutdown  version  errnumstr NUMBER"""

COMMAND = Command(
    NAME,
    "[OPTIONS...] KEYWORD [ARGUMENTS...]",
    (
        Option("all", "a", help="also show hidden partitions"),
        Option("details", "d", help="show more"),
        Option("oneliner", "o", help="one record on each line"),
        Option("quiet", "Q", help="print errors only"),
        Option("hide", help="do not show hidden partitions"),
        Option("local", help="accepted; there is one cluster"),
        Option("verbose", "v", help="accepted", counted=True),
        *later("clusters/M", "uid/u"),
        *DOCUMENT_OPTIONS,
        *later("federation", "future/F", "sibling", value=NO),
    ),
    footer=FOOTER,
)


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Find the keyword and do it."""
    line = parse(COMMAND, argv)
    if not line.positional:
        text = "interactive mode is not supported by Penstock: give a keyword (scontrol --help lists them)"
        raise CommandError(text)
    keyword, *words = line.positional
    name = find_word(keyword, VERBS, VERBS_LATER)
    if name is None:
        raise CommandError(f"invalid keyword: {keyword}", plain=True)
    if name not in VERBS:
        raise CommandError(f"{name} is not supported yet by Penstock")
    check_count(VERBS[name], words, name)
    return VERBS[name].run(Call(words, line.values))


def show_entity(call: Call) -> int:
    """`show ENTITY [NAME]`."""
    entity, *words = call.words
    name = find_word(entity, ENTITIES, ENTITIES_LATER)
    if name is None:
        raise CommandError(f"invalid entity:{entity} for keyword:show ", plain=True)
    if name not in ENTITIES:
        raise CommandError(f"show {name} is not supported yet by Penstock")
    check_count(ENTITIES[name], words, "show")
    if is_wanted(call.options) and name not in WITH_JSON:
        raise CommandError(f"--json of show {name} is not supported yet by Penstock")
    return ENTITIES[name].run(call._replace(words=words))


def control(action: Any, words: str) -> Callable[[Call], int]:
    """A keyword that does one thing to jobs."""

    def do(call: Call) -> int:
        if action in (Action.REQUEUE, Action.REQUEUE_HOLD):
            # A job that requeues itself ends with all that is in it, this too: whoever called it shall learn that it worked.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        request = pb.ControlJobsRequest(ids=check_ids(call.words), action=action)
        return tell_results(ask("ControlJobs", request, words).results)

    return do


def tell_results(results: Any) -> int:
    """Show the refusals among results; the status."""
    failed = [result for result in results if result.code]
    for result in failed:
        complain(NAME, f"{result.text} for job {result.id}", plain=True)
    return 1 if failed else 0


def update(call: Call) -> int:
    """`update JobId=|NodeName=|PartitionName=|ReservationName= KEY=VALUE...`."""
    if is_about_reservation(call.words):
        return reservation.update(call.words)
    what = read_update(call.words)
    if what.kind == "job":
        request = pb.UpdateJobsRequest(ids=check_ids([what.target]), changes=what.changes)
        return tell_results(ask("UpdateJobs", request, "slurm_update").results)
    if what.kind == "node":
        ask("UpdateNodes", pb.UpdateNodesRequest(names=what.target, changes=what.changes), "slurm_update")
    else:
        ask("UpdatePartition", pb.UpdatePartitionRequest(name=what.target, changes=what.changes), "slurm_update")
    return 0


def reboot(call: Call) -> int:
    """`reboot [ASAP] [nextstate=RESUME|DOWN] [reason=TEXT] ALL|NODES`."""
    changes, nodes = {"state": "REBOOT"}, ""
    for word in call.words:
        key, equals, value = word.partition("=")
        if word.upper() == "ASAP":
            changes["state"] = "REBOOT_ASAP"
        elif equals and key.lower() in ("nextstate", "reason"):
            changes[key.lower()] = value
        elif equals or nodes:
            raise CommandError(f"Invalid reboot parameter: {word}", plain=True)
        else:
            nodes = word
    if not nodes:
        raise CommandError('You must specify a list of nodes or "ALL" to reboot', plain=True)
    ask("UpdateNodes", pb.UpdateNodesRequest(names=nodes, changes=changes), "scontrol_reboot_nodes")
    return 0


def cancel_reboot(call: Call) -> int:
    """`cancel_reboot NODES`."""
    request = pb.UpdateNodesRequest(names=call.words[0], changes={"state": "CANCEL_REBOOT"})
    ask("UpdateNodes", request, "slurm_update")
    return 0


def write(call: Call) -> int:
    """`write batch_script JOB [FILE]`."""
    what, *words = call.words
    name = find_word(what, ("batch_script", "config"))
    if name is None:
        raise CommandError(f"invalid write argument:{what}", plain=True)
    if name == "config":
        raise CommandError("write config is not supported yet by Penstock")
    check_count(Verb(1, 2, write), words, "write")
    job_id = job_number(words[0])
    script = ask("GetBatchScript", pb.GetBatchScriptRequest(job_id=job_id), "job script retrieval").script
    path = words[1] if len(words) > 1 else f"slurm-{job_id}.sh"
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(script)
        return 0
    with open(path, "wb") as file:
        file.write(script)
    print(f"batch script for job {job_id} written to {path}")  # noqa: T201
    return 0


def completing(call: Call) -> int:
    """`completing`: jobs whose nodes are still busy with their end."""
    report = call.report()
    for job in list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(states=["COMPLETING"]))):
        print(show.completing_line(job, report))  # noqa: T201
    return 0


def listjobs(call: Call) -> int:
    """`listjobs [NODE]`: jobs that are on this node."""
    node = call.words[0] if call.words else own_node()
    jobs = list_jobs(
        pb.ListJobsRequest(filter=pb.JobFilter(nodes=[node], states=["RUNNING", "SUSPENDED", "COMPLETING"]))
    )
    if not jobs:
        raise CommandError(f"No slurm jobs found on node {node}", plain=True)
    print("JOBID", *(job.job_id for job in jobs), sep="\n")  # noqa: T201
    return 0


def ping(call: Call) -> int:
    """`ping`: is the controller there."""
    cluster = find_cluster()
    with Client.open(PING_TIMEOUT_S, cluster=cluster) as client:
        try:
            reply = client.call("Ping", pb.PingRequest())
        except Unreachable:
            print(f"Slurmctld(primary) at {cluster.host or cluster.address} is DOWN\n{DOWN_BANNER}")  # noqa: T201
            return 1
    print(f"Slurmctld(primary) at {reply.controller_host} is UP")  # noqa: T201
    return 0


def reconfigure(call: Call) -> int:
    """`reconfigure`: all of the new configuration, or nothing."""
    for warning in ask("Reconfigure", pb.ReconfigureRequest(), "slurm_reconfigure").warnings:
        complain(NAME, f"{NAME}: warning: {warning}", plain=True)
    return 0


def shutdown(call: Call) -> int:
    """`shutdown [slurmctld]`: stop the controller; jobs and node daemons go on."""
    if call.words and call.words[0].lower() not in ("slurmctld", "controller"):
        raise CommandError(f"invalid shutdown argument:{call.words[0]}", plain=True)
    ask("Shutdown", pb.ShutdownRequest(), "slurm_shutdown")
    return 0


def version(call: Call) -> int:
    """`version`."""
    print(VERSION_TEXT)  # noqa: T201
    return 0


def errnumstr(call: Call) -> int:
    """`errnumstr NUMBER`: the words of a refusal."""
    try:
        number = parse_int(call.words[0], 0, ERROR_NUMBER_MAX, "error number")
    except BadValue as error:
        raise CommandError("numeric arguments required for keyword:errnumstr", plain=True) from error
    known = number in Code.__members__.values()
    print(TEXT[Code(number)] if known else f"Unknown error {number}")  # noqa: T201
    return 0


VERBS = {
    "show": Verb(1, -1, show_entity),
    "hold": Verb(1, -1, control(Action.HOLD, "slurm_suspend")),
    "uhold": Verb(1, -1, control(Action.USER_HOLD, "slurm_suspend")),
    "holdu": Verb(1, -1, control(Action.USER_HOLD, "slurm_suspend")),
    "release": Verb(1, -1, control(Action.RELEASE, "slurm_suspend")),
    "requeue": Verb(1, -1, control(Action.REQUEUE, "slurm_requeue")),
    "requeuehold": Verb(1, -1, control(Action.REQUEUE_HOLD, "slurm_requeue")),
    "suspend": Verb(1, -1, control(Action.SUSPEND, "slurm_suspend")),
    "resume": Verb(1, -1, control(Action.RESUME, "slurm_resume")),
    "update": Verb(1, -1, update),
    "create": Verb(1, -1, reservation.create),
    "delete": Verb(1, -1, reservation.delete),
    "write": Verb(1, 3, write),
    "reboot": Verb(0, 4, reboot),
    "cancel_reboot": Verb(1, 1, cancel_reboot),
    "completing": Verb(0, 0, completing),
    "listjobs": Verb(0, 1, listjobs),
    "liststeps": Verb(0, 1, of_steps("liststeps")),
    "listpids": Verb(0, 2, of_steps("listpids")),
    "pidinfo": Verb(1, 1, of_steps("pidinfo")),
    "notify": Verb(2, -1, of_steps("notify")),
    "ping": Verb(0, 0, ping),
    "reconfigure": Verb(0, 0, reconfigure),
    "shutdown": Verb(0, 1, shutdown),
    "version": Verb(0, 0, version),
    "errnumstr": Verb(1, 1, errnumstr),
}
VERBS_LATER = words_of(
    "abort all cluster details fsdampeningfactor getaddrs getent hide "
    "oneliner power schedloglevel setdebug setdebugflags takeover token top "
    "wait_job"
)
if __name__ == "__main__":
    main()
