"""A Kafka broker of librdkafka's, which speaks the protocol and keeps messages in memory, and a consumer that reads them back."""

import json
import time

# Any: confluent_kafka has no types
from typing import Any, Self

import confluent_kafka
from patience import ANSWER_S


class KafkaBroker:
    """The broker: it lives in a thread of this process. A context manager; `servers` is its address."""

    def __init__(self) -> None:
        self.servers = ""
        self._owner: Any = None

    def __enter__(self) -> Self:
        self._owner = confluent_kafka.Producer(
            {"bootstrap.servers": "mock:1", "test.mock.num.brokers": 1, "log_level": 0}
        )
        brokers = self._owner.list_topics(timeout=ANSWER_S).brokers.values()
        self.servers = ",".join(f"{one.host}:{one.port}" for one in brokers)
        return self

    def __exit__(self, *_: object) -> None:
        self._owner = None

    def read(self, topic: str, count: int) -> list[dict[str, Any]]:
        """The first messages of a topic, once there are so many; each is a JSON document."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.servers, "group.id": "test", "auto.offset.reset": "earliest", "log_level": 0}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(self._partitions(topic))])
        found: list[dict[str, Any]] = []
        end_s = time.monotonic() + ANSWER_S
        while len(found) < count:
            assert time.monotonic() < end_s, f"{len(found)} messages of {count}"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(json.loads(message.value() or b""))
        consumer.close()
        return found

    def _partitions(self, topic: str) -> int:
        return len(self._owner.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions)
