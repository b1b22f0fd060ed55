"""sreport over a made-up month: every report compared literally; headings, columns and widths are those of Slurm's output."""

import io
import time
from collections import namedtuple
from typing import Any

import pytest

from cli import sreport
from cli.listings.sreport_words import GROUPING, read, time_format, window
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.v1.governance_pb2 import ListTresReply, ReportReply, ReportRequest, ReportRow, TresInfo
from penstock.v1.shares_pb2 import Association, ListAssociationsReply
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

NOW_US = 1_795_230_240_000_000  # 2026-11-21T03:04:00 UTC
DAY = 86400
DASHES = "-" * 80 + "\n"
YESTERDAY = "2026-11-20T00:00:00 - 2026-11-20T23:59:59"
TREE = [
    Association(id=1, account="root", shares=1),
    Association(id=2, account="science", parent="root", depth=1),
    Association(id=3, account="physics", parent="science", depth=2),
    Association(id=4, account="physics", user="ann", parent="physics", depth=3),
    Association(id=5, account="bio", parent="science", depth=2),
    Association(id=6, account="gone", parent="root", depth=1, deleted=True),
]
#: account, user, wckey, qos -> CPU seconds, GPU seconds, joules
USED = {
    ("physics", "ann", "key", "normal"): (36000, 7200, 5000),
    ("physics", "bob", "", "normal"): (86430, 0, 0),
    ("physics", "ann", "", "high"): (3600, 3600, 70),
    ("bio", "ann", "", "normal"): (90, 0, 0),
    ("gone", "cas", "key", "normal"): (600, 60, 0),
}
CLUSTER = {"cpu": (126720, 3600, 0, 42480, 0, 172800, 0, 2), "gres/gpu": (10860, 0, 0, 75540, 0, 86400, 0, 1),
           "energy": (0, 0, 0, 0, 0, 10000, 0, 0)}  # fmt: skip
TRES = ("cpu", "gres/gpu", "energy")
SIZES = {("physics", ""): {1: (600, 2), 60: (36000, 1)}, ("bio", "key"): {1: (3400, 5)}}
Entry = namedtuple("Entry", "pw_gecos")


def usage(request):
    columns = ("account", "user", "wckey", "qos")
    sums: dict[tuple[Any, ...], Any] = {}
    for keys, amounts in USED.items():
        named = dict(zip(columns, keys, strict=True))
        if any(wanted and named[column] not in wanted for column, wanted in
               (("user", request.users), ("wckey", request.wckeys), ("qos", request.qos))):  # fmt: skip
            continue
        accounts = list(request.accounts)
        if accounts and request.with_subaccounts and "science" in accounts:
            accounts += ["physics", "bio"]
        if accounts and named["account"] not in accounts:
            continue
        for tres, amount in zip(TRES, amounts, strict=True):
            if tres in (request.tres or ["cpu"]) and amount:
                key = (*(named[column] for column in request.group_by), tres)
                sums[key] = sums.get(key, 0) + amount
    return [ReportRow(keys=key[:-1], tres=key[-1], values=[amount]) for key, amount in sums.items()]


def sizes(request):
    for (account, wckey), found in SIZES.items():
        named = {"account": account, "wckey": wckey}
        for size, values in found.items():
            bucket = size if request.each_size else sum(bound <= size for bound in request.bounds)
            keys = [*(named[column] for column in request.group_by), str(bucket)]
            yield ReportRow(keys=keys, tres=request.tres[0], values=values)


