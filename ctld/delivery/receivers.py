"""The receivers of events: a text file, a program, a server.

A receiver takes one event at a time. It raises `NotDelivered`, which says whether another attempt may help: REFUSED = never,
FAILED = perhaps, and the event may be the cause, AWAY = it is not the event's fault. deliverer.py decides what follows.

Rules
    - The file's path, the program and the URL are the administrator's. What a job's user has written is only in values: of
      a line, of variables, of a body.
    - The program: exactly Slurm's variables, no arguments; a session of its own, killed at PROGRAM_TIMEOUT_S; never as root
      (runtime/siteuser.py).
    - A request is sent by a process of its own (poster.py; kafkaposter.py for Kafka), which has a time limit, and is killed if
      it does not keep it.
    - A webhook's body is signed: HMAC-SHA256 with the contents of its secret file over `TIME.BODY`. The file is read for each
      attempt, so that a changed one applies at once; it belongs to root, SlurmUser or the controller's user and is closed to all
      others.
"""

import asyncio
import errno
import hashlib
import hmac
import os
import stat
import time
from concurrent.futures import Executor
from enum import Enum
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from ctld.core.records.effects import OutboxRow
from ctld.delivery import kafkaposter, poster
from ctld.delivery.completion import Completion, document, text_line, variables
from ctld.delivery.outbox import COMPLETION
from ctld.runtime.helperprocess import HelperFailed, HelperProcess
from ctld.runtime.lookups import LookupFailed, Lookups
from ctld.runtime.programs import PATH
from ctld.runtime.siteprograms import Program, run
from ctld.runtime.siteuser import NoIdentity, site_user
from penstock.config.kafkafile import read_properties
from penstock.config.shown import find_uid
from penstock.config.sitefile import SiteFileError
from penstock.threads import started_pool
from penstock.values.config import Config, Webhook
from penstock.values.text import clean_line
from penstock.values.urls import server_of

#: Time for a program, and for a request unless it is configured.
PROGRAM_TIMEOUT_S: Final = 60.0
REQUEST_TIMEOUT_S: Final = 10
#: Time for the start of the process that sends, beyond that of a request; then it is killed.
START_S: Final = 20.0
#: Of a body; names of files and nodes are its largest parts.
BODY_BYTES_MAX: Final = 256 * 1024
SECRET_BYTES: Final = range(16, 4097)
CA_BYTES_MAX: Final = 1024 * 1024
#: The end of a file in which a line is looked for that a killed controller has written: some 200 long ones (UNKEPT_MAX and a
#: page of deliverer.py).
TAIL_BYTES: Final = 4 * 1024 * 1024
#: A path or query from this length on may be a secret, and is removed from what a server answers.
REPEATED_CHARS_MIN: Final = 8
#: Answers after which the same request would be refused again.
_REFUSALS: Final = frozenset((400, 410, 413, 415, 422))
#: Answers of a server that cannot work at present.
_ABSENCES: Final = frozenset((408, 425, 429, 502, 503, 504))


class Retry(Enum):
    """Whether another attempt may help."""

    REFUSED = "refused"
    FAILED = "failed"
    AWAY = "away"


class NotDelivered(Exception):
    """An event was not taken. The text says why."""

    def __init__(self, why: str, retry: Retry) -> None:
        super().__init__(why)
        self.retry = retry


class EventReceiver(Protocol):
    """`name` is unique, and keeps its place in the outbox; `kinds` are those of its events."""

    name: str
    kinds: frozenset[str]

    def wants(self, event: OutboxRow) -> bool:
        """Whether it takes this event of its kinds."""

    async def deliver(self, event: OutboxRow) -> None:
        """Returns when the event is taken. Raises NotDelivered."""

    def close(self) -> None:
        """Ends its processes and threads."""


