"""Record of the device at one of NVML's indexes: filled by finding, links and signals, in a child."""

from nodedaemon.core.gpumessages import Device


class DeviceEntry:
    """The device at one of NVML's indexes: a GPU, once it has been identified."""

    __slots__ = (
        "device", "error", "handle", "is_skipped", "kept", "links", "migs", "never", "number", "pcie_max", "remapped",
        "slow", "slowdown_c",
    )  # fmt: skip

    def __init__(self, number: int, device: Device | None, is_skipped: bool) -> None:
        self.number = number
        self.device = device
        self.kept: tuple[Device, ...] = ()  # its earlier MIG instances, while it does not answer
        self.handle: object = None
        self.error = 0
        self.is_skipped = is_skipped  # it has hung: the others are queried without it
        self.never: set[str] = set()  # functions that it does not support
        self.migs: list[tuple[object, Device, set[str]]] = []
        self.links: dict[int, bool] = {}  # NVLinks -> whether one was ever up
        self.remapped: tuple[int, bool, bool] | None = None  # when last available: uncorrectable, pending, failure
        self.slow = ""  # the call that took too long in this poll
        self.slowdown_c: int | None = None
        self.pcie_max: tuple[int, int] | None = None  # generation, width

    @property
    def name(self) -> str:
        """The name in announcements."""
        return self.device.uuid if self.device else f"#{self.number}"

    @property
    def gpu(self) -> Device:
        """The device of an entry that is known to have one."""
        assert self.device is not None
        return self.device

    @property
    def answers(self) -> bool:
        """Whether it may be queried."""
        return self.handle is not None and not self.error and not self.is_skipped
