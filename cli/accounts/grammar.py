"""The grammar of sacctmgr lines about accounts, users, associations, clusters and QOS: tables of words.

Spellings and shortest abbreviations are Slurm's. Old names of TRES limits (GrpCPUs, MaxNodes, ...) mean the TRES limit
with that one resource: `OLD_LIMITS`.
"""

from cli.accounts.words import Grammar, keywords

#: Old names -> the limit and the TRES of it.
OLD_LIMITS = {
    "grpcpumins": ("grptresmins", "cpu"), "grpcpurunmins": ("grptresrunmins", "cpu"), "grpcpus": ("grptres", "cpu"),
    "grpmemory": ("grptres", "mem"), "grpnodes": ("grptres", "node"), "maxcpuminsperjob": ("maxtresminsperjob", "cpu"),
    "maxcpusperjob": ("maxtresperjob", "cpu"), "maxnodesperjob": ("maxtresperjob", "node"),
    "maxcpusperuser": ("maxtresperuser", "cpu"), "maxnodesperuser": ("maxtresperuser", "node"),
    "mincpusperjob": ("mintresperjob", "cpu"),
}  # fmt: skip
#: Settings that take += and -=.
LISTS = frozenset(("qos", "flags", "preempt", "features"))
#: Those whose names may each have a sign: qos=+gold,-normal.
SIGNED = frozenset(("qos", "preempt"))

_GROUP = (
    "GrpTRESRunMins:8 GrpTRESMins:8 GrpTRES:7 GrpCPURunMins:8 GrpCPUMins:7 GrpCPUs:7 GrpJobsAccrue:8 GrpJobs:4 "
    "GrpMemory:4 GrpNodes:4 "
    "GrpSubmitJobs:4 GrpWall:4 "
)
_MAX = (
    "MaxCPUMinsPerJob:7 MaxCPUsPerJob:7 MaxTRESMinsPerJob:8 MaxTRESPerNode:11 MaxTRESPN:9>maxtrespernode MaxTRESPerJob:7 "
    "MaxTRESPJ:9>maxtresperjob MaxNodesPerJob:4 MaxWallDurationPerJob:4 MaxWallPJ:9>maxwalldurationperjob "
    "MaxWallPerJob:9>maxwalldurationperjob MinPrioThreshold:4 "
)
_OF_ASSOC = (
    "DefaultQOS:8 Fairshare:1 Shares:1>fairshare " + _GROUP + "MaxJobsAccrue:8 MaxJobs:4 MaxSubmitJobs:4 " + _MAX
    + "Parent:1 Priority:3 QosLevel:1>qos RawUsage:7 Lend:4 Borrow:4 Budget:4"
)  # fmt: skip
_CONDITIONS = "DefaultQOS:8 Format:1 Id:1 AssocId:5>id QosLevel:1>qos "
_WITH = "WithAssoc:5 WithCoordinators:5 WithDeleted:5 WithRawQOSLevel:5 WOPLimits:4 WOPInfo:4"

ACCOUNT = Grammar(
    keywords(
        "Accounts:1>name Acct:4>name Names:1>name Clusters:1>cluster Descriptions:1>description "
        "Organizations:1>organization "
        "Format:1 Parents:1>parent Users:1>user " + _CONDITIONS
    ),
    keywords("Description:1 Organization:1 RawUsage:7 " + _OF_ASSOC),
    keywords("Accounts:1>name Acct:4>name Names:1>name Clusters:1>cluster"),
    keywords(_WITH),
    use_where=True,
)
USER = Grammar(
    keywords(
        "Names:1>name Users:1>name AdminLevel:2 Clusters:1>cluster Format:1 DefaultAccount:8 DefaultWCKey:8 "
        "Accounts:2>account "
        "Acct:4>account Partitions:3>partition Parents:4>parent WCKeys:1>wckey " + _CONDITIONS
    ),
    keywords("AdminLevel:2 DefaultAccount:8 DefaultWCKey:8 NewName:1 RawUsage:7 " + _OF_ASSOC),
    keywords(
        "Names:1>name Users:1>name Accounts:2>account Acct:4>account Clusters:1>cluster Partitions:4>partition "
        "WCKeys:1>wckey"
    ),
    keywords(_WITH),
)
ASSOCIATION = Grammar(
    keywords(
        "Users:1>user Accounts:2>account Acct:4>account Associations:2>id Ids:1>id Clusters:1>cluster Parents:4>parent "
        "Partitions:4>partition " + _CONDITIONS
    ),
    flags=keywords(
        "OnlyDefaults:4 Tree:4 WithDeleted:5 WithRawQOSLevel:5 WithSubAccounts:5 WOPInfo:4 WOPLimits:4 WOLimits:4 "
        "WithUsage:5"
    ),
    use_set=False,
    bare="id",
)
CLUSTER = Grammar(
    keywords("Names:1>name Clusters:1>name Classification:3 DefaultQOS:8 Federations:3 Flags:2 Format:1 RPCVersions:1"),
    keywords("Classification:3 Features:3 Federation:3 FedState:4 Flags:2 " + _OF_ASSOC),
    keywords("Names:1>name Clusters:1>name"),
    keywords("WithDeleted:5 WithFed:5 WOLimits:4"),
)
COORDINATOR = Grammar(
    keywords("Names:1>name Users:1>name Accounts:1>account Acct:4>account Clusters:1>cluster Format:1"),
    who=keywords("Names:1>name Users:1>name Accounts:1>account Acct:4>account Clusters:1>cluster"),
    use_set=False,
)
QOS = Grammar(
    keywords(
        "Names:1>name QOSLevel:3>name Descriptions:1>description Format:1 Ids:1>id PreemptMode:8 Clusters:1>cluster"
    ),
    keywords(
        "Description:1 Flags:2 GraceTime:3 "
        + _GROUP
        + "MaxTRESRunMinsPerAccount:18 MaxTRESRunMinsPA:16>maxtresrunminsperaccount "
        "MaxTRESRunMinsPerUser:8 MaxTRESPerAccount:11 MaxTRESPA:9>maxtresperaccount MaxTRESPerUser:11 "
        "MaxTRESPU:9>maxtresperuser "
        "MaxCPUsPerUser:11 MaxNodesPerUser:11 MaxJobsAccruePerAccount:17 MaxJobsAccruePA:15>maxjobsaccrueperaccount "
        "MaxJobsAccruePerUser:14 MaxJobsAccruePU:8>maxjobsaccrueperuser MaxJobsPerAccount:11 MaxJobsPA:9>maxjobsperaccount "
        "MaxJobsPerUser:4 MaxJobsPU:9>maxjobsperuser MaxSubmitJobsPerAccount:17 MaxSubmitJobsPA:15>maxsubmitjobsperaccount "
        "MaxSubmitPA:11>maxsubmitjobsperaccount MaxSubmitJobsPerUser:4 MaxSubmitPU:11>maxsubmitjobsperuser "
        "MaxSubmitJobsPU:15>maxsubmitjobsperuser "
        + _MAX
        + "MinCPUsPerJob:6 MinTRESPerJob:7 PreemptMode:8 PreemptExemptTime:8 "
        "Preempt:7 Priority:3 RawUsage:7 UsageFactor:6 UsageThreshold:6 LimitFactor:2"
    ),
    keywords("Names:1>name Clusters:1>cluster"),
    keywords("WithDeleted:5"),
    use_where=True,
)
