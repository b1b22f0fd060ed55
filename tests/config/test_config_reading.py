"""What is accepted: the syntax, Slurm's rules for what is left out, and the warnings that do not stop anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from _fastsched.fragment_pick import POLICY_WORDS, policy_of
from penstock.config import ConfigError, Loaded, load
from penstock.config.keys import GLOBALS, NODES, PARTITIONS
from penstock.values.gres import Gres
from penstock.values.mig import MigChoice

Write = Callable[..., str]


def test_comments_quotes_escapes_and_continuations(write: Write, whole: str) -> None:
    loaded = load(
        write(
            whole
            + "# a comment \\\n"
            + "KillWait = 20   # seconds \\\n"
            + '\tRebootProgram="/scratch/a b"\r\n'
            + "SlurmctldLogFile=/var/log/\\#1.log\n"
            + "killWAIT\\\n=25\n"
        )
    )
    assert loaded.config.kill_wait_s == 25
    assert loaded.config.reboot_program == "/scratch/a b"
    assert loaded.config.slurmctld_log_file == "/var/log/#1.log"
    assert loaded.warnings == ("slurm.conf:10: KillWait is given more than once; the last value is used",)


def test_a_byte_order_mark_is_skipped(write: Write, whole: str) -> None:
    assert load(write(b"\xef\xbb\xbf" + whole.encode())).config.cluster_name == "test"


def test_files_that_were_read_are_listed(write: Write, base: str) -> None:
    loaded = load(
        write(
            base + "GresTypes=gpu\nInclude nodes.conf\nPartitionName=p Nodes=ALL\n",
            nodes_conf="NodeName=n1 Gres=gpu:1\n",
            gres_conf="AutoDetect=nvml\n",
        )
    )
    assert loaded.files == ("slurm.conf", "nodes.conf", "gres.conf")
    assert loaded.warnings == ()


#: What a NodeName line says, what follows (CPUs, boards, sockets, cores, threads), and the warning.
TOPOLOGY = [
    ("", (1, 1, 1, 1, 1), ""),
    ("CPUs=6", (6, 1, 6, 1, 1), ""),
    ("CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (32, 1, 2, 8, 2), ""),
    ("CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (16, 1, 2, 8, 2), ""),
    ("CPUs=2 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (2, 1, 2, 8, 2), ""),
    ("Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (32, 1, 2, 8, 2), ""),
    ("CPUs=32 CoresPerSocket=8 ThreadsPerCore=2", (32, 1, 2, 8, 2), ""),
    ("Boards=2 SocketsPerBoard=2 CoresPerSocket=10", (40, 2, 4, 10, 1), ""),
    ("Boards=2 Sockets=2 CoresPerSocket=10 CPUs=40", (40, 2, 4, 10, 1), ""),
    ("CPUs=8 Sockets=2", (8, 1, 8, 1, 1), "CPUs=8 does not match Sockets=2; 8 sockets are used"),
    (
        "CPUs=20 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2",
        (32, 1, 2, 8, 2),
        "CPUs=20 is neither the sockets (2), nor the cores (16), nor the threads (32) of the node; 32 is used",
    ),
]


@pytest.mark.parametrize(("line", "expected", "warning"), TOPOLOGY)
def test_topology(write: Write, base: str, line: str, expected: tuple[int, ...], warning: str) -> None:
    loaded = load(write(base + f"NodeName=x {line}\nPartitionName=p Nodes=x\n"))
    node = loaded.config.nodes[0]
    assert (node.cpus, node.boards, node.sockets, node.cores_per_socket, node.threads_per_core) == expected
    assert loaded.warnings == ((f"slurm.conf:4: {warning}",) if warning else ())


def test_what_a_line_says_takes_the_place_of_its_defaults(write: Write, base: str) -> None:
    loaded = load(
        write(
            base
            + "NodeName=DEFAULT Sockets=2 CoresPerSocket=4\n"
            + "NodeName=a SocketsPerBoard=3\n"
            + "PartitionName=DEFAULT DefMemPerCPU=100 OverSubscribe=FORCE\n"
            + "PartitionName=p Nodes=a DefMemPerNode=5000 Exclusive=NODE\n"
        )
    )
    assert loaded.warnings == ()
    assert (loaded.config.nodes[0].sockets, loaded.config.nodes[0].cpus) == (3, 12)
    partition = loaded.config.partitions[0]
    assert (partition.def_mem_per_cpu_mb, partition.def_mem_per_node_mb) == (0, 5000)
    assert partition.over_subscribe == "EXCLUSIVE"


UNUSED = "is known to Slurm and not used by Penstock:"
#: A line, and the warnings that it draws.
WARNINGS = [
    (
        "VSizeFactor=5",
        [f"slurm.conf:6: VSizeFactor {UNUSED} real memory is limited by control groups (ConstrainRAMSpace)"],
    ),
    ("VSizeFactor=0", []),
    (
        "SlurmdParameters=config_overrides,allow_ecores",
        [f"slurm.conf:6: SlurmdParameters=allow_ecores {UNUSED} all cores are treated alike"],
    ),
    (
        "SlurmctldParameters=enable_configles",
        ["slurm.conf:6: SlurmctldParameters: enable_configles is not known (did you mean enable_configless?)"],
    ),
    ("SlurmctldParameters=Enable_Configless", []),
    (
        "MpiDefault=cray_shasta",
        ["slurm.conf:6: MpiDefault: srun has no 'cray_shasta'; none is used (there are none, pmi2, pmix)"],
    ),
    (
        "AccountingStorageEnforce=limits,nojobs",
        [
            "slurm.conf:6: AccountingStorageEnforce: jobs are recorded in spite of nojobs, since the queue and the records are one; "
            "their steps are not. PurgeJobAfter in slurmdbd.conf says when records of jobs go"
        ],
    ),
    (
        "TaskPluginParam=Sched",
        ["slurm.conf:6: TaskPluginParam: Sched is not used: TaskPlugin says how tasks are bound"],
    ),
    ("TaskPlugin=affinity,cgroup", []),
    (
        "PriorityFlags=DEPTH_OBLIVIOUS,FAIR_TREE",
        [
            "slurm.conf:6: PriorityFlags: DEPTH_OBLIVIOUS is not used: Fair Tree does not favour users for the depth of their account"
        ],
    ),
    (
        "PartitionName=p Default=YES",
        ["slurm.conf:6: p: Default=YES replaces that of main (slurm.conf:5): the last one counts"],
    ),
    ("PartitionName=all", ["slurm.conf:6: PartitionName: all is easily taken for all partitions"]),
    (
        "TopologyPlugin=topology/tree",
        ["topology.conf: TopologyPlugin=topology/tree reads this file, and it is not there: all nodes are alike"],
    ),
    ("SelectType=select/cons_tres SchedulerType=sched/backfill MpiDefault=none", []),
    (
        "SelectType=select/linear",
        [
            f"slurm.conf:6: SelectType {UNUSED} always select/cons_tres; OverSubscribe=EXCLUSIVE on a partition allocates whole nodes, as select/linear does"
        ],
    ),
    ("SlurmctldHost=b", ["slurm.conf:6: b is a backup controller, which Penstock does not use"]),
    ("SlurmUser=no-such-user", None),
    ("SchedulerParameters=bf_intervall=5", None),
    (
        "DefMemPerCPU=1 DefMemPerNode=2",
        ["slurm.conf:6: DefMemPerCPU and DefMemPerNode exclude each other; DefMemPerCPU is used"],
    ),
    (
        "FrontendName=x",
        [f"slurm.conf:6: FrontendName {UNUSED} Slurm has dropped such systems, too; each node runs a daemon"],
    ),
    ("NodeName=x,y BcastAddr=a\nNodeName=z BcastAddr=a", None),
]


@pytest.mark.parametrize(("line", "warnings"), WARNINGS)
def test_warnings(write: Write, whole: str, line: str, warnings: list[str] | None) -> None:
    found = [text for text in load(write(whole + line + "\n")).warnings if "given more than once" not in text]
    if warnings is None:
        assert len(found) == 1 and found[0].startswith("slurm.conf:6: ")
    else:
        assert found == warnings


def test_the_last_line_without_a_newline(write: Write, whole: str) -> None:
    loaded = load(write(whole + "KillWait=3"))
    assert loaded.config.kill_wait_s == 3
    assert loaded.warnings == ("slurm.conf:6: the last line does not end in a newline; was the file written fully?",)


def gres_load(write: Write, base: str, node: str, gres: str) -> Loaded:
    text = f"GresTypes=gpu,mps\nNodeName=n[1-2] {node}\nNodeName=m1\nPartitionName=p Nodes=ALL\n"
    return load(write(base + text, gres_conf=gres))


#: Gres of the node line, gres.conf, what the nodes have.
TYPED = [
    ("gpu:4", "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]\n", (Gres("gpu", "a100", 4),)),
    (
        "gpu:3",
        "Name=gpu Type=b File=/dev/nvidia2\nName=gpu Type=a File=/dev/nvidia[0-1]\n",
        (Gres("gpu", "b", 1), Gres("gpu", "a", 2)),
    ),
    ("gpu:2", "Name=gpu Type=a100 File=/dev/nvidia[0-3]\n", (Gres("gpu", "", 2),)),
    ("gpu:a100:2", "Name=gpu File=/dev/nvidia[0-1]\n", (Gres("gpu", "a100", 2),)),
    ("gpu:8", "AutoDetect=nvml\n", (Gres("gpu", "", 8),)),
    ("gpu:8", "AutoDetect=nvml\nName=gpu File=/dev/nvidia0\n", (Gres("gpu", "", 8),)),
    ("gpu:2,mps:1K", "Name=mps Count=1K File=/dev/nvidia0\n", (Gres("gpu", "", 2), Gres("mps", "", 1024))),
    (
        "gpu:2,mps:300",
        "Name=gpu File=/dev/nvidia[0-1]\nName=mps Count=100 File=/dev/nvidia1\nName=mps Count=200 File=/dev/nvidia0\n",
        (Gres("gpu", "", 2), Gres("mps", "", 300, (200, 100))),
    ),
    (
        "gpu:2,mps:200",
        "Name=gpu File=/dev/nvidia[0-1]\nName=mps Count=200 File=/dev/nvidia[0-1]\n",
        (Gres("gpu", "", 2), Gres("mps", "", 200)),
    ),
]


@pytest.mark.parametrize(("node", "gres", "expected"), TYPED)
def test_gres_conf_adds_types(write: Write, base: str, node: str, gres: str, expected: tuple[Gres, ...]) -> None:
    loaded = gres_load(write, base, f"Gres={node}", gres)
    assert [node.gres for node in loaded.config.nodes] == [expected, expected, ()]
    assert loaded.warnings == ()


def test_mig_layouts(write: Write, base: str) -> None:
    gres = (
        "Name=gpu Type=h200 Count=1 PenstockMigLayouts=whole|1g.18gb*7\n"
        "Name=gpu Type=a100 Count=1\nNodeName=n1 Name=gpu Type=h200 Count=2 PenstockMigLayouts=3g.71gb*2\n"
    )
    loaded = gres_load(write, base, "Gres=gpu:h200:3,gpu:a100:1", "AutoDetect=nvml\n" + gres)
    every = MigChoice("h200", 0, 1, ((), ("1g.18gb",) * 7))
    more = MigChoice("h200", 1, 2, (("3g.71gb", "3g.71gb"), ()))
    assert [node.mig for node in loaded.config.nodes] == [(every, more), (every,), ()]
    assert loaded.warnings == ()
    assert loaded.config.nodes[0].gres == (Gres("gpu", "h200", 3), Gres("gpu", "a100", 1))


def test_mig_layouts_of_cards_that_are_not_to_be_changed(write: Write, base: str) -> None:
    text = "GresTypes=gpu\nPenstockGpuSettings=read-only\nNodeName=n[1-2] Gres=gpu:h200:1\nPartitionName=p Nodes=ALL\n"
    gres = "AutoDetect=nvml\nName=gpu Type=h200 Count=1 PenstockMigLayouts=whole|1g.18gb*7\n"
    assert load(write(base + text, gres_conf=gres)).warnings == (
        "slurm.conf:6: PenstockGpuSettings=read-only: PenstockMigLayouts of n[1-2] is not used",
    )


def test_gres_conf_lines_that_fit_nothing(write: Write, base: str) -> None:
    loaded = gres_load(
        write, base, "Gres=gpu:1", "Name=gpu Count=1\nName=nic Count=1\nNodeName=n9 Name=gpu\nNodeName=m1 Name=gpu\n"
    )
    assert loaded.warnings == (
        "gres.conf:2: nic is not among GresTypes; the line is not used",
        "gres.conf:3: n9 is not a node of this cluster; it is left out",
        "gres.conf:4: node m1 has no Gres=gpu in slurm.conf; not used",
    )


def test_shown_has_what_tools_read(write: Write, whole: str) -> None:
    path = write(
        whole
        + "KillWait=40\nEpilog=/etc/epilog\nWaitTime=5\nAccountingStoragePass=secret\n"
        + "PenstockDatabaseUrl=postgresql://pen:s3cret@db/penstock\nAccountingStorageType=accounting_storage/none\n"
    )
    pairs = load(path).config.shown
    shown = dict(pairs)
    expected = {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CORE_MEMORY",
        "SchedulerType": "sched/backfill",
        "SlurmUser": "root(0)",
        "SLURM_VERSION": "25.05.0",
        "SlurmctldHost[0]": "localhost",
        "KillWait": "40 sec",
        "MinJobAge": "300 sec",
        "OverTimeLimit": "0 min",
        "Epilog": "/etc/epilog",
        "WaitTime": "5 sec",
        "PenstockDatabaseUrl": "postgresql://pen:***@db/penstock",
        "JobRequeue": "1",
        "DefMemPerNode": "UNLIMITED",
        "GresTypes": "(null)",
    }
    assert {name: shown[name] for name in expected} == expected
    wanted = """
        AccountingStorageEnforce SlurmctldParameters ClusterName MaxArraySize AccountingStorageTRES SchedulerParameters
        TaskPlugin EnforcePartLimits PriorityType TopologyPlugin KillOnBadExit JobSubmitPlugins PrologFlags Licenses
        JobAcctGatherFrequency JobAcctGatherType ConstrainDevices ProctrackType PreemptType MpiDefault SLURM_CONF
        MULTIPLE_SLURMD
        """
    assert set(wanted.split()) <= shown.keys()
    assert "secret" not in str(pairs) and "s3cret" not in str(pairs)
    assert [name.lower() for name, _ in pairs] == sorted(name.lower() for name, _ in pairs)
    assert all(value and "\n" not in value for value in shown.values())


@pytest.mark.parametrize("table", [GLOBALS, NODES, PARTITIONS])
def test_the_table_has_each_key_once(table: object) -> None:
    assert isinstance(table, type(GLOBALS))
    names = [key.name.lower() for key in table.keys]
    assert len(names) == len(set(names))


def test_a_line_may_be_long(write: Write, base: str) -> None:
    names = ",".join(f"node-{number}x" for number in range(3000))
    loaded = load(write(base + f"NodeName={names} NodeAddr={names}\nPartitionName=p Nodes={names}\n"))
    assert len(loaded.config.partitions[0].nodes) == 3000


def test_a_large_site_loads(write: Write, base: str) -> None:
    lines = [f"NodeName=r{rack:03d}n[001-100] CPUs=64 RealMemory=256000" for rack in range(100)]
    loaded = load(write(base + "\n".join(lines) + "\nPartitionName=p Nodes=ALL\n"))
    assert len(loaded.config.nodes) == len(loaded.config.partitions[0].nodes) == 10_000


@pytest.mark.parametrize("word", POLICY_WORDS)
def test_words_that_place_parts_of_gpus_are_read(write: Write, whole: str, word: str) -> None:
    mixed = f"{word[:12].capitalize()}{word[12:]}"
    config = load(write(whole + f"SelectTypeParameters=CR_Core_Memory,{mixed}\n")).config
    assert config.select_type_parameters == ("CR_CORE_MEMORY", word)
    assert policy_of(config.select_type_parameters) == POLICY_WORDS[word]


def test_priority_parameters(write: Callable[..., str]) -> None:
    from penstock.values.weights import Weight

    path = write(
        """
        ClusterName=c
        SlurmctldHost=h
        PriorityType=priority/multifactor
        PriorityDecayHalfLife=14-0
        PriorityCalcPeriod=1
        PriorityFavorSmall=YES
        PriorityFlags=ACCRUE_ALWAYS,no_fair_tree
        PriorityMaxAge=1-12
        PriorityUsageResetPeriod=monthly
        PriorityWeightAge=1000
        PriorityWeightFairshare=100000
        PriorityWeightTRES=CPU=10,Mem=20
        FairShareDampeningFactor=5
        PenstockDefaultAccount=guests
        NodeName=n1
        PartitionName=p Nodes=n1 TRESBillingWeights="CPU=1.0,Mem=0.25G"
