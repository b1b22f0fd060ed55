"""--help, --usage and the lists of fields and states, in the shape that programs look for."""

import importlib
import re

import pytest

from cli.base.helptext import help_text, usage_text
from cli.base.options import Command
from penstock.values.states import Reason

#: What the texts of Slurm's commands have, by command: of --help and of --usage.
HELP = {
    "sacct": ("sacct [<OPTION>]", "Valid <OPTION> values are:", "-A, --accounts:", "valid start/end time formats are..."),
    "sacctmgr": (
        "sacctmgr [<OPTION>] [<COMMAND>]", "Valid <OPTION> values are:", "-i or --immediate:", "commit changes immediately",
        "Valid <COMMAND> values are:", "<ENTITY> may be", "add account", "list associations", "modify cluster", "delete qos",
        "<SPECS> are different for each command entity pair.", "display tool version number",
    ),
    "salloc": ("Usage: salloc [OPTIONS(0)...]", "Consumable resources related options:", "Help options:", "Other options:"),
    "sattach": ("Usage: sattach [options] <jobid.stepid>", "Help options:"),
    "sbatch": ("Usage: sbatch [OPTIONS(0)...]", "Parallel run options:", "Constraint options:", "Help options:"),
    "sbcast": ("Usage: sbcast [OPTIONS] SOURCE DEST", "Help options:"),
    "scancel": ("Usage: scancel [OPTIONS]", "Help options:"),
    "scontrol": (
        "scontrol [<OPTION>] [<COMMAND>]", "Valid <OPTION> values are:", "Valid <COMMAND> values are:", "reconfigure",
        "show <ENTITY> [<ID>]", "<ENTITY> may be",
    ),
    "sdiag": ("Usage: sdiag [OPTIONS]", "Help options:"),
    "sinfo": ("Usage: sinfo [OPTIONS]", "Help options:", "--helpstate"),
    "sprio": ("Usage: sprio [OPTIONS]", "-j, --jobs", "Help options:", "display a brief summary of sprio options"),
    "squeue": ("Usage: squeue [OPTIONS]", "Help options:", "display a brief summary of squeue options", "--helpFormat"),
    "sreport": (
        "sreport [<OPTION>] [<COMMAND>]", "Valid <OPTION> values are:", "Valid <COMMAND> values are:",
        "Valid report types are:", "<REPORT> is different for each report type.",
    ),
    "srun": (
        "Usage: srun [OPTIONS(0)... [executable(0) [args(0)...]]]", "-b, --begin=time", "-N, --nodes=N", "-q, --qos=qos",
        "--mincpus=n", "-G, --gpus=n", "GPU scheduling options:",
    ),
    "sshare": ("Usage:  sshare [OPTION]", "Valid OPTIONs are:", "-v or --verbose        display more information"),
    "sstat": ("sstat [<OPTION>] -j <job(.stepid)>", "Valid <OPTION> values are:", "-e, --helpformat:", "-j, --jobs:"),
    "strigger": ("--set                   create a trigger", "-j, --jobid=", "-n, --node[=host]", "Help options:"),
}  # fmt: skip
USAGE = {
    "sacct": r"^Usage: sacct \[options\]\n\tUse --help for help$",
    "sacctmgr": r"^sacctmgr \[<OPTION>\] \[<COMMAND>\]",
    "sattach": r"^Usage: sattach \[.*\] <jobid\.stepid>$",
    "scontrol": r"^scontrol \[<OPTION>\] \[<COMMAND>\]",
    "sdiag": r"^Usage: sdiag(?:\s+\[-{1,2}[^\]]+\])+$",
    "sinfo": r"^Usage: sinfo(?:\s+\[-{1,2}[^\]]+\])+$",
    "sprio": r"^Usage: sprio .-j jid.s.. .-u user_name.s.. .-o format. .-p partitions.\n   .--federation.",
    "squeue": r"^Usage: squeue(?:\s+\[-{1,2}[^\]]+\])+$",
    "sstat": r"^Usage: sstat \[options\] -j <job\(\.stepid\)>\n\tUse --help for help$",
    "srun": r"executable \[args\.\.\.\]$",
}


def _command(name: str) -> Command:
    found: Command = importlib.import_module(f"cli.{name}").COMMAND
    return found


@pytest.mark.parametrize("name", HELP)
def test_help_has_the_headings_that_programs_look_for(name: str) -> None:
    text = help_text(_command(name))
    assert text.startswith(HELP[name][0].split("...")[0]) or name == "strigger"
    assert [part for part in HELP[name] if part not in text] == []
    assert text.splitlines()[1] != "" or _command(name).groups


@pytest.mark.parametrize("name", USAGE)
def test_usage_has_the_shape_that_programs_look_for(name: str) -> None:
    assert re.search(USAGE[name], usage_text(_command(name)))


@pytest.mark.parametrize("name", HELP)
def test_every_option_is_listed_once(name: str) -> None:
    command = _command(name)
    listed = re.findall(r"^ +(?:-\w(?:, | or ))?--([\w-]+)", help_text(command), re.MULTILINE)
    shown = {o.name for o in command.options if o.help and o.status != "refused"} | {"help", "usage", "version"}
    assert sorted(set(listed)) == sorted(shown) and len(listed) == len(shown)


@pytest.mark.parametrize(
    ("name", "option", "some"),
    [
        ("squeue", "--helpformat", {"%i", "%P", "%R"}),
        ("squeue", "--helpFormat", {"jobid", "tres-alloc"}),
        ("squeue", "--helpstate", {"PENDING", "SPECIAL_EXIT"}),
        ("sinfo", "--helpformat", {"%P", "%N"}),
        ("sinfo", "--helpFormat", {"nodelist", "statecompact"}),
        ("sinfo", "--helpstate", {"idle", "reboot^"}),
        ("sprio", "--helpformat", {"%i", "%Y"}),
        ("sacct", "--helpstate", {"RUNNING", "NODE_FAIL"}),
        ("sacct", "--helpreason", {Reason.PRIORITY.value, Reason.RESOURCES.value}),
    ],
)
def test_lists_of_fields_and_states(
    name: str, option: str, some: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No controller is asked."""
    monkeypatch.setenv("PENSTOCK_CLUSTER", "/nonexistent/cluster.json")
    assert importlib.import_module(f"cli.{name}").body([option]) == 0
    assert some <= set(capsys.readouterr().out.split())
