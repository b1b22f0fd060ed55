"""Properties: what is written can be read back as equal, and no bytes make the reader fail in an unforeseen way."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config import ConfigError, load, render
from penstock.config.keys import GLOBALS, LINES
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from penstock.values.weights import parse_weights

QUICK = settings(examples(quick=40, full=400), suppress_health_check=[HealthCheck.too_slow], derandomize=True)

words = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}[a-z0-9]", fullmatch=True)
texts = st.text(
    st.characters(blacklist_categories=("C", "Zl", "Zp"), blacklist_characters='"'), min_size=1, max_size=30
)
paths = texts.map(lambda text: "/" + text)
names = st.lists(words, unique=True, max_size=3).map(tuple)
sizes = st.integers(0, 2**40)
limits = st.one_of(st.just(-1), st.integers(1, 10**7))


tres_weights = st.sampled_from([(), parse_weights("CPU=1.5,Mem=0.25G", "x"), parse_weights("GRES/gpu=2", "x")])


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeConfig]:
    found: list[NodeConfig] = []
    stems = draw(
        st.lists(words.filter(lambda w: w.upper() not in ("ALL", "DEFAULT")), min_size=1, max_size=4, unique=True)
    )
    for stem in stems:
        boards, sockets, cores, threads = (draw(st.integers(1, 4)) for _ in range(4))
        sockets *= boards
        cpus = draw(st.sampled_from([sockets * cores, sockets * cores * threads]))
        if cores == threads == 1:
            cpus = sockets
        template = NodeConfig(
            name="",
            hostname="",
            addr="",
            cpus=cpus,
            boards=boards,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            real_memory_mb=draw(sizes),
            tmp_disk_mb=draw(sizes),
            gres=tuple(
                Gres(name, draw(st.sampled_from(["", "ta", "tb"])), draw(st.integers(1, 9))) for name in draw(names)
            ),
            features=draw(names),
            weight=draw(st.integers(0, 1000)),
            state=draw(st.sampled_from(["UNKNOWN", "DOWN", "DRAIN", "FUTURE"])),
            reason=draw(st.one_of(st.just(""), texts)),
            port=draw(st.sampled_from([6818, 7000])),
        )
        hostname, addr = draw(st.sampled_from([("", ""), ("shared.example", ""), ("", "10.0.0.1"), ("h", "fe80::1")]))
        numbers = draw(st.lists(st.sampled_from(["x1", "x2", "x03", "x04", "x10", "-ib"]), min_size=1, unique=True))
        for number in numbers:
            name = stem + number
            host = hostname or name
            found.append(replace(template, name=name, hostname=host, addr=addr or host))
    return list({node.name: node for node in found}.values())


@st.composite
def partitions(draw: st.DrawFn, node_names: list[str]) -> tuple[PartitionConfig, ...]:
    found = []
    for index, name in enumerate(
        draw(st.lists(words.filter(lambda w: w.upper() not in ("ALL", "DEFAULT")), min_size=1, max_size=3, unique=True))
    ):
        max_time_s = draw(limits)
        found.append(
            PartitionConfig(
                name=name,
                nodes=tuple(draw(st.lists(st.sampled_from(node_names), unique=True))),
                is_default=index == 0,
                state=draw(st.sampled_from(["UP", "DOWN", "DRAIN", "INACTIVE"])),
                max_time_s=max_time_s,
                default_time_s=draw(st.integers(0, max_time_s if max_time_s > 0 else 10**6)),
                max_nodes=draw(st.one_of(st.just(-1), st.integers(5, 10))),
                min_nodes=draw(st.integers(0, 5)),
                priority_tier=draw(st.integers(0, 100)),
                tres_billing_weights=draw(tres_weights),
                def_mem_per_cpu_mb=draw(sizes),
                max_mem_per_node_mb=draw(sizes),
                allow_groups=draw(names),
                allow_qos=draw(names),
                alloc_nodes=draw(st.sampled_from([(), ("login1", "login2")])),
                req_resv=draw(st.booleans()),
                deny_accounts=draw(names),
                root_only=draw(st.booleans()),
                over_subscribe=draw(st.sampled_from(["NO", "YES", "YES:2", "EXCLUSIVE", "FORCE", "FORCE:3"])),
                lln=draw(st.booleans()),
                over_time_limit_s=draw(st.sampled_from([-1, 0, 60, 600])),
            )
        )
    return tuple(found)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    all_nodes = draw(nodes())
    return Config(
        cluster_name=draw(words.map(lambda word: word.replace(".", "_"))),
        controller_host=draw(words),
        controller_addr=draw(st.sampled_from(["10.0.0.1", "fe80::2", "head.example"])),
        slurmctld_port=draw(st.integers(1000, 2000)),
        slurm_user="root",
        state_save_location=draw(paths),
        slurmctld_log_file=draw(st.one_of(st.just(""), paths)),
        penstock_database_url=draw(st.sampled_from(["", "postgresql://a:b#c@d/e?f=g"])),
        penstock_operators=draw(names),
        kill_wait_s=draw(st.integers(0, 100)),
        job_requeue=draw(st.booleans()),
        gres_types=tuple(sorted({one.name for node in all_nodes for one in node.gres})),
        scheduler_parameters=draw(st.sampled_from([(), (("bf_continue", ""), ("bf_interval", "5"))])),
        private_data=draw(st.sampled_from([(), ("jobs", "usage")])),
        requeue_exit=draw(st.sampled_from([(), (1, 2, 3, 9)])),
        def_cpu_per_gpu=draw(st.integers(0, 8)),
        slurmd_debug=draw(st.sampled_from(["info", "debug2"])),
        def_mem_per_node_mb=draw(sizes),
        enforce_part_limits=draw(st.sampled_from(["NO", "ANY", "ALL"])),
        over_time_limit_s=draw(st.sampled_from([-1, 0, 60])),
        priority_type=draw(st.sampled_from(["priority/basic", "priority/multifactor"])),
        priority_decay_half_life_s=draw(st.integers(0, 10**7)),
        priority_calc_period_s=draw(st.integers(1, 10**5)),
        priority_favor_small=draw(st.booleans()),
        priority_flags=draw(st.sampled_from([(), ("INCR_ONLY",), ("ACCRUE_ALWAYS", "NO_FAIR_TREE")])),
        priority_usage_reset_period=draw(st.sampled_from(["NONE", "NOW", "WEEKLY"])),
        priority_weight_fair_share=draw(st.integers(0, 10**9)),
        priority_weight_tres=draw(tres_weights),
        propagate_resource_limits=draw(st.sampled_from(["ALL", "NONE", "NOFILE,STACK"])),
        nodes=tuple(all_nodes),
        partitions=draw(partitions([node.name for node in all_nodes])),
    )


@given(configs())
@QUICK
def test_what_render_writes_load_reads(config: Config) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "slurm.conf")
        path.write_text(render(config), encoding="utf-8")
        loaded = load(str(path))
    assert loaded.config == config
    assert loaded.warnings == ()


def test_scheduler_fields_are_written_as_parameters(tmp_path: Path) -> None:
    node = NodeConfig(name="n1", hostname="n1", addr="n1", cpus=1)
    partition = PartitionConfig(name="p", nodes=("n1",))
    config = Config(
        sched_interval_s=5, max_script_bytes=4096, slurm_user="root", nodes=(node,), partitions=(partition,)
    )
    path = tmp_path / "slurm.conf"
    path.write_text(render(config))
    again = load(str(path)).config
    assert (again.sched_interval_s, again.max_script_bytes) == (5, 4096)


@pytest.mark.parametrize("text", ['a"b', "a\nb", "a\x1bb"])
def test_render_refuses_what_the_syntax_cannot_hold(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        render(Config(reboot_program="/" + text))


def check_no_surprise(slurm_conf: bytes, gres_conf: bytes, **others: bytes) -> None:
    """Only ConfigError, with at least one problem, each of one printable line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "slurm.conf")
        path.write_bytes(slurm_conf)
        Path(folder, "gres.conf").write_bytes(gres_conf)
        for name, content in others.items():
            Path(folder, name.replace("_", ".")).write_bytes(content)
        try:
            loaded = load(str(path))
        except ConfigError as error:
            lines = [str(problem) for problem in error.problems]
            count = len(lines)
        else:
            lines, count = list(loaded.warnings), 1
    assert count
    for line in lines:
        assert "\n" not in line and "\x1b" not in line and "\0" not in line


