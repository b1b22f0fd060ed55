"""sinfo over a made-up cluster. The golden lines were compared with those of Slurm 22.05 for the same nodes."""

import json
import time

import pytest

from cli import names
from cli.listings.nodestate import compact_word, complete_word, long_word, parse_states
from cli.listings.sinfo_fields import LETTERS, NAMES
from cli.sinfo import body
from penstock.errors import Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.v1.controller_pb2 import ListNodesReply, ListPartitionsReply, PartitionInfo
from penstock.values.errors import BadValue
from tests.cli import reports
from tests.cli.fake_controller import run_body

HEAD = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def client(monkeypatch):
    return reports.install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "sinfo", body, *argv)


def out(capsys, *argv):
    status, shown, wrong = run(capsys, *argv)
    assert (status, wrong) == (0, "")
    return shown


def test_default_table(client, capsys):
    assert out(capsys) == HEAD + (
        "main*        up   infinite      1  down* n4\n"
        "main*        up   infinite      2   unk* n[5-6]\n"
        "main*        up   infinite      1   drng n2\n"
        "main*        up   infinite      2    mix n[1,3]\n"
        "gpu          up 1-00:00:00      1   drng n2\n"
        "gpu          up 1-00:00:00      1    mix n1\n"
    )


def test_long(client, capsys):
    lines = out(capsys, "-l").splitlines()
    assert lines[0] == "Sat Nov 21 03:04:00 2026"
    assert lines[1:3] == [
        "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST",
        "main*        up   infinite 1-infinite   no       NO        all      1       down*             n4",
    ]
    assert len(lines) == 8


def test_nodes(client, capsys):
    assert out(capsys, "-N") == (
        "NODELIST   NODES PARTITION STATE \n"
        "n1             1     main* mix   \n"
        "n1             1       gpu mix   \n"
        "n2             1     main* drng  \n"
        "n2             1       gpu drng  \n"
        "n3             1     main* mix   \n"
        "n4             1     main* down* \n"
        "n5             1     main* unk*  \n"
        "n6             1     main* unk*  \n"
    )


def test_nodes_long(client, capsys):
    lines = out(capsys, "-N", "-l").splitlines()
    assert lines[1:3] + lines[4:5] == [
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              ",
        "n1             1     main*       mixed 4       1:4:1   1000        0      1      x,y none                ",
        "n2             1     main*    draining 4       1:4:1   1000        0      1      x,y bad fan and disk fai",
    ]


def test_summary(client, capsys):
    assert out(capsys, "-s") == (
        "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n"
        "main*        up   infinite          3/2/1/6 n[1-6]\n"
        "gpu          up 1-00:00:00          2/0/0/2 n[1-2]\n"
    )


def test_reasons(client, capsys):
    assert out(capsys, "-R") == (
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "gone                 root      2026-11-21T03:03:10 n4\n"
        "bad fan and disk fai root      2026-11-21T03:02:20 n2\n"
    )
    assert out(capsys, "-R", "-l", "-h") == (
        "gone                 root(0)      2026-11-21T03:03:10 down*  n4\n"
        "bad fan and disk fai root(0)      2026-11-21T03:02:20 drng   n2\n"
    )
    assert out(capsys, "-R", "-h", "-t", "idle") == ""


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (["-h", "-o", "%P|%C|%G"], ["main*|6/2/0/8|gpu:a100:2", "main*|1/23/8/32|(null)", "gpu|6/2/0/8|gpu:a100:2"]),
        (["-o", "%h %D %N"], ["OVERSUBSCRIBE NODES NODELIST", "NO 6 n[1-6]"]),
        (["-o", "%X %Y"], ["SOCKETS CORES", "1+ 4"]),
        (["-h", "-o", "%c %m %z %w %d"], ["4+ 1000+ 1+:4:1 1 0"]),
        (["-h", "-e", "-o", "%c %m %D"], ["4 1000 2", "8 2000 4"]),
        (["-h", "-e", "-o", "%C"], ["6/2/0/8", "1/23/8/32"]),
        (["-h", "-o", "%e %O"], ["1500-N/A 0.07-N/A"]),
        (["-h", "-o", "%A %F"], ["3/2 3/2/1/6"]),
        (["-h", "-o", "%a|%l|%L|%s|%r|%g|%S|%p|%I|%B|%M|%R", "-p", "gpu"],
         ["up|1-00:00:00|n/a|1-infinite|no|all|all|3|1|UNLIMITED|OFF|gpu"]),
        (["-h", "-N", "-p", "main", "-o", "%N", "-e", "-t", "idle"], []),
        (["-h", "-N", "-p", "main", "-o", "%N", "-e", "-t", "mix"], ["n1", "n3"]),
        (["-h", "-o", "%T %E %u %H"],
         ["down* gone root 2026-11-21T03:03:10", "unknown* none Unknown Unknown",
          "draining bad fan and disk failing root 2026-11-21T03:02:20", "mixed none Unknown Unknown"]),
        (["-h", "-o", "%v %V", "-r"], ["0.1.0 N/A"]),
        (["-h", "-n", "n[1,4]", "-o", "%P %N"], ["main* n[1,4]", "gpu n1"]),
        (["-h", "-n", "n[1,4]", "-o", "%2P|%.3P|"], ["m*|ma*|", "gp|gpu|"]),
        (["-h", "-O", "nodehost:4,nodeaddr:10", "-p", "gpu"], ["n2  10.0.0.2  ", "n1  10.0.0.1  "]),
    ],
)  # fmt: skip
def test_formats(client, capsys, argv, lines):
    assert out(capsys, *argv).splitlines() == lines


