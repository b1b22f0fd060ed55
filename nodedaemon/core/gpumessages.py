"""Messages about GPUs inside the node daemon: from the children that call NVML to the code that judges, pins and
counts.

Plain data, made in a child, sent as msgpack over a pipe. None = not available from the device or driver. Deliberately
absent: their interpretation (gpuhealth.py).
"""

import msgspec


def normal_bus_id(bus_id: str) -> str:
    """Normalises a bus id to the form of sysfs: NVML's domain has eight digits, the kernel's log leaves the function
    out.
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest.partition('.')[0]}.0"


class Device(msgspec.Struct, frozen=True, gc=False):
    """One GPU, or one MIG instance (`parent` is its GPU), in PCI order."""

    uuid: str
    index: int  # as the node numbers them, in PCI order; for an instance its GPU's
    minor: int  # of /dev/nvidiaN
    type: str  # h200; for an instance its profile
    memory_mb: int
    name: str
    bus_id: str
    capability: str = ""  # of CUDA: "9.0"
    near_cpus: tuple[int, ...] = ()  # the kernel's numbers; () = unknown
    numa_node: int = -1
    links: tuple[
        int, ...
    ] = ()  # to the others of the list, in its order: 100 a NVLink, else 1 to 10 by PCI; -1 = itself
    serial: str = ""
    vbios: str = ""
    parent: str = ""
    profile: str = ""
    slices: int = 0  # compute slices of an instance
    gpu_instance: int = -1
    compute_instance: int = -1
    mig_enabled: bool = False  # of a GPU: its instances are allocated, not the GPU itself
    has_nvswitch: bool = False
    files: tuple[
        str, ...
    ] = ()  # the device files that its users must be able to open: /dev/nvidia0, of instances /dev/nvidia-caps/* too
    #: The index in calls of NVML, and in no other use. Its stored name is older.
    nvml_index: int = msgspec.field(default=-1, name="place")


class Found(msgspec.Struct, frozen=True, gc=False):
    """The inventory. `why` "" = NVML works; else `code` is its error (0 = it was not reached).

    A GPU that no longer answers stays in `devices` as it was, as long as NVML counts it; its sample has the error.
    """

    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: str = ""
    nvml: str = ""
    why: str = ""
    code: int = 0
    nameless: tuple[int, ...] = ()  # errors of those that NVML counts and that have never reported their UUID


class Process(msgspec.Struct, frozen=True, gc=False):
    """A process on a GPU, as NVML lists it."""

    pid: int
    memory_kb: int | None = None
    sm_percent: int | None = None


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One GPU at one moment. For an instance only the values that it has."""

    uuid: str
    at_us: int
    error: int = 0  # NVML's code when the device does not answer (15 lost, 16 reset required, ...)
    recovery_action: int | None = (
        None  # field 230: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset, 6 bus reset, 7 reboot
    )
    ecc_volatile: int | None = None  # uncorrected
    ecc_aggregate: int | None = None
    ecc_sram: int | None = None
    remap_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    retired_pages: int | None = None
    retired_pending: bool | None = None
    nvlink_errors: int | None = None  # replays and recoveries, of all links, since the driver was loaded
    nvlink_crc: int | None = None
    nvlinks_down: int | None = None
    throttle: int | None = None  # bits of CurrentClocksEventReasons
    temperature_c: int | None = None
    slowdown_c: int | None = None  # threshold
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    pcie: tuple[int, int, int, int] | None = None  # generation and width, the largest of each
    util_percent: int | None = None
    memory_used_kb: int | None = None  # without the driver's own
    energy_mj: int | None = None
    processes: tuple[Process, ...] | None = None
    ecc_pending: bool | None = None  # its ECC mode changes at the next reboot
    persistence: bool | None = None  # the driver stays loaded while no process uses it
    ecc_corrected: int | None = None  # volatile, as ecc_volatile
    slow: str = ""  # a call that took too long; the calls that would have followed were left out


class Polled(msgspec.Struct, frozen=True, gc=False, tag=True):
    """One poll of all GPUs. `found` only when it differs from the last one."""

    at_us: int
    samples: tuple[Sample, ...]
    found: Found | None = None


class Xid(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The driver has reported an error of a GPU."""

    at_us: int
    xid: int
    uuid: str = ""  # "" = identified by the bus id
    bus_id: str = ""
    pid: int = 0
    text: str = ""
    sequence: int = -1  # of the record in the kernel's log; -1 = reported by NVML


class Asking(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The announcement of the next call; `function` "" = the last one has returned."""

    function: str
    gpu: str = ""


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """NVML's accounting of a process, also after its end."""

    uuid: str
    pid: int
    util_percent: int
    memory_percent: int  # of time in which memory was read or written
    memory_max_kb: int | None
    time_ms: int
    start_at_us: int
    is_running: bool


class Lifetimes(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The answer to AskLifetimes."""

    records: tuple[Lifetime, ...]


class Hung(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A call that has not returned within the limit, and is assumed never to. `gpu` "" = the driver as a whole; "#3" =
    a GPU without a known UUID, by NVML's index.
    """

    at_us: int
    function: str
    gpu: str = ""
    left: int = 0  # children that SIGKILL has not ended


class Answering(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The GPU (or driver) that hung has answered several polls in a row. `gpu` as in Hung."""

    at_us: int
    gpu: str = ""


#: The messages of the watcher to the daemon (nodedaemon/gpu/watch.py).
WatchMessage = Polled | Xid | Hung | Answering
