"""Adds the prologs and epilogs of a job to a launch order: those of the extern step, and those of tasks.

The configuration (NodeSettings) defines the programs; the controller (HolderLaunch) decides whether this extern step
runs them. Separate from wire.py, which reads the launch of the step itself.
"""

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.environment import StepFacts
from nodedaemon.core.scriptenv import script_environment
from penstock.v1 import node_pb2


def fill(order: LaunchOrder, message: node_pb2.LaunchStep, facts: StepFacts, settings: node_pb2.NodeSettings) -> None:
    """Completes an order by the configured prologs and epilogs."""
    own = message.HasField("allow_new_privs")
    order.no_new_privs = not (message.allow_new_privs if own else settings.allow_new_privs)
    order.use_pam = settings.use_pam
    order.private_tmp = settings.private_tmp
    order.private_folders = list(settings.private_tmp_folders)
    if message.HasField("holder"):
        _fill_extern_step(order, message, facts, settings)
        return
    order.task_prolog = [settings.task_prolog.encode()] if settings.task_prolog else []
    order.task_epilog = [settings.task_epilog.encode()] if settings.task_epilog else []
    order.task_prolog += [program for program in (message.step.spec.task_prolog,) if program]
    order.task_epilog[:0] = [program for program in (message.step.spec.task_epilog,) if program]


def _fill_extern_step(
    order: LaunchOrder, message: node_pb2.LaunchStep, facts: StepFacts, settings: node_pb2.NodeSettings
) -> None:
    holder = message.holder
    order.kind = "extern"
    order.environment = {}
    order.prolog = list(settings.prolog) if holder.run_prolog else []
    order.epilog = list(settings.epilog) if holder.run_epilog else []
    order.script_timeout_s = settings.prolog_epilog_timeout_s
    order.script_flags = [flag for flag in settings.prolog_flags if flag in ("RUNINJOB", "SERIAL")]
    paths = {
        "SLURM_JOB_WORK_DIR": order.work_dir,
        "SLURM_JOB_STDOUT": order.std_out,
        "SLURM_JOB_STDERR": order.std_err or order.std_out,
        "SLURM_JOB_STDIN": order.std_in,
    }
    order.script_environment = script_environment(facts, paths, holder.environment)