def test_exporters_node_list(client, capsys):
    shown = out(capsys, "-h", "-N", "-O", "NodeList,AllocMem,Memory,CPUsState,StateLong,Gres,GresUsed").splitlines()
    assert [line.split() for line in shown] == [
        ["n1", "100", "1000", "2/2/0/4", "mixed", "gpu:a100:2", "gpu:a100:1(IDX:0)"],
        ["n1", "100", "1000", "2/2/0/4", "mixed", "gpu:a100:2", "gpu:a100:1(IDX:0)"],
        ["n2", "1000", "1000", "4/0/0/4", "draining", "gpu:a100:2", "gpu:a100:0(IDX:N/A)"],
        ["n2", "1000", "1000", "4/0/0/4", "draining", "gpu:a100:2", "gpu:a100:0(IDX:N/A)"],
        ["n3", "2000", "2000", "1/7/0/8", "mixed", "(null)", "gpu:0"],
        ["n4", "0", "2000", "0/0/8/8", "down*", "(null)", "gpu:0"],
        ["n5", "0", "2000", "0/8/0/8", "unknown*", "(null)", "gpu:0"],
        ["n6", "0", "2000", "0/8/0/8", "unknown*", "(null)", "gpu:0"],
    ]
    assert all(len(line) == 140 for line in shown)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("mix", "n[1,3]"),
        ("ALLOC", "n[1-3]"),
        ("drain", "n2"),
        ("draining", "n2"),
        ("drained", ""),
        ("down", "n4"),
        ("unk,down", "n[4-6]"),
        ("no_respond", "n[4-6]"),
        ("no_respond&down", "n4"),
        ("no_respond+!down", "n[5-6]"),
        ("!no_respond", "n[1-3]"),
        ("~no_respond", "n[1-3]"),
        ("all", "n[1-6]"),
        ("maint,planned", ""),
        ("idle", ""),
    ],
)
def test_states(client, capsys, text, nodes):
    assert out(capsys, "-h", "-p", "main", "-o", "%N", "-t", text) == (nodes + "\n" if nodes else "")


def test_a_partition_without_such_nodes_keeps_its_line(client, capsys):
    assert out(capsys, "-t", "idle", "-h") == (
        "main*        up   infinite      0    n/a \ngpu          up 1-00:00:00      0    n/a \n"
    )


@pytest.mark.parametrize(("argv", "nodes"), [(["-d"], ["n[4-6]"]), (["-r"], ["n[1-3]"])])
def test_by_answering(client, capsys, argv, nodes):
    assert out(capsys, "-h", "-p", "main", "-o", "%N", *argv).split() == nodes


def test_hidden_partitions(client, capsys, monkeypatch):
    def shown(*argv):
        return out(capsys, "-h", "-o", "%R", *argv).split()

    assert shown() == ["main", "gpu"]
    assert shown("-a") == ["main", "gpu", "secret"]
    assert shown("-p", "secret,gpu") == ["gpu", "secret"]
    assert shown("-p", "nosuch") == []
    monkeypatch.setenv("SINFO_ALL", "1")
    assert shown() == ["main", "gpu", "secret"]


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("P", "gpu main"),
        ("#P", "main gpu"),
        ("-#P", "gpu main"),
        ("-D", "main gpu"),
        ("l", "gpu main"),
        ("-P", "main gpu"),
    ],
)
def test_sorting(client, capsys, text, order):
    assert out(capsys, "-h", "-o", "%R", "-S", text).split() == order.split()


