#!/usr/bin/env python3
# requires: reframe
"""ReFrame, schedulers `slurm` (sacct) and `squeue`, launcher srun: a 2-task check, a flexible one (scontrol -a show -o nodes), a job array, a blocked job it must cancel by its reason."""

import json
import os
import subprocess
import sys
import tempfile
import traceback

NAME = "reframe"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn

class Base(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "3m"

@rfm.simple_test
class Ranks(Base):
    executable = "sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS'"
    num_tasks = 2
    num_tasks_per_node = 2
    num_cpus_per_task = 1
    @sanity_function
    def ok(self):
        return sn.all([sn.assert_found(r"rank 0 of 2", self.stdout), sn.assert_found(r"rank 1 of 2", self.stdout), sn.assert_eq(sn.len(self.job.nodelist), 1)])

@rfm.simple_test
class Flex(Base):
    executable = "hostname"
    num_tasks = 0
    num_tasks_per_node = 1
    @sanity_function
    def ok(self):
        return sn.assert_ge(sn.count(sn.extractall(r"\\S+", self.stdout)), self.job.num_tasks)

@rfm.simple_test
class Array(Base):
    executable = "sh -c 'echo idx=$SLURM_ARRAY_TASK_ID'"
    num_tasks = 1
    @run_before("run")
    def arr(self):
        self.job.options += ["--array=0-1"]
    @sanity_function
    def ok(self):
        return sn.all([sn.assert_found("idx=0", self.stdout), sn.assert_found("idx=1", self.stdout)])

@rfm.simple_test
class Fails(Base):
    executable = "false"
    num_tasks = 1
    @sanity_function
    def ok(self):
        return sn.assert_eq(self.job.exitcode, 1)
"""


def main():
    d = tempfile.mkdtemp(prefix="case-reframe-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/check.py", "w").write(CHECK)
    parts = [
        {
            "name": n,
            "scheduler": n,
            "launcher": "srun",
            "access": [f"-p {PART}", "--mem=200M"],
            "environs": ["builtin"],
            "max_jobs": 8,
            "processor": {"num_cpus": 2},
        }
        for n in ("slurm", "squeue")
    ]
    conf = {
        "systems": [{"name": "case", "hostnames": [".*"], "partitions": parts}],
        "environments": [{"name": "builtin", "cc": "", "cxx": "", "ftn": ""}],
        "general": [{"remote_detect": False, "pipeline_timeout": 5}],
        "storage": [{"enable": False}],
    }
    open(d + "/conf.py", "w").write("site_configuration = " + repr(conf))
    rfm = os.path.join(os.path.dirname(sys.executable), "reframe")
    cmd = [
        rfm,
        "-C",
        d + "/conf.py",
        "--system",
        "case",
        "-c",
        d + "/check.py",
        "--prefix",
        d,
        "--report-file",
        d + "/rep.json",
        "-r",
        "-v",
        "--nocolor",
        "-x",
        "Fails%x",
    ]
    # the squeue backend cannot know exit codes, and merges no finished arrays
    p = subprocess.run(cmd, cwd=d, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    rep = json.load(open(d + "/rep.json"))
    res = {}
    for run in rep["runs"]:
        for tc in run["testcases"]:
            res[(tc["name"].split()[0], tc["partition"])] = (tc["result"], (tc.get("fail_info") or {}).get("exc_value"))
    want = {(n, "slurm") for n in ("Ranks", "Flex", "Array", "Fails")} | {
        (n, "squeue") for n in ("Ranks", "Flex", "Array")
    }
    bad = {k: res.get(k) for k in want if (res.get(k) or ("missing",))[0] != "pass"}
    assert not bad, bad


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
