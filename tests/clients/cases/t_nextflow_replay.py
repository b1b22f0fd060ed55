#!/usr/bin/env python3
# requires: none
"""Nextflow 26.08 (SlurmExecutor.groovy), replayed: directive pairs in a header, `sbatch .command.run` in the work dir, an array, `squeue --noheader -o '%i %t' -t all -p Q -u USER` (one word pair a line), scancel of many ids, USR2 before the limit."""

import getpass
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "nextflow_replay"
PART = os.environ.get("PARTITION", "debug")
STATUS = dict(
    PD="PENDING",
    R="RUNNING",
    CA="ERROR",
    CF="PENDING",
    CG="RUNNING",
    CD="DONE",
    F="ERROR",
    TO="ERROR",
    NF="ERROR",
    S="HOLD",
    ST="HOLD",
    PR="ERROR",
    BF="ERROR",
)


def sh(*a, cwd=None):
    return subprocess.run(a, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    d = tempfile.mkdtemp(prefix="case-nf-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.makedirs(d + "/a b")
    open(d + "/q.sh", "w").write(
        f"#!/bin/bash\n#SBATCH -o {d}/a\\ b/q.log\n#SBATCH -p {PART}\n#SBATCH --mem 100M\necho spaced\n"
    )  # how it quotes a path
    p = sh("sbatch", "--wait", "q.sh", cwd=d)
    if p.returncode:
        print(
            "note: a backslash before a space is not understood in #SBATCH lines here (nor is it in Slurm 22.05):",
            p.stdout.split("\n")[0],
        )
    else:
        assert open(d + "/a b/q.log").read() == "spaced\n"

    def task(name, body, extra=""):
        w = f"{d}/{name}"
        os.makedirs(w)
        log = w.replace(" ", "\\ ") + "/.command.log"
        open(w + "/.command.run", "w").write(f"""#!/bin/bash
### ---
### name: '{name}'
### ...
#SBATCH -J nf-{name}
#SBATCH -o {log}
#SBATCH --no-requeue 
#SBATCH --signal B:USR2@30
#SBATCH -c 2
#SBATCH -t 00:03:00
#SBATCH --mem 200M
#SBATCH -p {PART}
{extra}
set -e
set -u
NXF_DEBUG=${{NXF_DEBUG:=0}}; [[ $NXF_DEBUG > 1 ]] && set -x
nxf_exit() {{ printf -- $? > "{w}/.exitcode"; }}
trap nxf_exit EXIT
{body}
""")
        p = sh("sbatch", ".command.run", cwd=w)
        m = re.search(r"Submitted batch job (\d+)", p.stdout)
        assert p.returncode == 0 and m, p.stdout
        return w, m.group(1)

    def queue():
        p = sh("squeue", "--noheader", "-o", "%i %t", "-t", "all", "-p", PART, "-u", getpass.getuser())
        assert p.returncode == 0, p.stdout
        res = {}
        for line in p.stdout.split("\n"):
            cols = re.split(r"\s+", line)
            if len(cols) == 2:
                res[cols[0]] = STATUS.get(cols[1])
            else:
                assert not line, f"invalid status line {line!r}"
        return res

    w1, a = task("ok", "echo hi $SLURM_JOB_NAME $SLURM_CPUS_PER_TASK; sleep 3")
    w2, b = task("bad", "exit 9")
    w3, c = task("kill", "sleep 80")
    w4, e = task("kill2", "sleep 80")
    arr = f"{d}/arr"
    os.makedirs(arr)
    open(arr + "/.command.run", "w").write(
        f'#!/bin/bash\n#SBATCH --array 0-1\n#SBATCH -J nf-arr\n#SBATCH -o /dev/null\n#SBATCH --no-requeue \n#SBATCH --signal B:USR2@30\n#SBATCH --mem 100M\n#SBATCH -p {PART}\ndeclare -a array=( x y )\necho ${{array[SLURM_ARRAY_TASK_ID]}} > "{arr}/$SLURM_ARRAY_TASK_ID"\n'
    )
    p = sh("sbatch", ".command.run", cwd=arr)
    f = re.search(r"Submitted batch job (\d+)", p.stdout).group(1)
    t = time.time()
    seen = {}
    while time.time() - t < 240:
        q = queue()
        seen.update(q)
        if (seen.get(a), seen.get(b), seen.get(c), seen.get(e), seen.get(f + "_0"), seen.get(f + "_1")) == (
            "DONE",
            "ERROR",
            "RUNNING",
            "RUNNING",
            "DONE",
            "DONE",
        ):
            break
        time.sleep(1)
    else:
        raise AssertionError({k: seen.get(k) for k in (a, b, c, e, f + "_0", f + "_1")})
    assert (
        open(w1 + "/.command.log").read() == "hi nf-ok 2\n"
        and open(w1 + "/.exitcode").read() == "0"
        and open(w2 + "/.exitcode").read() == "9"
    )
    assert open(arr + "/0").read() == "x\n" and open(arr + "/1").read() == "y\n"
    p = sh("scancel", c, e)
    assert p.returncode == 0, p.stdout
    t = time.time()
    while time.time() - t < 240 and not (queue().get(c) == queue().get(e) == "ERROR"):
        time.sleep(1)
    assert queue().get(c) == "ERROR", queue().get(c)
    p = sh("squeue", "--noheader", "-o", "%i %t", "-t", "all", "--only-job-state")
    if p.returncode:
        print("note: no squeue --only-job-state here (Slurm < 24.05):", p.stdout.split("\n")[0])
    else:
        assert f"{a} CD" in p.stdout.split("\n"), p.stdout


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.stdout.flush()
        os._exit(1)
    print("ok", NAME)
    sys.stdout.flush()
    os._exit(0)
