"""The rarer entities of `scontrol show`: daemons, slurmd, aliases, assoc_mgr, and those that a cluster here does not have.

Of a federation, burst buffers and DataWarp there is none; they are answered as Slurm answers when none is configured.
"""

import os
import socket
import sys
from typing import Any

from cli.jobids import own_node
from cli.keywords import NAME, Call, ask, refused
from cli.run import CommandError, complain
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.values.duration import format_duration
from penstock.values.hostlist import expand

ASSOC_FLAGS = ("users", "assoc", "qos")


def federation(call: Call) -> int:
    """`show federation`: there is one cluster, so nothing is shown."""
    return 0


def burst_buffer(call: Call) -> int:
    """`show burstbuffer`: nothing is configured, so nothing is shown."""
    return 0


def dwstat(call: Call) -> int:
    """`show dwstat|bbstat`: as of burst buffers."""
    return 0


def daemons(call: Call) -> int:
    """`show daemons`: what runs on this machine, by the configuration."""
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


def slurmd(call: Call) -> int:
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
    from cli.showsteps import steps_of
    from cli.stepids import step_text

    return [step_text(step) for step in steps_of([]) if node in expand(step.node_list)]


def aliases(call: Call) -> int:
    """`show aliases [HOST]`: names of the nodes that are on a host."""
    host = call.words[0] if call.words else os.uname().nodename
    short = host.partition(".")[0]
    nodes = ask("ListNodes", pb.ListNodesRequest(), "slurm_load_node").nodes
    found = [node.name for node in nodes if {node.hostname, node.name, node.addr} & {host, short}]
    if not found and call.words:
        raise CommandError(f"Node {host} not found", plain=True)
    print(" ".join(found))  # noqa: T201
    return 0


def assoc_mgr(call: Call) -> int:
    """`show assoc_mgr [users=] [accounts=] [qos=] [flags=users,assoc,qos]`: as the controller knows them."""
    wanted = _assoc_words(call.words)
    flags = {word.lower() for word in wanted["flags"]}
    if unknown := [flag for flag in wanted["flags"] if flag.lower() not in ASSOC_FLAGS]:
        raise CommandError(f"invalid flag '{unknown[0]}', valid options are 'Assoc, QOS, and/or Users'", plain=True)
    users, associations = _tree()
    join = " " if call.options.get("oneliner") else "\n    "
    shown = flags or set(ASSOC_FLAGS)
    print("Current Association Manager state\n")  # noqa: T201
    if "users" in shown:
        _put_users([one for one in users if not wanted["users"] or one.name in wanted["users"]])
    if "assoc" in shown:
        chosen = [
            one
            for one in associations
            if (not wanted["users"] or one.user in wanted["users"])
            and (not wanted["accounts"] or one.account in wanted["accounts"])
        ]
        _put_associations(chosen, join)
    if "qos" in shown:
        _put_qos(wanted["qos"], join)
    return 0


def _assoc_words(words: list[str]) -> dict[str, list[str]]:
    wanted: dict[str, list[str]] = {"users": [], "accounts": [], "qos": [], "flags": []}
    for word in words:
        key, equals, value = word.partition("=")
        name = next((known for known in wanted if len(key) >= 1 and known.startswith(key.lower())), None)
        if name is None or not equals:
            raise CommandError(f"invalid entity: {word} for keyword:show assoc_mgr", plain=True)
        if not value:
            raise CommandError(f"No value given for option {key}", plain=True)
        wanted[name] += value.split(",")
    return wanted


def _tree() -> tuple[list[Any], list[Any]]:
    from penstock.v1.shares_pb2 import ListAssociationsRequest

    users: list[Any] = []
    associations: list[Any] = []
    with Client.open() as client:
        try:
            for page in client.stream("ListAssociations", ListAssociationsRequest()):
                users += page.users
                associations += page.associations
        except PenstockError as error:
            raise refused("slurm_load_assoc_mgr_info", error) from error
    return users, associations


def _uid(name: str) -> int:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return 2**32 - 2


def _put_users(users: list[Any]) -> None:
    if not users:
        print("No users currently cached in Slurm.\n")  # noqa: T201
        return
    print("User Records\n")  # noqa: T201
    for one in users:
        level = one.admin_level or "None"
        account = one.default_account
        print(f"UserName={one.name}({_uid(one.name)}) DefAccount={account} DefWckey= AdminLevel={level}")  # noqa: T201
    print()  # noqa: T201


def _put_associations(associations: list[Any], join: str) -> None:
    if not associations:
        print("No associations currently cached in Slurm.\n")  # noqa: T201
        return
    print("Association Records\n")  # noqa: T201
    for one in associations:
        user = f"{one.user}({_uid(one.user)})" if one.user else ""
        record = [
            f"ClusterName={_cluster()} Account={one.account} UserName={user} Partition= Priority={one.priority} ID={one.id}",
            f"SharesRaw/Norm/Level/Factor={one.shares}/{one.norm_shares:.2f}/{max(one.shares, 0)}/{one.fair_share:.2f}",
            f"UsageRaw/Norm/Efctv={one.usage_s:.2f}/{one.norm_usage:.2f}/{one.effective_usage:.2f}",
            f"ParentAccount={one.parent}" if one.parent else "ParentAccount=",
        ]
        print(join.join(record))  # noqa: T201
    print()  # noqa: T201


def _cluster() -> str:
    from penstock.cluster import find_cluster

    return find_cluster().cluster_name


def _put_qos(names: list[str], join: str) -> None:
    found = ask("ListQos", pb.ListQosRequest(names=names), "slurm_load_assoc_mgr_info").qos
    if not found:
        print("No QOS currently cached in Slurm.\n")  # noqa: T201
        return
    print("QOS Records\n")  # noqa: T201
    for number, one in enumerate(found, 1):
        record = [
            f"QOS={one.name}({number})",
            f"Priority={one.priority} UsageFactor={one.usage_factor_ppm / 1e6:.6f}",
            f"PreemptMode={','.join(one.preempt_mode) or 'OFF'}",
            f"Preempt={','.join(one.preempt)} GraceTime={format_duration(one.grace_time_s)} Flags={','.join(one.flags)}",
        ]
        print(join.join(record))  # noqa: T201
    for name in sorted(set(names) - {one.name for one in found}):
        complain(NAME, f"QOS {name} not found", plain=True)
