"""What the node keeps on disk: journal, step records, spool; and how it asks for its GPUs."""

import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.base.folders import open_folder
from nodedaemon.base.framing import Damaged, dump, frame, load, pack, unframe, unpack
from nodedaemon.base.nodeclock import wall_us
from nodedaemon.base.orders import ORDER_HEAD, LaunchOrder, TaskOrder, decode_launch, decode_signals, encode_signals
from nodedaemon.core import messages as m
from nodedaemon.core.machine import NodeMachine
from nodedaemon.core.steps import StepKey, StepState
from nodedaemon.daemon import inventory
from nodedaemon.daemon.link import BadCredentials, make_target
from nodedaemon.spool.journal import Journal
from nodedaemon.spool.spool import SPARE_SCRIPT_BYTES_MAX, Spool, SpoolError, prepare_folder
from nodedaemon.spool.steprecord import (
    NEVER,
    STEPD,
    TASK_END,
    Claim,
    StepEnd,
    read_record,
    task_ends,
    write_claim,
    write_end,
)
from nodedaemon.stepd import batchscript
from penstock.values.errors import BadValue
from penstock.values.stepframes import BadFrame, FrameKind, FrameReader
from penstock.values.stepframes import frame as step_frame

KEY = StepKey(3, 1, -5)
DAY_NS = 86_400 * 10**9
RECORDS: list[m.AnyRecord] = [
    m.SpoolCreated("s"),
    m.BootSeen("b"),
    m.EpochSeen(4),
    m.SpooledStep(KEY, 4, StepState.ACCEPTED),
    m.KillWanted(KEY, 99),
    m.Started(1, KEY, 10, 20),
    m.Exited(2, m.StepEnded(KEY, 10, 30, exit_code=1, failure="é")),
    m.Acked(2),
    m.Forgotten(KEY),
]


@pytest.fixture
def folder(tmp_path):
    fd = open_folder(str(tmp_path))
    yield fd
    os.close(fd)


def test_the_journal_gives_back_what_was_written(folder):
    journal = Journal(folder)
    assert journal.read() == []
    journal.append(RECORDS[:5])
    journal.append(RECORDS[5:])
    journal.sync()
    journal.close()
    again = Journal(folder)
    assert again.read() == RECORDS
    again.compact(RECORDS[:2])
    again.append(RECORDS[2:3])
    again.close()
    last = Journal(folder)
    assert (last.read(), last.cut_bytes) == (RECORDS[:3], 0)
    last.close()
    assert os.listdir(folder) == ["journal"]


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_end_costs_only_the_records_from_there_on(folder, tmp_path, damage):
    journal = Journal(folder)
    journal.append(RECORDS)
    journal.close()
    whole = (tmp_path / "journal").read_bytes()
    for at in range(0, len(whole), 7):
        cut = whole[:at]
        if damage == "flip":
            cut += bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        (tmp_path / "journal").write_bytes(cut)
        journal = Journal(folder)
        kept = journal.read()
        assert kept == RECORDS[: len(kept)]
        journal.append([m.Acked(7)])  # it goes on behind the last whole record
        journal.close()
        journal = Journal(folder)
        assert journal.read() == [*kept, m.Acked(7)]
        journal.close()


@given(st.lists(st.binary()))
def test_packed_parts_come_back(parts):
    data = pack(parts)
    assert unpack(data) == parts
    with pytest.raises(Damaged):
        unpack(data + b"x")
    assert unframe(frame(data)) == data
    assert unframe(frame(data)[:-1]) is None


def all_of(order, *but):
    """Every field; what nobody has set is as it is read."""
    return {name: getattr(order, name, None) for name in LaunchOrder.__annotations__ if name not in but}


@given(
    argv=st.lists(st.binary()),
    env=st.dictionaries(st.binary(min_size=1).filter(lambda b: b"=" not in b), st.binary()),
    limits=st.dictionaries(st.sampled_from(["NOFILE", "CORE"]), st.integers(-1, 2**63 - 1)),
)
def test_an_order_arrives_as_it_was_sent(argv, env, limits):
    order = LaunchOrder(
        key="1.2.-5", user_id=5, group_id=6, user_name="ünal", script=b"\0\xff", argv=argv, environment=env,
        work_dir=b"/\xff", std_out=b"o", std_err=b"", std_in=b"i", open_append=True, rlimits=limits, umask=0o27,
        memory_limit_mb=9,
    )  # fmt: skip
    data = order.encode()
    key_bytes, body_bytes = ORDER_HEAD.unpack_from(data)
    body_at = ORDER_HEAD.size + key_bytes
    assert len(data) == body_at + body_bytes
    got = decode_launch(data[ORDER_HEAD.size : body_at].decode(), data[body_at:])
    assert all_of(got) == all_of(order)
    assert decode_signals(encode_signals("1.2.-5", (18, 15), 1, "né")) == ("1.2.-5", (18, 15), 1, "né")


