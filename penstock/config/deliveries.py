"""Reads who gets events: JobCompType with JobCompLoc and JobCompParams, the file of PenstockWebhooks, PenstockTraceUrl.

    - name: chat                            # of the receiver: in the log, and in `penstock db dead-letters`
      url: https://chat.example.org/hook
      secret_file: /etc/penstock/chat.key   # its contents sign each request
      events: [job.failed, job.timeout, node]
      ca_file: /etc/ssl/own.pem             # instead of the machine's authorities
      timeout: 10                           # seconds for a request

A URL is an administrator's word, so it may name any host. One of a webhook is https, or on this machine.
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from penstock.config.lines import Values
from penstock.config.problem import Findings, Where
from penstock.config.yamlfile import read_yaml
from penstock.values.config import Webhook
from penstock.values.fields import Fields
from penstock.values.text import shown
from penstock.values.urls import place_without_secret

#: Slurm's default of jobcomp/filetxt.
FILE_TEXT_PATH: Final = "/var/log/slurm_jobcomp.log"
WEBHOOKS_MAX: Final = 16
EVENTS_MAX: Final = 64
TIMEOUT_MAX_S: Final = 60
KINDS: Final = ("job", "node", "gpu", "reservation", "limit")
#: Words of JobCompParams by kind, with what each takes. Of Kafka's all but the topic are Slurm's for a queue in memory: they have
#: no effect, since every completion waits in the database until it is acknowledged.
_TIME: Final = (re.compile(r"[1-9]|[1-5]\d|60"), f"1 to {TIMEOUT_MAX_S} seconds")
_NUMBER: Final = (re.compile(r"-1|\d{1,9}"), "a number")
PARAMETERS: Final = {
    "jobcomp/elasticsearch": {"timeout": _TIME, "connect_timeout": _TIME},
    "jobcomp/kafka": {
        "topic": (re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}"), "at most 249 letters, digits, '.', '_' and '-'"),
        "flush_timeout": _NUMBER,
        "poll_interval": _NUMBER,
        "requeue_on_msg_timeout": (re.compile(""), "no value"),
    },
}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EVENT: Final = re.compile(rf"({'|'.join(KINDS)})(\.[a-z_]{{1,32}})?")
_KEYS: Final = ("name", "url", "secret_file", "events", "ca_file", "timeout")


def read_deliveries(values: Values, findings: Findings) -> tuple[Fields, tuple[str, ...]]:
    """Returns the fields of `Config` that slurm.conf does not set directly, and the files read."""
    fields: Fields = {}
    if kind := values.value("job_comp_type", ""):
        where = values["job_comp_type"].where
        fields["job_comp_loc"] = _job_comp_place(kind, values.value("job_comp_loc", ""), where, findings)
        for word, text in values.value("job_comp_params", ()):
            _check_parameter(word, text, kind, values["job_comp_params"].where, findings)
    if (url := values.value("trace_url", "")) and (why := _why_no_url(url)):
        findings.error(
            values["trace_url"].where, f"PenstockTraceUrl: {why}; write PenstockTraceUrl=http://HOST:4318/v1/traces"
        )
    path = values.value("webhooks_file", "")
    if not path:
        return fields, ()
    where = Where(path, 0)
    content = read_yaml(path, where, findings)
    if not isinstance(content, list) or len(content) > WEBHOOKS_MAX:
        if content is not None:
            findings.error(where, f"expected a list of at most {WEBHOOKS_MAX} webhooks: - name: NAME")
        return fields, (path,)
    hooks = [hook for number, one in enumerate(content, 1) if (hook := _webhook(one, number, where, findings))]
    for name in {hook.name for hook in hooks if sum(other.name == hook.name for other in hooks) > 1}:
        findings.error(where, f"webhook {name} is given twice")
    return fields | {"webhooks": tuple(hooks)}, (path,)


def _job_comp_place(kind: str, given: str, where: Where, findings: Findings) -> str:
    """Returns JobCompLoc completed, with an error in `findings` if it is no place of this kind."""
    if kind == "jobcomp/elasticsearch":
        url = given if "://" in given or not given else f"http://{given}"
        if why := _why_no_url(url):
            findings.error(where, f"JobCompLoc: {why}; write JobCompLoc=http://HOST:PORT/INDEX/_doc")
        return url
    if kind == "jobcomp/filetxt" and given.lower() in ("", "(null)"):
        return FILE_TEXT_PATH
    if not given.startswith("/"):
        findings.error(where, f"JobCompLoc: {kind} needs an absolute path, not {shown(place_without_secret(given))}")
    return given


def _check_parameter(word: str, text: str, kind: str, where: Where, findings: Findings) -> None:
    form, expected = PARAMETERS.get(kind, {}).get(word, (None, ""))
    if form is None:
        findings.warn(where, f"JobCompParams: {shown(word)} has no effect with {kind}")
    elif not form.fullmatch(text):
        findings.error(where, f"JobCompParams: {word}: expected {expected}, not {shown(text)}")


def _why_no_url(url: str) -> str:
    """Returns why nothing can be sent to a URL; "" = it can. The URL may be a secret, and is not repeated."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        return "not a URL: expected http://HOST:PORT/... or https://HOST:PORT/..."
    if found.scheme not in ("http", "https") or not found.hostname or port == 0:
        return "expected http://HOST/... or https://HOST/..."
    if "@" in found.netloc:
        return "a URL with a password is refused, since all users can read it"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it has characters that may not be in a URL"
    return ""


def _webhook(one: object, number: int, where: Where, findings: Findings) -> Webhook | None:
    """Reads an entry; None with an error in `findings`."""
    if not isinstance(one, dict):
        findings.error(where, f"webhook no. {number}: expected name:, url: and secret_file:")
        return None
    name = one.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        findings.error(where, f"webhook no. {number}: name: write at most 64 letters, digits, '.', '_' and '-'")
        return None
    before = findings.number()

    def fail(text: str) -> None:
        findings.error(where, f"webhook {name}: {text}")

    for key in one:
        if key not in _KEYS:
            fail(f"unknown key {shown(str(key))}; known: {', '.join(_KEYS)}")
    url = one.get("url")
    if why := _why_no_url(url) if isinstance(url, str) else "it is missing":
        fail(f"url: {why}")
    elif urlsplit(str(url)).scheme == "http" and urlsplit(str(url)).hostname not in _LOOPBACK:
        fail("url: write https:// (http:// is for this machine alone)")
    timeout_s = one.get("timeout", 10)
    if type(timeout_s) is not int or not 1 <= timeout_s <= TIMEOUT_MAX_S:
        fail(f"timeout: expected 1 to {TIMEOUT_MAX_S} seconds, not {shown(str(timeout_s))}")
    events = _events(one.get("events", []), fail)
    paths = [str(one.get(key, "")) for key in ("secret_file", "ca_file")]
    for key, path in zip(("secret_file", "ca_file"), paths, strict=True):
        if (path or key == "secret_file") and not path.startswith("/"):
            fail(f"{key}: expected an absolute path, not {shown(path)}")
    if findings.number() != before or type(timeout_s) is not int:
        return None
    return Webhook(name, str(url), paths[0], events, paths[1], timeout_s)


def _events(given: object, fail: Callable[[str], None]) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > EVENTS_MAX:
        fail(f"events: expected a list of at most {EVENTS_MAX}")
        return ()
    words = tuple(str(word).lower() for word in given)
    for word in words:
        if not _EVENT.fullmatch(word):
            fail(f"events: expected {', '.join(KINDS)}, or one with a state as job.failed, not {shown(word)}")
    return words
