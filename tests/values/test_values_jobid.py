"""Job selectors and file name patterns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.filenames import PATH_BYTES_MAX, FileNames, default_output, expand_pattern
from penstock.values.jobid import (
    BATCH_STEP,
    EXTERN_STEP,
    INTERACTIVE_STEP,
    SELECTORS_TEXT_MAX,
    JobSelector,
    format_job,
    format_sluid,
    format_step,
    parse_selector,
    parse_selectors,
)
from penstock.values.taskset import TaskSet

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("123", JobSelector(123)),
        ("123_4", JobSelector(123, TaskSet.of([4]))),
        ("123_[0-9,12%2]", JobSelector(123, TaskSet.parse("0-9,12"))),
        ("123_[0-9:3]", JobSelector(123, TaskSet.parse("0-9:3"))),
        ("123+0", JobSelector(123, het_offset=0)),
        ("123.0", JobSelector(123, step_id=0)),
        ("123.batch", JobSelector(123, step_id=BATCH_STEP)),
        ("123.extern", JobSelector(123, step_id=EXTERN_STEP)),
        ("123.interactive", JobSelector(123, step_id=INTERACTIVE_STEP)),
        ("123_4.0", JobSelector(123, TaskSet.of([4]), step_id=0)),
        ("123+1.0", JobSelector(123, step_id=0, het_offset=1)),
    ],
)
def test_selectors(text: str, selector: JobSelector) -> None:
    assert parse_selector(text) == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "x",
        "1.",
        "1.x",
        "1.-5",
        "1_",
        "1_x",
        "1_[]",
        "1_[1",
        "1_1]",
        "1_[1]x",
        "1_[1,,2]",
        "1_[5-1]",
        "1_[0-4294967295]",
        "1+",
        "1+x",
        "1+-1",
        "1_2_3",
        "1.0.0",
        "+5",
        " 1",
        "1 ",
        "1_000_0",
        "0x10",
        "1e3",
        "１",
        str(2**31),
        "9" * 30,
        "1\0",
        "1\x1b[2J",
        "1_[1%x]",
    ],
)
def test_bad_selectors_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"^Invalid job id ") as error:
        parse_selector(text)
    assert str(error.value).isprintable()


def test_lists_of_selectors() -> None:
    assert parse_selectors("1,2_[1,3-5],4.batch") == [
        JobSelector(1),
        JobSelector(2, TaskSet.parse("1,3-5")),
        JobSelector(4, step_id=BATCH_STEP),
    ]
    for text in ("1,,2", "1,", ",", "", "1_[1,2", "1_[1,2,3"):
        with pytest.raises(BadValue, match="Invalid job id"):
            parse_selectors(text)
    with pytest.raises(BadValue, match=f"the limit is {SELECTORS_TEXT_MAX}"):
        parse_selectors("1," * SELECTORS_TEXT_MAX)


def test_ids_are_written_as_slurm_does() -> None:
    assert [format_step(s) for s in (BATCH_STEP, EXTERN_STEP, INTERACTIVE_STEP, 0, 12)] == [
        "batch",
        "extern",
        "interactive",
        "0",
        "12",
    ]
    assert [format_job(125, 123, 4), format_job(123, 0, None), format_job(123, 123, 0)] == ["123_4", "123", "123_0"]


STEP = FileNames(
    128, job_name="train", user_name="ada", node_name="n1.example.com", node_index=2, step=0, task_id=3, restart_count=1
)
TASK = FileNames(130, 120, 13, job_name="train", user_name="ada", node_name="n7")


@pytest.mark.parametrize(
    ("pattern", "values", "name"),
    [
        (b"job%J.out", STEP, b"job128.0.out"),  # the three examples of sbatch's manual
        (b"job%4j.out", STEP, b"job0128.out"),
        (b"job%j-%2t.out", STEP, b"job128-03.out"),
        (b"slurm-%A_%a.out", TASK, b"slurm-120_13.out"),
        (b"%A_%4a_%b", TASK, b"120_0013_3"),
        (b"%A", STEP, b"128"),
        (b"%N-%n-%u-%x-%r", STEP, b"n1-2-ada-train-1"),
        (b"%s %J", TASK, b"batch 130"),
        (b"%3s", STEP, b"000"),
        (b"%5N%5u", STEP, b"n1ada"),
        (b"100%% %q %5z %", STEP, b"100% %q %5z %"),
        (b"%99999999999999j", STEP, b"0000000128"),
        (b"\\%j", STEP, b"%j"),
        (b"a\\\\%j", STEP, b"a\\%j"),
        (b"\xff%j", STEP, b"\xff128"),
    ],
)
def test_patterns(pattern: bytes, values: FileNames, name: bytes) -> None:
    assert expand_pattern(pattern, values) == name


def test_names_cannot_lead_out_of_the_folder() -> None:
    values = FileNames(1, job_name="../../etc/passwd", user_name="..")
    assert expand_pattern(b"out/%x-%u", values) == b"out/___.._etc_passwd-__"


def test_what_cannot_be_a_file_name_is_refused() -> None:
    with pytest.raises(BadValue, match="NUL byte at position 1"):
        expand_pattern(b"a\0b", STEP)
    with pytest.raises(BadValue, match=f"the limit is {PATH_BYTES_MAX}"):
        expand_pattern(b"%x" * 1000, STEP)


@STEADY
@given(st.binary(max_size=40).map(lambda b: b.replace(b"\0", b"").replace(b"%", b"").replace(b"\\", b"")))
def test_bytes_without_symbols_stay(pattern: bytes) -> None:
    assert expand_pattern(pattern, STEP) == pattern


def test_default_output() -> None:
    assert (default_output(False), default_output(True)) == (b"slurm-%j.out", b"slurm-%A_%a.out")


@STEADY
@given(st.integers(0, 2**33 - 1), st.integers(1, 2**31 - 1), st.sampled_from([None, 0, 7, BATCH_STEP]))
def test_a_sluid_names_a_job_and_its_submission(submitted_s: int, job_id: int, step: int | None) -> None:
    text = format_sluid(submitted_s * 1_000_000 + 999_999, job_id)
    step_text = "" if step is None else f".{format_step(step)}"
    assert parse_selector(text + step_text) == JobSelector(job_id, step_id=step, submitted_s=submitted_s)
    assert parse_selector(text).is_of(job_id, submitted_s * 1_000_000 + 5)
    assert not parse_selector(text).is_of(job_id, (submitted_s + 1) * 1_000_000)
    assert not parse_selector(str(job_id)).is_of(job_id, submitted_s * 1_000_000)


@STEADY
@given(st.lists(st.tuples(st.integers(0, 2**33 - 1), st.integers(1, 2**31 - 1)), min_size=2))
def test_sluids_sort_as_jobs_were_submitted(jobs: list[tuple[int, int]]) -> None:
    texts = [format_sluid(at_s * 1_000_000, job_id) for at_s, job_id in jobs]
    assert sorted(texts) == [text for _, text in sorted(zip(jobs, texts, strict=True))]


@pytest.mark.parametrize(
    "text",
    ["s0000000000000", "sZZZZZZZZZZZZZ", "s1HF7YAT00000I", "s1HF7YAT00000", "s35AFRG0000007_1", "sé1HF7YAT00007"],
)
def test_what_is_no_sluid(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid job id"):
        parse_selector(text)