def test_the_tasks_of_an_order_arrive_with_it():
    tasks = [
        TaskOrder(7, argv=[b"a", b"\xff"], environment={b"A": b"1"}, cpus=[0, 3], mem_nodes=[1], std_out=b"o"),
        TaskOrder(9),
    ]
    order = LaunchOrder(
        key="1.0.3", kind="step", tasks=tasks, cpu_ids=[0, 1], mpi_facts={"nodes": "a"}, denied_devices=["/dev/x"]
    )
    data = order.encode()
    body_at = ORDER_HEAD.size + len("1.0.3")
    got = decode_launch("1.0.3", data[body_at:])
    assert [[getattr(t, n) for n in TaskOrder.__slots__] for t in got.tasks] == [
        [getattr(t, n) for n in TaskOrder.__slots__] for t in tasks
    ]
    assert all_of(got, "tasks") == all_of(order, "tasks")


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_what_is_dumped_is_loaded(value):
    assert load(dump(value)) == value


def test_a_damaged_value_is_told():
    for data in (b"", b"x", b"l\x01\0\0\0"):
        with pytest.raises(Damaged):
            load(data)


@given(
    st.lists(st.tuples(st.sampled_from(list(FrameKind)), st.binary(max_size=40), st.integers(0, 2**32 - 1))), st.data()
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames, data):
    stream = b"".join(step_frame(kind, payload, task, 1) for kind, payload, task in frames)
    reader, got = FrameReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[:size])
        stream = stream[size:]
        while (one := reader.take()) is not None:
            got.append(one)
    assert got == [(kind, 1, task, payload) for kind, payload, task in frames]
    assert reader.counted == sum(12 + len(payload) for _, payload, _ in frames)


def test_a_frame_that_claims_too_much_is_refused():
    reader = FrameReader()
    reader.feed(b"\x23\0\0\0" + b"\xff" * 8)
    with pytest.raises(BadFrame):
        reader.take()


def test_the_first_claim_counts_and_the_end_follows_it(folder):
    assert read_record(folder, "record") == (None, None)
    first = write_claim(folder, Claim(STEPD, 10, 20, 30, 40, b"\0abc"))
    assert first >= 0
    assert write_claim(folder, Claim(NEVER, 11, 0, 0, 41, b"")) == -1
    write_end(first, StepEnd(1, 2, 3, 4, "why\n", True, (5, 6, 7, 8, 9)))
    os.close(first)
    claim, end = read_record(folder, "record")
    assert (claim.by, claim.pid, claim.pid_start, claim.user_id, claim.at_us, claim.control) == (
        STEPD, 10, 20, 30, 40, b"\0abc",
    )  # fmt: skip
    assert (end.start_at_us, end.exit_code, end.failure, end.out_of_memory, end.usage) == (
        1, 3, "why\n", True, (5, 6, 7, 8, 9),
    )  # fmt: skip


def test_a_record_whose_first_claim_is_damaged_lets_nobody_start(folder, tmp_path):
    (tmp_path / "record").write_bytes(b"half a cl")
    assert write_claim(folder, Claim(STEPD, 10, 20, 30, 40, b"")) == -1
    assert read_record(folder, "record") == (None, None)


def test_no_record_is_read_or_written_through_a_link(folder, tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "record").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        write_claim(folder, Claim(STEPD, 1, 1, 1, 1, b""))
    assert read_record(folder, "record") == (None, None)
    assert (tmp_path / "target").read_text() == "mine"


def test_a_spool_remembers_its_name_and_notices_a_reboot(tmp_path):
    first = Spool(str(tmp_path / "spool"), "boot1", "id1")
    assert first.is_new and not first.was_rebooted
    first.close()
    second = Spool(str(tmp_path / "spool"), "boot1", "id2")
    assert second.records[0] == m.SpoolCreated("id1")
    assert not second.is_new and not second.was_rebooted
    second.close()
    third = Spool(str(tmp_path / "spool"), "boot2", "id3")
    assert third.was_rebooted
    third.close()