def report(request):
    rows = {
        ReportRequest.USAGE: usage,
        ReportRequest.CLUSTER: lambda asked: [
            ReportRow(tres=tres, values=CLUSTER[tres]) for tres in asked.tres if tres in CLUSTER
        ],
        ReportRequest.JOB_SIZES: sizes,
        ReportRequest.RESERVATIONS: lambda asked: [
            ReportRow(
                keys=["maint", "7", str(NOW_US // 1_000_000 - 90_000), str(NOW_US // 1_000_000 - 3_600), "n[1-2]", "MAINT", "physics"],
                tres=tres, values=values,
            )
            for tres, values in (("cpu", (1200, 4800)), ("gres/gpu", (0, 600)))
            if not asked.tres or tres in asked.tres
        ],
    }[request.kind](request)  # fmt: skip
    rows = list(rows)
    return [ReportReply(rows=rows[:1], rolled_up_to_us=NOW_US), ReportReply(rows=rows[1:])]


@pytest.fixture(autouse=True)
def world(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("cli.sreport.now_us", lambda: NOW_US)
    for name in ("CLUSTER", "FEDERATION", "LOCAL", "TRES"):
        monkeypatch.delenv(f"SREPORT_{name}", raising=False)
    people = {"ann": "Ann Smith", "bob": "Bob Longest-Name-Of-All"}

    def entry(name):
        return Entry({**people}[name])

    monkeypatch.setattr("pwd.getpwnam", entry)


@pytest.fixture
def client(monkeypatch):
    tres = [TresInfo(id=1, type="cpu"), TresInfo(id=4, type="node"), TresInfo(id=1001, type="gres", name="gpu")]
    fake = FakeClient(
        Report=report,
        ListAssociations=lambda request: [ListAssociationsReply(associations=TREE)],
        ListTres=ListTresReply(tres=tres),
    )
    fake.cluster = ClusterFile("tiny")
    return fake.install(monkeypatch)


def out(capsys, *argv):
    status, shown, wrong = run_body(capsys, "sreport", sreport.body, *argv)
    assert (status, wrong) == (0, "")
    return shown


def wrong(capsys, *argv):
    status, shown, told = run_body(capsys, "sreport", sreport.body, *argv)
    assert (status, shown) == (1, "")
    return told


def asked(client):
    return next(request for method, request in client.calls if method == "Report")


# ---- usage -------------------------------------------------------------------------------------------------------


def test_accounts_by_user(client, capsys):
    """Each account with the sum of what is below it, then its users; accounts as the tree has them."""
    assert out(capsys, "cluster", "AccountUtilizationByUser") == (
        DASHES + f"Cluster/Account/User Utilization {YESTERDAY} (86400 secs)\n"
        "Usage reported in CPU Minutes\n" + DASHES +
        "  Cluster         Account     Login     Proper Name     Used   Energy \n"
        "--------- --------------- --------- --------------- -------- -------- \n"
        "     tiny            root                               2112     5070 \n"
        "     tiny            gone                                 10        0 \n"
        "     tiny            gone       cas                       10        0 \n"
        "     tiny         science                               2102     5070 \n"
        "     tiny             bio                                  2        0 \n"
        "     tiny             bio       ann       Ann Smith        2        0 \n"
        "     tiny         physics                               2100     5070 \n"
        "     tiny         physics       ann       Ann Smith      660     5070 \n"
        "     tiny         physics       bob Bob Longest-Na+     1440        0 \n"
    )  # fmt: skip
    request = asked(client)
    assert (request.start_at_us, request.end_at_us) == (1_795_132_800_000_000, 1_795_219_200_000_000)
    assert list(request.tres) == ["cpu", "energy"]
    assert request.with_subaccounts


def test_as_a_tree(client, capsys):
    assert out(capsys, "-n", "cl", "a", "tree") == (
        "     tiny root                                               2112     5070 \n"
        "     tiny  gone                                                10        0 \n"
        "     tiny  gone                      cas                       10        0 \n"
        "     tiny  science                                           2102     5070 \n"
        "     tiny   bio                                                 2        0 \n"
        "     tiny   bio                      ann       Ann Smith        2        0 \n"
        "     tiny   physics                                          2100     5070 \n"
        "     tiny   physics                  ann       Ann Smith      660     5070 \n"
        "     tiny   physics                  bob Bob Longest-Na+     1440        0 \n"
    )


def test_some_accounts_and_some_users(client, capsys):
    """An account with all below it; with Users= only their own lines."""
    lines = out(capsys, "-nP", "cluster", "accountu", "Accounts=science", "format=acc,login,used").splitlines()
    assert lines == ["science||2102", "bio||2", "bio|ann|2", "physics||2100", "physics|ann|660", "physics|bob|1440"]
    lines = out(capsys, "-np", "cluster", "AU", "Users=ann", "format=acc,login,used").splitlines()
    assert lines == ["bio|ann|2|", "physics|ann|660|"]


def test_several_tres_and_parts(client, capsys):
    assert out(capsys, "-t", "hourper", "-T", "cpu,GRES/gpu", "cluster", "UserUtilizationByAccount") == (
        DASHES + f"Cluster/User/Account Utilization {YESTERDAY} (86400 secs)\n"
        "Usage reported in TRES Hours/Percentage of Total\n" + DASHES +
        "  Cluster     Login     Proper Name         Account      TRES Name              Used \n"
        "--------- --------- --------------- --------------- -------------- ----------------- \n"
        "     tiny       bob Bob Longest-Na+         physics            cpu        24(50.02%) \n"
        "     tiny       bob Bob Longest-Na+         physics       gres/gpu          0(0.00%) \n"
        "     tiny       ann       Ann Smith         physics            cpu        11(22.92%) \n"
        "     tiny       ann       Ann Smith         physics       gres/gpu         3(12.50%) \n"
        "     tiny       cas                            gone            cpu          0(0.35%) \n"
        "     tiny       cas                            gone       gres/gpu          0(0.07%) \n"
        "     tiny       ann       Ann Smith             bio            cpu          0(0.05%) \n"
        "     tiny       ann       Ann Smith             bio       gres/gpu          0(0.00%) \n"
    )  # fmt: skip


def test_qos_and_wckeys(client, capsys):
    assert out(capsys, "-P", "cluster", "AccountUtilizationByQOS", "-t", "Seconds") == (
        DASHES + f"Cluster/Account/QOS Utilization {YESTERDAY} (86400 secs)\n"
        "Usage reported in CPU Seconds\n" + DASHES +
        "Cluster|Account|QOS|Used|Energy\n"
        "tiny|gone|normal|600|0\ntiny|bio|normal|90|0\ntiny|physics|high|3600|70\ntiny|physics|normal|122430|5000\n"
    )  # fmt: skip
    assert out(capsys, "-P", "cluster", "UW") == (
        DASHES + f"Cluster/User/WCKey Utilization {YESTERDAY} (86400 secs)\n"
        "Usage reported in CPU Minutes\n" + DASHES +
        "Cluster|Login|Proper Name|WCKey|Used\n"
        "tiny|bob|Bob Longest-Name-Of-All||1440\ntiny|ann|Ann Smith|key|600\ntiny|ann|Ann Smith||62\ntiny|cas||key|10\n"
    )  # fmt: skip
    assert out(capsys, "-nP", "cluster", "wckeyutilizationbyuser", "wckeys=key") == (
        "tiny|key|||610\ntiny|key|ann|Ann Smith|600\ntiny|key|cas||10\n"
    )
    assert list(next(r for m, r in client.calls[-1:] if m == "Report").wckeys) == ["key"]


def test_top_users(client, capsys):
    assert out(capsys, "-t", "percent", "user", "top", "topcount=2") == (
        DASHES + f"Top 2 Users {YESTERDAY} (86400 secs)\n"
        "Usage reported in Percentage of Total\n" + DASHES +
        "  Cluster     Login     Proper Name         Account     Used   Energy \n"
        "--------- --------- --------------- --------------- -------- -------- \n"
        "     tiny       bob Bob Longest-Na+         physics   50.02%    0.00% \n"
        "     tiny       ann       Ann Smith         physics   22.92%   50.70% \n"
    )  # fmt: skip
    assert out(capsys, "-nP", "user", "top", "group", "format=login,account,used") == (
        "bob|physics|1440\nann|bio, physics|662\ncas|gone|10\n"
    )


# ---- cluster, reservations ---------------------------------------------------------------------------------------


def test_the_cluster(client, capsys):
    """Widths are those of the largest value in seconds, at least 8: headings are cut."""
    assert out(capsys, "cluster", "utilization") == (
        DASHES + f"Cluster Utilization {YESTERDAY}\nUsage reported in CPU Minutes\n" + DASHES +
        "  Cluster Allocate     Down PLND Dow     Idle  Planned Reported \n"
        "--------- -------- -------- -------- -------- -------- -------- \n"
        "     tiny     2112       60        0      708        0     2880 \n"
    )  # fmt: skip
    lines = out(
        capsys, "-n", "-t", "MinPer", "-T", "all", "cluster", "util", "format=tresname,alloc,idle,over,cpucount"
    )
    assert lines == (
        "           cpu      2112(73.33%)       708(24.58%)          0(0.00%)          2 \n"
        "      gres/gpu       181(12.57%)      1259(87.43%)          0(0.00%)          1 \n"
    )


def test_nodes_are_no_usage(client, capsys):
    status, shown, told = run_body(capsys, "sreport", sreport.body, "-nP", "-T", "node,cpu", "cluster", "util")
    assert (status, shown) == (0, "tiny|cpu|2112|60|0|708|0|2880\n")
    assert told == (
        "TRES node usage is no longer reported in the Cluster Utilization report.  Please use TRES CPU instead.\n"
    )
    told = wrong(capsys, "-t", "percent", "-T", "node", "user", "top")
    assert told.endswith("sreport: fatal: No valid TRES given\n")


def test_reservations(client, capsys):
    assert out(capsys, "-t", "hourper", "reservation", "utilization", "start=11/19") == (
        DASHES + "Reservation Utilization 2026-11-19T00:00:00 - 2026-11-20T23:59:59\n"
        "Usage reported in TRES Hours/Percentage of Total\n" + DASHES +
        "  Cluster      Name               Start                 End      TRES Name            Allocated                 Idle \n"
        "--------- --------- ------------------- ------------------- -------------- -------------------- -------------------- \n"
        "     tiny     maint 2026-11-20T02:04:00 2026-11-21T02:04:00            cpu            0(20.00%)            1(80.00%) \n"
        "     tiny     maint 2026-11-20T02:04:00 2026-11-21T02:04:00       gres/gpu             0(0.00%)           0(100.00%) \n"
    )  # fmt: skip
    assert not asked(client).tres
    assert out(capsys, "-nP", "-tsec", "-Tcpu", "resv", "util", "format=res,nodes,flags,assoc,tresti,total") == (
        "7|n[1-2]|MAINT|physics|6000|86400\n"
    )
    assert out(capsys, "-nP", "resv", "util", "ids=6,7", "format=res") == "7\n7\n"
    assert out(capsys, "-nP", "resv", "util", "ids=6", "format=res") == ""


# ---- jobs --------------------------------------------------------------------------------------------------------


def test_sizes(client, capsys):
    assert out(capsys, "job", "sizesbyaccount") == (
        DASHES + f"Job Sizes {YESTERDAY} (86400 secs)\nTime reported in Minutes\n" + DASHES +
        "  Cluster   Account     0-49 CPUs   50-249 CPUs  250-499 CPUs  500-999 CPUs  >= 1000 CPUs % of cluster \n"
        "--------- --------- ------------- ------------- ------------- ------------- ------------- ------------ \n"
        "     tiny      root            67           600             0             0             0      100.00% \n"
    )  # fmt: skip
    assert tuple(asked(client).bounds) == GROUPING
    assert asked(client).with_subaccounts


def test_sizes_of_accounts(client, capsys):
    def shown(*words):
        return out(capsys, "-nP", "job", *words).splitlines()

    assert shown("sizesbyaccount", "accounts=bio,physics", "grouping=50", "printjobcount") == [
        "tiny|bio|5|0|62.50%", "tiny|physics|2|1|37.50%",
    ]  # fmt: skip
    assert shown("sizesbyaccount", "acctasparent", "grouping=50") == ["tiny|science|67|600|100.00%"]
    assert shown("sizesbyaccount", "flatview", "grouping=50") == ["tiny|bio|57|0|8.50%", "tiny|physics|10|600|91.50%"]
    assert shown("sizesbywckey", "grouping=50") == ["tiny||10|600|91.50%", "tiny|key|57|0|8.50%"]
    assert shown("sizesbyaccounta", "flatview", "grouping=50") == [
        "tiny|bio:key|57|0|8.50%",
        "tiny|physics:|10|600|91.50%",
    ]


def test_each_size(client, capsys):
    lines = out(capsys, "-P", "-T", "cpu", "job", "sizesbyw", "grouping=individual", "jobs=3,4_2").splitlines()
    assert lines[1:] == [
        f"Job Sizes by Wckey {YESTERDAY} (86400 secs)", "TRES type is cpu", "Time reported in Minutes", DASHES.strip(),
        "Cluster|Wckey|1 CPUs|60 CPUs|% of cluster", "tiny||10|600|91.50%", "tiny|key|57|0|8.50%",
    ]  # fmt: skip
    assert asked(client).each_size
    assert list(asked(client).job_ids) == ["3", "4_2"]


def test_filters_reach_the_controller(client, capsys):
    out(
        capsys,
        "job",
        "sizesbyaccount",
        "users=ann,0,4294967290",
        "partitions=a,b",
        "nodes=n[1-2]",
        "gid=100,0",
        "wckeys=k",
        "qos=high",
    )
    request = asked(client)
    assert list(request.users) == ["ann", "root", "4294967290"]  # numbers are looked up where it runs
    assert (list(request.partitions), list(request.nodes)) == (["a", "b"], ["n[1-2]"])
    assert (list(request.gids), list(request.wckeys), list(request.qos)) == ([100, 0], ["k"], ["high"])


# ---- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["foo", "bar"], "invalid keyword: foo\n"),
        (["user"], "too few arguments for keyword:user\n"),
        (["user", "bar"], 'Not valid report bar\nValid user reports are, "TopUsage"\n'),
        (["-t", "weeks", "user", "top"], "unknown time format weeks\n"),
        (["user", "top", "colour=3"], " Unknown condition: colour=3\nUse keyword set to modify value\n"),
        (["user", "top", "users"], " Unknown condition: users\nUse keyword set to modify value\n"),
        (["user", "top", "users="], " users= says nothing\n"),
        (["user", "top", "format=login,nope"], " Unknown field 'nope'\n"),
        (["user", "top", "topcount=x"], "sreport: error: Invalid value for TopCount (x)\n"),
        (["job", "sizesbyacc", "grouping=5,x"], "sreport: error: Invalid value for grouping (x)\n"),
        (["job", "sizesbyacc", "gid=nobody-at-all"], "sreport: error: Invalid group id: nobody-at-all\n"),
        (
            ["-T", "cpu,gres/gpu", "job", "sizesbyacc"],
            " Job report only supports a single --tres type.\n Generate a separate report for each TRES type.\n",
        ),
        (
            ["-T", "beer", "user", "top"],
            "sreport: fatal: No valid TRES given\nsreport: beer: the cluster has cpu, node, gres/gpu\n",
        ),
        (["-a", "--local", "user", "top"], "sreport: error: Only one cluster option can be used "
         "(--all_clusters OR --cluster OR --local)\n"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(client, capsys, argv, told):
    assert wrong(capsys, *argv) == told


def test_a_date_that_is_none(client, capsys):
    assert wrong(capsys, "user", "top", "start=foo").startswith("Invalid time specification (pos=0): foo\n")


def test_sizes_must_rise(client, capsys):
    assert "write at most 1000 sizes that rise" in wrong(capsys, "job", "sizesbyacc", "grouping=50,20")


def test_another_cluster(client, capsys):
    assert "can't be reached now" in wrong(capsys, "-M", "other", "user", "top")
    assert "can't be reached now" in wrong(capsys, "user", "top", "clusters=other")
    out(capsys, "-M", "tiny", "user", "top")
    client.answers["ListClusters"] = PenstockError(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY])
    assert wrong(capsys, "-M", "other", "user", "top").startswith(f"sreport: error: {TEXT[Code.STORAGE_AWAY]}\n")


def test_a_refusal(monkeypatch, capsys):
    fake = FakeClient(Report=PenstockError(Code.ACCESS_DENIED, "Access/permission denied"))
    fake.cluster = ClusterFile("tiny")
    fake.install(monkeypatch)
    assert wrong(capsys, "user", "top") == "sreport: error: Access/permission denied\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h", "Hours"), ("hour", "Hours"), ("HourPer", "Hours/Percentage of Total"), ("sec", "Seconds"), ("m", "Minutes"),
        ("secp", "Seconds/Percentage of Total"), ("minp", "Minutes/Percentage of Total"), ("per", "Percentage of Total"),
    ],
)  # fmt: skip
def test_units_of_time(text, words):
    assert time_format(text).words == words


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        ("", "", "11-20T00 11-21T00"),
        ("now-1week", "", "11-14T03 11-21T00"),
        ("11/01", "11/30", "11-01T00 11-21T03"),
        ("2026-11-20T10:31", "2026-11-20T23:59:59", "11-20T11 11-21T00"),
        ("00:00", "", "11-21T00 11-21T01"),
        ("", "now", "11-20T00 11-21T03"),
    ],
)
def test_windows(start, end, span):
    """Whole hours: both ends at the nearest, the end not after now, never empty."""
    found = window(start, end, NOW_US)
    assert " ".join(time.strftime("%m-%dT%H", time.gmtime(at // 1_000_000)) for at in found) == span
    assert all(at % 3_600_000_000 == 0 for at in found)


def test_days_of_a_change_to_summer_time(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    noon_us = 1_774_861_200_000_000  # 2026-03-30T11:00 in Berlin; the day before had 23 hours
    start_us, end_us = window("", "", noon_us)
    assert (end_us - start_us) // 1_000_000 == 23 * 3600


def test_words_may_be_cut_short():
    found = read("cluster", ["Acc=a,b", "U=c", "where", "tr", "acct=d", "W=k"], NOW_US)
    assert found.of("accounts") == ["a", "b", "d"]
    assert (found.of("users"), found.of("wckeys"), found.flags) == (["c"], ["k"], {"tree"})


def test_commands_from_the_standard_input(client, capsys, monkeypatch):
    text = "parsable2\ntime hours\nuser top topcount=1 format=login,used\nnonsense\n!!\nexit\nuser top\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    status, shown, told = run_body(capsys, "sreport", sreport.body, "-n")
    assert (status, shown) == (1, "bob|24\n")
    assert told == "invalid keyword: nonsense\n" * 2


def test_variables(client, capsys, monkeypatch):
    monkeypatch.setenv("SREPORT_TRES", "gres/gpu")
    assert "ann|Ann Smith|physics|gres/gpu|180" in out(capsys, "-nP", "user", "top")
