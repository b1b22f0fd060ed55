"""Asks the nodes of a job's running steps: for what records do not have before a step has ended.

Only the job's owner and operators may (AttachStep); what cannot be had is said, and does not hide the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cli.base.queryclient import QueryClient
from cli.base.stepids import attach
from cli.listings.sacct_fields import RecordRow
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.steps_pb2 import AttachStepReply
from penstock.values.jobid import EXTERN_STEP

_RUNNING = frozenset(("RUNNING", "SUSPENDED"))
#: Takes a sentence about what could not be had.
Say: TypeAlias = Callable[[str], None]


class LiveBounds(NamedTuple):
    """How much is asked."""

    steps_max: int = 32  # of a large array, the first ones
    nodes_max: int = 65_536  # of a step
    limit_s: float = 5.0  # for one step


#: As commands ask.
BOUNDS: Final = LiveBounds()


class NodeAnswers(NamedTuple):
    """What the first node of a step has answered to the first questions; or why not to the others, `reason`."""

    node: str
    found: Sequence[Mapping[str, object]]
    reason: str


def answers_of(
    client: QueryClient, attached: AttachStepReply, words: Sequence[str], limit_s: float, rank: int | None = None
) -> NodeAnswers:
    """Asks questions of the node of a task, None: of the step's first node, on one connection. Raises PenstockError."""
    from cli.steps.stepquery import ask_in_turn, endpoints

    places = endpoints(attached)
    if rank is not None:
        indexes = [index for index, ranks in enumerate(attached.plan.ranks) if rank in ranks.rank]
        places = [place for place in places if place.node_index in indexes]
        if not places:
            return NodeAnswers("", (), f"the step has no task {rank}")
    if not places:
        return NodeAnswers("", (), "no node of the step has a port for streams")
    first = places[0].node
    asked = AttachStepReply()
    asked.CopyFrom(attached)
    del asked.streams[:]
    asked.streams.extend(one for one in attached.streams if one.node == first)
    answers = ask_in_turn(client.cluster, asked, words, limit_s)
    return NodeAnswers(first, answers.found.get(first, ()), answers.missing.get(first, ""))


class LiveAnswer(NamedTuple):
    """What the nodes of a running step have answered, by node; why others have not; why none was asked ("" = they were)."""

    job: JobRecord
    step: StepRecord
    found: Mapping[str, Mapping[str, object]]
    missing: Mapping[str, str]
    refusal: str = ""

    def name(self) -> str:
        """`12.0`."""
        return RecordRow(self.job, self.step).id_text()


def live_answers(
    client: QueryClient,
    jobs: Iterable[JobRecord],
    word: str,
    say: Say,
    bounds: LiveBounds = BOUNDS,
    nodes: Iterable[str] = (),
) -> Iterator[LiveAnswer]:
    """Asks one question of the running steps, and says what cannot be had. `nodes`: the only ones that are asked."""
    for one in all_answers(client, jobs, word, say, bounds, nodes):
        if one.refusal:
            say(f"{one.name()}: {one.refusal}")
            continue
        for node, reason in one.missing.items():
            say(f"node {node} does not answer: {reason}")
        yield one


def all_answers(
    client: QueryClient,
    jobs: Iterable[JobRecord],
    word: str,
    say: Say,
    bounds: LiveBounds = BOUNDS,
    nodes: Iterable[str] = (),
) -> Iterator[LiveAnswer]:
    """The same with refused steps and missing nodes, for callers that show these; says only what was not asked."""
    from cli.steps.stepquery import ask

    chosen = frozenset(nodes)
    running = [(j, s) for j in jobs for s in j.steps if s.state in _RUNNING and s.step_id != EXTERN_STEP]
    if len(running) > bounds.steps_max:
        say(f"more than {bounds.steps_max} steps run; only the first are included")
    for job, step in running[: bounds.steps_max]:
        name = RecordRow(job, step).id_text()
        try:
            attached = attach(client, job.job_id, step.step_id)
            streams = [one for one in attached.streams if not chosen or one.node in chosen]
            if len(streams) > bounds.nodes_max:
                say(f"{name} has {len(streams)} nodes; only the first {bounds.nodes_max} are asked")
            del attached.streams[:]
            attached.streams.extend(streams[: bounds.nodes_max])
            answers = ask(client.cluster, attached, word, bounds.limit_s)
        except PenstockError as error:
            yield LiveAnswer(job, step, {}, {}, error.text)
            continue
        yield LiveAnswer(job, step, answers.found, answers.missing)