def test_the_nodes_time_passes_evenly_over_restarts_of_the_daemon(tmp_path, monkeypatch):
    """Whatever is done to the machine's clock, and again in each boot; also from a journal without it (an earlier
    release), and after a compaction."""
    path, true_ns = str(tmp_path / "spool"), time.time_ns

    def opened(boot: str, day: int) -> Spool:
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + day * DAY_NS)
        spool = Spool(path, boot, "id")
        machine = NodeMachine()
        machine.replay(spool.records)
        spool.journal.compact(machine.snapshot())
        spool.close()
        return spool

    prepare_folder(path)
    folder = open_folder(path)
    old = Journal(folder)
    old.append([m.SpoolCreated("id"), m.BootSeen("boot1")])
    old.close()
    os.close(folder)
    first = opened("boot1", 7)
    assert abs(first.clock.now_us() - wall_us()) < DAY_NS // 2000
    assert [opened("boot1", day).clock.base_us for day in (7, 0, -3)] == [first.clock.base_us] * 3
    monkeypatch.setattr(time, "time_ns", true_ns)
    assert first.clock.now_us() - wall_us() > 6 * DAY_NS // 1000
    second = opened("boot2", -2)
    assert abs(second.clock.now_us() - wall_us()) < DAY_NS // 2000
    assert not second.is_new and second.was_rebooted


def test_only_folders_that_their_own_supervisor_has_ended_are_used_again(tmp_path):
    spool = Spool(str(tmp_path / "spool"), "boot", "id")
    keys = [StepKey(i, 1, -5) for i in range(4)]
    for key in keys[:3]:
        spool.make_folder(key)
        (tmp_path / "spool" / "steps" / str(key) / "slurm_script").write_text("x")
    for key in keys[:2]:
        fd = open_folder(str(key), spool.steps_fd)
        record = write_claim(fd, Claim(STEPD, 1, 1, 1, 1, b""))
        write_end(record, StepEnd(1, 2, 0, 0, "", False, (0,) * 5))
        os.close(record)
        os.close(fd)
    (tmp_path / "spool" / "steps" / str(keys[1]) / "left by the user").mkdir()
    spool.sweep([*keys, StepKey(99, 1, -5)])
    assert (spool.folders(), len(os.listdir(spool.steps_fd))) == ([], 1)
    assert spool.claim_never(keys[0], 5)  # swept: nobody can start it
    spool.make_folder(keys[3])
    assert spool.folders() == [str(keys[3])]
    assert spool.read(keys[3]) == (None, None)
    folder = tmp_path / "spool" / "steps" / str(keys[3])
    assert sorted(os.listdir(folder)) == ["record", "slurm_script"]
    assert (folder / "record").stat().st_size == 0
    spool.close()


def test_a_large_script_does_not_stay_in_a_spare_folder(tmp_path):
    spool = Spool(str(tmp_path / "spool"), "boot", "id")
    key = StepKey(1, 1, -5)
    spool.make_folder(key)
    (tmp_path / "spool" / "steps" / str(key) / "slurm_script").write_bytes(b"x" * (SPARE_SCRIPT_BYTES_MAX + 1))
    folder_fd = open_folder(str(key), spool.steps_fd)
    record = write_claim(folder_fd, Claim(STEPD, 1, 1, 1, 1, b""))
    write_end(record, StepEnd(1, 2, 0, 0, "", False, (0,) * 5))
    os.close(record)
    spool.sweep([key])
    assert os.listdir(folder_fd) == ["record"]
    os.close(folder_fd)
    spool.close()


