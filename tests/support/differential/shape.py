"""What both sides have alike: the lines of slurm.conf that say what the cluster is, and the jobs in it.

A job is submitted by one sbatch line and named; command lines refer to its id as {name}. Jobs whose tasks or retries take further
ids come last, so that ids are the same on both sides. Limits are far apart from how long a run takes, and nothing ends by itself
but what is waited for (`settled`).
"""

import shlex
from collections.abc import Callable

NODES = ("n1", "n2", "n3", "n4")
HOST = "localhost"
FIRST_ID = 1001

CONF = """\
ClusterName=diff
FirstJobId=1001
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
Licenses=matlab:5,ansys:2
MaxArraySize=1001
PriorityType=priority/basic
SlurmdParameters=config_overrides
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n[1-2] MaxTime=30 DefaultTime=10 State=UP
PartitionName=big Nodes=n[3-4] MaxTime=7-0 MinNodes=2 PriorityJobFactor=10 State=UP
PartitionName=off Nodes=n4 State=DOWN
PartitionName=secret Nodes=n1 Hidden=YES State=UP
"""
NODE = "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 TmpDisk=1000 Weight={weight} Feature={feature} Gres=gpu:h200:2 State=UNKNOWN"
FEATURES = {"n1": "old", "n2": "old,ib", "n3": "new,ib", "n4": "new"}


def node_lines(more: Callable[[str], str]) -> str:
    """NodeName lines; `more` adds a node's addresses."""
    return "".join(
        f"NodeName={name} {more(name)} {NODE.format(weight=place + 1, feature=FEATURES[name])}\n"
        for place, name in enumerate(NODES)
    )


#: Before the jobs.
PREPARE = (
    "scontrol update nodename=n4 state=drain reason='odd  fan, bay=3'",
    "scontrol create reservation reservationname=maint starttime=2037-01-01T00:00:00 duration=2:00:00 nodes=n2 users=root flags=maint,ignore_jobs",
)
SLEEP = "--wrap 'exec sleep 100000'"
#: name -> the words behind `sbatch --parsable`. {other} is the id of a job above.
JOBS = {
    "done": "-J done -t 1:00:00 -n1 -o /dev/null --wrap true",
    "failed": "-J failed -t 1:00:00 -n1 -o /dev/null --comment 'exits with 3' --wrap 'exit 3'",
    "gone": f"-J gone -t 1:00:00 -n1 -o /dev/null {SLEEP}",
    "run": f"-J run -t 2-00:00:00 -n1 -c2 --mem=500 --gres=gpu:1 -w n1 -o run-%j.out {SLEEP}",
    "wide": f"-J wide -t 1-00:00:00 -N2 --ntasks-per-node=2 --mem-per-cpu=200 -C old -o wide.out -e wide.err {SLEEP}",
    "lic": f"-J lic -t 12:00:00 -n2 -L matlab:2 -w n3 --comment=hello --nice=100 -o /dev/null {SLEEP}",
    "held": f"-J held -t 1:00:00 -H -n3 --mem=1G -o /dev/null {SLEEP}",
    "later": f"-J later -t 90 --begin=2037-01-01T12:30:00 -p short,main -o /dev/null -t 20 {SLEEP}",
    "after": f"-J after -t 1:00:00 -d afterok:{{run}} -o /dev/null {SLEEP}",
    "never": f"-J never -t 1:00:00 -d afternotok:{{done}} -o /dev/null {SLEEP}",
    "either": f"-J either -t 1:00:00 -d afterok:{{run}}?afterany:{{wide}} -o /dev/null {SLEEP}",
    "single": f"-J run -t 1:00:00 -d singleton -o /dev/null {SLEEP}",
    "huge": f"-J huge -t 1:00:00 -N3 --exclusive -x n4 -o /dev/null {SLEEP}",
    "down": f"-J down -t 1:00:00 -p off -o /dev/null {SLEEP}",
    "drained": f"-J drained -t 1:00:00 -w n4 -o /dev/null {SLEEP}",
    "many": f"-J many -t 1:00:00 -n4 --ntasks-per-node=2 -c2 -x n4 -G 4 -o /dev/null -H {SLEEP}",
    "resv": f"-J resv -t 1:00:00 --reservation=maint -o /dev/null {SLEEP}",
    "odd": f"-J 'a b|c,%j' -t 1:00:00 -H -o 'out %x' --comment 'x=y z' -D /tmp {SLEEP}",
    "wide_name": f"-J {'long' * 20} -t 1:00:00 -H -o /dev/null -A science --qos normal {SLEEP}",
    "deadline": f"-J deadline -t 1:00:00 --time-min=30:00 --deadline=2037-06-01T00:00:00 -H -o /dev/null {SLEEP}",
    "gone_held": f"-J gone_held -t 1:00:00 -H -o /dev/null {SLEEP}",
    "shared": f"-J shared -t 1:00:00 -H -N1-2 -n2 --tmp=100 --no-requeue -o /dev/null -i /dev/null {SLEEP}",
    "arr_held": f"-J arr_held -t 1:00:00 -a 0-9:3%2 -H -o /dev/null {SLEEP}",
    "arr_later": f"-J arr_later -t 1:00:00 -a 1-100 --begin=2037-02-01 -o /dev/null {SLEEP}",
    "arr_done": "-J arr_done -t 1:00:00 -a 7,8 -n1 --mem=100 -w n2 -o /dev/null --wrap true",
    "arr": f"-J arr -t 1:00:00 -a 1-5%2 -n1 --mem=100 -w n1 -o /dev/null {SLEEP}",
}
#: {some}: jobs that stand for the others where every column is asked for.
SOME = ("done", "failed", "run", "wide", "lic", "held", "later", "after", "odd", "deadline", "many", "arr_held")
#: Once the jobs are there.
CHANGES = ("scancel {gone} {gone_held}",)
#: What `squeue -h -t all -o '%i %t'` shows when everything has come to rest: job -> state.
SETTLED = {
    "done": "CD",
    "failed": "F",
    "gone": "CA",
    "gone_held": "CA",
    "run": "R",
    "wide": "R",
    "lic": "R",
    "never": "PD",
}
#: Jobs of arrays after which is waited until these tasks are there, since they take ids when they start.
TASKS = {"arr_done": {"_7": "CD", "_8": "CD"}, "arr": {"_1": "R", "_2": "R"}}


def words_of(line: str, ids: dict[str, str]) -> list[str]:
    """A command line as words, with the ids filled in."""
    return [fill(word, ids) for word in shlex.split(line)]


def fill(text: str, ids: dict[str, str]) -> str:
    """{name} -> id, for the names that there are; other braces stay."""
    for name, number in ids.items():
        text = text.replace("{" + name + "}", number)
    return text
