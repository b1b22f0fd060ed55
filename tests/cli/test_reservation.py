"""scontrol create, update, delete and show reservation, and sbatch --reservation: words, requests, records."""

import time

import pytest

from cli.scontrol import body
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20 UTC


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv("SLURM_TIME_FORMAT", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def fake(monkeypatch, **answers):
    return FakeClient(**answers).install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "scontrol", body, *argv)


@pytest.mark.parametrize(
    ("words", "name", "changes"),
    [
        (
            ["reservation", "StartTime=now", "duration=60", "Nodes=n[1-2]", "user=ann,bob"], "",
            {"starttime": "now", "duration": "60", "nodes": "n[1-2]", "users": "ann,bob"},
        ),
        (
            ["res", "reservationname=m", "start=now", "end=tomorrow", "nodecnt=2", "accounts=a", "flags=maint,ignore_jobs"],
            "m", {"starttime": "now", "endtime": "tomorrow", "nodecnt": "2", "accounts": "a", "flags": "maint,ignore_jobs"},
        ),
        (
            ["ReservationName=m", "starttime=now", "dur=5", "tres=gres/gpu=2", "groups=g", "Partition=p", "feat='a&b'"],
            "m", {"starttime": "now", "duration": "5", "tres": "gres/gpu=2", "groups": "g", "partitionname": "p",
                  "features": "a&b"},
        ),
        (
            ["reservation", "starttime=now", "duration=5", "licenses=x:1", "users-=ann"], "",
            {"starttime": "now", "duration": "5", "licenses": "x:1", "users": "-ann"},
        ),
    ],
)  # fmt: skip
def test_create(words, name, changes, monkeypatch, capsys):
    client = fake(monkeypatch, CreateReservation=pb.CreateReservationReply(name="ann_3"))
    assert run(capsys, "create", *words) == (0, "Reservation created: ann_3\n", "")
    assert (client.request.name, dict(client.request.changes)) == (name, changes)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["reservation", "duration=5", "users=a", "nodes=n1"], "A start time must be given.  No reservation created."),
        (
            ["reservation", "starttime=now", "users=a", "nodes=n1"],
            "An end time or duration must be given.  No reservation created.",
        ),
        (
            ["reservation", "starttime=now", "duration=5", "nodes=n1"],
            "Either Users/Groups and/or Accounts/QOS must be specified.  No reservation created.",
        ),
        (
            ["reservation", "starttime=now", "duration=5", "users=a"],
            "Nodes, NodeCnt, CoreCnt, TRES, Licenses or PartitionName must be given.  No reservation created.",
        ),
        (["reservation", "colour=red"], "Unknown parameter colour=red.  No reservation created."),
        (["reservation", "n1"], "Unknown parameter n1.  No reservation created."),
        (
            ["reservation", "starttime=now", "start=now"],
            "Parameter starttime specified more than once.  No reservation created.",
        ),
    ],
)
def test_create_that_is_refused_before_anything_is_sent(words, text, monkeypatch, capsys):
    client = fake(monkeypatch)
    assert run(capsys, "create", *words) == (1, "", f"scontrol: error: {text}\n")
    assert client.calls == []


def test_refusals_of_the_controller(monkeypatch, capsys):
    busy = PenstockError(int(Code.NODES_BUSY), TEXT[Code.NODES_BUSY])
    unknown = PenstockError(int(Code.RESERVATION_INVALID), TEXT[Code.RESERVATION_INVALID])
    fake(monkeypatch, CreateReservation=busy, UpdateReservation=unknown, DeleteReservation=unknown)
    words = ("starttime=now", "duration=5", "users=a", "nodes=n1")
    assert run(capsys, "create", "reservation", *words) == (
        1, "", "Error creating the reservation: Requested nodes are busy\n",
    )  # fmt: skip
    assert run(capsys, "update", "reservationname=x", "duration=+5") == (
        1, "", "Error updating the reservation: Requested reservation is invalid\nslurm_update error: Requested reservation is invalid\n",
    )  # fmt: skip
    assert run(capsys, "delete", "reservationname=x") == (
        1, "", "delete_reservation reservationname=x: Requested reservation is invalid\n",
    )  # fmt: skip


def test_update(monkeypatch, capsys):
    client = fake(monkeypatch, UpdateReservation=pb.Empty())
    words = ("ReservationName=m", "Users+=bob", "Duration-=10", "flags=-FLEX", "nodes-=n1")
    assert run(capsys, "update", *words) == (0, "Reservation updated.\n", "")
    changes = {"users": "+bob", "duration": "-10", "flags": "-FLEX", "nodes": "-n1"}
    assert (client.request.name, dict(client.request.changes)) == ("m", changes)
    assert run(capsys, "update", "ReservationName=m") == (1, "", "No changes specified\n")


def test_a_job_may_be_given_a_reservation(monkeypatch, capsys):
    client = fake(monkeypatch, UpdateJobs=pb.JobResultsReply())
    assert run(capsys, "update", "jobid=5", "reservationname=m")[0] == 0
    assert dict(client.request.changes) == {"reservationname": "m"}


@pytest.mark.parametrize(
    "words", [["reservationname=m"], ["Reservation=m"], ["reservation", "m"], ["ReservationName", "m"]]
)
def test_delete(words, monkeypatch, capsys):
    client = fake(monkeypatch, DeleteReservation=pb.Empty())
    assert run(capsys, "delete", *words) == (0, "", "")
    assert client.request.name == "m"


RESERVATION = pb.ReservationInfo(
    name="m", start_at_us=T0, end_at_us=T0 + 90_000_000_000, is_active=True, node_list="n[1-2]", node_count=2,
    core_count=8, flags="MAINT,SPEC_NODES", tres="cpu=8", users=["ann", "bob"], accounts=["-phys"],
)  # fmt: skip
TEXT_OF_IT = """\
ReservationName=m StartTime=2023-11-14T22:13:20 EndTime=2023-11-15T23:13:20 Duration=1-01:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   TRES=cpu=8
   Users=ann,bob Groups=(null) Accounts=-phys Licenses=(null) State=ACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)

"""


def test_show(monkeypatch, capsys):
    fake(monkeypatch, ListReservations=pb.ListReservationsReply(reservations=[RESERVATION]))
    assert run(capsys, "show", "reservation") == (0, TEXT_OF_IT, "")
    assert run(capsys, "show", "res", "m") == (0, TEXT_OF_IT, "")
    one_line = " ".join(line.strip() for line in TEXT_OF_IT.splitlines() if line) + "\n"
    assert run(capsys, "-o", "show", "reservations") == (0, one_line, "")
    assert run(capsys, "show", "reservation", "x") == (1, "Reservation x not found\n", "")


def test_show_when_there_is_none(monkeypatch, capsys):
    fake(monkeypatch, ListReservations=pb.ListReservationsReply())
    assert run(capsys, "show", "reservations") == (0, "No reservations in the system\n", "")


def test_the_comment_comes_last(monkeypatch, capsys):
    with_comment = pb.ReservationInfo()
    with_comment.CopyFrom(RESERVATION)
    with_comment.comment = "for the course"
    fake(monkeypatch, ListReservations=pb.ListReservationsReply(reservations=[with_comment]))
    assert run(capsys, "show", "reservation")[1].splitlines()[-2] == "   Comment=for the course"
