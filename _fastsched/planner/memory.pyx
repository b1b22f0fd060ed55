"""The memory of a pass. It comes from chunks that live until the pass ends; the largest that is not too large is kept for the next pass."""

from libc.stdlib cimport free, malloc

# The chunk of the last pass; removed from here while a pass uses it, so that two threads never share it. Both functions that
# access it run with the GIL.
cdef Chunk* spare = NULL


cdef int borrow_spare_chunk(Arena* arena) except -1:
    """Begins with the chunk of the last pass, if there is one."""
    global spare
    arena.chunk = spare
    spare = NULL
    if arena.chunk != NULL:
        arena.chunk.used = 0
    return 0


cdef int give_back(Arena* arena) except -1:
    """Frees all but the newest chunk that may be kept, which is the largest of these."""
    global spare
    cdef Chunk* older
    cdef Chunk* chunk = arena.chunk
    while chunk != NULL:
        older = chunk.older
        if spare == NULL and chunk.size <= SPARE_BYTES:
            chunk.older = NULL
            spare = chunk
        else:
            free(chunk)
        chunk = older
    arena.chunk = NULL
    return 0


cdef int add_chunk(Arena* arena, size_t size) except -1 nogil:
    """Makes room for at least this many bytes; each chunk is twice as large as the one before, up to a limit."""
    cdef size_t doubled = 2 * arena.chunk.size if arena.chunk != NULL else 0
    cdef Chunk* chunk
    size = max(size, max(<size_t> 1 << 16, min(CHUNK_BYTES, doubled)))
    chunk = <Chunk*> malloc(sizeof(Chunk) + size)
    if chunk == NULL:
        with gil:
            raise MemoryError
    chunk.older = arena.chunk
    chunk.size = size
    chunk.used = 0
    arena.chunk = chunk
    return 0


cdef int rewind(Arena* arena, ArenaMark mark) except -1 nogil:
    """Releases all memory allocated since then."""
    cdef Chunk* older
    while arena.chunk != mark.chunk:
        older = arena.chunk.older
        free(arena.chunk)
        arena.chunk = older
    arena.chunk.used = mark.used
    return 0
