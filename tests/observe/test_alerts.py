"""Each alert that is shipped fires in a played fault, not before its time, and is silent in a healthy cluster."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MACHINE_LACKS
from tests.observe.alertplays import FAULTS, HEALTHY, MINUTES, play, with_fault
from tests.observe.test_observability import RULES, rules

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason=f"{MACHINE_LACKS} promtool")


def minutes(text: str) -> int:
    return int(text[:-1]) * {"m": 1, "h": 60, "d": 24 * 60}[text[-1]]


def promtool(folder: Path, played: dict[str, Any]) -> str:
    """Plays it; returns what promtool found, empty if all is as it should be."""
    assert PROMTOOL is not None
    (folder / "play.yml").write_text(yaml.safe_dump({"rule_files": [str(RULES)], **played}, sort_keys=False))
    done = subprocess.run([PROMTOOL, "test", "rules", folder / "play.yml"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_a_healthy_cluster_is_silent(tmp_path: Path) -> None:
    moments = [10, 60, 24 * 60, MINUTES]
    silent = [
        {"eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": []}
        for rule in rules()
        for minute in moments
    ]
    assert promtool(tmp_path, play(HEALTHY, silent, 10)) == ""


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_fires_in_its_fault_and_not_before_its_time(tmp_path: Path, rule: dict[str, Any]) -> None:
    name, fault = rule["alert"], FAULTS[rule["alert"]]
    wait = minutes(rule["for"])
    pace = max(1, wait // 30)
    annotations = {"summary": fault.summary, "runbook": rule["annotations"]["runbook"]}
    fired = {"exp_labels": {**fault.labels, **rule["labels"]}, "exp_annotations": annotations}
    asked = [{"eval_time": f"{fault.since_minute + wait + 2 * pace}m", "alertname": name, "exp_alerts": [fired]}]
    if (early := fault.since_minute + wait - 2 * pace) > 0:
        asked.append({"eval_time": f"{early}m", "alertname": name, "exp_alerts": []})
    assert promtool(tmp_path, play(with_fault(fault), asked, pace)) == ""


def test_each_fault_is_of_an_alert() -> None:
    assert sorted(FAULTS) == sorted(rule["alert"] for rule in rules())
