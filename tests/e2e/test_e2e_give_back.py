"""Allocations are given back although the database was away when their command ended."""

import subprocess
import threading

from livecluster import ClusterConf, LiveCluster, command
from patience import ANSWER_S
from postgres import Server


class Told:
    """A command that runs; its error output, line by line."""

    def __init__(self, cluster: LiveCluster, name: str, *words: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command(name, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cluster.work,
            env=cluster.environment(),
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == b"runs\n"
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.decode())

    def repeats(self) -> bool:
        return any("; trying again for up to" in line for line in self.lines)

    def shown(self) -> list[str]:
        return self.lines

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> int:
        status = self.process.wait(ANSWER_S)
        self._reader.join(ANSWER_S)
        return status


def test_allocations_are_given_back_when_the_database_is_there_again() -> None:
    with Server() as server:
        conf = ClusterConf(more=(f"PenstockDatabaseUrl={server.new_database()}",))
        with LiveCluster(1, conf) as cluster:
            both = [Told(cluster, name, "-n1", "sh", "-c", "echo runs; cat") for name in ("salloc", "srun")]
            jobs = [job.job_id for job in cluster.jobs(states=["RUNNING"])]
            server.stop("immediate")
            for told in both:
                told.close()
            for told in both:
                cluster.wait(told.repeats, "it is refused", show=told.shown)
            server.start()
            assert [told.end() for told in both] == [0, 0], [told.lines for told in both]
            assert [job.state for job in cluster.wait_ends(*jobs)] == ["COMPLETED"] * 2
