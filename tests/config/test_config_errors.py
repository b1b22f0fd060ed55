"""Every kind of mistake: the words, the file and the line, and that nothing else is reported."""

from collections.abc import Callable

import pytest

from penstock.config import ConfigError, load
from penstock.config.problem import PROBLEMS_MAX

Write = Callable[..., str]


def problems(path: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value) == "\n".join(str(problem) for problem in error.value.problems)
    return [str(problem) for problem in error.value.problems]


#: A line added as line 6 to a file that is right, and the one problem that it makes.
ONE_LINE = [
    ("SlurmctldTimout=30", "unknown parameter SlurmctldTimout (did you mean SlurmctldTimeout?)"),
    ("Qqqqqqqqqq=1", "unknown parameter Qqqqqqqqqq"),
    ("RealMemory=4", "parameter RealMemory belongs on a NodeName line"),
    ("NodeName=x KillWait=3", "parameter KillWait belongs on a line of its own"),
    ("NodeName=x CPU=3", "unknown parameter CPU (did you mean CPUs?)"),
    ("PartitionName=x Nods=ALL", "unknown parameter Nods (did you mean Nodes?)"),
    ("KillWait", "expected Key=Value, found 'KillWait'"),
    ("KillWait=", "KillWait: has no value"),
    ("KillWait= MinJobAge=3", "KillWait: has no value (or remove the space before 'MinJobAge=3')"),
    ("KillWait+=3", "KillWait: the operator += is not supported here; use ="),
    ('Prolog="/x', r"Prolog: a quoted value must end in a quote followed by a space (a # inside it is written \#)"),
    (
        'Prolog="/x # y"',
        r"Prolog: a quoted value must end in a quote followed by a space (a # inside it is written \#)",
    ),
    ('Prolog="/x"y', r"Prolog: a quoted value must end in a quote followed by a space (a # inside it is written \#)"),
    ("KillWait=3 oops MinJobAge=3", "expected Key=Value, found 'oops'"),
    ("KillWait=abc", "Invalid KillWait: 'abc' is not a whole number (allowed: 0 to 65533)"),
    ("KillWait=-1", "Invalid KillWait: '-1' is out of range (allowed: 0 to 65533)"),
    ("KillWait=99999", "Invalid KillWait: '99999' is out of range (allowed: 0 to 65533)"),
    ("JobRequeue=maybe", "Invalid JobRequeue: expected YES or NO, not 'maybe'"),
    ("StateSaveLocation=tmp", "Invalid StateSaveLocation: expected an absolute path, not 'tmp'"),
    ("GresTypes=gpu,,nic", "Invalid GresTypes: an empty name in 'gpu,,nic'"),
    ("ReturnToService=3", "Invalid ReturnToService: '3' is out of range (allowed: 0 to 2)"),
    (
        "ProctrackType=proctrack/none",
        "Invalid ProctrackType: expected proctrack/cgroup, proctrack/linuxproc, proctrack/pgid, not 'proctrack/none'",
    ),
    (
        "PreemptMode=REQUEUE",
        "PreemptMode=REQUEUE needs PreemptType=preempt/partition_prio or preempt/qos; without one it is OFF or GANG",
    ),
    (
        "PreemptType=preempt/partition_prio",
        "PreemptType=preempt/partition_prio needs a PreemptMode: CANCEL, REQUEUE or SUSPEND,GANG",
    ),
    (
        "PreemptType=preempt/partition_prio PreemptMode=SUSPEND",
        "PreemptMode=SUSPEND: SUSPEND needs GANG, which resumes suspended jobs: PreemptMode=SUSPEND,GANG",
    ),
    (
        "PreemptType=preempt/partition_prio PreemptMode=WITHIN,CANCEL",
        "PreemptMode=CANCEL,WITHIN: WITHIN is for jobs of one QOS and needs PreemptType=preempt/qos",
    ),
    (
        "PreemptType=preempt/qos PreemptMode=CANCEL,REQUEUE",
        "PreemptMode=CANCEL,REQUEUE: give one of OFF, CANCEL, REQUEUE, SUSPEND, with GANG or WITHIN where wanted",
    ),
    ("PreemptMode=KILL", "Invalid PreemptMode: expected OFF, CANCEL, REQUEUE, SUSPEND, GANG, WITHIN, not 'KILL'"),
    ("PreemptType=preempt/all", None),
    ("PreemptParameters=youngest_first=1", "PreemptParameters: youngest_first takes no value"),
    ("PreemptParameters=reorder_count=many", None),
    ("SchedulerTimeSlice=1", "Invalid SchedulerTimeSlice: '1' is out of range (allowed: 5 to 65533)"),
    (
        "PartitionName=x PreemptMode=CANCEL",
        "x: PreemptMode=CANCEL has no effect with PreemptType=preempt/none; set PreemptType or leave it out",
    ),
    ("PartitionName=x OverSubscribe=NO:2", "Invalid OverSubscribe: NO takes no number, FORCE and YES do"),
    ("PartitionName=x OverSubscribe=FORCE:0", None),
    ("PartitionName=x GraceTime=soon", None),
    ("DefMemPerCPU=lots", None),
    ("SchedulerParameters=bf_interval=day", None),
    ("PenstockNodePort=6817", "SlurmctldPort and PenstockNodePort are both 6817; node daemons need their own port"),
    ("NodeName=x[1-", None),
    ("NodeName=x[3-1]", None),
    ("NodeName=x[1-99999999]", None),
    ("NodeName=ALL", "NodeName: ALL is not the name of a node"),
    ("NodeName=n3", "duplicate node n3: it is already defined at slurm.conf:4"),
    ("NodeName=x,x", "duplicate node x: it is already defined at slurm.conf:6"),
    ("NodeName=x Gres=gpu:2", "Gres: gpu is not among GresTypes (not set)"),
    ("NodeName=x Gres=gpu:2:3:4:5", None),
    ("NodeName=x CPUs=0", "Invalid CPUs: '0' is out of range (allowed: 1 to 65533)"),
    ("NodeName=x RealMemory=UNLIMITED", "Invalid RealMemory: expected megabytes, not 'UNLIMITED'"),
    ("NodeName=x Sockets=2 SocketsPerBoard=2", "Sockets and SocketsPerBoard exclude each other"),
    ("NodeName=x Sockets=2000 CoresPerSocket=2000", "the node would have 4000000 CPUs, the limit is 65533"),
    ("NodeName=x[1-3] NodeAddr=a[1-2]", "NodeAddr names 2, NodeName 3; one for all or one for each"),
    ("NodeName=x[1-3] NodeHostname=a[1-4]", "NodeHostname names 4, NodeName 3; one for all or one for each"),
    ("NodeName=x[1-3] Port=[1-2]", "Port names 2, NodeName 3; one for all or one for each"),
    ("NodeName=x Port=70000", "Port: Invalid Port: '70000' is out of range (allowed: 1 to 65535)"),
    ("NodeName=x State=BUSY", None),
    ("DownNodes=n[4-6]", "DownNodes names unknown nodes: n[5-6]"),
    ("NodeSet=x", "NodeSet x: give Nodes or Feature"),
    ("NodeSet=n1 Feature=a", "NodeSet n1: the name is taken"),
    ("PartitionName=p Nodes=n[3-9]", "p: Nodes names unknown nodes: n[5-9]"),
    ("PartitionName=main Nodes=n1", "duplicate partition main: it is already defined at slurm.conf:5"),
    ("PartitionName=a,b", "Invalid PartitionName: expected one name without spaces and commas, not 'a,b'"),
    ('NodeSet="" Nodes=n1', "Invalid NodeSet: expected one name without spaces and commas, not ''"),
    ("PartitionName=p MinNodes=3 MaxNodes=2", "p: MinNodes=3 exceeds MaxNodes=2"),
    ("PartitionName=p MaxTime=10 DefaultTime=11", "p: DefaultTime exceeds MaxTime"),
    ("PartitionName=p MaxTime=1:2:3:4", None),
    ("PartitionName=p MaxTime=soon", None),
    ("PartitionName=p State=OPEN", "Invalid State: expected UP, DOWN, DRAIN, INACTIVE, not 'OPEN'"),
    ("Include missing.conf", "cannot read missing.conf: No such file or directory"),
    ("Include slurm.conf", "Include of slurm.conf: the file includes itself"),
    ("Include .", "cannot read .: not a plain file"),
    ("KillWait=3\x1b[0m", "control character U+001B at column 11"),
    ("KillWait=3\x00\x00", "control character U+0000 at column 11"),
    ("KillWait=3 \\", "the file ends in the middle of a continued line; was it written fully?"),
]


