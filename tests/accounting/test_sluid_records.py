"""sacct by SLUID: the record with that id and time of submission, of an array or a heterogeneous job that one alone."""

from accounting.filter import RecordFilter
from accounting.query import Ids, question
from penstock.values.jobid import format_sluid

AT_US = 1_700_000_000_000_000
ROW = Ids(7, 5, 2, None, 5, 1, AT_US + 999_999)


def test_it_matches_its_own_record_alone() -> None:
    def matches(at_us: int, job_id: int, *more: str) -> bool:
        return question(RecordFilter(ids=(format_sluid(at_us, job_id), *more))).matches(ROW, "")

    assert matches(AT_US, 7)
    assert not matches(AT_US + 1_000_000, 7)
    assert not matches(AT_US, 5)
    assert matches(AT_US, 5, "5")
    assert matches(AT_US, 8, format_sluid(AT_US, 7) + ".3")


def test_its_steps() -> None:
    asking = question(RecordFilter(ids=(format_sluid(AT_US, 7) + ".3",)))
    assert asking.wanted_steps(ROW) == {3}
