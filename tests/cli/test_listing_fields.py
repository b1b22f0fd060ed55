"""Every letter and name of squeue and sinfo, for jobs of every kind: rich, poor, of an array, heterogeneous, ended.

The golden table holds what each field shows of two jobs; the others must render at all, at any width.
"""

import pytest

from cli.base.format import Column, DisplayClock, parse_names, parse_percent
from cli.listings.jobtable import MADE, SINGLE, TASKS, JobTable, cells, lines, needed_by
from cli.listings.squeue_fields import LETTERS, NAMES, JobView, sort_key
from penstock.v1.common_pb2 import SALLOC, ExitStatus, GresCount
from penstock.v1.controller_pb2 import ListJobsReply
from tests.cli import reports

GPU = GresCount(name="gpu", type="h100", count=2)
RICH = reports.job(
    7, "RUNNING", start_at_us=reports.at(-60), end_at_us=reports.at(540), cpus=8, nodes=2, tasks=4, node_list="n[1-2]",
    batch_node="n1", mem_mb=2048, tres_alloc="cpu=8", admin_comment="adm", system_comment="sys", attempt=2,
    resized_at_us=reports.at(-7), preempt_at_us=reports.at(-5), dependency="afterok:3(unfulfilled)", reason_detail="x", exit=ExitStatus(code=3),
    request=reports.request(
        "rich", account="acc", qos="high", comment="note", features="a&b", prefer="c", licenses="lic:2", wckey="key",
        reservation="resv", nodes_required="n1", nodes_excluded="n9", nice=-5, cpus_per_task=2, ntasks_per_node=2,
        mincpus=3, tmp_disk_mb=1024, sockets_per_node=2, cores_per_socket=4, threads_per_core=1, contiguous=True,
        gres_per_node=[GPU], gres_per_task=[GresCount(name="gpu", count=1)], gres_per_socket=[GPU], cpus_per_gpu=4,
        mem_per_gpu_mb=100, ntasks_per_core=1, ntasks_per_socket=2, switches_max=3, switches_wait_s=90, nodes_max=4,
        deadline_at_us=reports.at(9000), delay_boot_s=60, extra="ex", mcs_label="mcs", network="net", reboot=True,
        time_min_s=120, container="/oci", submit_line="sbatch x", profile="task,energy", gpu_bind="closest", gpu_freq="high", core_spec=2, command="/x.sh",
    ),
)  # fmt: skip
POOR = reports.job(8, "PENDING", reason="", partition="main", user_name="", group_name="", std_out=b"")
WAITING = reports.job(20, "PENDING", reason="Priority", array_job_id=20, array_tasks="3-9:2", array_throttle=4)
TASK = reports.job(22, "RUNNING", array_job_id=20, array_task_id=1, start_at_us=reports.at(-9), node_list="n3")
COMPONENT = reports.job(
    31, "PENDING", reason="Resources", het_job_id=30, het_offset=1, het_job_ids="30-31",
    request=reports.request("het", kind=SALLOC, exclusive_user=True, thread_spec=1),
)  # fmt: skip
ENDED = reports.job(
    4, "FAILED", reason="NonZeroExitCode", start_at_us=reports.at(-30), end_at_us=reports.at(-20), node_list="n3",
    exit=ExitStatus(code=3), batch_node="n3", request=reports.request(oversubscribe=True),
)  # fmt: skip
ALL = [RICH, POOR, WAITING, TASK, COMPONENT, ENDED]

