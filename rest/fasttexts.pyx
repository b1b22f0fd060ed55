# See templates.py for what it answers; PlainTexts there is its oracle.
#
# A job's message is read once, field by field as it is on the wire (docs of protobuf: Encoding). Fields in which jobs differ
# are noted, all others are copied: these bytes and what was noted are the key of the job's kind. Nothing that a message says
# of itself is believed: every length is compared with what is left. What is not as expected is left to `other`.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef enum:
    PLACES_MAX = 64
    FIELDS_MAX = 128  # numbers of fields in which jobs may differ are below
    KIND_BYTES_MAX = 4096
    NUMBER_BYTES_MAX = 20
    PART_BYTES = 1 << 17
    VARINT = 0
    FIXED_64 = 1
    TEXT = 2
    FIXED_32 = 5
    SECOND_US = 1000000
    KIND_HEAD_BYTES = 16  # of a key: what is set, and the bytes of the job without its request

cdef struct JobValue:
    uint64_t number
    const uint8_t *text
    Py_ssize_t size


cdef struct FieldRule:
    uint64_t largest  # 0: a text
    int place  # -1: a field that stays in the kind
    bint is_optional


cdef struct WireCursor:
    const uint8_t *at
    const uint8_t *end


cdef inline bint read_varint(WireCursor *cursor, uint64_t *value) noexcept nogil:
    cdef int shift = 0
    cdef uint8_t byte
    value[0] = 0
    while cursor.at < cursor.end and shift < 70:
        byte = cursor.at[0]
        cursor.at += 1
        if shift < 63 or byte < 2:
            value[0] |= <uint64_t>(byte & 127) << shift
        else:
            return False
        if byte < 128:
            return True
        shift += 7
    return False


cdef inline bint skip(WireCursor *cursor, int wire) noexcept nogil:
    """Goes behind a value; of a text to its end."""
    cdef uint64_t size
    if wire == VARINT:
        return read_varint(cursor, &size)
    if wire == TEXT:
        if not read_varint(cursor, &size):
            return False
    elif wire == FIXED_64:
        size = 8
    elif wire == FIXED_32:
        size = 4
    else:
        return False
    if size > <uint64_t>(cursor.end - cursor.at):
        return False
    cursor.at += size
    return True


cdef inline int digits(uint64_t number, uint8_t *out) noexcept nogil:
    """Writes a number; returns how many bytes it has."""
    cdef uint8_t turned[NUMBER_BYTES_MAX]
    cdef int count = 0, at
    while True:
        turned[count] = <uint8_t>(48 + number % 10)
        number //= 10
        count += 1
        if not number:
            break
    for at in range(count):
        out[at] = turned[count - 1 - at]
    return count


cdef bint is_plain(const uint8_t *text, Py_ssize_t size) noexcept nogil:
    """Whether JSON has it as it is: printable ASCII without quotes and backslashes."""
    cdef Py_ssize_t at
    cdef uint8_t byte
    for at in range(size):
        byte = text[at]
        if byte < 32 or byte > 126 or byte == 34 or byte == 92:
            return False
    return True


cdef struct TemplateGap:
    int place
    int seconds
    uint64_t more
    uint64_t divisor
    Py_ssize_t end  # of the piece before it


cdef class _Filled:
    """A TextTemplate: its pieces one after the other, and the gaps between them."""

    cdef bytes _pieces
    cdef TemplateGap *_gaps
    cdef Py_ssize_t _count

    def __cinit__(self, template):
        cdef Py_ssize_t at, end = 0
        pieces, places = template
        self._pieces = b"".join(pieces)
        self._count = len(places)
        self._gaps = <TemplateGap *>PyMem_Malloc(max(1, self._count) * sizeof(TemplateGap))
        if self._gaps == NULL:
            raise MemoryError
        for at in range(self._count):
            end += len(pieces[at])
            self._gaps[at].end = end
            self._gaps[at].place, self._gaps[at].more, self._gaps[at].seconds, self._gaps[at].divisor = places[at]
            if not (
                0 <= self._gaps[at].place < PLACES_MAX and -1 <= self._gaps[at].seconds < PLACES_MAX
                and self._gaps[at].divisor
            ):
                raise ValueError("a place that no value has")

    def __dealloc__(self):
        PyMem_Free(self._gaps)

    cdef Py_ssize_t room(self, const JobValue *values) noexcept:
        """At least the bytes of its text."""
        cdef Py_ssize_t at, bytes_ = PyBytes_GET_SIZE(self._pieces) + self._count * NUMBER_BYTES_MAX
        for at in range(self._count):
            bytes_ += values[self._gaps[at].place].size
        return bytes_

    cdef uint8_t *fill(self, const JobValue *values, uint8_t *out) noexcept:
        """Writes the text of one job; returns its end."""
        cdef const uint8_t *pieces = <const uint8_t *>PyBytes_AS_STRING(self._pieces)
        cdef Py_ssize_t at, begin = 0, size
        cdef const JobValue *value
        cdef uint64_t number
        for at in range(self._count):
            size = self._gaps[at].end - begin
            memcpy(out, pieces + begin, size)
            out += size
            begin += size
            value = &values[self._gaps[at].place]
            if value.text != NULL:
                memcpy(out, value.text, value.size)
                out += value.size
            else:
                number = value.number
                if self._gaps[at].divisor != 1:  # a sum has one
                    number += self._gaps[at].more
                    if self._gaps[at].seconds >= 0:
                        number += SECOND_US * values[self._gaps[at].seconds].number
                    number //= self._gaps[at].divisor
                out += digits(number, out)
        size = PyBytes_GET_SIZE(self._pieces) - begin
        memcpy(out, pieces + begin, size)
        return out + size


