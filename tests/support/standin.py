"""Stand-ins for the controller and the node daemon: enough to run `penstock up`, `down` and `status`.

    standin.py ctld --config FILE --foreground
    standin.py noded --node-name NAME --spool DIR ...

A node is registered while its spool holds a file `registered`. The controller appends each call to StateSaveLocation/calls;
the number in StateSaveLocation/jobs is how many jobs run. A file `fail-NAME` beside slurm.conf makes that daemon fail.
"""

import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from penstock.calls import USER_TOKEN_KEY
from penstock.v1 import controller_pb2 as c
from penstock.v1.controller_pb2_grpc import ControllerServicer, add_ControllerServicer_to_server


class Controller(ControllerServicer):
    def __init__(self, home: Path) -> None:
        self.home = home
        self.partition = "UP"
        (self.names,) = re.findall(r"^NodeName=(\S+)", (home / "slurm.conf").read_text(), re.M)

    def note(self, text: str) -> None:
        with open(self.home / "ctld" / "calls", "a") as file:
            file.write(text + "\n")

    def Ping(self, request: c.PingRequest, context: grpc.ServicerContext) -> c.PingReply:
        if USER_TOKEN_KEY in dict(context.invocation_metadata()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token of a user is accepted")
        self.note("Ping")
        return c.PingReply(cluster_name="local")

    def ListNodes(self, request: c.ListNodesRequest, context: grpc.ServicerContext) -> c.ListNodesReply:
        ((prefix, last),) = re.findall(r"^(n)(?:\[1-)?(\d+)\]?$", self.names)
        nodes = [f"{prefix}{i}" for i in range(1, int(last) + 1)]
        there = {n for n in nodes if (self.home / "noded" / n / "registered").exists()}
        return c.ListNodesReply(
            nodes=[c.NodeInfo(name=n, base_state="IDLE" if n in there else "UNKNOWN") for n in nodes]
        )

    def ListPartitions(self, request: c.ListPartitionsRequest, context: grpc.ServicerContext) -> c.ListPartitionsReply:
        return c.ListPartitionsReply(partitions=[c.PartitionInfo(name="debug", state=self.partition)])

    def UpdatePartition(self, request: c.UpdatePartitionRequest, context: grpc.ServicerContext) -> c.Empty:
        self.note(f"UpdatePartition {request.name} {dict(request.changes)}")
        self.partition = request.changes["state"]
        return c.Empty()

    def CancelJobs(self, request: c.CancelJobsRequest, context: grpc.ServicerContext) -> c.JobResultsReply:
        self.note(f"CancelJobs {list(request.filter.states)}")
        (self.home / "ctld" / "jobs").write_text("0")
        return c.JobResultsReply()

    def ListJobs(self, request: c.ListJobsRequest, context: grpc.ServicerContext) -> Iterator[c.ListJobsReply]:
        path = self.home / "ctld" / "jobs"
        running = int(path.read_text()) if path.exists() else 0
        yield c.ListJobsReply(jobs=[c.JobInfo(job_id=i + 1, state="RUNNING") for i in range(running)])


def give_tokens(path: Path) -> None:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    while True:
        connection, _ = listener.accept()
        connection.sendall(b"token")
        connection.close()


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    name = "ctld" if sys.argv[1] == "ctld" else option("--node-name")
    home = Path(option("--config")).parent if name == "ctld" else Path(option("--spool")).parents[1]
    print(f"{name} starts: {' '.join(sys.argv[1:])}", flush=True)
    if (home / f"fail-{name}").exists():
        sys.exit(f"{name}: the disk is on fire")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    if name == "ctld":
        server = grpc.server(ThreadPoolExecutor(2))
        add_ControllerServicer_to_server(Controller(home), server)
        server.add_insecure_port(f"unix:{home}/ctld/ctld.sock")
        server.start()
        threading.Thread(target=give_tokens, args=(home / "ctld" / "auth.sock",), daemon=True).start()
        ended.wait()
        server.stop(None)
        return
    spool = Path(option("--spool"))
    spool.mkdir(parents=True, exist_ok=True)
    (spool / "registered").touch()
    ended.wait()
    (spool / "registered").unlink()


if __name__ == "__main__":
    main()
