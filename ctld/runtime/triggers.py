"""Programs of triggers: on the controller's machine, as the user who set the trigger, beside the loop.

Rules
    - As that user in full: uid, gid and groups are set in the child before the program is executed, and a controller that
      is not root runs only its own user's programs. Root never opens the program: the child does, after it has become the user.
    - In a session of its own, with a deadline (TIMEOUT_S, as Slurm's); then the whole process group is killed.
    - The environment is a list of names; the argument is a hostlist or a job id that the controller made.
    - PROGRAMS_MAX run at a time, the others wait. The core hears of each end, however it was: TriggerEnded.

Deliberately absent: when a program is due, and what follows its end (core/triggers.py).
"""

import asyncio
import logging
import os
import shlex
from typing import Any, Final

from ctld.core.effects import RunTrigger
from ctld.core.events import TriggerEnded
from ctld.runtime.loop import Runtime
from ctld.runtime.programs import Turns
from ctld.runtime.scripts import PATH, run_program

log = logging.getLogger("penstock.ctld")

TIMEOUT_S: Final = 300
PROGRAMS_MAX: Final = 16


class TriggerRunner:
    """Takes the RunTrigger effects of a runtime."""

    def __init__(self, runtime: Runtime, cluster_name: str, timeout_s: int = TIMEOUT_S) -> None:
        self._runtime = runtime
        self._cluster_name = cluster_name
        self._timeout_s = timeout_s
        self._turns = Turns(PROGRAMS_MAX)
        runtime.handlers[RunTrigger] = lambda effect: self._turns.start(self._run, effect)

    def stop(self) -> None:
        """Wait for nobody: what runs is run again after a restart."""
        self._turns.stop()

    async def _run(self, effect: RunTrigger) -> None:
        failure = await self._program(effect)
        who = f"trigger {effect.trigger_id} of {effect.user_name}"
        if failure:
            log.warning("%s: %s", who, failure)
        else:
            log.info("%s: %s %s has ended", who, effect.program, effect.argument)
        self._runtime.post(TriggerEnded(effect.trigger_id))

    async def _program(self, effect: RunTrigger) -> str:
        """ "" = it ended well, else what happened."""
        try:
            words = shlex.split(effect.program)
        except ValueError as error:
            return f"{effect.program}: {error}"
        if not words:
            return "there is no program"
        try:
            identity = await asyncio.to_thread(identity_of, effect)
        except (KeyError, OSError) as error:
            return f"{words[0]}: user {effect.user_name} ({effect.uid}) cannot be looked up: {error}"
        if identity is None:
            return f"{words[0]}: not run: the controller is not root, and cannot become {effect.user_name}"
        env = {
            "PATH": PATH,
            "USER": effect.user_name,
            "LOGNAME": effect.user_name,
            "SLURM_CLUSTER_NAME": self._cluster_name,
        }
        command = [*words, effect.argument]
        return await run_program(command, env, self._timeout_s, f"trigger {effect.trigger_id}", **identity)


def identity_of(effect: RunTrigger) -> dict[str, Any] | None:
    """What makes a child that user; None = it cannot be. Blocks: behind the groups may be a slow LDAP server."""
    if os.geteuid() != 0:
        return {} if effect.uid == os.geteuid() else None
    groups = os.getgrouplist(effect.user_name, effect.gid)
    return {"user": effect.uid, "group": effect.gid, "extra_groups": groups, "umask": 0o022}
