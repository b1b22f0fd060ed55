"""The arithmetic of bench/live.py; the cluster it measures has its own test (tests/rpc/test_hollow_nodes.py)."""

from bench.live import Phase, document, during, seen, submission
from bench.livecluster import LiveSite

MS = 1_000_000


def test_calls_during_a_pass_are_those_that_began_in_one():
    passes = [(10, 20, 5), (40, 50, 5)]
    calls = [(9, 15), (10, 11), (19, 60), (20, 45), (49, 50)]
    assert during(calls, passes) == [(10, 11), (19, 60), (49, 50)]
    assert during(calls, []) == []


def test_percentiles_of_what_callers_saw():
    calls = [(n * MS, n * MS + (n + 1) * MS) for n in range(200)]
    found = seen(calls, 0.4)
    assert found is not None
    assert (found.calls, found.p50_ms, found.p99_ms, found.max_ms) == (200, 100.5, 199.0, 200.0)
    assert round(found.per_s) == round(200 / 0.399) and found.controller_cpu_ms == 2.0
    assert seen(calls[:99], 0.4) is None, "a p99 of so few would be their longest"


def test_figures_say_how_a_pass_compares_with_none():
    quick, slow = ([(0, ms * MS)] * 200 for ms in (2, 3))
    phases = {
        "idle": Phase({"submit": seen(quick, 1)}, {"submit": None}, {"submit": None}, [], [], 0.5),
        "passes": Phase(
            {"submit": seen(slow, 1)},
            {"submit": seen(quick, 1)},
            {"submit": seen(slow, 1)},
            [(0, 2_000 * MS, 11_500)],
            [(7.0, "x")],
            0.9,
        ),
    }
    flat = document({"live_queue_s": 1.0, "live_phases": phases})
    assert flat["live_submit_p99_during_to_idle"] == 1.5
    assert "live_submit_p99_during_to_ends" not in flat, "that phase was not measured"
    assert (flat["live_full_passes"], flat["live_full_pass_s"], flat["live_full_pass_rows"]) == (1, 2.0, 11_500)
    assert (flat["live_idle_loop_held_max_ms"], flat["live_passes_loop_held_max_ms"]) == (0.0, 7.0)


def test_notes_of_the_controller_are_read_back(tmp_path):
    site = LiveSite(tmp_path, 1)
    site.notes.write_text("pass 100 200 7\nheld 150 4000000 Runtime._pump\nheld 160 9000000 task:x y\npass 300 350 8\n")
    assert site.passes(150) == [(300, 350, 8)]
    assert site.held(0, 1000) == [(9.0, "task:x y"), (4.0, "Runtime._pump")]
    assert site.held(155, 160) == []


def test_a_job_of_several_nodes_takes_them_whole():
    one, many = submission(1, 2, 1, 10).job, submission(2, 8, 3, 10).job
    assert (one.nodes_min, one.cpus_per_task, one.mem_per_node_mb, one.time_limit_s) == (1, 8, 32_000, 600)
    assert (many.nodes_min, many.ntasks, many.cpus_per_task, many.mem_per_node_mb) == (3, 3, 64, 512_000)
