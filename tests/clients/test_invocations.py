"""What tools call, word for word, and parse as the tools do: one test each, on one live cluster with a few jobs.

The lines are from the tools' own sources (their names are in the tests); a tool that is too large to run here is replayed. The job
itself reads its environment.
"""

import getpass
import json
import re
import sys
from collections.abc import Iterator

import pytest
from livecluster import ClusterConf, Done, LiveCluster

CONF = ClusterConf(
    cpus=4,
    memory_mb=4000,
    gpus=2,
    partitions=(
        "PartitionName=debug Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",
        "PartitionName=short Nodes=n1 MaxTime=30 State=UP",
    ),
)
USER = getpass.getuser()
SLEEP = "exec sleep 100000"


class SiteCluster(LiveCluster):
    """Its jobs find our commands by their names."""

    def environment(self, **more: str) -> dict[str, str]:
        env = super().environment()
        return {**env, "PATH": f"{self.home / 'bin'}:{env['PATH']}", **more}


class Site:
    """The cluster and the jobs that all tests look at."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.running = cluster.sbatch(
            "-p", "debug", "-J", "running", "-n2", "--mem=200M", "--gres=gpu:1", "-t", "60", "--comment=build-7", "-o", "/dev/null",
            "--wrap", SLEEP,
        )  # fmt: skip
        self.done = cluster.sbatch("-J", "done", "-o", "/dev/null", "--wrap", "srun -n1 true")
        self.failed = cluster.sbatch("-J", "failed", "-o", "/dev/null", "--wrap", "exit 3")
        self.held = cluster.sbatch("-H", "-J", "held", "-o", "/dev/null", "-t", "1-02:03:04", "--wrap", SLEEP)
        self.array = cluster.sbatch("-H", "-J", "array", "-o", "/dev/null", "-a", "0-20%4", "--wrap", SLEEP)
        cluster.wait_state(self.running, "RUNNING")
        cluster.wait_ends(self.done, self.failed)

    def ask(self, *words: str, **env: str) -> str:
        """The output of a command that succeeds and complains of nothing."""
        return self.cluster.run(*words, env=env).ok().out

    def run(self, *words: str, stdin: bytes = b"", **env: str) -> Done:
        return self.cluster.run(*words, stdin=stdin, env=env)


@pytest.fixture(scope="module")
def shared_site() -> Iterator[Site]:
    with SiteCluster(2, CONF) as cluster:
        (cluster.home / "bin").mkdir()
        for name in ("srun", "scontrol"):
            path = cluster.home / "bin" / name
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cli.{name} "$@"\n')
            path.chmod(0o755)
        yield Site(cluster)


@pytest.fixture
def site(shared_site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    failed = request.session.testsfailed
    yield shared_site
    if request.session.testsfailed > failed:
        print(shared_site.cluster.logs())


def pairs(text: str) -> dict[str, str]:
    """`Key=Value` words of one line, as codecarbon, reframe and others read them."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


# ---- submitit --------------------------------------------------------------------------------------------------------


def test_submitit_reads_states(site: Site) -> None:
    out = site.ask("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", str(site.done), "-j", str(site.running))
    head, *rows = [line.split("|") for line in out.splitlines()]
    assert head == ["JobID", "State", "NodeList"]
    states = {row[0]: row[1] for row in rows}
    assert states[str(site.done)] == "COMPLETED" and states[f"{site.done}.batch"] == "COMPLETED"
    assert states[str(site.running)] == "RUNNING"


def test_submitit_requeues_from_inside_a_job(site: Site) -> None:
    script = (
        "#!/bin/sh\n#SBATCH --requeue\n"
        'echo "run ${SLURM_RESTART_COUNT:-0}" >>requeued.log\n'
        '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }\n'
    )
    job = site.cluster.sbatch("-o", "/dev/null", "--open-mode=append", stdin=script.encode())
    site.cluster.wait_text(site.cluster.work / "requeued.log", "run 1")
    site.cluster.wait_ends(job)


