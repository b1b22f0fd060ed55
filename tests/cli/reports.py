"""A small made-up cluster for the reporting commands: its jobs, nodes, partitions and records, and a server of them."""

import os
import socket
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

from patience import ANSWER_S

from penstock.clusterfile import ClusterFile, write_cluster
from penstock.v1 import accounting_pb2, controller_pb2, governance_pb2, shares_pb2
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.common_pb2 import ExitStatus, GresCount, GresIndices, JobRequest, NodeAllocation, Usage
from penstock.v1.controller_pb2 import JobInfo, NodeInfo, PartitionInfo
from penstock.v1.steps_pb2 import ListStepsReply, StepInfo, StepPlan, StepSpec
from tests.cli.fake_controller import TOKEN, FakeClient

NOW_US = 1_795_230_240_000_000  # 2026-11-21T03:04:00 UTC
S = 1_000_000
SUBMIT_US = NOW_US - 40 * S
CLUSTER = ClusterFile("tiny")


def at(seconds: int) -> int:
    """Seconds after (or before) now."""
    return NOW_US + seconds * S


def request(name: str = "wrap", **more: Any) -> JobRequest:
    """The request of every job."""
    base: dict[str, Any] = {"work_dir": b"/home/ann", "requeue": True, "submit_host": "login", "command": "(null)"}
    return JobRequest(name=name, **(base | more))


def job(job_id: int, state: str, **more: Any) -> JobInfo:
    """A job of user ann."""
    base: dict[str, Any] = {
        "reason": "None", "user_id": 1000, "group_id": 100, "user_name": "ann", "group_name": "users",
        "partition": "main", "priority": 4294901758, "submit_at_us": SUBMIT_US, "eligible_at_us": SUBMIT_US,
        "last_sched_at_us": SUBMIT_US, "time_limit_s": 600, "cpus": 1, "nodes": 1, "tasks": 1,
        "tres_req": "cpu=1,mem=100M,node=1,billing=1", "std_out": b"/home/ann/slurm-%d.out" % job_id,
    }  # fmt: skip
    more.setdefault("request", request())
    return JobInfo(job_id=job_id, state=state, **(base | more))


def jobs() -> list[JobInfo]:
    """One of each kind."""
    array = {"array_job_id": 2, "time_limit_s": 93780, "request": request("arr", array="5-99:2%3")}
    return [
        job(
            1, "RUNNING", partition="gpu", priority=4294901759, start_at_us=at(-36), end_at_us=at(1764), cpus=2,
            time_limit_s=1800, node_list="n1", batch_node="n1", mem_mb=100, tasks=2,
            tres_alloc="cpu=2,mem=100M,node=1,billing=2,gres/gpu=1",
            allocation=[
                NodeAllocation(
                    node="n1", cpus=2, mem_mb=100, gres=[GresIndices(name="gpu", type="a100", index=[0])]
                )
            ],
            request=request(
                "longjobname_more", account="proj", qos="normal", comment="hi there",
                gres_per_node=[GresCount(name="gpu", type="a100", count=1)],
            ),
        ),
        job(2, "PENDING", reason="Resources", array_tasks="9-99:2", array_throttle=3, **array),
        job(3, "PENDING", reason="JobHeldUser", hold=1, priority=0),
        job(4, "FAILED", reason="NonZeroExitCode", start_at_us=at(-30), end_at_us=at(-20), node_list="n3",
            exit=ExitStatus(code=3), batch_node="n3"),
        job(8, "PENDING", reason="Dependency", partition="gpu,main", dependency="afterok:3(unfulfilled)", mem_mb=2048,
            mem_is_per_cpu=True, priority=4294901703, request=request(nice=50, nodes_excluded="n3", features="x")),
        job(9, "COMPLETED", start_at_us=at(-30), end_at_us=at(-10), node_list="n2", batch_node="n2"),
        job(10, "RUNNING", array_task_id=5, start_at_us=at(-36), end_at_us=at(93744), node_list="n2",
            batch_node="n2", **array),
        job(11, "RUNNING", array_task_id=7, start_at_us=at(-36), end_at_us=at(93744), node_list="n3",
            batch_node="n3", **array),
    ]  # fmt: skip


