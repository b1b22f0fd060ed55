"""The entities of `scontrol show`: the query for each, and the message when there is none."""

import os
import sys

from cli.base.document import is_wanted
from cli.base.run import CommandError
from cli.control import reservation, topology
from cli.control.keywords import KeywordCall, Verb, ask, check_ids, job_number, lazily, list_jobs, of_steps
from cli.listings import show
from penstock.boundedfile import read_bounded
from penstock.cluster import find_cluster
from penstock.v1 import controller_pb2 as pb
from penstock.values.hostlist import HOSTLIST_TEXT_MAX, as_lists, compress, expand
from penstock.values.numbers import is_digits

NO_SUCH_JOB = "slurm_load_jobs error: Invalid job id specified"


def show_jobs(call: KeywordCall) -> int:
    """`show job [ID]`."""
    wrong = "scontrol_print_job error: Invalid job id specified"
    if any("." in word for word in call.words):
        raise CommandError(wrong, plain=True)
    begins_well = bool(call.words) and is_digits(call.words[0][:1])  # Slurm reads the number before what is wrong
    ids = check_ids(call.words, NO_SUCH_JOB if begins_well else wrong)
    tasks = [_one_task(text) for text in ids]
    report = call.report()
    request = pb.ListJobsRequest(
        filter=pb.JobFilter(ids=ids),
        all_states=True,
        detail=report.detail,
        planned=True,
        hide_hidden=not (ids or call.options.flag("all")),
    )
    jobs = list_jobs(request)
    if ids and not jobs:
        if all(tasks) and _exist({job for job, _ in filter(None, tasks)}):
            print(f"Job {','.join(ids)} not found")  # noqa: T201
            return 1
        raise CommandError(NO_SUCH_JOB, plain=True)
    for job in jobs:
        _name_task(job, tasks)
    if is_wanted(call.options):
        from cli.listings.jsonout import write_jobs

        write_jobs(jobs, find_cluster().cluster_name, report.now_us, call.options)
        return 0
    call.put_update_time(len(jobs), single=bool(ids))
    if not jobs:
        print("No jobs in the system")  # noqa: T201
    call.put([show.job_record(job, report) for job in jobs])
    return 0


def _exist(jobs: set[int]) -> bool:
    return bool(
        list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(ids=[str(job) for job in sorted(jobs)]), all_states=True))
    )


def _one_task(text: str) -> tuple[int, int] | None:
    """`12_3` as (12, 3)."""
    job, under, task = text.partition("_")
    return (int(job), int(task)) if under and is_digits(job) and is_digits(task) else None


def _name_task(job: pb.JobInfo, tasks: list[tuple[int, int] | None]) -> None:
    """Shows the record of an array's pending tasks as the requested task."""
    if job.HasField("array_task_id") or None in tasks:
        return
    from penstock.values.taskset import TaskSet

    asked = [one[1] for one in tasks if one and one[0] == job.array_job_id and one[1] in TaskSet.parse(job.array_tasks)]
    if len(asked) == 1:
        job.array_task_id = asked[0]


def show_nodes(call: KeywordCall) -> int:
    """`show node [NAMES]`."""
    names = [name for word in call.words for name in expand(word)]
    nodes = ask("ListNodes", pb.ListNodesRequest(names=as_lists(names), gpus=True), "slurm_load_node").nodes
    missing = sorted(set(names) - {node.name for node in nodes} - {"ALL", "all"})
    if not (names or call.options.flag("future")):
        nodes = [node for node in nodes if node.base_state != "FUTURE"]
    if is_wanted(call.options):
        from cli.base.document import write_document
        from cli.listings.jsonnode import nodes_document

        write_document(nodes_document(nodes, find_cluster().cluster_name, call.report().now_us), call.options)
    else:
        call.put_update_time(len(nodes))
        if not nodes and not missing:
            print("No nodes in the system")  # noqa: T201
        call.put([show.node_record(node, call.report()) for node in nodes])
    for name in missing:
        print(f"Node {name} not found")  # noqa: T201
    return 1 if missing else 0


def show_partitions(call: KeywordCall) -> int:
    """`show partition [NAME]`."""
    wanted = {name for word in call.words for name in word.split(",")}
    all_of_them = call.options.flag("all") or (os.getuid() == 0 and not call.options.flag("hide"))
    hide = not (all_of_them or wanted)
    found = ask("ListPartitions", pb.ListPartitionsRequest(hide_hidden=hide), "slurm_load_partitions").partitions
    hidden_too = all_of_them or wanted
    chosen = [p for p in found if (not wanted or p.name in wanted) and (hidden_too or not p.hidden)]
    if not is_wanted(call.options):
        call.put_update_time(len(found))
    if not (chosen or wanted or is_wanted(call.options)):
        print("No partitions in the system")  # noqa: T201
    if is_wanted(call.options):
        call.put_document("partitions_document", chosen, find_cluster().cluster_name)
    else:
        call.put([show.partition_record(part) for part in chosen])
    missing = sorted(wanted - {part.name for part in chosen})
    for name in missing:
        print(f"Partition {name} not found")  # noqa: T201
    return 1 if missing else 0