def test_submitit_signals(site: Site) -> None:
    script = b"#!/bin/bash\ntrap 'echo got it; exit 0' USR2\necho ready\nwhile :; do sleep 0.1; done\n"
    job = site.cluster.sbatch("-o", "signalled.out", stdin=script)
    output = site.cluster.work / "signalled.out"
    site.cluster.wait_text(output, "ready")
    site.ask("scancel", str(job), "--signal", "USR2", "--batch")
    site.cluster.wait_text(output, "got it")
    assert site.cluster.wait_state(job, "COMPLETED").exit.code == 0


def test_submitit_starts_tasks(site: Site) -> None:
    script = (
        b"#!/bin/sh\nsrun --unbuffered --output %j_%t_log.out --error %j_%t_log.err sh -c 'echo task $SLURM_PROCID'\n"
    )
    job = site.cluster.sbatch("-n2", "-o", "/dev/null", stdin=script)
    site.cluster.wait_state(job, "COMPLETED")
    texts = [(site.cluster.work / f"{job}_{task}_log.out").read_text() for task in range(2)]
    assert texts == ["task 0\n", "task 1\n"]


# ---- workflow engines ------------------------------------------------------------------------------------------------


def test_snakemake_submits_and_asks(site: Site) -> None:
    name = "5b64a3f0-9d3c-4a3a-9d0e-9f1f7f3a2c11"
    out = site.ask(
        "sbatch", "--parsable", "--job-name", name, "--output", str(site.cluster.work / "log" / "%j.log"), "--export=ALL",
        "--comment", "rule_a_wildcards_x", "-t", "3", "-C", "", "--mem", "100", "--ntasks=1", "--cpus-per-task=2",
        "-D", str(site.cluster.work), "--wrap=echo hi; true",
    )  # fmt: skip
    job = int(out)
    site.cluster.wait_ends(job)
    rows = site.ask(
        "sacct", "-X", "--parsable2", "--clusters", "all", "--noheader", "--format=JobIdRaw,State", "--starttime", "2026-01-01T00:00",
        "--endtime", "now", "--name", name,
    )  # fmt: skip
    assert rows.splitlines()[0].split("|")[0] == str(job)


def test_snakemake_submits_an_array_and_polls_it(site: Site) -> None:
    name = "0d0f6a52-6a0b-4c87-9a52-2b7a1f0c9e55"
    job = int(
        site.ask("sbatch", "--parsable", "--job-name", name, "--array=1-2", "-o", "/dev/null", "-t", "3", "--wrap=true")
    )
    site.cluster.wait_ends(f"{job}_1", f"{job}_2")
    out = site.ask("squeue", "--noheader", "--format=%i|%T", "--states=all", "--name", name)
    assert sorted(out.splitlines()) == [f"{job}_1|COMPLETED", f"{job}_2|COMPLETED"]


def test_nextflow_asks_for_all_states(site: Site) -> None:
    script = b"#!/bin/bash\n#SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n#SBATCH -o /dev/null\ntrue\n"
    done = site.run("sbatch", stdin=script).ok()
    job = re.search(r"Submitted batch job (\d+)", done.out)
    assert job
    site.cluster.wait_ends(int(job.group(1)))
    rows = dict(
        line.split() for line in site.ask("squeue", "--noheader", "-o", "%i %t", "-t", "all", "-u", USER).splitlines()
    )
    assert rows[str(site.running)] == "R" and rows[str(site.failed)] == "F" and rows[job.group(1)] == "CD"
    assert rows[f"{site.array}_[0-20%4]"] == "PD"


def test_parsl_asks_for_jobs(site: Site) -> None:
    ids = f"{site.running},{site.held},{site.done}"
    rows = site.ask("squeue", "--noheader", "--format=%i %t", "--job", ids).splitlines()
    assert {line.split()[0]: line.split()[1] for line in rows} == {str(site.running): "R", str(site.held): "PD"}


def test_cromwell_checks_a_job(site: Site) -> None:
    assert site.ask("squeue", "-j", str(site.running), "-h", "-o", "%T") == "RUNNING\n"
    assert "State" in site.ask("sacct", "-j", str(site.done), "--format=State")


# ---- portals and dashboards ------------------------------------------------------------------------------------------

OOD_LETTERS = "aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"


