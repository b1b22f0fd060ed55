"""sprio and sshare over a made-up cluster, compared literally."""

import getpass
import json
import math

import pytest
import yaml

from cli import sacctmgr, sprio, sshare
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable
from penstock.v1.governance_pb2 import Counters, ListCountersReply
from penstock.v1.shares_pb2 import (
    AccountInfo,
    Association,
    JobPriority,
    ListAssociationsReply,
    ListPrioritiesReply,
    NormalizedFactors,
    PriorityWeights,
    UserInfo,
)
from penstock.values.refusals import Code
from tests.cli.fake_controller import FakeClient, run_body

#: TRES of an association that has used none, and has nothing running.
NOTHING = "cpu=0,mem=0,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0"
ME = getpass.getuser()
WEIGHTS = PriorityWeights(
    multifactor=True, age=1000, fair_share=100000, job_size=500, tres=["cpu", "gres/gpu"], tres_weights=[10, 2.5]
)
JOBS = [
    JobPriority(
        job_id=12, user_name="ann", account="physics", partition="main", priority=33925, age=250, fair_share=33333,
        job_size=333, tres=[5, 4], nice=0, normalized=NormalizedFactors(age=0.25, fair_share=1 / 3, tres=[0.5, 0.25]),
    ),
    JobPriority(
        job_id=20, array_job_id=20, array_tasks="3-9", user_name="bob", account="bio", partition="gpu", priority=66700,
        age=0, fair_share=66666, job_size=84, tres=[0, 0], nice=50,
    ),
    JobPriority(job_id=21, array_job_id=20, array_task_id=2, user_name="bob", partition="main", priority=1, site=7),
]  # fmt: skip
ASSOCIATIONS = [
    Association(id=1, account="root", shares=1, usage_s=1000, norm_usage=1, effective_usage=1),
    Association(
        id=2, account="bio", parent="root", shares=10, depth=1, norm_shares=0.25, usage_s=900, norm_usage=0.9,
        effective_usage=0.9, level_fs=0.277778,
    ),
    Association(
        id=4, account="bio", user="bob", parent="bio", shares=-1, depth=2, norm_shares=0.25, usage_s=900,
        norm_usage=0.9, effective_usage=0.9, level_fs=0.277778, fair_share=0.5,
    ),
    Association(
        id=3, account="physics", parent="root", shares=30, depth=1, norm_shares=0.75, usage_s=100, norm_usage=0.1,
        effective_usage=0.1, level_fs=7.5, priority=3,
    ),
    Association(
        id=5, account="physics", user=ME, parent="physics", shares=1, depth=2, norm_shares=1, level_fs=math.inf,
        fair_share=1,
    ),
]  # fmt: skip
REPLY = ListAssociationsReply(
    associations=ASSOCIATIONS,
    accounts=[AccountInfo(name="bio", description="Bio", organization="root"), AccountInfo(name="physics")],
    users=[UserInfo(name="bob", default_account="bio", admin_level="None"), UserInfo(name=ME, default_account="physics")],
    cluster="tiny", multifactor=True, fair_tree=True, controller_host="ctl", controller_port=6817,
)  # fmt: skip


@pytest.fixture
def client(monkeypatch):
    fake = FakeClient(
        ListPriorities=lambda request: [ListPrioritiesReply(weights=WEIGHTS), ListPrioritiesReply(jobs=JOBS)],
        ListAssociations=lambda request: [REPLY],
        ListCounters=[],
    )
    fake.cluster = ClusterFile("tiny")
    return fake.install(monkeypatch)


def out(capsys, command, *argv, status=0, err=""):
    found, shown, wrong = run_body(capsys, command.__name__.rpartition(".")[2], command.body, *argv)
    assert (found, wrong) == (status, err)
    return shown