def test_nodes_sort_by_number(monkeypatch, capsys):
    named = [reports.node(f"n{i}", "IDLE") for i in (10, 9, 1, 2)]
    partition = PartitionInfo(name="p", state="UP", nodes=["n10", "n9", "n1", "n2"], max_time_s=-1)
    reports.install(
        monkeypatch, ListNodes=ListNodesReply(nodes=named), ListPartitions=ListPartitionsReply(partitions=[partition])
    )
    assert out(capsys, "-h", "-N", "-o", "%N").split() == ["n1", "n2", "n9", "n10"]
    assert out(capsys, "-h", "-N", "-S", "-N", "-o", "%N").split() == ["n10", "n9", "n2", "n1"]


def test_wide_names_widen_their_column(monkeypatch, capsys):
    partition = PartitionInfo(name="a-rather-long-name", state="DOWN", is_default=True, nodes=["n1"], max_time_s=60)
    reports.install(
        monkeypatch, ListNodes=ListNodesReply(nodes=[reports.node("n1", "IDLE")]),
        ListPartitions=ListPartitionsReply(partitions=[partition]),
    )  # fmt: skip
    assert out(capsys) == (
        "PARTITION           AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "a-rather-long-name*  down       1:00      1   idle n1\n"
    )


@pytest.mark.parametrize(
    ("state", "flags", "compact", "long", "complete"),
    [
        ("IDLE", (), "idle", "idle", "idle"),
        ("ALLOCATED", (), "alloc", "allocated", "allocated"),
        ("ALLOCATED", ("COMPLETING",), "alloc+", "allocated+", "allocated+completing"),
        ("MIXED", ("COMPLETING",), "comp", "completing", "mixed+completing"),
        ("IDLE", ("COMPLETING",), "comp", "completing", "idle+completing"),
        ("IDLE", ("DRAIN",), "drain", "drained", "idle+drain"),
        ("IDLE", ("DRAIN", "NO_RESPOND"), "drain*", "drained*", "idle+drain+not_responding"),
        ("MIXED", ("DRAIN",), "drng", "draining", "mixed+drain"),
        ("IDLE", ("INVAL",), "inval", "inval", "idle+invalid_reg"),
        ("IDLE", ("FAIL",), "fail", "fail", "idle+fail"),
        ("MIXED", ("FAIL",), "failg", "failing", "mixed+fail"),
        ("DOWN", ("NO_RESPOND",), "down*", "down*", "down+not_responding"),
        ("DOWN", ("DRAIN",), "drain", "drained", "down+drain"),
        ("UNKNOWN", (), "unk", "unknown", "unknown"),
    ],
)
def test_state_words(state, flags, compact, long, complete):
    node = reports.node("n1", state, flags)
    assert (compact_word(node), long_word(node), complete_word(node)) == (compact, long, complete)


def test_unknown_state_word():
    with pytest.raises(BadValue, match=r"^bogus$"):
        parse_states("idle,bogus")


def test_every_letter_and_every_name_prints(client, capsys):
    for letter, field in LETTERS.items():
        assert out(capsys, "-o", f"%{letter}").splitlines()[0] == field.header
    for name, field in NAMES.items():
        head, *lines = out(capsys, "-O", f"{name}:30|").splitlines()
        assert head == field.header.ljust(30) + "|" and all(len(line) == 31 for line in lines) and lines, name
    assert out(capsys, "-o", "%all").splitlines()[0].split("|") == [field.header for field in LETTERS.values()]
    assert out(capsys, "-O", "All") == out(capsys, "-o", "%all")


def test_environment(client, capsys, monkeypatch):
    monkeypatch.setenv("SINFO_FORMAT", "%R")
    monkeypatch.setenv("SINFO_PARTITION", "gpu")
    assert out(capsys, "-h") == "gpu\n"
    assert out(capsys, "-h", "-o", "%N", "-p", "main") == "n[1-6]\n"
    assert out(capsys, "-N", "-h").startswith("n1             1       gpu mix")


