#!/usr/bin/env python3
# requires: none
"""Open OnDemand's ood_core Slurm adapter (2026-08), replayed: sbatch on stdin with --parsable and --export NONE, squeue -O with 52 fields and a 0x1F suffix each, sinfo with 0x1E records, sacct with a 0x1F delimiter, scontrol show part -o (every token KEY=VALUE), hold/release, sacctmgr."""

import getpass
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "ood_core_replay"
PART = os.environ.get("PARTITION", "debug")
US, RS = "\x1f", "\x1e"
FIELDS = [
    "Account",
    "JobID",
    "BatchHost",
    "MinCpus",
    "NumCPUs",
    "MinTmpDisk",
    "NumNodes",
    "EndTime",
    "Dependency",
    "Feature",
    "ArrayJobID",
    "GroupName",
    "GroupID",
    "OverSubscribe",
    "Sockets",
    "JobArrayID",
    "Cores",
    "Name",
    "Threads",
    "Comment",
    "ArrayTaskID",
    "TimeLimit",
    "TimeLeft",
    "MinMemory",
    "TimeUsed",
    "ReqNodes",
    "NodeList",
    "Command",
    "Contiguous",
    "QOS",
    "Partition",
    "PriorityLong",
    "Reason",
    "StartTime",
    "StateCompact",
    "State",
    "UserName",
    "UserID",
    "Reservation",
    "SubmitTime",
    "WCKey",
    "Licenses",
    "ExcNodes",
    "CoreSpec",
    "Nice",
    "SchedNodes",
    "SCT",
    "WorkDir",
    "tres-alloc",
    "tres-per-node",
]
SACCT = [
    "User",
    "Group",
    "JobId",
    "JobName",
    "Elapsed",
    "ReqMem",
    "AllocCPUS",
    "ReqCPUS",
    "Timelimit",
    "State",
    "TotalCPU",
    "MaxRSS",
    "Partition",
    "Submit",
    "Start",
    "End",
    "ReqTRES",
]