@given(st.binary(max_size=200), st.binary(max_size=60))
@QUICK
def test_arbitrary_bytes(slurm_conf: bytes, gres_conf: bytes) -> None:
    check_no_surprise(slurm_conf, gres_conf)


WHOLE = b"ClusterName=c\nSlurmctldHost=h\nNodeName=n[1-4]\nPartitionName=p Nodes=ALL\nTopologyPlugin=topology/tree\n"
pieces = st.lists(
    st.sampled_from(
        [b"- topology: t\n", b"  tree:\n", b"    switches:\n", b"      - switch: a\n", b"        nodes: n[1-2]\n",
         b"        children: a\n", b"  block: {block_sizes: [2], blocks: [{block: b, nodes: n[1-4]}]}\n", b"- *x\n", b"&x ",
         b"SwitchName=s Nodes=n1\n", b"SwitchName=t Switches=s,t\n", b"PurgeJobAfter=2month\n", b"PrivateData=jobs,all\n",
         b"ConstrainCores=yes ", b"AllowedRAMSpace=x%\n", b"\\\n", b"# \xe9\n", b'"', b"\r\n", b"\x00", b"Include x.conf\n"]
    ),
    max_size=12,
).map(b"".join)  # fmt: skip


@given(pieces, pieces, pieces, pieces)
@QUICK
def test_files_beside_it(yaml: bytes, topology: bytes, cgroup: bytes, slurmdbd: bytes) -> None:
    others = {"topology_yaml": yaml} if yaml else {}
    check_no_surprise(WHOLE, b"", topology_conf=topology, cgroup_conf=cgroup, slurmdbd_conf=slurmdbd, **others)


