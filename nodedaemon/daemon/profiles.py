"""The report of a step's profile: its stepd's line and the lines of its GPUs, sent before the report of its end.

The controller takes a profile only of a step that is here, so it has to come first; both are reports, kept until they are
acknowledged. While many of these wait (the node is not connected), profiles are left out: they are the largest by far.
"""

import os

from nodedaemon.core.messages import ForwardReport, StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.launch.wire import to_key
from nodedaemon.spool.gpuprofile import read_lines
from nodedaemon.stepd.profiling import NAME, TASKS_MAX, TASKS_NAME
from penstock.v1 import node_pb2
from penstock.values.packing import Damaged
from penstock.values.profile import COLUMNS, GPU, HOST, TASK, encode_profile
from penstock.values.timeline import BYTES_MAX, SampleLine

#: Reports that may wait while a profile is added.
UNACKNOWLEDGED_MAX = 512


def profile_report(end: StepEnded, steps_fd: int, gpus: dict[str, SampleLine], every_s: int) -> ForwardReport | None:
    """The report; None for a step without a profile, or that was shorter than an interval."""
    host = _host_line(end.key, steps_fd)
    if host is None and end.end_at_us - end.start_at_us < max(every_s, 1) * 1_000_000:
        return None
    lines = [(HOST, "", host)] if host is not None else []
    lines += [(GPU, uuid, line) for uuid, line in gpus.items()]
    tasks = read_lines(steps_fd, str(end.key), TASKS_NAME, len(COLUMNS[TASK]))
    lines += [(TASK, rank, line) for rank, line in tasks.items() if rank.isdecimal() and len(tasks) <= TASKS_MAX]
    data = encode_profile(lines) if end.start_at_us else b""
    if not data:
        return None
    profile = node_pb2.StepProfile(key=to_key(end.key), profile=data)
    return ForwardReport(node_pb2.Report(profile=profile).SerializeToString())


def _host_line(key: StepKey, steps_fd: int) -> SampleLine | None:
    """The line that the step's stepd has left; None where there is none, or it is no such line."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(f"{key}/{NAME}", flags, dir_fd=steps_fd)
        try:
            return SampleLine.restored(os.read(fd, BYTES_MAX * 2), len(COLUMNS[HOST]))
        finally:
            os.close(fd)
    except (OSError, Damaged):
        return None
