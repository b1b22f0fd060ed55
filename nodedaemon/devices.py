"""Devices that a step was not given are closed to it: by v1's deny list, on v2 by a small eBPF program.

As Slurm does, only devices that are somebody's to give (GRES with a device file) are fenced off; all others stay as
they are. A denied device cannot be opened, read, written or made by mknod, whatever the file's mode says.

The program is written by hand, since it is five instructions a device: compare type, major and minor with what is
opened; equal to one that is denied = no, else yes. It stays with the group and goes with it. Loading needs root
(CAP_BPF); without, the step does not start, rather than starting without its fence.
"""

import ctypes
import os
import stat
import struct

BLOCK, CHAR = 1, 2  # as the kernel tells a program
_LETTER = {BLOCK: "b", CHAR: "c"}
_SYSCALL_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH, _PROG_QUERY = 5, 8, 16
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_ATTR_BYTES = 128
_INSTRUCTION = struct.Struct("<BBhi")  # operation, registers, offset, number
_LOAD_WORD, _AND_NUMBER, _JUMP_UNLESS_EQUAL, _SET_NUMBER, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
#: r1 holds what is opened: access and type, major, minor; r2 to r4 take these.
_WHAT, _TYPE, _MAJOR, _MINOR = 1, 2, 3, 4


def numbers(path: str) -> tuple[int, int, int] | None:
    """Type, major and minor of a device file; None when there is none of that name."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    kind = CHAR if stat.S_ISCHR(found.st_mode) else BLOCK if stat.S_ISBLK(found.st_mode) else 0
    return (kind, os.major(found.st_rdev), os.minor(found.st_rdev)) if kind else None


def deny_lines(files: list[str]) -> list[str]:
    """For v1's devices.deny. A file that is not there denies nothing."""
    known = [device for device in map(numbers, files) if device]
    return [f"{_LETTER[kind]} {major}:{minor} rwm" for kind, major, minor in known]


def program(denied: list[tuple[int, int, int]]) -> bytes:
    """The instructions that say no to these and yes to everything else."""
    code = [
        _INSTRUCTION.pack(_LOAD_WORD, _WHAT << 4 | _TYPE, 0, 0),
        _INSTRUCTION.pack(_AND_NUMBER, _TYPE, 0, 0xFFFF),
        _INSTRUCTION.pack(_LOAD_WORD, _WHAT << 4 | _MAJOR, 4, 0),
        _INSTRUCTION.pack(_LOAD_WORD, _WHAT << 4 | _MINOR, 8, 0),
    ]
    for kind, major, minor in denied:
        code += [
            _INSTRUCTION.pack(_JUMP_UNLESS_EQUAL, _TYPE, 4, kind),
            _INSTRUCTION.pack(_JUMP_UNLESS_EQUAL, _MAJOR, 3, major),
            _INSTRUCTION.pack(_JUMP_UNLESS_EQUAL, _MINOR, 2, minor),
            _INSTRUCTION.pack(_SET_NUMBER, 0, 0, 0),
            _INSTRUCTION.pack(_EXIT, 0, 0, 0),
        ]
    return b"".join([*code, _INSTRUCTION.pack(_SET_NUMBER, 0, 0, 1), _INSTRUCTION.pack(_EXIT, 0, 0, 0)])


def deny_by_program(folder: str, files: list[str]) -> None:
    """Fence a group of v2 off from these device files, unless it is already. Raises OSError."""
    denied = [device for device in map(numbers, files) if device]
    if not denied:
        return
    group_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _has_program(group_fd):  # of another step of the job, which said the same
            return
        code = program(denied)
        code_buffer, license_buffer = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"MIT")
        head = struct.pack(
            "<IIQQ",
            _TYPE_CGROUP_DEVICE,
            len(code) // _INSTRUCTION.size,
            ctypes.addressof(code_buffer),
            ctypes.addressof(license_buffer),
        )
        program_fd = _bpf(_PROG_LOAD, head)
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", group_fd, program_fd, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(program_fd)
    finally:
        os.close(group_fd)


def _has_program(group_fd: int) -> bool:
    found = ctypes.create_string_buffer(4 * 64)
    head = struct.pack("<IIIIQI", group_fd, _ATTACH_CGROUP_DEVICE, 0, 0, ctypes.addressof(found), 64)
    attr = ctypes.create_string_buffer(head, _ATTR_BYTES)
    _call(_PROG_QUERY, attr)
    (count,) = struct.unpack_from("<I", attr.raw, 24)
    return bool(count)


def _bpf(command: int, head: bytes) -> int:
    return _call(command, ctypes.create_string_buffer(head, _ATTR_BYTES))


def _call(command: int, attr: "ctypes.Array[ctypes.c_char]") -> int:
    machine = os.uname().machine
    number = _SYSCALL_BPF.get(machine)
    if number is None:
        raise OSError(f"ConstrainDevices is not supported on {machine} with cgroup v2")
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), ctypes.c_int(command), attr, ctypes.c_uint(_ATTR_BYTES))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"bpf: {os.strerror(code)}")
    return result
