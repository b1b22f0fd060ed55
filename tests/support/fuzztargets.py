"""The fuzz targets: every parser of input from users or files, with examples to begin from.

A target is called with text. It may return, or raise the errors of its layer (BadValue, CommandError, Answered); any
other exception is a finding, and so is a target that needs more than a moment. `text_of` makes text of a fuzzer's bytes,
as a command gets it from the system: what is not UTF-8 is kept by surrogateescape.
"""

import importlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cli.accounts.fields import columns_of
from cli.accounts.file import read_file
from cli.accounts.keywords import do
from cli.accounts.values import ASSOC_LABELS, checked, describe_settings
from cli.base.format import parse_names, parse_percent, parse_table
from cli.base.options import NO, Option, OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.jobopts import JOB_OPTIONS
from cli.jobs.script import directives
from cli.listings import jobcomp, sacct_fields, sinfo_fields, squeue_fields, sreport_usage
from cli.listings.sreport_fields import choose
from cli.listings.sreport_words import CONDITIONS, read
from penstock.config.load import load
from penstock.config.problem import ConfigError
from penstock.errors import PenstockError
from penstock.values import (
    binding,
    dates,
    dependency,
    duration,
    features,
    gres,
    hostlist,
    jobid,
    licenses,
    memory,
    numbers,
    reservations,
    signals,
    states,
    taskset,
    tres,
    weights,
)  # fmt: skip
from penstock.values.errors import BadValue
from penstock.values.limits import OF_ASSOC

#: What a parser may raise. PenstockError: `--gres=help` asks the controller, and here is none.
EXPECTED = (BadValue, CommandError, RemoteAnswer, ConfigError, PenstockError)
#: What PENSTOCK_CLUSTER has to be while a target runs, so that none is found.
NO_CLUSTER = os.devnull
#: 2026-03-29 00:30 UTC: half an hour before a change of the clock in Europe.
NOW_US = 1_774_744_200 * 1_000_000
#: The longest input: longer ones find nothing more and are slower.
TEXT_MAX = 4096


class Target(NamedTuple):
    """One parser."""

    name: str
    run: Callable[[str], object]
    seeds: tuple[str, ...]  # seeds of the fuzzer, and building blocks for hypothesis


def _config(file_name: str) -> Callable[[str], object]:
    """A file of a site: slurm.conf itself, or one beside a small one."""

    def run(text: str) -> object:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "slurm.conf").write_bytes(SMALL_CONF.encode())
            Path(folder, file_name).write_bytes(os.fsencode(text))
            return load(os.path.join(folder, "slurm.conf"))

    return run


def _sreport(text: str) -> object:
    """What stands behind each type of report."""
    return [read(kind, text.split(), NOW_US) for kind in CONDITIONS]


def _sacctmgr(text: str) -> object:
    """A line of sacctmgr, one word a line; and the settings among its words."""
    words = text.split("\n")
    for word in words:
        key, _, value = word.partition("=")
        if key.lower() in (*OF_ASSOC, "fairshare", "priority", "adminlevel"):
            describe_settings(checked({key.lower(): value}, OF_ASSOC), ASSOC_LABELS, 14)
    return do(words, OptionValues(immediate=True))


def _options(module: str) -> Callable[[str], object]:
    """A command line, one word a line."""

    def run(text: str) -> object:
        return parse(importlib.import_module(f"cli.{module}").COMMAND, text.split("\n"))

    return run


def _converted(option: Option) -> Callable[[str], object]:
    def run(text: str) -> object:
        assert option.convert is not None
        return option.convert(text)

    return run


