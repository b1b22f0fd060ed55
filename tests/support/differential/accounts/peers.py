"""Both sides with accounting: Slurm's has a MariaDB and a slurmdbd of its own, in the same temporary folder.

slurmdbd, MariaDB and their clients listen on free ports of the loopback interface. An installed database is not touched.
"""

import shutil
import subprocess
from collections.abc import Mapping

from livecluster import ClusterConf, LiveCluster, free_ports
from patience import ANSWER_S

from bench.measure import CannotMeasure
from bench.slurmpeer import munge_files, start_daemon
from differential.accounts import shape
from differential.peers import MOST_GPUS, SLURM_CONF, Ours, Side, Slurm

PROGRAMS = ("mariadbd", "mariadb", "mariadb-install-db", "slurmdbd")
#: Of the private database, which nobody else reaches.
USER, PASSWORD = "slurm", "slurm"

DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser={user}
StoragePass={password}
StorageLoc=acct
"""


def populate(side: Side) -> None:
    """The tree of accounts and the jobs, and wait until nothing moves any more."""
    for line in shape.PREPARE:
        side.must(line)
    for name, words in shape.JOBS.items():
        side.ids[name] = side.must(f"sbatch --parsable {words}")
        side.wait({side.ids[name] + task: state for task, state in shape.TASKS.get(name, {}).items()})
        if name in shape.SETTLED:
            side.wait({name: shape.SETTLED[name]})
    for line in shape.CHANGES:
        side.must(line)
    side.wait(shape.SETTLED_AFTER)


class AccountingSlurm(Slurm):
    """The reference."""

    def populate(self) -> None:
        populate(self)

    def _start(self) -> None:
        if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
            raise CannotMeasure(f"not installed: {' '.join(absent)}")
        ports = dict(zip(("database_port", "dbd_port"), free_ports(2), strict=True))
        self._start_database(ports["database_port"])
        start_daemon(self.running, "munged", "--foreground", *munge_files(self.folder))
        self._until((self.folder / "munge" / "munge.socket").exists)
        conf = self.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(DBD_CONF.format(folder=self.folder, user=USER, password=PASSWORD, **ports))
        self.accounting = (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={ports['dbd_port']}\nAccountingStoragePass={self.folder}/munge/munge.socket\n"
        )
        self._start_slurm()

    def _start_slurm(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "cgroup.conf").write_text("")
        for number in range(MOST_GPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=h200 File={self.folder}/gpu[0-1]\n")
        port, *ports = free_ports(1 + len(shape.NODES))
        host = self.paths[-1][0]
        text = SLURM_CONF.format(host=host, ctld_port=port, folder=self.folder)
        text = text.replace("AccountingStorageType=accounting_storage/none\n", self.accounting)
        addresses: Mapping[str, str] = {
            name: f"NodeHostname={host} NodeAddr=127.0.0.1 Port={own}"
            for name, own in zip(shape.NODES, ports, strict=True)
        }
        conf = self.folder / "slurm.conf"
        conf.write_text(text + shape.node_lines(addresses.__getitem__) + shape.CONF)
        start_daemon(self.running, "slurmdbd", "-D", env=self.env)
        self._until(lambda: self.run(["sacctmgr", "-n", "show", "cluster"]).status == 0)
        self.must("sacctmgr -i add cluster diff")
        start_daemon(self.running, "slurmctld", "-D", "-i", "-f", str(conf))
        for name in shape.NODES:
            start_daemon(self.running, "slurmd", "-D", "-N", name, "-f", str(conf))
        self._until(lambda: self.run(["sinfo", "-h", "-o", "%T", "-p", "main"]).out.split() == ["idle"])

    def _start_database(self, port: int) -> None:
        data, at = self.folder / "database", self.folder / "database.socket"
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db"]
        subprocess.run(install, check=True, capture_output=True, timeout=ANSWER_S)
        start_daemon(
            self.running, "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={at}",
            f"--port={port}", "--bind-address=127.0.0.1", "--innodb-lock-wait-timeout=900", "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0", f"--pid-file={self.folder}/mariadb.pid",
        )  # fmt: skip
        ask = ["mariadb", "--no-defaults", f"--socket={at}", "-e"]
        names = [f"'{USER}'@'{host}'" for host in ("localhost", "127.0.0.1")]
        orders = [f"create user {name} identified by '{PASSWORD}'; grant all on *.* to {name};" for name in names]
        self._until(lambda: subprocess.run([*ask, "select 1"], capture_output=True, timeout=ANSWER_S).returncode == 0)
        subprocess.run([*ask, " ".join(orders)], check=True, capture_output=True, timeout=ANSWER_S)


class ShapedCluster(LiveCluster):
    """A LiveCluster whose slurm.conf has the shape's nodes and partitions."""

    def conf_text(self, *more: str) -> str:
        own = ("NodeName=", "PartitionName=", "ClusterName=", "GresTypes=", "SelectType", "DefMem", "ReturnTo")
        lines = [line for line in super().conf_text(*more).splitlines() if not line.startswith(own)]
        lines.append("JobAcctGatherType=jobacct_gather/none")
        return "\n".join(lines) + "\n" + shape.node_lines(lambda name: "NodeAddr=127.0.0.1") + shape.CONF


class AccountingOurs(Ours):
    """Penstock."""

    def new_cluster(self) -> LiveCluster:
        return ShapedCluster(len(shape.NODES), ClusterConf(name="diff", cpus=8, memory_mb=8000, gpus=2))

    def populate(self) -> None:
        populate(self)
