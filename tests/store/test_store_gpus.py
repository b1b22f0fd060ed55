"""GPUs' rows: what is written comes back; a row of an earlier or later version is read as far as it goes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.gpu import Gpu, GpuFacts, GpuOpinion
from ctld.store import encodings, rows
from penstock.values.gpustates import GpuState

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
numbers = st.integers(0, 2**40)
facts = st.builds(
    GpuFacts, uuid=text, index=numbers, type=text, memory_mb=numbers, near_cpus=st.lists(numbers, max_size=3).map(tuple),
    links=st.lists(st.integers(-1, 100), max_size=3).map(tuple), mig_enabled=st.booleans(),
)  # fmt: skip
opinions = st.builds(
    GpuOpinion, uuid=text, state=st.sampled_from(GpuState), reason=text, since_us=numbers,
    xids=st.lists(st.tuples(numbers, numbers, numbers), max_size=3).map(tuple),
)  # fmt: skip
layouts = st.none() | st.lists(text, max_size=3).map(tuple)
gpus = st.builds(
    Gpu, node=text, uuid=text, slot=st.integers(-1, 99), facts=facts, opinion=opinions, is_there=st.booleans(),
    drained=st.booleans(), drain_reason=text, work_id=text, layout=layouts,
    troubles=st.lists(st.tuples(numbers, text), max_size=2).map(tuple),
)  # fmt: skip


@given(gpus)
def test_a_gpu_comes_back_as_it_was(gpu: Gpu) -> None:
    *columns, record = rows.gpu_values(gpu)
    assert isinstance(record, bytes) and encodings.gpu_from(record) == gpu
    assert columns == [gpu.node, gpu.uuid, gpu.slot, int(gpu.state()), gpu.reason()]


def test_a_row_of_another_version_is_read() -> None:
    gpu = Gpu("n1", "GPU-1", 0, GpuFacts("GPU-1"), GpuOpinion("GPU-1", GpuState.DRAINED, "XID 48", 5))
    encoded = rows.gpu_values(gpu)[-1]
    assert isinstance(encoded, bytes)
    record = msgspec.json.decode(encoded)
    for name in ("troubles", "idle_job", "works"):  # an earlier one has no such fields
        del record[name]
    del record["opinion"]["xids"], record["opinion"]["notes"]
    record["later"] = record["opinion"]["later"] = {"of": "a later one"}
    assert encodings.gpu_from(msgspec.json.encode(record)) == gpu
