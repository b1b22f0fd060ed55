"""What is said of GPUs inside the node daemon: by the children that ask NVML, to those that judge, pin and count.

Plain data, made in a child, sent as msgpack over a pipe. None = the device or driver cannot say. Deliberately absent:
what any of it means (gpuhealth.py).
"""

import msgspec


def normal_bus_id(bus_id: str) -> str:
    """As sysfs writes it: NVML's domain has eight digits, the kernel's log leaves the function out."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest.partition('.')[0]}.0"


class Device(msgspec.Struct, frozen=True, gc=False):
    """One GPU, or one MIG instance (`parent` is its GPU), in PCI order."""

    uuid: str
    index: int  # as the node counts them, in PCI order; of an instance its GPU's
    minor: int  # of /dev/nvidiaN
    type: str  # h200; of an instance its profile
    memory_mb: int
    name: str
    bus_id: str
    capability: str = ""  # of CUDA: "9.0"
    near_cpus: tuple[int, ...] = ()  # the kernel's numbers; () = not known
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
    mig_enabled: bool = False  # of a GPU: its instances are given, not itself
    has_nvswitch: bool = False
    files: tuple[
        str, ...
    ] = ()  # that whoever has it must be able to open: /dev/nvidia0, of instances /dev/nvidia-caps/* too
    place: int = -1  # as NVML counts, which is nobody else's business


class Found(msgspec.Struct, frozen=True, gc=False):
    """What there is. `why` "" = NVML answers; else `code` is its error (0 = it was not reached).

    A GPU that does not answer any more stays in `devices` as it was, as long as NVML counts it; its sample has the error.
    """

    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: str = ""
    nvml: str = ""
    why: str = ""
    code: int = 0
    nameless: tuple[int, ...] = ()  # errors of those that NVML counts and that have not said once who they are


class Process(msgspec.Struct, frozen=True, gc=False):
    """A process on a GPU, as NVML names it."""

    pid: int
    memory_kb: int | None = None
    sm_percent: int | None = None


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One GPU at one moment. A whole GPU's; of instances only what they can say."""

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
    pcie: tuple[int, int, int, int] | None = None  # generation and width, the largest of each
    util_percent: int | None = None
    memory_used_kb: int | None = None  # without what the driver keeps
    energy_mj: int | None = None
    processes: tuple[Process, ...] | None = None
    ecc_pending: bool | None = None  # its ECC mode changes at the next reboot
    persistence: bool | None = None  # the driver stays loaded while nobody uses it
    slow: str = ""  # a call that took too long; what would have been asked after it was not


class Polled(msgspec.Struct, frozen=True, gc=False, tag=True):
    """All GPUs, once. `found` only when it is not what was said last."""

    at_us: int
    samples: tuple[Sample, ...]
    found: Found | None = None


class Xid(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The driver has reported an error of a GPU."""

    at_us: int
    xid: int
    uuid: str = ""  # "" = the bus id says who
    bus_id: str = ""
    pid: int = 0
    text: str = ""
    sequence: int = -1  # of the record in the kernel's log; -1 = NVML has told


class Asking(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The next call, said before it is made; `function` "" = the last one has returned."""

    function: str
    gpu: str = ""


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """What NVML's accounting kept of a process, also after its end."""

    uuid: str
    pid: int
    util_percent: int
    memory_percent: int  # of time in which memory was read or written
    memory_max_kb: int | None
    time_ms: int
    start_at_us: int
    is_running: bool


class Lifetimes(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The answer to a question for them."""

    records: tuple[Lifetime, ...]


class Hung(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A call has not returned for so long that it is taken never to. `gpu` "" = no GPU's: the driver as a whole; "#3" =
    one that has never said who it is, by its place.
    """

    at_us: int
    function: str
    gpu: str = ""
    left: int = 0  # children that do not even die


class Answering(msgspec.Struct, frozen=True, gc=False, tag=True):
    """What had hung has answered several polls in a row. `gpu` as in Hung."""

    at_us: int
    gpu: str = ""


#: What the daemon is told of the GPUs (nodedaemon/gpu/watch.py).
Told = Polled | Xid | Hung | Answering