class TextFile:
    """jobcomp/filetxt. A line that a controller wrote before it was killed is not written again."""

    name = "jobcomp"
    kinds = frozenset((COMPLETION,))

    def __init__(self, config: Config) -> None:
        self._path = config.job_comp_loc
        self._thread: Executor = started_pool(1, "jobcomp")
        self._is_new = True  # nothing was written since the start

    def wants(self, event: OutboxRow) -> bool:
        """All of them."""
        return True

    async def deliver(self, event: OutboxRow) -> None:
        """Appends the job's line."""
        line = text_line(_job(event)).encode() + b"\n"
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._append, line)
        except OSError as error:
            raise NotDelivered(f"{self._path}: {error.strerror}", Retry.AWAY) from error

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o644)  # opened each time: a rotated one is left alone
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(0, "not a regular file")
            size = os.fstat(fd).st_size
            if self._is_new and size:
                tail = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
                if not tail.endswith(b"\n"):  # truncated by a crash
                    os.write(fd, b"\n")
                if b"\n" + line in b"\n" + tail:
                    return
            if (written := os.write(fd, line)) < len(line):
                os.ftruncate(fd, os.fstat(fd).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fdatasync(fd)
            self._is_new = False
        finally:
            os.close(fd)

    def close(self) -> None:
        """Does not wait for a file system that hangs."""
        self._thread.shutdown(wait=False)


class SiteProgram:
    """jobcomp/script."""

    name = "jobcomp"
    kinds = frozenset((COMPLETION,))

    def __init__(self, config: Config, lookups: Lookups) -> None:
        self._config = config
        self._lookups = lookups

    def wants(self, event: OutboxRow) -> bool:
        """All of them."""
        return True

    async def deliver(self, event: OutboxRow) -> None:
        """Runs the program to its end."""
        path, config = self._config.job_comp_loc, self._config
        job = _job(event)
        try:
            identity = await site_user(self._lookups, config.job_comp_user, "PenstockJobCompUser")
        except (NoIdentity, LookupFailed) as error:
            raise NotDelivered(f"{path}: {error}", Retry.AWAY) from error
        env = variables(job) | {"PATH": PATH}
        program = Program(
            [path], env, PROGRAM_TIMEOUT_S, f"job {job.job_id}: jobcomp/script", identity, ends_group=True
        )
        ending = await run(program)
        if ending.failure:
            raise NotDelivered(ending.failure, Retry.FAILED if ending.is_started else Retry.AWAY)

    def close(self) -> None:
        """Has nothing of its own: a program that runs ends with its task."""


class Server:
    """A receiver over HTTP; `url`, `timeout_s`."""

    name: str
    kinds: frozenset[str]

    def __init__(self, url: str, timeout_s: int) -> None:
        self._url = url
        self._shown = server_of(url)  # the rest of it may be a secret, as with receivers of chat services
        self._timeout_s = timeout_s
        self._poster = HelperProcess(poster.__file__, timeout_s + START_S, poster.ANSWER_BYTES_MAX)
        self._thread: Executor = started_pool(1, "delivery")

    async def post(self, body: bytes, headers: dict[str, str], ca: str = "") -> None:
        """Sends a body; returns when the server has taken it. Raises NotDelivered."""
        if len(body) > BODY_BYTES_MAX:
            raise NotDelivered(f"{len(body)} bytes; at most {BODY_BYTES_MAX} are sent", Retry.REFUSED)
        question = {
            "url": self._url, "headers": {"Content-Type": "application/json", "User-Agent": "penstock", **headers},
            "timeout_s": self._timeout_s, "ca": ca,
        }  # fmt: skip
        asked = msgspec.json.encode(question) + poster.BODY_FOLLOWS + body
        try:
            data = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, asked)
        except (HelperFailed, OSError) as error:
            raise NotDelivered(f"{self._shown}: {error}", Retry.AWAY) from error
        answer: dict[str, object] = msgspec.json.decode(data)
        if "error" in answer:
            raise NotDelivered(f"{self._shown}: {clean_line(self._without_path(str(answer['error'])))}", Retry.AWAY)
        status = int(str(answer["status"]))
        if 200 <= status < 300:
            return
        text_of = " ".join(clean_line(self._without_path(str(answer["text"])).replace("\n", " ")).split())
        why = f"{self._shown}: HTTP {status}" + (
            ", redirects are not followed" if 300 <= status < 400 else f" {text_of}"
        )
        retry = Retry.REFUSED if status in _REFUSALS else Retry.AWAY if status in _ABSENCES else Retry.FAILED
        raise NotDelivered(why.rstrip(), retry)

    def _without_path(self, text: str) -> str:
        """The words of a server that repeats what it was asked for."""
        url = urlsplit(self._url)
        for part in (f"{url.path}?{url.query}", url.path, url.query):
            text = text.replace(part, "...") if len(part) >= REPEATED_CHARS_MIN else text
        return text

    def _ask(self, asked: bytes) -> bytes:
        return self._poster.ask(asked)

    def close(self) -> None:
        """Ends the process that sends; a request in progress fails."""
        self._poster.close()
        self._thread.shutdown(wait=False)


class Elasticsearch(Server):
    """jobcomp/elasticsearch."""

    name = "jobcomp"
    kinds = frozenset((COMPLETION,))

    def __init__(self, config: Config) -> None:
        words = dict(config.job_comp_params)
        limits = [int(words[word]) for word in ("timeout", "connect_timeout") if word in words]
        super().__init__(config.job_comp_loc, max(limits, default=REQUEST_TIMEOUT_S))

    def wants(self, event: OutboxRow) -> bool:
        """All of them."""
        return True

    async def deliver(self, event: OutboxRow) -> None:
        """Sends the job's document."""
        await self.post(msgspec.json.encode(document(_job(event))), {})