cdef class CompiledTexts:
    cdef FieldRule _of_job[FIELDS_MAX]
    cdef FieldRule _of_request[FIELDS_MAX]
    cdef uint32_t _request
    cdef int _id_place, _except_place
    cdef bytes _except_value
    cdef object _template_of
    cdef Py_ssize_t _kinds_max, _made_max
    # By form and kind; those that are not used while half as many others are go.
    cdef dict _once, _once_older, _kept, _kept_older
    # Of the job at hand.
    cdef JobValue _values[PLACES_MAX]
    cdef uint8_t _key[KIND_HEAD_BYTES + 2 * KIND_BYTES_MAX]
    cdef Py_ssize_t _key_size
    # Texts of the part at hand.
    cdef uint8_t *_out
    cdef Py_ssize_t _size, _room

    def __cinit__(self, list fields, int request, int id_place, int except_place, bytes except_value, template_of, int kinds_max, int made_max):
        cdef int place, number
        cdef FieldRule *rule
        self._out = NULL
        self._size = self._room = 0
        for number in range(FIELDS_MAX):
            self._of_job[number].place = self._of_request[number].place = -1
        if len(fields) > PLACES_MAX:
            raise ValueError("too many places")
        for place, (number, largest, of_request, is_optional) in enumerate(fields):
            if not 0 < number < FIELDS_MAX:
                raise ValueError("a field's number is too large")
            rule = &self._of_request[number] if of_request else &self._of_job[number]
            rule.place, rule.largest, rule.is_optional = place, largest, is_optional
        self._request = request
        self._id_place = id_place
        self._except_place = except_place
        self._except_value = except_value
        self._template_of = template_of
        self._kinds_max = kinds_max
        self._made_max = made_max
        self._once, self._once_older, self._kept, self._kept_older = {}, {}, {}, {}

    def __dealloc__(self):
        PyMem_Free(self._out)

    def parts(self, str form, bytes page, make, other):
        cdef Py_ssize_t at = 0
        while at < PyBytes_GET_SIZE(page):
            at = self._part(form, page, at, make, other)
            if self._size:
                yield PyBytes_FromStringAndSize(<char *>self._out, self._size)

    cdef Py_ssize_t _part(self, str form, bytes page, Py_ssize_t first, make, other) except -1:
        """Fills in the texts of some jobs; returns where the next one is."""
        cdef const uint8_t *begin = <const uint8_t *>PyBytes_AS_STRING(page)
        cdef WireCursor cursor = WireCursor(begin + first, begin + PyBytes_GET_SIZE(page))
        cdef const uint8_t *job
        cdef uint64_t tag
        cdef Py_ssize_t made = 0
        cdef object found
        cdef uint64_t size
        self._size = 0
        if self._room > 8 * PART_BYTES:  # a job on thousands of nodes was among the last ones
            PyMem_Free(self._out)
            self._out = NULL
            self._room = 0
        while cursor.at < cursor.end and self._size < PART_BYTES and made < self._made_max:
            if not read_varint(&cursor, &tag):
                raise ValueError("a page of jobs is cut off")
            if tag != (1 << 3 | TEXT):
                if not skip(&cursor, tag & 7):
                    raise ValueError("a page of jobs is cut off")
                continue
            if not read_varint(&cursor, &size) or size > <uint64_t>(cursor.end - cursor.at):
                raise ValueError("a page of jobs is cut off")
            job = cursor.at
            cursor.at += size
            found = self._template(form, job, size, make)
            if found is None:
                found = other(PyBytes_FromStringAndSize(<const char *>job, size))
            if isinstance(found, _Filled):
                self._fill(<_Filled>found)
            else:
                made += 1
                self._add(<bytes?>found)
        return cursor.at - begin

    cdef object _template(self, str form, const uint8_t *job, Py_ssize_t size, make):
        """The template of a job's kind, or its text, which was made for the template; None: there is none."""
        cdef object key
        if not self._split(job, job + size):
            return None
        key = form, PyBytes_FromStringAndSize(<char *>self._key, self._key_size)
        if key in self._kept:
            return self._kept[key]
        if key in self._kept_older:
            return self._keep(key, self._kept_older[key])
        job_id = self._values[self._id_place].number
        seen = self._once.get(key)
        if seen is None:
            seen = self._once_older.get(key)
        if seen is None or seen == job_id:  # of one job alone, as often as it is asked for, a template is of no use
            if len(self._once) >= self._kinds_max // 2:
                self._once_older = self._once
                self._once = {}
            self._once[key] = job_id
            return None
        self._once.pop(key, None)
        self._once_older.pop(key, None)
        data = PyBytes_FromStringAndSize(<const char *>job, size)
        text = make(data)
        template = self._template_of(data, text, make)
        self._keep(key, None if template is None else _Filled(template))
        return text

    cdef object _keep(self, object key, object template):
        if len(self._kept) >= self._kinds_max // 2:
            self._kept_older = self._kept
            self._kept = {}
        self._kept[key] = template
        return template

    # ---- texts

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef uint8_t *larger
        cdef Py_ssize_t room = self._size + more
        if room <= self._room:
            return 0
        room += room // 2
        larger = <uint8_t *>PyMem_Realloc(self._out, room)
        if larger == NULL:
            raise MemoryError
        self._out = larger
        self._room = room
        return 0

    cdef int _comma(self) except -1:
        if self._size:
            self._out[self._size] = 44
            self._size += 1
        return 0

    cdef int _fill(self, _Filled template) except -1:
        self._reserve(1 + template.room(self._values))
        self._comma()
        self._size = template.fill(self._values, self._out + self._size) - self._out
        return 0

    cdef int _add(self, bytes text) except -1:
        self._reserve(1 + PyBytes_GET_SIZE(text))
        self._comma()
        memcpy(self._out + self._size, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self._size += PyBytes_GET_SIZE(text)
        return 0

    # ---- messages

    cdef bint _split(self, const uint8_t *job, const uint8_t *end) noexcept:
        """Takes a job's message apart: its values, and the key of its kind. False: it is none for a template."""
        cdef uint8_t request[KIND_BYTES_MAX]
        cdef Py_ssize_t kind_size = 0, request_size = 0
        cdef uint64_t found = 0, head
        cdef int place
        memset(self._values, 0, sizeof(self._values))
        cdef uint8_t *kind = self._key + KIND_HEAD_BYTES
        if not self._fields(WireCursor(job, end), self._of_job, True, kind, &kind_size, request, &request_size):
            return False
        for place in range(PLACES_MAX):
            if self._values[place].size:  # of a number: whether it is set
                found |= <uint64_t>1 << place
        if kind_size + request_size > KIND_BYTES_MAX:
            return False
        head = <uint64_t>kind_size
        memcpy(self._key, &found, sizeof(found))
        memcpy(self._key + sizeof(found), &head, sizeof(head))
        memcpy(kind + kind_size, request, request_size)
        self._key_size = KIND_HEAD_BYTES + kind_size + request_size
        return True

    cdef bint _fields(
        self, WireCursor cursor, const FieldRule *rules, bint is_job, uint8_t *kind, Py_ssize_t *size, uint8_t *request,
        Py_ssize_t *request_size,
    ) noexcept:
        """Reads all fields of a message: those that differ into the values, a job's request by itself, the rest into `kind`."""
        cdef const uint8_t *begin
        cdef uint64_t tag, length
        cdef const FieldRule *rule
        cdef bint stays
        while cursor.at < cursor.end:
            begin = cursor.at
            if not read_varint(&cursor, &tag):
                return False
            if is_job and tag == (<uint64_t>self._request << 3 | TEXT):
                if not read_varint(&cursor, &length) or length > <uint64_t>(cursor.end - cursor.at):
                    return False
                if not self._fields(
                    WireCursor(cursor.at, cursor.at + length), self._of_request, False, request, request_size, NULL, NULL
                ):
                    return False
                cursor.at += length
                continue
            if tag >> 3 < FIELDS_MAX and rules[tag >> 3].place >= 0:
                rule = &rules[tag >> 3]
                stays = False
                if not self._value(&cursor, rule, tag & 7, &stays):
                    return False
                if not stays:
                    continue
            elif not skip(&cursor, tag & 7):
                return False
            if size[0] + (cursor.at - begin) > KIND_BYTES_MAX:
                return False
            memcpy(kind + size[0], begin, cursor.at - begin)
            size[0] += cursor.at - begin
        return True

    cdef bint _value(self, WireCursor *cursor, const FieldRule *rule, int wire, bint *stays) noexcept:
        """Reads one that differs, or that stays in the kind after all: of several of one field the last one counts."""
        cdef JobValue *value = &self._values[rule.place]
        cdef uint64_t number
        if wire != (VARINT if rule.largest else TEXT) or not read_varint(cursor, &number):
            return False
        if rule.largest:
            stays[0] = number > rule.largest
            value.number = 0 if stays[0] else number
            value.size = not stays[0] and (rule.is_optional or number != 0)
            return True
        if number > <uint64_t>(cursor.end - cursor.at):
            return False
        value.text = cursor.at
        value.size = number
        cursor.at += number
        stays[0] = not is_plain(value.text, value.size) or (
            rule.place == self._except_place
            and value.size == PyBytes_GET_SIZE(self._except_value)
            and not memcmp(value.text, PyBytes_AS_STRING(self._except_value), value.size)
        )
        if stays[0]:
            value.size = 0
        return True
