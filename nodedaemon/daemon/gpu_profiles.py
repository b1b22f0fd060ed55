"""The time lines of steps' GPUs: from each poll a point for each GPU of each step that has a profile.

Utilisation and memory are the step's own, as gpuusage.py attributes them; power, temperature and throttling the card's. The
lines are in the step's folder (spool/gpuprofile.py), for its stepd, which is asked while the step runs, and for a later
daemon; the file is there from the beginning, which says that the step has a profile. Extern steps have none.

Bounded: BYTES_MAX for a step's lines, NODE_BYTES_MAX for all.
"""

import contextlib
from collections.abc import Iterable, Mapping

from nodedaemon.core.gpumessages import Sample
from nodedaemon.core.gpusignals import HW_SLOWDOWN
from nodedaemon.core.gpuusage import OnGpu, StepUse
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import kept
from nodedaemon.observe.gpus import mean_power_w
from nodedaemon.spool.gpuprofile import BYTES_MAX, COLUMNS, NAME, content, read_lines
from penstock.values.timeline import BYTES_MAX as LINE_BYTES_MAX
from penstock.values.timeline import SampleLine

#: Bytes of the lines of all steps.
NODE_BYTES_MAX = 8 * 1024 * 1024
_DS_US = 100_000


class GpuProfiles:
    """The lines by step and UUID; only from the loop's thread."""

    def __init__(self, steps_fd: int) -> None:
        self._steps_fd = steps_fd
        self._lines: dict[StepKey, dict[str, SampleLine]] = {}
        self._samples: dict[str, Sample] = {}

    def begin(self, key: StepKey, uuids: Iterable[str]) -> None:
        """Adds a step that is to have a profile."""
        self._lines[key] = {uuid: SampleLine(COLUMNS) for uuid in uuids}
        self._save(key)

    def restore(self, key: StepKey) -> None:
        """Continues the lines that an earlier daemon has left."""
        if lines := read_lines(self._steps_fd, str(key)):
            self._lines[key] = lines

    def end(self, key: StepKey) -> dict[str, SampleLine]:
        """Removes a step; returns its lines."""
        return self._lines.pop(key, {})

    def take(self, now_us: int, samples: Iterable[Sample], uses: Mapping[StepKey, StepUse]) -> None:
        """Adds a poll that is counted in the figures of the steps."""
        found = {sample.uuid: sample for sample in samples if not sample.error and not sample.slow}
        before, self._samples = self._samples, self._samples | found
        whole = sum(map(len, self._lines.values()))
        for key, lines in self._lines.items():
            use = uses.get(key)
            if use is None:
                continue
            most = min(LINE_BYTES_MAX, BYTES_MAX // max(len(lines), 1), NODE_BYTES_MAX // max(whole, 1))
            for uuid in (share.uuid for share in use.shares):  # without those that the job has given back
                sample, line = found.get(uuid), lines.get(uuid)
                if sample is not None and line is not None:
                    values = _values(use.gpus[uuid], sample, before.get(uuid))
                    line.add((now_us - use.began_us) // _DS_US, values, most)
            self._save(key)

    def _save(self, key: StepKey) -> None:
        with contextlib.suppress(OSError):  # the step has ended, or there is no space: the lines here go on
            kept.save(self._steps_fd, f"{key}/{NAME}", content(self._lines[key]), sync=False)


def _values(on: OnGpu, sample: Sample, before: Sample | None) -> tuple[int | None, ...]:
    """The columns, as penstock.values.profile names them."""
    power_w = mean_power_w(before, sample) if before is not None else None
    return (
        None if on.util_last is None or sample.util_percent is None else on.util_last * 10,
        on.memory_kb,
        None if power_w is None else round(power_w * 1000),
        sample.temperature_c,
        None if sample.throttle is None else 1000 * bool(sample.throttle & HW_SLOWDOWN),
    )
