"""The controller as `penstock ctld` runs it, with a record of each full pass and of what blocks its loop.

    python -m bench.livectld NOTES --config slurm.conf

Its behaviour is unchanged: the worker's function and the loop's callbacks are timed, at less than a microsecond each. A
line in NOTES is `pass BEGIN END ROWS` or `held BEGIN CPU WHAT`, in nanoseconds; BEGIN and END are of the monotonic
clock, which all processes of a machine share. CPU is the loop's own CPU time in that callback: without waits for a CPU
or the interpreter lock. Callbacks below HELD_NS are not recorded.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

from ctld import main as ctld_main
from ctld.core.queue import planning
from ctld.core.records.events import PlanReady
from ctld.runtime import fullpass

#: The shortest callback of the loop that is recorded.
HELD_NS = 3_000_000


def watch(notes: Path) -> None:
    """Starts timing."""
    file = notes.open("w", buffering=1)
    run_handle = asyncio.events.Handle._run

    def run_plan(revision: int, question: planning.PlanQuestion) -> PlanReady:
        begin = time.monotonic_ns()
        answer = planning.run_plan(revision, question)
        file.write(f"pass {begin} {time.monotonic_ns()} {len(question.given.rows)}\n")
        return answer

    def run(handle: Any) -> None:
        begin, callback = time.thread_time_ns(), handle._callback
        run_handle(handle)
        used = time.thread_time_ns() - begin
        if used >= HELD_NS:
            file.write(f"held {time.monotonic_ns() - used} {used} {_name(callback)}\n")

    collecting = [0]

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collecting[0] = time.thread_time_ns()
        elif (used := time.thread_time_ns() - collecting[0]) >= HELD_NS:
            file.write(
                f"held {time.monotonic_ns() - used} {used} garbage-collector-{info['generation']}:{info['collected']}\n"
            )

    gc.callbacks.append(collected)
    vars(fullpass)["run_plan"] = run_plan
    asyncio.events.Handle._run = run  # type: ignore[method-assign,assignment]  # around the loop's own


def _name(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task:{getattr(owner.get_coro(), '__qualname__', '?')}"
    return str(getattr(getattr(callback, "func", callback), "__qualname__", type(callback).__name__))


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
    sys.exit(ctld_main.main(sys.argv[2:]))
