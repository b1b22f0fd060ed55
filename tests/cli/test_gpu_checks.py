"""GPU options that say contrary things: refused before the controller is asked, in Slurm's words (recorded of 22.05)."""

import pytest

from cli.base.options import parse
from cli.base.run import CommandError
from cli.jobs.gpuchecks import INVALID, MIXED, check_gpus
from cli.sbatch import COMMAND


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--cpus-per-gpu=2 -c2 -G1", "--cpus-per-gpu is mutually exclusive with --cpus-per-task"),
        ("--gpus-per-socket=2 -G4", "--gpus-per-socket option requires --sockets-per-node specification"),
        ("--gpus-per-task=1", "--gpus-per-task used without either --gpus or -n/--ntasks is not allowed"),
        ("--gpus-per-node=4 -G1", "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"),
        ("--gres=gpu:2 -G3", "--gpus is not multiple of --gres=gpu/--gpus-per-node"),
        ("--gres=gpu:1 -G4 -N2", "required nodes (4) doesn't fall between min_nodes (2) and max_nodes (2) boundaries"),
        ("--gpus-per-task=4 -G6", "--gpus not multiple of --gpus-per-task"),
        ("--gpus-per-task=1 -G3 --ntasks-per-node=2", "number of requested tasks differ from -n/--ntasks"),
        ("--gpus-per-task=2 --gpus-per-node=1 -n2", "Failed to ensure --gpus >= --gpus-per-task"),
        ("-G1 -N2", "Failed to validate job spec, --gpus < -N"),
        ("--mem-per-gpu=100", "Requested mem_per_tres=gres:gpu:100 but did not request any GPU."),
    ],
)
def test_contrary_numbers_are_refused(line: str, text: str) -> None:
    with pytest.raises(CommandError) as refused:
        check_gpus(parse(COMMAND, line.split()).values)
    first, second = refused.value.text.split("\n")
    assert text in first
    assert second == INVALID


@pytest.mark.parametrize("line", ["-Ga:2 --gres=gpu:2", "--gpus-per-task=a:1 -n2 -G2"])
def test_types_are_said_everywhere_or_nowhere(line: str) -> None:
    with pytest.raises(CommandError) as refused:
        check_gpus(parse(COMMAND, line.split()).values)
    assert refused.value.text == MIXED


@pytest.mark.parametrize("line", ["-m arbitrary", "-m plane=3 -N3 -n4"])
def test_places_need_nodes_and_tasks(line: str) -> None:
    with pytest.raises(CommandError):
        check_gpus(parse(COMMAND, line.split()).values)


@pytest.mark.parametrize(
    "line",
    ["-n4 --gpus-per-task=1", "-G4 -N2", "--gres=gpu:2", "-G8 --gpus-per-node=4", "-m plane=2 -n8 -N2", "-c4 -n3"],
)
def test_what_users_write_passes(line: str) -> None:
    check_gpus(parse(COMMAND, line.split()).values)
