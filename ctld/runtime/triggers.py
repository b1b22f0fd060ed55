"""Runs the programs of triggers: on the controller's machine, as the user who set the trigger, beside the loop.

Rules
    - As that user completely: uid, gid and groups are set in the child before the program is executed, and a controller that
      is not root runs only its own user's programs. Root never opens the program: the child does, after it has become the user.
    - In a session of its own, with a deadline (TIMEOUT_S, as Slurm's); then the whole process group is killed.
    - The environment is a list of names; the argument is a hostlist or a job id that the controller made.
    - PROGRAMS_MAX run at a time, PROGRAMS_OF_USER_MAX of one user; the others wait, and users take turns.
    - Each end is an event for the core, whatever the result: TriggerEnded.

Deliberately absent: when a program is due, and the consequences of its end (core/lifecycle/triggers.py).
"""

import logging
import os
import shlex
from typing import Final

from ctld.core.records.effects import RunTrigger
from ctld.core.records.events import TriggerEnded
from ctld.runtime.errors import BadRequest
from ctld.runtime.lookups import Lookups
from ctld.runtime.loop import Runtime
from ctld.runtime.programs import PATH, UserIdentity
from ctld.runtime.programslots import ProgramSlots
from ctld.runtime.siteprograms import Program, run

log = logging.getLogger("penstock.ctld")

TIMEOUT_S: Final = 300
PROGRAMS_MAX: Final = 16
PROGRAMS_OF_USER_MAX: Final = 8


class TriggerRunner:
    """Takes the RunTrigger effects of a runtime."""

    def __init__(self, runtime: Runtime, cluster_name: str, lookups: Lookups, timeout_s: int = TIMEOUT_S) -> None:
        self._runtime = runtime
        self._lookups = lookups
        self._cluster_name = cluster_name
        self._timeout_s = timeout_s
        self._turns = ProgramSlots(PROGRAMS_MAX, PROGRAMS_OF_USER_MAX)
        runtime.handlers[RunTrigger] = lambda effect: self._turns.start(self._run, effect, effect.uid)

    def stop(self) -> None:
        """Cancels all programs, without waiting for them: running ones are repeated after a restart."""
        self._turns.stop()

    async def _run(self, effect: RunTrigger) -> None:
        failure = await self._program(effect)
        who = f"trigger {effect.trigger_id} of {effect.user_name}"
        if failure:
            log.warning("%s: %s", who, failure, extra={"event": "trigger_failed"})
        else:
            log.info("%s: %s %s has ended", who, effect.program, effect.argument)
        self._runtime.post(TriggerEnded(effect.trigger_id))

    async def _program(self, effect: RunTrigger) -> str:
        """Runs the program; "" = it succeeded, else a description of the failure."""
        try:
            words = shlex.split(effect.program)
        except ValueError as error:
            return f"{effect.program}: {error}"
        if not words:
            return "there is no program"
        try:
            identity = await self._identity(effect)
        except BadRequest as error:
            return f"{words[0]}: user {effect.user_name} ({effect.uid}) cannot be looked up: {error.text}"
        if identity is None and effect.uid != os.geteuid():
            return f"{words[0]}: not run: the controller is not root, and cannot become {effect.user_name}"
        env = {
            "PATH": PATH,
            "USER": effect.user_name,
            "LOGNAME": effect.user_name,
            "SLURM_CLUSTER_NAME": self._cluster_name,
        }
        command = [*words, effect.argument]
        return (await run(Program(command, env, self._timeout_s, f"trigger {effect.trigger_id}", identity))).failure

    async def _identity(self, effect: RunTrigger) -> UserIdentity | None:
        """Returns the identity of the child; None = the controller's user. Raises BadRequest."""
        if os.geteuid() != 0:
            return None
        groups = await self._lookups.groups(effect.user_name, effect.gid, effect.uid)
        return UserIdentity(effect.uid, effect.gid, groups or (effect.gid,))
