"""Numbers on the wire as protobuf has them, and the numbers in a mask."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.v1.controller_pb2 import JobInfo
from penstock.values.cpusets import numbers_of
from penstock.values.varint import number_tag, text_tag, varint

NUMBERS = st.one_of(st.sampled_from([0, 1, 127, 128, 16_383, 16_384]), st.integers(0, 2**63 - 1))


@given(NUMBERS, st.text(max_size=200))
def test_fields_by_hand_are_those_of_a_message(number: int, text: str) -> None:
    fields, data = JobInfo.DESCRIPTOR.fields_by_name, text.encode()
    start = number_tag(fields["planned_start_at_us"].number) + varint(number)
    nodes = text_tag(fields["planned_node_list"].number) + varint(len(data)) + data
    assert JobInfo.FromString(start + nodes) == JobInfo(planned_start_at_us=number, planned_node_list=text)


@given(st.sets(st.integers(0, 5_000), max_size=300))
def test_the_numbers_in_a_mask(numbers: set[int]) -> None:
    assert numbers_of(sum(1 << number for number in numbers)) == sorted(numbers)
