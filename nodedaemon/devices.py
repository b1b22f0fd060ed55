"""Devices that a step was not given are closed to it: by v1's deny list, on v2 by a small eBPF program.

As Slurm does, only devices that are somebody's to give (GRES with a device file) are fenced off; all others stay as
they are. A denied device cannot be opened, read, written or made by mknod, whatever the file's mode says.

A device is named by its file, or by its numbers (`c195:0`): NVIDIA's are, since their files come and go with the driver.

The program is written by hand, since it is five instructions a device: compare type, major and minor with what is
opened; equal to one that is denied = no, else yes. It stays with the group and goes with it. Loading needs root
(CAP_BPF); without, the step does not start, rather than starting without its fence.
"""

import ctypes
import functools
import os
import stat
import struct

from nodedaemon.kernelfiles import read_text, write_text

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodedaemon.cgroup import Tree

BLOCK, CHAR = 1, 2  # as the kernel tells a program
_LETTER = {BLOCK: "b", CHAR: "c"}
_KINDS = {letter: kind for kind, letter in _LETTER.items()}
_SYSCALL_BPF = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH, _PROG_QUERY = 5, 8, 16
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_ATTR_BYTES = 128
_INSTRUCTION = struct.Struct("<BBhi")  # operation, registers, offset, number
_LOAD_WORD, _AND_NUMBER, _JUMP_UNLESS_EQUAL, _SET_NUMBER, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
#: r1 holds what is opened: access and type, major, minor; r2 to r4 take these.
_WHAT, _TYPE, _MAJOR, _MINOR = 1, 2, 3, 4


#: Of NVIDIA's GPUs: minor 255 is nvidiactl, 254 modeset.
NVIDIA_MAJOR = 195
_NVIDIA, _CAPABILITY = "/dev/nvidia", "/dev/nvidia-caps/nvidia-cap"
#: What everybody needs who computes on any of them (gpu.md 3c).
OPEN_TO_ALL = frozenset((
    f"c{NVIDIA_MAJOR}:255", f"c{NVIDIA_MAJOR}:254", "/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
))  # fmt: skip


def entry(path: str) -> str:
    """How a device file stands in a list of denied ones."""
    if path.startswith(_CAPABILITY) and path[len(_CAPABILITY) :].isdigit():
        major = _capability_major()
        return f"c{major}:{path[len(_CAPABILITY) :]}" if major else path
    rest = path[len(_NVIDIA) :]
    return f"c{NVIDIA_MAJOR}:{rest}" if path.startswith(_NVIDIA) and rest.isdigit() else path


def mig_controls() -> list[str]:
    """What divides GPUs anew, or watches all instances: `config` and `monitor` of the MIG capabilities."""
    major = _capability_major()
    lines = read_text("/proc/driver/nvidia-caps/mig-minors").split("\n") if major else []
    words = [line.split() for line in lines]
    return [f"c{major}:{word[1]}" for word in words if len(word) == 2 and word[0] in ("config", "monitor")]


def _capability_major() -> int:
    """Of the MIG capabilities; 0 = the driver is not there."""
    for line in read_text("/proc/devices").split("\n"):
        number, _, name = line.strip().partition(" ")
        if name == "nvidia-caps":
            return int(number)
    return 0


def numbers(path: str) -> tuple[int, int, int] | None:
    """Type, major and minor of a device, by its file or as `entry` says it; None when there is none of that name."""
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


@functools.cache
def can_deny() -> bool:
    """True when this process may load such a program. Asked once: by loading one."""
    try:
        os.close(_load(program([])))
    except OSError:
        return False
    return True


def deny_by_program(folder: str, files: list[str], again: bool = False) -> None:
    """Fence a group of v2 off from these devices, unless it is already. Raises OSError.

    `again`: also when it is. All programs of a group must say yes, so another one takes more away and gives nothing back.
    """
    denied = [device for device in map(numbers, files) if device]
    if not denied:
        return
    group_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not again and _has_program(group_fd):  # of another step of the job, which said the same
            return
        program_fd = _load(program(denied))
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", group_fd, program_fd, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(program_fd)
    finally:
        os.close(group_fd)


def _load(code: bytes) -> int:
    """A descriptor of the program in the kernel. Raises OSError."""
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


def take_away(trees: "Sequence[Tree]", job: str, files: list[str]) -> int:
    """Close these devices to all steps of `JOB.ATTEMPT`, which run; in how many groups. What is open stays open.

    Raises OSError. v1 hands a denial down to the groups below; on v2 a group's program holds for those below, too.
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
