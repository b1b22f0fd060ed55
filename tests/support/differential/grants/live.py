"""Our side with processes: a cluster of the comparison's shape, whose jobs say what they were given."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

from livecluster import ClusterConf, Daemon, LiveCluster
from patience import END_S

from differential.grants import answers, cluster, probe


class ShapedCluster(LiveCluster):
    """With the nodes and partitions of the comparison."""

    def conf_text(self, *more: str) -> str:
        own = ("NodeName=", "PartitionName=", "ClusterName=", "GresTypes=", "SelectType", "DefMem", "ReturnTo")
        lines = [line for line in super().conf_text(*more).splitlines() if not line.startswith(own)]
        return "\n".join(lines) + "\n" + cluster.node_lines(lambda name: "NodeAddr=127.0.0.1") + cluster.CONF

    def start_node(self, name: str, **env: str) -> Daemon:
        kind = next(kind for kind in cluster.KINDS if name in kind.names)
        self.conf = replace(self.conf, cpus=kind.cpus, memory_mb=kind.memory_mb, gpus=kind.gpus, gpu_type=kind.gpu_type)
        return super().start_node(name, **env)


class LiveOurs:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self.cluster = ShapedCluster(len(cluster.NODES), ClusterConf())

    def __enter__(self) -> "LiveOurs":
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def ask(self, line: str, steps: Sequence[str]) -> tuple[answers.Job, list[answers.Step]]:
        """As ours.Ours.ask."""
        work = self.cluster.work
        script, out = work / "probe", work / "out"
        script.write_text(probe.steps_script(str(work), list(steps)))
        out.unlink(missing_ok=True)
        done = self.cluster.run("sbatch", "--parsable", "-J", "job", "-o", str(out), *shlex.split(line), str(script))
        if done.status:
            return answers.Job(answers.REFUSED, answers.lines(done.err), {}, {}), []
        deadline = time.monotonic() + END_S
        while not (out.exists() and out.read_bytes().endswith(f"{probe.END}\n".encode())):
            assert time.monotonic() < deadline, f"{line}: {out.read_text() if out.exists() else 'never began'}"
            time.sleep(0.05)
        self.cluster.wait_state(int(done.out), "COMPLETED")
        nodes, env, found = answers.of_said(out.read_text())
        return answers.Job(answers.RUNS, answers.lines(done.err), nodes, env), found
