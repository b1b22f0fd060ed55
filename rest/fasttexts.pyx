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
    KIND_HEAD_BYTES = 16  # of a key: what is set, and whether the allocation is of one node
    FRAME_BYTES = 4  # of what is nested, its length
    BITS_BYTES_MAX = 1024
    OWNERS = 3
    OF_JOB = 0
    OF_REQUEST = 1
    OF_ALLOCATION = 2
    OF_GRES = 3
    SHAPE_NODE = 1
    SHAPE_BITS = 2

cdef struct JobValue:
    uint64_t number
    const uint8_t *text
    Py_ssize_t size


cdef struct FieldRule:
    uint64_t largest  # 0: a text
    int place  # -1: a field that stays in the kind
    bint is_optional
    int shape


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


cdef inline bint is_node(const uint8_t *text, Py_ssize_t size) noexcept nogil:
    """Whether it is one node's name: letters, digits, '-', '.' and '_'."""
    cdef Py_ssize_t at
    cdef uint8_t byte
    for at in range(size):
        byte = text[at]
        if not (48 <= byte < 58 or 65 <= byte < 91 or 97 <= byte < 123 or byte == 45 or byte == 46 or byte == 95):
            return False
    return True


cdef struct TemplateGap:
    int place
    int seconds
    const uint8_t *between  # of bits; NULL: it is none
    Py_ssize_t between_size
    uint64_t more
    uint64_t divisor
    Py_ssize_t end  # of the piece before it


cdef uint8_t *write_list(const JobValue *value, const TemplateGap *gap, uint8_t *out) noexcept nogil:
    """Writes the numbers of the bits that are set; returns the end."""
    cdef Py_ssize_t at
    cdef int bit
    cdef bint is_first = True
    for at in range(value.size):
        for bit in range(8):
            if value.text[at] >> bit & 1:
                if not is_first:
                    memcpy(out, gap.between, gap.between_size)
                    out += gap.between_size
                is_first = False
                out += digits(8 * at + bit, out)
    return out