"""
    )
    loaded = load(path)
    config, shown = loaded.config, dict(loaded.config.shown)
    assert loaded.warnings == ()
    assert (config.priority_decay_half_life_s, config.priority_calc_period_s) == (14 * 86400, 60)
    assert config.priority_flags == ("ACCRUE_ALWAYS", "NO_FAIR_TREE")
    assert config.partitions[0].tres_billing_weights == (Weight("cpu", 1_000_000), Weight("mem", 250_000, "G"))
    assert {name: value for name, value in shown.items() if name.startswith("Priority")} == {
        "PriorityCalcPeriod": "00:01:00",
        "PriorityDecayHalfLife": "14-00:00:00",
        "PriorityFavorSmall": "Yes",
        "PriorityFlags": "ACCRUE_ALWAYS,NO_FAIR_TREE",
        "PriorityMaxAge": "1-12:00:00",
        "PriorityParameters": "(null)",
        "PrioritySiteFactorParameters": "(null)",
        "PrioritySiteFactorPlugin": "(null)",
        "PriorityType": "priority/multifactor",
        "PriorityUsageResetPeriod": "MONTHLY",
        "PriorityWeightAge": "1000",
        "PriorityWeightAssoc": "0",
        "PriorityWeightFairShare": "100000",
        "PriorityWeightJobSize": "0",
        "PriorityWeightPartition": "0",
        "PriorityWeightQOS": "0",
        "PriorityWeightTRES": "CPU=10.0,Mem=20.0",
    }


def test_a_flag_that_is_not_there_is_refused_clearly(write: Callable[..., str]) -> None:
    base = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    with pytest.raises(ConfigError, match="slurm.conf:5: Invalid PriorityFlags: expected .*, not 'DEPTH'"):
        load(write(base + "PriorityFlags=DEPTH"))
    with pytest.raises(ConfigError, match="slurm.conf:5: Invalid PriorityCalcPeriod: .* is no interval"):
        load(write(base + "PriorityCalcPeriod=0"))


def test_what_surrounds_jobs(write: Write, whole: str) -> None:
    loaded = load(
        write(
            whole
            + "Prolog=/etc/p.d/*\nProlog=/opt/p\nEpilog=/a,/b\nPrologFlags=contain,Serial\nPrologEpilogTimeout=65534\n"
            + "HealthCheckNodeState=idle,cycle HealthCheckInterval=30 HealthCheckProgram=/h UsePAM=1\n"
            + "PartitionName=open Nodes=ALL PenstockAllowNewPrivs=YES\n"
        )
    )
    config, shown = loaded.config, dict(loaded.config.shown)
    assert loaded.warnings == ()
    assert (config.prolog, config.epilog) == (("/etc/p.d/*", "/opt/p"), ("/a", "/b"))
    assert config.prolog_flags == ("Contain", "Serial")
    assert config.prolog_epilog_timeout_s == 0
    assert config.has_prolog_flag("Alloc") and not config.has_prolog_flag("X11")
    assert [p.allow_new_privs for p in config.partitions] == [None, True]
    wanted = {"Prolog": "/etc/p.d/*,/opt/p", "PrologFlags": "Contain,Serial", "PrologEpilogTimeout": "65534",
              "HealthCheckInterval": "30 sec", "HealthCheckNodeState": "IDLE,CYCLE", "UsePAM": "Yes",
              "TaskProlog": "(null)"}  # fmt: skip
    assert {name: shown[name] for name in wanted} == wanted


def test_private_folders_of_job_container_conf(write: Write, whole: str) -> None:
    path = write(whole + "JobContainerType=job_container/tmpfs\n")
    with pytest.raises(ConfigError, match=r"write PenstockPrivateTmp=/FOLDER here, or BasePath="):
        load(path)
    conf = Path(path).with_name("job_container.conf")
    conf.write_text("AutoBasePath=true\nBasePath=/var/jobs Dirs=/tmp,/var/tmp\n")
    loaded = load(path)
    assert (loaded.config.private_tmp, loaded.config.private_tmp_folders) == ("/var/jobs", ("/tmp", "/var/tmp"))
    assert loaded.warnings == () and str(conf) in loaded.files
    conf.write_text("NodeName=n1 BasePath=/var/jobs\n")
    with pytest.raises(ConfigError, match="one BasePath for all"):
        load(path)


@pytest.mark.parametrize(
    ("line", "tracks"),
    [
        ("", False),
        ("AccountingStorageEnforce=limits", False),
        ("AccountingStorageEnforce=wckeys", True),
        ("AccountingStorageEnforce=all\nTrackWCKey=no", True),
    ],
)
def test_who_enforces_wckeys_tracks_them(write: Write, whole: str, line: str, tracks: bool) -> None:
    assert load(write(f"{whole}{line}\n")).config.track_wckey is tracks