def test_json(client, capsys):
    document = json.loads(out(capsys, "--json"))
    assert set(document) == {"sinfo", "meta", "errors", "warnings"}
    shown = {(item["partition"]["name"], tuple(item["nodes"]["nodes"])): item for item in document["sinfo"]}
    assert set(shown) == {
        ("main", ("n1",)), ("main", ("n2",)), ("main", ("n3",)), ("main", ("n4",)), ("main", ("n5", "n6")),
        ("gpu", ("n1",)), ("gpu", ("n2",)),
    }  # fmt: skip
    one = shown[("gpu", ("n2",))]
    assert one["node"]["state"] == ["ALLOCATED", "DRAIN"]
    assert one["cpus"]["allocated"] == 4 and one["cpus"]["load"] == {"minimum": 106, "maximum": 106}
    assert one["memory"]["free"]["minimum"] == {"set": True, "infinite": False, "number": 1500}
    assert one["gres"] == {"total": "gpu:a100:2", "used": "gpu:a100:0(IDX:N/A)"}
    assert one["partition"]["nodes"]["configured"] == "n[1-2]"
    assert one["partition"]["maximums"]["time"] == {"set": True, "infinite": False, "number": 1440}
    assert one["reason"]["description"] == "bad fan and disk failing"
    assert shown[("main", ("n4",))]["node"]["state"] == ["DOWN", "NOT_RESPONDING"]
    assert not shown[("main", ("n4",))]["memory"]["free"]["minimum"]["set"]
    by_node = json.loads(out(capsys, "-N", "--json"))["sinfo"]
    assert [item["nodes"]["total"] for item in by_node] == [1] * 8


def test_reservations_and_clusters(client, capsys):
    assert out(capsys, "-M", "all", "-h", "-o", "%R").splitlines() == ["CLUSTER: tiny", "main", "gpu"]


def test_no_reservations(client, capsys):
    assert out(capsys, "-T") == "No reservations in the system\n"


def test_reservations(capsys, monkeypatch):
    found = [
        pb.ReservationInfo(name="a", start_at_us=reports.at(-60), end_at_us=reports.at(3540), is_active=True, node_list="n[1-2]"),
        pb.ReservationInfo(name="maintenance", start_at_us=reports.at(60), end_at_us=reports.at(90060)),
    ]  # fmt: skip
    reports.install(monkeypatch, ListReservations=pb.ListReservationsReply(reservations=found))
    assert out(capsys, "-T") == (
        "RESV_NAME       STATE           START_TIME             END_TIME     DURATION  NODELIST\n"
        "a              ACTIVE  2026-11-21T03:03:00  2026-11-21T04:03:00     01:00:00  n[1-2]\n"
        "maintenance  INACTIVE  2026-11-21T03:05:00  2026-11-22T04:05:00   1-01:00:00  \n"
    )
    assert out(capsys, "-hT").startswith("a              ACTIVE")


@pytest.mark.parametrize(
    ("state", "flags", "words"),
    [
        ("IDLE", ("RESERVED",), "resv|reserved|idle+reserved"),
        ("MIXED", ("RESERVED",), "mix|mixed|mixed+reserved"),
        ("IDLE", ("MAINTENANCE", "RESERVED"), "maint|maint|idle+maintenance+reserved"),
        ("ALLOCATED", ("MAINTENANCE", "RESERVED"), "alloc$|allocated$|allocated+maintenance+reserved"),
        ("MIXED", ("DRAIN", "MAINTENANCE", "RESERVED"), "drng$|draining$|mixed+drain+maintenance+reserved"),
        ("DOWN", ("NO_RESPOND", "MAINTENANCE", "RESERVED"), "down*|down*|down+not_responding+maintenance+reserved"),
        ("IDLE", ("DRAIN", "RESERVED"), "drain|drained|idle+drain+reserved"),
    ],
)
def test_states_of_reserved_nodes(state, flags, words, capsys, monkeypatch):
    nodes = pb.ListNodesReply(nodes=[reports.node("n1", state, flags, reservation="a")])
    reports.install(monkeypatch, ListNodes=nodes)
    assert out(capsys, "-hN", "-p", "main", "-o", "%t|%T|%i") == "|".join([*words.split("|")[:2], "a"]) + "\n"
    assert out(capsys, "-hN", "-p", "main", "-O", "StateComplete:60").strip() == words.split("|")[2]
    shown = "n1\n" if "MAINTENANCE" in flags else ""
    assert out(capsys, "-hN", "-p", "main", "-t", "maint", "-o", "%N") == shown
    assert out(capsys, "-hN", "-p", "main", "-t", "resv", "-o", "%N") == "n1\n"


