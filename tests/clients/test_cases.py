"""Other people's programs, unmodified, against our commands: each of tests/clients/cases is one, and passes on real Slurm, too.

A case prints `ok NAME` last and ends with 0, or says why not. They are a sample: what matters is the surface, not the sample.
"""

import re
import subprocess
from pathlib import Path

import pytest
from clientvenv import CASES, group_of, python_of
from patience import END_S, LONGEST_S

#: Other uses of a program that another case runs, and that take long: `make test-full` has them.
SLOW = ("t_snakemake_array",)
ALL = [
    pytest.param(path, marks=[pytest.mark.slow] * (path.stem in SLOW), id=path.stem.removeprefix("t_"))
    for path in sorted(CASES.glob("t_*.py"))
]
#: reframe has two tests that each want all idle nodes, and skips the one that finds none. Slurm starts batch jobs up to
#: 3 s late (batch_sched_delay), so both find some; here the first one runs by then, more often than not. One of them has
#: to pass, and everything else.
RACES = {"t_reframe": re.compile(r"^FAIL reframe: AssertionError: \{\('Flex', '\w+'\): \('skip', None\)\}$", re.M)}


@pytest.mark.parametrize("case", ALL)
def test_a_program_notices_nothing(case: Path, cluster, commands: Path, scratch: Path) -> None:
    python = python_of(group_of(case))
    # Some look for idle nodes (reframe), and what the case before has left may still be ending.
    cluster.run("scancel", "--me").ok()
    cluster.wait(lambda: set(cluster.run("sinfo", "-h", "-o", "%t").ok().out.split()) == {"idle"}, "all nodes are idle")
    env = cluster.user_environment(
        commands,
        {
            "PARTITION": "debug",
            "CASE_TMP": str(scratch),
            "HOME": str(scratch),
            "PYTHONUNBUFFERED": "1",
            "CASE_LIMIT_S": f"{END_S}",
        },
    )
    done = subprocess.run(
        [str(python), str(case)], cwd=scratch, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    if case.stem in RACES and RACES[case.stem].search(done.stdout):
        return
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("ok "), done.stdout
