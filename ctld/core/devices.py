"""Which devices of a node a job gets: masks of indices by kind."""

from ctld.core.model import Node


def pick_devices(node: Node, wanted: tuple[tuple[str, str, int], ...]) -> tuple[tuple[str, str, int], ...] | None:
    """Device masks for each kind: the lowest free indices; a request without a type takes what is free of any type."""
    picked: dict[tuple[str, str], int] = {}
    for name, type_, count in sorted(wanted, key=lambda w: w[1] == ""):  # typed requests first
        for (have_name, have_type), devices in device_masks(node).items():
            if have_name != name or (type_ and have_type != type_):
                continue
            key = (have_name, have_type)
            free = devices & ~node.gres_used.get(key, 0) & ~picked.get(key, 0)
            while free and count:
                lowest = free & -free
                picked[key] = picked.get(key, 0) | lowest
                free ^= lowest
                count -= 1
        if count:
            return None
    return tuple((name, type_, mask) for (name, type_), mask in picked.items())


def device_masks(node: Node) -> dict[tuple[str, str], int]:
    """All devices of a node by kind. Indices count through the types of one name in the order of the configuration."""
    masks: dict[tuple[str, str], int] = {}
    next_index: dict[str, int] = {}
    for gres in node.config.gres:
        low = next_index.get(gres.name, 0)
        next_index[gres.name] = low + gres.count
        key = (gres.name, gres.type)
        masks[key] = masks.get(key, 0) | (((1 << gres.count) - 1) << low)
    return masks
