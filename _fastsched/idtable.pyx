# See idtable_reference.py for what it does. Open addressing with linear probing, at most four fifths full: 15 to 30 bytes an
# id, where a dict with its numbers takes 84.

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    SLOTS_LEAST = 16


cdef class IdTable:
    cdef int64_t* _keys  # 0 = a free slot
    cdef int32_t* _numbers
    cdef Py_ssize_t _slots  # a power of two
    cdef Py_ssize_t _used

    def __cinit__(self):
        self._slots = 0
        self._used = 0
        self._resize(SLOTS_LEAST)

    def __dealloc__(self):
        free(self._keys)
        free(self._numbers)

    def __len__(self):
        return self._used

    def __contains__(self, int64_t key):
        return self._keys[self._slot(key)] != 0 and key != 0

    cpdef int32_t get(self, int64_t key):
        cdef Py_ssize_t at = self._slot(key)
        return self._numbers[at] if self._keys[at] != 0 else -1

    def put(self, int64_t key, int32_t number):
        if key <= 0 or number < 0:
            raise ValueError(f"id {key}, number {number}: out of range")
        cdef Py_ssize_t at = self._slot(key)
        if self._keys[at] == 0:
            if 5 * (self._used + 1) > 4 * self._slots:
                self._resize(2 * self._slots)
                at = self._slot(key)
            self._keys[at] = key
            self._used += 1
        self._numbers[at] = number

    def drop(self, int64_t key):
        cdef Py_ssize_t at = self._slot(key), after, home, mask = self._slots - 1
        cdef int32_t number
        if self._keys[at] == 0:
            return -1
        number = self._numbers[at]
        # Keys behind that could not have the slot move up, so that a search still ends at the first free one.
        after = at
        while True:
            after = (after + 1) & mask
            if self._keys[after] == 0:
                break
            home = self._home(self._keys[after])
            if ((after - home) & mask) >= ((after - at) & mask):
                self._keys[at] = self._keys[after]
                self._numbers[at] = self._numbers[after]
                at = after
        self._keys[at] = 0
        self._used -= 1
        if self._slots > SLOTS_LEAST and 8 * self._used < self._slots:
            self._resize(self._slots // 2)
        return number

    def ids(self):
        cdef Py_ssize_t at
        found = [self._keys[at] for at in range(self._slots) if self._keys[at] != 0]
        found.sort()
        return found

    cdef Py_ssize_t _home(self, int64_t key) noexcept nogil:
        cdef uint64_t mixed = <uint64_t> key * <uint64_t> 0x9E3779B97F4A7C15
        return <Py_ssize_t> (mixed >> 32) & (self._slots - 1)

    cdef Py_ssize_t _slot(self, int64_t key) noexcept nogil:
        """Returns the slot of the key, or the free one where it would be."""
        cdef Py_ssize_t at = self._home(key), mask = self._slots - 1
        while self._keys[at] != 0 and self._keys[at] != key:
            at = (at + 1) & mask
        return at

    cdef int _resize(self, Py_ssize_t slots) except -1:
        cdef int64_t* keys = self._keys
        cdef int32_t* numbers = self._numbers
        cdef int64_t* new_keys = <int64_t*> calloc(slots, sizeof(int64_t))
        cdef int32_t* new_numbers = <int32_t*> calloc(slots, sizeof(int32_t))
        cdef Py_ssize_t at, to, had = self._slots
        if new_keys == NULL or new_numbers == NULL:
            free(new_keys)
            free(new_numbers)
            raise MemoryError
        self._keys = new_keys
        self._numbers = new_numbers
        self._slots = slots
        for at in range(had):
            if keys[at] != 0:
                to = self._slot(keys[at])
                self._keys[to] = keys[at]
                self._numbers[to] = numbers[at]
        free(keys)
        free(numbers)
        return 0