def call(*a, stdin="", ok=True):
    p = subprocess.run(a, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert not ok or p.returncode == 0, (a, p)
    return p.stdout


def jobs(jid=None, owner=None):
    args = ["--all", "--states=all", "--noconvert", "-O", f":{US},".join(FIELDS + [""])]
    if owner:
        args += ["-u", owner]
    if jid:
        args += ["-j", jid]
    out = call("squeue", *args)
    head, sep, rest = out.partition(US + "\n")  # the header ends at the first US+newline
    assert sep, out
    res = []
    for line in rest.split("\n"):
        vals = line.split(US)
        if line:
            assert len(vals) == len(FIELDS) + 1 and vals[-1] == "", (len(vals), len(FIELDS), vals)
            res.append(dict(zip(FIELDS, vals)))
    return res


def main():
    d = tempfile.mkdtemp(prefix="case-ood-", dir=os.environ.get("CASE_TMP", "/tmp"))
    me = getpass.getuser()
    script = "#!/bin/bash\necho home=$HOME A=$OOD_A\nsleep 60\n"
    jid = (
        call(
            "sbatch",
            "--no-requeue",
            "-D",
            d,
            "-J",
            "ood/case name",
            "-o",
            d + "/out.log",
            "-p",
            PART,
            "-t",
            "00:03:00",
            "-n",
            "1",
            "--mem=100M",
            "--mail-type",
            "NONE",
            "--export",
            "NONE",
            "--parsable",
            stdin=script,
        )
        .strip()
        .split(";")[0]
    )
    held = (
        call(
            "sbatch",
            "-H",
            "-D",
            d,
            "-p",
            PART,
            "--mem=100M",
            "--comment",
            "a comment, with; signs",
            "--export",
            "NONE",
            "--parsable",
            stdin=script,
        )
        .strip()
        .split(";")[0]
    )
    t = time.time()
    while time.time() - t < 240:
        (j,) = jobs(jid)
        if j["StateCompact"] == "R":
            break
        time.sleep(1)
    assert (
        j["StateCompact"],
        j["State"],
        j["JobID"],
        j["Name"],
        j["UserName"],
        j["Partition"],
        j["WorkDir"],
        j["NumNodes"],
        j["NumCPUs"],
    ) == ("R", "RUNNING", jid, "ood/case name", me, PART, d, "1", "1"), j
    assert re.search(r"(?:^|,)mem=(\w+)(?:,|$)", j["tres-alloc"]).group(1) == "100M", j["tres-alloc"]
    assert (
        re.match(r"^\d+:\d\d$", j["TimeUsed"])
        and j["TimeLimit"] == "3:00"
        and re.match(r"\d{4}-\d\d-\d\dT", j["StartTime"])
        and j["NodeList"]
    ), j
    assert j["ArrayTaskID"] == "N/A" and j["ArrayJobID"] == jid and j["JobArrayID"] == jid, j
    h = jobs(held)[0]
    assert h["StateCompact"] == "PD" and h["Reason"] == "JobHeldUser" and h["Comment"] == "a comment, with; signs", h
    call("scontrol", "release", held)
    call("scontrol", "hold", held, ok=False)
    call("scancel", held)
    assert {x["JobID"] for x in jobs(owner=me)} >= {jid}
    # cluster info
    f = call("sinfo", "-aho", "%F/%C").strip().split("/")
    assert (
        len(f) == 8
        and all(x.isdigit() for x in f)
        and int(f[0]) >= 1
        and int(f[3]) >= int(f[0])
        and int(f[7]) >= int(f[4])
    ), f
    for l in call("sinfo", "-ahNO", "nodehost:100,gres:512,gresused:512,statelong").split("\n"):
        assert not l or len(l.split()) == 4, l
    out = call("sinfo", "-ho", RS + US.join(["%n", "%C", "%G", "%f"]))
    recs = [r.strip().split(US) for r in out.split(RS) if r.strip()]
    assert recs and all(len(r) == 4 for r in recs), recs
    for line in call("scontrol", "show", "part", "-o").strip().split("\n"):
        kv = dict(
            re.match(r"^(\w+)=(.+)$", tok).groups() for tok in line.split(" ") if tok
        )  # Ruby: NoMethodError on any other token
        assert (
            kv["PartitionName"] and "AllowAccounts" in kv and "AllowQos" in kv and "QoS" in kv and "TotalNodes" in kv
        ), kv
        if "TRES" in kv and kv["TRES"] != "(null)":
            assert all("=" in x for x in kv["TRES"].split(",")), kv["TRES"]
    call("sacctmgr", "-nP", "show", "users", "withassoc", "format=account,qos", "where", f"user={me}", ok=False)
    t = time.time()
    while time.time() - t < 240 and not (
        os.path.exists(d + "/out.log") and os.path.getsize(d + "/out.log")
    ):  # a login shell runs first
        time.sleep(0.5)
    call("scancel", jid)
    t = time.time()
    while time.time() - t < 240:
        rows = [
            l.split(US)
            for l in call(
                "sacct",
                "-P",
                "--delimiter",
                US,
                "-n",
                "--units",
                "G",
                "--allocations",
                "-o",
                ",".join(SACCT),
                "-j",
                jid,
            ).split("\n")
            if l
        ]
        if rows and rows[0][SACCT.index("State")].split()[0] == "CANCELLED" and rows[0][SACCT.index("Timelimit")]:
            break
        time.sleep(1)
    r = dict(zip(SACCT, rows[0]))
    assert (
        len(rows) == 1
        and r["JobId"] == jid
        and r["State"].startswith("CANCELLED by")
        and r["User"] == me
        and r["AllocCPUS"] == "1"
        and r["Timelimit"] == "00:03:00"
    ), rows
    assert r["ReqMem"].endswith("G") and re.match(r"\d\d:\d\d:\d\d$", r["Elapsed"]), r
    rows = call(
        "sacct",
        "-P",
        "--delimiter",
        US,
        "-n",
        "--units",
        "G",
        "--allocations",
        "-o",
        "JobId,State",
        "--state",
        "CA,CD",
        "-S",
        time.strftime("%Y-%m-%d"),
        "-E",
        "now",
    ).split("\n")
    assert any(x.split(US)[0] == jid for x in rows), rows
    got = open(d + "/out.log").read()
    assert got.startswith("home=/"), got  # --export NONE implies --get-user-env: HOME from the login environment


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
