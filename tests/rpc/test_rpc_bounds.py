"""The table of bounds, and the walker that every message passes (ctld/rpc/gate/bounds.py, incoming.py)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ctld.agents.link import REPORTS, NodeLink
from ctld.core.records.events import StepExited
from ctld.rpc.gate import bounds, incoming
from ctld.rpc.gate.rights import RIGHTS
from ctld.rpc.server import FILES
from penstock.v1 import common_pb2, controller_pb2, governance_pb2, node_pb2, periodic_pb2, steps_pb2
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.taskends import GROUPS_MAX, RANKS_CHARS_MAX
from penstock.values.taskset import TaskSet

SUBMIT = "/penstock.v1.Controller/SubmitJob"


def read(method: str, message: Any) -> Any:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return asyncio.run(incoming.Reader(method).read(data))


def refused(method: str, message: Any) -> incoming.OutOfBounds:
    with pytest.raises(incoming.OutOfBounds) as error:
        read(method, message)
    assert error.value.text.isprintable() and len(error.value.text) < 300
    return error.value


def test_every_field_of_every_request_has_a_bound_of_its_kind() -> None:
    bounds.check_complete(FILES)
    assert bounds.requests(FILES).keys() == RIGHTS.keys()


def test_a_field_without_a_bound_and_a_bound_without_a_field_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(bounds.FIELDS, "GresCount.count")
    with pytest.raises(LookupError, match="GresCount.count"):
        bounds.check_complete(FILES)
    monkeypatch.setitem(bounds.FIELDS, "GresCount.count", bounds.ANY_U32)
    monkeypatch.setitem(bounds.FIELDS, "GresCount.colour", bounds.ANY_U32)
    with pytest.raises(RuntimeError, match=r"GresCount\.colour"):
        bounds.check_complete(FILES)
    monkeypatch.delitem(bounds.FIELDS, "GresCount.colour")
    monkeypatch.setitem(bounds.FIELDS, "JobRequest.partitions", bounds.LIST)
    with pytest.raises(RuntimeError, match="not one of its kind"):
        bounds.check_complete(FILES)


def job(**fields: Any) -> controller_pb2.SubmitJobRequest:
    return controller_pb2.SubmitJobRequest(job=common_pb2.JobRequest(**fields))


@pytest.mark.parametrize(
    ("message", "code", "why"),
    [
        (job(comment="a\x1b[2J"), Code.INVALID_VALUE, "job.comment: control character 0x1b at position 1"),
        (job(comment="a\nJobId=1"), Code.INVALID_VALUE, "job.comment: control character 0x0a at position 1"),
        (job(extra="\u202eb"), Code.INVALID_VALUE, "job.extra: control character 0x202e at position 0"),
        (job(work_dir=b"/tmp/a\nb"), Code.INVALID_VALUE, "job.work_dir: control character 0x0a at position 6"),
        (job(std_out=b"x" * 5000), Code.PATHNAME_TOO_LONG, "job.std_out: 5000 bytes, the limit is 4096"),
        (job(partitions=["a", "b\t"]), Code.INVALID_PARTITION, "job.partitions[1]: control character 0x09"),
        (
            job(account="x" * 2000),
            Code.INVALID_ACCOUNT,
            "job.account: 2000 characters, the limit of a name is 256 bytes",
        ),
        (job(begin_at_us=1 << 62), Code.INVALID_TIME_VALUE, "job.begin_at_us: 4611686018427387904 (allowed: 0 to"),
        (job(begin_at_us=-5), Code.INVALID_TIME_VALUE, "job.begin_at_us: -5"),
        (job(deadline_at_us=1 << 62), Code.INVALID_TIME_VALUE, "job.deadline_at_us"),
        (job(time_limit_s=1 << 62), Code.INVALID_TIME_LIMIT, "job.time_limit_s"),
        (job(switches_wait_s=1 << 62), Code.INVALID_TIME_VALUE, "job.switches_wait_s"),
        (job(mem_per_node_mb=1 << 62), Code.INVALID_VALUE, "job.mem_per_node_mb"),
        (job(ntasks=1 << 31), Code.INVALID_VALUE, "job.ntasks"),
        (job(gres_per_node=[common_pb2.GresCount(name="gpu", count=1 << 62)]), Code.INVALID_VALUE, "[0].count"),
        (job(gres_per_node=[common_pb2.GresCount()] * 1025), Code.INVALID_VALUE, "1025 entries, the limit is 1024"),
        (job(rlimits={"A\n": 1}), Code.INVALID_VALUE, "a key of job.rlimits: control character 0x0a"),
        (job(array="1," * 40_000), Code.INVALID_ARRAY, "job.array: 80000 characters"),
        (
            controller_pb2.SubmitJobRequest(components=[common_pb2.JobRequest()] * 128),
            Code.INVALID_VALUE,
            "components: 128 entries, the limit is 127",
        ),
        (
            controller_pb2.SubmitJobRequest(components=[common_pb2.JobRequest(comment="\x07")]),
            Code.INVALID_VALUE,
            "components[0].comment: control character 0x07",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_words(message: Any, code: Code, why: str) -> None:
    error = refused(SUBMIT, message)
    assert error.code == code
    assert why in error.text


def test_data_stays_as_it_is_and_usual_texts_pass() -> None:
    spec = common_pb2.JobSpec(script=b"#!/bin/sh\x1b\xff\n", argv=[b"\x1b", b"\n"], environment=[b"A=\x00\x1b\n"])
    fields: dict[str, Any] = {"comment": "für Ünïcode \u00a0 日本", "work_dir": b"/home/\xff/x", "time_limit_s": -1}
    message = controller_pb2.SubmitJobRequest(job=common_pb2.JobRequest(**fields), spec=spec)
    assert read(SUBMIT, message) == message
    text = steps_pb2.NotifyJobRequest(id="1", text="two\nlines\tand a tab")
    assert read("/penstock.v1.Steps/NotifyJob", text) == text
    tab = periodic_pb2.UpdateCrontabRequest(text="# mine\n0 5 * * *\ttrue\n")
    assert read("/penstock.v1.Periodic/UpdateCrontab", tab) == tab


def test_a_long_message_is_counted_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    never = SimpleNamespace(FromString=lambda data: pytest.fail("it was decoded"))
    with monkeypatch.context() as patch:
        patch.setattr(incoming, "GetMessageClass", lambda descriptor: never)
        reader = incoming.Reader("/penstock.v1.Controller/ListNodes")
    for data, why in (
        (b"\x0a\x00" * 100_000, "more than 60000 elements"),
        (b"\x0a\x00" * 1_000_000, "2000000 bytes, the limit is 1048576"),
        (b"\x0b" * 100_000, "cannot be decoded"),
        (b"\x0a\xff\xff\x7f" + b"x" * 100_000, "cannot be decoded"),
        (b"\xff" * 100_000, "cannot be decoded"),
    ):
        with pytest.raises(incoming.OutOfBounds, match=why):
            asyncio.run(reader.read(data))
    with pytest.raises(incoming.OutOfBounds, match="cannot be decoded"):
        read("/penstock.v1.Controller/ListNodes", b"\xff\xff")


def test_messages_inside_messages_have_a_depth() -> None:
    message = node_pb2.NodeMessage()
    for _ in range(40):
        message = node_pb2.NodeMessage(more=[message])
    assert "messages inside messages" in refused("/penstock.v1.NodeLink/Connect", message).text


def test_elements_of_the_whole_request_are_counted() -> None:
    change = governance_pb2.ChangeManyRequest()
    for _ in range(40):
        change.changes.add().accounts.names.extend(["x"] * 10_000)
    assert "more than 300000 elements" in refused("/penstock.v1.Governance/ChangeMany", change).text


def many_entries() -> Any:
    change = governance_pb2.ChangeManyRequest()
    change.changes.add().accounts.changes.update({f"k{i}": "v" for i in range(100_000)})
    return change


def many_messages() -> Any:
    change = governance_pb2.ChangeManyRequest()
    for _ in range(50_000):
        change.changes.add()
    return change


def many_names() -> Any:
    return controller_pb2.ControlJobsRequest(ids=[str(i) for i in range(20_000)])


def many_steps() -> Any:
    """Inside another message."""
    held = [node_pb2.HeldStep(key=node_pb2.StepKey(job_id=i)) for i in range(50_000)]
    return node_pb2.NodeMessage(register=node_pb2.Register(held=held))


@pytest.mark.parametrize(
    ("method", "make", "turns"),
    [
        ("/penstock.v1.Governance/ChangeMany", many_entries, 300_000 // incoming.COUNTED_AT_ONCE),
        ("/penstock.v1.Governance/ChangeMany", many_messages, 50_000 // incoming.CHECKED_AT_ONCE),
        ("/penstock.v1.Controller/ControlJobs", many_names, 20_000 // incoming.CHECKED_AT_ONCE),
        ("/penstock.v1.NodeLink/Connect", many_steps, 50_000 // incoming.CHECKED_AT_ONCE),
    ],
)
def test_26_2_a_long_message_is_read_in_many_turns(method: str, make: Any, turns: int) -> None:
    """Beside each of them other calls go on: these need some ten, and a turn is some milliseconds."""
    data = make().SerializeToString()

    async def story() -> None:
        reading = asyncio.ensure_future(incoming.Reader(method).read(data))
        others = 0
        while not reading.done():
            others += 1
            await asyncio.sleep(0)
        if make is many_entries:
            with pytest.raises(incoming.OutOfBounds, match="more than 300000 elements"):
                await reading
        else:
            assert await reading == make()
        assert others >= turns
        assert incoming.COUNTED_AT_ONCE <= 5_000 and incoming.CHECKED_AT_ONCE <= 1_000

    asyncio.run(story())


def long_reports(number: int) -> node_pb2.NodeMessage:
    """So many reports in a bundle, each of GPUs with notes as long as may be, which are corrected."""
    notes = ["\x1b" * 4096] * 64
    report = node_pb2.Report(gpus=node_pb2.GpuReport(health=[node_pb2.GpuHealth(uuid="GPU-1", notes=notes)]))
    return node_pb2.NodeMessage(more=[node_pb2.NodeMessage(report=report)] * number)


def test_09_a_long_message_inside_a_message_is_read_in_many_turns() -> None:
    """What is long may be deep inside; a turn is of some bytes, as to correct a text takes longer than to look at it."""
    data = long_reports(16).SerializeToString()

    async def story() -> None:
        reading = asyncio.ensure_future(incoming.Reader("/penstock.v1.NodeLink/Connect").read(data))
        others = 0
        while not reading.done():
            others += 1
            await asyncio.sleep(0)
        found = await reading
        assert isinstance(found, node_pb2.NodeMessage)
        assert found.more[15].report.gpus.health[0].notes[63].startswith("\\x1b\\x1b")
        assert others >= 16 * 64 * 4096 // (incoming.CHECKED_AT_ONCE * incoming.BYTES_OF_ENTRY)

    asyncio.run(story())


def test_a_node_is_mended_and_not_refused() -> None:
    """What is refused would stay in its spool and be sent again forever."""
    end = node_pb2.StepExited(failure="a\x1b[2Jb\nc" + "x" * 9000, start_at_us=1 << 62, end_at_us=-1)
    message = node_pb2.NodeMessage(report=node_pb2.Report(exited=end))
    message.report.notice.SetInParent()
    message = node_pb2.NodeMessage(report=node_pb2.Report(exited=end))
    found = read("/penstock.v1.NodeLink/Connect", message).report.exited
    assert found.failure.startswith("a\\x1b[2Jb\\x0ac") and len(found.failure) <= bounds.TEXT_MAX
    assert (found.start_at_us, found.end_at_us) == (bounds.AT.high, 0)
    gpu = node_pb2.Inventory(gpus=[node_pb2.GpuDevice(type="a\nb", files=["/dev/x\n"])])
    found = read("/penstock.v1.NodeLink/Connect", node_pb2.NodeMessage(register=node_pb2.Register(inventory=gpu)))
    assert found.register.inventory.gpus[0].type == "a\\x0ab"
    assert found.register.inventory.gpus[0].files[0] == "/dev/x\\x0a"


def test_ends_of_tasks_that_are_too_many_and_too_long_lose_no_end_of_a_step() -> None:

    def event_of(ranks: str, number: int) -> StepExited:
        group = common_pb2.TaskEnds(ranks=ranks, exit=common_pb2.ExitStatus(code=3), node="n1" * 9999)
        end = node_pb2.StepExited(exit=group.exit, task_ends=[group] * number, task_ends_left_out=1 << 31)
        message = read("/penstock.v1.NodeLink/Connect", node_pb2.NodeMessage(report=node_pb2.Report(exited=end)))
        link = cast(NodeLink, SimpleNamespace(node="n1", link_id=1, by_our_clock=lambda at_us: at_us))
        event = REPORTS["exited"](link, message.report)
        assert isinstance(event, StepExited) and (event.exit_code, event.task_ends_left_out) == (3, 1 << 31)
        return event

    assert [len(ranks) for _, _, ranks in event_of("0," * 8_000, 99).task_ends] == [RANKS_CHARS_MAX + 1]
    assert len(event_of("1", 300).task_ends) == GROUPS_MAX + 1
    cut = event_of("0," * (1 << 16), 8).task_ends[0][2]  # what the gate has shortened is no list of ranks any more
    with pytest.raises(BadValue):
        TaskSet.parse(cut)
