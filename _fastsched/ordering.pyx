# See ordering_reference.py for what it answers. Values are held as their first bytes, which compare as numbers: most differ
# there, and the rest is read of few. What all begin with is skipped. Each part is sorted when it is added, and the parts are merged by a heap, so that no call
# takes longer than its own values do.

from cpython.array cimport array, clone
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp


cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef array EMPTY = array("I")

cdef struct Item:
    uint64_t first  # the first 16 bytes that are not skipped, or the number
    uint64_t second
    const char *text  # what is not skipped
    uint32_t size
    uint32_t at  # its place among those that were added
    uint32_t id


cdef struct SortedRun:
    Item *next
    Item *end


cdef inline bint is_before(const Item *one, const Item *other) noexcept nogil:
    cdef uint32_t common
    cdef int found
    if one.first != other.first:
        return one.first < other.first
    if one.second != other.second:
        return one.second < other.second
    common = min(one.size, other.size)
    if common > 16:
        found = memcmp(one.text + 16, other.text + 16, common - 16)
        if found:
            return found < 0
    if one.size != other.size:
        return one.size < other.size
    return one.at < other.at


cdef int compared(const void *one, const void *other) noexcept nogil:
    return -1 if is_before(<const Item *>one, <const Item *>other) else 1


cdef inline uint64_t head(const char *text, uint32_t size, uint32_t first) noexcept nogil:
    """The eight bytes from `first` on, as a number that is ordered as they are; 0 for those that are not there."""
    cdef uint64_t found = 0
    cdef uint32_t at
    for at in range(first, first + 8):
        found = (found << 8) | (<unsigned char>text[at] if at < size else 0)
    return found


cdef class Ordering:
    cdef list _held  # the texts, whose bytes are read until the end
    cdef SortedRun *_parts  # a heap once the first id is taken
    cdef list _memory
    cdef uint32_t _count
    cdef int _number
    cdef bint _is_heap
    cdef Py_ssize_t _skipped

    def __cinit__(self, Py_ssize_t skipped=0):
        self._skipped = skipped
        self._held = []
        self._memory = []
        self._parts = NULL
        self._count = 0
        self._number = 0
        self._is_heap = False

    def __dealloc__(self):
        PyMem_Free(self._parts)

    def add(self, list values, array ids):
        cdef Py_ssize_t count = len(values), at, size
        cdef Item *items
        cdef SortedRun *parts
        cdef object value
        cdef const uint32_t[::1] numbers = ids
        if numbers.shape[0] != count:
            raise ValueError("as many ids as values")
        if self._is_heap:
            raise ValueError("ids were taken already")
        if not count:
            return
        memory = bytearray(count * sizeof(Item))
        items = <Item *><char *>memory
        for at in range(count):
            value = values[at]
            items[at].id = numbers[at]
            items[at].at = self._count + <uint32_t>at
            if isinstance(value, str):
                items[at].text = PyUnicode_AsUTF8AndSize(value, &size) + self._skipped
                if size < self._skipped:
                    raise ValueError("a text is shorter than what all begin with")
                items[at].size = <uint32_t>(size - self._skipped)
                items[at].first = head(items[at].text, items[at].size, 0)
                items[at].second = head(items[at].text, items[at].size, 8)
            else:
                items[at].first = <uint64_t><int64_t>value ^ (<uint64_t>1 << 63)
        parts = <SortedRun *>PyMem_Realloc(self._parts, (self._number + 1) * sizeof(SortedRun))
        if parts == NULL:
            raise MemoryError
        self._parts = parts
        qsort(items, count, sizeof(Item), compared)
        self._parts[self._number].next = items
        self._parts[self._number].end = items + count
        self._number += 1
        self._count += <uint32_t>count
        self._memory.append(memory)
        self._held.append(values)

    def take(self, Py_ssize_t count):
        cdef int part
        cdef Py_ssize_t at = 0
        cdef array ids = clone(EMPTY, min(count, self._count), zero=False)
        cdef uint32_t[::1] numbers = ids
        if not self._is_heap:
            self._is_heap = True
            for part in range(self._number // 2 - 1, -1, -1):
                self._sink(part)
        count = min(count, self._count)
        while at < count:
            numbers[at] = self._parts[0].next.id
            at += 1
            self._parts[0].next += 1
            if self._parts[0].next == self._parts[0].end:
                self._number -= 1
                self._parts[0] = self._parts[self._number]
            self._sink(0)
        self._count -= <uint32_t>count
        return ids

    cdef void _sink(self, int part) noexcept nogil:
        """Puts a part to its place in the heap below."""
        cdef int least, child
        while True:
            least = part
            for child in range(2 * part + 1, min(2 * part + 3, self._number)):
                if is_before(self._parts[child].next, self._parts[least].next):
                    least = child
            if least == part:
                return
            self._parts[part], self._parts[least] = self._parts[least], self._parts[part]
            part = least