def test_documents(client, capsys):
    """--json and --yaml say the same."""
    for command in (sprio, sshare):
        as_json = json.loads(out(capsys, command, "--json", *(["-a"] if command is sshare else [])))
        as_yaml = yaml.safe_load(out(capsys, command, "--yaml", *(["-a"] if command is sshare else [])))
        assert {k: v for k, v in as_json.items() if k != "meta"} == {k: v for k, v in as_yaml.items() if k != "meta"}
    assert as_json["shares"]["total_shares"] == len(ASSOCIATIONS)
    by_name = {one["name"]: one for one in as_json["shares"]["shares"]}
    assert by_name["bob"]["shares"] == {"set": False, "infinite": True, "number": 0}
    assert by_name["bob"]["fairshare"]["factor"]["number"] == 0.5
    assert by_name["physics"]["fairshare"]["factor"]["set"] is False
    assert by_name[ME]["fairshare"]["level"]["infinite"] is True


# ---- sprio -------------------------------------------------------------------------------------------------------


def test_sprio_shows_what_has_a_weight(client, capsys):
    assert out(capsys, sprio) == (
        "          JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE    JOBSIZE TRES\n"
        "             12 main           33925          0        250      33333        333 cpu=5,gres/gpu=4\n"
        "       20_[3-9] gpu            66700          0          0      66666         84 cpu=0,gres/gpu=0\n"
        "           20_2 main               1          7          0          0          0\n"
    )
    assert not client.request.normalized


def test_sprio_long(client, capsys):
    lines = out(capsys, sprio, "-l").splitlines()
    assert lines[0] == (
        "          JOBID PARTITION     USER  ACCOUNT   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE"
        "    JOBSIZE  PARTITION    QOSNAME        QOS        NICE                 TRES"
    )
    assert lines[1] == (
        "             12 main           ann  physics      33925          0        250          0      33333"
        "        333          0                     0           0     cpu=5,gres/gpu=4"
    )


def test_sprio_weights_and_parts(client, capsys):
    assert out(capsys, sprio, "-w") == (
        "          JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE    JOBSIZE TRES\n"
        "        Weights                               1       1000     100000        500 cpu=10,gres/gpu=2.5\n"
    )
    lines = out(capsys, sprio, "-n").splitlines()
    assert lines[1].split() == [
        "12", "main", "0.00000789877959", "0", "0.2500000", "0.3333333", "0.0000000", "cpu=0.50,gres/gpu=0.",
    ]  # fmt: skip
    assert client.calls[-1][1].normalized


def test_sprio_filters_sort_and_format(client, capsys):
    assert out(capsys, sprio, "-h", "-o", "%i %u", "-S", "-y") == "20_[3-9] bob\n12 ann\n20_2 bob\n"
    out(capsys, sprio, "-j", "12,20_[3-4]", "-u", "0", "-p", "main,gpu")
    filter_ = client.calls[-1][1].filter
    assert (list(filter_.ids), list(filter_.users), list(filter_.partitions)) == (
        ["12", "20_[3-4]"], ["0"], ["main", "gpu"],
    )  # fmt: skip
    out(capsys, sprio, "-o", "%Z", status=1, err="sprio: error: Invalid job format specification: Z\n")


def test_sprio_without_such_jobs_and_without_factors(client, capsys):
    nothing = "Unable to find jobs matching user/id(s) specified\n"
    client.answers["ListPriorities"] = PenstockError(Code.INVALID_JOB_ID, "Invalid job id specified")
    assert out(capsys, sprio, "-j", "99") == nothing
    client.answers["ListPriorities"] = lambda request: [ListPrioritiesReply(weights=WEIGHTS)]
    assert out(capsys, sprio, "-u", "0") == nothing
    basic = (
        "You are not running a supported priority plugin\n(priority/basic).\n"
        "Only 'priority/multifactor' is supported.\n"
    )
    client.answers["ListPriorities"] = lambda request: [ListPrioritiesReply(weights=PriorityWeights())]
    out(capsys, sprio, status=1, err=basic)


