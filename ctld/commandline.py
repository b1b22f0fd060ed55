"""The options of `penstock ctld`, apart from the controller: a shell that completes them imports nothing else."""

from penstock.cluster import own_conf_path
from penstock.daemonline import DaemonLine, DaemonOption

CONFIG_HELP = "slurm.conf (default: that of PENSTOCK_HOME or SLURM_CONF, here %(default)s)"
EXAMPLES = """Examples:
  penstock ctld --config /etc/penstock/slurm.conf
  penstock ctld --accept-loss    after a backup was restored: once"""


def command_line() -> DaemonLine:
    """The whole command line; the default configuration is this environment's."""
    return DaemonLine(
        "penstock ctld",
        "The controller.",
        (
            DaemonOption(("--config", "-f"), CONFIG_HELP, "FILE", own_conf_path()),
            DaemonOption(("--foreground",), "stay in the foreground (it always does)"),
            DaemonOption(
                ("--accept-loss",),
                "start although the database is older than what was acknowledged (a backup was restored): once",
            ),
            *(
                DaemonOption((f"--{name}-above",), f"with --accept-loss: {what} continue above N", "N", 0, convert=int)
                for name, what in (("epoch", "epochs"), ("job-id", "job ids"))
            ),
        ),
        EXAMPLES,
    )
