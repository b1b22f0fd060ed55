"""A month of made-up jobs: what sacct says of each of them, summed, is what sreport says from the roll-up, to the second.

Both commands run as they are; in place of the controller stand the functions that answer for it, on one database that the
store has written. Times are whole seconds, as sacct shows them, and the window's ends lie in the middle of jobs.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

from accounting.jobreports import JobReportQuery, sizes
from accounting.records import Records
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from accounting.usage import UsageQuery, cluster, usage
from cli import sacct, sreport
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.rpc.gate.visibility import ALL_JOBS
from ctld.rpc.jobs.records import record_filter, record_message
from penstock.clusterfile import ClusterFile
from penstock.v1.accounting_pb2 import ListRecordsReply
from penstock.v1.governance_pb2 import ReportReply, ReportRequest, ReportRow
from penstock.v1.shares_pb2 import Association, ListAssociationsReply
from penstock.values.states import JobState
from penstock.values.tres import parse_tres
from tests.cli.fake_controller import FakeClient, run_body
from tests.store.making import leading, make_job, submitted

DAY_US = 24 * HOUR_US
#: 2026-10-01T00:00:00 UTC, and forty days later; the window is from the 3rd to the 31st.
FIRST_US = 1_790_812_800_000_000
NOW_US = FIRST_US + 40 * DAY_US
WINDOW = ("2026-10-03T06:00:00", "2026-10-31T18:00:00")
PARENTS = {"science": "root", "physics": "science", "bio": "science", "art": "root"}


def made_up(rng: random.Random, job_id: int, attempt: int = 0) -> JobRow:
    """A job of somebody with some CPUs and GPUs, that has run, runs or waits."""
    cpus, gpus = rng.choice((1, 2, 16, 300)), rng.choice((0, 0, 1, 8))
    tres = f"cpu={cpus},mem={cpus}G,node=1,billing={cpus + 10 * gpus}" + (f",gres/gpu={gpus}" if gpus else "")
    submit_us = FIRST_US + rng.randrange(38 * 86_400) * 1_000_000
    start_us = submit_us + rng.randrange(7200) * 1_000_000
    end_us = start_us + rng.choice((0, 5, 600, 3 * 3600, 4 * 86_400, 45 * 86_400)) * 1_000_000
    request = JobRequest(
        name="x", account=rng.choice(("physics", "bio", "art")), qos=rng.choice(("normal", "high")), partitions=("p",),
        wckey=rng.choice(("", "key", "*key")),
    )  # fmt: skip
    user = rng.choice((("ann", 1001), ("bob", 1002)))
    row = make_job(
        job_id, attempt=attempt, submit_at_us=submit_us, eligible_at_us=submit_us, start_at_us=start_us, request=request,
        user_name=user[0], user_id=user[1], tres_req=tres, tres_alloc=tres, state=JobState.RUNNING,
        alloc=(NodeAlloc("n1", cpus, cpus * 1024, 1, ()),),
    )  # fmt: skip
    if end_us < NOW_US:
        row = row._replace(end_at_us=end_us, state=rng.choice((JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)))
    return row


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the month in it, rolled up."""
    place = tmp_path_factory.mktemp("agree") / "penstock.db"
    rng = random.Random(7)
    rows = [made_up(rng, job_id) for job_id in range(1, 401)]
    again = [row._replace(attempt=1) for row in rows[:40]]  # these were queued again, and ran a second time
    rows[:40] = [row._replace(state=JobState.REQUEUED, end_at_us=row.end_at_us or NOW_US - DAY_US) for row in rows[:40]]
    store = leading(place)
    store.commit(submitted(1, rows + again))
    store.close()
    engine = create_engine(f"sqlite:///{place}")

    @contextmanager
    def begin() -> Iterator[Connection]:
        with engine.begin() as connection:
            yield connection

    roller = Roller(begin, engine.connect, Calendar(((0, 0),)), "root", 100)
    while roller.advance(NOW_US, NOW_US):
        pass
    engine.dispose()
    return place


