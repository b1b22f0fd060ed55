"""What gres.conf says of GPUs beside their number: how jobs see them, and which files they are."""

from collections.abc import Callable

import pytest

from ctld.agents.settings import node_settings
from penstock.config.load import load
from penstock.config.problem import ConfigError

Write = Callable[..., str]
NODES = "GresTypes=gpu\nNodeName=n[1-2] CPUs=8 RealMemory=16000 Gres=gpu:2\nPartitionName=main Nodes=ALL Default=YES\n"
FOUR = ["nvidia", "amd", "intel", "opencl"]


@pytest.mark.parametrize(
    ("gres", "detect", "env", "by_uuid"),
    [
        ("", "", [], False),
        ("Name=gpu Count=2", "", FOUR, False),
        ("AutoDetect=off", "off", FOUR, False),
        ("AutoDetect=nvml", "nvml", ["nvidia"], False),
        ("AutoDetect=full", "full", ["nvidia"], False),
        ("AutoDetect=rsmi", "rsmi", ["amd"], False),
        ("AutoDetect=oneapi", "oneapi", ["intel"], False),
        ("AutoDetect=nvml\nName=gpu Count=2 Flags=env_uuid", "nvml", ["nvidia"], True),
        ("Name=gpu Count=2 Flags=amd_gpu_env,opencl_env", "", ["amd", "opencl"], False),
        ("Name=gpu Count=1 Flags=nvidia_gpu_env\nName=gpu Count=1 Flags=intel_gpu_env", "", ["nvidia", "intel"], False),
        ("AutoDetect=nvml\nName=gpu Count=2 Flags=no_gpu_env", "nvml", ["none"], False),
        ("AutoDetect=nvml\nNodeName=n1 AutoDetect=off Name=gpu Count=2", "off", FOUR, False),
        ("NodeName=n2 AutoDetect=nvml", "", [], False),
    ],
)
def test_how_jobs_of_a_node_are_told(
    write: Write, base: str, gres: str, detect: str, env: list[str], by_uuid: bool
) -> None:
    settings = node_settings(load(write(base + NODES, gres_conf=gres + "\n")).config, "n1").gpu
    assert (settings.detect, list(settings.env), settings.env_uuid) == (detect, env, by_uuid)


def test_a_device_may_have_several_files(write: Write, base: str) -> None:
    lines = "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[10-11]\nName=gpu File=/dev/nvidia1\n"
    loaded = load(write(base + NODES, gres_conf=lines))
    devices = [(d.name, d.index, d.file) for d in node_settings(loaded.config, "n1").devices]
    assert devices == [
        ("gpu", 0, "/dev/nvidia0"),
        ("gpu", 0, "/dev/nvidia-caps/nvidia-cap10"),
        ("gpu", 0, "/dev/nvidia-caps/nvidia-cap11"),
        ("gpu", 1, "/dev/nvidia1"),
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Name=gpu Count=2 Flags=nvidia_env", "Invalid Flags: expected nvidia_gpu_env"),
        ("Name=gpu Count=2 MultipleFiles=/dev/a,/dev/b", "Count=2 does not match the 1 names of File"),
        ("Name=gpu File=/dev/a MultipleFiles=/dev/b", "File and MultipleFiles exclude each other"),
        ("NodeName=n[1 AutoDetect=nvml", "n[1"),
    ],
)
def test_lines_that_are_wrong(write: Write, base: str, line: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(base + NODES, gres_conf=line + "\n"))
    assert text in str(caught.value) and "gres.conf:1" in str(caught.value)


def test_flags_that_do_nothing_here_are_told(write: Write, base: str) -> None:
    loaded = load(write(base + NODES, gres_conf="Name=gpu Count=2 Flags=explicit,CountOnly\n"))
    assert loaded.warnings == ("gres.conf:1: Flags=explicit is known to Slurm and not used by Penstock",)
