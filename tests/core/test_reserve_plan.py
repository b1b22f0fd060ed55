"""The promise of reservations, on random clusters: no job that was started later stands on a reserved node while it is
reserved, but those of the reservation; and its own jobs stay inside its times.
"""

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import CreateReservation, DeleteReservation, JobSubmission, ReservationSettings
from penstock.values.reservations import ResvFlag
from tests.core.world import US, USERS, World, make_config

users = st.sampled_from(["ann", "bob"])
jobs = st.tuples(st.just("job"), users, st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.integers(0, 3))
reservations = st.tuples(
    st.just("reserve"), users, st.integers(0, 20), st.integers(1, 20), st.sets(st.integers(1, 3), min_size=1),
    st.sampled_from([ResvFlag.NONE, ResvFlag.MAGNETIC, ResvFlag.DAILY, ResvFlag.HOURLY]),
)  # fmt: skip
steps = st.lists(
    st.one_of(
        jobs, reservations, st.tuples(st.just("wait"), st.integers(1, 30)), st.tuples(st.just("drop"), st.integers(0, 3))
    ),
    min_size=3, max_size=14,
)  # fmt: skip


def check(world: World) -> None:
    """No running job crosses a reservation that was there when it started."""
    state, now_us = world.core.state, world.now_us
    for job in state.jobs.values():
        if not job.start_at_us or job.end_at_us:
            continue
        end_us = job.start_at_us + job.time_limit_s * US
        inside = job.request.reservation_run or job.request.reservation
        for reservation in state.reservations.values():
            if reservation.created_at_us > job.start_at_us or now_us >= reservation.end_at_us:
                continue
            if inside == reservation.name:
                assert {part.node for part in job.alloc} <= {part.node for part in reservation.parts}
                continue
            met = job.start_at_us < reservation.end_at_us and reservation.start_at_us < end_us
            shared = {part.node for part in job.alloc} & {part.node for part in reservation.parts}
            assert not (met and shared), f"job {job.job_id} crosses {reservation.name}"


@given(steps)
def test_nothing_runs_into_a_reservation_of_others(steps):
    world = World(make_config(nodes=3, cpus=4))
    for node in world.config.nodes:
        world.register(node.name)
    names: list[str] = []
    for kind, *rest in steps:
        if kind == "job":
            user, tasks, nodes, minutes, which = rest
            asked = names[which] if which < len(names) else ""
            wanted = JobSubmission(
                name="j", work_dir=b"/", ntasks=max(tasks, nodes), nodes_min=nodes, nodes_max=nodes,
                time_limit_s=minutes * 60, reservation=asked,
            )  # fmt: skip
            world.submit(wanted, user)
        elif kind == "reserve":
            user, start, minutes, nodes, flags = rest
            wish = ReservationSettings(
                start_at_us=world.now_us + start * 60 * US, duration_s=minutes * 60,
                nodes=tuple(("", f"n{i}") for i in sorted(nodes)), users=(("", user, USERS[user]),),
                flags_on=int(flags),
            )  # fmt: skip
            world.do(CreateReservation(world.actor("root"), f"r{len(names)}", wish, world.reply_to()))
            names.append(f"r{len(names)}")
        elif kind == "drop" and rest[0] < len(names):
            world.do(DeleteReservation(world.actor("root"), names[rest[0]], world.reply_to()))
        elif kind == "wait":
            world.advance(rest[0] * 60)
        check(world)
