"""Requests without rare fields are kept small: nobody may see a difference."""

import msgspec
import pytest

from ctld.core.records.compact_request import COMMON, CompactRequest, compact, read_request, whole, with_changes
from ctld.core.records.request import JobRequest

USUAL = JobRequest(name="train", partitions=("debug",), ntasks=4, gres_per_node=(("gpu", "", 2),), umask=0o22)
RARE = {field.name: field.default for field in msgspec.structs.fields(JobRequest) if field.name not in COMMON}


def test_a_usual_request_is_small_and_the_same() -> None:
    small = compact(USUAL)
    assert type(small) is CompactRequest and small == USUAL and small == USUAL and hash(small) == hash(USUAL)
    assert {small: 1}[USUAL] == 1
    for name in JobRequest.__struct_fields__:
        assert getattr(small, name) == getattr(USUAL, name)
    assert small.gres() == USUAL.gres() and small.has_owner() == USUAL.has_owner()
    assert whole(small) == USUAL and type(whole(small)) is JobRequest
    assert msgspec.json.encode(small) == msgspec.json.encode(USUAL)
    assert msgspec.msgpack.encode(small) == msgspec.msgpack.encode(USUAL)
    assert small != "other" and small != with_changes(small, name="other")


@pytest.mark.parametrize("name", sorted(RARE))
def test_a_rare_field_makes_it_whole_and_back(name: str) -> None:
    default = RARE[name]
    value = {bool: True, int: 7, str: "x", bytes: b"x", tuple: (("a", "b", 1),)}.get(type(default), 7)
    rare = with_changes(compact(USUAL), **{name: not default if isinstance(default, bool) else value})
    assert type(rare) is JobRequest and rare != compact(USUAL) and getattr(rare, name) != default
    assert with_changes(rare, **{name: default}) == USUAL
    assert type(with_changes(rare, **{name: default})) is CompactRequest


def test_what_was_written_is_read_as_it_is_kept() -> None:
    assert type(read_request(msgspec.json.encode(USUAL))) is CompactRequest
    rare = msgspec.structs.replace(USUAL, cron="0 * * * *")
    assert read_request(msgspec.json.encode(rare)) == rare
    assert read_request(b'{"name":"old","what_an_older_version_knew":1}').name == "old"
    with pytest.raises(msgspec.ValidationError):
        read_request(b'{"name":1}')
