"""What runs inside a job or step and says what it was given, as lines of text.

E NAME=VALUE            of the batch script's environment
J TEXT                  scontrol show job -d, on one line
R RANK NODE LOCAL GPUS  one task of srun
X STATUS                how that srun ended
F TEXT                  what it wrote on stderr
S NUMBER                from here on step NUMBER
END
"""

TASK = r"""sh -c 'echo R $SLURM_PROCID $SLURMD_NODENAME $SLURM_LOCALID ${CUDA_VISIBLE_DEVICES:-}'"""
_BEGIN = r"""#!/bin/bash
env | grep -aE '^(SLURM_|CUDA_VISIBLE_DEVICES=|GPU_DEVICE_ORDINAL=)' | sed 's/^/E /'
echo "J $(scontrol show job -d -o $SLURM_JOB_ID)"
"""
#: A step that would have to wait has not started by then.
WAITS_S = 4
_STEP = "timeout -k 2 {limit} srun {options} {task} 2>{work}/err; echo X $?; sed 's/^/F /' {work}/err\n"
END = "END"


def job_script(work: str) -> str:
    """Of a job whose srun says nothing."""
    return _BEGIN + _STEP.format(limit=20, options="", task=TASK, work=work) + f"echo {END}\n"


def steps_script(work: str, lines: list[str]) -> str:
    """Of a job that asks for these steps, one after the other."""
    steps = (
        f"echo S {number}\n" + _STEP.format(limit=WAITS_S, options=line, task=TASK, work=work)
        for number, line in enumerate(lines)
    )
    return _BEGIN + "".join(steps) + f"echo {END}\n"
