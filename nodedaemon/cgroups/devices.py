"""Denies a step access to devices that it was not given: by v1's deny list, on v2 by a small eBPF program.

As in Slurm, only devices that are allocated (GRES with a device file) are denied; all others stay as they are. A
denied device cannot be opened, read, written or made by mknod, whatever the file's mode is.

A device is named by its file, or by its numbers (`c195:0`), as NVIDIA's are, since the driver creates and removes
their files.

The program is written by hand, since it is five instructions a device: compare type, major and minor with what is
opened; deny on a match, else allow. It is attached to the group and removed with it. Loading needs root (CAP_BPF);
without, the step does not start, rather than starting with access to all devices.
"""

import ctypes
import functools
import os
import stat
import struct

from nodedaemon.base.kernelfiles import read_text, write_text

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodedaemon.cgroups.tree import CgroupTree

BLOCK, CHAR = 1, 2  # numbers in the program's input
_LETTER = {BLOCK: "b", CHAR: "c"}
_KINDS = {letter: kind for kind, letter in _LETTER.items()}
_SYSCALL_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280, "s390x": 351}
_PROG_LOAD = 5
_PROG_ATTACH = 8
_PROG_QUERY = 16
_TYPE_CGROUP_DEVICE = 15
_ATTACH_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
_ATTR_BYTES = 128
_INSTRUCTION = struct.Struct("<BBhi")  # operation, registers, offset, number
_LOAD_WORD = 0x61
_AND_NUMBER = 0x54
_JUMP_UNLESS_EQUAL = 0x55
_SET_NUMBER = 0xB7
_EXIT = 0x95
#: r1 points to the access: access and type, major, minor; r2 to r4 load these.
_WHAT = 1
_TYPE = 2
_MAJOR = 3
_MINOR = 4


#: Minor numbers of NVIDIA's major: 255 is nvidiactl, 254 modeset.
NVIDIA_MAJOR = 195
_NVIDIA, _CAPABILITY = "/dev/nvidia", "/dev/nvidia-caps/nvidia-cap"
#: Device files that every process which computes on any of them needs (gpu.md 3c).
OPEN_TO_ALL = frozenset((
    f"c{NVIDIA_MAJOR}:255", f"c{NVIDIA_MAJOR}:254", "/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
))  # fmt: skip


def entry(path: str) -> str:
    """The notation of a device file in a list of denied ones."""
    if path.startswith(_CAPABILITY) and path[len(_CAPABILITY) :].isdigit():
        major = _capability_major()
        return f"c{major}:{path[len(_CAPABILITY) :]}" if major else path
    rest = path[len(_NVIDIA) :]
    return f"c{NVIDIA_MAJOR}:{rest}" if path.startswith(_NVIDIA) and rest.isdigit() else path


def mig_controls() -> list[str]:
    """The device files that repartition GPUs, or monitor all instances: `config` and `monitor` of the MIG
    capabilities."""
    text = read_text("/proc/driver/nvidia-caps/mig-minors")
    major = _capability_major() if text else 0  # /proc/devices is long: it is read only where there is a driver
    words = [line.split() for line in text.split("\n")] if major else []
    return [f"c{major}:{word[1]}" for word in words if len(word) == 2 and word[0] in ("config", "monitor")]


def _capability_major() -> int:
    """Returns the major number of the MIG capabilities; 0 = the driver is not loaded."""
    for line in read_text("/proc/devices").split("\n"):
        number, _, name = line.strip().partition(" ")
        if name == "nvidia-caps":
            return int(number)
    return 0


def numbers(path: str) -> tuple[int, int, int] | None:
    """Type, major and minor of a device, by its file or its `entry`; None when there is none of that name."""
    kind, major, minor = path[:1], *path[1:].partition(":")[::2]
    if kind in _KINDS and major.isdigit() and minor.isdigit():
        return _KINDS[kind], int(major), int(minor)
    try:
        found = os.stat(path)
    except OSError:
        return None
    number = CHAR if stat.S_ISCHR(found.st_mode) else BLOCK if stat.S_ISBLK(found.st_mode) else 0
    return (number, os.major(found.st_rdev), os.minor(found.st_rdev)) if number else None


def deny_lines(files: list[str]) -> list[str]:
    """The lines for v1's devices.deny. A file that does not exist denies nothing."""
    known = [device for device in map(numbers, files) if device]
    return [f"{_LETTER[kind]} {major}:{minor} rwm" for kind, major, minor in known]


def program(denied: list[tuple[int, int, int]]) -> bytes:
    """The eBPF instructions that deny these devices and allow everything else."""
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


@functools.cache
def can_deny() -> bool:
    """Whether this process may load such a program. Tested once, by loading one."""
    try:
        os.close(_load(program([])))
    except OSError:
        return False
    return True


def deny_by_program(folder: str, files: list[str], again: bool = False) -> None:
    """Denies a v2 group access to these devices, unless a program is attached already. Raises OSError.

    `again`: attach another one even then. Access needs the consent of all programs of a group, so a further one can
    only deny more.
    """
    denied = [device for device in map(numbers, files) if device]
    if not denied:
        return
    group_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not again and _has_program(group_fd):  # of another step of the job, with the same devices
            return
        program_fd = _load(program(denied))
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", group_fd, program_fd, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(program_fd)
    finally:
        os.close(group_fd)


def _load(code: bytes) -> int:
    """Loads the program; returns its descriptor. Raises OSError."""
    code_buffer, license_buffer = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"MIT")
    head = struct.pack(
        "<IIQQ",
        _TYPE_CGROUP_DEVICE,
        len(code) // _INSTRUCTION.size,
        ctypes.addressof(code_buffer),
        ctypes.addressof(license_buffer),
    )
    return _bpf(_PROG_LOAD, head)


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


def take_away(trees: "Sequence[CgroupTree]", job: str, files: list[str]) -> int:
    """Denies all running steps of `JOB.ATTEMPT` these devices; returns the number of groups. Open descriptors stay
    usable.

    Raises OSError. v1 propagates a denial to the groups below; on v2 a group's program applies to those below, too.
    """
    count = 0
    for tree in trees:
        if not (tree.unified or "devices" in tree.controllers):
            continue
        for name in os.listdir(tree.path) if os.path.isdir(tree.path) else ():
            if name != job and not name.startswith(f"{job}."):
                continue
            count += 1
            if tree.unified:
                deny_by_program(f"{tree.path}/{name}", files, again=True)
            else:
                for line in deny_lines(files):
                    write_text(f"{tree.path}/{name}/devices.deny", line)
    return count