@pytest.mark.parametrize(("line", "text"), ONE_LINE)
def test_one_mistake_one_message(write: Write, whole: str, line: str, text: str | None) -> None:
    found = problems(write(whole + line + "\n"))
    assert len(found) == 1
    assert found[0].startswith("slurm.conf:6: ")
    if text is not None:
        assert found[0] == f"slurm.conf:6: {text}"
    else:
        key = line.split()[-1].partition("=")[0]
        assert key in found[0]


def test_bytes_that_are_not_utf_8(write: Write, whole: str) -> None:
    """Old files are in Latin-1. What stands in a comment is nobody's business."""
    loaded = load(write(whole.encode() + b"Prolog=/caf\xe9\n# caf\xe9\nKillWait=4 # \xe9\n"))
    assert loaded.warnings == ("slurm.conf:6: byte 12 is not UTF-8 text; the line is read as Latin-1",)
    assert (loaded.config.prolog, loaded.config.kill_wait_s) == (("/caf\u00e9",), 4)


def test_every_problem_is_listed_in_the_order_of_the_lines(write: Write) -> None:
    text = "ClusterName=a b=c\nKillWait=x\nPartitionName=p Nodes=q\nNodeName=n1 Cores=4\nFoo\n"
    found = problems(write(text))
    assert [line.split(": ")[0] for line in found] == [
        "slurm.conf:1",
        "slurm.conf:2",
        "slurm.conf:3",
        "slurm.conf:4",
        "slurm.conf:5",
        "slurm.conf",
    ]
    assert found[-1] == "slurm.conf: SlurmctldHost is not set"


