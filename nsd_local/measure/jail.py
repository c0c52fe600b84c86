"""Runs one untrusted Python program in this process, after giving up what the program must not have.

`sandbox.py` copies this file next to an order and starts it as a script; it knows the standard library only.

Three fences, from the strongest to the weakest:
- `kernel` (Linux on x86-64 and arm64): a seccomp filter refuses new processes, threads, sockets, signals and changes
  of rights; Landlock (Linux 5.13 or later) refuses writes outside the program's folder. The program cannot take
  these back.
- `limits` (Linux, macOS): CPU time, address space, file size, open files, processes.
- `hook` (everywhere): Python's audit hook refuses the same things by name and notes what was tried. Code that gets
  around the interpreter gets around it: where it stands alone, it stops accidents, not attackers.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

MOST_NOTES = 20

# System calls that a pure program does without: (x86-64, arm64), -1 where there is none.
CALLS = {
    "clone": (56, 220), "fork": (57, -1), "vfork": (58, -1), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "io_uring_setup": (425, 425),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "setrlimit": (160, 164), "prlimit64": (302, 261), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "mknod": (133, -1), "mknodat": (259, 33), "open_by_handle_at": (304, 265),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "acct": (163, 89), "quotactl": (179, 60), "iopl": (172, -1), "ioperm": (173, -1),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH

# Audit events (docs.python.org/3/library/audit_events.html).
REFUSED = {
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.startfile/2",
    "subprocess.Popen", "pty.spawn", "os.kill", "os.killpg", "signal.pthread_kill", "resource.setrlimit",
    "resource.prlimit", "ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function",
    "ctypes.string_at", "ctypes.wstring_at", "sqlite3.enable_load_extension", "sqlite3.load_extension",
    "os.chmod", "os.lchmod", "os.chown", "os.chflags", "os.setxattr", "os.removexattr", "os.utime",
}  # fmt: skip
REFUSED_FAMILIES = ("socket.", "winreg.", "_winapi.", "ftplib.", "smtplib.", "poplib.", "imaplib.", "telnetlib.")
# Events that change files, and which of their arguments are the paths that must lie inside the folder.
CHANGES = {
    "os.remove": (0,), "os.rename": (0, 1), "os.mkdir": (0,), "os.rmdir": (0,), "os.link": (0, 1), "os.symlink": (1,),
    "os.truncate": (0,), "shutil.rmtree": (0,), "shutil.move": (0, 1), "shutil.copyfile": (1,),
    "shutil.copytree": (1,), "shutil.chown": (0,), "sqlite3.connect": (0,),
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _PATH_BENEATH = 444, 445, 446, 1
_WRITE_FILE, _FILE_RIGHTS, _RIGHTS_ABI_1, _REFER, _TRUNCATE = 1 << 1, (1 << 1) | (1 << 14), 0x1FF2, 1 << 13, 1 << 14


def set_limits(cpu_seconds: int, memory_bytes: int, file_bytes: int) -> bool:
    """Resource limits of this process. False where the system has none (Windows)."""
    try:
        import resource
    except ImportError:
        return False
    for name, value in (
        ("RLIMIT_CPU", cpu_seconds),
        ("RLIMIT_AS", memory_bytes),
        ("RLIMIT_FSIZE", file_bytes),
        ("RLIMIT_NOFILE", 64),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_CORE", 0),
    ):
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS refuses some address-space limits; the parent watches memory too
            continue
    return True


def set_kernel_fence(folder: str) -> tuple[bool, bool]:
    """(seccomp, Landlock): which of them are in force now."""
    if not sys.platform.startswith("linux") or platform.machine() not in MACHINES or struct.calcsize("P") != 8:
        return False, False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False, False
    files = _landlock(libc, folder)
    return _seccomp(libc, *MACHINES[platform.machine()]), files


def _landlock(libc: Any, folder: str) -> bool:
    """Writes, and everything else that changes a tree, beneath `folder` only; writes to the null device too."""
    abi = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        return False
    rights = _RIGHTS_ABI_1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    attribute = ctypes.create_string_buffer(struct.pack("=Q", rights), 8)
    ruleset = libc.syscall(_CREATE_RULESET, attribute, 8, 0)
    if ruleset < 0:
        return False
    for path, allowed in ((folder, rights), (os.devnull, rights & _FILE_RIGHTS)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12)
        added = libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        os.close(place)
        if added != 0:
            return False
    done = libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return bool(done == 0)


def _seccomp(libc: Any, column: int, architecture: int) -> bool:
    """A filter that answers every call of CALLS with EPERM."""
    numbers = sorted(call[column] for call in CALLS.values() if call[column] >= 0)
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, RET|K
    allow, refuse = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM
    tail = len(numbers) + 1  # from the last check to `refuse`
    steps = [(load, 0, 0, 4), (equal, 0, tail + 1, architecture), (load, 0, 0, 0), (at_least, tail - 1, 0, 0x40000000)]
    steps += [(equal, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    steps += [(answer, 0, 0, allow), (answer, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER, program, 0, 0) == 0)


def audit(folder: str, notes: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """The hook: raises PermissionError for what is not allowed, and notes it."""
    root = os.path.realpath(folder)

    def outside(path: Any) -> bool:
        if isinstance(path, int):  # a file that is open already
            return False
        real = os.path.realpath(os.fsdecode(path))
        return real not in (root, os.path.realpath(os.devnull)) and not real.startswith(root + os.sep)

    def refuse(event: str, detail: object = "") -> None:
        note = f"{event} {detail}".strip()
        if len(notes) < MOST_NOTES:
            notes.append(note[:200])
        raise PermissionError(f"not allowed here: {note}")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = (set("wax+") & set(mode)) if isinstance(mode, str) else (flags or 0) & WRITING
            if writes and outside(path):
                refuse("write", path)
        elif event in CHANGES:
            for i in CHANGES[event]:
                if arguments[i] != ":memory:" and outside(arguments[i]):
                    refuse(event, arguments[i])
        elif event in REFUSED or event.startswith(REFUSED_FAMILIES):
            refuse(event)

    return hook


def run(program: str) -> str:
    """Runs a program to its end; returns "" or what went wrong."""
    try:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    except SystemExit:
        return "SystemExit: it ended itself before the tests were done"
    except BaseException as error:  # noqa: BLE001  # whatever it was, it is the program's verdict
        return f"{type(error).__name__}: {error}".strip(": ")[:500]
    return ""


def main(order_path: str) -> None:
    with open(order_path, encoding="utf-8") as file:
        order = json.load(file)
    folder, fences = order["folder"], order["fences"]
    verdict = os.open(order["verdict"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    notes: list[str] = []
    in_force: list[str] = []
    hook = audit(folder, notes)
    if "limits" in fences and set_limits(order["cpu_seconds"], order["memory_bytes"], order["file_bytes"]):
        in_force.append("limits")
    if "kernel" in fences:
        names = ("seccomp", "landlock")
        in_force += [name for name, on in zip(names, set_kernel_fence(folder), strict=True) if on]
    if "hook" in fences:
        sys.addaudithook(hook)
        in_force.append("hook")
    error = run(order["program"])
    # The secret shows that this line was reached, and not only an exit code of 0.
    said = {"secret": order["secret"], "error": error, "notes": notes, "fences": in_force}
    os.write(verdict, json.dumps(said).encode())
    os._exit(0)  # no exit handlers of the program


if __name__ == "__main__":
    main(sys.argv[1])
