"""The three languages that describe a line, without any command around them."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.accounts.fields import columns_of
from cli.base.format import (
    PIECE_CHARS,
    WIDTH_MAX,
    DisplayClock,
    FormatField,
    TableColumn,
    TableStyle,
    aligned,
    amount,
    body_line,
    clipped_tasks,
    header_line,
    pad,
    parse_names,
    parse_percent,
    parse_table,
    table_lines,
    width_of,
)
from cli.base.listing import emit, numbers_in, sort_letters, sort_rows, unsorted, words
from cli.base.run import CommandError
from cli.listings.sreport_fields import choose, text_field
from penstock.values.errors import BadValue

LETTERS: dict[str, FormatField[dict[str, str], None]] = {
    "i": FormatField("JOBID", lambda row, view: row["i"]),
    "j": FormatField("NAME", lambda row, view: row["j"]),
    "l": FormatField("LIMIT", lambda row, view: row["l"], uncut=True),
}
NAMES = {"jobid": LETTERS["i"], "name": LETTERS["j"], "tres-alloc": LETTERS["l"]}
ROW = {"i": "12", "j": "simulation", "l": "1-02:03:04"}


def percent(text):
    columns, unknown = parse_percent(text, LETTERS)
    return header_line(columns), body_line(columns, ROW, None), [part.what for part in unknown]


@pytest.mark.parametrize(
    ("text", "head", "line", "unknown"),
    [
        ("%i", "JOBID", "12", []),
        ("%.8i|%8i|", "   JOBID|JOBID   |", "      12|12      |", []),
        ("%.4j|%4j", "NAME|NAME", "simu|simu", []),
        ("%.3j|%3j", "NAM|NAM", "sim|sim", []),
        ("%.4l|%4l|%l", "LIMI|LIMI|LIMIT", "1-02:03:04|1-02|1-02:03:04", []),
        ("job %i is %j!", "job JOBID is NAME!", "job 12 is simulation!", []),
        ("%i%j", "JOBIDNAME", "12simulation", []),
        ("", "", "", []),
        ("plain", "plain", "plain", []),
        ("100%%%i", "100JOBID", "10012", []),
        ("%i%", "JOBID", "12", []),
        ("%.i|", "JOBID|", "12|", []),
        ("%q", "%q", "%q", ["q"]),
        ("%5.2i %i", "%5.2i JOBID", "%5.2i 12", ["."]),
        ("%all", "JOBID|NAME|LIMIT", "12|simulation|1-02:03:04", []),
        ("%20all", "%20all", "%20all", ["a"]),
        ("%é", "%é", "%é", ["é"]),
    ],
)
def test_percent(text, head, line, unknown):
    assert percent(text) == (head, line, unknown)


@given(st.text(max_size=40))
def test_percent_takes_any_text(text):
    head, line, _ = percent(text)
    if "%" not in text:
        assert head == line == text


@given(st.integers(1, 40), st.booleans(), st.text(max_size=60))
def test_a_placed_value_has_its_width(width, right, text):
    shown = pad(text, width, right)
    assert len(shown) == width
    assert shown.strip(" ") in text
    assert pad(text, 0, right) == text


@given(st.integers(0, 10**30) | st.just(10**5000))
def test_absurd_widths_are_bounded_alike_everywhere(width):
    """One bound, in all of the languages."""
    text = "9" * 5001 if width > 10**30 else str(width)
    found = [
        parse_percent(f"%.{text}i", LETTERS)[0][0].width,
        parse_names(f"jobid:{text}", NAMES)[0][0].width,
        parse_table(f"jobid%{text}", KNOWN)[0][0].width if width else 0,
        columns_of(f"account%{text}", {})[0].width if width else 0,
        choose(f"login%{text}", [text_field("Login", "Login", 9, str)])[0].width if width else 0,
    ]
    assert found == [min(width, WIDTH_MAX)] * 5
    assert width_of(f"-{text}x") == -min(width, WIDTH_MAX)


@pytest.mark.parametrize(
    "read",
    [
        lambda count: parse_percent("%65535i" * count, LETTERS),
        lambda count: parse_names(",".join(["jobid:65535"] * count), NAMES),
        lambda count: parse_table(",".join(["jobid%-65535"] * count), KNOWN),
        lambda count: columns_of(",".join(["account%65535"] * count), {}),
        lambda count: choose(",".join(["login%65535"] * count), [text_field("Login", "Login", 9, str)]),
    ],
)
def test_many_wide_columns_are_refused(read):
    assert read(15)
    with pytest.raises(BadValue, match=r"a line would have \d+ characters, the limit is 1048576"):
        read(17)


def test_wide_lines_leave_in_pieces(monkeypatch):
    """No more than a piece is in memory."""
    written: list[str] = []
    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=written.append))
    line = "x" * WIDTH_MAX
    made = []

    def lines():
        for _ in range(2000):
            made.append(len(written))
            yield line

    emit(lines())
    assert max(map(len, written)) <= PIECE_CHARS + 2 * WIDTH_MAX and "".join(written) == f"{line}\n" * 2000
    assert made[-1] > 2


@pytest.mark.parametrize(
    ("text", "line", "unknown"),
    [
        ("JobID", "12" + " " * 18, []),
        ("jobid:5,NAME:.12|", "12     simulation|", []),
        ("name:4,tres-alloc:3;", "simu1-0;", []),
        ("jobid:,name:", "12simulation", []),
        ("jobid:x,name:.", "12xsimulation", []),
        ("bogus,jobid:2", "12", ["bogus"]),
        ("jobid:2, name", "12", [" name"]),
        ("", "", []),
    ],
)
def test_names(text, line, unknown):
    columns, found = parse_names(text, NAMES)
    assert body_line(columns, ROW, None) == line
    assert [part.what for part in found] == unknown


KNOWN: tuple[Any, ...] = (
    TableColumn("JobID", -6, lambda row, view: row["i"]),
    TableColumn("JobName", 8, lambda row, view: row["j"]),
    TableColumn("Job", 3, lambda row, view: "?"),
)


def table(text, style=TableStyle()):  # noqa: B008 (a tuple)
    columns, unknown = parse_table(text, KNOWN)
    return list(table_lines(columns, [ROW], None, style)), [part.what for part in unknown]


def test_table():
    assert table("jobid,jobname") == (["JobID   JobName ", "------ -------- ", "12     simulat+ "], [])
    assert table("jobn%-12")[0] == ["JobName      ", "------------ ", "simulation   "]
    assert table("job")[0][0] == "JobID  "  # the first that begins like it
    assert table("jobid%3,jobname%3")[0] == ["Job Job ", "--- --- ", " 12 si+ "]
    assert table("x,jobid%0,") == (["JobID  ", "------ ", "12     "], ["x"])


def test_delimited_table():
    assert table("jobid,jobname", TableStyle("|"))[0] == ["JobID|JobName", "12|simulation"]
    assert table("jobid,jobname", TableStyle(";;", closed=True, header=False))[0] == ["12;;simulation;;"]


@given(st.lists(st.sampled_from(["jobid", "jobname", "job"]), min_size=1), st.integers(-50, 50))
def test_table_lines_are_equally_long(names, width):
    lines, _ = table(",".join(f"{name}%{width}" for name in names))
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("value", "base", "options", "shown"),
    [
        (0, "M", {}, "0"),
        (100, "M", {}, "100M"),
        (2048, "M", {}, "2G"),
        (2048, "M", {"convert": False}, "2048M"),
        (1500, "M", {}, "1500M"),
        (1024**3, "K", {}, "1T"),
        (1024, "", {}, "1K"),
        (1000, "", {}, "1000"),
        (1536, "M", {"unit": "G"}, "1.50G"),
        (4096, "M", {"unit": "G"}, "4G"),
        (0, "K", {"unit": "G"}, "0"),
        (1024**6, "P", {}, f"{1024**6}P"),
    ],
)
def test_amounts(value, base, options, shown):
    assert amount(value, base, **options) == shown


def test_task_lists(monkeypatch):
    tasks = ",".join(map(str, range(0, 100, 2)))
    monkeypatch.delenv("SLURM_BITSTR_LEN", raising=False)
    shown = clipped_tasks(tasks)
    assert shown.endswith(",...") and len(shown) <= 64 and tasks.startswith(shown.removesuffix("..."))
    assert clipped_tasks("0-99999") == "0-99999"
    for text, limit in (("10", 10), ("0", 10**6), ("1000000", 10**6), ("-5", 64), ("x", 64)):
        monkeypatch.setenv("SLURM_BITSTR_LEN", text)
        assert len(clipped_tasks(tasks)) <= limit


@pytest.mark.parametrize(
    ("tasks", "listed"),
    [
        # What Slurm 22.05 printed for these requests.
        ("0-9:3", "0,3,6,9"),
        ("0-12:3", "0,3,6,9,12"),
        ("0-30:3", "0-30:3"),
        ("0-10:2", "0,2,4,6,8,10"),
        ("0-12:2", "0-12:2"),
        ("0-15:3", "0-15:3"),
        ("0-5:5", "0,5"),
        ("0-1000:2", "0-1000:2"),
        ("2-4,6,9-12", "2-4,6,9-12"),
        ("0-20:2,30", "0,2,4,6,8,10,12,14,16,18,20,30"),
        ("5-500:5,502", "5,10,15,20,25,30,35,40,45,50,55,60,65,70,75,80,85,90,95,100,..."),
        ("7", "7"),
    ],
)
def test_task_lists_are_written_as_slurm_does(monkeypatch, tasks, listed):
    monkeypatch.delenv("SLURM_BITSTR_LEN", raising=False)
    assert clipped_tasks(tasks) == listed


def test_clock(monkeypatch):
    assert DisplayClock(5).text(0) == "N/A"
    assert DisplayClock(5).text(0, "Unknown") == "Unknown"
    assert DisplayClock(5).text(-1, "None") == "None"


def test_sort_lists():
    assert list(sort_letters("P,t,-p")) == [("P", False), ("t", False), ("p", True)]
    assert list(sort_letters("#P+a-b")) == [("#P", False), ("a", False), ("b", True)]
    assert list(sort_letters("-#P")) == [("#P", True)]
    assert list(sort_letters("")) == []
    assert list(sort_letters("#")) == [("#", False)]
    rows = [(1, "b"), (2, "a"), (1, "a"), (2, "b")]
    keys = {"n": lambda row, view: row[0], "t": lambda row, view: row[1]}
    sort_rows(rows, "-n,t", keys.get, None)
    assert rows == [(2, "a"), (2, "b"), (1, "a"), (1, "b")]
    with pytest.raises(CommandError, match="Invalid sort specification: z"):
        sort_rows(rows, "n,z", keys.get, None)
    for text, bad in (("#n", "#"), ("#z", "z"), ("z,#", "#")):  # Slurm reads the list from its end
        with pytest.raises(CommandError, match=f"Invalid sort specification: {bad}$"):
            sort_rows(rows, text, keys.get, None)
    sort_rows(rows, "z,-n", lambda letter: keys.get(letter) or unsorted, None)
    assert rows == [(2, "a"), (2, "b"), (1, "a"), (1, "b")]


def test_words_and_ranges():
    assert words(" a, ,b,") == ["a", "b"] and words(None) == [] and words("") == []
    assert numbers_in("5", "x") == (5, 5) and numbers_in("2-7", "x") == (2, 7) and numbers_in("2-", "x") == (2, None)
    for text in ("", "-", "a", "1-2-3", "１", "5 "):
        with pytest.raises(CommandError):
            numbers_in(text, "range")


def test_a_table_is_as_wide_as_its_content() -> None:
    rows = [("NAME", "USED", "NOTE"), ("a", "10", ""), ("long-name", "7", "x")]
    assert aligned(rows, (1,)) == ["NAME       USED  NOTE", "a            10", "long-name     7  x"]
    assert aligned(rows[:1]) == ["NAME  USED  NOTE"]