class Kafka:
    """jobcomp/kafka."""

    name = "jobcomp"
    kinds = frozenset((COMPLETION,))

    def __init__(self, config: Config) -> None:
        self._config = config
        self._topic = dict(config.job_comp_params).get("topic") or config.cluster_name
        answer_s = REQUEST_TIMEOUT_S + START_S
        self._poster = HelperProcess(kafkaposter.__file__, answer_s, kafkaposter.ANSWER_BYTES_MAX, options="-I")
        self._thread: Executor = started_pool(1, "delivery")

    def wants(self, event: OutboxRow) -> bool:
        """All of them."""
        return True

    async def deliver(self, event: OutboxRow) -> None:
        """Sends the job's document; returns when the brokers have acknowledged it."""
        body = msgspec.json.encode(document(_job(event)))
        path = self._config.job_comp_loc
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, body)
        except SiteFileError as error:
            raise NotDelivered(str(error), Retry.AWAY) from error
        except (HelperFailed, OSError) as error:
            raise NotDelivered(f"{path}: {error}", Retry.AWAY) from error
        if "error" in answer:
            retry = Retry.REFUSED if answer.get("is_refused") else Retry.AWAY
            raise NotDelivered(f"topic {self._topic}: {clean_line(str(answer['error']))}", retry)

    def _ask(self, body: bytes) -> dict[str, object]:
        properties = read_properties(self._config.job_comp_loc, self._config.slurm_user)
        question = {
            "properties": properties, "topic": self._topic, "body": body.decode(), "timeout_s": REQUEST_TIMEOUT_S,
        }  # fmt: skip
        answer: dict[str, object] = msgspec.json.decode(self._poster.ask(msgspec.json.encode(question)))
        return answer

    def close(self) -> None:
        """Ends the process that sends; a message in progress is sent again after the next start."""
        self._poster.close()
        self._thread.shutdown(wait=False)


class WebhookServer(Server):
    """A webhook."""

    def __init__(self, hook: Webhook, slurm_user: str) -> None:
        super().__init__(hook.url, hook.timeout_s)
        self.name = f"webhook {hook.name}"
        self.kinds = frozenset(word.partition(".")[0].upper() for word in hook.events) or frozenset(
            ("JOB", "NODE", "GPU", "RESERVATION")
        )
        self._hook = hook
        self._slurm_user = slurm_user

    def wants(self, event: OutboxRow) -> bool:
        """Whether it is of an event that the site has named."""
        if not self._hook.events:
            return True
        change = msgspec.json.decode(event.body, type=dict[str, object])
        kind, state = str(change["kind"]), str(change["state"]).lower()
        return kind in self._hook.events or f"{kind}.{state}" in self._hook.events

    async def deliver(self, event: OutboxRow) -> None:
        """Sends the event, signed."""
        loop = asyncio.get_running_loop()
        try:
            secret, ca = await loop.run_in_executor(self._thread, self._read_files)
        except OSError as error:
            raise NotDelivered(f"{error.filename or self._hook.secret_file}: {error.strerror}", Retry.AWAY) from error
        at_s = int(time.time())
        signature = hmac.new(secret, b"%d." % at_s + event.body, hashlib.sha256).hexdigest()
        headers = {
            "X-Penstock-Event": event.kind.lower(), "X-Penstock-Delivery": str(event.sequence),
            "X-Penstock-Signature": f"t={at_s},v1={signature}",
        }  # fmt: skip
        await self.post(event.body, headers, ca)

    def _read_files(self) -> tuple[bytes, str]:
        path = self._hook.secret_file
        secret = _read(path, SECRET_BYTES.stop, self._slurm_user).strip()
        if len(secret) not in SECRET_BYTES:
            raise OSError(0, f"expected {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes", path)
        return secret, _read(self._hook.ca_file, CA_BYTES_MAX).decode() if self._hook.ca_file else ""


def _read(path: str, size: int, owner: str = "") -> bytes:
    """Reads a file; with `owner`, a secret one of root's, the owner's or ours. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a regular file", path)
        if owner and found.st_mode & 0o077:
            raise OSError(0, f"others than its owner can read it: chmod 600 {path}", path)
        if owner and found.st_uid not in {0, os.geteuid(), find_uid(owner)}:
            raise OSError(0, f"it belongs to uid {found.st_uid}, and not to root or {owner}", path)
        return file.read(size)


def _job(event: OutboxRow) -> Completion:
    try:
        return msgspec.json.decode(event.body, type=Completion)
    except msgspec.ValidationError as error:  # of another version
        raise NotDelivered(str(error), Retry.REFUSED) from error


def receivers_of(config: Config, lookups: Lookups) -> list[EventReceiver]:
    """Returns the receivers of a configuration."""
    found: list[EventReceiver] = []
    if config.job_comp_type == "jobcomp/filetxt":
        found.append(TextFile(config))
    elif config.job_comp_type == "jobcomp/script":
        found.append(SiteProgram(config, lookups))
    elif config.job_comp_type == "jobcomp/elasticsearch":
        found.append(Elasticsearch(config))
    elif config.job_comp_type == "jobcomp/kafka":
        found.append(Kafka(config))
    return [*found, *(WebhookServer(hook, config.slurm_user) for hook in config.webhooks)]
