"""The inside of a node: no device and no cpu twice, and which are preferred."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.nodes.layout import new_node
from ctld.core.records.node import Node
from ctld.core.state.devices import (
    CPUS_NUMBERED_MAX,
    choose_cpus,
    device_masks,
    layout_of,
    pick_cpus,
    pick_devices,
)
from penstock.values.config import DeviceConfig, NodeConfig
from penstock.values.gres import Gres

Wanted = tuple[tuple[str, str, int], ...]


def node_of(
    sockets: int = 2, cores: int = 4, threads: int = 1, near: tuple[int, ...] = (), links: Any = (), **more: Any
) -> Node:
    """A node whose GPU i is near socket near[i]."""
    places = [tuple(range(place * cores, (place + 1) * cores)) if place >= 0 else () for place in near]
    devices = tuple(DeviceConfig("gpu", place, links[i] if links else ()) for i, place in enumerate(places))
    config = NodeConfig(
        "n1", "n1", "n1", sockets * cores * threads, sockets=sockets, cores_per_socket=cores, threads_per_core=threads,
        devices=devices, **{"gres": (Gres("gpu", "", len(near)),) if near else (), **more},
    )  # fmt: skip
    node = new_node(config)
    node.cpus = config.cpus
    return node


def take(node: Node, cpus: int, wanted: Wanted) -> tuple[int, Wanted | None]:
    """Give them away, as the state does."""
    gres = pick_devices(node, wanted)
    if gres is None:
        return 0, None
    ids = pick_cpus(node, cpus, gres)
    for name, type_, mask in gres:
        held = node.gres_used.get((name, type_), 0)
        assert not held & mask
        node.gres_used[name, type_] = held | mask
    assert not node.cpus_used & ids
    node.cpus_used |= ids
    return ids, gres


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Any node: untyped and typed devices, some of which gres.conf says nothing of."""
    sockets, cores, threads = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    gres = tuple(Gres("gpu", kind, count) for kind, count in zip(("a", "b"), counts, strict=False))
    known = draw(st.integers(0, sum(counts)))
    near = tuple(draw(st.integers(-1, sockets - 1)) for _ in range(known))
    links = [tuple(draw(st.integers(-1, 4)) for _ in range(known)) for _ in range(known)] if draw(st.booleans()) else ()
    return node_of(sockets, cores, threads, near, links, gres=gres)


_requests = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.sampled_from(["", "a", "b"])), max_size=10)


@given(nodes(), _requests)
def test_nothing_is_given_twice(node: Node, requests: list[tuple[int, int, str]]) -> None:
    masks, devices = device_masks(node), 0
    held_cpus = 0
    for cpus, count, type_ in requests:
        wanted: Wanted = (("gpu", type_, count),) if count else ()
        kinds = [key for key in masks if not type_ or key[1] == type_]
        free = sum((masks[key] & ~node.gres_used.get(key, 0)).bit_count() for key in kinds)
        ids, gres = take(node, cpus, wanted)
        assert (gres is None) == (count > free)
        if gres is None:
            continue
        devices += count
        assert sum(mask.bit_count() for _, _, mask in gres) == count
        for name, kind, mask in gres:
            assert not mask & ~masks[name, kind] and (not type_ or kind == type_)
        assert ids.bit_count() == (cpus if cpus <= node.cpus - held_cpus else 0)
        assert ids < 1 << node.cpus
        held_cpus += ids.bit_count()
    assert sum(mask.bit_count() for mask in node.gres_used.values()) == devices


@given(nodes(), st.integers(1, 8))
def test_devices_lie_on_one_socket_where_one_has_enough(node: Node, count: int) -> None:
    layout = layout_of(node.config)
    near = layout.near.get("gpu", ())
    total = sum(mask.bit_count() for mask in layout.masks.values())
    if len(near) < total or not all(near) or count > total:
        return
    gres = pick_devices(node, (("gpu", "", count),))
    assert gres is not None
    picked = 0
    for _, _, mask in gres:
        picked |= mask
    places = {near[i] for i in range(total) if picked >> i & 1}
    most = max(sum(place == other for other in near) for place in near)
    assert len(places) == 1 or count > most


def test_a_socket_with_fewer_free_devices_comes_first() -> None:
    node = node_of(near=(0, 0, 1, 1))
    assert take(node, 1, (("gpu", "", 1),))[1] == (("gpu", "", 0b0001),)
    assert take(node, 1, (("gpu", "", 1),))[1] == (("gpu", "", 0b0010),)  # leaves the other socket whole
    assert take(node, 1, (("gpu", "", 2),))[1] == (("gpu", "", 0b1100),)


def test_links_decide_within_a_socket() -> None:
    links = ((-1, 1, 1, 4), (1, -1, 1, 1), (1, 1, -1, 1), (4, 1, 1, -1))
    node = node_of(near=(0, 0, 0, 0), links=links)
    assert take(node, 1, (("gpu", "", 2),))[1] == (("gpu", "", 0b1001),)


def test_a_typed_request_comes_before_an_untyped_one() -> None:
    node = node_of(gres=(Gres("gpu", "a", 1), Gres("gpu", "b", 1)))
    assert pick_devices(node, (("gpu", "", 1), ("gpu", "a", 1))) == (("gpu", "a", 0b01), ("gpu", "b", 0b10))


def test_many_devices_are_taken_in_order() -> None:
    """More sets than are worth comparing."""
    node = node_of(near=(0, 1) * 16)
    assert pick_devices(node, (("gpu", "", 16),)) == (("gpu", "", 0xFFFF),)


def test_cpus_are_near_the_devices() -> None:
    node = node_of(near=(1,))
    assert take(node, 2, (("gpu", "", 1),)) == (0b0011_0000, (("gpu", "", 1),))
    assert take(node, 6, ())[0] == 0b1100_1111  # the rest, beginning where most is free


def test_cpus_go_where_they_fit_best() -> None:
    node = node_of()
    take(node, 3, ())
    assert take(node, 2, ())[0] == 0b0011_0000
    assert take(node, 1, ())[0] == 0b0000_1000  # one is left there, two in the other


def test_a_node_that_stands_for_a_cluster_has_no_numbers() -> None:
    node = node_of(1, CPUS_NUMBERED_MAX + 1)
    assert pick_cpus(node, 1, ()) == 0


@given(st.integers(0, 2**12 - 1), st.integers(1, 12), st.sampled_from((10, 12)))
def test_of_sockets_with_one_cpu_each_the_first_are_taken(free: int, count: int, sockets: int) -> None:
    """CPUs=12 alone means 12 sockets. Of 10 sockets, two cpus belong to none."""
    inside = layout_of(NodeConfig("n", "n", "127.0.0.1", 12, sockets=sockets))
    there = [cpu for cpu in range(sockets) if free >> cpu & 1]
    expected = sum(1 << cpu for cpu in there[:count]) if len(there) >= count else 0
    assert choose_cpus(inside, free, count, ()) == expected