#: Letter: of the rich job, of the poor one.
SHOWN = {
    "a": ("acc", "(null)"), "b": ("N/A", "N/A"), "c": ("4", "1"), "d": ("1G", "0"), "f": ("a&b", "(null)"),
    "g": ("users", "100"), "h": ("OK", "OK"), "i": ("7", "8"), "j": ("rich", "wrap"), "k": ("note", "(null)"),
    "l": ("10:00", "10:00"), "m": ("2G", "0"), "n": ("n1", ""), "o": ("/x.sh", "(null)"), "q": ("high", "(null)"),
    "r": ("None", "None"), "s": ("", ""), "t": ("R", "PD"), "u": ("ann", "1000"), "v": ("resv", "(null)"),
    "w": ("key", "(null)"), "x": ("n9", ""), "y": ("-5", "0"), "z": ("2:4:1", "*:*:*"), "A": ("7", "8"),
    "B": ("n1", "n/a"), "C": ("8", "1"), "D": ("2", "1"), "E": ("afterok:3(unfulfilled)", "(null)"), "F": ("7", "8"),
    "G": ("100", "100"), "H": ("2", "*"), "I": ("4", "*"), "J": ("1", "*"), "K": ("N/A", "N/A"), "L": ("9:00", "10:00"),
    "M": ("1:00", "0:00"), "N": ("n[1-2]", ""), "O": ("1", "0"), "P": ("main", "main"), "R": ("n[1-2]", "(None)"),
    "T": ("RUNNING", "PENDING"), "U": ("1000", "1000"), "W": ("lic:2", "(null)"), "X": ("2", "N/A"),
    "Y": ("(null)", "(null)"), "Z": ("/home/ann", "/home/ann"), "e": ("2026-11-21T03:13:00", "N/A"),
    "S": ("2026-11-21T03:03:00", "N/A"), "V": ("2026-11-21T03:03:20", "2026-11-21T03:03:20"),
    "p": ("0.99998474097810", "0.99998474097810"), "Q": ("4294901758", "4294901758"),
}  # fmt: skip
#: Name: the same, of those that have no letter.
NAMED = {
    "accruetime": ("2026-11-21T03:03:20",) * 2, "admin_comment": ("adm", "(null)"), "allocnodes": ("login", "login"),
    "batchflag": ("1", "1"), "container": ("/oci", "(null)"), "cpus-per-tres": ("gres/gpu:4", "N/A"),
    "mem-per-tres": ("gres/gpu:100", "N/A"), "tres-per-job": ("N/A", "N/A"),
    "tres-per-socket": ("gres/gpu:h100:2", "N/A"), "tres-per-task": ("cpu=2,gres/gpu=1", "N/A"),
    "tres-freq": ("gpu:high", "N/A"), "tres-bind": ("gres/gpu:closest", "N/A"), "profile": ("Task,Energy", "NotSet"),
    "licensesalloc": ("lic:2", "(null)"), "cluster": ("tiny", "tiny"), "cpus-per-task": ("2", "1"),
    "deadline": ("2026-11-21T05:34:00", "N/A"), "delayboot": ("1:00", "0:00"),
    "eligibletime": ("2026-11-21T03:03:20",) * 2, "extra": ("ex", "(null)"), "exclusive": ("NO", "NO"), "hetjobid": ("N/A", "N/A"),
    "hetjobidset": ("N/A", "N/A"), "hetjoboffset": ("N/A", "N/A"), "exit_code": ("3", "0"),
    "lastschedeval": ("2026-11-21T03:03:20",) * 2, "maxcpus": ("8", "1"), "maxnodes": ("4", "1"),
    "mcslabel": ("mcs", "(null)"), "mintime": ("2:00", "0:00"), "network": ("net", "(null)"), "ntpercore": ("1", "N/A"),
    "ntpernode": ("2", "0"), "ntpersocket": ("2", "N/A"), "numtasks": ("4", "1"), "prefer": ("c", "(null)"),
    "preempttime": ("2026-11-21T03:03:55", "N/A"), "pendingtime": ("0", "40"), "reboot": ("1", "0"),
    "reqswitch": ("3", "0"), "requeue": ("1", "1"), "restartcnt": ("2", "0"),
    "resizetime": ("2026-11-21T03:03:53", "N/A"),
    "sluid": ("s3B044ZG000007", "s3B044ZG000008"),
    "stderr": ("/home/ann/slurm-7.out", ""), "stdin": ("/dev/null", "/dev/null"),
    "stdout": ("/home/ann/slurm-7.out", ""), "submitline": ("sbatch x", "(null)"), "system_comment": ("sys", "(null)"),
    "tres-alloc": ("cpu=8", "cpu=1,mem=100M,node=1,billing=1"), "wait4switch": ("1:30", "0:00"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("SLURM_TIME_FORMAT", raising=False)
    time.tzset()


VIEW = JobView(DisplayClock(reports.NOW_US), True, "tiny")


def table_of(jobs, fields, keys=()) -> JobTable:
    names = [*needed_by(fields, keys), "array_tasks", "array_task_id"]
    table = JobTable(dict.fromkeys(names))
    table.take(ListJobsReply(jobs=jobs), list(table.columns))
    pairs = zip(table.text_column("array_tasks"), table.number_column("array_task_id"), strict=True)
    table.columns[TASKS] = [tasks if task_id < 0 else "" for tasks, task_id in pairs]
    table.columns[SINGLE] = [False] * table.rows
    return table


def shown(column, jobs) -> tuple[str, ...]:
    return tuple(cells(table_of(jobs, [column.field]), column, VIEW))


@pytest.mark.parametrize("letter", sorted(LETTERS))
def test_letters(letter):
    (column,), unknown = parse_percent(f"%{letter}", LETTERS)
    assert (shown(column, [RICH, POOR]), unknown) == (SHOWN[letter], [])


@pytest.mark.parametrize("name", sorted(NAMED))
def test_names_without_a_letter(name):
    (column,), unknown = parse_names(f"{name}:", NAMES)
    assert (shown(column, [RICH, POOR]), unknown) == (NAMED[name], [])


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_has_a_place_for_each_kind_of_job(name):
    columns, _ = parse_names(f"{name}:12,{name}:.30|", NAMES)
    table = table_of(ALL, [c.field for c in columns])
    for job, line in zip(ALL, lines(table, columns, VIEW), strict=True):
        assert len(line) >= 43 and line.endswith("|"), (job.job_id, line)
        assert columns[0].field.uncut or len(line) == 43


#: Slurm refuses to sort by these.
UNSORTED = "aFkKoqrRswxXyZ"


@pytest.mark.parametrize("letter", sorted(letter for letter in LETTERS if letter not in UNSORTED))
def test_each_letter_sorts_all_kinds(letter):
    key = sort_key(letter)
    values = table_of(ALL, [], [key]).compute(key.needs, lambda *values: key.value(VIEW, *values))
    assert len(sorted(values)) == len(ALL)


@pytest.mark.parametrize("letter", UNSORTED)
def test_letters_that_do_not_sort(letter):
    assert sort_key(letter) is None


def test_times_that_are_only_expected():
    later = reports.job(
        1, "PENDING", reason="BeginTime", eligible_at_us=0, request=reports.request(begin_at_us=reports.at(60))
    )
    columns, _ = parse_percent("%S %e", LETTERS)
    more, _ = parse_names("eligibletime:20,accruetime:", NAMES)
    columns += more
    assert list(lines(table_of([later], [c.field for c in columns if c.field]), columns, VIEW)) == [
        "2026-11-21T03:05:00 2026-11-21T03:15:002026-11-21T03:05:00 2026-11-21T03:05:00"
    ]


def test_ids_tasks_and_components():
    columns, _ = parse_percent("%i %K %F %A", LETTERS)
    table = table_of(ALL, [c.field for c in columns])
    assert list(lines(table, columns, VIEW)) == [
        "7 N/A 7 7", "8 N/A 8 8", "20_[3,5,7,9%4] 3,5,7,9%4 20 20", "20_1 1 20 22", "30+1 N/A 31 31", "4 N/A 4 4",
    ]  # fmt: skip


def test_who_shares_and_what_is_kept_for_the_system():
    columns, _ = parse_percent("%h %X %R", LETTERS)
    jobs = [COMPONENT, ENDED, reports.job(1, "PENDING", request=reports.request(exclusive=True))]
    found = list(lines(table_of(jobs, [c.field for c in columns]), columns, VIEW))
    assert found == ["USER 1 Threads (Resources)", "YES N/A (NonZeroExitCode)", "NO N/A (None)"]


def test_the_tables_know_all_names_of_slurm():
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert set(LETTERS) == set(letters)
    documented = """
        Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobID ArrayTaskID AssocID BatchFlag BatchHost
        BoardsPerNode BurstBuffer BurstBufferState Cluster ClusterFeature Command Comment Contiguous Container Cores
        CoreSpec cpus-per-task cpus-per-tres Deadline DelayBoot Dependency DerivedEC EligibleTime EndTime
        exit_code Feature GroupID GroupName HetJobID HetJobIDSet HetJobOffset JobArrayID JobID LastSchedEval Licenses
        LicensesAlloc Exclusive SLUID SubmitLine
        MaxCPUs MaxNodes MCSLabel mem-per-tres MinCpus MinMemory MinTime MinTmpDisk Name Network Nice NodeList
        NTPerBoard NTPerCore NTPerNode NTPerSocket NumCPUs NumNodes NumTasks Origin OriginRaw OverSubscribe Partition
        PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS Reason ReasonList Reboot ReqNodes ReqSwitch
        Requeue Reservation ResizeTime RestartCnt SchedNodes SCT SelectJobInfo SiblingsActive
        SiblingsActiveRaw SiblingsViable SiblingsViableRaw Sockets SPerBoard StartTime State StateCompact STDERR STDIN
        STDOUT SubmitTime system_comment Threads TimeLeft TimeLimit TimeUsed tres-alloc
        tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-task UserID UserName
        Wait4Switch WCKey WorkDir
    """
    assert {name.lower() for name in documented.split()} <= set(NAMES)
    of_steps = {"cpufreq", "resvport", "stepid", "stepname", "stepstate", "tres-per-step"}
    assert not of_steps & set(NAMES)
    assert not MADE & {name for field in NAMES.values() for name in field.needs} - {TASKS, SINGLE}


def test_a_table_of_wide_columns_is_made_in_pieces(monkeypatch):
    """The lines are the same, and no piece of the table has more rows than fit."""
    columns, _ = parse_percent("%.18i %20j %R", LETTERS)
    table = table_of(ALL, [c.field for c in columns])
    whole = list(lines(table, columns, VIEW))
    rows = []
    monkeypatch.setattr("cli.listings.jobtable.cells", lambda part, *more: rows.append(part.rows) or cells(part, *more))
    for size, most in ((1, 1), (100, 2), (1 << 25, len(ALL))):
        rows.clear()
        monkeypatch.setattr("cli.listings.jobtable.PIECE_CHARS", size)
        assert list(lines(table, columns, VIEW)) == whole
        assert max(rows) == most and sum(rows) == len(columns) * len(ALL)


def test_cells_of_single_tasks_are_those_of_each_alone() -> None:
    """The short way for lines of one array gives what the function gives for each line."""
    view = JobView(DisplayClock(0, ""), True, "c")
    for changed in ({}, {"array_task_id": 4}, {"het_job_id": 3}, {"array_throttle": 2}, {SINGLE: False}):
        row = {"job_id": 7, "array_job_id": 7, "array_task_id": -1, SINGLE: True, "array_throttle": 0}
        row |= {"het_job_id": 0, "het_offset": 0} | changed
        table = JobTable(())
        table.rows = 3
        table.columns = {name: [value] * 3 for name, value in row.items()}
        table.columns[TASKS] = ["1", "20", "300"]
        for letter in "iK":
            field = LETTERS[letter]
            whole = cells(table, Column(field, 6, True, "|"), view)
            alone = [cells(part, Column(field, 6, True, "|"), view)[0] for part in table.parts(1)]
            values = zip(*(table.columns[name] for name in field.needs), strict=True)
            assert whole == alone == [f"{field.show(view, *one):.6}".rjust(6) + "|" for one in values]
