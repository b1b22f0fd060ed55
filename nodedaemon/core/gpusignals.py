"""What a sample of one GPU says, row by row of the policy: is its signal there, gone, or not to be said?

A level is (value, words): 0 = the signal is gone, above 0 = it is there, and the larger the worse. None = the device
does not say, so what was thought stays. Pure functions of a sample and of what was seen before.
"""

from collections.abc import Callable
from typing import NamedTuple

from nodedaemon.core.gpuwords import Sample

NVML_TIMEOUT, NVML_LOST, NVML_RESET_REQUIRED, NVML_UNKNOWN = 10, 15, 16, 999
#: Bits of CurrentClocksEventReasons that are the hardware's: slowdown, thermal, power brake.
HW_SLOWDOWN = 0x8 | 0x40 | 0x80
REMAPS_MAX = 512
RETIRED_MAX = 63
#: How far below the threshold a GPU has cooled down.
COOLER_C = 5
#: Utilisation that counts as load: an idle link is slow on purpose.
LOAD_PERCENT = 50
#: Polls in a row that a slow link, an error without a name or memory without a process must be seen in.
SLOW_POLLS, ERROR_POLLS, MEMORY_POLLS = 3, 2, 2
MEMORY_KB = 1024 * 1024
_REBOOT, _RESET, _P2P = (2, 7), (1, 4, 6), (3,)
_ACTIONS = {
    1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset", 5: "recover the IMEX domain", 6: "bus reset", 7: "reboot",
}  # fmt: skip

#: What is said of a mode of a card, and changes nothing.
NOTES = {
    "ecc_pending": "its ECC mode will change at the next reboot",
    "persistence_off": "persistence mode is off: the driver forgets the card while nobody uses it",
}

Level = tuple[int, str] | None
GONE: Level = (0, "")


class Context(NamedTuple):
    """What a level may depend on beside its sample."""

    errors: int = 0  # polls in a row with the same error
    slow_link: int = 0  # polls in a row with a slow link under load
    idle_memory: int = 0  # polls in a row with memory in use that no process has
    links_down: int = 0  # NVLinks that are down on the best GPU of its kind


def notes(sample: Sample, before: tuple[str, ...]) -> tuple[str, ...]:
    """What is worth a word (NOTES); of what the device does not say that is what was so before."""
    off = None if sample.persistence is None else not sample.persistence
    said = {"ecc_pending": sample.ecc_pending, "persistence_off": off}
    return tuple(word for word, is_so in said.items() if (word in before if is_so is None else is_so))


def recovery(actions: tuple[int, ...]) -> Callable[[Sample, Context], Level]:
    """The driver's own verdict is one of these."""

    def level(sample: Sample, context: Context) -> Level:
        action = sample.recovery_action
        if action is None:
            return None
        words = f"recovery action {action} ({_ACTIONS.get(action, 'unknown')})"
        return (1, words) if action in actions else GONE

    return level


def lost(sample: Sample, context: Context) -> Level:
    """Not there any more."""
    if sample.error == NVML_LOST or (sample.error == NVML_UNKNOWN and context.errors >= ERROR_POLLS):
        return 1, f"GPU is lost (NVML error {sample.error})"
    return None if sample.error else GONE


def reset_required(sample: Sample, context: Context) -> Level:
    """It answers no call but that it has to be reset."""
    return (1, "reset required (NVML error 16)") if sample.error == NVML_RESET_REQUIRED else GONE


def error(sample: Sample, context: Context) -> Level:
    """Another error, more than once."""
    if sample.error in (0, NVML_LOST, NVML_RESET_REQUIRED, NVML_UNKNOWN):
        return GONE
    return (1, f"NVML error {sample.error}") if context.errors >= ERROR_POLLS else None


def remap_pending(sample: Sample, context: Context) -> Level:
    """A row will be remapped at the next reset."""
    return None if sample.remap_pending is None else (int(sample.remap_pending), "row remap pending")


def remap_failed(sample: Sample, context: Context) -> Level:
    """No spare rows are left, or so many were needed that the next will fail."""
    if sample.remap_failure:
        return 1_000_000, "RMA: row remapping failed"
    remaps = sample.remap_uncorrectable
    if remaps is None:
        return None if sample.remap_failure is None else GONE
    return (remaps, f"RMA: {remaps} uncorrectable row remaps") if remaps >= REMAPS_MAX else GONE


def retired_pending(sample: Sample, context: Context) -> Level:
    """A page will be retired at the next driver load."""
    return None if sample.retired_pending is None else (int(sample.retired_pending), "page retirement pending")


def retired_full(sample: Sample, context: Context) -> Level:
    """No more pages can be retired."""
    pages = sample.retired_pages
    if pages is None:
        return None
    return (pages, f"RMA: {pages} retired pages") if pages >= RETIRED_MAX else GONE


def sram_ecc(sample: Sample, context: Context) -> Level:
    """Errors that no remapping mends."""
    count = sample.ecc_sram
    return None if count is None else (count, f"{count} uncorrectable SRAM ECC errors")


def links(sample: Sample, context: Context) -> Level:
    """Fewer links than its like have."""
    down = sample.nvlinks_down
    if down is None:
        return None
    return (down, f"{down - context.links_down} NVLinks down") if down > context.links_down else GONE


def hot(sample: Sample, context: Context) -> Level:
    """At the threshold; a little below it nothing is said."""
    if sample.temperature_c is None or not sample.slowdown_c:
        return None
    if sample.temperature_c >= sample.slowdown_c:
        return 1, f"temperature {sample.temperature_c} C (slowdown at {sample.slowdown_c} C)"
    return GONE if sample.temperature_c <= sample.slowdown_c - COOLER_C else None


def has_slow_link(sample: Sample) -> bool | None:
    """True under load on a link below its best; None when there is no load."""
    if sample.pcie is None or sample.util_percent is None or sample.util_percent < LOAD_PERCENT:
        return None
    generation, width, generation_max, width_max = sample.pcie
    return generation < generation_max or width < width_max


def pcie(sample: Sample, context: Context) -> Level:
    """A slow link, several polls in a row."""
    if sample.pcie is None or context.slow_link < SLOW_POLLS:
        return GONE if has_slow_link(sample) is False else None
    generation, width, generation_max, width_max = sample.pcie
    return 1, f"PCIe gen {generation} x{width} instead of gen {generation_max} x{width_max} under load"


def has_idle_memory(sample: Sample) -> bool | None:
    """Memory is used, and by no process."""
    if sample.memory_used_kb is None or sample.processes is None:
        return None
    return sample.memory_used_kb > MEMORY_KB and not sample.processes


def memory(sample: Sample, context: Context) -> Level:
    """The same, more than once, while no job has the GPU."""
    if context.idle_memory >= MEMORY_POLLS:
        return 1, f"{(sample.memory_used_kb or 0) // 1024} MiB used by no process"
    return GONE if has_idle_memory(sample) is False else None


#: Row -> what a sample says of it.
LEVELS: dict[str, Callable[[Sample, Context], Level]] = {
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
    """By the hardware, now."""
    return bool((sample.throttle or 0) & HW_SLOWDOWN)


def rise(before: int, now: int | None) -> int:
    """How much a counter has risen; `before` -1 = it was not known. A fall (the driver was loaded anew) is none."""
    return 0 if now is None or before < 0 else max(now - before, 0)
