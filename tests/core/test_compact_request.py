"""Requests without rare fields are kept small: nobody may see a difference."""

import msgspec
import pytest

from ctld.core.records.compact_request import (
    COMMON,
    FREQUENT,
    CompactRequest,
    SmallRequest,
    compact,
    read_request,
    whole,
    with_changes,
)
from ctld.core.records.request import JobRequest

USUAL = JobRequest(name="train", partitions=("debug",), ntasks=4, gres_per_node=(("gpu", "", 2),), umask=0o22)
OFTEN = msgspec.structs.replace(USUAL, array="1-3", wckey="w")
RARE = {field.name: field.default for field in msgspec.structs.fields(JobRequest) if field.name not in COMMON}


@pytest.mark.parametrize(("request_", "form"), [(USUAL, SmallRequest), (OFTEN, CompactRequest)])
def test_a_usual_request_is_small_and_the_same(request_: JobRequest, form: type) -> None:
    small = compact(request_)
    assert type(small) is form and small == request_ and request_ == small and hash(small) == hash(request_)
    assert {small: 1}[request_] == 1
    for name in JobRequest.__struct_fields__:
        assert getattr(small, name) == getattr(request_, name)
    assert small.gres() == request_.gres() and small.has_owner() == request_.has_owner()
    assert whole(small) == request_ and type(whole(small)) is JobRequest
    assert msgspec.json.encode(small) == msgspec.json.encode(request_)
    assert msgspec.msgpack.encode(small) == msgspec.msgpack.encode(request_)
    assert small != "other" and small != with_changes(small, name="other")


@pytest.mark.parametrize("name", sorted(COMMON - FREQUENT))
def test_a_field_that_many_set_changes_the_form_and_not_what_is_equal(name: str) -> None:
    default = getattr(USUAL, name)
    value = (
        not default if isinstance(default, bool) else {int: 7, bytes: b"x", str: "x"}.get(type(default), (("a", 1),))
    )
    small = compact(USUAL)
    often = with_changes(small, **{name: value})
    assert type(often) is CompactRequest and often != small and small != often and getattr(often, name) == value
    again = with_changes(often, **{name: default})
    assert again == small and small == again and hash(again) == hash(small) and again == USUAL


@pytest.mark.parametrize("name", sorted(RARE))
def test_a_rare_field_makes_it_whole_and_back(name: str) -> None:
    default = RARE[name]
    value = {bool: True, int: 7, str: "x", bytes: b"x", tuple: (("a", "b", 1),)}.get(type(default), 7)
    rare = with_changes(compact(USUAL), **{name: not default if isinstance(default, bool) else value})
    assert type(rare) is JobRequest and rare != compact(USUAL) and getattr(rare, name) != default
    assert with_changes(rare, **{name: default}) == USUAL
    assert type(with_changes(rare, **{name: default})) is SmallRequest


def test_what_was_written_is_read_as_it_is_kept() -> None:
    for form, written in ((SmallRequest, USUAL), (CompactRequest, OFTEN)):
        read = read_request(msgspec.json.encode(written))
        assert type(read) is form and read == written
    rare = msgspec.structs.replace(USUAL, cron="0 * * * *")
    assert read_request(msgspec.json.encode(rare)) == rare
    assert read_request(b'{"name":"old","what_an_older_version_knew":1}').name == "old"
    with pytest.raises(msgspec.ValidationError):
        read_request(b'{"name":1}')
