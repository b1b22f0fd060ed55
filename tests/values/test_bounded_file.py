"""Files of limited size: what they contain, or why they are not read."""

import errno
import io

import pytest

from penstock.boundedfile import read_all, read_bounded


def test_a_file_up_to_its_limit(tmp_path):
    path = tmp_path / "list"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as caught:
        read_bounded(path, 4)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(("path", "number"), [("/nowhere", errno.ENOENT), ("/", errno.EISDIR)])
def test_what_cannot_be_read_is_named_as_by_the_system(path, number):
    with pytest.raises(OSError) as caught:
        read_bounded(path, 1)
    assert caught.value.errno == number


def test_a_device_without_an_end_is_left_after_the_limit():
    with pytest.raises(OSError, match="larger than 1048576 bytes"):
        read_bounded("/dev/zero", 1024 * 1024)


def test_the_rest_of_an_open_file():
    file = io.BytesIO(b"12345")
    file.read(2)
    assert read_all(file, 3) == b"345"