def test_repetition(client, capsys, monkeypatch):
    def sleep(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.base.listing.time.sleep", sleep)
    assert run(capsys, "-i", "3", "-o", "%R") == (130, "Sat Nov 21 03:04:00 2026\nPARTITION\nmain\ngpu\n\n", "")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-i", "x"], "sinfo: error: Error: invalid entry for --iterate=x\n"),
        (["-M", "mars"], "sinfo: error: No cluster 'mars' known by database.\n"
         "sinfo: error: 'mars' can't be reached now, or it is an invalid entry for --cluster.  Use "
         "'sacctmgr list clusters' to see available clusters.\n"),
        (["--nope"], "sinfo: unrecognized option '--nope'\nTry \"sinfo --help\" for more information\n"),
    ],
)  # fmt: skip
def test_bad_input(client, capsys, argv, words):
    assert run(capsys, *argv) == (1, "", words)
    assert client.calls == []


def test_bad_state(client, capsys):
    status, shown, wrong = run(capsys, "-t", "bogus")
    assert (status, shown) == (1, "")
    assert wrong.startswith('sinfo: error: Bad state string: "bogus"\nsinfo: error: valid states: unknown,down,idle')
    assert '"Bogus"' in run(capsys, "-t", "idle,Bogus")[2]
    assert '"allocation"' in run(capsys, "-t", "allocation")[2]
    assert run(capsys, "-t", "i")[::2] == (0, "")  # as in Slurm, the beginning of a word counts


def test_bad_node_list_and_bad_field(client, capsys):
    status, shown, wrong = run(capsys, "-n", "n[1")
    assert (status, shown) == (1, "") and wrong.startswith("sinfo: error: Invalid hostlist")
    assert run(capsys, "-h", "-p", "gpu", "-o", "%R %q") == (0, "gpu %q\n", "Invalid node format specification: q\n")
    assert run(capsys, "-h", "-p", "gpu", "-O", "foo,root:3") == (
        0, "no \n", "sinfo: error: Invalid job format specification: foo\n",
    )  # fmt: skip
    status, shown, wrong = run(capsys, "-S", "q")  # no key: nothing is sorted
    assert (status, wrong) == (0, "") and (status, shown, wrong) == run(capsys, "-S", "#")


def test_controller_is_down(monkeypatch, capsys):
    reports.install(monkeypatch, ListPartitions=Unreachable())
    assert run(capsys) == (1, "", "sinfo: error: Unable to contact slurm controller (connect failure)\n")


@pytest.mark.parametrize("name", ["slurmctld", "slurmd", "slurmdbd"])
def test_daemon_names_tell_their_version(name, capsys):
    def body_of(argv):
        return names.body_of(name, argv)

    assert run_body(capsys, name, body_of, "-V") == (0, "slurm 25.05.0\n", "")
    status, shown, wrong = run_body(capsys, name, body_of, "-D")
    assert (status, shown) == (1, "") and wrong.startswith(f"{name}: error: in Penstock ") and "penstock " in wrong


def test_verbose_shows_the_options_in_force(client, capsys):
    shown = out(capsys, "-v", "-t", "idle").splitlines()
    rules = [number for number, line in enumerate(shown) if line == "-" * 29]
    assert len(rules) == 3 and rules[0] == 0
    assert "format      = partition:9 ,available:.5 ,time:.10 ,nodes:.6 ,statecompact:.6 ,nodelist:0" in shown
    assert {"filtering   = true", "states      = idle", "verbose     = 1", "partition   = n/a"} <= set(shown)
    true = {line.split("=")[0].strip() for line in shown[rules[1] : rules[2]] if line.endswith("true")}
    assert true == {"avail_flag", "max_time_flag", "partition_flag", "state_flag"}
    assert shown[rules[2] + 1] == "" and shown[rules[2] + 3].startswith("PARTITION")
    assert "resv_name_flag   = true" in out(capsys, "-v", "-o", "%i")


def test_all_and_a_partition_exclude_each_other(client, capsys, monkeypatch):
    words = "sinfo: error: Conflicting options, -a and -p, specified. Please choose one or the other.\n"
    assert run_body(capsys, "sinfo", body, "-a", "-p", "main") == (1, "", words)
    monkeypatch.setenv("SINFO_ALL", "1")
    assert run_body(capsys, "sinfo", body, "-p", "main")[0] == 0


def test_an_empty_list_of_nodes_has_none(client, capsys):
    assert {line.split()[3] for line in out(capsys, "-h", "-n", "").splitlines()} == {"0"}
