"""What packaging/observability/logs ships reads what daemons write: the fields, the form of the time, the paths.

The programs themselves (Fluent Bit, Vector, Alloy, Promtail, Loki) are not part of the tests.
"""

import io
import json
import logging
import re
from datetime import datetime
from pathlib import Path

import pytest
import tidytree as tree
import yaml

from penstock.logs.events import BY_DAEMON, NAMED
from penstock.logs.structured import FIELD_CHARS_MAX, TEXT_CHARS_MAX, JsonFormatter
from tools.logevents import PAGE, job_words

FOLDER = tree.ROOT / "packaging" / "observability" / "logs"
LABELS = ["daemon", "level", "event"]
PUSH = "http://loki:3100/loki/api/v1/push"
#: What Loki takes, and the others are told to read.
LINE_BYTES_MAX = 256 * 1024


def line(*arguments: object, text: str = "node %s: registration refused: %s") -> dict[str, object]:
    """A line of the log."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("ctld"))
    log = logging.Logger("x")
    log.addHandler(handler)
    try:
        raise ValueError(*arguments)
    except ValueError:
        log.warning(text, *arguments, exc_info=True)
    found: dict[str, object] = json.loads(stream.getvalue())
    return found


def sections(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Fluent Bit's classic form: [SECTION], then a key and a value in each line."""
    found: list[tuple[str, dict[str, str]]] = []
    for text in path.read_text().splitlines():
        if text.startswith("["):
            found.append((text.strip("[]"), {}))
        elif text.strip() and not text.startswith("#"):
            assert text.startswith("    ") and found, text
            key, value = text.split(maxsplit=1)
            assert key.lower() not in found[-1][1], text
            found[-1][1][key.lower()] = value
    return found


def test_a_line_has_the_labels_and_its_time() -> None:
    found = line("n1", "x")
    assert found.keys() >= {*LABELS, "time", "message"}


def test_fluent_bit_reads_lines_and_sends_the_labels() -> None:
    (service, tail, loki), ((kind, parser),) = sections(FOLDER / "fluent-bit.conf"), sections(FOLDER / "parsers.conf")
    assert (service[0], tail[0], loki[0], kind) == ("SERVICE", "INPUT", "OUTPUT", "PARSER")
    assert service[1]["parsers_file"] == "parsers.conf" and tail[1]["parser"] == parser["name"]
    assert (tail[1]["name"], loki[1]["name"], tail[1]["tag"]) == ("tail", "loki", loki[1]["match"])
    assert [label.strip() for label in loki[1]["label_keys"].split(",")] == [f"${label}" for label in LABELS]
    assert (parser["format"], parser["time_key"]) == ("json", "time")
    time = str(line("n1", "x")["time"])
    datetime.strptime(time, parser["time_format"].replace("%L", "%f"))


def test_vector_reads_lines_and_sends_the_labels() -> None:
    conf = yaml.safe_load((FOLDER / "vector.yaml").read_text())
    [(source, read)], [(transform, remap)], [(_, sink)] = (
        conf[kind].items() for kind in ("sources", "transforms", "sinks")
    )
    assert (read["type"], remap["type"], sink["type"]) == ("file", "remap", "loki")
    assert (remap["inputs"], sink["inputs"]) == ([source], [transform])
    assert sink["labels"] == {label: f"{{{{ {label} }}}}" for label in LABELS} and PUSH.startswith(sink["endpoint"])
    assert set(re.findall(r"(?<=[(\s])\.(\w+)", remap["source"])) == {"message", "time", "timestamp"}


def test_promtail_and_alloy_read_lines_and_send_the_labels() -> None:
    conf = yaml.safe_load((FOLDER / "promtail.yaml").read_text())
    [job] = conf["scrape_configs"]
    stages = {key: value for stage in job["pipeline_stages"] for key, value in stage.items()}
    assert stages["json"]["expressions"] == {name: name for name in (*LABELS, "time")}
    assert stages["timestamp"] == {"source": "time", "format": "RFC3339Nano"} and list(stages["labels"]) == LABELS
    assert [client["url"] for client in conf["clients"]] == [PUSH]
    alloy = (FOLDER / "alloy.alloy").read_text()
    assert alloy.count("{") == alloy.count("}") and f'"{PUSH}"' in alloy and "RFC3339Nano" in alloy
    assert "expressions = {" + ", ".join(f'{name} = "{name}"' for name in (*LABELS, "time")) + "}" in alloy
    assert "values = {" + ", ".join(f'{label} = ""' for label in LABELS) + "}" in alloy
    named = set(re.findall(r'^([\w.]+) "(\w+)" \{', alloy, re.MULTILINE))
    for kind, name in re.findall(r"(?:=|\[)\s*((?:loki|local)\.[\w.]+?)\.(\w+)\.(?:receiver|targets)", alloy):
        assert (kind, name) in named


def test_loki_listens_where_the_others_send() -> None:
    conf = yaml.safe_load((FOLDER / "loki.yaml").read_text())
    assert f":{conf['server']['http_listen_port']}/" in PUSH


@pytest.mark.parametrize("name", ["fluent-bit.conf", "vector.yaml", "promtail.yaml", "alloy.alloy"])
def test_all_read_the_folder_that_is_rotated(name: str) -> None:
    files = "/var/log/penstock/*.log"
    assert files in (FOLDER / name).read_text() and files in (tree.ROOT / "packaging" / "logrotate").read_text()


@pytest.mark.parametrize("char", ["x", "\u00e9", "\U0001f600", "\x1b", "\udc9b"], ids=ascii)
def test_the_longest_line_is_below_the_limits_of_the_shippers(char: str) -> None:
    text = char * (TEXT_CHARS_MAX + FIELD_CHARS_MAX)
    assert len(json.dumps(line(text, text))) < LINE_BYTES_MAX


def test_the_page_names_fields_and_events_that_exist() -> None:
    text = PAGE.read_text()
    events = {event.name for table in BY_DAEMON.values() for event in table.values()} | NAMED.keys() | job_words()
    fields = {field for table in BY_DAEMON.values() for event in table.values() for field in event.fields}
    examples = [json.loads(found) for found in re.findall(r"^\{\"time.*$", text, re.MULTILINE)]
    assert len(examples) == 2 and {example["event"] for example in examples} <= events
    for found in re.findall(r"PENSTOCK_EVENT=(\w+)", text):
        assert found in events
    for found in re.findall(r"PENSTOCK_(?!EVENT|LOG)([A-Z]+)=", text):
        assert found.lower() in fields | {"job"}
