"""cli_filter/syslog: tells the machine's log of each job and step, with the options of its command, as one line of JSON."""

import json
import syslog
from collections.abc import Sequence

LINE_BYTES_MAX = 8 * 1024


def log_submission(command: str, components: Sequence[dict[str, str]], job_id: int, step_id: int | None) -> None:
    """Writes the line. The environment is not in it: it holds users' secrets."""
    step = {} if step_id is None else {"stepid": step_id}
    options = components[0] if len(components) == 1 else list(components)
    line = json.dumps({"command": command, "jobid": job_id, **step, "options": options})
    syslog.openlog(f"slurm/{command}", syslog.LOG_PID, syslog.LOG_USER)
    syslog.syslog(syslog.LOG_INFO, line[:LINE_BYTES_MAX])
    syslog.closelog()
