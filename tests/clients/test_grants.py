"""What jobs and steps get, against what a real Slurm gave them, recorded: 1,500 requests and 500 steps, drawn from a grammar.

The reference and the reasons are in tests/support/differential/grants. Here they go through the real code without processes (all in `make test-full`, else every third);
some go once more through a cluster of real processes, which must give the same.
"""

import pytest
from differential.grants import grammar
from differential.grants.__main__ import COUNT, SEED, STEPS, compared, wishes
from differential.grants.answers import RUNS
from differential.grants.live import LiveOurs
from differential.grants.ours import Ours
from differential.grants.recorded import read
from effort import FULL

#: Shares that get the same, in percent, and of those that both refuse the shares with the same first complaint. They may only rise.
JOBS_EQUAL, STEPS_EQUAL = 95.0, 95.0
JOBS_WORDS, STEPS_WORDS = 94.0, 85.0
#: Of a cluster of real processes.
SAMPLE = (
    ("-N2 -n4", ("", "-n2 -c1 --exact", "-N2 -n3 -m cyclic", "-n1 -w n2")),
    ("-n5 --ntasks-per-node=3 --mem=1000", ("",)),
    ("-N1-2 --ntasks-per-node=2 -G2", ("", "-n2 --gpus-per-task=1")),
    ("-N2 --exclusive --gres=gpu:2", ("", "-c4", "--gres=gpu:4")),
    ("-n8 --gpus-per-task=1", ("", "-N1 -n2")),
    ("-p ht -n3 -c2 --hint=nomultithread", ("",)),
)


def test_28_jobs_and_steps_get_what_slurm_gives_them() -> None:
    jobs, steps = compared(read() if FULL else read()[2::3])  # of these, the shares are no less than of all
    unexplained = [*jobs.unexplained(), *steps.unexplained()]
    assert not unexplained, "\n".join(map(str, unexplained))
    assert jobs.equal() >= JOBS_EQUAL, jobs.equal()
    assert steps.equal() >= STEPS_EQUAL, steps.equal()
    assert jobs.same_words() >= JOBS_WORDS, jobs.same_words()
    assert steps.same_words() >= STEPS_WORDS, steps.same_words()


def test_what_is_recorded_is_what_the_grammar_says() -> None:
    recorded = read()
    assert [(one.line, one.steps) for one in recorded] == wishes(SEED, COUNT, STEPS), (
        "the grammar has changed: python -m differential.grants record, with slurm-wlm"
    )
    runs = sum(one.job.said == RUNS for one in recorded if not one.steps)
    assert runs > COUNT / 2, "most requests are plausible"
    assert len(grammar.requests(SEED + 1, 100)) == 100


@pytest.mark.root
def test_real_processes_are_given_the_same() -> None:
    ours = Ours()
    try:
        with LiveOurs() as live:
            for line, steps in SAMPLE:
                expected, got = ours.ask(line, steps), live.ask(line, steps)
                assert got[0]._replace(told=[]) == expected[0]._replace(told=[]), line
                assert [one[::2] for one in got[1]] == [one[::2] for one in expected[1]], line
    finally:
        ours.close()
