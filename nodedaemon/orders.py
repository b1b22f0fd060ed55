"""What noded, launcher and stepd say to each other on one machine.

    noded -> launcher   a stream of orders: length, key, LaunchOrder launcher and stepds -> noded   one packet socket:
    BEGAN and TROUBLE from a stepd, GONE from the launcher that reaped it noded -> stepd      datagrams to the address
    in the step's claim: SignalOrder

An order holds everything a stepd needs; nothing is looked up later. Keys travel as text, "JOB.ATTEMPT.STEP". A
running stepd is older than the noded that comes after an upgrade: what it understands here must keep its meaning.
"""

import struct

from nodedaemon.framing import pack, pack_values, unpack

#: Frame of an order on the stream to the launcher: length of the key, length of the rest.
ORDER_HEAD = struct.Struct("<II")
#: One packet from launcher or stepd; GONE is split to stay below.
PACKET_BYTES_MAX = 64 * 1024
GONE_PER_PACKET_MAX = 500
BEGAN, GONE, TROUBLE = b"began", b"gone", b"trouble"
#: Who gets a signal: the task's first process, or every process of the step. Numbers as in core.machine.
SCOPE_BATCH, SCOPE_ALL = 0, 1


class LaunchOrder:
    """How to start a step. Paths have their patterns expanded; relative ones are in `work_dir`."""

    __slots__ = (
        "argv", "environment", "group_id", "key", "memory_limit_mb", "open_append", "rlimits", "script", "std_err",
        "std_in", "std_out", "umask", "user_id", "user_name", "work_dir",
    )  # fmt: skip

    def __init__(
        self,
        *,
        key: str,
        user_id: int,
        group_id: int,
        user_name: str,
        script: bytes,
        argv: list[bytes],
        environment: dict[bytes, bytes],
        work_dir: bytes,
        std_out: bytes,
        std_err: bytes = b"",  # empty: with std_out
        std_in: bytes = b"",  # empty: nothing to read
        open_append: bool = False,
        rlimits: dict[str, int] | None = None,  # soft limits, -1 = unlimited
        umask: int = 0o022,
        memory_limit_mb: int = 0,  # 0 = not limited
    ) -> None:
        self.key = key
        self.user_id = user_id
        self.group_id = group_id
        self.user_name = user_name
        self.script = script
        self.argv = argv
        self.environment = environment
        self.work_dir = work_dir
        self.std_out = std_out
        self.std_err = std_err
        self.std_in = std_in
        self.open_append = open_append
        self.rlimits = rlimits or {}
        self.umask = umask
        self.memory_limit_mb = memory_limit_mb

    def encode(self) -> bytes:
        """As bytes, framed for the launcher's stream."""
        numbers = (self.user_id, self.group_id, int(self.open_append), self.umask, self.memory_limit_mb)
        key = self.key.encode()
        body = pack(
            [
                b" ".join(b"%d" % number for number in numbers),
                self.user_name.encode(),
                self.script,
                self.work_dir,
                self.std_out,
                self.std_err,
                self.std_in,
                pack(self.argv),
                pack([name + b"=" + value for name, value in self.environment.items()]),
                " ".join(f"{name} {value}" for name, value in self.rlimits.items()).encode(),
            ]
        )
        return ORDER_HEAD.pack(len(key), len(body)) + key + body


def decode_launch(key: str, body: bytes) -> LaunchOrder:
    """An order from its bytes."""
    numbers, user_name, script, work_dir, std_out, std_err, std_in, argv, environment, rlimits = unpack(body)
    user_id, group_id, open_append, umask, memory_limit_mb = map(int, numbers.split())
    limits = rlimits.decode().split()
    pairs = (entry.split(b"=", 1) for entry in unpack(environment))
    return LaunchOrder(
        key=key,
        user_id=user_id,
        group_id=group_id,
        user_name=user_name.decode(),
        script=script,
        argv=unpack(argv),
        environment={name: value for name, value in pairs},
        work_dir=work_dir,
        std_out=std_out,
        std_err=std_err,
        std_in=std_in,
        open_append=bool(open_append),
        rlimits={name: int(value) for name, value in zip(limits[::2], limits[1::2], strict=True)},
        umask=umask,
        memory_limit_mb=memory_limit_mb,
    )


def encode_signals(key: str, signals: tuple[int, ...], scope: int, note: str) -> bytes:
    """An order to send these signals; `note` is a line for the error file, "" = none."""
    return pack_values(key, " ".join(map(str, signals)), scope, note)


def decode_signals(data: bytes) -> tuple[str, tuple[int, ...], int, str]:
    """Key, signals, scope and note."""
    key, signals, scope, note = unpack(data)
    return key.decode(), tuple(map(int, signals.split())), int(scope), note.decode()


def began(key: str, at_us: int, pid: int) -> bytes:
    """The task's program runs."""
    return pack_values(BEGAN, key, at_us, pid)


def gone(stepds: list[tuple[str, int]]) -> bytes:
    """These stepds have ended (wait status each), with or without an end in their records."""
    return pack_values(GONE, *(value for pair in stepds for value in pair))


def trouble(key: str, text: str) -> bytes:
    """A stepd failed in a way that nobody has foreseen: for noded's log."""
    return pack_values(TROUBLE, key, text)
