"""The options of `penstock noded`, apart from the daemon: a shell that completes them imports nothing else."""

import platform
from typing import Final

from penstock.daemonline import LOG_OPTIONS, DaemonLine, DaemonOption

#: Slurm's SlurmdPort, which firewalls already allow.
STREAM_PORT: Final = 6818
SPOOL: Final = "/var/spool/penstock/noded"
EXAMPLES = """Examples:
  penstock noded --join-file token --controller ctl:6817 --cert-dir certs    get this node's certificate, once
  penstock noded --controller ctl:6817 --cert-dir certs                      run this node's jobs
  penstock noded --login --controller ctl:6817 --cert-dir certs              give tokens on a login host"""


def command_line() -> DaemonLine:
    """The whole command line; the default name is this machine's."""
    return DaemonLine(
        "penstock noded",
        "The node daemon: runs this node's jobs.",
        (
            DaemonOption(
                ("--node-name",), "this node's name (default: %(default)s)", "NAME", platform.node().partition(".")[0]
            ),
            DaemonOption(
                (
                    "--controller",
                    "--conf-server",
                ),
                "the controller's port for nodes, or unix:PATH (default: what slurm.conf says)",
                "HOST[:PORT]",
            ),
            DaemonOption(("--cert-dir",), "folder with node.pem, node.key and ca.pem", "DIR"),
            DaemonOption(("--spool",), f"where state is kept (default: what slurm.conf says, else {SPOOL})", "DIR"),
            DaemonOption(("--cpus",), "pretend to have N CPUs", "N"),
            DaemonOption(("--real-memory",), "pretend to have that much memory", "MB"),
            DaemonOption(("--gpus",), "pretend to have N GPUs", "N[:TYPE]"),
            DaemonOption(
                ("--instance-id",), "of a machine in a cloud: shown by scontrol, sinfo and sacctmgr", "ID", ""
            ),
            DaemonOption(("--instance-type",), "type of that machine, shown with it", "TYPE", ""),
            DaemonOption(("--extra",), "any text about this node: Extra of scontrol show node", "TEXT", ""),
            DaemonOption(
                ("--cluster-file",),
                "cluster.json for commands inside jobs (default: the daemon's own, in the spool, with its own tokens)",
                "FILE",
                "",
            ),
            DaemonOption(
                ("--cgroup",), "put steps into control groups where possible", default="auto", choices=("auto", "off")
            ),
            DaemonOption(("--constrain-memory",), "limit memory to the allocation, regardless of cgroup.conf"),
            DaemonOption(("--insecure",), "connect to HOST:PORT without TLS, for tests only"),
            DaemonOption(
                ("--stream-port",),
                f"port for srun, sattach and sstat; 0 = any free port (default: what slurm.conf says, else {STREAM_PORT})",
                "N",
            ),
            DaemonOption(
                ("--metrics-port",),
                "where metrics are shown if MetricsType is set; 0 = any free port (default: PenstockMetricsNodePort)",
                "N",
            ),
            *LOG_OPTIONS,
            DaemonOption(("--stream-bind",), "listen for them on this address only", "ADDRESS", ""),
            DaemonOption(
                ("--join",),
                "get this node's certificate with the join token on standard input, write it to --cert-dir and end",
                "-",
            ),
            DaemonOption(("--join-file",), "the same with the join token in a file of mode 0600", "FILE"),
            DaemonOption(
                ("--login",),
                "a login host: no jobs, only tokens for the users here; --controller is then the port for commands",
            ),
        ),
        EXAMPLES,
    )
