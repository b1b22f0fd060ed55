# The memory of a pass: chunks that live until it ends, and columns of the result that grow in them.

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from _fastsched.planner.basics cimport greater

cdef extern from *:
    """
    #define PLANNER_CHUNK_BYTES ((size_t)64 << 20)
    #define PLANNER_SPARE_BYTES ((size_t)4 << 20)
    """
    const size_t CHUNK_BYTES "PLANNER_CHUNK_BYTES"  # chunks double up to this
    # The most memory that is kept between passes. One over a long queue needs more, which the system maps again in a small part
    # of the pass's time.
    const size_t SPARE_BYTES "PLANNER_SPARE_BYTES"


cdef struct Chunk:
    Chunk* older
    size_t size
    size_t used


cdef struct Arena:
    Chunk* chunk  # the newest


cdef struct ArenaMark:  # how far an arena was used
    Chunk* chunk
    size_t used


cdef struct OutputColumn:  # grows; becomes an array of the result
    char* data
    int64_t used_bytes
    int64_t capacity_bytes


cdef int borrow_spare_chunk(Arena* arena) except -1
cdef int give_back(Arena* arena) except -1
cdef int add_chunk(Arena* arena, size_t size) except -1 nogil
cdef int rewind(Arena* arena, ArenaMark mark) except -1 nogil


cdef inline void* allocate(Arena* arena, size_t size) except NULL nogil:
    """Returns memory that lasts until the pass ends; not zeroed, aligned for all types used here."""
    cdef char* found
    size = (size + 15) & ~<size_t> 15
    if arena.chunk == NULL or arena.chunk.used + size > arena.chunk.size:
        add_chunk(arena, size)
    found = <char*> (arena.chunk + 1) + arena.chunk.used
    arena.chunk.used += size
    return found


cdef inline void* allocate_zeroed(Arena* arena, size_t size) except NULL nogil:
    cdef void* found = allocate(arena, size)
    memset(found, 0, size)
    return found


cdef inline ArenaMark mark_of(const Arena* arena) noexcept nogil:
    return ArenaMark(chunk=arena.chunk, used=arena.chunk.used)


cdef inline int append(Arena* arena, OutputColumn* column, const void* item, int64_t size) except -1 nogil:
    """The old memory of a column that grows is released at the end of the pass."""
    cdef char* data
    if column.used_bytes + size > column.capacity_bytes:
        column.capacity_bytes = greater(2 * column.capacity_bytes, 512)
        data = <char*> allocate(arena, column.capacity_bytes)
        if column.used_bytes:
            memcpy(data, column.data, column.used_bytes)
        column.data = data
    memcpy(column.data + column.used_bytes, item, size)
    column.used_bytes += size
    return 0


cdef inline int append_int32(Arena* arena, OutputColumn* column, int32_t value) except -1 nogil:
    return append(arena, column, &value, sizeof(value))


cdef inline int append_int64(Arena* arena, OutputColumn* column, int64_t value) except -1 nogil:
    return append(arena, column, &value, sizeof(value))
