"""Every option of sbatch, salloc and srun with values that nobody should give: an error in words, or a request.

Whatever the value, there is no traceback, no "internal error", nothing that a terminal would execute_commands, and the status is 1 or 255
(255 for a directive). A value that is taken leads to a request, which the stand-in controller refuses.
"""

import os

import pytest
from effort import FULL

from cli import salloc, sbatch, srun
from cli.base.options import NO
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

MODULES = {"sbatch": sbatch, "salloc": salloc, "srun": srun}
WORDS = {"sbatch": ["--wrap=true"], "salloc": ["true"], "srun": ["true"]}
HOSTILE = (
    "", " ", "-1", "0", "1", "2147483648", "99999999999999999999", "9" * 5000, "1e309", "NaN", "inf", "1_000", "０", "+5",
    "0x10", "1.5", "\x1b[2J", "a\nb", "a\rb", "\udcff", "\u202egnp", "x" * 100_000, "%s%n%d", "{}{0}{name}", "%", "\\",
    "'; rm -rf / #", "$(id)", "`id`", "../../etc/passwd", "/", "~", ":", ",", ",,,", "=", "==", "@", "@@", "[", "]",
    "[1-", "n[1-9999999999]", "n[5-1]", "n[1-3", "1-2-3-4", "1-", "-", "--", "*", "*" * 1000, "(" * 1000, "a&b|c*2[d]",
    "none", "ALL", "NONE,ALL", "now", "now+1eon", "2030-13-45T99:99:99", "1:2:3:4:5:6:7", "1-24:61:61", "gpu:", "gpu:-1",
    "gpu:a:b:c", "gres/gpu", "cpu=", "task=", "0-4294967295", "1-10:0", "1,,2", "%0", "afterok:", "afterok:x+y", "?,?",
    "B:", "USR1@", "@60", "B:USR1@99999999999", "map_cpu:", "mask_cpu:zz", "per_task:0", "low-high:gov", "1@2@3", "0,4-",
)  # fmt: skip


def stand_in(monkeypatch):
    refusal = PenstockError(Code.INVALID_PARTITION, TEXT[Code.INVALID_PARTITION])
    client = FakeClient(SubmitJob=refusal, CreateStep=refusal)
    client.cluster = ClusterFile("tux", socket="/nonexistent")
    return client.install(monkeypatch)


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SALLOC_", "SLURM_", "SRUN_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cli.salloc.await_foreground", lambda: None)


def cases():
    for name, module in MODULES.items():
        for option in module.COMMAND.options:
            yield pytest.param(name, option, id=f"{name}-{option.name}")


def some(values, name, option):
    """Every third of them, other ones for each option and command; all in `make test-full`."""
    number = [one.name for one in MODULES[name].COMMAND.options].index(option.name) + list(MODULES).index(name)
    return values if FULL else values[number % 3 :: 3]


def check(name, client, status, err, statuses=(1, 255)):
    """What must be so of any run."""
    assert "internal error" not in err and "Traceback" not in err, err[:2000]
    assert not set(err) & set("\x1b\r\x07\x9b\u202e"), ascii(err[:500])
    assert status in statuses, (status, err[:500])
    assert err or not status
    assert len(err) < 4000, len(err)
    if client.calls:
        request = client.calls[-1][1]
        assert request.SerializeToString() is not None


@pytest.mark.parametrize(("name", "option"), list(cases()))
def test_on_the_command_line(monkeypatch, capsys, name, option):
    client = stand_in(monkeypatch)
    for value in some(HOSTILE[:6] if option.value == NO else HOSTILE, name, option):
        client.calls.clear()
        line = [f"--{option.name}={value}", *WORDS[name]]
        status, _, err = run_body(capsys, name, MODULES[name].body, *line)
        check(name, client, status, err, (0, 1, 255) if value == "help" else (1, 255))
        if option.short and option.value != NO and value:
            status, _, err = run_body(capsys, name, MODULES[name].body, f"-{option.short}{value}", *WORDS[name])
            check(name, client, status, err)


@pytest.mark.parametrize(("name", "option"), [case for case in cases() if case.values[1].env])
def test_in_the_environment(monkeypatch, capsys, name, option):
    client = stand_in(monkeypatch)
    for value in some(HOSTILE[::3], name, option):
        monkeypatch.setenv(option.env, value)
        status, _, err = run_body(capsys, name, MODULES[name].body, *WORDS[name])
        check(name, client, status, err)


@pytest.mark.parametrize("option", [o for o in sbatch.COMMAND.options if o.value != NO], ids=lambda o: o.name)
def test_in_a_directive(monkeypatch, capsys, option):
    client = stand_in(monkeypatch)
    for value in some(HOSTILE[1::4], "sbatch", option):
        with open("job.sh", "wb") as file:
            file.write(b"#!/bin/sh\n#SBATCH --%s=%s\ntrue\n" % (option.name.encode(), os.fsencode(value)))
        client.calls.clear()
        status, _, err = run_body(capsys, "sbatch", sbatch.body, "job.sh")
        check("sbatch", client, status, err, (1, 255))
        # What is told without asking the controller is told of the directive, unless it is what options mean together.
        assert client.calls or status == 255 or option.value != NO


@pytest.mark.parametrize("variable", ["SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_UMASK", "SLURM_HET_SIZE",
                                      "SLURM_ARRAY_JOB_ID", "SLURM_STEP_GRES", "SLURM_DIST_PLANESIZE", "SLURM_CLUSTERS",
                                      "SLURM_HINT", "SLURM_WAIT4SWITCH", "SBATCH_WAIT4SWITCH"])  # fmt: skip
@pytest.mark.parametrize("name", MODULES)
def test_variables_that_are_no_options(monkeypatch, capsys, name, variable):
    client = stand_in(monkeypatch)
    for value in HOSTILE:
        monkeypatch.setenv(variable, value)
        status, _, err = run_body(capsys, name, MODULES[name].body, *WORDS[name])
        check(name, client, status, err, range(256) if "EXIT" in variable else (1, 255))
