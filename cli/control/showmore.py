"""The rarer entities of `scontrol show`: daemons, slurmd, aliases, and those that Penstock does not have.

There are no federations, burst buffers or DataWarp; the answers are Slurm's when none is configured.
"""

import os
import socket
import sys

from cli.base.jobids import own_node
from cli.base.run import CommandError
from cli.control.keywords import KeywordCall, ask
from penstock.v1 import controller_pb2 as pb
from penstock.values.hostlist import expand


def federation(call: KeywordCall) -> int:
    """`show federation`: there are none, so nothing is shown."""
    return 0


def burst_buffer(call: KeywordCall) -> int:
    """`show burstbuffer`: nothing is configured, so nothing is shown."""
    return 0


def dwstat(call: KeywordCall) -> int:
    """`show dwstat|bbstat`: the same as for burst buffers."""
    return 0


def daemons(call: KeywordCall) -> int:
    """`show daemons`: the daemons of this machine according to the configuration."""
    names = {own_node(), socket.gethostname(), socket.gethostname().partition(".")[0]}
    lines = ask("ShowConfig", pb.ShowConfigRequest(), "slurm_load_ctl_conf").lines
    controllers = {line.value.partition("(")[0] for line in lines if line.key.startswith("SlurmctldHost[")}
    nodes = ask("ListNodes", pb.ListNodesRequest(), "slurm_load_node").nodes
    found = []
    if controllers & (names | {"localhost"}):
        found.append("slurmctld")
    if any(node.name in names or node.hostname in names for node in nodes):
        found.append("slurmd")
    sys.stdout.write(f"{' '.join(found)} \n")
    return 0


def slurmd(call: KeywordCall) -> int:
    """`show slurmd`: the node daemon of this machine."""
    name = own_node()
    reply = ask("ListNodes", pb.ListNodesRequest(names=[name]), "slurm_load_slurmd_status")
    node = next((one for one in reply.nodes if one.name == name), None)
    if node is None or not node.noded_start_at_us:
        raise CommandError("slurm_load_slurmd_status: Connection refused", plain=True)
    steps = _steps_on(name)
    report = call.report()
    rows = (
        ("Active Steps", ", ".join(steps) or "NONE"),
        ("Actual CPUs", node.cpus),
        ("Actual Boards", node.boards),
        ("Actual sockets", node.sockets),
        ("Actual cores", node.cores_per_socket),
        ("Actual threads per core", node.threads_per_core),
        ("Actual real memory", f"{node.real_memory_mb} MB"),
        ("Actual temp disk space", f"{node.tmp_disk_mb} MB"),
        ("Boot time", report.date(node.noded_start_at_us)),
        ("Hostname", node.name),
        ("Version", node.version),
    )
    sys.stdout.write("".join(f"{key:<24} = {value}\n" for key, value in rows))
    return 0


def _steps_on(node: str) -> list[str]:
    from cli.base.stepids import step_text
    from cli.control.showsteps import steps_of

    return [step_text(step) for step in steps_of([]) if node in expand(step.node_list)]


def aliases(call: KeywordCall) -> int:
    """`show aliases [HOST]`: names of the nodes that are on a host."""
    host = call.words[0] if call.words else os.uname().nodename
    short = host.partition(".")[0]
    nodes = ask("ListNodes", pb.ListNodesRequest(), "slurm_load_node").nodes
    found = [node.name for node in nodes if {node.hostname, node.name, node.addr} & {host, short}]
    if not found and call.words:
        raise CommandError(f"Node {host} not found", plain=True)
    print(" ".join(found))  # noqa: T201
    return 0
