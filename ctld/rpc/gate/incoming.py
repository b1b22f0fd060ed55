"""Decodes incoming messages: one reader for each method, which the gate (entry.py) calls once it knows the caller.

    bytes -> not longer than the method allows -> not more elements than it allows -> message -> every field within its
bound

Every request passes it: handlers get what `Reader.read` returns, for a stream each message. The bounds are a table
(bounds.py). The elements of a long message are counted before it is decoded, and the loop serves others between the
two.

A node's messages are corrected rather than refused: text is cleaned, numbers are clamped to their range. A refused
report would stay in the node's spool and be repeated forever.
"""

import asyncio
from collections.abc import MutableSequence

# Any: a field's value has the type of its descriptor, which the type checker does not see
from typing import Any, Final, TypeAlias, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ctld.rpc.gate.bounds import (
    BYTES,
    DEPTH_MAX,
    ELEMENTS,
    NODE_METHODS,
    REQUEST_BYTES_MAX,
    REQUEST_ELEMENTS_MAX,
    Bound,
    Choice,
    Data,
    Each,
    EntityName,
    Free,
    Inside,
    Number,
    Pairs,
    Text,
    bound_of,
)
from penstock.values.refusals import TEXT, Code
from penstock.values.text import clean_line, unsafe

#: The elements of a longer message are counted before it is decoded: empty ones are two bytes each, and a million of
#: them are much work.
COUNTED_FROM_BYTES: Final = 64 * 1024
#: Fields of a long message that are counted, and entries that are checked, in one turn of the loop: some milliseconds.
#: Another call takes some ten turns, each beside one of these.
COUNTED_AT_ONCE: Final = 4_000
CHECKED_AT_ONCE: Final = 1_000
#: So many bytes of an entry count as one more: to correct a node's text of 4,096 characters takes half a millisecond.
BYTES_OF_ENTRY: Final = 64
#: An entry of more bytes is gone through in turns itself.
ENTRY_BYTES_MAX: Final = 8 * 1024

_TEXTS: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_bounds: dict[FieldDescriptor, Bound] = {}  # of the fields that were seen