def job_steps() -> list[StepInfo]:
    """Of the running jobs: their scripts, and three steps of srun, one of which has ended."""

    def one(job_id: int, step_id: int, node_list: str, tasks: int, **more: Any) -> StepInfo:
        base: dict[str, Any] = {
            "state": "RUNNING", "user_id": 1000, "user_name": "ann", "partition": "main", "start_at_us": at(-36),
            "time_limit_s": -1, "cpus": tasks, "name": "", "account": "", "tres": f"cpu={tasks},mem=100M,node=1",
        }  # fmt: skip
        return StepInfo(job_id=job_id, step_id=step_id, node_list=node_list, tasks=tasks, **(base | more))

    solver = one(
        1, 0, "n[1-2]", 4, name="solver", partition="gpu", account="proj", start_at_us=at(-30), time_limit_s=300,
        spec=StepSpec(
            name="solver", distribution="block:cyclic", submit_host="login", submit_line="srun solver",
            gres_per_node=[GresCount(name="gpu", type="a100", count=1)],
        ),
        plan=StepPlan(nodes=["n1", "n2"], tasks=[2, 2], ports=[12000, 12001]), tres="cpu=4,mem=200M,node=2,gres/gpu=1",
    )  # fmt: skip
    ended = one(1, 1, "n1", 1, name="hostname", partition="gpu", state="COMPLETED", end_at_us=at(-20))
    return [
        one(1, -5, "n1", 1, name="batch", partition="gpu", account="proj"),
        solver,
        ended,
        one(10, -5, "n2", 1, name="batch", array_job_id=2, array_task_id=5),
        one(11, -5, "n3", 1, name="batch", array_job_id=2, array_task_id=7),
    ]


def node(name: str, state: str, flags: tuple[str, ...] = (), **more: Any) -> NodeInfo:
    """A node with 8 CPUs."""
    base: dict[str, Any] = {
        "hostname": name, "addr": f"10.0.0.{name[1:]}", "cpus": 8, "sockets": 2, "cores_per_socket": 4,
        "threads_per_core": 1, "real_memory_mb": 2000, "free_memory_mb": 1500, "cpu_load_centi": 7, "weight": 1,
        "version": "0.1.0", "partitions": ["main"],
    }  # fmt: skip
    return NodeInfo(name=name, base_state=state, flags=flags, **(base | more))


def nodes() -> list[NodeInfo]:
    """Six nodes: two with GPUs, one of them draining; one down; two that never registered."""
    gpu: dict[str, Any] = {
        "cpus": 4, "sockets": 1, "real_memory_mb": 1000, "features": ["x", "y"], "partitions": ["main", "gpu"],
        "gres": [GresCount(name="gpu", type="a100", count=2)], "cpu_load_centi": 106,
    }  # fmt: skip
    unknown = {"version": "", "free_memory_mb": 0, "cpu_load_centi": 0}
    used = [GresIndices(name="gpu", type="a100", index=[0])]
    fan = {"reason": "bad fan and disk failing", "reason_user": "root", "reason_at_us": at(-100)}
    gone = {"reason": "gone", "reason_user": "root", "reason_at_us": at(-50)}
    return [
        node("n1", "MIXED", cpus_alloc=2, mem_alloc_mb=100, gres_used=used, **gpu),
        node("n2", "ALLOCATED", ("DRAIN",), cpus_alloc=4, mem_alloc_mb=1000, **(gpu | fan)),
        node("n3", "MIXED", cpus_alloc=1, mem_alloc_mb=2000),
        node("n4", "DOWN", ("NO_RESPOND",), **(unknown | gone)),
        node("n5", "UNKNOWN", ("NO_RESPOND",), **unknown),
        node("n6", "UNKNOWN", ("NO_RESPOND",), **unknown),
    ]