def test_open_ondemand_lists_everything(site: Site) -> None:
    form = "\x1e" + "\x1f".join(f"%{letter}" for letter in OOD_LETTERS)
    out = site.ask("squeue", "--all", "--states=all", "--noconvert", "-o", form)
    head, *rows = [text.strip("\n").split("\x1f") for text in out.split("\x1e")[1:]]
    assert {len(row) for row in rows} == {len(head)} == {len(OOD_LETTERS)}
    by_id = {row[OOD_LETTERS.index("A")]: row for row in rows}
    assert by_id[str(site.running)][OOD_LETTERS.index("t")] == "R"
    assert by_id[str(site.held)][OOD_LETTERS.index("l")] == "1-02:04:00"  # limits are whole minutes


def test_open_ondemand_names_a_cluster(site: Site) -> None:
    out = site.ask("squeue", "-M", "e2e", "--all", "--states=all", "--noconvert", "-o", "%a;%A;%b;%B;%c;%C;%Z")
    first, head, *rows = out.splitlines()
    assert first == "CLUSTER: e2e" and head.startswith("ACCOUNT;JOBID;")
    assert str(site.running) in {row.split(";")[1] for row in rows}


def test_open_ondemand_submits_from_standard_input(site: Site) -> None:
    script = b"#!/bin/bash -l\necho home=$HOME secret=$SECRET >ood.out\n"
    out = site.run(
        "sbatch",
        "-D",
        str(site.cluster.work),
        "-J",
        "ood/sys",
        "--parsable",
        stdin=script,
        SBATCH_EXPORT="NONE",
        SECRET="x",
    )
    job = int(out.ok().out.split(";")[0])
    site.cluster.wait_ends(job)
    text = (site.cluster.work / "ood.out").read_text()
    assert text.startswith("home=/") and text.endswith("secret=\n")


def test_buildkite_finds_its_job(site: Site) -> None:
    assert site.ask("squeue", "--name=running", "--noheader", "--format=%k,%A") == f"build-7,{site.running}\n"


def test_exporter_of_partitions(site: Site) -> None:
    rows = [line.split("|") for line in site.ask("sinfo", "-h", "-o", "%P|%C|%G").splitlines()]
    assert {row[0] for row in rows} == {"debug*", "short"}
    for _, cpus, gres in rows:
        assert re.fullmatch(r"\d+/\d+/\d+/\d+", cpus) and re.fullmatch(r"gpu:h200:2", gres)


def test_exporter_of_nodes(site: Site) -> None:
    out = site.ask("sinfo", "-h", "-N", "-O", "NodeList,AllocMem,Memory,CPUsState,StateLong,Gres,GresUsed")
    rows = [line.split() for line in out.splitlines()]
    assert {len(row) for row in rows} == {7}
    first = next(row for row in rows if row[0] == "n1")
    assert first[1:6] == ["200", "4000", "2/2/0/4", "mixed", "gpu:h200:2"] and first[6].startswith("gpu:h200:1(IDX:")


def test_exporter_of_the_controller(site: Site) -> None:
    out = site.ask("sdiag")
    found = dict(re.findall(r"^\s*([\w ()]+?):\s+(\d+)", out, re.M))
    for name in ("Server thread count", "Agent queue size", "DBD Agent queue size", "Jobs submitted", "Jobs started", "Last cycle", "Mean cycle"):  # fmt: skip
        assert name in found, (name, out)
    assert "Main schedule statistics" in out and "Backfilling stats" in out
    assert (
        "Remote Procedure Call statistics by message type" in out and "Remote Procedure Call statistics by user" in out
    )


def test_json_of_jobs(site: Site) -> None:
    jobs = {job["job_id"]: job for job in json.loads(site.ask("squeue", "--json"))["jobs"]}
    running = jobs[site.running]
    assert running["job_state"] == ["RUNNING"] and running["nodes"] == "n1" and running["name"] == "running"
    assert running["time_limit"] == {"set": True, "infinite": False, "number": 60}


def test_json_of_nodes(site: Site) -> None:
    nodes = json.loads(site.ask("sinfo", "--json"))["sinfo"]
    assert {name for entry in nodes for name in entry["nodes"]["nodes"]} == {"n1", "n2"}


# ---- scripts inside jobs ---------------------------------------------------------------------------------------------