cdef class _Filled:
    """A TextTemplate: its pieces one after the other, and the gaps between them."""

    cdef bytes _pieces
    cdef list _between
    cdef TemplateGap *_gaps
    cdef Py_ssize_t _count

    def __cinit__(self, template):
        cdef Py_ssize_t at, end = 0
        pieces, places = template
        self._pieces = b"".join(pieces)
        self._between = []
        self._count = len(places)
        self._gaps = <TemplateGap *>PyMem_Malloc(max(1, self._count) * sizeof(TemplateGap))
        if self._gaps == NULL:
            raise MemoryError
        for at in range(self._count):
            end += len(pieces[at])
            self._gaps[at].end = end
            self._gaps[at].place, self._gaps[at].more, self._gaps[at].seconds, self._gaps[at].divisor, between = places[at]
            self._between.append(between)
            self._gaps[at].between = <const uint8_t *>PyBytes_AS_STRING(<bytes?>between) if between else NULL
            self._gaps[at].between_size = len(between)
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
            if self._gaps[at].between == NULL:
                bytes_ += values[self._gaps[at].place].size
            else:
                bytes_ += 8 * values[self._gaps[at].place].size * (self._gaps[at].between_size + NUMBER_BYTES_MAX)
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
            if self._gaps[at].between != NULL:
                out = write_list(value, &self._gaps[at], out)
            elif value.text != NULL:
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
    cdef FieldRule _rules[OWNERS][FIELDS_MAX]
    cdef uint32_t _request, _allocation, _gres, _uuid
    cdef int _id_place, _except_place
    cdef bytes _except_value
    cdef object _template_of
    cdef Py_ssize_t _kinds_max, _made_max
    # By form and kind; those that are not used while half as many others are go.
    cdef dict _once, _once_older, _kept, _kept_older
    # Of the job at hand.
    cdef bint _has_part, _is_busy
    cdef JobValue _values[PLACES_MAX]
    cdef uint8_t _key[KIND_HEAD_BYTES + KIND_BYTES_MAX]
    cdef Py_ssize_t _key_size
    # Texts of the part at hand.
    cdef uint8_t *_out
    cdef Py_ssize_t _size, _room

    def __cinit__(self, list fields, tuple nested, int id_place, int except_place, bytes except_value, template_of, int kinds_max, int made_max):
        cdef int place, number, owner
        cdef FieldRule *rule
        self._out = NULL
        self._size = self._room = 0
        for owner in range(OWNERS):
            for number in range(FIELDS_MAX):
                self._rules[owner][number].place = -1
        if len(fields) > PLACES_MAX:
            raise ValueError("too many places")
        for place, (number, largest, owner, is_optional, shape) in enumerate(fields):
            if not (0 < number < FIELDS_MAX and 0 <= owner < OWNERS):
                raise ValueError("a field's number is too large")
            rule = &self._rules[owner][number]
            rule.place, rule.largest, rule.is_optional, rule.shape = place, largest, is_optional, shape
        self._request, self._allocation, self._gres, self._uuid = nested
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
            if self._is_busy:  # two at once would write into the same memory
                raise RuntimeError("texts are made by one thread, and not while another is made")
            self._is_busy = True
            try:
                at = self._part(form, page, at, make, other)
            finally:
                self._is_busy = False
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
        cdef uint64_t found = 0, nodes = 0, tag
        cdef int place
        cdef WireCursor cursor = WireCursor(job, end)
        memset(self._values, 0, sizeof(self._values))
        while cursor.at < cursor.end:
            if not read_varint(&cursor, &tag) or not skip(&cursor, tag & 7):
                return False
            nodes += tag == (<uint64_t>self._allocation << 3 | TEXT)
        self._has_part = nodes == 1
        self._key_size = KIND_HEAD_BYTES
        if not self._fields(WireCursor(job, end), OF_JOB):
            return False
        for place in range(PLACES_MAX):
            if self._values[place].size:  # of a number: whether it is set
                found |= <uint64_t>1 << place
        nodes = self._has_part
        memcpy(self._key, &found, sizeof(found))
        memcpy(self._key + sizeof(found), &nodes, sizeof(nodes))
        return True

    cdef bint _copy(self, const uint8_t *begin, Py_ssize_t size) noexcept:
        """Adds what is not a difference to the kind."""
        if self._key_size + size > KIND_HEAD_BYTES + KIND_BYTES_MAX:
            return False
        memcpy(self._key + self._key_size, begin, size)
        self._key_size += size
        return True

    cdef int _nested(self, int owner, uint64_t tag) noexcept:
        """Whose fields a field has; -1: it is copied as a whole."""
        if owner == OF_JOB and tag == (<uint64_t>self._request << 3 | TEXT):
            return OF_REQUEST
        if owner == OF_JOB and self._has_part and tag == (<uint64_t>self._allocation << 3 | TEXT):
            return OF_ALLOCATION
        if owner == OF_ALLOCATION and tag == (<uint64_t>self._gres << 3 | TEXT):
            return OF_GRES
        return -1

    cdef bint _frame(self, WireCursor *cursor, int owner, uint64_t tag) noexcept:
        """Reads a nested message; in the kind its length stands before it."""
        cdef uint64_t length
        cdef uint32_t size
        cdef Py_ssize_t begin
        if not read_varint(cursor, &length) or length > <uint64_t>(cursor.end - cursor.at):
            return False
        if not self._copy(<const uint8_t *>&tag, sizeof(tag)):
            return False
        begin = self._key_size
        size = 0
        if not self._copy(<const uint8_t *>&size, FRAME_BYTES):
            return False
        if not self._fields(WireCursor(cursor.at, cursor.at + length), owner):
            return False
        cursor.at += length
        size = <uint32_t>(self._key_size - begin)
        memcpy(self._key + begin, &size, FRAME_BYTES)
        return True

    cdef bint _fields(self, WireCursor cursor, int owner) noexcept:
        """Reads all fields of a message: those that differ into the values, the others into the kind."""
        cdef const uint8_t *begin
        cdef uint64_t tag
        cdef const FieldRule *rule
        cdef bint stays
        cdef int nested
        while cursor.at < cursor.end:
            begin = cursor.at
            if not read_varint(&cursor, &tag):
                return False
            nested = self._nested(owner, tag)
            if nested >= 0:
                if not self._frame(&cursor, nested, tag):
                    return False
                continue
            if owner < OWNERS and tag >> 3 < FIELDS_MAX and self._rules[owner][tag >> 3].place >= 0:
                rule = &self._rules[owner][tag >> 3]
                stays = False
                if not self._value(&cursor, rule, tag & 7, &stays):
                    return False
                if not stays:
                    continue
            elif not skip(&cursor, tag & 7):
                return False
            if owner == OF_GRES and tag >> 3 == self._uuid:
                continue
            if not self._copy(begin, cursor.at - begin):
                return False
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
        stays[0] = self._stays(value, rule)
        if stays[0]:
            value.size = 0
        return True

    cdef bint _stays(self, const JobValue *value, const FieldRule *rule) noexcept:
        """Whether a text is none that is written as it is."""
        cdef Py_ssize_t at
        if rule.shape == SHAPE_BITS:
            if value.size > BITS_BYTES_MAX:
                return True
            for at in range(value.size):
                if value.text[at]:
                    return False
            return value.size > 0
        if rule.shape == SHAPE_NODE:
            return not is_node(value.text, value.size)
        return not is_plain(value.text, value.size) or (
            rule.place == self._except_place
            and value.size == PyBytes_GET_SIZE(self._except_value)
            and not memcmp(value.text, PyBytes_AS_STRING(self._except_value), value.size)
        )