def partitions() -> list[PartitionInfo]:
    """Two, and a hidden one."""
    base: dict[str, Any] = {
        "state": "UP",
        "min_nodes": 1,
        "max_nodes": -1,
        "priority_tier": 1,
        "priority_job_factor": 1,
    }
    return [
        PartitionInfo(
            name="main",
            is_default=True,
            nodes=[f"n{i}" for i in range(1, 7)],
            max_time_s=-1,
            default_time_s=600,
            **base,
        ),
        PartitionInfo(name="gpu", nodes=["n1", "n2"], max_time_s=86400, **(base | {"priority_tier": 3})),
        PartitionInfo(name="secret", nodes=["n1"], max_time_s=3600, hidden=True, **base),
    ]


def shown_partitions(asked: controller_pb2.ListPartitionsRequest) -> controller_pb2.ListPartitionsReply:
    """The controller's answer to an ordinary user."""
    found = [p for p in partitions() if not (p.hidden and asked.hide_hidden)]
    return controller_pb2.ListPartitionsReply(partitions=found)


def step(state: str, **more: Any) -> StepRecord:
    """A batch step."""
    base: dict[str, Any] = {
        "step_id": -5,
        "name": "batch",
        "cpus_alloc": 2,
        "nodes_alloc": 1,
        "tasks": 1,
        "cancelled_by_uid": -1,
    }
    return StepRecord(state=state, **(base | more))


def record(job_id: int, state: str, **more: Any) -> JobRecord:
    """A job's record."""
    base: dict[str, Any] = {
        "user_id": 1000, "group_id": 100, "user_name": "ann", "group_name": "users", "partition": "main",
        "priority": 5, "submit_at_us": at(-4000), "eligible_at_us": at(-4000), "time_limit_s": 600, "cpus_req": 2,
        "nodes_req": 1, "tasks": 1, "tres_req": "cpu=2,mem=4G,node=1,billing=2", "cancelled_by_uid": -1,
        "cluster": "tiny", "reason": "None",
    }  # fmt: skip
    more.setdefault("request", request(account="proj"))
    return JobRecord(job_id=job_id, state=state, **(base | more))


def records() -> list[JobRecord]:
    """One of each kind."""
    ran: dict[str, Any] = {"cpus_alloc": 2, "nodes_alloc": 1, "tres_alloc": "cpu=2,mem=4G,node=1,billing=2"}
    used = Usage(
        user_cpu_us=61_234_000, system_cpu_us=500_000, max_rss_kb=1228, max_vmsize_kb=204800, disk_read_bytes=2048
    )
    times: dict[str, Any] = {"start_at_us": at(-3990), "end_at_us": at(-290)}
    return [
        record(
            20, "COMPLETED", node_list="n1", steps=[step("COMPLETED", node_list="n1", usage=used, **times)],
            request=request("simulation_long", account="proj", submit_line="sbatch job.sh"),
            std_out=b"/home/ann/out.txt", **(ran | times),
        ),
        record(
            21, "CANCELLED", node_list="n2", cancelled_by_uid=1000, exit=ExitStatus(signal=15), **(ran | times),
            steps=[step("CANCELLED", exit=ExitStatus(signal=15), **times)],
        ),
        record(22, "CANCELLED", cancelled_by_uid=0, end_at_us=at(-3000)),
        record(23, "PENDING", array_job_id=23, array_tasks="0-9", array_throttle=2, reason="Resources"),
        record(
            24, "RUNNING", array_job_id=23, array_task_id=10, node_list="n[1-2]", start_at_us=at(-60), time_limit_s=-1,
            steps=[step("RUNNING", node_list="n1", start_at_us=at(-60))], **(ran | {"nodes_alloc": 2}),
        ),
        record(25, "FAILED", exit=ExitStatus(code=2), derived_exit=ExitStatus(code=2), **(ran | times)),
    ]  # fmt: skip