@pytest.fixture(autouse=True)
def controller(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    """What answers."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for module in ("sacct", "sreport"):
        monkeypatch.setattr(f"cli.{module}.now_us", lambda: NOW_US)
    reader, engine = Records(place), create_engine(f"sqlite:///{place}")

    def records(request: Any) -> list[Any]:
        found = reader.list(record_filter(request, tuple(map(int, request.users))))
        return [ListRecordsReply(records=[record_message(one, ALL_JOBS, "c") for one in found])]

    def report(request: Any) -> list[Any]:
        ask = UsageQuery(
            request.start_at_us, request.end_at_us, tuple(request.group_by), tuple(request.tres), tuple(request.accounts),
            tuple(request.users), tuple(request.wckeys), tuple(request.qos), tuple(request.partitions),
        )  # fmt: skip
        calendar = Calendar(((0, 0),))
        with engine.connect() as connection:
            if request.kind == ReportRequest.USAGE:
                rows = usage(connection, calendar, ask, lambda owner: True)
            elif request.kind == ReportRequest.JOB_SIZES:
                asked = JobReportQuery(
                    ask, tuple(request.bounds), nodes=frozenset(request.nodes), gids=tuple(request.gids),
                    each_size=request.each_size, job_ids=tuple(request.job_ids), default_account="root",
                )  # fmt: skip
                rows = sizes(connection, asked, lambda owner: True)
            else:
                rows = cluster(connection, calendar, ask)
        return [ReportReply(rows=[ReportRow(keys=r.keys, tres=r.tres, values=r.values) for r in rows])]

    tree = [Association(account="root")] + [Association(account=a, parent=b) for a, b in PARENTS.items()]
    client = FakeClient(
        ListRecords=records, Report=report, ListAssociations=[ListAssociationsReply(associations=tree)],
        ListTres=_tres(),
    )  # fmt: skip
    client.cluster = ClusterFile("c")
    yield client.install(monkeypatch)
    reader.close()
    engine.dispose()


def _tres() -> Any:
    from penstock.v1.governance_pb2 import ListTresReply, TresInfo

    names = (("cpu", ""), ("mem", ""), ("billing", ""), ("gres", "gpu"))
    return ListTresReply(tres=[TresInfo(type=kind, name=name) for kind, name in names])


def by_sacct(capsys: Any, field: str, tres: str) -> dict[tuple[str, str], int]:
    """TRES seconds of the window by the field and the user, from a line for each attempt."""
    argv = ["-a", "-X", "-D", "-T", "-n", "-P", "-S", WINDOW[0], "-E", WINDOW[1]]
    status, shown, told = run_body(capsys, "sacct", sacct.body, *argv, "-o", f"{field},user,elapsedraw,alloctres")
    assert (status, told) == (0, "")
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for line in shown.splitlines():
        key, user, elapsed, alloc = line.split("|")
        sums[key, user] += int(elapsed) * parse_tres(alloc).get(tres, 0)
    return {key: amount for key, amount in sums.items() if amount}


def by_sreport(capsys: Any, *argv: str) -> list[list[str]]:
    window = (f"start={WINDOW[0]}", f"end={WINDOW[1]}")
    status, shown, told = run_body(capsys, "sreport", sreport.body, "-n", "-P", "-t", "Seconds", *argv, *window)
    assert (status, told) == (0, "")
    return [line.split("|") for line in shown.splitlines()]


@pytest.mark.parametrize("tres", ["cpu", "mem", "billing", "gres/gpu"])
def test_users_and_accounts(capsys: Any, tres: str) -> None:
    lines = by_sreport(capsys, "-T", tres, "cluster", "AccountUtilizationByUser", "format=account,login,used")
    found = by_sacct(capsys, "account", tres)
    assert {(account, user): int(used) for account, user, used in lines if user} == found
    sums = {account: int(used) for account, user, used in lines if not user}
    own = {name: sum(used for (account, _), used in found.items() if account == name) for name in PARENTS}
    assert sums == {
        "root": sum(found.values()), "science": own["physics"] + own["bio"], "physics": own["physics"], "bio": own["bio"],
        "art": own["art"],
    }  # fmt: skip


def test_top_users(capsys: Any) -> None:
    found: dict[str, int] = defaultdict(int)
    for (_, user), used in by_sacct(capsys, "account", "cpu").items():
        found[user] += used
    lines = by_sreport(capsys, "user", "top", "group", "format=login,used")
    assert lines == [[user, str(used)] for user, used in sorted(found.items(), key=lambda item: -item[1])]


def test_qos_and_wckeys(capsys: Any) -> None:
    by_qos: dict[str, int] = defaultdict(int)
    for account, qos, used in by_sreport(capsys, "cluster", "AccountUtilizationByQOS", "format=account,qos,used"):
        assert account in PARENTS
        by_qos[qos] += int(used)
    from_sacct: dict[str, int] = defaultdict(int)
    for (qos, _), used_s in by_sacct(capsys, "qos", "cpu").items():
        from_sacct[qos] += used_s
    assert by_qos == from_sacct
    lines = by_sreport(capsys, "cluster", "UserUtilizationByWckey", "format=wckey,login,used")
    by_key: dict[tuple[str, str], int] = defaultdict(int)
    for (key, user), used_s in by_sacct(capsys, "wckey", "cpu").items():
        by_key[key.lstrip("*"), user] += used_s  # a default key is the key
    assert {(key, user): int(used) for key, user, used in lines} == by_key
    ((key, user, used),) = by_sreport(capsys, "cluster", "UW", "format=wckey,login,used", "wckeys=key", "users=ann")
    assert (key, user, int(used)) == ("key", "ann", by_key["key", "ann"])


def test_the_cluster_has_allocated_the_same(capsys: Any) -> None:
    ((allocated,),) = by_sreport(capsys, "cluster", "Utilization", "format=allocated")
    assert int(allocated) == sum(by_sacct(capsys, "account", "cpu").values())


def sized(capsys: Any, *argv: str) -> dict[str, dict[int, tuple[int, int]]]:
    """By account and CPUs: CPU seconds in the window, and attempts that ran in it."""
    everybody = () if "-u" in argv else ("-a",)  # -a comes before -u
    words = [*everybody, "-X", "-D", "-T", "-n", "-P", "-S", WINDOW[0], "-E", WINDOW[1], *argv]
    status, shown, told = run_body(capsys, "sacct", sacct.body, *words, "-o", "account,alloccpus,cputimeraw,start,end")
    assert (status, told) == (0, "")
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for line in shown.splitlines():
        account, cpus, used, start, end = line.split("|")
        if WINDOW[0] <= start < WINDOW[1] and end > WINDOW[0]:
            so_far = found.setdefault(account, {}).get(int(cpus), (0, 0))
            found[account][int(cpus)] = (so_far[0] + int(used), so_far[1] + 1)
    return found


@pytest.mark.parametrize("words", [(), ("users=ann",), ("jobs=7,9,41",), ("nodes=n1",), ("nodes=n2",), ("gid=1001",)])
def test_sizes_of_jobs(capsys: Any, words: tuple[str, ...]) -> None:
    options = {"users": "-u", "jobs": "-j", "nodes": "-N", "gid": "-g"}
    name, _, value = words[0].partition("=") if words else ("", "", "")
    if name == "users":
        value = "1001"
    found = sized(capsys, *((options[name], value) if name else ()))
    wide = sorted({cpus for one in found.values() for cpus in one})
    for counted in (False, True):
        more = ("printjobcount",) if counted else ()
        lines = by_sreport(capsys, "job", "SizesByAccount", "flatview", "grouping=individual", *words, *more)
        assert [line[1:-1] for line in lines] == [
            [account, *(str(found[account].get(cpus, (0, 0))[counted]) for cpus in wide)] for account in sorted(found)
        ]
    lines = by_sreport(capsys, "job", "SizesByAccount", "grouping=2,300", *words)
    total = [sum(found[a].get(n, (0, 0))[0] for a in found for n in sizes) for sizes in ((1,), (2, 16), (300,))]
    assert [line[2:5] for line in lines] == ([[str(number) for number in total]] if found else [])
