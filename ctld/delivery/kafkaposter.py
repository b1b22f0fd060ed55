"""Sends messages of deliveries to Kafka: run as a process of its own, by receivers.py.

    python -I kafkaposter.py FD

librdkafka has threads, connections and a queue of its own, and the properties of the site may load libraries: it is kept out of
the controller. A question is a message (JSON: properties, topic, body, timeout_s), an answer what has become of it, each after
its length in four bytes. As root it becomes NOBODY first. It ends with the socket FD.

A message is answered when the brokers have acknowledged it, as many as `acks` says (all, by default). One that is not
acknowledged in time is taken out of the queue, so that librdkafka does not send what the controller will send again;
what was on its way may arrive nevertheless: at least once.
"""

import contextlib
import importlib
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

if __name__ == "__main__":  # -I omits the project; it comes last, so that it cannot shadow the standard library
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from ctld.runtime.lookuphelper import LENGTH, NOBODY, receive
from penstock.config.kafkafile import MODULE, NEEDED
from penstock.oom import allow_oom_kill

#: Address space: its threads have stacks, of which little is used.
MEMORY_BYTES_MAX: Final = 4 * 1024**3
ANSWER_BYTES_MAX: Final = 64 * 1024
TEXT_CHARS_MAX: Final = 300
#: Errors after which the same message would be refused again.
_REFUSALS: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG", "INVALID_RECORD", "RECORD_LIST_TOO_LARGE")


class KafkaFailure(Protocol):
    """An error of librdkafka."""

    def name(self) -> str:
        """Its name in the protocol."""

    def str(self) -> str:
        """In words."""


class MessageProducer(Protocol):
    """What is used of `confluent_kafka.Producer`, which has no types."""

    def produce(
        self, topic: str, value: bytes, *, on_delivery: Callable[[KafkaFailure | None, object], object]
    ) -> None:
        """Queues a message."""

    def flush(self, timeout: float) -> int:
        """Waits until the queue is empty."""

    def purge(self) -> None:
        """Empties the queue."""


class KafkaModule(Protocol):
    """The module."""

    KafkaException: type[Exception]

    def Producer(self, settings: dict[str, object]) -> MessageProducer:
        """Makes a producer; it connects when it has something to send."""


class KafkaMessage(NamedTuple):
    """A question."""

    properties: dict[str, object]
    topic: str
    body: str
    timeout_s: float


class KafkaPoster:
    """The producer of the last properties."""

    def __init__(self, kafka: KafkaModule | None) -> None:
        """`kafka`: None where it is missing."""
        self._kafka = kafka
        self._properties: dict[str, object] = {}
        self._producer: MessageProducer | None = None

    def post(self, message: KafkaMessage) -> dict[str, object]:
        """Sends one message. Returns nothing, or the error and whether it is for good."""
        if self._kafka is None:
            return {"error": NEEDED}
        try:
            return self._sent(self._kafka, message)
        except self._kafka.KafkaException as error:
            self._producer = None
            return _failure(error.args[0])
        except BufferError as error:
            return {"error": str(error)}

    def _sent(self, kafka: KafkaModule, message: KafkaMessage) -> dict[str, object]:
        if self._producer is None or message.properties != self._properties:
            usual: dict[str, object] = {"message.timeout.ms": int(message.timeout_s * 1000)}
            self._producer = kafka.Producer(usual | message.properties | {"log_level": 0})
            self._properties = message.properties
        reports: list[KafkaFailure | None] = []
        self._producer.produce(message.topic, message.body.encode(), on_delivery=lambda error, _: reports.append(error))
        self._producer.flush(message.timeout_s)
        if reports:
            return _failure(reports[0]) if reports[0] is not None else {}
        self._producer.purge()
        self._producer = None
        return {"error": f"no acknowledgement within {message.timeout_s:g} s"}


def _failure(error: KafkaFailure) -> dict[str, object]:
    return {"error": error.str()[:TEXT_CHARS_MAX], "is_refused": error.name() in _REFUSALS}


def main(fd: int) -> None:
    """Sends until the other side closes."""
    allow_oom_kill()  # first: after the switch the file is not writable
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    kafka: KafkaModule | None = None
    with contextlib.suppress(ImportError):  # now: as another user it may not be readable
        kafka = cast(KafkaModule, importlib.import_module(MODULE))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    poster = KafkaPoster(kafka)
    with socket.socket(fileno=fd) as wire:
        while head := receive(wire, LENGTH.size):
            message = KafkaMessage(**json.loads(receive(wire, *LENGTH.unpack(head))))
            answer = json.dumps(poster.post(message)).encode()
            wire.sendall(LENGTH.pack(len(answer)) + answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
