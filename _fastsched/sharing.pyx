# See sharing_reference.py for what it does. Most values are the usual ones or the previous record's, which is found without
# a look into the table: a start that reads 100,000 records spends most of its time in such look-ups.

from cpython.object cimport PyObject


cdef extern from "Python.h":
    PyObject *PyDict_SetDefault(object table, object key, object value) except NULL


cdef class Sharing:
    cdef dict _known
    cdef tuple _names
    cdef list _usual
    cdef list _last
    cdef Py_ssize_t _shared  # so many of the names come first
    cdef object _set

    def __init__(self, dict known not None, shared, repeated, usual, set_field):
        self._known = known
        self._names = (*shared, *repeated)
        self._shared = len(shared)
        self._usual = [getattr(usual, name) for name in self._names]
        self._last = [None] * len(self._names)
        self._set = set_field

    def __call__(self, record):
        cdef Py_ssize_t at
        cdef object name, value, before, found
        for at in range(len(self._names)):
            name = self._names[at]
            value = getattr(record, name)
            before = self._last[at]
            if value is before or value is self._usual[at]:
                continue
            if type(value) is type(before) and value == before:
                found = before
            elif at < self._shared:
                found = <object>PyDict_SetDefault(self._known, value, value)
                if type(found) is not type(value):
                    found = value
            else:
                found = value
            self._last[at] = found
            if found is not value:
                self._set(record, name, found)
