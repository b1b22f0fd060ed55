"""The policy for GPUs, row by row: the signal comes, the GPU, the node and the jobs are judged, and what ends it does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from gpujudge import A, B, Judge, S, device

from nodedaemon.core import gpuhealth_messages as w
from nodedaemon.core.gpumessages import Answering, Hung, Xid
from nodedaemon.core.gpupolicy import ROW, ROWS, XidClass
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.xids import table
from penstock.values.gpustates import XID_CLASSES, GpuState

G = GpuState
Act = w.Action
GB_KB = 1024 * 1024


class Case(NamedTuple):
    """How a row comes about, and how it ends. `many`: what the job with both GPUs hears; `one`: with this one."""

    row: str
    come: Callable[[Judge], Any]
    go: Callable[[Judge], Any] | None
    one: Act
    many: Act
    cause: str
    drains_node: bool = False


def shows(**fields: Any) -> Callable[[Judge], None]:
    def come(judge: Judge) -> None:
        judge.shows(A, **fields)
        judge.poll(3)

    return come


def well(judge: Judge) -> None:
    judge.shows(A)
    judge.poll(3)


def reboot(judge: Judge) -> None:
    judge.reboot()
    well(judge)


def reset(judge: Judge) -> None:
    judge.wait(1)
    judge.tell(w.Worked(w.GpuWorkKind.RESET, A, True))
    well(judge)


def xid(number: int, times: int = 1) -> Callable[[Judge], None]:
    def come(judge: Judge) -> None:
        for _ in range(times):
            judge.xid(number)

    return come


def lost_from_the_list(judge: Judge) -> None:
    judge.listed(device(B, 1))


def hang(judge: Judge) -> None:
    judge.tell(Hung(judge.now_us, "nvmlDeviceGetTemperature", A))


def answers(judge: Judge) -> None:
    judge.tell(Answering(judge.now_us, A))


def slowed(judge: Judge) -> None:
    judge.shows(A, throttle=0x48)
    judge.poll(6)


def later(minutes: float) -> Callable[[Judge], None]:
    def go(judge: Judge) -> None:
        judge.shows(A)
        judge.poll()
        judge.wait(minutes)
        judge.poll()

    return go


def links(judge: Judge) -> None:
    judge.shows(A, nvlinks_down=2)
    judge.poll()


def nvlink_errors(judge: Judge) -> None:
    judge.shows(A, nvlink_errors=3)
    judge.poll()


def nvlink_later(judge: Judge) -> None:
    judge.wait(61)
    judge.poll()


CASES = [
    *(Case("recovery_reset", shows(recovery_action=n), well, Act.NOTE, Act.NOTE, f"recovery action {n} ") for n in (1, 4, 6)),
    *(Case("recovery_reboot", shows(recovery_action=n), reboot, Act.END, Act.END, f"recovery action {n} ", True) for n in (2, 7)),
    Case("recovery_p2p", shows(recovery_action=3), well, Act.NONE, Act.NONE, ""),
    Case("lost", shows(error=15), reboot, Act.END, Act.END, "GPU is lost (NVML error 15)"),
    Case("lost", shows(error=999), reboot, Act.END, Act.END, "GPU is lost (NVML error 999)"),
    Case("lost", lost_from_the_list, reboot, Act.END, Act.END, "GPU is no longer found"),
    Case("lost", xid(79), reboot, Act.END, Act.END, "XID 79"),
    Case("reset_required", shows(error=16), well, Act.END, Act.END, "reset required (NVML error 16)"),
    Case("hung", hang, answers, Act.NONE, Act.NONE, "", True),
    Case("hung", hang, well, Act.NONE, Act.NONE, "", True),
    Case("ecc_rose", shows(ecc_volatile=2), reset, Act.MARK, Act.MARK, "2 uncorrectable ECC errors"),
    Case("ecc_rose", shows(ecc_volatile=2), reboot, Act.MARK, Act.MARK, "2 uncorrectable ECC errors"),
    Case("ecc_rose", shows(ecc_volatile=None, ecc_aggregate=6), reset, Act.MARK, Act.MARK, "1 uncorrectable ECC"),
    Case("remap_pending", shows(remap_pending=True), well, Act.NONE, Act.NONE, ""),
    Case("remap_failed", shows(remap_failure=True), None, Act.NONE, Act.NONE, ""),
    Case("remap_failed", shows(remap_uncorrectable=512), None, Act.NONE, Act.NONE, ""),
    Case("retired_pending", shows(retired_pending=True), reboot, Act.NONE, Act.NONE, ""),
    Case("retired_full", shows(retired_pages=63), None, Act.NONE, Act.NONE, ""),
    Case("sram_ecc", shows(ecc_sram=1), None, Act.END, Act.END, "1 uncorrectable SRAM ECC errors"),
    Case("nvlink", nvlink_errors, nvlink_later, Act.NOTE, Act.MARK, "3 NVLink replays or recoveries"),
    Case("nvlink", links, later(61), Act.NOTE, Act.MARK, "2 NVLinks down"),
    Case("throttle", slowed, later(31), Act.NOTE, Act.NOTE, "slowed down by the hardware 6 times in 10 minutes"),
    Case("hot", shows(temperature_c=90), shows(temperature_c=85), Act.NONE, Act.NONE, ""),
    Case("pcie", shows(pcie=(3, 16, 5, 16), util_percent=80), None, Act.NONE, Act.NONE, ""),
    Case("pcie", shows(pcie=(5, 8, 5, 16), util_percent=80), None, Act.NONE, Act.NONE, ""),
    Case("error", shows(error=4), well, Act.NONE, Act.NONE, ""),
    *(
        Case("xid_reset", xid(n), end, Act.END, Act.END, f"XID {n}")
        for n in (46, 48, 62, 64, 74, 95, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158)
        for end in (reset, reboot)
    ),
    Case("xid_once", xid(109), later(24 * 60 + 1), Act.END, Act.END, "XID 109"),
    Case("xid_twice", xid(109, 2), reset, Act.END, Act.END, "XID 109"),
    Case("inspect", lambda judge: None, None, Act.NONE, Act.NONE, ""),
]  # fmt: skip
#: Rows that have tests of their own below.
ELSEWHERE = {
    "left_behind", "leaked", "memory", "foreign", "driver", "xid_contained", "xid_application", "xid_many_users",
    "xid_note", "inspect",
}  # fmt: skip


def ids(case: Case) -> str:
    return f"{case.row}-{CASES.index(case)}"


@pytest.mark.parametrize("case", [case for case in CASES if case.row not in ELSEWHERE], ids=ids)
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_row_comes_and_goes(case: Case, gpus: int) -> None:
    row, judge = ROW[case.row], Judge()
    judge.poll(2)
    key = judge.runs(7, *(A, B)[:gpus])
    judge.take()
    case.come(judge)

    opinion = judge.machine.opinion(A)
    assert (opinion.state, opinion.many_only) == (row.state, row.many_only)
    assert msgspec.structs.replace(judge.machine.opinion(B), xids=()) == w.Opinion(B)
    assert judge.of(w.Opinion)[-1] == opinion
    actions = {action.action: action for action in judge.of(w.JobAction)}
    wanted = case.one if gpus == 1 else case.many
    assert set(actions) == ({wanted} - {Act.NONE})
    if wanted:
        assert actions[wanted].jobs == (key,)
        assert actions[wanted].cause.startswith(case.cause) and actions[wanted].cause.endswith(f" on {A}")
        assert opinion.reason.startswith(case.cause)
    drains = [drain for drain in judge.of(w.NodeDrain)]
    assert [drain.clear for drain in drains] == ([False] if case.drains_node else [])

    judge.take()
    if case.go is None:
        reboot(judge)
        judge.wait(60 * 24 * 2)
        judge.poll(5)
        assert judge.opinion() is row.state
        judge.tell(w.Cleared(A))
        judge.poll(5)
    else:
        case.go(judge)
    thought = judge.machine.opinion(A)
    assert msgspec.structs.replace(thought, xids=()) == w.Opinion(A)
    assert judge.of(w.Opinion)[-1] == thought
    assert [drain.clear for drain in judge.of(w.NodeDrain)] == ([True] if case.drains_node else [])


def test_every_row_is_tested() -> None:
    assert {case.row for case in CASES} | ELSEWHERE == {row.name for row in ROWS}


# -- XIDs


def test_every_class_of_xids_is_known_to_the_configuration() -> None:
    assert {class_.value for class_ in XidClass} == XID_CLASSES.keys()
    assert set(table().values()) == set(XidClass) - {XidClass.IGNORE}


def test_the_table_has_every_xid_of_the_specification() -> None:
    classes = table()
    wanted = {
        XidClass.APPLICATION: [8, 11, 13, 25, 31, 32, *range(39, 42), 43, 45, 60, *range(66, 73), *range(75, 78), 80,
                               *range(82, 90), *range(96, 106), *range(126, 136), 139, 141],
        XidClass.CONTAINED: [94],
        XidClass.REPEAT: [109],
        XidClass.LOST: [79],
        XidClass.NOTE: [63, 92, 93, 121, 137, 154, 157, *range(160, 166)],
    }  # fmt: skip
    for class_, xids in wanted.items():
        assert sorted(xid for xid, found in classes.items() if found is class_) == xids


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_an_error_of_a_program_is_noted_to_its_job_alone(number: int) -> None:
    judge = Judge()
    key, other = judge.runs(7, A), judge.runs(8, B)
    judge.take()
    judge.xid(number)
    judge.xid(number)
    assert judge.of(w.JobAction) == [w.JobAction(Act.NOTE, (key,), f"XID {number} on {A}")]
    assert judge.opinion() is G.HEALTHY and other not in judge.of(w.JobAction)[0].jobs
    assert judge.machine.memory.records[A].counted == {number: 2}


def test_of_several_jobs_on_a_gpu_the_one_with_the_process_is_to_blame() -> None:
    judge = Judge()
    judge.runs(7, A)
    key = judge.runs(8, A)
    judge.left(77, A, w.GpuOwner(77, True, 1000, (8, 1), 5))
    judge.poll()
    judge.take()
    judge.xid(31, pid=77)
    assert judge.of(w.JobAction) == [w.JobAction(Act.NOTE, (key,), f"XID 31 on {A}")]


def test_application_errors_of_three_users_within_a_day_make_a_gpu_suspect() -> None:
    judge = Judge()
    for number, uid in enumerate((1000, 1000, 1001, 1002)):
        assert judge.opinion() is G.HEALTHY
        key = judge.runs(10 + number, A, uid=uid)
        judge.xid(31)
        judge.tell(w.Released(key))
        judge.wait(60)
    assert judge.opinion() is G.SUSPECT
    assert judge.machine.opinion(A).reason == "application errors of 3 users within 24 h, last XID 31"
    judge.wait(24 * 60)
    judge.poll()
    assert judge.opinion() is G.HEALTHY


def test_application_errors_of_three_users_over_days_do_not() -> None:
    judge = Judge()
    for uid in (1000, 1001, 1002):
        key = judge.runs(uid, A, uid=uid)
        judge.xid(31)
        judge.tell(w.Released(key))
        judge.wait(13 * 60)
    assert judge.opinion() is G.HEALTHY


def test_a_contained_memory_error_marks_the_job_and_leaves_the_gpu() -> None:
    judge = Judge()
    key = judge.runs(7, A)
    judge.take()
    judge.xid(94)
    assert judge.of(w.JobAction) == [w.JobAction(Act.MARK, (key,), f"XID 94 on {A}")]
    assert judge.opinion() is G.HEALTHY


@pytest.mark.parametrize("number", [92, 137, 9999])
def test_what_is_bookkeeping_or_unknown_is_counted_and_said(number: int) -> None:
    judge = Judge()
    judge.runs(7, A)
    judge.take()
    judge.xid(number)
    assert judge.of(w.JobAction) == [] and judge.opinion() is G.HEALTHY
    assert [remark.text for remark in judge.of(w.Remark)] == [f"GPU {A}: XID {number} (note)"]
    assert judge.machine.memory.records[A].counted == {number: 1}


def test_what_was_read_of_the_kernels_log_is_remembered_with_what_followed() -> None:
    judge = Judge()
    assert judge.machine.memory.log_read is None
    judge.tell(w.LogRead(-1))
    assert judge.machine.memory.log_read == -1
    judge.tell(Xid(judge.now_us, 63, "", "0000:19:00.0", sequence=12))
    judge.xid(13)  # NVML tells: no record
    judge.tell(w.LogRead(7))
    assert judge.machine.memory.log_read == 12
    judge.listed()
    assert judge.machine.memory.log_read == 12
    judge.reboot()
    assert judge.machine.memory.log_read == -1, "all of a new boot's log is new"


def test_an_xid_by_bus_address_finds_a_gpu_that_nvml_does_not_name() -> None:
    judge = Judge()
    again = Judge((device(B, 1),), judge.machine.memory, before=judge)
    again.tell(Xid(again.now_us, 63, "", "0000:19:00.0", sequence=12))
    assert again.machine.memory.records[A].counted == {63: 1}


def test_a_mode_that_is_worth_a_word_is_said_once_and_changes_nothing() -> None:
    judge = Judge()
    judge.runs(7, A)
    judge.take()
    judge.shows(A, ecc_pending=True, persistence=False)
    judge.poll(3)
    assert [opinion.notes for opinion in judge.of(w.Opinion)] == [("ecc_pending", "persistence_off")]
    assert [remark.text.split(":")[1] for remark in judge.of(w.Remark)] == [" INFO", " INFO"]
    assert judge.opinion() is G.HEALTHY and len(judge.said) == 3
    judge.take()
    judge.shows(A, error=999)  # it says nothing
    judge.poll()
    assert judge.take() == []
    judge.shows(A, ecc_pending=False, persistence=False)
    judge.poll(2)
    assert [opinion.notes for opinion in judge.of(w.Opinion)] == [("persistence_off",)] and len(judge.said) == 1


def test_xids_are_told_with_how_often_they_came_but_not_each_time() -> None:
    """A new number within a minute, one that came again with the next change or within the hour; the newest of many."""
    judge = Judge()

    def told() -> list[w.Opinion]:
        found = judge.of(w.Opinion)
        judge.take()
        return found

    judge.xid(9999)
    first = judge.now_us
    assert [one.xids for one in told()] == [((9999, 1, first),)]
    judge.poll()
    for _ in range(3):
        judge.xid(13)
    second = judge.now_us
    judge.poll()
    assert told() == []
    judge.wait(1)
    judge.poll()
    assert [one.xids for one in told()] == [((13, 3, second), (9999, 1, first))]
    judge.xid(13)
    judge.wait(58)
    judge.poll()
    assert told() == []
    judge.wait(2)
    judge.poll()
    assert [one.xids[0][:2] for one in told()] == [(13, 4)]
    judge.xid(13)
    assert told() == []
    judge.xid(79)  # something changes
    assert [(one.state, {x[0]: x[1] for x in one.xids}) for one in told()] == [(G.FAILED, {13: 5, 79: 1, 9999: 1})]
    for number in range(9000, 9040):
        judge.xid(number)
        judge.wait(1)
    judge.poll()
    assert [xid for xid, _, _ in told()[-1].xids] == list(range(9039, 9023, -1))


@pytest.mark.parametrize("number", [63, 154])
def test_after_some_everything_is_looked_at_at_once(number: int) -> None:
    judge = Judge()
    judge.xid(number)
    assert judge.of(w.PollRequest) == [w.PollRequest()]


def test_a_site_may_say_otherwise() -> None:
    judge = Judge()
    judge.runs(7, A)
    judge.tell(w.Rules(xids=((79, "ignore"), (31, "reset"))))
    judge.take()
    judge.xid(79)
    assert judge.take() == []
    judge.xid(31)
    assert judge.opinion() is G.DRAINED
    assert [action.action for action in judge.of(w.JobAction)] == [Act.END]


def test_an_xid_by_bus_address_finds_its_gpu() -> None:
    judge = Judge()
    judge.tell(Xid(judge.now_us, 79, bus_id="0000:1A:00"))
    assert judge.opinion(A) is G.HEALTHY and judge.opinion(B) is G.FAILED
    judge.take()
    judge.tell(Xid(judge.now_us, 79, bus_id="0000:ff:00"))
    assert [type(said) for said in judge.take()] == [w.Remark]


@pytest.mark.parametrize("cure", [reset, reboot])
@pytest.mark.parametrize("number", [79, 119])
def test_the_same_xid_after_two_cures_needs_an_inspection(number: int, cure: Callable[[Judge], None]) -> None:
    judge = Judge()
    for _ in range(2):
        judge.xid(number)
        assert "inspection" not in judge.machine.opinion(A).reason
        judge.wait(60 * 10)
        cure(judge)
        if number == 79:
            reboot(judge)
        assert judge.opinion() is G.HEALTHY
    judge.xid(number)
    assert judge.machine.opinion(A).reason.startswith(f"XID {number}; hardware inspection: XID {number} again") or (
        judge.machine.opinion(A).reason.startswith(f"hardware inspection: XID {number} again")
    )
    cure(judge)
    reboot(judge)
    judge.wait(60 * 30)
    judge.poll(5)
    assert judge.opinion() is G.FAILED
    judge.tell(w.Cleared(A))
    assert judge.opinion() is G.HEALTHY


# -- processes


def ended(judge: Judge, job: int = 7, uid: int = 1000) -> StepKey:
    key = judge.runs(job, A, uid=uid)
    judge.poll()
    judge.tell(w.Released(key))
    judge.take()
    return key


@pytest.mark.parametrize("job", [(7, 1), None])
def test_what_a_job_left_is_killed_and_the_gpu_drained_until_it_is_gone(job: tuple[int, int] | None) -> None:
    judge = Judge()
    ended(judge)
    judge.left(77, A, w.GpuOwner(77, True, 1000, job, 5))
    judge.poll(after_us=S // 10)
    assert judge.of(w.KillProcess) == [w.KillProcess(77, 5, 1000, (7, 1), A)]
    assert judge.of(w.PollRequest) == [w.PollRequest(2 * S)] and judge.opinion() is G.HEALTHY
    judge.poll(after_us=2 * S)
    assert judge.machine.opinion(A).state is G.DRAINED
    assert judge.machine.opinion(A).reason == "pid 77 left by job 7"
    assert not judge.of(w.NodeDrain)
    judge.poll(7)
    assert [drain.reason for drain in judge.of(w.NodeDrain)] == [f"pid 77 left by job 7 on {A}"]
    judge.take()
    well(judge)
    assert judge.opinion() is G.HEALTHY
    assert judge.of(w.NodeDrain) == [w.NodeDrain(f"pid 77 left by job 7 on {A}", True)]


@pytest.mark.parametrize(
    "owner",
    [
        w.GpuOwner(77, True, 1000, (9, 1), 5),  # of a job that goes on
        w.GpuOwner(77, True, 1000, (99, 1), 5),  # of one that has no GPU
        w.GpuOwner(77, True, 0, None, 5),  # of root
    ],
)
def test_nobody_elses_process_is_killed(owner: w.GpuOwner) -> None:
    judge = Judge()
    judge.runs(9, B)
    ended(judge)
    judge.left(77, A, owner)
    judge.poll(3)
    assert not judge.of(w.KillProcess) and judge.opinion() is G.HEALTHY


def test_a_process_of_a_user_who_has_the_gpu_again_is_not_killed() -> None:
    judge = Judge()
    ended(judge)
    judge.runs(8, A)
    judge.left(77, A, w.GpuOwner(77, True, 1000, None, 5))
    judge.poll(3)
    assert not judge.of(w.KillProcess) and judge.opinion() is G.HEALTHY


def test_the_jobs_own_processes_are_nothing() -> None:
    judge = Judge()
    judge.runs(7, A)
    judge.left(77, A, w.GpuOwner(77, True, 1000, (7, 1), 5))
    judge.left(78, A, w.GpuOwner(78, False))  # of another pid namespace
    judge.take()
    judge.poll(5)
    assert judge.take() == []


def test_a_pid_that_does_not_exist_is_a_leak_of_the_driver() -> None:
    judge = Judge()
    ended(judge)
    judge.left(77, A, w.GpuOwner(77, False))
    judge.poll(after_us=S)
    assert judge.opinion() is G.HEALTHY
    judge.poll()
    assert judge.machine.opinion(A).reason == "the driver names pid 77, which does not exist"
    assert judge.opinion() is G.DRAINED and not judge.of(w.KillProcess)
    judge.poll(20)
    assert not judge.of(w.NodeDrain)
    well(judge)
    assert judge.opinion() is G.HEALTHY


def test_a_process_of_no_job_makes_a_gpu_suspect() -> None:
    judge = Judge()
    judge.left(77, A, w.GpuOwner(77, True, 1234, None, 5))
    judge.poll()
    assert judge.machine.opinion(A).reason == "used by pid 77 of uid 1234, which is of no job"
    assert judge.opinion() is G.SUSPECT and not judge.of(w.KillProcess)
    well(judge)
    assert judge.opinion() is G.HEALTHY


def test_memory_that_no_process_has_drains_an_idle_gpu() -> None:
    judge = Judge()
    judge.shows(A, memory_used_kb=GB_KB + 1)
    judge.poll()
    assert judge.opinion() is G.HEALTHY  # once is a process that was just ending
    judge.poll()
    assert judge.machine.opinion(A).reason == "1024 MiB used by no process" and judge.opinion() is G.DRAINED
    judge.shows(A, memory_used_kb=GB_KB)
    judge.poll()
    assert judge.opinion() is G.HEALTHY


def test_memory_of_a_job_is_the_jobs() -> None:
    judge = Judge()
    judge.runs(7, A)
    judge.shows(A, memory_used_kb=50 * GB_KB)
    judge.poll(5)
    assert judge.opinion() is G.HEALTHY


# -- the driver


@pytest.mark.parametrize("booted", [False, True])
def test_without_an_answer_of_the_driver_all_gpus_are_failed_and_the_node_is_drained(booted: bool) -> None:
    judge = Judge()
    judge.poll()
    judge.runs(7, A)
    judge.take()
    if booted:
        judge.boot = "boot-2"
    judge.tell(w.Listed((), judge.boot, "driver/library version mismatch", 18))
    assert {judge.opinion(A), judge.opinion(B)} == {G.FAILED}
    assert [d.uuid for d in judge.machine.devices()] == [A, B]
    assert judge.of(w.JobAction) == []
    why = "NVML does not answer: driver/library version mismatch"
    assert judge.of(w.NodeDrain) == [w.NodeDrain(why)]
    judge.take()
    judge.listed()
    assert {judge.opinion(A), judge.opinion(B)} == {G.HEALTHY}
    assert judge.of(w.NodeDrain) == [w.NodeDrain(why, True)]


def test_a_driver_that_hangs_as_a_whole() -> None:
    judge = Judge()
    judge.tell(Hung(judge.now_us, "nvmlInitWithFlags"))
    assert {judge.opinion(A), judge.opinion(B)} == {G.UNRESPONSIVE}
    assert judge.of(w.NodeDrain) == [w.NodeDrain("NVML hung in nvmlInitWithFlags")]
    judge.tell(Answering(judge.now_us))
    assert {judge.opinion(A), judge.opinion(B)} == {G.HEALTHY}


def test_the_hung_gpu_is_named_by_its_index() -> None:
    judge = Judge()
    judge.tell(Hung(judge.now_us, "nvmlDeviceGetTemperature", B))
    assert judge.of(w.NodeDrain) == [w.NodeDrain("NVML hung in nvmlDeviceGetTemperature on GPU 1")]


# -- the node


@pytest.mark.parametrize(
    ("devices", "rules", "drains"),
    [
        ((device(A, 0), device(B, 1)), w.Rules(), False),
        ((device(A, 0), device(B, 1)), w.Rules(lost_drains_node=True), True),
        ((device(A, 0, has_nvswitch=True), device(B, 1, has_nvswitch=True)), w.Rules(), True),
        ((device(A, 0),), w.Rules(), True),
    ],
    ids=["plain", "by-setting", "nvswitch", "the-only-one"],
)
def test_a_lost_gpu_drains_the_node_where_others_cannot_do_without(
    devices: tuple[Any, ...], rules: w.Rules, drains: bool
) -> None:
    judge = Judge(devices)
    judge.tell(rules)
    judge.xid(79)
    assert judge.of(w.NodeDrain) == ([w.NodeDrain(f"XID 79 on {A}")] if drains else [])


def test_slowed_down_gpus_drain_the_node_when_they_are_more_than_half() -> None:
    judge = Judge()
    slowed(judge)
    assert not judge.of(w.NodeDrain)
    judge.shows(B, throttle=0x80)
    judge.poll(6)
    assert [drain.clear for drain in judge.of(w.NodeDrain)] == [False]


def test_one_slow_moment_or_the_softwares_limit_is_nothing() -> None:
    judge = Judge()
    judge.shows(A, throttle=0x40)
    judge.poll(5)
    judge.shows(A, throttle=0x5)
    judge.poll(60)
    assert judge.opinion() is G.HEALTHY
    judge.shows(A, throttle=0x40)
    judge.poll(5, after_us=S)  # looks between two polls count once
    assert judge.opinion() is G.HEALTHY


def test_the_node_is_drained_for_one_reason_at_a_time() -> None:
    judge = Judge()
    judge.tell(w.Rules(lost_drains_node=True))
    judge.tell(Hung(judge.now_us, "f", A))
    judge.xid(79, B)
    assert [drain.reason for drain in judge.of(w.NodeDrain)] == ["NVML hung in f on GPU 0"]
    judge.take()
    answers(judge)
    assert judge.of(w.NodeDrain) == [w.NodeDrain("NVML hung in f on GPU 0", True), w.NodeDrain(f"XID 79 on {B}")]


# -- single things


def test_a_link_that_is_slow_without_load_is_nothing() -> None:
    judge = Judge()
    judge.shows(A, pcie=(1, 16, 5, 16), util_percent=0)
    judge.poll(5)
    assert judge.opinion() is G.HEALTHY


def test_between_threshold_and_five_below_nothing_is_said_of_heat() -> None:
    judge = Judge()
    judge.shows(A, temperature_c=90)
    judge.poll()
    judge.shows(A, temperature_c=86)
    judge.poll()
    assert judge.opinion() is G.SUSPECT


def test_a_recovery_that_waits_for_a_job_ends_it_after_an_hour() -> None:
    judge = Judge()
    key = judge.runs(7, A)
    judge.shows(A, recovery_action=1)
    judge.poll()
    judge.take()
    judge.wait(61)
    judge.poll()
    assert judge.of(w.JobAction) == [w.JobAction(Act.END, (key,), f"recovery action 1 (reset) on {A}")]


def test_a_reset_that_the_driver_has_seen_ends_what_a_reset_mends() -> None:
    judge = Judge()
    judge.xid(119)
    judge.shows(A, recovery_action=1)
    judge.poll(2)
    assert judge.opinion() is G.DRAINED
    well(judge)
    assert judge.opinion() is G.HEALTHY and judge.machine.memory.records[A].resets == 1


def test_failed_remapping_lets_a_job_run_until_errors_rise() -> None:
    judge = Judge()
    judge.poll()
    key = judge.runs(7, A)
    judge.take()
    judge.shows(A, remap_failure=True)
    judge.poll(2)
    assert judge.opinion() is G.FAILED and not judge.of(w.JobAction)
    judge.shows(A, remap_failure=True, ecc_volatile=1)
    judge.poll()
    assert [(a.action, a.jobs) for a in judge.of(w.JobAction)][-1] == (Act.END, (key,))


def test_errors_before_the_first_look_or_a_new_driver_are_no_rise() -> None:
    judge = Judge()
    judge.shows(A, ecc_volatile=9, nvlink_errors=9)
    judge.poll(2)
    assert judge.opinion() is G.HEALTHY
    judge.shows(A, ecc_volatile=0, nvlink_errors=0)
    judge.poll(2)
    assert judge.opinion() is G.HEALTHY


def test_links_that_no_gpu_of_the_kind_has_are_not_down() -> None:
    judge = Judge()
    for uuid in (A, B):
        judge.shows(uuid, nvlinks_down=18)
    judge.poll(2)
    assert judge.opinion() is G.HEALTHY
    judge.shows(B, nvlinks_down=0)
    judge.poll(2)
    assert judge.machine.opinion(A).reason == "18 NVLinks down"


def test_what_an_administrator_has_accepted_comes_up_again_only_when_it_is_worse() -> None:
    judge = Judge()
    judge.shows(A, ecc_sram=1)
    judge.poll()
    judge.tell(w.Cleared(A))
    judge.poll(5)
    assert judge.opinion() is G.HEALTHY
    judge.shows(A, ecc_sram=2)
    judge.poll()
    assert judge.opinion() is G.DRAINED


def test_a_job_that_gets_a_gpu_in_the_moment_it_fails_is_ended() -> None:
    judge = Judge()
    judge.xid(79)
    judge.take()
    key = judge.runs(7, A)
    assert judge.of(w.JobAction) == [w.JobAction(Act.END, (key,), f"XID 79 on {A}")]


def test_a_job_that_gets_a_suspect_gpu_is_not() -> None:
    judge = Judge()
    judge.xid(109)
    judge.take()
    judge.runs(7, A)
    assert judge.opinion() is G.SUSPECT and judge.of(w.JobAction) == []


def test_an_instance_is_never_better_than_its_gpu() -> None:
    parent = device(A, 0, mig_enabled=True)
    part, other = device("MIG-1", 0, parent=A, profile="1g.18gb"), device("MIG-2", 0, parent=A, profile="1g.18gb")
    judge = Judge((parent, part, other, device(B, 1)))
    judge.poll()
    key = judge.runs(7, "MIG-1")
    judge.take()
    judge.xid(119)
    assert [judge.opinion(uuid) for uuid in (A, "MIG-1", "MIG-2", B)] == [G.DRAINED] * 3 + [G.HEALTHY]
    assert judge.of(w.JobAction) == [w.JobAction(Act.END, (key,), f"XID 119 on {A}")]
    judge.take()
    judge.listed(parent, device(B, 1))  # divided again
    assert [d.uuid for d in judge.machine.devices()] == [A, B]


def test_a_reset_is_wanted_where_it_may_help() -> None:
    judge = Judge()
    judge.xid(119)
    assert judge.machine.opinion(A).wants_reset
    judge.xid(79, B)
    assert not judge.machine.opinion(B).wants_reset
    reset(judge)
    assert not judge.machine.opinion(A).wants_reset


@pytest.mark.parametrize(
    ("code", "state", "actions"),
    [(0, G.UNRESPONSIVE, []), (10, G.UNRESPONSIVE, []), (16, G.DRAINED, [Act.END]), (15, G.FAILED, [Act.END])],
)
def test_a_gpu_that_does_not_say_its_name_to_a_daemon_that_starts(
    code: int, state: GpuState, actions: list[Act]
) -> None:
    """One that answers too late (10), or was left out because it hangs (0), is not lost: its job goes on."""
    before = Judge()
    judge = Judge(memory=before.machine.memory, before=before)
    key = judge.runs(7, A)
    judge.take()
    judge.listed(judge.devices[1], nameless=(code,))
    assert judge.opinion() is state
    assert [(said.action, said.jobs) for said in judge.of(w.JobAction)] == [(action, (key,)) for action in actions]
    if not actions:
        judge.listed()
        judge.poll(3)
        assert judge.opinion() is G.HEALTHY


def test_nothing_is_remembered_of_instances_that_are_gone() -> None:
    """A GPU that is divided again and again has new ones each time."""
    judge = Judge()
    for number in range(5):
        instance = device(f"MIG-{number}", 2, parent=A, profile="1g.18gb")
        judge.listed(*judge.devices, instance)
        judge.tell(w.Released(judge.runs(7 + number, instance.uuid)))
        judge.poll()
        judge.listed()
    assert judge.machine.memory.records.keys() == {A, B} and not judge.machine.leftovers.last