keys = sorted({key.name for table in (GLOBALS, *LINES.values()) for key in table.keys} | {"Include"})
values = st.one_of(
    st.sampled_from(
        [
            "YES",
            "ALL",
            "DEFAULT",
            "UNLIMITED",
            "-1",
            "0",
            "7",
            "n[1-3]",
            "n[1-",
            "gpu:2",
            "a,b",
            '""',
            "\\",
            "/x",
            "1-0",
        ]
    ),
    st.text(max_size=8),
)
pairs = st.builds("{}={}".format, st.sampled_from(keys), values)
lines = st.builds(
    "{} {}".format,
    st.sampled_from(["NodeName=n1", "NodeName=DEFAULT", "PartitionName=p", "NodeSet=s", ""]),
    st.lists(pairs, max_size=4).map(" ".join),
)


@given(st.lists(st.one_of(lines, pairs), max_size=8).map("\n".join), st.lists(pairs, max_size=3).map(" ".join))
@QUICK
def test_arbitrary_lines_of_known_keys(slurm_conf: str, gres_conf: str) -> None:
    base = "ClusterName=a\nSlurmctldHost=b\nGresTypes=gpu\nNodeName=n1 Gres=gpu:2\nPartitionName=q Nodes=n1\n"
    check_no_surprise(
        (base + slurm_conf).encode("utf-8", "replace"), ("Name=gpu " + gres_conf).encode("utf-8", "replace")
    )
