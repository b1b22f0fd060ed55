"""`penstock ctld`: read the configuration, open the state, lead, serve, stop.

    configuration -> lock and state folder -> certificates -> database, lease, load -> core -> sockets -> serve

Exit status: 0 after a clean stop; 78 when the configuration, a key or the state folder cannot be used (with the file
and line, or the path); 75 when another controller leads or the database's server does not answer; 70 when something
happened that cannot be (the log says what; the next start goes on from the database).
"""

import argparse
import asyncio
import os
import sys
from typing import Final

from ctld.runtime.daemon import Daemon, serve
from ctld.runtime.logs import LogFile
from ctld.runtime.statefolder import StateFolder
from ctld.store.errors import LeaseHeld, StorageWaits, StoreError
from penstock.cluster import conf_path
from penstock.config import ConfigError, load
from penstock.errors import BadSetup

EX_TEMPFAIL: Final = 75
EX_CONFIG: Final = 78


def main(argv: list[str]) -> int:
    """The controller's whole life; the exit status."""
    parser = argparse.ArgumentParser(prog="penstock ctld", description="The controller.")
    parser.add_argument(
        "--config", "-f", default=conf_path(), metavar="FILE", help="slurm.conf (default: SLURM_CONF, here %(default)s)"
    )
    parser.add_argument("--foreground", action="store_true", help="stay in the foreground (it always does)")
    options = parser.parse_args(argv)
    try:
        loaded = load(options.config)
        for warning in loaded.warnings:
            _say(f"warning: {warning}")
        config = loaded.config
        logs = LogFile(config.slurmctld_log_file, config.slurmctld_debug, config.log_time_format)
        os.umask(0o077)  # what is for others says so itself
        with StateFolder(loaded.config.state_save_location) as folder:
            return asyncio.run(serve(Daemon(os.path.abspath(options.config), loaded.config, folder, logs)))
    except ConfigError as error:
        _say(f"error: {error}")
    except BadSetup as error:
        _say(f"error: {error.text}")
    except OSError as error:
        _say(f"error: {error.filename or ''}: {error.strerror}")
    except (LeaseHeld, StorageWaits) as error:
        _say(f"error: {error}")
        return EX_TEMPFAIL
    except StoreError as error:
        _say(f"error: {error}")
    return EX_CONFIG


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"penstock ctld: {line}", file=sys.stderr)  # noqa: T201 (the command's answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