def test_a_continued_line_is_blamed_where_the_word_stands(write: Write, base: str) -> None:
    text = base + "NodeName=n1 \\\n  CPUs=2 \\\n  RealMemry=5\nPartitionName=p Nodes=n1\n"
    assert problems(write(text)) == ["slurm.conf:6: unknown parameter RealMemry (did you mean RealMemory?)"]


def test_included_files_are_named(write: Write, base: str) -> None:
    text = base + "include nodes.conf\nPartitionName=p Nodes=ALL\n"
    found = problems(write(text, nodes_conf="# nodes\nNodeName=n1 CPUs=many\n"))
    assert len(found) == 1 and found[0].startswith("nodes.conf:2: Invalid CPUs")


def test_include_of_the_cluster_name_needs_the_name(write: Write, base: str) -> None:
    found = problems(write("Include x-%c.conf\n" + base + "NodeName=n1\nPartitionName=p Nodes=n1\n"))
    assert found == ["slurm.conf:1: Include of x-%c.conf: %c is used before ClusterName"]


def test_an_unreadable_range_is_not_reported_twice(write: Write, base: str) -> None:
    found = problems(write(base + "NodeName=n[1-x]\nPartitionName=p Nodes=n[1-3]\n"))
    assert len(found) == 1 and found[0].startswith("slurm.conf:4: NodeName: ")


def test_what_no_file_can_do_without(write: Write) -> None:
    assert problems(write("")) == [
        "slurm.conf: ClusterName is not set",
        "slurm.conf: SlurmctldHost is not set",
        "slurm.conf: there is no NodeName line",
        "slurm.conf: there is no PartitionName line",
    ]


def test_a_file_cut_short_anywhere_is_refused_or_warned_about(write: Write, whole: str) -> None:
    """A crash while the file is written leaves a prefix. Cut inside a line: never silent."""
    for length in range(len(whole)):
        path = write(whole[:length])
        try:
            loaded = load(path)
        except ConfigError:
            continue
        if not whole[:length].endswith("\n"):
            assert any("was the file written fully?" in warning for warning in loaded.warnings)


def test_a_file_of_nul_bytes(write: Write) -> None:
    found = problems(write(b"\0" * 4096))
    assert "slurm.conf:1: control character U+0000 at column 1" in found


def test_unreadable_file(write: Write, whole: str) -> None:
    write(whole)
    assert problems("nowhere.conf") == ["nowhere.conf: cannot read nowhere.conf: No such file or directory"]
    assert problems("/dev/zero") == ["/dev/zero: cannot read /dev/zero: not a plain file"]


def test_too_many_problems_are_cut(write: Write, whole: str) -> None:
    found = problems(write(whole + "Qqqqqqqqqq=1\n" * 1000))
    assert len(found) == PROBLEMS_MAX + 1
    assert found[-1] == f"slurm.conf: and {1000 - PROBLEMS_MAX} more problems"


def test_a_message_has_a_length(write: Write, whole: str) -> None:
    found = problems(write(whole + "K" * 5000 + "=1\nPartitionName=" + "a," * 5000 + "\n"))
    assert [len(line) < 600 for line in found] == [True, True]