def test_torchrun_finds_its_first_node(site: Site) -> None:
    script = (
        "#!/bin/bash\nnodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\n"
        'head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        'echo "head ${nodes[0]} $head_node of ${#nodes[@]}" >torchrun.out\n'
        "srun -l bash -c 'echo nodes $SLURM_NNODES node $SLURM_NODEID rank $SLURM_PROCID local $SLURM_LOCALID' >>torchrun.out\n"
    )
    job = site.cluster.sbatch("-N2", "--ntasks-per-node=1", "-o", "/dev/null", stdin=script.encode())
    site.cluster.wait_state(job, "COMPLETED")
    lines = sorted((site.cluster.work / "torchrun.out").read_text().splitlines())
    assert lines == ["0: nodes 2 node 0 rank 0 local 0", "1: nodes 2 node 1 rank 1 local 0", "head n1 n1 of 2"]


def test_codecarbon_finds_memory_and_processors(site: Site) -> None:
    text = site.ask("scontrol", "show", "job", str(site.running))
    tres = re.search(r"AllocTRES=(.*?)(?:\s|$)", text)
    assert tres and re.search(r"mem=(\d+[A-Z])", tres.group(1)).group(1) == "200M"
    assert re.search(r"NumCPUs=(\d+)", text).group(1) == "2"


def test_one_line_of_a_job(site: Site) -> None:
    (line,) = site.ask("scontrol", "show", "job", "-o", str(site.running)).splitlines()
    found = pairs(line)
    assert found["JobId"] == str(site.running) and found["JobState"] == "RUNNING" and found["NodeList"] == "n1"
    assert found["Command"] and found["WorkDir"] == str(site.cluster.work) and found["TresPerNode"] == "gres/gpu:1"


# ---- what checks read of a cluster -----------------------------------------------------------------------------------

CONFIG_KEYS = [
    "SlurmUser",
    "AccountingStorageType",
    "SelectType",
    "SelectTypeParameters",
    "SchedulerType",
    "AccountingStorageEnforce",
    "SlurmctldParameters",
    "ClusterName",
    "MaxArraySize",
    "AccountingStorageTRES",
    "MinJobAge",
    "SchedulerParameters",
    "TaskPlugin",
    "EnforcePartLimits",
    "PriorityType",
    "TopologyPlugin",
    "KillOnBadExit",
    "OverTimeLimit",
    "JobSubmitPlugins",
    "PrologFlags",
    "Licenses",
    "JobAcctGatherFrequency",
    "JobAcctGatherType",
    "ProctrackType",
    "PreemptType",
    "MpiDefault",
    "SLURM_VERSION",
    "SLURM_CONF",
    "MULTIPLE_SLURMD",
]


