"""What `penstock doctor` knows of a job: its running steps' tasks on all nodes, as their supervisors answer.

A supervisor suspects by the tasks of its own node; here those of all nodes are put together, so that one task that is
behind is found wherever it runs. An answer is another machine's: what it must not be is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cli.base.nodeanswer import lists, number, text
from cli.base.queryclient import QueryClient
from cli.listings.livesteps import LiveAnswer, Say, all_answers
from penstock.v1.accounting_pb2 import JobRecord
from penstock.values.hangs import Suspicion, TaskState, task_suspicions


class SeenTask(NamedTuple):
    """A task: where it runs, its process (0 = it is not known) and that one's state, and what it has done."""

    node: str
    pid: int
    process_state: str
    state: TaskState


class StepFinding(NamedTuple):
    """A step's answers, its tasks by rank, and what is suspected of it."""

    answer: LiveAnswer
    tasks: Sequence[SeenTask]
    suspicions: Sequence[Suspicion]
    is_watched: bool
    recorder: str

    def by_suspicion(self) -> list[SeenTask]:
        """The tasks, those that the suspicions name first; none, if nothing is suspected."""
        ranks = {rank for one in self.suspicions for rank in one.ranks}
        return sorted(self.tasks, key=lambda task: task.state.rank not in ranks) if self.suspicions else []


def findings_of(client: QueryClient, jobs: Sequence[JobRecord], say: Say) -> Iterator[StepFinding]:
    """Asks the nodes of the running steps of these jobs."""
    return map(found_in, all_answers(client, jobs, "doctor", say))


def found_in(answer: LiveAnswer) -> StepFinding:
    """Puts the answers of a step's nodes together."""
    answers = answer.found
    tasks = [task for node, said in sorted(answers.items()) for task in _tasks(node, said)]
    after_s = max((number(said.get("after_s")) for said in answers.values()), default=0)
    is_script = any(number(said.get("is_script")) for said in answers.values())
    found = task_suspicions([task.state for task in tasks], after_s, is_script)
    for node, said in sorted(answers.items()):
        if gpus := said.get("gpus"):
            found.append(Suspicion("spinning", (), f"on {node}, {text(gpus)}"))
    recorders = {text(said.get("recorder")) for said in answers.values()} - {""}
    tasks.sort(key=lambda task: task.state.rank)
    return StepFinding(answer, tasks, found, bool(after_s), min(recorders, default=""))


def _tasks(node: str, answer: Mapping[str, object]) -> Iterator[SeenTask]:
    processes = {}
    for one in lists(answer.get("pids"), 3):
        processes[number(one[0])] = (number(one[1]), text(one[2]))
    for one in lists(answer.get("tasks"), len(TaskState._fields)):
        state = TaskState(*map(number, one))
        yield SeenTask(node, *processes.get(state.rank, (0, "")), state)
