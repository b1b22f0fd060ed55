/* starttask: turns a new process into a task's program.
 *
 * A step's supervisor (nodedaemon/stepd/tasks.py) starts this program through posix_spawn instead of forking itself: a
 * forked Python process copies hundreds of pages before it executes anything. This program has no libc and touches a
 * handful of pages.
 *
 * It decides nothing. The supervisor writes a list of instructions into a memory file (nodedaemon/stepd/instructions.py
 * has the same numbers and layouts); this program executes them in that order. Each is a number, the length of its
 * operands, and the operands: 64-bit numbers, then texts that end with a zero byte. The next one begins at a multiple
 * of eight bytes. The last instruction executes the user's program.
 *
 * An instruction that fails ends the process, after a message on the status socket: the text that the instruction or
 * the general one gives, and the kernel's error. Those that only report an error to the user say so.
 *
 * Rules that hold whatever the instructions are:
 * - No path of the user's is opened, and no program is executed, before IDENTITY has been executed: it sets the groups
 *   and the ids, reads them back, and verifies that root cannot be regained.
 * - No operand is read beyond its instruction. Malformed instructions end the process.
 * - No program is executed before CLOSE has closed all descriptors but those that the supervisor names.
 *
 * Arguments: the numbers of the status socket and of the memory file. The environment is not read. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "errortexts.h" /* error_texts[] and ERROR_TEXTS: written by setup.py, the texts that Python has */

#define FAILURE_BYTES_MAX 8192      /* as in nodedaemon/stepd/task.py */
#define PATH_BYTES_MAX 4096
#define FD_NUMBER_MAX (1 << 20)     /* on a kernel without close_range (before 5.9) */
#define CLOSE_RANGE 436
#define SIGNAL_SET_BYTES 8
#define SIGACTION_BYTES 64          /* more than the kernel's structure on any machine */
#define TASK_PID "SLURM_TASK_PID="
#define PID_MARK "{pid}"
#define NUMBER_BYTES 24

/* -- the kernel */

