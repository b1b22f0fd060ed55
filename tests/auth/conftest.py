"""Controllers for tests: not started, started, and one whose certificate is for another host."""

from pathlib import Path

import pytest

from tests.auth.tiny_controller import TinyController


@pytest.fixture
def tiny(tmp_path: Path) -> TinyController:
    """Not started yet."""
    return TinyController(tmp_path)


@pytest.fixture
def started(tiny: TinyController):
    tiny.start()
    yield tiny
    tiny.stop()


@pytest.fixture
def misnamed(tmp_path: Path):
    """A controller whose certificate is for another host than the one that it serves on."""
    controller = TinyController(tmp_path, hosts=("elsewhere.example",))
    controller.start()
    yield controller
    controller.stop()
