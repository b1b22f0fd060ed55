"""The health policy of GPUs, as a table: the state that each signal leads to, and what ends it.

A row is a condition of a GPU from its signal until its end. The worst active row is the GPU's health. docs/gpu.md
shows the same table; a test compares the two.

    state        of the GPU; `many_only`: only for jobs with several GPUs on the node
    node         whether the whole node is drained too
    action       for the jobs that have the GPU; `single`: for those with one GPU on the node, where that differs
    ends         what ends it: by itself, by the driver's report, after a time, a reboot or reset, or by an
                 administrator

XIDs (errors that the driver reports) are rows too, by their class; which XID is of which class is gpu/xids.toml.
"""

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from nodedaemon.core.gpuhealth_messages import Action
from penstock.values.gpustates import GpuState

G = GpuState
A = Action

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US


class Severity(StrEnum):
    """The severity of a condition in the log."""

    INFO = "INFO"
    WARN = "WARN"
    FAIL = "FAIL"


class Ends(IntEnum):
    """The ways in which a condition ends."""

    LEVEL = 0  # the signal is gone
    QUIET = 1  # the signal has not come for `quiet_us`
    RESET = 2  # the GPU was reset, or the machine restarted
    BOOT = 3  # the machine was restarted, and the GPU is there and healthy
    ANSWERS = 4  # calls return again, three polls in a row
    ADMIN = 5  # an administrator says so


class NodeToo(IntEnum):
    """The conditions under which the whole node is drained."""

    NEVER = 0
    ALWAYS = 1
    LOST = 2  # on NVSwitch systems, by PenstockGpuLostDrainsNode, or when no GPU is left
    HALF = 3  # when it applies to more than half of the GPUs
    STUCK = 4  # when it has lasted for UnkillableStepTimeout


class PolicyRow(NamedTuple):
    """One row. `signal` and `over` are texts for the documentation."""

    name: str
    signal: str
    severity: Severity
    state: GpuState
    ends: Ends
    over: str
    action: Action = A.NONE
    single: Action | None = None
    many_only: bool = False
    node: NodeToo = NodeToo.NEVER
    quiet_us: int = 0
    end_after_us: int = 0  # jobs that are still there after this long are ended