#if defined(__x86_64__)
static long call(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n call begin\n hlt\n");
#elif defined(__aarch64__)
static long call(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start:\n mov x29,#0\n mov x0,sp\n bl begin\n brk #0\n");
#else
#error "starttask: no system calls for this machine; the supervisor forks instead"
#endif

#define CALL5(n, a, b, c, d, e) call(SYS_##n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
#define CALL4(n, a, b, c, d) CALL5(n, a, b, c, d, 0)
#define CALL3(n, a, b, c) CALL4(n, a, b, c, 0)
#define CALL2(n, a, b) CALL3(n, a, b, 0)
#define CALL1(n, a) CALL2(n, a, 0)

/* The compiler may call these three. */
void *memcpy(void *to, const void *from, size_t count);
void *memset(void *at, int byte, size_t count);
size_t strlen(const char *text);

void *memcpy(void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *at, int byte, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((volatile char *)at)[i] = (char)byte;
    return at;
}

size_t strlen(const char *text)
{
    size_t count = 0;
    while (((const volatile char *)text)[count])
        count++;
    return count;
}

/* -- state, and what ends the process */

static int status_fd = -1;
static int is_user, is_closed;         /* IDENTITY and CLOSE have been executed */
static long folder_error, bind_error;  /* of FOLDER, and of AFFINITY */
static const int64_t *kernel_types;    /* of KERNEL_TYPES */
static int64_t kernel_types_count;
static const char *general = "cannot start the task";

static const char *error_text(long error)
{
    return error > 0 && error < ERROR_TEXTS ? error_texts[error] : "Unknown error";
}

static _Noreturn void leave(int status)
{
    for (;;)
        CALL1(exit_group, status);
}

/* Writes texts, in one call, up to the first one that is NULL. */
static void write_texts(int fd, int is_status, const char *const *texts)
{
    struct iovec parts[6];
    size_t count = 0, left = is_status ? FAILURE_BYTES_MAX : SIZE_MAX;
    for (; count < 6 && texts[count]; count++) {
        size_t length = strlen(texts[count]);
        if (length > left)
            length = left;
        left -= length;
        parts[count] = (struct iovec){(void *)texts[count], length};
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    if (is_status)
        CALL3(sendmsg, fd, &message, MSG_NOSIGNAL);
    else
        CALL3(writev, fd, parts, count);
}

/* The negative result of a call, or a positive error, is the reason; 0: the text says all. */
static _Noreturn void fail(const char *what, long error)
{
    const char *const all[] = {what, ": ", error_text(error < 0 ? -error : error), NULL};
    const char *const one[] = {what, NULL};
    write_texts(status_fd, 1, error ? all : one);
    leave(1);
}

static void must(long result)
{
    if (result < 0)
        fail(general, result);
}

/* -- operands */

struct operands {
    const char *at, *end;
};

static int64_t number(struct operands *from)
{
    int64_t value;
    if (from->end - from->at < (long)sizeof(value))
        fail(general, EBADMSG);
    memcpy(&value, from->at, sizeof(value));
    from->at += sizeof(value);
    return value;
}

static const char *text(struct operands *from)
{
    const char *found = from->at;
    while (from->at < from->end && *from->at)
        from->at++;
    if (from->at == from->end)
        fail(general, EBADMSG);
    from->at++;
    return found;
}

/* That many numbers, in place: an instruction's operands are aligned, and numbers come first. */
static const int64_t *numbers(struct operands *from, int64_t count)
{
    const int64_t *found = (const int64_t *)from->at;
    if (count < 0 || count > (from->end - from->at) / (long)sizeof(*found) || (uintptr_t)found % sizeof(*found))
        fail(general, EBADMSG);
    from->at += count * (long)sizeof(*found);
    return found;
}

static void as_user(void)
{
    if (!is_user)
        fail(general, EPERM);
}

static const char *decimal(long value, char *room)
{
    char *at = room + NUMBER_BYTES - 1;
    *at = 0;
    do {
        *--at = (char)('0' + value % 10);
    } while (value /= 10);
    return at;
}

/* -- instructions, as root */

static void do_session(struct operands *from)
{
    int64_t terminal = number(from);
    must(CALL1(setsid, 0));
    must(CALL3(ioctl, terminal, TIOCSCTTY, 0));
}

/* Without an error: where a container forbids it the daemon is not exempt either. */
static void do_oom_score(struct operands *from)
{
    (void)from;
    long fd = CALL4(openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        CALL3(write, fd, "0", 1);
        CALL1(close, fd);
    }
}

static void do_join(struct operands *from)
{
    long fd = CALL4(openat, AT_FDCWD, text(from), O_WRONLY | O_CLOEXEC, 0);
    must(fd);
    must(CALL3(write, fd, "0", 1));
    CALL1(close, fd);
}

static void do_namespace(struct operands *from)
{
    int64_t fd = number(from);
    const char *what = text(from);
    long result = CALL2(setns, fd, CLONE_NEWNS);
    if (result < 0)
        fail(what, result);
}

static void limit(int64_t resource, struct rlimit *set, struct rlimit *get)
{
    must(CALL4(prlimit64, 0, resource, set, get));
}

static int exceeds(rlim_t value, rlim_t most)
{
    return most != RLIM_INFINITY && (value == RLIM_INFINITY || value > most);
}

/* A limit beyond the kernel's own (NOFILE) stays at its maximum. */
static void do_hard_limit(struct operands *from)
{
    int64_t resource = number(from);
    rlim_t value = (rlim_t)number(from);
    struct rlimit now;
    limit(resource, NULL, &now);
    if (exceeds(value, now.rlim_max)) {
        now.rlim_max = value;
        CALL4(prlimit64, 0, resource, &now, NULL);
    }
}

static void do_no_new_privs(struct operands *from)
{
    (void)from;
    must(CALL5(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static void verify(uint32_t uid, uint32_t gid, const char *not_become)
{
    uint32_t users[3], groups[3];
    must(CALL3(getresuid, &users[0], &users[1], &users[2]));
    must(CALL3(getresgid, &groups[0], &groups[1], &groups[2]));
    for (int i = 0; i < 3; i++)
        if (users[i] != uid || groups[i] != gid)
            fail(not_become, 0);
}

/* uid, gid, 1 = from root, number of groups, groups; texts: could not become, could not give up root. */
static void do_identity(struct operands *from)
{
    uint32_t uid = (uint32_t)number(from), gid = (uint32_t)number(from);
    int64_t from_root = number(from), count = number(from);
    const int64_t *wide = numbers(from, count);
    const char *not_become = text(from), *not_given_up = text(from);
    if (!from_root) {
        if ((uint32_t)CALL1(getuid, 0) != uid || (uint32_t)CALL1(geteuid, 0) != uid)
            fail(not_become, 0);
        is_user = 1;
        return;
    }
    uint32_t *groups = (uint32_t *)wide; /* in place: the operands are our own copy */
    for (int64_t i = 0; i < count; i++)
        ((volatile uint32_t *)groups)[i] = (uint32_t)wide[i];
    must(CALL2(setgroups, count, groups));
    must(CALL3(setresgid, gid, gid, gid));
    must(CALL3(setresuid, uid, uid, uid));
    verify(uid, gid, not_become);
    if (uid != 0 && CALL1(setuid, 0) != -EPERM)
        fail(not_given_up, 0);
    is_user = 1;
}

/* -- instructions, as the user */

static void do_umask(struct operands *from)
{
    CALL1(umask, number(from));
}

/* The folder, and the one to take in its place. */
static void do_folder(struct operands *from)
{
    const char *folder = text(from), *fallback = text(from);
    as_user();
    folder_error = CALL1(chdir, folder);
    if (folder_error < 0)
        must(CALL1(chdir, fallback));
}

/* The message about a folder that could not be entered: before and after the kernel's text. */
static void do_folder_note(struct operands *from)
{
    const char *before = text(from), *after = text(from);
    const char *const texts[] = {before, error_text(-folder_error), after, NULL};
    as_user();
    if (folder_error < 0)
        write_texts(2, 0, texts);
}

/* Makes the folders above a file. An error is reported when the file is opened. */
static void do_parents(struct operands *from)
{
    char path[PATH_BYTES_MAX];
    const char *whole = text(from);
    size_t length = strlen(whole);
    as_user();
    if (length >= sizeof(path))
        return;
    memcpy(path, whole, length + 1);
    for (size_t i = 1; i < length; i++)
        if (path[i] == '/') {
            path[i] = 0;
            CALL3(mkdirat, AT_FDCWD, path, 0777);
            path[i] = '/';
        }
}

/* File systems whose files are refused: writing to them has the kernel act. */
static void do_kernel_types(struct operands *from)
{
    kernel_types_count = number(from);
    kernel_types = numbers(from, kernel_types_count);
}

static void place(long fd, int64_t to)
{
    must(fd == to ? CALL3(fcntl, fd, F_SETFD, 0) : CALL3(dup3, fd, to, 0));
}

/* Number, flags, path; texts: cannot open, a file of the kernel. */
static void do_open(struct operands *from)
{
    int64_t to = number(from), flags = number(from);
    const char *path = text(from), *what = text(from), *of_kernel = text(from);
    struct statfs found;
    as_user();
    long fd = CALL4(openat, AT_FDCWD, path, flags | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0)
        fail(what, fd);
    must(CALL2(fstatfs, fd, &found));
    for (int64_t i = 0; i < kernel_types_count; i++)
        if ((uint32_t)found.f_type == (uint32_t)kernel_types[i])
            fail(of_kernel, 0);
    place(fd, to);
    if (fd != to)
        CALL1(close, fd);
}

static void do_duplicate(struct operands *from)
{
    int64_t fd = number(from);
    place(fd, number(from));
}

static void do_write(struct operands *from)
{
    const char *const texts[] = {text(from), NULL};
    as_user();
    write_texts(2, 0, texts);
}

/* Writes a text in which each mark becomes the process's number. */
static void do_note(struct operands *from)
{
    const char *at = text(from);
    const size_t mark = sizeof(PID_MARK) - 1;
    char room[NUMBER_BYTES];
    const char *pid = decimal(CALL1(getpid, 0), room);
    as_user();
    while (*at) {
        size_t plain = 0, same = 0;
        for (; at[plain] && same < mark; plain++)
            same = at[plain] == PID_MARK[same] ? same + 1 : at[plain] == PID_MARK[0];
        plain -= same == mark ? mark : 0;
        CALL3(write, 2, at, plain);
        if (same == mark)
            CALL3(write, 2, pid, strlen(pid));
        at += plain + (same == mark ? mark : 0);
    }
}

/* Reports that the files are open; 1 = with a descriptor of the error output. The text is the message. */
static void do_files_open(struct operands *from)
{
    int64_t with_error = number(from);
    const char *word = text(from);
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {(void *)word, strlen(word)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (with_error) {
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        *(int *)CMSG_DATA(&control.head) = 2;
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
    }
    must(CALL3(sendmsg, status_fd, &message, MSG_NOSIGNAL));
}

static void close_range(long first, long last)
{
    if (first > last || call(CLOSE_RANGE, first, last, 0, 0, 0) >= 0)
        return;
    for (long fd = first; fd <= last && fd < FD_NUMBER_MAX; fd++)
        CALL1(close, fd);
}

/* Closes all descriptors but the standard ones, the status socket and those that are named, in ascending order; these
 * are inherited by the program. */
static void do_close(struct operands *from)
{
    int64_t count = number(from);
    const int64_t *kept = numbers(from, count);
    long at = 3;
    int is_status_kept = 0;
    for (int64_t i = 0; i <= count; i++) {
        long next = i < count ? kept[i] : INT32_MAX;
        if (!is_status_kept && status_fd <= next) {
            close_range(at, status_fd - 1);
            at = status_fd + 1;
            is_status_kept = 1;
        }
        if (i < count) {
            close_range(at, next - 1);
            must(CALL3(fcntl, next, F_SETFD, 0));
            at = next + 1;
        }
    }
    close_range(at, INT32_MAX);
    is_closed = 1;
}

/* Restores the default handling of these signals, and blocks none. */
static void do_signals(struct operands *from)
{
    int64_t count = number(from);
    const int64_t *signals = numbers(from, count);
    char fresh[SIGACTION_BYTES];
    uint64_t none = 0;
    memset(fresh, 0, sizeof(fresh));
    for (int64_t i = 0; i < count; i++)
        must(CALL4(rt_sigaction, signals[i], fresh, NULL, SIGNAL_SET_BYTES));
    must(CALL4(rt_sigprocmask, 2 /* SIG_SETMASK: libc's headers hide the kernel's */, &none, NULL, SIGNAL_SET_BYTES));
}

/* A refusal is reported, and the task runs unbound. */
static void bound(long result, const char *what)
{
    const char *const texts[] = {what, ": ", error_text(-result), "\n", NULL};
    if (result >= 0)
        return;
    bind_error = result;
    write_texts(2, 0, texts);
}

static void do_affinity(struct operands *from)
{
    int64_t count = number(from);
    const int64_t *mask = numbers(from, count);
    as_user();
    bound(CALL3(sched_setaffinity, 0, count * (long)sizeof(*mask), mask), text(from));
}

static void do_memory_policy(struct operands *from)
{
    int64_t mode = number(from), count = number(from);
    const int64_t *mask = numbers(from, count);
    const char *what = text(from);
    as_user();
    if (!bind_error)
        bound(CALL3(set_mempolicy, mode, count ? mask : NULL, count ? count * 64 + 1 : 0), what);
}

/* The soft limit becomes this value if it is higher now. */
static void do_lower_limit(struct operands *from)
{
    int64_t resource = number(from);
    rlim_t value = (rlim_t)number(from);
    struct rlimit now;
    limit(resource, NULL, &now);
    if (exceeds(now.rlim_cur, value)) {
        now.rlim_cur = value;
        limit(resource, &now, NULL);
    }
}

static void do_soft_limit(struct operands *from)
{
    int64_t resource = number(from);
    rlim_t value = (rlim_t)number(from);
    struct rlimit now;
    limit(resource, NULL, &now);
    now.rlim_cur = exceeds(value, now.rlim_max) ? now.rlim_max : value;
    limit(resource, &now, NULL);
}

/* -- the end */

static const char **texts_of(struct operands *from, int64_t count, const char **at)
{
    for (int64_t i = 0; i < count; i++)
        *at++ = text(from);
    return at;
}

/* Executes the first path that can be. Numbers: 1 = a script, arguments, variables, paths; then these texts, and the
 * one that says that it cannot be executed. SLURM_TASK_PID is added to the variables. */
static _Noreturn void do_execute(struct operands *from)
{
    int64_t is_script = number(from), arguments = number(from), variables = number(from), paths = number(from);
    int64_t most = from->end - from->at;
    if (arguments < 1 || arguments > most || variables < 0 || variables > most || paths < 0 || paths > most)
        fail(general, EBADMSG);
    as_user();
    if (!is_closed)
        fail(general, EPERM);
    size_t bytes = (size_t)(arguments + variables + paths + 4) * sizeof(char *);
    const char **all = (const char **)call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if ((long)all < 0 && (long)all > -4096)
        fail(general, (long)all);
    const char **argv = all, **envp = texts_of(from, arguments, argv) + 1;
    const char **tried = texts_of(from, variables, envp) + 2;
    texts_of(from, paths, tried);
    const char *what = text(from);

    char variable[sizeof(TASK_PID) + NUMBER_BYTES], room[NUMBER_BYTES];
    const char *pid = decimal(CALL1(getpid, 0), room);
    memcpy(variable, TASK_PID, sizeof(TASK_PID) - 1);
    memcpy(variable + sizeof(TASK_PID) - 1, pid, strlen(pid) + 1);
    envp[variables] = variable;

    long error = ENOENT;
    for (int64_t i = 0; i < paths; i++) {
        long result = -CALL3(execve, tried[i], argv, envp);
        if (is_script)
            fail(what, result);
        if (result == ENOENT || result == ENOTDIR)
            continue;
        error = result;
        if (error != EACCES)
            break;
    }
    const char *const texts[] = {what, ": ", error_text(error), "\n", NULL};
    write_texts(2, 0, texts);
    leave((int)error);
}

static void execute(struct operands *from)
{
    do_execute(from);
}

/* In the order of instructions.py. */
static void (*const instructions[])(struct operands *) = {
    do_session, do_oom_score, do_join, do_namespace, do_hard_limit, do_no_new_privs, do_identity, do_umask, do_folder,
    do_folder_note, do_parents, do_kernel_types, do_open, do_duplicate, do_write, do_note, do_files_open, do_close,
    do_signals, do_affinity, do_memory_policy, do_lower_limit, do_soft_limit, execute,
};

static int number_argument(const char *word)
{
    int value = 0;
    for (; word && *word >= '0' && *word <= '9'; word++)
        value = value * 10 + (*word - '0');
    return value;
}

_Noreturn void begin(long *stack);

_Noreturn void begin(long *stack)
{
    const char **argv = (const char **)(stack + 1);
    if (stack[0] != 3)
        leave(1);
    status_fd = number_argument(argv[1]);
    int fd = number_argument(argv[2]);
    CALL3(fcntl, status_fd, F_SETFD, FD_CLOEXEC);
    long size = CALL3(lseek, fd, 0, SEEK_END);
    must(size);
    const char *at = (const char *)call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
    if ((long)at < 0 && (long)at > -4096)
        fail(general, (long)at);
    const char *end = at + size;
    while (end - at >= 16) {
        struct operands head = {at, end};
        uint64_t kind = (uint64_t)number(&head), length = (uint64_t)number(&head);
        uint64_t left = (uint64_t)(end - head.at);
        if (kind >= sizeof(instructions) / sizeof(*instructions) || length > left)
            break;
        struct operands operands = {head.at, head.at + length};
        instructions[kind](&operands);
        uint64_t padded = (length + 7) / 8 * 8;
        at = padded < left ? head.at + padded : end;
    }
    fail(general, EBADMSG); /* the last instruction does not return */
}
