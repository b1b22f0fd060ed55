"""What both sides have alike: accounts, users, QOS and jobs of which one has ended in each way."""

from differential.shape import NODES, node_lines

__all__ = ["CONF", "JOBS", "NODES", "PREPARE", "SETTLED", "node_lines"]

CONF = """\
ClusterName=diff
FirstJobId=1001
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PriorityWeightQOS=1000
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
SlurmdParameters=config_overrides
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n[1-2] MaxTime=30 DefaultTime=10 State=UP
"""

#: Before the jobs. Users are such as every Debian has.
PREPARE = (
    "sacctmgr -i add account science Description='all of science' Organization=faculty Fairshare=10",
    "sacctmgr -i add account physics parent=science Description='the physics group' Organization=faculty Fairshare=4",
    "sacctmgr -i add account chemistry parent=science Description=chemistry Organization=faculty Fairshare=6",
    "sacctmgr -i add account guests Description=visitors Organization=other GrpJobs=5 MaxWall=1-00:00:00",
    "sacctmgr -i add qos high Priority=100 MaxWall=2-00:00:00 GrpTRES=cpu=16,gres/gpu=4 Flags=DenyOnLimit",
    "sacctmgr -i add qos low Priority=1 MaxJobsPerUser=2 UsageFactor=0.5 Description='what is left'",
    "sacctmgr -i add user root account=physics Fairshare=3",
    "sacctmgr -i add user daemon account=physics,chemistry Fairshare=2 MaxJobs=7",
    "sacctmgr -i add user games account=guests",
    "sacctmgr -i modify user root set QOS=normal,high,low",
    "sacctmgr -i modify user root set defaultaccount=physics",
)
SLEEP = "--wrap 'exec sleep 100000'"
JOBS = {
    "done": "-J done -t 1:00:00 -n1 -A physics -o /dev/null --wrap true",
    "failed": "-J failed -t 1:00:00 -n2 -A physics -o /dev/null --comment 'exits with 3' --wrap 'exit 3'",
    "killed": "-J killed -t 1:00:00 -n1 -A physics --qos=low -o /dev/null --wrap 'kill -9 $$'",
    "steps": "-J steps -t 1:00:00 -n2 --mem=400 -A physics --qos=high -o /dev/null --wrap 'srun -n2 true; srun -n1 -J second false; srun -n1 --mem=100 true'",
    "gone": f"-J gone -t 1:00:00 -n1 -A physics -o /dev/null {SLEEP}",
    "run": f"-J run -t 2-00:00:00 -n1 -c2 --mem=500 --gres=gpu:1 -w n1 -A physics -o /dev/null {SLEEP}",
    "held": f"-J held -t 1:00:00 -H -N2 -n4 -A physics --qos=high -o /dev/null {SLEEP}",
    "odd": f"-J 'a b|c' -t 1:00:00 -H --comment 'x=y, z' -D /tmp -o /dev/null {SLEEP}",
    "arr": "-J arr -t 1:00:00 -a 3,5 -n1 --mem=100 -A physics -o /dev/null --wrap true",
}
SETTLED = {"done": "CD", "failed": "F", "killed": "F", "steps": "CD", "run": "R"}
TASKS = {"arr": {"_3": "CD", "_5": "CD"}}
CHANGES = ("scancel {gone}",)
SETTLED_AFTER = {"gone": "CA", "run": "R"}
