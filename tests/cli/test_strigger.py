"""strigger against a controller that answers from a table; its complaints are Slurm's."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from cli.strigger import HEADER, KINDS, body
from ctld.core.records.periodic import TriggerKind
from penstock.errors import PenstockError
from penstock.v1.periodic_pb2 import ClearTriggersReply, ListTriggersReply, SetTriggerReply, TriggerInfo
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

SH = "--program=/bin/sh"


def run(capsys: Any, *argv: str) -> tuple[int, str, str]:
    return run_body(capsys, "strigger", body, *argv)


def fake(monkeypatch: Any, **answers: Any) -> FakeClient:
    triggers = [
        TriggerInfo(trigger_id=3, kinds=1, words="down", user_name="root", program="/bin/a"),
        TriggerInfo(trigger_id=12, kinds=32, words="time", job_id=77, offset_s=-600, user_name="ann", program="/b -x",
                    permanent=True),
        TriggerInfo(trigger_id=13, kinds=3, words="down,up", nodes="n[1-2]", user_name="ann", program="/c"),
    ]  # fmt: skip
    table = {
        "SetTrigger": SetTriggerReply(trigger_id=5),
        "ClearTriggers": ClearTriggersReply(trigger_ids=[3]),
        "ListTriggers": ListTriggersReply(triggers=triggers),
        **answers,
    }
    return FakeClient(**table).install(monkeypatch)


def test_bits_are_the_cores() -> None:
    assert {
        ("primary_slurmctld_resumed_operation" if kind is TriggerKind.CONTROLLER_UP else str(kind.name).lower()): int(
            kind
        )
        for kind in TriggerKind
        if kind is not TriggerKind.NEVER
    } == {**KINDS}


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (["--node", "--down", SH], {"kinds": 1, "program": "/bin/sh"}),
        (["-nn[1-2]", "-d", "-u", "-p", "/bin/sh -c x"], {"kinds": 3, "nodes": "n[1-2]", "program": "/bin/sh -c x"}),
        (["-j5", "-t", "-o", "-600", SH], {"kinds": 32, "job_id": 5, "offset_s": "-600", "program": "/bin/sh"}),
        (
            ["--jobid=5", "--fini", "--flags=PERM", SH],
            {"kinds": 64, "job_id": 5, "permanent": True, "program": "/bin/sh"},
        ),
        (["--idle", "--offset=600", SH], {"kinds": 16, "offset_s": "600", "program": "/bin/sh"}),
        (["-D", "--draining", "-F", "-r", SH], {"kinds": 4 | 1024 | 8 | 128, "program": "/bin/sh"}),
        (["-A", SH], {"kinds": 256, "program": "/bin/sh"}),
    ],
)
def test_set(monkeypatch: Any, capsys: Any, argv: list[str], fields: dict[str, Any]) -> None:
    client = fake(monkeypatch)
    assert run(capsys, "--set", *argv) == (0, "", "")
    assert MessageToDict(client.request, preserving_proto_field_name=True) == fields
    assert run(capsys, "--set", "-v", *argv)[2].endswith("strigger: trigger 5 set\n")


def test_what_cannot_happen_is_kept_with_a_warning(monkeypatch: Any, capsys: Any) -> None:
    client = fake(monkeypatch)
    status, _, err = run(capsys, "--set", "--primary_slurmdbd_failure", SH)
    assert status == 0 and err.startswith("strigger: warning: option --primary_slurmdbd_failure is accepted")
    assert (client.request.kinds, client.request.what) == (512, "primary_slurmdbd_failure")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "You must use exactly one of the following options: --set, --get or --clear"),
        (["--set", "--get"], "You must use exactly one of the following options: --set, --get or --clear"),
        (["--clear"], "You must specify a --id, --jobid, or --user to clear"),
        (["--set"], "You must specify a trigger (--down, --up, --reconfig, --time, --fini, --burst_buffer,"),
        (["--set", "--down"], "You must specify a --program value"),
        (["--set", "--time", SH], "You must specify a --jobid value"),
        (["--set", "--down", "--program=true"], 'The --program value must start with "/"'),
        (["--set", "--down", "--program=/nonexist"], "Invalid --program value, file not found"),
        (["--set", "--down", "--program=/tmp"], "Invalid --program value, not regular file"),
        (["--set", "--down", SH, "--offset=99999"], "The --offset parameter must be between +/-32000"),
        (["--set", "--down", SH, "--offset=abc"], "Invalid offset abc"),
        (["--set", "--down", SH, "--flags=X"], "Invalid flags X"),
        (["--set", "--jobid=abc", "--fini"], "Invalid jobid abc"),
        (["--set", "--jobid=0", "--fini"], "Invalid jobid 0"),
        (["--set", "--jobid=99999999999", "--fini"], "Invalid jobid 99999999999"),
        (["--clear", "--id=-3"], "Invalid id -3"),
        (["--clear", "--user=no such"], "Invalid user no such"),
        (["--set", "--down", "-nn1", "-j5", SH], "--jobid and --node exclude each other"),
    ],
)
def test_refused(monkeypatch: Any, capsys: Any, argv: list[str], words: str) -> None:
    client = fake(monkeypatch)
    status, out, err = run(capsys, *argv)
    assert (status, out) == (1, "") and err.startswith(f"strigger: error: {words}")
    assert not client.calls


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        ([], [3, 12, 13]), (["--id=12"], [12]), (["-j77"], [12]), (["--down"], [3, 13]), (["--time", "--up"], [12, 13]),
        (["--node=n2"], [3, 12, 13]), (["-nn3"], [3, 12]), (["--id=4"], []), (["--user=root"], [3]),
    ],
)  # fmt: skip
def test_get_filters(monkeypatch: Any, capsys: Any, argv: list[str], ids: list[int]) -> None:
    fake(monkeypatch)
    status, out, _ = run(capsys, "--get", "-N", *argv)
    assert status == 0 and [int(line.split()[0]) for line in out.splitlines()] == ids


def test_get_has_slurms_columns(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch)
    _, out, _ = run(capsys, "--get")
    assert out.splitlines() == [
        HEADER,
        "      3 node            * down                                     0 root           /bin/a",
        "     12 job            77 time                                  -600 ann      PERM  /b -x",
        "     13 node       n[1-2] down,up                                  0 ann            /c",
    ]


def test_clear(monkeypatch: Any, capsys: Any) -> None:
    client = fake(monkeypatch)
    assert run(capsys, "--clear", "--id=3", "-v") == (0, "", "strigger: cleared: 3\n")
    assert client.request.trigger_id == 3
    fake(monkeypatch, ClearTriggers=PenstockError(int(Code.NO_TRIGGER), TEXT[Code.NO_TRIGGER]))
    assert run(capsys, "--clear", "--id=3") == (1, "", "slurm_clear_trigger: No such process\n")
    assert run(capsys, "--clear", "--id=3", "-Q") == (0, "", "")