# ---- sshare ------------------------------------------------------------------------------------------------------


def test_sshare_shows_accounts_and_ones_own(client, capsys):
    shown = ME if len(ME) <= 10 else f"{ME[:9]}+"
    assert out(capsys, sshare) == (
        "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare \n"
        "-------------------- ---------- ---------- ----------- ----------- ------------- ---------- \n"
        "root                                          0.000000        1000      1.000000            \n"
        " bio                                    10    0.250000         900      0.900000            \n"
        " physics                                30    0.750000         100      0.100000            \n"
        f"  physics            {shown:>10}          1    1.000000           0      0.000000   1.000000 \n"
    )


def test_sshare_prints_its_rows_under_priority_basic_too(client, capsys):
    """Without what that plug-in does not compute: normalised shares and usage are empty, factors 0, as in Slurm."""
    usual = out(capsys, sshare, "-a").splitlines()
    client.answers["ListAssociations"] = [
        ListAssociationsReply(associations=ASSOCIATIONS, cluster="tiny", fair_tree=True)
    ]
    found = out(capsys, sshare, "-a").splitlines()
    assert len(found) == len(usual)
    assert found[:2] == usual[:2]
    assert found[4] == "  bio                       bob     parent                     900      0.900000   0.000000 "
    long = "Account,User,NormShares,NormUsage,FairShare,LevelFS,TRESRunMins"
    rows = out(capsys, sshare, "-a", "-P", "-o", long).splitlines()
    assert rows[1].startswith("root||||||cpu=0,mem=0,energy=0,node=0,billing=0,")
    assert rows[3].startswith("  bio|bob|||0.000000|0.000000|cpu=0,")


def test_sshare_long_and_delimited(client, capsys):
    lines = out(capsys, sshare, "-a", "-l", "-P").splitlines()
    assert lines[0] == (
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins"
    )
    assert lines[3] == f"  bio|bob|parent|0.250000|900|0.900000|0.900000|0.500000|0.277778||{NOTHING}"
    assert lines[5] == f"  physics|{ME}|1|1.000000|0|0.000000|0.000000|1.000000|inf||{NOTHING}"


def test_sshare_of_partitions_and_limits(client, capsys):
    """A user's association for one partition is a line of its own; limits and what runs are by TRES."""
    one = Association(
        id=9, account="bio", user="bob", parent="bio", partition="gpu", shares=2, depth=2, limits={"grptresmins": "cpu=100"},
    )  # fmt: skip
    used = {"grptresmins": "cpu=50,gres/gpu=7", "grptresrunmins": "cpu=3,mem=2G"}
    client.answers["ListCounters"] = [
        ListCountersReply(counters=[Counters(assoc_id=9, used=used), Counters(assoc_id=99)])
    ]
    client.answers["ListAssociations"] = [
        ListAssociationsReply(associations=[*ASSOCIATIONS[:3], one], cluster="tiny", multifactor=True, fair_tree=True)
    ]
    assert out(capsys, sshare, "-m", "-u", "bob", "-U") == (
        "Account                    User    Partition  RawShares  NormShares    RawUsage  EffectvUsage  FairShare \n"
        "-------------------- ---------- ------------ ---------- ----------- ----------- ------------- ---------- \n"
        "bio                         bob                  parent    0.250000         900      0.900000   0.500000 \n"
        "bio                         bob          gpu          2    0.000000           0      0.000000   0.000000 \n"
    )
    assert out(
        capsys, sshare, "-nP", "-u", "bob", "-U", "-o", "p,parent,grptresmins,grptresraw,tresrunmins"
    ).split() == [
        f"|bio||{NOTHING}|{NOTHING}",
        "gpu|bio|cpu=100|cpu=50,mem=0,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0,gres/gpu=7|"
        "cpu=3,mem=2G,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0",
    ]
    shown = json.loads(out(capsys, sshare, "-a", "--json"))["shares"]["shares"][-1]
    assert shown["partition"] == "gpu"
    assert shown["tres"]["group_minutes"] == [{"name": "cpu", "value": {"set": True, "infinite": False, "number": 100}}]
    assert [one["value"]["number"] for one in shown["tres"]["run_seconds"]] == [180, 2048 * 60]


