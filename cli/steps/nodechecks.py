"""Checks the nodes that a step asks for against those of its job, before the request, with Slurm's messages. Only for
the job whose variables are set; for another one (--jobid) the controller checks.
"""

from collections.abc import Mapping

from cli.base.run import CommandError
from cli.steps.request import StepValues


def check_nodes(values: StepValues, env: Mapping[str, str]) -> None:
    """Raises CommandError. `values`: with consistent counts (request.settle_counts)."""
    listed = env.get("SLURM_JOB_NODELIST")
    if not listed or "het_group" in values.all:
        return
    if "jobid" in values.own and str(values.own.number("jobid")) != env.get("SLURM_JOB_ID"):
        return
    from penstock.values.hostlist import expand

    names = expand(listed)
    least = values.all.numbers("nodes", 1, 1)[0]
    first = values.own.of(int, "relative")
    if first is not None:
        if first + least > len(names):
            option = "--nodes" if "nodes" in values.own else "SLURM_JOB_NUM_NODES"
            count = f"{first}+{least}>{len(names)}"
            raise CommandError(f"--relative and {option} option incompatible with count of allocated nodes ({count})")
        return
    excluded = frozenset(expand(values.own.text("exclude"))) if "exclude" in values.own else frozenset()
    left = sum(name not in excluded for name in names)
    if not left:
        raise CommandError("Hostlist is empty!  Can't run job.")
    if least > left:
        more = "\nAre required nodes explicitly excluded?" if excluded else ""
        raise CommandError(f"Only allocated {left} nodes asked for {least}{more}")