def install(monkeypatch: Any, **answers: Any) -> FakeClient:
    """Installs the made-up cluster in place of the real client; `answers` replace some of its answers."""
    everything: dict[str, Any] = {
        "ListJobs": lambda asked: pages_of_jobs(asked),
        "ListNodes": controller_pb2.ListNodesReply(nodes=nodes()),
        "ListPartitions": shown_partitions,
        "ListReservations": controller_pb2.ListReservationsReply(),
        "ListSteps": lambda asked: ListStepsReply(steps=job_steps()),
        "ListRecords": [accounting_pb2.ListRecordsReply(records=records())],
        "ListQos": controller_pb2.ListQosReply(qos=[controller_pb2.Qos(name="normal", id=1)]),
        "ListWckeys": governance_pb2.ListWckeysReply(),
        "ListAssociations": [
            shares_pb2.ListAssociationsReply(associations=[shares_pb2.Association(id=7, account="proj", user="ann")])
        ],
    }
    client = FakeClient(**(everything | answers)).install(monkeypatch)
    client.cluster = CLUSTER
    for module in ("squeue", "sinfo", "sacct"):
        monkeypatch.setattr(f"cli.{module}.now_us", lambda: NOW_US)
    for name in list(os.environ):
        if name.startswith(("SQUEUE_", "SINFO_", "SACCT_", "SLURM_")):
            monkeypatch.delenv(name)
    return client


def pages_of_jobs(asked: controller_pb2.ListJobsRequest) -> list[controller_pb2.ListJobsReply]:
    """The controller's answer in two pages, filtered by ids, states and partitions."""
    ended = {"FAILED", "COMPLETED"}
    found = [j for j in jobs() if asked.all_states or asked.filter.states or j.state not in ended]
    if asked.filter.states:
        found = [j for j in found if j.state in asked.filter.states]
    if asked.filter.partitions:
        found = [j for j in found if set(j.partition.split(",")) & set(asked.filter.partitions)]
    if asked.filter.ids:
        found = [j for j in found if any(_is_meant(j, text) for text in asked.filter.ids)]
    middle = len(found) // 2
    return [controller_pb2.ListJobsReply(jobs=found[:middle]), controller_pb2.ListJobsReply(jobs=found[middle:])]


def _is_meant(info: JobInfo, text: str) -> bool:
    from penstock.values.jobid import parse_selector
    from penstock.values.taskset import TaskSet

    selector = parse_selector(text)
    if selector.tasks is None:
        return selector.job_id in (info.job_id, info.array_job_id)
    if info.array_job_id != selector.job_id:
        return False
    own = TaskSet.of([info.array_task_id]) if info.HasField("array_task_id") else TaskSet.parse(info.array_tasks)
    return bool(own.intersect(selector.tasks))


class ReportServer:
    """The made-up cluster behind real sockets, for commands that run as processes."""

    def __init__(self, folder: Path) -> None:
        import grpc

        answers = {
            "ListJobs": lambda asked, context: iter(pages_of_jobs(asked)),
            "ListNodes": lambda asked, context: controller_pb2.ListNodesReply(nodes=nodes()),
            "ListPartitions": lambda asked, context: shown_partitions(asked),
            "ListRecords": lambda asked, context: iter([accounting_pb2.ListRecordsReply(records=records())]),
        }
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        for module, service_name in ((controller_pb2, "Controller"), (accounting_pb2, "Accounting")):
            service = module.DESCRIPTOR.services_by_name[service_name]
            handlers = {}
            for method in (m for m in service.methods if m.name in answers):
                make = (
                    grpc.unary_stream_rpc_method_handler
                    if method.server_streaming
                    else grpc.unary_unary_rpc_method_handler
                )
                kind = getattr(module, method.input_type.name)
                handlers[method.name] = make(answers[method.name], kind.FromString, lambda m: m.SerializeToString())
            self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
        self.server.add_insecure_port(f"unix:{folder / 'ctld.sock'}")
        self.server.start()
        self.auth = socket.socket(socket.AF_UNIX)
        self.auth.bind(str(folder / "auth.sock"))
        self.auth.listen()
        self.issuer = threading.Thread(target=self._issue_tokens, daemon=True)
        self.issuer.start()
        self.cluster_file = folder / "cluster.json"
        write_cluster(self.cluster_file, ClusterFile("tiny", "h", str(folder / "ctld.sock"), str(folder / "auth.sock")))

    def _issue_tokens(self) -> None:
        while True:
            try:
                connection, _ = self.auth.accept()
            except OSError:
                return
            with connection:
                connection.sendall(TOKEN)

    def close(self) -> None:
        """Stop serving."""
        self.auth.shutdown(socket.SHUT_RDWR)
        self.auth.close()
        self.issuer.join(ANSWER_S)
        self.server.stop(None).wait()
