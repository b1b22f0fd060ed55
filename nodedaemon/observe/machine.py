"""Families about the machine: CPU time, memory, disks, network and energy from the kernel's files, the spool's file system.

Read for each scrape, in a worker thread: a file system that hangs must not hold the daemon.
"""

import contextlib
import os
import re
from collections.abc import Iterator

from nodedaemon.base.kernelfiles import read_bytes
from penstock.exporter.exposition import MetricFamily, MetricSample, MetricType, gauge, labels

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512
#: Interfaces and disks that are shown; a machine with many containers has thousands.
DEVICES_MAX = 64
_MEMORY = {
    "MemTotal": "total",
    "MemFree": "free",
    "MemAvailable": "available",
    "Cached": "cached",
    "SwapFree": "swap_free",
}


def machine_families(proc: str, spool: str, powercap: str = "/sys/class/powercap") -> list[MetricFamily]:
    """Returns the families. `proc`, `powercap`: where the kernel's files are."""
    return [*_cpu(proc), *_memory(proc), *_disks(proc), *_network(proc), *_energy(powercap), *_space(spool)]


def _cpu(proc: str) -> Iterator[MetricFamily]:
    first = read_bytes(f"{proc}/stat").partition(b"\n")[0].split()[1:]
    times = [(labels({"mode": mode}), int(ticks) / _TICKS_PER_S) for mode, ticks in zip(_MODES, first, strict=False)]
    yield MetricFamily("penstock_node_cpu_seconds", MetricType.COUNTER, "CPU time of the machine by mode", times)
    load = read_bytes(f"{proc}/loadavg").split()
    if load:
        yield gauge("penstock_node_load1", "Load average of the last minute", float(load[0]))


def _memory(proc: str) -> Iterator[MetricFamily]:
    samples = []
    for line in read_bytes(f"{proc}/meminfo").decode("ascii", "replace").splitlines():
        name, _, value = line.partition(":")
        if name in _MEMORY and value:
            samples.append((labels({"kind": _MEMORY[name]}), int(value.split()[0]) * 1024))
    yield MetricFamily("penstock_node_memory_bytes", MetricType.GAUGE, "Memory of the machine", samples)


def _disks(proc: str) -> Iterator[MetricFamily]:
    read: list[MetricSample] = []
    written: list[MetricSample] = []
    busy: list[MetricSample] = []
    for line in read_bytes(f"{proc}/diskstats").decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) < 13 or words[2].startswith(("loop", "ram", "zram")) or len(read) >= DEVICES_MAX:
            continue
        text = labels({"device": words[2]})
        read.append((text, int(words[5]) * _SECTOR_BYTES))
        written.append((text, int(words[9]) * _SECTOR_BYTES))
        busy.append((text, int(words[12]) / 1000))
    yield MetricFamily("penstock_node_disk_read_bytes", MetricType.COUNTER, "Bytes read from a disk", read)
    yield MetricFamily("penstock_node_disk_written_bytes", MetricType.COUNTER, "Bytes written to a disk", written)
    yield MetricFamily("penstock_node_disk_busy_seconds", MetricType.COUNTER, "Time with requests in progress", busy)


def _network(proc: str) -> Iterator[MetricFamily]:
    received: list[MetricSample] = []
    sent: list[MetricSample] = []
    for line in read_bytes(f"{proc}/net/dev").decode("ascii", "replace").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        words = numbers.split()
        if len(words) < 9 or name.strip() == "lo" or len(received) >= DEVICES_MAX:
            continue
        text = labels({"device": name.strip()})
        received.append((text, int(words[0])))
        sent.append((text, int(words[8])))
    yield MetricFamily("penstock_node_network_received_bytes", MetricType.COUNTER, "Bytes received", received)
    yield MetricFamily("penstock_node_network_sent_bytes", MetricType.COUNTER, "Bytes sent", sent)


def _energy(powercap: str) -> Iterator[MetricFamily]:
    """Yields RAPL's counters of the packages and of the platform. They begin again at their range, as counters may. Only
    root can read them."""
    samples: list[MetricSample] = []
    with contextlib.suppress(OSError):
        for zone in sorted(os.listdir(powercap)):
            used = read_bytes(f"{powercap}/{zone}/energy_uj").strip()
            if re.fullmatch(r"intel-rapl:\d+", zone) and used.isdigit() and len(samples) < DEVICES_MAX:
                name = read_bytes(f"{powercap}/{zone}/name").decode("ascii", "replace").strip()
                samples.append((labels({"zone": zone.rpartition(":")[2], "domain": name}), int(used) / 1e6))
    if samples:
        yield MetricFamily("penstock_node_energy_joules", MetricType.COUNTER, "Energy by RAPL's zones", samples)


def _space(spool: str) -> Iterator[MetricFamily]:
    try:
        found = os.statvfs(spool)
    except OSError:  # the folder is gone: the daemon itself says so
        return
    yield gauge("penstock_node_spool_size_bytes", "Size of the spool's file system", found.f_blocks * found.f_frsize)
    yield gauge("penstock_node_spool_free_bytes", "Free for the daemon there", found.f_bavail * found.f_frsize)
