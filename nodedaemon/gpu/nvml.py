"""Calls of NVML in a child: each is announced before it is made, so that the parent can name one that does not return.

    All queries of a GPU go through its `AnnouncementLine`: a value that this GPU's driver does not support is None, and
    is not queried again; an error that means that the GPU is gone ends the series of queries (`GpuError`), and so does
    a call that took too long (`TooSlow`): with a dead GSP each takes 45 s, and other GPUs wait. An error of the whole
    driver is `DriverError`.

Imported as late as possible: pynvml loads only in children. Deliberately absent: the queries (finding, signals).
"""

import time
from collections.abc import Callable

# Any: answers of the library: pynvml has no types
from typing import Any, TypeAlias

from nodedaemon.core.gpumessages import Asking

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
UNINITIALIZED = 1
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
TIMEOUT = 10
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
VERSION_MISMATCH = 18
UNKNOWN = 999
ARGUMENT_VERSION, DEPRECATED = 25, 26

#: Result of a function of the library: a handle, a structure, a number or a text. pynvml has no types.
NvmlAnswer: TypeAlias = Any
#: The driver as a whole does not work.
_DRIVER = frozenset((UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, OPERATING_SYSTEM, VERSION_MISMATCH))
#: Never available from this GPU, driver or pynvml.
_NEVER = frozenset((INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION, DEPRECATED))
#: Not available now.
_NOT_NOW = frozenset((NO_PERMISSION, NOT_FOUND))
_GONE = frozenset((GPU_IS_LOST, RESET_REQUIRED))
#: One odd answer is a driver's bug; this many in one series mean that the GPU is not well.
_ODD_MAX = 2
#: A healthy call takes some milliseconds.
SLOW_S = 5.0


class DriverError(Exception):
    """NVML does not work: `code`, and words for it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class GpuError(Exception):
    """One GPU does not answer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class TooSlow(Exception):
    """A call has taken longer than SLOW_S. The text names it."""


class Nvml:
    """The library, loaded and initialised by `open`."""

    def __init__(self, send: Callable[[Asking], None], slow_s: float = SLOW_S) -> None:
        self._send = send
        self._slow_s = slow_s
        self._library: Any = None

    def open(self) -> None:
        """Raises DriverError."""
        self._send(Asking("nvmlInit"))
        try:
            import pynvml
        except ImportError:
            raise DriverError(LIBRARY_NOT_FOUND, "the package nvidia-ml-py is not installed") from None
        self._library = pynvml
        # pynvml's error for a driver that lacks a function is no NVMLError.
        self._mismatch = pynvml.NVMLLibraryMismatchError
        self.system("nvmlInit")

    def system(self, function: str, *args: object) -> NvmlAnswer:
        """Makes a call that concerns no GPU. Raises DriverError."""
        self._send(Asking(function))
        try:
            return getattr(self._library, function)(*args)
        except self._library.NVMLError as error:
            raise DriverError(error.value, f"NVML: {error}") from error

    def version(self, function: str) -> NvmlAnswer:
        """As `system`, "" when it is not available."""
        try:
            return self.system(function)
        except DriverError as error:
            if error.code in _DRIVER:
                raise
            return ""

    def raw(self, gpu: str, function: str, *args: object) -> NvmlAnswer:
        """Makes a call about a GPU. Raises GpuError with any code, DriverError, and TooSlow when it came too late."""
        self._send(Asking(function, gpu))
        begun = time.monotonic()
        answer = self.quietly(function, *args)
        if time.monotonic() - begun > self._slow_s:
            raise TooSlow(function)
        return answer

    def quietly(self, function: str, *args: object) -> object:
        """Makes a call that is not announced. Raises GpuError with any code, DriverError."""
        try:
            made = getattr(self._library, function, None)
            if made is None:
                raise GpuError(FUNCTION_NOT_FOUND)  # an older pynvml
            return made(*args)
        except self._mismatch:
            raise GpuError(FUNCTION_NOT_FOUND) from None
        except self._library.NVMLError as error:
            if error.value in _DRIVER:
                raise DriverError(error.value, f"NVML: {error}") from error
            raise GpuError(error.value) from error


class AnnouncementLine:
    """A series of queries of one GPU, or one MIG instance. `name` is for announcements, `never` is kept with the
    GPU."""

    def __init__(self, nvml: Nvml, name: str, handle: object, never: set[str]) -> None:
        self._nvml = nvml
        self._name = name
        self._handle = handle
        self._never = never
        self._odd = 0

    def must(self, function: str, *args: object) -> NvmlAnswer:
        """Queries a value that every GPU has. Raises GpuError."""
        return self._nvml.raw(self._name, function, self._handle, *args)

    def ask(self, function: str, *args: object) -> NvmlAnswer:
        """Queries a value; None when it is not available. Raises GpuError when the GPU does not answer at all."""
        key = f"{function}{args}" if args else function
        if key in self._never:
            return None
        try:
            return self.must(function, *args)
        except GpuError as error:
            if error.code in _NEVER:
                self._never.add(key)
            elif error.code not in _NOT_NOW:
                self._odd += 1
                if error.code in _GONE or self._odd >= _ODD_MAX:
                    raise
            return None

    def probe(self, function: str, *args: object) -> object:
        """As `ask`, for a value that may be available later: failures are not remembered."""
        try:
            return self.must(function, *args)
        except GpuError as error:
            if error.code in _NEVER | _NOT_NOW:
                return None
            raise

    def first(self, *functions: str) -> NvmlAnswer:
        """The answer of the first of these functions that this driver knows."""
        for function in functions:
            answer = self.ask(function)
            if answer is not None:
                return answer
        return None