def test_sshare_without_fair_tree_has_no_level(client, capsys):
    client.answers["ListAssociations"] = [
        ListAssociationsReply(associations=ASSOCIATIONS, cluster="tiny", multifactor=True)
    ]
    assert out(capsys, sshare, "-lP").partition("\n")[0] == (
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|GrpTRESMins|TRESRunMins"
    )


def test_sshare_says_what_was_asked_for(client, capsys):
    told = "Users requested:\n\t: bob\nAccounts requested:\n\t: all\n"
    out(capsys, sshare, "-v", "-u", "bob", err=told)
    assert out(capsys, sshare, "-e").splitlines()[0].split() == ["Account", "Cluster", "EffectvUsage", "FairShare"]


def test_sprio_shows_the_user_who_was_asked_for(client, capsys, monkeypatch):
    lines = out(capsys, sprio, "-u", "0").splitlines()
    assert lines[0].split() == ["JOBID", "PARTITION", "USER", "PRIORITY", "SITE", "AGE", "FAIRSHARE", "JOBSIZE", "TRES"]
    monkeypatch.setenv("SPRIO_SIBLING", "1")
    assert out(capsys, sprio).split()[2] == "CLUSTER"


def test_sshare_ignores_other_words_as_slurms_does(client, capsys):
    assert out(capsys, sshare, "x", "-nPA", "physics", "y", "-o", "ID") == "3\n5\n"


def test_sshare_filters(client, capsys):
    assert out(capsys, sshare, "-n", "-P", "-U", "-u", "bob", "-o", "account,user,levelfs") == "bio|bob|0.277778\n"
    assert out(capsys, sshare, "-nPA", "physics", "-o", "Account,ID") == "physics|3\n physics|5\n"
    out(capsys, sshare, "-o", "nope", status=1, err='sshare: error: Invalid field requested: "nope"\n')


@pytest.mark.parametrize("command", [sprio, sshare])
def test_no_controller(client, capsys, command):
    for name in client.answers:
        client.answers[name] = Unreachable("Unable to contact slurm controller (connect failure)")
    name = command.__name__.rpartition(".")[2]
    out(capsys, command, status=1, err=f"{name}: error: Unable to contact slurm controller (connect failure)\n")


@pytest.mark.parametrize("command", [sprio, sshare, sacctmgr])
def test_help_and_an_unknown_option(capsys, command):
    name = command.__name__.rpartition(".")[2]
    assert f"{name} [" in out(capsys, command, "--help").splitlines()[0]
    wrong = f"{name}: unrecognized option '--nope'\nTry \"{name} --help\" for more information\n"
    out(capsys, command, "--nope", status=1, err=wrong)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-A", "nosuch"), "sshare: error: Invalid account: nosuch\n"),
        (("-A", "BIO,Nosuch", "-a"), "sshare: error: Invalid account: Nosuch\n"),
        (("-u", "nosuch"), "sshare: error: Invalid user: nosuch\n"),
        (("-u", "bob,4294967293"), "Invalid user id: 4294967293\n"),
    ],
)
def test_sshare_of_names_that_nobody_has(client, capsys, words, told):
    """An empty table would say that they have used nothing."""
    assert out(capsys, sshare, *words, status=1, err=told) == ""


def test_sshare_of_names_that_somebody_has(client, capsys):
    """A user of the cluster whom this machine does not know, one of this machine without an association, all, ALL."""
    for words in (("-u", "bob"), ("-u", "daemon,bob"), ("-u", "all,bob"), ("-A", "BIO,,physics"), ("-u", ",")):
        assert "bio" in out(capsys, sshare, *words)