class OutOfBounds(Exception):
    """A message that is not accepted: the refusal's number and text."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def _refused(what: str, why: str, code: Code = Code.INVALID_VALUE) -> OutOfBounds:
    return OutOfBounds(code, f"{TEXT[code]}: {what}: {why}")


class Reader:
    """Reads the requests of one method. KeyError for a method that is in no service."""

    def __init__(self, method: str) -> None:
        self._descriptor = Default().FindMethodByName(method.strip("/").replace("/", ".")).input_type
        self._decode = GetMessageClass(self._descriptor).FromString
        self._bytes_max = BYTES.get(method, REQUEST_BYTES_MAX)
        self._elements_max = ELEMENTS.get(method, REQUEST_ELEMENTS_MAX)
        self._mends = method in NODE_METHODS

    async def read(self, data: bytes) -> Message:
        """Returns the message, if everything in it is within its bounds. Raises OutOfBounds."""
        if len(data) > self._bytes_max:
            raise _refused("the request", f"{len(data)} bytes, the limit is {self._bytes_max}")
        if len(data) > COUNTED_FROM_BYTES:
            await _count(data, self._descriptor, self._elements_max)
            await asyncio.sleep(0)
        try:
            message = self._decode(data)
        except DecodeError:
            raise _refused("the request", "it cannot be decoded") from None
        walk = _Walk(len(data), self._elements_max, self._mends)
        if len(data) > COUNTED_FROM_BYTES:
            await asyncio.sleep(0)
            await walk.over_long(message, "", 0)
        else:
            walk.over(message, "", 0)
        return message


def check_bounds(message: Message) -> None:
    """Checks a message that was changed after it was read. Raises OutOfBounds."""
    _Walk(message.ByteSize(), REQUEST_ELEMENTS_MAX, repairs=False).over(message, "", 0)


class _Walk:
    """A traversal of one message."""

    __slots__ = ("checked", "elements", "left", "repairs", "size")

    def __init__(self, size: int, elements: int, repairs: bool) -> None:
        self.size = size  # bytes of the message
        self.elements = self.left = elements
        self.repairs = repairs
        self.checked = 0  # entries in this turn of the loop

    def over(self, message: Message, where: str, depth: int) -> None:
        """Checks every field that is set. `where`: the path to it, for a refusal."""
        if depth > DEPTH_MAX:
            raise _refused(where, f"messages inside messages, the limit is {DEPTH_MAX}")
        for field, value in message.ListFields():
            bound = _bounds.get(field)
            if bound is None:
                bound = _bound_now(field)
            if type(bound) is Text:
                if len(value) <= bound.limit and value.isprintable():
                    continue
            elif type(bound) is Number:
                if bound.low <= value <= bound.high:
                    continue
            elif type(bound) is Free:
                continue
            elif type(bound) is EntityName:
                if not (bound.why_not(value) or bound.listed):
                    continue
            elif type(bound) is Data:
                if len(value) <= bound.limit and (not bound.is_path or value.decode("utf-8", "replace").isprintable()):
                    continue
            elif (
                type(bound) is Each
                and type(bound.one) is EntityName
                and len(value) == 1
                and not bound.one.why_not(value[0])
            ):
                continue  # a job's partition
            self._closer(bound, message, field, value, where, depth)

    async def over_long(self, message: Message, where: str, depth: int) -> None:
        """As `over`; of a field with many entries some in each turn of the loop."""
        if depth > DEPTH_MAX:
            raise _refused(where, f"messages inside messages, the limit is {DEPTH_MAX}")
        for field, value in message.ListFields():
            bound = _bounds.get(field) or _bound_now(field)
            path = f"{where}.{field.name}" if where else field.name
            if isinstance(bound, Inside):
                self._take(1, path)
                await self.over_long(value, path, depth + 1)
            elif isinstance(bound, Each) and not _is_data(bound.one):
                self._entries(bound.limit, len(value), path)
                for at, entry in enumerate(value):
                    if isinstance(bound.one, Inside) and entry.ByteSize() > ENTRY_BYTES_MAX:
                        await self.over_long(entry, f"{path}[{at}]", depth + 1)
                    else:
                        await self._beside_others(bound.one, value, at, entry, path, depth)
            else:
                self._closer(bound, message, field, value, where, depth)

    async def _beside_others(
        self, one: Bound, values: MutableSequence[object], at: int, entry: object, path: str, depth: int
    ) -> None:
        """Checks an entry of a long message. The turn ends when it has had its share."""
        left = self.left
        self._some(one, values, at, at + 1, path, depth)
        if isinstance(one, Inside):
            size = cast(Message, entry).ByteSize()
        else:
            size = len(entry) if isinstance(entry, str | bytes) else 0
        self.checked += 1 + left - self.left + size // BYTES_OF_ENTRY
        if self.checked >= CHECKED_AT_ONCE:
            self.checked = 0
            await asyncio.sleep(0)

    def _closer(
        self, bound: Bound, message: Message, field: FieldDescriptor, value: Any, where: str, depth: int
    ) -> None:
        """Checks fields that need more than one comparison."""
        path = f"{where}.{field.name}" if where else field.name
        if isinstance(bound, Inside):
            self._take(1, path)
            self.over(value, path, depth + 1)
        elif isinstance(bound, Each):
            self._each(bound, value, path, depth)
        elif isinstance(bound, Pairs):
            self._pairs(bound, value, path)
        else:
            kept = self._one(bound, value, path)
            if kept is not value:
                setattr(message, field.name, kept)

    def _each(self, bound: Each, values: Any, path: str, depth: int) -> None:
        self._entries(bound.limit, len(values), path)
        one = bound.one
        if isinstance(one, Data) and _is_data(one):
            if self.size > one.limit and len(values) and len(max(values, key=len)) > one.limit:
                raise _refused(path, f"an entry has more than {one.limit} bytes")
            return
        self._some(one, values, 0, len(values), path, depth)

    def _some(self, one: Bound, values: MutableSequence[object], start: int, end: int, path: str, depth: int) -> None:
        """Checks the entries from one number to before another."""
        for at, value in enumerate(values[start:end], start):
            if isinstance(one, Inside):
                self.over(cast(Message, value), f"{path}[{at}]", depth + 1)
                continue
            kept = self._one(one, value, f"{path}[{at}]")
            if kept is not value:
                values[at] = kept

    def _pairs(self, bound: Pairs, values: Any, path: str) -> None:
        self._entries(bound.limit, len(values), path)
        for key in values:
            self._one(bound.key, key, f"a key of {path}")
            self._one(bound.named.get(key.lower(), bound.value), values[key], f"{path}[{key}]")

    def _entries(self, limit: int, number: int, path: str) -> None:
        if number > limit:
            raise _refused(path, f"{number} entries, the limit is {limit}")
        self._take(number, path)

    def _take(self, number: int, path: str) -> None:
        self.left -= number
        if self.left < 0:
            raise _refused(path, f"the request has more than {self.elements} elements")

    def _one(self, bound: Bound, value: Any, path: str) -> object:
        """Returns one value: itself, or corrected. Raises OutOfBounds."""
        if isinstance(bound, Text):
            if len(value) <= bound.limit and value.isprintable():
                return value
            why = f"{len(value)} characters, the limit is {bound.limit}" if len(value) > bound.limit else ""
            why = why or unsafe(value, bound.allowed)
            if why and not self.repairs:
                raise _refused(path, why, bound.code)
            return clean_line(value)[: bound.limit] if why else value
        if isinstance(bound, EntityName):
            why = _why_no_name(bound, value)
            if why and not self.repairs:
                raise _refused(path, why, bound.code)
            return clean_line(value)[: bound.limit] if why else value
        if isinstance(bound, Number):
            if bound.low <= value <= bound.high:
                return value
            if self.repairs:
                return min(max(value, bound.low), bound.high)
            raise _refused(path, f"{value} (allowed: {bound.low} to {bound.high})", bound.code)
        if isinstance(bound, Choice):
            if value in bound.values or self.repairs:
                return value
            raise _refused(path, f"{value} is not known", Code.NOT_SUPPORTED)
        if isinstance(bound, Data):
            if len(value) > bound.limit:
                code = Code.PATHNAME_TOO_LONG if bound.is_path else Code.INVALID_VALUE
                raise _refused(path, f"{len(value)} bytes, the limit is {bound.limit}", code)
            if bound.is_path and (why := unsafe(value.decode("utf-8", "replace"))):
                raise _refused(path, why)
        return value


def _why_no_name(bound: EntityName, value: str) -> str:
    if not bound.listed:
        return bound.why_not(value)
    if len(value) > bound.limit:
        return f"{len(value)} characters, the limit is {bound.limit}"
    return next((why for one in value.split(",") if (why := bound.why_not(one))), "")


def _is_data(bound: Bound) -> bool:
    """Whether entries are bytes that nobody sees: these are compared at once."""
    return isinstance(bound, Data) and not bound.is_path


def _bound_now(field: FieldDescriptor) -> Bound:
    """Returns the bound of a new field: of a test's service, or of another release's message."""
    bound = _bounds[field] = bound_of(field)
    return bound


# ---- counting without decoding ------------------------------------------------------------------------------------


#: What is counted of a message: by a field's number the shape of the message in it, or _NUMBERS; texts are not there.
_NUMBERS: Final = None
_Shape: TypeAlias = dict[int, "_Shape | None"]
_shapes: dict[str, _Shape] = {}  # of messages that were seen, by name: descriptors answer slowly


def _shape_of(descriptor: Descriptor) -> _Shape:
    shape = _shapes.get(descriptor.full_name)
    if shape is None:
        shape = _shapes[descriptor.full_name] = {}  # at once: a message may be inside itself
        for field in descriptor.fields:
            if field.message_type is not None:
                shape[field.number] = _shape_of(field.message_type)
            elif field.type not in _TEXTS:
                shape[field.number] = _NUMBERS
    return shape


async def _count(data: bytes, descriptor: Descriptor, limit: int) -> None:
    """Raises OutOfBounds for bytes with more than `limit` fields in all. Reads tags and lengths only."""
    left, due = limit, limit - COUNTED_AT_ONCE
    stack: list[tuple[int, int, _Shape]] = [(0, len(data), _shape_of(descriptor))]
    while stack:
        at, end, shape = stack.pop()
        while at < end:
            left -= 1
            if left < due:
                if left < 0:
                    raise _refused("the request", f"more than {limit} elements")
                due = max(0, left - COUNTED_AT_ONCE)
                await asyncio.sleep(0)
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = _varint(data, at - 1, end)
            wire = tag & 7
            if wire == 2:
                length, at = _varint(data, at, end)
                if length > end - at:
                    raise _refused("the request", "it cannot be decoded")
                if length and (number := tag >> 3) in shape:
                    inner = shape[number]
                    if inner is not _NUMBERS:
                        if len(stack) > DEPTH_MAX:
                            raise _refused("the request", f"messages inside messages, the limit is {DEPTH_MAX}")
                        stack.append((at + length, end, shape))
                        end, shape = at + length, inner
                        continue
                    left -= length  # packed
                at += length
            elif wire == 0:
                _, at = _varint(data, at, end)
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            else:
                raise _refused("the request", "it cannot be decoded")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise _refused("the request", "it cannot be decoded")
