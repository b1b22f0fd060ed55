"""The option tables: getopt's rules, environment, help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.base.helptext import help_text
from cli.base.options import MAYBE, NUMERIC, YES, Command, Option, flag_is_on, later, parse
from cli.base.run import CommandError, RemoteAnswer
from penstock.values.numbers import parse_int

TABLE = (
    Option("name", "n", YES, "T_NAME", "a name"),
    Option("nodes", "N", YES),
    Option("number", "", YES, "T_NUMBER", convert=lambda t: parse_int(t, 1, 9, "number"), invalid=NUMERIC),
    Option("exclusive", "", MAYBE, "T_EXCLUSIVE", "alone", const="plain"),
    Option("hold", "H", env="T_HOLD", help="hold it"),
    Option("quiet", "Q"),
    Option("requeue"),
    Option("no-requeue", dest="requeue", const=False),
    Option("verbose", "v", counted=True),
    *later("gpus/G", "gpu-bind"),
)
STOPS = Command("tool", "[OPTIONS] x", TABLE, interspersed=False)
MIXES = Command("tool", "[OPTIONS] x", TABLE)


@pytest.mark.parametrize(
    ("argv", "values", "positional"),
    [
        (["--name=a", "b"], {"name": "a"}, ["b"]),
        (["--name", "a", "b"], {"name": "a"}, ["b"]),
        (["--name="], {"name": ""}, []),
        (["--nam", "a=b"], {"name": "a=b"}, []),
        (["-na", "-N", "2"], {"name": "a", "nodes": "2"}, []),
        (["-HQna"], {"hold": True, "quiet": True, "name": "a"}, []),
        (["-n", "-H"], {"name": "-H"}, []),
        (["--exclusive", "user"], {"exclusive": "plain"}, ["user"]),
        (["--exclusive=user"], {"exclusive": "user"}, []),
        (["--requeue", "--no-requeue"], {"requeue": False}, []),
        (["--no-r", "--req"], {"requeue": True}, []),
        (["-vv", "--verbose"], {"verbose": 3}, []),
        (["--name=a", "--name=b"], {"name": "b"}, []),
        (["x", "-H", "--", "-Q"], {}, ["x", "-H", "--", "-Q"]),
        (["-H", "--", "-Q"], {"hold": True}, ["-Q"]),
        (["-H", "-", "-Q"], {"hold": True}, ["-", "-Q"]),
    ],
)
def test_a_line_that_stops_at_the_first_positional(argv, values, positional):
    assert parse(STOPS, argv) == (values, positional)


def test_a_list_that_is_given_in_pieces():
    command = Command("show", "", (Option("jobs", "j", YES, joined=True), Option("name", "", YES)))
    line = parse(command, ["-j", "1", "--jobs=2,3", "--name=a", "--name=b", "-j4"])
    assert line.values == {"jobs": "1,2,3,4", "name": "b"}


def test_an_interspersed_line():
    assert parse(MIXES, ["5", "-H", "6", "--name", "a", "7", "--", "-Q"]) == (
        {"hold": True, "name": "a"},
        ["5", "6", "7", "-Q"],
    )


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--foo=3"], "tool: unrecognized option '--foo'"),
        (["-y"], "tool: invalid option -- 'y'"),
        (["--name"], "tool: option '--name' requires an argument"),
        (["-Hn"], "tool: option requires an argument -- 'n'"),
        (["--hold=1"], "tool: option '--hold' doesn't allow an argument"),
        (["--n=3"], "tool: option '--n=3' is ambiguous; possibilities: '--name' '--no-requeue' '--nodes' '--number'"),
    ],
)
def test_getopt_words(argv, text):
    with pytest.raises(CommandError) as caught:
        parse(STOPS, argv)
    assert caught.value.text == f'{text}\nTry "tool --help" for more information'
    assert caught.value.plain
    assert caught.value.status == 1


def test_a_value_that_does_not_convert_is_told_with_its_option():
    with pytest.raises(CommandError, match=r'Invalid numeric value "x" for --number\.\n.*whole number'):
        parse(STOPS, ["--number=x"])


def test_an_option_that_comes_later_fails_by_name_and_keeps_its_prefixes():
    for argv in (["--gpus=2"], ["-G2"], ["-G", "2"]):
        with pytest.raises(CommandError, match="option --gpus is not supported yet by Penstock"):
            parse(STOPS, argv)
    with pytest.raises(CommandError, match="ambiguous"):
        parse(STOPS, ["--gpu=2"])


def test_environment_lies_below_the_command_line():
    env = {"T_NAME": "e", "T_NUMBER": "4", "T_HOLD": "", "T_EXCLUSIVE": ""}
    assert parse(STOPS, ["--name=c"], env).values == {"name": "c", "number": 4, "hold": True, "exclusive": "plain"}
    assert parse(STOPS, [], {"T_NAME": "", "T_HOLD": "0"}).values == {}


def test_the_number_in_the_variable_of_a_counted_flag_is_its_count():
    tool = Command("tool", "", (Option("verbose", "v", env="T_DEBUG", counted=True),))
    shown = [parse(tool, [], {"T_DEBUG": text}).values.get("verbose") for text in ("3", "1", "0", "yes", "")]
    assert shown == [3, 1, None, 1, 1]
    assert parse(tool, ["-vv"], {"T_DEBUG": "5"}).values == {"verbose": 2}


def test_a_bad_variable_is_named():
    with pytest.raises(CommandError, match=r"\(from the environment variable T_NUMBER\)"):
        parse(STOPS, [], {"T_NUMBER": "0x10"})


@pytest.mark.parametrize(
    ("text", "on"),
    [("", True), ("yes", True), ("1", True), ("-1", True), ("0", False), ("no", False), ("00", False), ("1e3", False)],
)
def test_flag_variables(text, on):
    assert flag_is_on(text) is on


def test_help_usage_version():
    with pytest.raises(RemoteAnswer) as caught:
        parse(STOPS, ["--he"])
    text = str(caught.value)
    assert text == help_text(STOPS)
    assert text.startswith("Usage: tool [OPTIONS] x\n")
    assert "  -H, --hold                  hold it" in text
    assert "not supported yet: --gpus --gpu-bind" in text
    with pytest.raises(RemoteAnswer, match=r"^slurm 25.05.0$"):
        parse(STOPS, ["-V", "--foo"])
    with pytest.raises(RemoteAnswer, match=r"^Usage: tool \[--name=value\]"):
        parse(STOPS, ["--usage"])


def test_a_table_that_uses_h_keeps_it():
    squeue = Command("squeue", "", (Option("noheader", "h"),))
    assert parse(squeue, ["-h"]).values == {"noheader": True}


@given(st.lists(st.text(max_size=6), max_size=6))
def test_any_line_is_read_or_refused(argv):
    try:
        line = parse(MIXES, argv)
    except (CommandError, RemoteAnswer):
        return
    assert all(word in argv for word in line.positional)


@given(st.lists(st.text(max_size=6), max_size=4))
def test_what_stands_behind_two_dashes_is_never_an_option(words):
    assert parse(MIXES, ["-H", "--", *words]) == ({"hold": True}, words)


def test_an_option_of_our_own_takes_no_abbreviation_away() -> None:
    command = Command("tool", "", (Option("licenses", "", YES), Option("lint", own=True)))
    assert parse(command, ["--l=a"]).values == {"licenses": "a"}
    assert parse(command, ["--lint"]).values == {"lint": True}
    with pytest.raises(CommandError, match="unrecognized option '--lin'"):
        parse(command, ["--lin"])
