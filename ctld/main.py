"""`penstock ctld`: reads the configuration, opens the state, becomes leader, serves, stops.

    configuration -> lock and state folder -> certificates -> database, lease, load -> core -> sockets -> serve

Exit status: 0 after a clean stop; otherwise one of ctld/runtime/exits.py, with the file and line, the path or the
numbers concerned.
"""

import asyncio
import os
import sys
from functools import partial

from ctld.commandline import command_line
from ctld.daemon import ControllerDaemon, serve
from ctld.runtime import exits
from ctld.runtime.logs import FORMAT, log_settings
from ctld.runtime.statefolder import StateFolder
from ctld.runtime.turns import WatchedLoop
from ctld.store.errors import LeaseHeld, StorageWaits, StoreDamaged, StoreError, StoreOlder
from ctld.store.loss import Accept
from penstock.config import ConfigError, load
from penstock.daemonline import say
from penstock.errors import BadSetup
from penstock.inherited import begin_empty_session_keyring
from penstock.logfile import flush_logs
from penstock.logs.daemonlog import DaemonLog
from penstock.startwatch import StartWatch
from penstock.storagefaults import advice_of
from penstock.threads import end_beside_hung_threads
from penstock.values.jobid import JOB_ID_MAX

NAME = "penstock ctld"
#: Maximum epoch: an epoch counts starts, so no real one is higher.
EPOCH_MAX = 2**48
STATUSES: dict[type[Exception], int] = {
    StoreDamaged: exits.DAMAGED,
    StoreOlder: exits.OLDER,
    LeaseHeld: exits.TEMPFAIL,
    StorageWaits: exits.TEMPFAIL,
    BlockingIOError: exits.TEMPFAIL,  # no thread can be started
}


def main(argv: list[str]) -> int:
    """Runs the controller; returns the exit status."""
    parser = command_line().parser()
    options = parser.parse_args(argv)
    accept = Accept(options.accept_loss, options.epoch_above, options.job_id_above)
    if not accept.is_accepted and max(accept.epoch_above, accept.job_id_above):
        parser.error("--epoch-above and --job-id-above belong to --accept-loss")
    if not (0 <= accept.epoch_above < EPOCH_MAX and 0 <= accept.job_id_above < JOB_ID_MAX):
        parser.error(f"--epoch-above must be below {EPOCH_MAX}, --job-id-above below {JOB_ID_MAX}")
    try:
        begin_empty_session_keyring()
        with StartWatch(partial(say, NAME)) as watch:
            status = _run(os.path.abspath(options.config), accept, watch)
    except (ConfigError, BadSetup, OSError, StoreError) as error:
        return _refused(error)
    flush_logs()
    end_beside_hung_threads(status)
    return status


def _run(path: str, accept: Accept, watch: StartWatch) -> int:
    """Runs the controller; returns the exit status. Raises what `main` reports."""
    watch.at(path)
    loaded = load(path)
    for warning in loaded.warnings:
        say(NAME, f"warning: {warning}")
    config = loaded.config
    watch.at(config.state_save_location)
    logs = DaemonLog("ctld", FORMAT, log_settings(config))
    os.umask(0o077)  # notices for others are marked as such
    with (
        StateFolder(loaded.config.state_save_location) as folder,
        asyncio.Runner(loop_factory=WatchedLoop) as runner,
    ):
        return runner.run(serve(ControllerDaemon(path, loaded.config, folder, logs, accept, watch)))


def _refused(error: ConfigError | BadSetup | OSError | StoreError) -> int:
    """Says why it cannot run, and what to do when the cause passes; returns the exit status."""
    flush_logs()
    if isinstance(error, OSError):
        say(NAME, f"error: {os.fsdecode(error.filename or 'the controller')}: {error.strerror or error}")
    else:
        say(NAME, f"error: {error}")
    advice = advice_of(error)
    if advice:
        say(NAME, advice)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return status
    return exits.TEMPFAIL if advice else exits.CONFIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
