"""Where tasks are bound: examples by table, and what must hold for any step on any machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.base.topology_info import Cpu, NodeTopology, flat, format_list, parse_list, read_topology
from nodedaemon.launch.binding import MEM_BIND, MEM_LOCAL, MEM_PREFERRED, BindingRequest, bind
from penstock.values.binding import parse_cpu_bind, parse_mem_bind
from penstock.values.errors import BadValue


def machine(sockets: int, cores: int, threads: int) -> NodeTopology:
    """Kernel numbers as most firmware has them: all first threads, then all second ones."""
    per_thread = sockets * cores
    return NodeTopology(
        Cpu(thread * per_thread + socket * cores + core, socket, socket * cores + core, socket)
        for socket in range(sockets)
        for core in range(cores)
        for thread in range(threads)
    )


#: Two sockets of two cores of two threads: cores 0 1 | 2 3, second threads 4 5 | 6 7.
SMALL = machine(2, 2, 2)
ALL = tuple(range(8))


def sets(topology: NodeTopology = SMALL, tasks: int = 2, allowed=ALL, **fields) -> list[list[int]]:
    wanted = BindingRequest(tuple(range(tasks)), tuple(allowed), node_name="n1", **fields)
    return [task.cpus for task in bind(wanted, topology).tasks]


def test_the_controllers_numbers_and_the_kernels():
    assert [SMALL.kernel(i) for i in range(8)] == [0, 4, 1, 5, 2, 6, 3, 7]
    assert SMALL.kernel(8) == SMALL.kernel(-1) == -1
    assert SMALL.kernels(bytes([0b00001111])) == [0, 1, 4, 5]
    assert SMALL.kernels(bytes([0, 1])) == []  # not all of them are here
    assert SMALL.kernels(b"") == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"tasks": 2}, [[0, 1, 4, 5], [2, 3, 6, 7]]),  # as many as sockets
        ({"tasks": 4}, [[0, 4], [2, 6], [1, 5], [3, 7]]),  # as many as cores
        ({"tasks": 8}, [[0], [2], [4], [6], [1], [3], [5], [7]]),  # as many as threads
        ({"tasks": 3}, [list(ALL)] * 3),
        ({"tasks": 4, "distribution": "block:block"}, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ({"tasks": 5, "cpu_bind": "cores", "distribution": "block:block"}, [[0, 4], [0, 4], [1, 5], [1, 5], [2, 6]]),
        ({"tasks": 2, "cpus_per_task": 2}, [[0, 4], [2, 6]]),
        ({"tasks": 2, "cpus_per_task": 2, "distribution": "block:fcyclic"}, [[0, 2, 4, 6], [0, 2, 4, 6]]),
        ({"tasks": 2, "cpu_bind": "cores", "distribution": "block:block"}, [[0, 4], [1, 5]]),
        ({"tasks": 2, "cpu_bind": "cores", "hint": "nomultithread"}, [[0], [2]]),
        ({"tasks": 4, "cpu_bind": "threads", "threads_per_core": 1}, [[0], [2], [1], [3]]),
        ({"tasks": 2, "cpu_bind": "threads", "distribution": "*:block:*"}, [[0], [4]]),
        ({"tasks": 1, "cpu_bind": "sockets"}, [[0, 1, 4, 5]]),
        ({"tasks": 2, "cpu_bind": "ldoms", "distribution": "block:cyclic"}, [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ({"tasks": 3, "cpu_bind": "rank"}, [[0], [4], [1]]),
        ({"tasks": 3, "cpu_bind": "map_cpu:7,0x3"}, [[7], [3], [7]]),
        ({"tasks": 4, "cpu_bind": "map_cpu:0*2,3*2"}, [[0], [0], [3], [3]]),
        ({"tasks": 2, "cpu_bind": "verbose,mask_cpu:0x3,C"}, [[0, 1], [2, 3]]),
        ({"tasks": 3, "cpu_bind": "rank_ldom"}, [[0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 4, 5]]),
        ({"tasks": 1, "cpu_bind": "map_ldom:1"}, [[2, 3, 6, 7]]),
        ({"tasks": 1, "cpu_bind": "mask_ldom:0x3"}, [list(ALL)]),
        ({"tasks": 2, "cpu_bind": "none"}, [[], []]),
        ({"tasks": 2, "cpu_bind": "cores", "allowed": (1, 5, 2, 6)}, [[1, 5], [2, 6]]),
        ({"tasks": 12, "cpu_bind": "threads", "distribution": "block:block"}, [[0], [4], [1], [5], [2], [6], [3], [7], [0], [4], [1], [5]]),
    ],
)  # fmt: skip
def test_examples(fields, expected):
    assert sets(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cpu_bind": "map_cpu:5", "allowed": (0, 4)}, "CPU binding outside of job step allocation, allocated CPUs are: 0x11."),
        ({"cpu_bind": "mask_cpu:0x100"}, "CPU binding outside of job step allocation, allocated CPUs are: 0xFF."),
        ({"cpu_bind": "map_ldom:1", "allowed": (0, 4)}, "--cpu-bind: the step has no CPU on NUMA node 1"),
        ({"cpu_bind": "corse"}, "--cpu-bind: 'corse' is not one of none, rank, sockets, cores, threads, ldoms, rank_ldom, "
         "map_cpu, mask_cpu, map_ldom, mask_ldom"),
        ({"cpu_bind": "map_cpu:a"}, "--cpu-bind: 'a' is no number"),
        ({"cpu_bind": "mask_cpu:0"}, "--cpu-bind: '0' is out of range"),
        ({"cpu_bind": "map_cpu:0*99999999"}, "--cpu-bind: '0*99999999' is out of range"),
        ({"mem_bind": "map_mem:7"}, "--mem-bind: this node has no NUMA node 7"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(fields, problem):
    with pytest.raises(BadValue) as error:
        sets(**fields)
    assert str(error.value) == problem


def test_variables_and_messages():
    wanted = BindingRequest((4, 5), ALL, cpu_bind="verbose,cores", mem_bind="v,map_mem:1", node_name="n1")
    bound = bind(wanted, SMALL)
    assert bound.tasks[1].notes == [
        "cpu-bind-cores=MASK - n1, task  5  1 [{pid}]: mask 0x44 set",
        "mem-bind=MAP - n1, task  5  1 [{pid}]: mask 0x2 set",
    ]
    assert bound.environment == {
        b"SLURM_CPU_BIND": b"verbose,mask_cpu:0x11,0x44",
        b"SLURM_CPU_BIND_VERBOSE": b"verbose",
        b"SLURM_CPU_BIND_TYPE": b"mask_cpu:",
        b"SLURM_CPU_BIND_LIST": b"0x11,0x44",
        b"SLURM_MEM_BIND": b"verbose,map_mem:1",
        b"SLURM_MEM_BIND_VERBOSE": b"verbose",
        b"SLURM_MEM_BIND_TYPE": b"map_mem:",
        b"SLURM_MEM_BIND_LIST": b"1",
    }
    bound = bind(BindingRequest((0,), ALL, cpu_bind="verbose,map_cpu:3", node_name="n1"), SMALL)
    assert bound.tasks[0].notes == ["cpu-bind=MAP - n1, task  0  0 [{pid}]: mask 0x8 set"]
    assert bound.environment[b"SLURM_CPU_BIND"] == b"verbose,map_cpu:3"
    assert bind(BindingRequest((0,), ALL, cpu_bind="none"), SMALL).environment[b"SLURM_CPU_BIND"] == b"quiet,none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, [])),
        ("none", (0, [])),
        ("local", (MEM_BIND, [1])),
        ("prefer,local", (MEM_LOCAL, [])),
        ("rank", (MEM_BIND, [1])),
        ("prefer,map_mem:0", (MEM_PREFERRED, [0])),
        ("mask_mem:0x3", (MEM_BIND, [0, 1])),
    ],
)
def test_memory_of_the_second_task(text, expected):
    task = bind(BindingRequest((0, 1), ALL, cpu_bind="sockets", mem_bind=text), SMALL).tasks[1]
    assert (task.mem_mode, task.mem_nodes) == expected


shapes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 2))
distributions = st.sampled_from(["", "block", "block:block", "block:cyclic", "cyclic:fcyclic", "plane=4", "*:*"])


@given(
    shapes, st.data(), st.integers(1, 12), st.integers(1, 5), distributions,
    st.sampled_from(["", "none", "rank", "sockets", "cores", "threads", "ldoms", "rank_ldom"]),
    st.sampled_from(["", "nomultithread", "multithread"]),
)  # fmt: skip
def test_for_any_step(shape, data, tasks, per_task, distribution, cpu_bind, hint):
    topology = machine(*shape)
    everything = [cpu.kernel for cpu in topology.cpus]
    allowed = data.draw(st.lists(st.sampled_from(everything), min_size=1, unique=True))
    wanted = BindingRequest(tuple(range(tasks)), tuple(allowed), per_task, cpu_bind, "", hint, distribution)
    try:
        bound = bind(wanted, topology)
    except BadValue:
        assert cpu_bind == "rank_ldom"  # a NUMA node that the step has no cpu on
        return
    usable = set(allowed)
    chosen = [set(task.cpus) for task in bound.tasks]
    assert len(chosen) == tasks
    assert all(one <= usable for one in chosen)  # never outside of the step
    assert all(not one for one in chosen) if cpu_bind == "none" else all(chosen)
    cores = {cpu.core for cpu in topology.of(allowed)}
    room = len(cores) if hint == "nomultithread" else len(usable)
    if cpu_bind == "threads" and tasks * per_task <= room:  # nothing is given twice while there is enough
        assert sum(map(len, chosen)) == len(set().union(*chosen)) == tasks * per_task
    if hint == "nomultithread":
        assert all(len({cpu.core for cpu in topology.of(one)}) == len(one) for one in chosen)
    assert bind(wanted, topology) == bound  # and always the same


@given(st.lists(st.integers(0, 300), unique=True))
def test_lists_of_the_kernel(numbers):
    assert parse_list(format_list(numbers)) == sorted(numbers)


@given(st.text(max_size=30))
def test_no_text_is_more_than_a_bad_value(text):
    for parse in (parse_cpu_bind, parse_mem_bind):
        try:
            parse(text)
        except BadValue:
            continue


def test_sysfs(tmp_path):
    def put(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    for number, (package, core) in enumerate([(0, 0), (1, 0), (0, 0), (1, 0)]):
        put(f"cpu/cpu{number}/topology/physical_package_id", str(package))
        put(f"cpu/cpu{number}/topology/core_id", str(core))
    put("node/node0/cpulist", "0,2")
    put("node/node1/cpulist", "1,3")
    found = read_topology({0, 1, 2, 3}, str(tmp_path))
    assert [(cpu.kernel, cpu.socket, cpu.node) for cpu in found.cpus] == [(0, 0, 0), (2, 0, 0), (1, 1, 1), (3, 1, 1)]
    assert found.nodes() == [0, 1]
    assert [cpu.kernel for cpu in read_topology({1, 3}, str(tmp_path)).cpus] == [1, 3]
    nothing = read_topology({0, 1}, str(tmp_path / "no"))
    assert [(cpu.kernel, cpu.socket, cpu.core) for cpu in nothing.cpus] == [(0, 0, 0), (1, 0, 1)]
    assert [cpu.kernel for cpu in flat(2).cpus] == [0, 1]