def test_includes_have_a_depth(write: Write, whole: str) -> None:
    others = {f"f{i}_conf": f"include f{i + 1}.conf\n" for i in range(12)}
    found = problems(write(whole + "include f0.conf\n", **others))
    assert found == ["f8.conf:1: Include of f9.conf: more than 10 levels deep"]


GRES = [
    ("Name=gpu Count=1\n", "slurm.conf:5: node n1 has 4 gpu, gres.conf (gres.conf:1) only 1"),
    ("NodeName=n1 Name=gpu File=/dev/nvidia[0-1]\n", "slurm.conf:5: node n1 has 4 gpu, gres.conf (gres.conf:1) only 2"),
    ("Name=gpu Count=4 File=/dev/nvidia[0-1]\n", "gres.conf:1: gpu: Count=4 does not match the 2 names of File"),
    ("Name=gpu Count=many\n", "gres.conf:1: gpu: Count: many is not a whole number"),
    ("Name=gpu File=nvidia0\n", None),
    ("Name=gpu File=/dev/nv[0-\n", None),
    ("\nCount=4\n", "gres.conf:2: a line of gres.conf needs Name or AutoDetect"),
    ("Nam=gpu\n", "gres.conf:1: unknown parameter Nam (did you mean Name?)"),
    ("Name=gpu Flie=/dev/x\n", "gres.conf:1: unknown parameter Flie (did you mean File?)"),
    ("AutoDetect=magic\n", None),
]


#: What follows Name=gpu on the line, what is said of it.
MIG = [
    (
        "Type=h200 Count=2 PenstockMigLayouts=1g.18gb*8",
        "gpu: PenstockMigLayouts: 1g.18gb*8: a GPU has 1 to 7 instances",
    ),
    (
        "Type=h200 Count=2 PenstockMigLayouts=whole|4g.71gb*2",
        "gpu: PenstockMigLayouts: 4g.71gb*2 has 8 compute slices; a GPU has 7",
    ),
    ("Count=2 PenstockMigLayouts=whole", "PenstockMigLayouts needs Type, the model of the whole GPU, as in Type=h200"),
    (
        "Type=a100 Count=2 PenstockMigLayouts=whole",
        "PenstockMigLayouts: node n1 has no gpu:a100:2 in its Gres, which says what it has when its GPUs are whole",
    ),
    (
        "Type=h200 Count=2 PenstockMigLayouts=whole|1g.18gb*7",
        "PenstockMigLayouts: node n1 has shard too; a node's GPUs are shared or divided, not both",
    ),
]


@pytest.mark.parametrize(("line", "text"), MIG)
def test_mig_layouts_that_cannot_be(write: Write, base: str, line: str, text: str) -> None:
    shard = ",shard:2" if "shard" in text else ""
    nodes = f"GresTypes=gpu,shard\nNodeName=n1 Gres=gpu:h200:2{shard}\nPartitionName=p Nodes=n1\n"
    found = problems(write(base + nodes, gres_conf=f"AutoDetect=nvml\nName=gpu {line}\n"))
    assert found == [f"gres.conf:2: {text}"]


SHARES = [
    ("shard:8", "node n1 has 8 shard and no gpu in its Gres to share"),
    ("gpu:a100:2,shard:h100:8", "node n1 has 8 shard and no gpu of type h100 to share"),
    ("gpu:2,mps:4K", "node n1 has more than 1000 mps for one GPU"),
    (
        "gpu:3,shard:8",
        "node n1 has 8 shard for 3 GPUs, which cannot be spread evenly: write a multiple of 3, or a line with File and "
        "Count for each GPU into gres.conf",
    ),
]


@pytest.mark.parametrize(("gres", "text"), SHARES)
def test_shares_of_gpus_that_do_not_add_up(write: Write, base: str, gres: str, text: str) -> None:
    text_of_nodes = f"GresTypes=gpu,mps,shard\nNodeName=n1 Gres={gres}\nPartitionName=p Nodes=n1\n"
    assert problems(write(base + text_of_nodes)) == [f"slurm.conf:5: {text}"]


@pytest.mark.parametrize(("gres", "text"), GRES)
def test_gres_conf(write: Write, base: str, gres: str, text: str | None) -> None:
    text_of_nodes = "GresTypes=gpu\nNodeName=n1 Gres=gpu:4\nPartitionName=p Nodes=n1\n"
    found = problems(write(base + text_of_nodes, gres_conf=gres))
    assert found[0] == text if text else found[0].startswith("gres.conf:1: ")
    assert len(found) == 1