SMALL_CONF = (
    "ClusterName=c\nSlurmctldHost=h\nNodeName=n[1-4] CPUs=4 RealMemory=100\nPartitionName=p Nodes=ALL Default=YES\n"
)
TARGETS = (
    Target("duration", duration.parse_duration_s, ("10", "1:30", "1-2:03:04", "2-0", "UNLIMITED", "-1", "0")),
    Target("date", lambda t: dates.parse_date_us(t, NOW_US), ("now+1hour", "teatime", "2026-11-22T10:00", "11/22/26-10:00", "9:30PM tomorrow", "uts1700000000", "now-7days")),
    Target("memory", memory.parse_mb, ("4G", "100", "1T", "1.5G", "0", "16384K")),
    Target("number", lambda t: numbers.parse_int(t, -5, 2**31, "it"), ("1", "-1", "2147483648")),
    Target("hostlist", hostlist.expand, ("n[01-03,7]", "m[1-2]-ib[0-1]", "a,b,c", "n[1-99999]", "n[08-11]x")),
    Target("array", lambda t: taskset.parse_array(t, 1_000_001), ("0-31", "1,3,5", "1-7:2", "0-99%10", "0-4294967295")),
    Target("dependency", dependency.parse_dependency, ("afterok:1:2,after:3+5", "singleton", "afterany:1_4?afternotok:2", "aftercorr:9")),
    Target("features", features.parse_features, ("a&b|c", "[a|b]*2", "(a&b)*2&c*4", "gpu_h200")),
    Target("gres", gres.parse_gres, ("gpu:a100:2,shard:4", "gpu", "gpu:2(S:0-1)", "gres/gpu:2")),
    Target("job id", jobid.parse_selectors, ("123", "123_4,5_[1-9%2]", "1+0", "7.batch,7.0")),
    Target("licenses", licenses.parse_licenses, ("matlab:2,idl", "a@b:1")),
    Target("reservation flags", reservations.parse_flags, ("MAINT,IGNORE_JOBS", "+DAILY", "-FLEX")),
    Target("signal", signals.parse_end_warning, ("B:USR2@60", "KILL", "R:10@5")),
    Target("states", states.parse_job_states, ("PD,R", "all", "COMPLETED")),
    Target("tres", tres.parse_tres, ("cpu=1,mem=2G,gres/gpu:a100=1", "node=1")),
    Target("weights", lambda t: weights.parse_weights(t, "it"), ("CPU=1.0,Mem=0.25G,GRES/gpu=2",)),
    Target("cpu bind", binding.parse_cpu_bind, ("verbose,map_cpu:0,2", "mask_cpu:0xf,0x3", "cores")),
    Target("mem bind", binding.parse_mem_bind, ("local", "map_mem:0,1")),
    Target("squeue -o", lambda t: parse_percent(t, squeue_fields.LETTERS), ("%.18i %.9P|%all", "%%x%", "%99999999999i")),
    Target("squeue -O", lambda t: parse_names(t, squeue_fields.NAMES), ("JobID:.10,Name:20x", "StartTime", "x:y:z")),
    Target("sinfo -o", lambda t: parse_percent(t, sinfo_fields.LETTERS), ("%#P %.5a %20E",)),
    Target("sacct --format", lambda t: parse_table(t, sacct_fields.COLUMNS), ("jobid%-20,state", "jobn%99999999", "max")),
    Target("sreport words", _sreport, ("user top start=11/1 end=now group", "job s grouping=1,50 gid=0 Jobs=3", "x")),
    Target("sreport format", lambda t: choose(t, sreport_usage.FIELDS, sreport_usage.ALIASES), ("login%20,us%-9,cpucount",)),
    Target("sacctmgr words", _sacctmgr, ("add\nuser\nann\naccount=a,b\nmaxwall=1-0\ngrptres=cpu=4,mem=1G", "modify\nqos\nwhere\nname='x'\nset\nflags+=NoDecay", "list\nassoc\ntree\nformat=account%-20,x", "show\nevent\nstates=down\nstart=now-1day", "delete\nuser\nset")),
    Target("sacctmgr format", lambda t: columns_of(t, {}), ("account,user%-20,grptres%99999999", "maxtrespu,time%x")),
    Target("sacctmgr file", read_file, ("Cluster - 'c':Fairshare=1\nParent - 'root'\nAccount - 'a':Description='x \\\\'y':GrpTRES=cpu=4\nParent - a\nUser - \"u\":AdminLevel=Operator:QOS='+x,-y'\n", "# x\nCluster - c:MaxJobs=-1\n")),
    Target("jobcomp", lambda t: list(jobcomp.records("x", io.StringIO(t), NOW_US)), ("JobId=3 UserId=a(1) JobState=FAILED TimeLimit=5 EndTime=2026-11-20T12:00:00 ExitCode=2:0\n",)),
    Target("directives", lambda t: directives(os.fsencode(t)), ("#!/bin/sh\n#SBATCH -n 4 --job-name='a b' # c\n\n#SBATCH hetjob\n#SBATCH -N2\nsleep 1\n",)),
    Target("slurm.conf", _config("slurm.conf"), (SMALL_CONF, "Include x\n", "NodeSet=s Feature=a\n", "DownNodes=n1 State=DOWN\n", "A=\\\nB\n")),
    Target("gres.conf", _config("gres.conf"), ("NodeName=n1 Name=gpu File=/dev/null\n", "AutoDetect=nvml\n")),
    Target("cgroup.conf", _config("cgroup.conf"), ("ConstrainCores=yes\nConstrainRAMSpace=yes\n",)),
    Target("topology.conf", _config("topology.conf"), ("SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Switches=s0\n",)),
    *(
        Target(f"{name} options", _options(name), ("-N2\n-n\n4\n--time=1", "-p\na,b\n--mem=4G", "-o\n%i", "--unk\n-\n--"))
        for name in ("sbatch", "srun", "salloc", "squeue", "sinfo", "sacct", "scancel", "sprio", "sshare", "sstat", "sreport")
    ),
    *(
        Target(f"sbatch --{option.name}", _converted(option), ("1", "a", "1,2", "a:1", "yes", ""))
        for option in JOB_OPTIONS
        if option.convert is not None and option.value != NO
    ),
)  # fmt: skip
BY_NAME = {target.name: target for target in TARGETS}


def text_of(data: bytes) -> str:
    """A fuzzer's bytes as text from a command line."""
    return os.fsdecode(data[:TEXT_MAX]).replace("\0", "")


def call(target: Target, text: str) -> None:
    """Runs a target; unexpected exceptions propagate."""
    try:
        target.run(text)
    except EXPECTED as error:
        said = str(getattr(error, "text", error))
        if not said.strip() and not isinstance(error, RemoteAnswer):
            raise AssertionError(f"{target.name}: an error without words for {text!r}") from error
