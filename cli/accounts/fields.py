"""The fields of sacctmgr's tables: names for format=, their shortest abbreviations, headings and widths.

One table for all entities, as in Slurm, in lookup order: the first match wins. The entity has the function of the row
that computes the value, by the field's key; a field that an entity does not have is an empty column.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cli.base.format import TableColumn, TableRow, TableStyle, TableView, line_width, table_lines, width_of
from cli.base.listing import emit
from cli.base.options import OptionValues
from cli.base.run import CommandError

FieldValue = Callable[[TableRow, TableView], str]
#: The most fields in one format=.
FIELDS_MAX = 1000


class Named(NamedTuple):
    """One row of the table: `least` is the shortest abbreviation of `word`, in letters; `key` is the field."""

    word: str
    least: int
    key: str
    header: str
    width: int


#: word:least[>key] heading width; `_` in a heading is a space.
_TABLE = """
Account:3 Account 10|Accounts:8>account Account 10|Acct:4>account Account 10|ActionRaw:7 ActionRaw 9|Action:4 Action 20
Actor:4 Actor 10|AdminLevel:2 Admin 9|Allowed:3 Allowed 10|Allocated:5 Allocated 9|Associations:2 Assocs 10
Borrow:1 Borrow 13|Budget:2 Budget 20
Classification:3 Class 9|ClusterNodes:8 Cluster_Nodes 20|Cluster:2 Cluster 10|Coordinators:2 Coord_Accounts 20
ControlHost:8 ControlHost 15|ControlPort:8 ControlPort 12|Count:3 Count 6|CountAllowed:6 #_Allowed 10|CountUsed:6 #_Used 10
CPUCount:2 CPU_Cnt 7|DefaultAccount:8 Def_Acct 10|DefaultQOS:8 Def_QOS 9|DefaultWCKey:8 Def_WCKey 10|Description:3 Descr 20
Duration:2 Duration 13|EventRaw:6 EventRaw 8|Event:2 Event 7|Extra:2 Extra 20|Features:3 Features 20|Federation:3 Federation 10
FedStateRaw:9 FedStateRaw 11|FedState:4 FedState 12|Flags:2 Flags 20|FairShare:1>share Share 9|Format:2 Format 20
GraceTime:3 GraceTime 10|GrpTRESRunMins:8 GrpTRESRunMins 13|GrpTRESMins:8 GrpTRESMins 13|GrpTRES:7 GrpTRES 13
GrpCPURunMins:8 GrpCPURunMins 13|GrpCPUMins:7 GrpCPUMins 11|GrpCPUs:6 GrpCPUs 8|GrpJobsAccrue:8 GrpJobsAccrue 13
GrpJobs:4 GrpJobs 7|GrpMemory:4 GrpMem 7|GrpNodes:4 GrpNodes 8|GrpSubmitJobs:4 GrpSubmit 9|GrpWall:4 GrpWall 11
InstanceId:9 InstanceId 20|InstanceType:9 InstanceType 20|ID:2 ID 6|Index:3>id ID 6|Info:2 Info 20|JobID:4>id ID 6
LastConsumed:2 LastConsumed 12|Lend:2 Lend 13|LFT:1 LFT 6|LimitFactor:2 LimitFactor 11|Manager:3>servertype ServerType 10
MaxCPUMinsPerJob:7 MaxCPUMins 11|MaxCPURunMins:8 MaxCPURunMins 15|MaxCPUsPerUser:11 MaxCPUsPU 10
MaxCPUsPU:9>maxcpusperuser MaxCPUsPU 10
MaxCPUsPerJob:7 MaxCPUs 8|MaxTRESRunMinsPerAccount:18 MaxTRESRunMinsPA 16
MaxTRESRunMinsPA:16>maxtresrunminsperaccount MaxTRESRunMinsPA 16
MaxTRESRunMinsPerUser:8 MaxTRESRunMinsPU 16|MaxTRESRunMinsPU:8>maxtresrunminsperuser MaxTRESRunMinsPU 16
MaxTRESMinsPerJob:8 MaxTRESMins 13|MaxTRESPerNode:11 MaxTRESPerNode 14|MaxTRESPN:9>maxtrespernode MaxTRESPerNode 14
MaxTRESPerAccount:11 MaxTRESPA 13|MaxTRESPerAcct:11>maxtresperaccount MaxTRESPA 13|MaxTRESPA:9>maxtresperaccount MaxTRESPA 13
MaxTRESPerUser:11 MaxTRESPU 13|MaxTRESPU:9>maxtresperuser MaxTRESPU 13|MaxTRESPerJob:7 MaxTRES 13
MaxTRESPJ:9>maxtresperjob MaxTRES 13
MaxJobsAccruePerAccount:17 MaxJobsAccruePA 15|MaxJobsAccruePerAcct:17>maxjobsaccrueperaccount MaxJobsAccruePA 15
MaxJobsAccruePA:15>maxjobsaccrueperaccount MaxJobsAccruePA 15|MaxJobsAccruePerUser:14 MaxJobsAccruePU 15
MaxJobsAccruePU:15>maxjobsaccrueperuser MaxJobsAccruePU 15|MaxJobsAccrue:8 MaxJobsAccrue 13|MaxJobsPerAccount:11 MaxJobsPA 9
MaxJobsPerAcct:11>maxjobsperaccount MaxJobsPA 9|MaxJobsPA:9>maxjobsperaccount MaxJobsPA 9|MaxJobsPerUser:8 MaxJobsPU 9
MaxJobsPU:9>maxjobsperuser MaxJobsPU 9|MaxJobs:4 MaxJobs 7|MaxNodesPerUser:9 MaxNodesPU 10|MaxNodesPerJob:4 MaxNodes 8
MaxSubmitJobsPerAccount:17 MaxSubmitPA 11|MaxSubmitJobsPerAcct:17>maxsubmitjobsperaccount MaxSubmitPA 11
MaxSubmitJobsPA:15>maxsubmitjobsperaccount MaxSubmitPA 11|MaxSubmitPA:11>maxsubmitjobsperaccount MaxSubmitPA 11
MaxSubmitJobsPerUser:14 MaxSubmitPU 11|MaxSubmitJobsPU:15>maxsubmitjobsperuser MaxSubmitPU 11
MaxSubmitPU:11>maxsubmitjobsperuser MaxSubmitPU 11|MaxSubmitJobs:4 MaxSubmit 9
MaxWallDurationPerJob:4 MaxWall 11|MaxWallPJ:9>maxwalldurationperjob MaxWall 11|MinCPUsPerJob:4 MinCPUs 8
MinPrioThreshold:4 MinPrioThres 12|MinTRESPerJob:7 MinTRES 13|Name:2 Name 10|NodeCount:6 NodeCount 9|NodeInx:5 NodeInx 20
NodeNames:5>nodename NodeName 15|Organization:1 Org 20|ParentID:7 ParentID 8|ParentName:7 ParentName 10|Partition:4 Partition 10
PluginIDSelect:2 PluginIDSelect 14|PreemptMode:8 PreemptMode 11|PreemptExemptTime:8 PreemptExemptTime 19|Preempt:7 Preempt 10
Problem:1 Problem 40|Priority:3 Priority 10|QOSRAWLevel:4>qosraw QOS_RAW 10|QOSLevel:3>qos QOS 20|RawUsage:3 RawUsage 11
Reason:1 Reason 30|RGT:1 RGT 6|RPC:1 RPC 5|Share:1 Share 9|ServerType:7 ServerType 10|Server:2 Server 10|StateRaw:6 StateRaw 8
State:4 State 6|TimeStamp:5 Time 19|TimeEligible:6 TimeEligible 19|TimeEnd:6 TimeEnd 19|End:2>timeend TimeEnd 19
TimeStart:7 TimeStart 19|Start:3>timestart TimeStart 19|TimeSubmit:6 TimeSubmit 19|Submit:3>timesubmit TimeSubmit 19
Time:2>timestamp Time 19|TRES:2 TRES 20|Type:2 Type 8|UnusedWall:2 UnusedWall 10|UsageFactor:6 UsageFactor 11
UsageThreshold:6 UsageThres 10|User:1 User 10|WCKeys:2>wckey WCKeys 20|Where:2 Where 20
"""


def _read(text: str) -> tuple[Named, ...]:
    rows = []
    for piece in filter(None, (part.strip() for part in text.replace("\n", "|").split("|"))):
        name, header, width = piece.split()
        word, _, rest = name.partition(":")
        least, _, key = rest.partition(">")
        rows.append(Named(word.lower(), int(least), key or word.lower(), header.replace("_", " "), int(width)))
    return tuple(rows)


NAMED = _read(_TABLE.replace("QOS_RAW ", "QOS~RAW "))


def find_field(word: str) -> Named | None:
    """The field that a word of format= means."""
    low = word.lower()
    for row in NAMED:
        if low == row.word or (len(low) >= row.least and row.word.startswith(low)):
            return row._replace(header=row.header.replace("~", "_"))
    return None


def columns_of(
    text: str, values: Mapping[str, FieldValue[TableRow, TableView]]
) -> list[TableColumn[TableRow, TableView]]:
    """Parses `account,user%-20`. Raises CommandError for a word that is no field."""
    parts = [part for part in (piece.strip() for piece in text.split(",")) if part]
    if len(parts) > FIELDS_MAX:
        raise CommandError(f"format= has {len(parts)} fields, the limit is {FIELDS_MAX}")
    columns = []
    for part in parts:
        name, percent, width = part.partition("%")
        field = find_field(name)
        if field is None:
            raise CommandError(f"Unknown field '{name}'", plain=True)
        columns.append(
            TableColumn(
                field.header,
                width_of(width) or field.width if percent else field.width,
                values.get(field.key, _nothing),
            )
        )
    line_width(columns)
    return columns


def _nothing(row: object, view: object) -> str:
    return ""


def put_table(
    columns: list[TableColumn[TableRow, TableView]],
    rows: Iterable[TableRow],
    view: TableView,
    options: OptionValues,
) -> None:
    """Prints a table in the style that -n, -p and -P ask for."""
    delimited = options.flag("parsable") or options.flag("parsable2")
    closed = options.flag("parsable") and not options.flag("parsable2")
    style = TableStyle("|" if delimited else "", closed, not options.flag("noheader"))
    emit(table_lines(columns, rows, view, style))