def test_configuration_is_read(site: Site) -> None:
    out = site.ask("scontrol", "show", "config")
    found = dict(re.findall(r"^(\S+) += (.*)$", out, re.M))
    assert [key for key in CONFIG_KEYS if key not in found] == []
    assert re.fullmatch(r"\w+\(\d+\)", found["SlurmUser"])
    assert found["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert found["SelectType"] == "select/cons_tres" and found["SchedulerType"] == "sched/backfill"


def test_ping(site: Site) -> None:
    assert re.fullmatch(r"Slurmctld\(primary\) at \S+ is UP\n", site.ask("scontrol", "ping"))


def test_the_default_partition(site: Site) -> None:
    lines = site.ask("scontrol", "--all", "--oneliner", "show", "partition").splitlines()
    assert [pairs(line)["PartitionName"] for line in lines if re.search(r"\bDefault=YES\b", line)] == ["debug"]


def test_idle_nodes(site: Site) -> None:
    assert site.ask("sinfo", "-h", "-N", "-p", "debug", "-o", "%N", "-e", "-t", "idle") == "n2\n"


def test_an_idle_node_is_not_resumed(site: Site) -> None:
    done = site.run("scontrol", "update", "nodename=n2", "state=resume")
    assert done.status == 1 and "Invalid node state specified" in done.err


def test_one_line_of_everything(site: Site) -> None:
    assert pairs(site.ask("scontrol", "-o", "show", "node", "n1"))["NodeName"] == "n1"
    assert pairs(site.ask("scontrol", "-o", "show", "partition", "short"))["MaxTime"] == "00:30:00"
    assert pairs(site.ask("scontrol", "-o", "-d", "show", "job", str(site.running)))["Nodes"] == "n1"
    assert pairs(site.ask("scontrol", "-o", "show", "step", str(site.running)))["StepId"] == f"{site.running}.batch"
    site.ask(
        "scontrol",
        "create",
        "reservation",
        "reservationname=one",
        "starttime=now+1days",
        "duration=10",
        "nodes=n2",
        f"users={USER}",
    )
    assert pairs(site.ask("scontrol", "-o", "show", "reservation"))["ReservationName"] == "one"
    site.ask("scontrol", "delete", "reservationname=one")


def test_hostlists(site: Site) -> None:
    assert site.ask("scontrol", "show", "hostnames", "n[1-2],m7") == "n1\nn2\nm7\n"
    assert site.ask("scontrol", "show", "hostlist", "n2,n1,n3") == "n[2,1,3]\n"
    assert site.ask("scontrol", "show", "hostlistsorted", "n2,n1,n3") == "n[1-3]\n"


def test_sizes_of_nodes(site: Site) -> None:
    assert site.ask("sinfo", "-p", "debug", "-o", "%h %D %N").splitlines() == [
        "OVERSUBSCRIBE NODES NODELIST",
        "NO 2 n[1-2]",
    ]
    assert re.fullmatch(r"\d+ \d+\n", site.ask("sinfo", "-h", "-p", "debug", "-o", "%X %Y"))


def test_reasons(site: Site) -> None:
    assert site.ask("squeue", "-h", "-j", str(site.held), "-o", "%r") == "JobHeldUser\n"


@pytest.mark.parametrize(
    "command",
    [
        "sbatch",
        "salloc",
        "srun",
        "squeue",
        "sinfo",
        "sacct",
        "sacctmgr",
        "scancel",
        "scontrol",
        "sstat",
        "sattach",
        "sbcast",
        "sdiag",
        "sprio",
        "sshare",
    ],
)
def test_versions_are_read(site: Site, command: str) -> None:
    assert re.match(r"slurm (\d+)\.(\d+)", site.ask(command, "-V"))


def test_srun_says_which_step_it_starts(site: Site) -> None:
    done = site.run("srun", "-v", "-n1", "true")
    assert done.status == 0 and re.search(r"launching StepId=\d+\.0 on host n\d", done.err)


def test_kinds_of_mpi(site: Site) -> None:
    done = site.run("srun", "--mpi=list")
    assert "pmi2" in done.out + done.err


def test_an_allocation_is_announced(site: Site) -> None:
    done = site.run("salloc", "-n1", "true")
    assert done.status == 0 and re.search(r"Granted job allocation (\d+)", done.err)


def test_accounts_are_listed(site: Site) -> None:
    for what, form in (("user", "user"), ("account", "account"), ("qos", "name"), ("assoc", "cluster,account,user")):
        done = site.run("sacctmgr", "-nP", "list", what, f"format={form}")
        assert done.status == 0 and done.err == "", done


def test_the_example_for_several_nodes_runs_its_typo_included(site: Site) -> None:
    """#SBasks is a comment, for Slurm and for us; what it meant is not asked for."""
    script = (
        "#!/bin/bash\n#SBATCH --job-name=finetune\n#SBATCH --nodes=2\n#SBasks --ntasks-per-node=4\n#SBATCH --gpus-per-node=2\n"
        "#SBATCH --output=finetune.out\nsrun bash -c 'echo node $SLURM_NODEID of $SLURM_NNODES rank $SLURM_PROCID of $SLURM_NTASKS'\n"
    )
    site.ask("scancel", str(site.running))
    site.cluster.wait_ends(site.running)
    job = site.cluster.sbatch(stdin=script.encode())
    site.cluster.wait_state(job, "COMPLETED")
    lines = sorted((site.cluster.work / "finetune.out").read_text().splitlines())
    assert lines == ["node 0 of 2 rank 0 of 2", "node 1 of 2 rank 1 of 2"]
