"""Turns with peers: who is left out, and why. Nothing is timed."""

import pytest

from bench import peers
from bench.measure import CannotMeasure


def failing(after: int):
    left = iter([1.0] * after)

    def turn():
        for rate in left:
            return rate
        raise CannotMeasure("it has ended")

    return turn


def test_all_sides_take_turns():
    asked: list[str] = []

    def side(name: str) -> peers.Turn:
        return lambda: asked.append(name) or 2.0

    sides = {name: side(name) for name in ("penstock", "slurm")}
    assert peers.by_turns(sides, 2, {}) == {"penstock": [2.0, 2.0], "slurm": [2.0, 2.0]}
    assert asked == ["penstock", "slurm", "penstock", "slurm"]


def test_a_peer_that_fails_is_left_out_with_its_reason():
    reasons: dict[str, str] = {}
    assert peers.by_turns({"penstock": lambda: 3.0, "slurm": failing(1)}, 3, reasons) == {"penstock": [3.0] * 3}
    assert reasons == {"slurm": "it has ended"}


def test_without_ours_there_is_no_comparison():
    with pytest.raises(CannotMeasure):
        peers.by_turns({"penstock": failing(1), "slurm": lambda: 1.0}, 2, {})


def test_hyperqueue_that_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "HYPERQUEUE", tmp_path / "python")
    with pytest.raises(CannotMeasure, match="make peer-tools"):
        peers.hyperqueue_turn(None, 1, 1)
