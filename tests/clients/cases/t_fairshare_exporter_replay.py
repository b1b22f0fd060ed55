#!/usr/bin/env python3
# requires: none
"""Slurm exporters for Prometheus (vpenso's and its forks), replayed: the exact command lines of their collectors (fairshare, accounts, users, queue, cpus, gpus, nodes, partitions, scheduler, info), and what their parsers require of each line."""

import getpass
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "fairshare_exporter_replay"
PART = os.environ.get("PARTITION", "debug")


def lines(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout.splitlines()


def cpus(text):
    """allocated/idle/other/total."""
    alloc, idle, other, total = (int(word) for word in text.strip().split("/"))
    assert alloc + idle + other == total > 0, text
    return alloc


def fair_share(column):
    """Lines that begin with two spaces are of users; the rest is ACCOUNT|NUMBER."""
    found = {}
    for line in lines("sshare", "-n", "-P", "-o", f"account,{column}"):
        if line.startswith("  ") or "|" not in line:
            continue
        account, number, *rest = line.split("|")
        assert not rest and (number == "" or number in ("inf", "nan") or float(number) >= 0), line
        found[account.strip()] = number
    return found


def queue():
    """squeue's lines of the collectors for accounts, users and the queue."""
    states = {}
    for line in lines("squeue", "-a", "-r", "-h", "-o", "%A|%a|%T|%C"):
        number, account, state, count = line.split("|")
        states[number] = state, account, int(count)
    for line in lines("squeue", "-a", "-r", "-h", "-o", "%A|%u|%T|%C"):
        number, user, state, count = line.split("|")
        assert user == getpass.getuser() or number not in states, line
    for line in lines("squeue", "-a", "-r", "-h", "-o", "%A,%T,%r", "--states=all"):
        number, state, reason = line.split(",", 2)
        assert number.isdigit() and re.fullmatch("[A-Z_]+", state) and reason, line
    return states


def main():
    folder = tempfile.mkdtemp(prefix="case-exporter-", dir=os.environ.get("CASE_TMP", "/tmp"))
    common = ("sbatch", "--parsable", "-p", PART, "-o", f"{folder}/%j.out", "--mem=100")
    running = lines(*common, "-n2", "--gres=gpu:1", "--wrap", "sleep 300")[0]
    waiting = lines(*common, "-H", "--wrap", "true")[0]
    end = time.time() + 240
    while queue()[running][0] != "RUNNING":
        assert time.time() < end, queue()
        time.sleep(0.3)
    states = queue()
    assert states[running][2] == 2 and states[waiting][0] == "PENDING", states

    shares = fair_share("fairshare")
    assert set(fair_share("levelfs")) == set(shares)

    assert cpus(lines("sinfo", "-h", "-o", "%C")[0]) >= 2
    allocated = 0
    for line in lines("sinfo", "-h", "-o", "%R,%C"):
        name, counts = line.split(",")
        allocated = max(allocated, cpus(counts))
        assert name
    assert allocated >= 2
    assert lines("squeue", "-a", "-r", "-h", "-o", "%P", "--states=PENDING").count(PART) >= 1

    used = 0
    for line in lines("sinfo", "-a", "-h", "--Format=Nodes: ,GresUsed:", "--state=allocated,mixed"):
        count, gres = line.split(" ", 1)
        found = re.search(r"gpu:(\(null\)|[^:(]*):?([0-9]+)(\([^)]*\))?", gres)
        used += int(count) * int(found[2]) if found else 0
    total = 0
    for line in lines("sinfo", "-a", "-h", "--Format=Nodes: ,Gres: ,GresUsed:"):
        count, gres, _ = line.split(" ", 2)
        found = re.search(r"gpu:(\(null\)|[^:(]*):?([0-9]+)(\([^)]*\))?", gres)
        total += int(count) * int(found[2]) if found else 0
    assert 1 <= used <= total, (used, total)

    nodes = set()
    for line in lines("sinfo", "-h", "-N", "-O", "NodeList,AllocMem,Memory,CPUsState,StateLong,Partition"):
        name, mem, of_mem, counts, state, _ = line.split()
        assert int(mem) <= int(of_mem) and re.fullmatch("[a-z]+[*~#!%$@^-]?", state), line
        cpus(counts)
        nodes.add(name)
    counted = 0
    for line in lines("sinfo", "-h", "-o", "%D|%T|%b"):
        count, state, features = line.split("|")
        counted += int(count)
        assert state and features, line
    assert counted == len(nodes) > 0, (counted, nodes)

    diag = "\n".join(lines("sdiag"))
    for title in (
        "Server thread count", "Agent queue size", "DBD Agent queue size", "Last cycle", "Mean cycle", "Cycles per minute",
        "Total backfilled jobs (since last slurm start)", "Total backfilled jobs (since last stats cycle start)",
        "Total backfilled heterogeneous job components",
    ):  # fmt: skip
        assert re.search(rf"^\s*{re.escape(title)}:\s+[0-9]+$", diag, re.M), (title, diag)
    assert "Remote Procedure Call statistics by message type" in diag
    assert "Remote Procedure Call statistics by user" in diag
    for line in diag.splitlines():
        if "ave_time:" in line:
            assert re.search(r"count:[0-9]+\s+ave_time:[0-9.]+\s+total_time:[0-9]+", line), line
    for binary in ("sinfo", "squeue", "sdiag", "scontrol", "sacct", "sbatch", "salloc", "srun"):
        words = lines(binary, "--version")[0].split()
        assert words[0] == "slurm" and re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", words[1]) and len(words) == 2, words
    lines("scancel", running, waiting)


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print(f"ok {NAME}")
