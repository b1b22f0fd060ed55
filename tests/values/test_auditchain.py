"""T17: whatever is done to a copy of the audit log, the check names the first record that is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.auditchain import GENESIS, ChainLink, Head, chained, check, line_of, link_of


def lines(number: int, start: str = GENESIS) -> list[str]:
    made, before = [], start
    for record_id in range(1, number + 1):
        text = f'{{"action":"cancel job","id":{record_id},"objects":["job {record_id}"]}}'
        now = chained(before, text)
        made.append(line_of(text, before, now))
        before = now
    return made


def verdict(copy: list[str], head: Head | None = None) -> str | None:
    links = [link_of(line, f"line {number}") for number, line in enumerate(copy, 1)]
    assert all(link is not None for link in links)
    return check([link for link in links if link], {link.record_id for link in links if link}, head)


def head_of(copy: list[str]) -> Head:
    link = link_of(copy[-1])
    assert link is not None
    return Head(link.record_id, link.hash)


GOOD = lines(8)
HEAD = head_of(GOOD)


def test_a_whole_copy():
    assert verdict(GOOD, HEAD) is None
    assert verdict(GOOD[3:], HEAD) is None  # what was rotated away before
    assert verdict(lines(9), HEAD) is None  # written since the controller was asked


def edited(line: str) -> str:
    return line.replace("cancel", "CANCEL", 1)


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        ([*GOOD[:4], edited(GOOD[4]), *GOOD[5:]], "record 5 (line 5) was changed"),
        ([edited(GOOD[0]), *GOOD[1:]], "record 1 (line 1) was changed"),
        ([*GOOD[:7], edited(GOOD[7])], "record 8 (line 8) was changed"),
        ([*GOOD[:4], *GOOD[5:]], "record 5 is missing: after record 4 comes record 6 (line 5)"),
        ([*GOOD[:2], *GOOD[5:]], "records 3 to 5 are missing"),
        ([*GOOD[:3], GOOD[4], GOOD[3], *GOOD[5:]], "record 5 (line 4) is out of order"),
        ([*GOOD[:5], GOOD[2], *GOOD[5:]], "record 3 (line 6) is repeated"),
        (GOOD[:6], "records 7 to 8 are missing at the end"),
        (GOOD[:7], "record 8 is missing at the end"),
    ],
)
def test_what_is_wrong_is_named(copy, said):
    assert said in (verdict(copy, HEAD) or "")


def test_a_record_that_fits_itself_but_not_the_chain():
    text = '{"action":"nothing","id":5}'
    forged = line_of(text, HEAD.hash, chained(HEAD.hash, text))
    found = verdict([*GOOD[:4], forged, *GOOD[5:]], HEAD)
    assert found == "record 5 (line 5) does not follow the one before it: one of the two was replaced"


def test_a_chain_that_was_made_anew():
    """Every hash fits; only the controller knows better."""
    forged, before = GOOD[:4], link_of(GOOD[3])
    assert before is not None
    previous = before.hash
    for record_id in range(5, 9):
        text = f'{{"action":"nothing","id":{record_id}}}'
        now = chained(previous, text)
        forged.append(line_of(text, previous, now))
        previous = now
    assert verdict(forged) is None
    assert "rebuilt" in (verdict(forged, HEAD) or "")


def test_records_without_what_stands_before_them():
    """As the controller lists them."""
    links = [ChainLink(link.record_id, link.text, link.hash) for line in GOOD if (link := link_of(line))]
    assert check(links, (), HEAD) is None
    links[3] = links[3]._replace(text='{"id":4}')
    assert check(links, (), HEAD) == "record 4 was changed: its hash does not fit what it says"


@given(st.integers(0, 7), st.integers(0, 400), st.characters(codec="ascii"))
def test_any_edit_of_any_line_is_found(index, at, character):
    line = GOOD[index]
    at %= len(line)
    if line[at] == character:
        return
    changed = line[:at] + character + line[at + 1 :]
    if link_of(changed) is None:
        return  # it is no record any more, which the command says
    assert (
        f"record {index + 1}" in (verdict([*GOOD[:index], changed, *GOOD[index + 1 :]], HEAD) or "")
        or ("missing" in (verdict([*GOOD[:index], changed, *GOOD[index + 1 :]], HEAD) or ""))
        or "stands" in (verdict([*GOOD[:index], changed, *GOOD[index + 1 :]], HEAD) or "")
    )


@given(st.permutations(range(8)))
def test_any_other_order_is_found(order):
    found = verdict([GOOD[i] for i in order], HEAD)
    assert (found is None) == (list(order) == list(range(8)))


@pytest.mark.parametrize(
    "text", ["", "{}", "junk", GOOD[0][:-1], GOOD[0][1:], '{"id":"x"' + GOOD[0][GOOD[0].index(',"prev"') :]]
)
def test_what_is_no_record(text):
    assert link_of(text) is None