def show_config(call: KeywordCall) -> int:
    """`show config`."""
    reply = ask("ShowConfig", pb.ShowConfigRequest(), "slurm_load_ctl_conf")
    if is_wanted(call.options):
        from cli.base.document import document, write_document

        shown = {line.key: line.value for line in reply.lines}
        write_document(document("config", [shown], find_cluster().cluster_name), call.options)
        return 0
    sys.stdout.write(show.config_text(reply.lines, reply.at_us, call.report()))
    print(f"\nSlurmctld(primary) at {find_cluster().host or 'localhost'} is UP")  # noqa: T201
    return 0


def show_hostnames(call: KeywordCall) -> int:
    """`show hostnames [LIST]`: by default the nodes of the calling job."""
    if call.words:
        text = call.words[0]
    else:
        text = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST") or ""
    if not text:
        raise CommandError("host list is empty")
    names = expand(text)
    sys.stdout.write("".join(f"{name}\n" for name in names))
    return 0


def show_hostlist(call: KeywordCall) -> int:
    """`show hostlist LIST|/FILE`: folds adjacent names, keeps the order."""
    print(compress(read_hosts(call), keep_order=True))  # noqa: T201
    return 0


def show_hostlist_sorted(call: KeywordCall) -> int:
    """`show hostlistsorted LIST|/FILE`."""
    print(compress(read_hosts(call)))  # noqa: T201
    return 0


def read_hosts(call: KeywordCall) -> list[str]:
    """The names in a list, or in the file that an absolute path names."""
    text = call.words[0]
    if text.startswith("/"):
        text = read_bounded(text, HOSTLIST_TEXT_MAX).decode("utf-8", "surrogateescape")
    return expand(text)


def show_story(call: KeywordCall) -> int:
    """`show story JOB`: Penstock's own."""
    reply = ask("Story", pb.StoryRequest(job_id=job_number(call.words[0])), "story")
    report = call.report()
    sys.stdout.write("".join(f"{show.story_line(line, report)}\n" for line in reply.lines))
    return 0


ENTITIES = {
    "jobs": Verb(0, -1, show_jobs),
    "job": Verb(0, -1, show_jobs),
    "nodes": Verb(0, -1, show_nodes),
    "node": Verb(0, -1, show_nodes),
    "partitions": Verb(0, -1, show_partitions),
    "partition": Verb(0, -1, show_partitions),
    "reservations": Verb(0, -1, reservation.show),
    "reservation": Verb(0, -1, reservation.show),
    "steps": Verb(0, -1, of_steps("show_steps")),
    "step": Verb(0, -1, of_steps("show_steps")),
    "config": Verb(0, 1, show_config),
    "aliases": Verb(0, 1, lazily("cli.control.showmore", "aliases")),
    "assoc_mgr": Verb(0, -1, lazily("cli.control.assocmgr", "assoc_mgr")),
    "bbstat": Verb(0, -1, lazily("cli.control.showmore", "dwstat")),
    "burstbuffer": Verb(0, 1, lazily("cli.control.showmore", "burst_buffer")),
    "daemons": Verb(0, 0, lazily("cli.control.showmore", "daemons")),
    "dwstat": Verb(0, -1, lazily("cli.control.showmore", "dwstat")),
    "federation": Verb(0, 1, lazily("cli.control.showmore", "federation")),
    "slurmd": Verb(0, 0, lazily("cli.control.showmore", "slurmd")),
    "hostnames": Verb(0, 1, show_hostnames),
    "hostlist": Verb(1, 1, show_hostlist),
    "hostlistsorted": Verb(1, 1, show_hostlist_sorted),
    "story": Verb(1, 1, show_story),
    "topology": Verb(0, 2, topology.show_topology),
    "topoconf": Verb(0, 0, topology.show_topoconf),
    "licenses": Verb(0, -1, topology.show_licenses),
    "license": Verb(0, -1, topology.show_licenses),
}
#: What --json shows.
WITH_JSON = (
    "job", "jobs", "node", "nodes", "partition", "partitions", "reservation", "reservations", "step", "steps", "config",
    "licenses", "license",
)  # fmt: skip
#: Aliases of entities, and ambiguous abbreviations.
ENTITY_WORDS = {
    "res": "reservation", "part": "partition", "nod": "node", "par": "partition", "jobid": "job", "nodename": "node",
    "partitionname": "partition", "reservationname": "reservation", "stepid": "step", "a": "aliases", "d": "daemons",
    "t": "topology", "to": "topology", "top": "topology", "topo": "topology",
}  # fmt: skip
