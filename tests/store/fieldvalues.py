"""Values for the fields of stored records, drawn by their types as the field tables (tools/records) say them."""

from hypothesis import strategies as st

from ctld.core.records.periodic import CronJob
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.step import GpuShare, RankCommand, StepPart, StepRequest
from ctld.store import rows
from penstock.values.limits import NO_LIMITS
from penstock.values.states import Hold, JobState, NodeFlag, Reason, Suspend
from penstock.values.taskset import TaskSet
from tools.records.declare import Field, Record

#: SQLite and the wire know no lone surrogates; NUL is refused long before.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
small = st.integers(0, 2**31 - 1)
big = st.integers(0, 2**62)
nodes = st.from_regex(r"[a-z]{1,3}[0-9]{1,3}", fullmatch=True)
grants = st.tuples(text, text, st.integers(0, 2**200))
strings = st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\0", b"")), max_size=4).map(tuple)
requests = st.builds(
    JobRequest,
    name=text, partitions=st.lists(text, max_size=2).map(tuple), account=text, qos=text, comment=text,
    work_dir=st.binary(max_size=20), std_out=st.binary(max_size=20), open_append=st.booleans(),
    time_limit_s=st.none() | small, begin_at_us=big, nodes_min=small, nodes_max=small,
    ntasks=st.integers(1, 16_000_000), cpus_per_task=st.integers(1, 16_000_000), mem_per_node_mb=st.none() | small,
    gres_per_node=st.lists(st.tuples(text, text, small), max_size=2).map(tuple),
    nodes_required=st.lists(nodes, max_size=2).map(tuple), array=text, nice=st.integers(-(2**31), 2**31),
    rlimits=st.lists(st.tuples(text, st.integers(-1, 2**63 - 1)), max_size=2).map(tuple), umask=st.none() | small,
)  # fmt: skip
step_requests = st.builds(
    StepRequest, name=text, ntasks=small, relative=st.none() | small, exact=st.booleans(), work_dir=st.binary(),
    gres_per_node=st.lists(st.tuples(text, text, small), max_size=2).map(tuple),
    multi_prog=st.lists(st.builds(RankCommand, text, st.lists(st.binary(), max_size=2).map(tuple)), max_size=2).map(tuple),
)  # fmt: skip
parts = st.builds(
    StepPart, node=text, cpus=small, mem_mb=big, cpu_ids=st.integers(0, 2**200),
    gres=st.lists(st.tuples(text, text, st.integers(0, 2**70)), max_size=2).map(tuple),
    shares=st.lists(st.builds(GpuShare, text, text, small, small, small), max_size=1).map(tuple),
    ranks=st.sets(st.integers(0, 4000), max_size=20).map(lambda ranks: tuple(sorted(ranks))),
    state=st.sampled_from(JobState), start_at_us=big, end_at_us=big, exit_code=small, exit_signal=small, failure=text,
    out_of_memory=st.booleans(),
)  # fmt: skip

#: A type as it is written in a record's class, and values of it. Numbers follow their columns.
_BY_TYPE = {
    "str": text,
    "bytes": st.binary(max_size=40),
    "bool": st.booleans(),
    "int | None": st.none() | small,
    "Hold": st.sampled_from(Hold),
    "JobRequest": requests,
    "JobState": st.sampled_from(JobState),
    "JobState | None": st.none() | st.sampled_from(JobState),
    "Limits": st.just(NO_LIMITS) | small.map(lambda count: NO_LIMITS._replace(max_jobs=count)),
    "NodeFlag": st.integers(0, 63).map(NodeFlag),
    "Reason": st.sampled_from(Reason),
    "StepRequest | None": st.none() | step_requests,
    "Suspend": st.sampled_from(Suspend),
    "TaskSet | None": st.none() | st.sets(st.integers(0, 200), min_size=1).map(TaskSet.of),
    "tuple[CronJob, ...]": st.lists(st.builds(CronJob, small, small, small), max_size=2).map(tuple),
    "tuple[NodeAlloc, ...]": st.lists(
        st.builds(NodeAlloc, nodes, small, big, small, st.lists(grants, max_size=3).map(tuple)), max_size=3
    ).map(tuple),
    "tuple[StepPart, ...] | None": st.lists(parts, max_size=3).map(tuple),
    "tuple[bytes, ...]": strings,
    "tuple[int, ...]": st.lists(st.integers(0, 65535), max_size=3).map(tuple),
    "tuple[str, ...]": st.lists(nodes, max_size=3).map(tuple),
    "tuple[tuple[int, int], ...]": st.lists(st.tuples(small, small), max_size=2).map(tuple),
}


def values_of(field: Field) -> st.SearchStrategy:
    """Values of one field."""
    if field.kind.type == "int":
        return st.integers(-1, 2**31 - 1) if field.kind.column == "Integer" else st.integers(-1, 2**62)
    return _BY_TYPE[field.kind.type]


def rows_of(record: Record, **given: st.SearchStrategy) -> st.SearchStrategy:
    """Rows of a record; some of their fields are given. What is not stored has its default."""
    row = getattr(rows, record.row)
    drawn = {f.name: values_of(f) for f in record.attributes}
    unstored = {
        f.name: st.just(row._field_defaults[f.name]) for f in record.attributes if not f.is_column and f.default
    }
    return st.builds(row, **(drawn | unstored | given))
