"""A node daemon is upgraded in place (reliability 52): what version 0.1 wrote and its running supervisors understand.

The bytes were made by version 0.1, before steps of srun. A running stepd is older than the daemon that takes it over: its
record and the journal must be read, and orders for it must have their old format. Never change these bytes; a
format that changes gets a second set.
"""

import os
from pathlib import Path

import msgspec

from nodedaemon.base import orders
from nodedaemon.core.gpuhealth_messages import Memory
from nodedaemon.core.machine import NodeMachine
from nodedaemon.core.steps import NO_LEASE, StepKey, StepState
from nodedaemon.spool import steprecord
from nodedaemon.spool.journal import Journal

KEY = StepKey(7, 0, -5)
RECORD = bytes.fromhex(
    "45000000d1c80beb0600000005000000040000000600000004000000100000000600000073746570643437313131323334353631303033313730"
    "303030303030303030303030300061316232635d000000b670108d0b0000000000000010000000100000000100000001000000010000000200"
    "000002000000020000000200000002000000313730303030303030313030303030303137303030303030303230303030303033303031303230"
    "333034303530"
)
JOURNAL = bytes.fromhex(
    "20000000575eaa4f82a474797065a953706f6f6c426f726ea873706f6f6c5f6964a673706f6f6c311d00000054370e6082a474797065a8426f6f"
    "745365656ea7626f6f745f6964a5626f6f74311700000061fc8e3582a474797065a945706f63685365656ea565706f6368032e000000574f3143"
    "85a474797065a448656c64a36b6579930700fba565706f636803a5737461746501ab73746172745f61745f75730036000000ab41d55085a47479"
    "7065a753746172746564a873657175656e636501a36b6579930700fba561745f7573cf00060a24182d8240a3706964cd126815000000def8a393"
    "82a474797065a541636b6564a77468726f756768012d0000003a95b7d183a474797065aa4b696c6c57616e746564a36b6579930700fbaa6b696c"
    "6c5f61745f7573cf00060a2418a79440230000001e928bff83a474797065a953757370656e646564a36b6579930700fba973757370656e646564"
    "c3"
)
HEALTH = (
    b'{"boot_id":"boot","records":{"GPU-a":{"uuid":"GPU-a","device":{"uuid":"GPU-a","index":0,"minor":0,"type":"h200",'
    b'"memory_mb":1,"name":"H200","bus_id":"0","place":3},'
    b'"told":{"uuid":"GPU-a","reason":"XID 79"},"told_us":7}}}'
)
SIGNALS = bytes.fromhex("0400000006000000050000000100000003000000372e302e2d35313820313531627965")


def test_the_record_of_a_step_is_read(tmp_path: Path) -> None:
    (tmp_path / steprecord.NAME).write_bytes(RECORD)
    folder = os.open(tmp_path, os.O_RDONLY)
    claim, end = steprecord.read_record(folder, steprecord.NAME)
    os.close(folder)
    assert claim is not None and end is not None
    assert (claim.by, claim.pid, claim.pid_start, claim.user_id, claim.control) == (
        "stepd", 4711, 123456, 1003, b"\0a1b2c",
    )  # fmt: skip
    assert (end.start_at_us, end.end_at_us, end.exit_code, end.exit_signal, end.failure) == (
        1_700_000_001_000_000, 1_700_000_002_000_000, 3, 0, "",
    )  # fmt: skip


def test_the_journal_is_read(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(JOURNAL)
    folder = os.open(tmp_path, os.O_RDONLY)
    journal = Journal(folder)
    machine = NodeMachine()
    machine.replay(journal.read())
    journal.close()
    os.close(folder)
    assert journal.cut_bytes == 0
    step = machine.steps[KEY]
    assert (machine.spool_id, machine.boot_id, machine.epoch) == ("spool1", "boot1", 3)
    assert (step.state, step.epoch, step.suspended, step.lease) == (StepState.RUNNING, 3, True, NO_LEASE)
    assert step.kill_at_us == 1_700_000_009_000_000 and machine.next_sequence == 2
    machine.check()


def test_the_health_of_gpus_is_read() -> None:
    """Names in the file are older than those of the attributes."""
    record = msgspec.json.decode(HEALTH, type=Memory).records["GPU-a"]
    assert record.reported is not None and (record.reported.reason, record.reported_us) == ("XID 79", 7)
    assert record.device is not None and record.device.nvml_index == 3
    assert {"told", "told_us"} <= msgspec.to_builtins(record).keys()


def test_a_running_supervisor_gets_orders_in_its_format() -> None:
    assert orders.encode_signals(str(KEY), (18, 15), orders.SCOPE_ALL, "bye") == SIGNALS
