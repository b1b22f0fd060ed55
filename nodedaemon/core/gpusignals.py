"""Evaluates a sample of one GPU for each row of the policy: is the signal present, absent, or unknown?

A level is (value, text): 0 = the signal is absent, above 0 = it is present, the larger the worse. None = the device
does not report it, so the condition stays as it is. Pure functions of a sample and of earlier samples.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodedaemon.core.gpumessages import Sample

NVML_TIMEOUT = 10
NVML_LOST = 15
NVML_RESET_REQUIRED = 16
NVML_UNKNOWN = 999
#: Bits of CurrentClocksEventReasons that are caused by hardware: slowdown, thermal, power brake.
HW_SLOWDOWN = 0x8 | 0x40 | 0x80
REMAPS_MAX = 512
RETIRED_MAX = 63
#: Degrees below the threshold at which a GPU has cooled down.
COOLER_C = 5
#: Utilisation that counts as load: an idle link is slow on purpose.
LOAD_PERCENT = 50
#: Polls in a row in which a slow link, an error without a name or memory without a process must be seen.
SLOW_POLLS = 3
ERROR_POLLS = 2
MEMORY_POLLS = 2
MEMORY_KB = 1024 * 1024
_REBOOT = (2, 7)
_RESET = (1, 4, 6)
_P2P = (3,)
_ACTIONS = {
    1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset", 5: "recover the IMEX domain", 6: "bus reset", 7: "reboot",
}  # fmt: skip

#: Remarks about the mode of a card, without effect.
NOTES = {
    "ecc_pending": "its ECC mode will change at the next reboot",
    "persistence_off": "persistence mode is off: the driver unloads the card's state while it is unused",
}

Level = tuple[int, str] | None
CLEAR: Level = (0, "")


class SignalContext(NamedTuple):
    """The context of a level, in addition to its sample."""

    errors: int = 0  # polls in a row with the same error
    slow_link: int = 0  # polls in a row with a slow link under load
    idle_memory: int = 0  # polls in a row with memory in use by no process
    links_down: int = 0  # NVLinks that are down on the best GPU of its kind


def notes(sample: Sample, before: tuple[str, ...]) -> tuple[str, ...]:
    """Remarks about a sample (NOTES); those of which the device does not report stay as they were before."""
    off = None if sample.persistence is None else not sample.persistence
    said = {"ecc_pending": sample.ecc_pending, "persistence_off": off}
    return tuple(word for word, is_so in said.items() if (word in before if is_so is None else is_so))


def recovery(actions: tuple[int, ...]) -> Callable[[Sample, SignalContext], Level]:
    """Makes a row's level from the driver's recommended recovery action."""

    def level(sample: Sample, context: SignalContext) -> Level:
        action = sample.recovery_action
        if action is None:
            return None
        words = f"recovery action {action} ({_ACTIONS.get(action, 'unknown')})"
        return (1, words) if action in actions else CLEAR

    return level


def lost(sample: Sample, context: SignalContext) -> Level:
    """The GPU is no longer there."""
    if sample.error == NVML_LOST or (sample.error == NVML_UNKNOWN and context.errors >= ERROR_POLLS):
        return 1, f"GPU is lost (NVML error {sample.error})"
    return None if sample.error else CLEAR


def reset_required(sample: Sample, context: SignalContext) -> Level:
    """The GPU answers every call with the error that it needs a reset."""
    return (1, "reset required (NVML error 16)") if sample.error == NVML_RESET_REQUIRED else CLEAR


def error(sample: Sample, context: SignalContext) -> Level:
    """Another error, more than once."""
    if sample.error in (0, NVML_LOST, NVML_RESET_REQUIRED, NVML_UNKNOWN):
        return CLEAR
    return (1, f"NVML error {sample.error}") if context.errors >= ERROR_POLLS else None


def remap_pending(sample: Sample, context: SignalContext) -> Level:
    """A row will be remapped at the next reset."""
    return None if sample.remap_pending is None else (int(sample.remap_pending), "row remap pending")


def remap_failed(sample: Sample, context: SignalContext) -> Level:
    """No spare rows are left, or so many were needed that the next will fail."""
    if sample.remap_failure:
        return 1_000_000, "RMA: row remapping failed"
    remaps = sample.remap_uncorrectable
    if remaps is None:
        return None if sample.remap_failure is None else CLEAR
    return (remaps, f"RMA: {remaps} uncorrectable row remaps") if remaps >= REMAPS_MAX else CLEAR


def retired_pending(sample: Sample, context: SignalContext) -> Level:
    """A page will be retired at the next driver load."""
    return None if sample.retired_pending is None else (int(sample.retired_pending), "page retirement pending")


def retired_full(sample: Sample, context: SignalContext) -> Level:
    """No more pages can be retired."""
    pages = sample.retired_pages
    if pages is None:
        return None
    return (pages, f"RMA: {pages} retired pages") if pages >= RETIRED_MAX else CLEAR


def sram_ecc(sample: Sample, context: SignalContext) -> Level:
    """Uncorrectable errors of SRAM, which remapping does not repair."""
    count = sample.ecc_sram
    return None if count is None else (count, f"{count} uncorrectable SRAM ECC errors")


def links(sample: Sample, context: SignalContext) -> Level:
    """Fewer active links than its peers."""
    down = sample.nvlinks_down
    if down is None:
        return None
    return (down, f"{down - context.links_down} NVLinks down") if down > context.links_down else CLEAR


def hot(sample: Sample, context: SignalContext) -> Level:
    """At the threshold; just below it, unknown."""
    if sample.temperature_c is None or not sample.slowdown_c:
        return None
    if sample.temperature_c >= sample.slowdown_c:
        return 1, f"temperature {sample.temperature_c} C (slowdown at {sample.slowdown_c} C)"
    return CLEAR if sample.temperature_c <= sample.slowdown_c - COOLER_C else None


def has_slow_link(sample: Sample) -> bool | None:
    """True under load on a link below its best; None when there is no load."""
    if sample.pcie is None or sample.util_percent is None or sample.util_percent < LOAD_PERCENT:
        return None
    generation, width, generation_max, width_max = sample.pcie
    return generation < generation_max or width < width_max


def pcie(sample: Sample, context: SignalContext) -> Level:
    """A slow link in several polls in a row."""
    if sample.pcie is None or context.slow_link < SLOW_POLLS:
        return CLEAR if has_slow_link(sample) is False else None
    generation, width, generation_max, width_max = sample.pcie
    return 1, f"PCIe gen {generation} x{width} instead of gen {generation_max} x{width_max} under load"


def has_idle_memory(sample: Sample) -> bool | None:
    """True when memory is in use, but by no process."""
    if sample.memory_used_kb is None or sample.processes is None:
        return None
    return sample.memory_used_kb > MEMORY_KB and not sample.processes


def memory(sample: Sample, context: SignalContext) -> Level:
    """Memory in use by no process in several polls in a row, while no job has the GPU."""
    if context.idle_memory >= MEMORY_POLLS:
        return 1, f"{(sample.memory_used_kb or 0) // 1024} MiB used by no process"
    return CLEAR if has_idle_memory(sample) is False else None


#: Row -> its level in a sample.
LEVELS: dict[str, Callable[[Sample, SignalContext], Level]] = {
    "lost": lost,
    "reset_required": reset_required,
    "error": error,
    "recovery_reset": recovery(_RESET),
    "recovery_reboot": recovery(_REBOOT),
    "recovery_p2p": recovery(_P2P),
    "remap_pending": remap_pending,
    "remap_failed": remap_failed,
    "retired_pending": retired_pending,
    "retired_full": retired_full,
    "sram_ecc": sram_ecc,
    "nvlink": links,
    "hot": hot,
    "pcie": pcie,
    "memory": memory,
}


def is_slowed(sample: Sample) -> bool:
    """Whether the hardware slows it down now."""
    return bool((sample.throttle or 0) & HW_SLOWDOWN)


def rise(before: int, now: int | None) -> int:
    """The increase of a counter; `before` -1 = unknown. A fall (the driver was reloaded) counts as none."""
    return 0 if now is None or before < 0 else max(now - before, 0)


#: The row and its text of a GPU that was there before the daemon was restarted and no longer gives its UUID, by NVML's
#: error, the mildest first. 0: it was left out, since it hangs.
_MISSING = {
    0: ("hung", "NVML hung on GPU"),
    NVML_TIMEOUT: ("hung", "NVML hung on GPU"),  # it answers too late, and is not gone
    NVML_RESET_REQUIRED: ("reset_required", f"reset required (NVML error {NVML_RESET_REQUIRED})"),
}
_LOST = ("lost", "GPU is no longer found")


def missing(errors: Iterable[int]) -> tuple[str, str]:
    """Returns the row and the text of a missing GPU. It may be any of those that do not answer with one of these errors,
    so the mildest counts.
    """
    found = set(errors)
    return next((row for error, row in _MISSING.items() if error in found), _LOST)