#: In the order of gpu.md 2c; XID classes follow.
ROWS: Final = (
    PolicyRow("recovery_reset", "recovery action 1, 4, 6: the driver wants a reset", Severity.FAIL, G.DRAINED, Ends.LEVEL,
        "the driver requests nothing further", A.NOTE, end_after_us=HOUR_US),
    PolicyRow("recovery_reboot", "recovery action 2, 7: the driver wants a reboot", Severity.FAIL, G.DRAINED, Ends.BOOT,
        "reboot, and the driver requests nothing further", A.END, node=NodeToo.ALWAYS),
    PolicyRow("recovery_p2p", "recovery action 3: no peer-to-peer transfers", Severity.WARN, G.DRAINED, Ends.LEVEL,
        "the driver requests nothing further", many_only=True),
    PolicyRow("lost", "lost (NVML error 15), gone from the list, or an XID of class lost (79)", Severity.FAIL, G.FAILED,
        Ends.BOOT, "reboot, and the GPU is found again", A.END, node=NodeToo.LOST),
    PolicyRow("reset_required", "NVML error 16: reset required", Severity.FAIL, G.DRAINED, Ends.LEVEL,
        "it answers again", A.END),
    PolicyRow("hung", "a call of NVML does not return for 60 s", Severity.FAIL, G.UNRESPONSIVE, Ends.ANSWERS,
        "three polls in a row are answered", node=NodeToo.ALWAYS),
    PolicyRow("ecc_rose", "more uncorrected memory errors than before", Severity.WARN, G.SUSPECT, Ends.RESET,
        "reset or reboot", A.MARK),
    PolicyRow("remap_pending", "a memory row waits for being remapped", Severity.WARN, G.DRAINED, Ends.LEVEL,
        "no row is pending (after a reset)"),
    PolicyRow("remap_failed", "remapping has failed, or 512 rows are remapped", Severity.FAIL, G.FAILED, Ends.ADMIN,
        "an administrator (replace the board)"),
    PolicyRow("retired_pending", "memory pages wait for being retired", Severity.WARN, G.DRAINED, Ends.BOOT, "reboot"),
    PolicyRow("retired_full", "63 memory pages are retired", Severity.FAIL, G.FAILED, Ends.ADMIN,
        "an administrator (replace the board)"),
    PolicyRow("sram_ecc", "uncorrected errors of its SRAM", Severity.FAIL, G.DRAINED, Ends.ADMIN, "an administrator", A.END),
    PolicyRow("nvlink", "NVLink replays or recoveries, or a link is down", Severity.FAIL, G.DRAINED, Ends.QUIET,
        "one hour without", A.MARK, single=A.NOTE, many_only=True, quiet_us=HOUR_US),
    PolicyRow("throttle", "slowed down by the hardware 6 times in 10 minutes", Severity.WARN, G.SUSPECT, Ends.QUIET,
        "30 minutes without", A.NOTE, node=NodeToo.HALF, quiet_us=30 * MINUTE_US),
    PolicyRow("hot", "temperature at the slowdown threshold", Severity.WARN, G.SUSPECT, Ends.LEVEL, "5 C below it"),
    PolicyRow("pcie", "PCIe slower than it could be, under load", Severity.WARN, G.SUSPECT, Ends.ADMIN, "an administrator"),
    PolicyRow("left_behind", "processes of an ended job are left on it", Severity.WARN, G.DRAINED, Ends.LEVEL,
        "none are left", node=NodeToo.STUCK),
    PolicyRow("leaked", "the driver names processes that do not exist", Severity.WARN, G.DRAINED, Ends.LEVEL,
        "it names none"),
    PolicyRow("memory", "more than 1 GiB is used, and by no process", Severity.WARN, G.DRAINED, Ends.LEVEL, "less is used"),
    PolicyRow("foreign", "a process of no job uses it", Severity.WARN, G.SUSPECT, Ends.LEVEL, "the process is gone"),
    PolicyRow("driver", "NVML does not answer at all (no driver, another version of it)", Severity.FAIL, G.FAILED,
        Ends.LEVEL, "NVML answers", node=NodeToo.ALWAYS),
    PolicyRow("error", "NVML answers with another error", Severity.WARN, G.SUSPECT, Ends.LEVEL, "it answers"),
    PolicyRow("xid_reset", "XIDs of class reset", Severity.FAIL, G.DRAINED, Ends.RESET, "reset or reboot", A.END),
    PolicyRow("xid_contained", "XIDs of class contained: a memory error that hit one program", Severity.WARN, G.HEALTHY,
        Ends.LEVEL, "-", A.MARK),
    PolicyRow("xid_once", "XIDs of class repeat, once in 24 hours", Severity.WARN, G.SUSPECT, Ends.QUIET,
        "24 hours without", A.END, quiet_us=DAY_US),
    PolicyRow("xid_twice", "XIDs of class repeat, twice in 24 hours", Severity.FAIL, G.DRAINED, Ends.RESET,
        "reset or reboot", A.END),
    PolicyRow("xid_application", "XIDs of class application: an error of the program", Severity.INFO, G.HEALTHY, Ends.LEVEL,
        "-", A.NOTE),
    PolicyRow("xid_many_users", "XIDs of class application, in jobs of 3 users within 24 hours", Severity.WARN, G.SUSPECT,
        Ends.QUIET, "24 hours without", quiet_us=DAY_US),
    PolicyRow("xid_note", "XIDs of class note, and those that no table names: counted", Severity.WARN, G.HEALTHY, Ends.LEVEL,
        "-"),
    PolicyRow("inspect", "the same XID after two reboots or resets", Severity.FAIL, G.FAILED, Ends.ADMIN,
        "an administrator (inspect the hardware)", A.END),
)  # fmt: skip

ROW: Final = {row.name: row for row in ROWS}


class XidClass(StrEnum):
    """Classes of XIDs: the words of xids.toml and of PenstockXidFile (penstock.values.gpustates.XID_CLASSES)."""

    APPLICATION = "application"
    CONTAINED = "contained"
    RESET = "reset"
    REPEAT = "repeat"
    LOST = "lost"
    NOTE = "note"
    IGNORE = "ignore"


#: The row of each class that has one; the second of `repeat` within a day has another.
ROW_OF_CLASS: Final = {
    XidClass.APPLICATION: "xid_application",
    XidClass.CONTAINED: "xid_contained",
    XidClass.RESET: "xid_reset",
    XidClass.REPEAT: "xid_once",
    XidClass.LOST: "lost",
    XidClass.NOTE: "xid_note",
}
