"""MIG: profiles of GPU instances, and the layouts into which a GPU may be divided.

A profile is written as NVIDIA does: `1g.18gb` has one of the compute slices and 18 GB; `1g.10gb+me` has the media
engines, too. A layout is the profiles of one GPU's instances, largest first; the empty layout is a whole GPU. A GPU has
7 compute slices and 8 memory slices. Layouts that are known to exceed them are refused here; the driver refuses others.

    whole|1g.18gb*7|3g.71gb*2       a GPU with three possible layouts

The driver places instances on the GPU; positions are not modelled.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.values.errors import BadValue

GpuLayout = tuple[str, ...]

WHOLE: Final[GpuLayout] = ()
WHOLE_WORD: Final = "whole"
COMPUTE_SLICES: Final = 7
MEMORY_SLICES: Final = 8
#: Layouts per GPU; sites use few.
LAYOUTS_MAX: Final = 16
#: The minimum number of memory slices of a profile, by its compute slices.
_MEMORY_OF: Final = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
_PROFILE: Final = re.compile(r"([0-9]{1,2})g\.([0-9]{1,4})gb(?:[+-][a-z0-9.]{1,20})*\Z")
_TIMES: Final = re.compile(r"(.+?)\*([0-9]{1,2})\Z")


@dataclass(frozen=True, slots=True)
class MigChoice:
    """GPUs of a node that may be divided, and their layouts: `count` GPUs of the type, starting at index `first`."""

    type: str
    first: int
    count: int
    layouts: tuple[GpuLayout, ...]


def is_profile(text: str) -> bool:
    """Returns whether `text` has the form of a profile, such as `1g.10gb`."""
    return _PROFILE.match(text) is not None


def slices_of(profile: str) -> int:
    """Returns the compute slices of a profile. Raises BadValue."""
    return _numbers(profile)[0]


def _numbers(profile: str) -> tuple[int, int]:
    match = _PROFILE.match(profile)
    if match is None or int(match[1]) not in _MEMORY_OF or not int(match[2]):
        raise BadValue(f"{profile!r} is no MIG profile; profiles look like 1g.18gb (nvidia-smi mig -lgip lists them)")
    return int(match[1]), int(match[2])


def parse_layouts(text: str) -> tuple[GpuLayout, ...]:
    """Parses `whole|1g.18gb*7|4g.71gb,2g.35gb,1g.18gb`. Raises BadValue.

    The result includes the whole GPU even if the text does not: `Gres` of the node declares whole GPUs.
    """
    layouts = tuple(parse_layout(word) for word in text.split("|"))
    if len(layouts) > LAYOUTS_MAX:
        raise BadValue(f"{len(layouts)} layouts, the limit is {LAYOUTS_MAX}")
    twice = next((one for i, one in enumerate(layouts) if one in layouts[:i]), None)
    if twice is not None:
        raise BadValue(f"the layout {format_layout(twice)} is given twice")
    unit_gb = _unit_gb(profile for layout in layouts for profile in layout)
    for layout in layouts:
        _check(layout, unit_gb)
    return layouts if WHOLE in layouts else (*layouts, WHOLE)


def parse_layout(text: str) -> GpuLayout:
    """Parses one layout, without checking its slices. Raises BadValue."""
    word = text.strip()
    if word.lower() == WHOLE_WORD:
        return WHOLE
    profiles: list[str] = []
    for one in word.split(","):
        match = _TIMES.match(one.strip())
        profile, count = (match[1], int(match[2])) if match else (one.strip(), 1)
        _numbers(profile.lower())
        if not 1 <= count <= COMPUTE_SLICES:
            raise BadValue(f"{one}: a GPU has 1 to {COMPUTE_SLICES} instances")
        profiles += [profile.lower()] * count
    return in_order(profiles)


def in_order(profiles: Iterable[str]) -> GpuLayout:
    """Sorts profiles largest first. Instances are created in this order, since large ones fit in fewer places."""
    return tuple(sorted(profiles, key=lambda profile: (*(-n for n in _numbers(profile)), profile)))


def _unit_gb(profiles: Iterable[str]) -> float:
    """Estimates the GB of a memory slice from the profiles of a GPU; 0 = unknown."""
    numbers = [_numbers(profile) for profile in profiles]
    return min((memory / _MEMORY_OF[slices] for slices, memory in numbers), default=0.0)


def _check(layout: GpuLayout, unit_gb: float) -> None:
    compute = memory = 0
    for profile in layout:
        slices, memory_gb = _numbers(profile)
        compute += slices
        memory += max(_MEMORY_OF[slices], _power_of_two(memory_gb / unit_gb))
    shown = format_layout(layout)
    if compute > COMPUTE_SLICES:
        raise BadValue(f"{shown} has {compute} compute slices; a GPU has {COMPUTE_SLICES}")
    if memory > MEMORY_SLICES:
        raise BadValue(f"{shown} has {memory} memory slices; a GPU has {MEMORY_SLICES}")


def _power_of_two(slices: float) -> int:
    """Returns the nearest power of two: names of profiles round their memory (71 GB are four slices of 18)."""
    return min((1, 2, 4, 8), key=lambda number: (abs(number - slices), number))


def format_layout(layout: GpuLayout) -> str:
    """Formats a layout so that `parse_layout` reads it."""
    if not layout:
        return WHOLE_WORD
    counts: dict[str, int] = {}
    for profile in layout:
        counts[profile] = counts.get(profile, 0) + 1
    return ",".join(f"{profile}*{count}" if count > 1 else profile for profile, count in counts.items())


def extra_places(choices: Iterable[MigChoice]) -> tuple[tuple[str, int], ...]:
    """Returns the maximum number of instances by profile, over all layouts."""
    found: dict[str, int] = {}
    for choice in choices:
        most: dict[str, int] = {}
        for layout in choice.layouts:
            for profile in dict.fromkeys(layout):
                most[profile] = max(most.get(profile, 0), layout.count(profile))
        for profile, count in most.items():
            found[profile] = found.get(profile, 0) + count * choice.count
    return tuple(found.items())


def most_at_once(choices: Iterable[MigChoice]) -> int:
    """Returns how many devices a node may have beyond its whole GPUs, when they are divided into the most instances."""
    return sum((max(len(layout) or 1 for layout in c.layouts) - 1) * c.count for c in choices)


def is_type(type_: str, profile: str) -> bool:
    """Whether an instance of `profile` matches the configured type: `1g.18gb`, or with the GPU's type `h200_1g.18gb`."""
    wanted = type_.lower()
    return not wanted or wanted == profile or wanted.endswith("_" + profile)