@pytest.mark.parametrize("spoilt", ["", "linked", "written", "longer", "mode", "link", "unreadable"])
def test_a_script_of_an_earlier_step_serves_only_if_it_is_the_same(tmp_path, spoilt):
    script = b"#!/bin/sh\ntrue\n"
    path = tmp_path / "slurm_script"
    folder_fd = open_folder(str(tmp_path))

    def write() -> int:
        batchscript.provide(folder_fd, script, os.getuid(), os.getgid(), os.geteuid() == 0)
        return path.stat().st_ino

    first = write()
    keeper = os.open(path, os.O_RDONLY)  # so that its number is not given to another file
    if spoilt == "linked":
        os.link(path, tmp_path / "other")
    elif spoilt == "mode":
        path.chmod(0o700)
    elif spoilt == "unreadable":
        path.chmod(0)
    elif spoilt == "link":
        path.rename(tmp_path / "other")
        path.symlink_to("other")
    elif spoilt:
        path.chmod(0o700)
        path.write_bytes(script.upper() if spoilt == "written" else script + b"#")
        path.chmod(0o500)
    assert (write() == first) == (not spoilt)
    assert path.read_bytes() == script and not path.is_symlink() and path.stat().st_mode & 0o777 == 0o500
    if spoilt == "written":
        assert os.read(keeper, 99) == script.upper()  # the removed file has what its user wrote
    os.close(keeper)
    os.close(folder_fd)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_script_of_another_user_does_not_serve(tmp_path):
    folder_fd = open_folder(str(tmp_path))
    batchscript.provide(folder_fd, b"#!/bin/sh\n", 65534, 65534, True)
    keeper = os.open(tmp_path / "slurm_script", os.O_RDWR)
    batchscript.provide(folder_fd, b"#!/bin/sh\n", 1, 1, True)
    os.write(keeper, b"rm -rf")
    found = (tmp_path / "slurm_script").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1, 1, 0o500)
    assert (tmp_path / "slurm_script").read_bytes() == b"#!/bin/sh\n"
    os.close(keeper)
    os.close(folder_fd)


def test_a_spool_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot prepare the spool folder"):
        Spool(str(tmp_path / "file" / "spool"), "boot", "id")


def test_a_key_that_others_can_read_is_refused(tmp_path):
    for name in ("ca.pem", "node.pem", "node.key"):
        (tmp_path / name).write_text("x")
    (tmp_path / "node.key").chmod(0o640)
    with pytest.raises(BadCredentials, match="readable by others"):
        make_target("h:1", str(tmp_path))
    (tmp_path / "node.key").unlink()
    with pytest.raises(BadCredentials, match="--join"):
        make_target("h:1", str(tmp_path))


@pytest.mark.parametrize(("text", "found"), [("4", (4, "")), ("2:a100", (2, "a100")), ("0", (0, ""))])
def test_pretended_gpus(text, found):
    assert inventory.parse_gpus(text) == found


@pytest.mark.parametrize("text", ["", "-1", "x", "1025", "2:", "2:a b", "2:a/b"])
def test_pretended_gpus_that_make_no_sense(text):
    with pytest.raises(BadValue):
        inventory.parse_gpus(text)


def test_pretended_gpus_are_as_many_as_were_given():
    taken, found = inventory.take_inventory("n1", inventory.Pretended(cpus=4, gpus=(2, "h200")))
    assert [(gpu.uuid, gpu.index, gpu.type, gpu.memory_mb, gpu.capability) for gpu in taken.gpus] == [
        ("GPU-pretended-n1-0", 0, "h200", 143_771, "9.0"), ("GPU-pretended-n1-1", 1, "h200", 143_771, "9.0"),
    ]  # fmt: skip
    assert taken.pretended and taken.gpu_why == "" and len(found.devices) == 2


def test_an_inventory_of_this_machine():
    found, _ = inventory.take_inventory("n1", inventory.Pretended())
    assert found.cpus == found.sockets * found.cores_per_socket * found.threads_per_core >= 1
    assert found.real_memory_mb > 0 and found.boot_at_us > 0 and not found.pretended


def test_an_end_of_an_earlier_version_and_one_with_tasks_are_read(tmp_path):
    folder_fd = os.open(tmp_path, os.O_RDONLY)
    ends: tuple[tuple[str, dict[str, Any]], ...] = (
        ("old", {}),
        ("new", {"tasks": TASK_END.pack(3, 256) + TASK_END.pack(70_000, 9), "x": [1]}),
    )
    for name, more in ends:
        (tmp_path / name).mkdir()
        inner_fd = os.open(tmp_path / name, os.O_RDONLY)
        fd = write_claim(inner_fd, Claim(STEPD, 1, 2, 3, 4, b"\0abc"))
        write_end(fd, StepEnd(5, 6, 7, 0, "", False, (1, 2, 3, 4, 5), more))
        os.close(fd)
        os.close(inner_fd)
    _, old = read_record(folder_fd, "old/record")
    _, new = read_record(folder_fd, "new/record")
    os.close(folder_fd)
    assert (old.exit_code, old.more, task_ends(old)) == (7, {}, ())
    assert (new.usage, new.more["x"], task_ends(new)) == ((1, 2, 3, 4, 5), [1], ((3, 256), (70_000, 9)))
