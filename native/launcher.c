/* sbatch, squeue, sinfo, ...: the quick way to a command.
 *
 * A Python command takes some 80 ms to begin. This program is installed under the commands' names. It asks this user's
 * command server (cli/commandserver/server.py), which has everything imported already, to run the command in a child of its own, and
 * hands it all that a command sees of the world: arguments, environment, open files, working directory, umask, signals
 * that are ignored. The child writes to our files itself; only signals and the exit status pass through here.
 * The child also gets one end of a pipe whose other end we alone hold and never write to: it closes when we end, however
 * we end, and takes the child with us (cli/commandserver/served.py, `_watch`).
 *
 * One rule is above all others: a command does what it would do in plain Python, and it is done once. So
 * - anything that is unusual leads to plain Python (`run_plain`), without a word, before the request is sent whole;
 *   the server's child begins only when it has all of it, and after that nothing is tried a second time;
 * - what a process inherits and cannot give to another is made equal instead: the server was started by a launcher with
 *   the same uid, groups, namespaces, root, control group, limits, capabilities, niceness, ... (`describe_context`).
 *   The name of the server's socket is a hash of all that. A caller that differs in one of them has another server;
 * - the first call does not wait for a server: it starts one and runs plain.
 * A job has a server of its own: it is one of the job's processes, counts as the job's memory, and ends with the step.
 * The first call in a job only leaves the lock's file, and the second one starts the server, so that a job with one
 * srun pays nothing. The same holds for the server of a terminal.
 *
 * srun, salloc and sattach use the terminal: job control, /dev/tty, the size of the window. Where there is a controlling
 * terminal, a server in the caller's session serves them, and its child joins the caller's process group: so the kernel
 * treats it as it would the command (`joins`). What the kernel sends to the group is not relayed then.
 *
 * Trust: the socket is in a folder that belongs to this uid and that no other user can enter, inspected without following
 * links; both sides ask the kernel who the other is (SO_PEERCRED). The server gains nothing that its caller has not.
 *
 * Nothing is needed but libc and /proc. No buffer grows; every limit has a name. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROTOCOL 3u                    /* cli/commandserver/protocol.py has the same numbers and layouts */
#define MAGIC (0x50535400u | PROTOCOL) /* "PST" and the protocol */
#define REQUEST_BYTES_MAX (2u << 20)   /* arguments and environment; more goes the plain way */
#define FILES_MAX 32                   /* files that are handed over: the caller's, our life, the folder */
#define FILES_OWN 2                    /* the last of them are ours and have no number */
#define GROUPS_MAX 1024
#define CONTEXT_BYTES_MAX 65536
#define SERVERS_MAX 8                  /* in one folder; who needs one more runs plain */
#define PATIENCE_MS 5000               /* a server that has not answered by then is not waited for */
#define FILE_NUMBER_MAX 65536          /* on a kernel without close_range (before 5.9) */
#define CLOSE_RANGE 436
#define JOB_MEMORY_MB_MIN 512          /* a job with less has no server */
#define SWITCH "PENSTOCK_COMMAND_SERVER"

enum { READY = 0 };                    /* any other word of greeting means: do it yourself */
enum { EXITED = 1, SIGNALLED = 2, DECLINED = 3 };
struct greeting { uint32_t magic, word; int32_t pid; };
struct request { uint32_t magic, bytes, files, arguments, variables, umask; int32_t group, has_terminal; uint64_t ignored; int32_t numbers[FILES_MAX]; };
struct report { uint32_t magic, kind; int32_t value; };

/* The commands that are served. The others, and new ones, run plain. */
static const char *const served[] = {"sbatch", "squeue", "sinfo", "sacct", "sacctmgr", "scancel", "scontrol", "sdiag",
                                     "sprio", "sshare", "sstat", "seff", "sreport", "srun", "salloc", "sattach", NULL};
static const char *const on_terminals[] = {"srun", "salloc", "sattach", NULL}; /* those that use one as their own */
static const int relayed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGTSTP, SIGTTIN,
                              SIGTTOU, SIGCONT, SIGWINCH, 0};
/* Identify the job of a server: without control groups nothing else distinguishes two jobs of a user. */
static const char *const of_job[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_RESTART_COUNT",
                                     "SLURMD_NODENAME", "PENSTOCK_CLUSTER", NULL};
/* Variables that a server inherits from the process that starts it; its children get those of their callers. */
static const char *const kept[] = {"HOME", "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH",
                                   "TMPDIR", "PENSTOCK_COMMAND_SERVER_IDLE_S", NULL};

extern char **environ;
static char **arguments;
static const char *name;
static char self[PATH_MAX], python[PATH_MAX], beside[PATH_MAX + 16]; /* ours, the interpreter, the script penstock */
static volatile sig_atomic_t caught[NSIG];
static pid_t worker;
static int has_terminal, joins, in_job; /* a controlling terminal; the child joins our process group; a step's process */

/* ---- the plain way */

/* The interpreter: pip wrote it into the first lines of the script `penstock` beside us. */
static int find_python(void)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        const char *path = (const char *)getauxval(AT_EXECFN);
        if (path == NULL || realpath(path, self) == NULL)
            return -1;
        length = (ssize_t)strlen(self);
    }
    self[length] = 0;
    char head[2 * PATH_MAX];
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return -1;
    snprintf(beside, sizeof beside, "%.*s/penstock", (int)(slash - self), self);
    int file = open(beside, O_RDONLY | O_CLOEXEC);
    length = file < 0 ? -1 : read(file, head, sizeof head - 1);
    if (file >= 0)
        close(file);
    if (length <= 2 || head[0] != '#' || head[1] != '!')
        return -1;
    head[length] = 0;
    char *begin = head + 2, *end, *exec;
    /* A path that is too long or has spaces: #!/bin/sh, then '''exec' "PATH" "$0" "$@" */
    if (strncmp(begin, "/bin/sh\n", 8) == 0 && (exec = strstr(begin, "exec' ")) != NULL) {
        begin = exec + 6;
        end = *begin == '"' ? strchr(++begin, '"') : begin + strcspn(begin, " \n");
    } else {
        end = begin + strcspn(begin, " \r\n");
    }
    if (end == NULL || end == begin || end - begin >= PATH_MAX || *begin != '/')
        return -1;
    *end = 0;
    strcpy(python, begin);
    return 0;
}

/* Variables of the caller's own Python (-E) and modules in their folder (-P) are not ours; paths are bytes (utf8). */
static void exec_python(const char *code, char **rest, int count)
{
    char **line = calloc((size_t)count + 8, sizeof *line);
    if (line == NULL)
        return;
    char *head[] = {python, "-EP", "-Xutf8", "-c", (char *)code};
    memcpy(line, head, sizeof head);
    for (int at = 0; at < count; at++)
        line[5 + at] = rest[at];
    execv(python, line);
}

static void run_plain(void)
{
    int count = 0;
    char code[160];
    while (arguments[count] != NULL)
        count++;
    snprintf(code, sizeof code, "from cli.%s import main; import sys; sys.argv[0] = '%s'; main()", name, name);
    if (python[0] != 0)
        exec_python(code, arguments + (count > 0), count - (count > 0));
    dprintf(2, "%s: error: its Python does not start (%s): install Penstock again\n", name, python[0] ? python : self);
    _exit(1);
}

/* ---- what must be the same in the server */

struct text { size_t length; char bytes[CONTEXT_BYTES_MAX]; };

static void add(struct text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
#include <stdarg.h>
static void add(struct text *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    size_t room = sizeof to->bytes - to->length;
    int length = vsnprintf(to->bytes + to->length, room, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= room)
        run_plain(); /* no context is that long */
    to->length += (size_t)length;
}

static void add_link(struct text *to, const char *path)
{
    char target[256];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        run_plain();
    target[length] = 0;
    add(to, "%s\n", target);
}

static size_t read_file(const char *path, char *into, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, into, size - 1);
    if (file >= 0)
        close(file);
    into[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static void describe_context(struct text *to)
{
    static const char *const spaces[] = {"mnt", "net", "pid", "user", "uts", "ipc", "cgroup", NULL};
    static const char *const lines[] = {"Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed", NULL};
    char buffer[16384], path[64];
    gid_t groups[GROUPS_MAX];
    struct stat status;
    add(to, "%u %d %d %s\n", PROTOCOL, (int)getuid(), (int)getgid(), python);
    if (stat(beside, &status) != 0) /* which installation; pip rewrites it each time */
        run_plain();
    add(to, "%ju %ju %jd\n", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino, (intmax_t)status.st_mtime);
    int count = getgroups(GROUPS_MAX, groups);
    if (count < 0)
        run_plain();
    for (int at = 0; at < count; at++)
        add(to, "%d,", (int)groups[at]);
    for (int at = 0; spaces[at] != NULL; at++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[at]);
        add_link(to, path);
    }
    if (stat("/", &status) != 0)
        run_plain();
    add(to, "%ju %ju\n", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    read_file("/proc/self/cgroup", buffer, sizeof buffer);
    add(to, "%s\n", buffer);
    read_file("/proc/self/attr/current", buffer, sizeof buffer);
    add(to, "%s\n", buffer);
    if (read_file("/proc/self/status", buffer, sizeof buffer) == 0)
        run_plain();
    for (char *line = strtok(buffer, "\n"); line != NULL; line = strtok(NULL, "\n"))
        for (int at = 0; lines[at] != NULL; at++)
            if (strncmp(line, lines[at], strlen(lines[at])) == 0)
                add(to, "%s\n", line);
    for (int limit = 0; limit < RLIM_NLIMITS; limit++) {
        struct rlimit value = {0, 0};
        getrlimit(limit, &value);
        add(to, "%ju %ju,", (uintmax_t)value.rlim_cur, (uintmax_t)value.rlim_max);
    }
    if (joins)
        add(to, "session %d\n", (int)getsid(0));
    for (int at = 0; in_job && of_job[at] != NULL; at++)
        add(to, "%s=%s\n", of_job[at], getenv(of_job[at]) == NULL ? "" : getenv(of_job[at]));
    /* The session keyring holds the tickets of network file systems. */
    add(to, "%d %d %ld\n", getpriority(PRIO_PROCESS, 0), personality(0xffffffff), syscall(SYS_keyctl, 0, -3, 0));
}

static void hash(const struct text *from, char *into)
{
    uint64_t one = 14695981039346656037u, two = 0x9ae16a3b2f90404fu; /* FNV-1a, twice */
    for (size_t at = 0; at < from->length; at++) {
        one = (one ^ (unsigned char)from->bytes[at]) * 1099511628211u;
        two = (two ^ (unsigned char)from->bytes[at]) * 1099511628211u + (two >> 47);
    }
    snprintf(into, 33, "%016jx%016jx", (uintmax_t)one, (uintmax_t)two);
}

/* ---- the folder, and starting a server */

static int is_ours(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid() &&
           (status.st_mode & 077) == 0;
}

static int find_folder(char *into, size_t size)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (base != NULL && base[0] == '/' && is_ours(base))
        snprintf(into, size, "%s/penstock", base);
    else
        snprintf(into, size, "/tmp/penstock-%d", (int)getuid());
    if (strlen(into) + 1 + 32 >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return -1;
    if (mkdir(into, 0700) != 0 && errno != EEXIST)
        return -1;
    return is_ours(into) ? 0 : -1;
}

/* Locks that are held. The others were left by servers that were killed; the next server clears them away. */
static int count_servers(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return SERVERS_MAX;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        int lock = strstr(entry->d_name, ".lock") == NULL
                       ? -1
                       : openat(dirfd(entries), entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (lock < 0)
            continue;
        count += flock(lock, LOCK_EX | LOCK_NB) != 0;
        close(lock);
    }
    closedir(entries);
    return count;
}

/* Who holds the lock is the server, from before its start until its end. */
static void start_server(const char *folder, const char *key)
{
    char path[PATH_MAX], number[16];
    snprintf(path, sizeof path, "%s/%s.lock", folder, key);
    int is_first = access(path, F_OK) != 0;
    if (is_first && !in_job && count_servers(folder) >= SERVERS_MAX)
        return;
    int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0)
        return;
    if (is_first && (in_job || joins)) { /* the next call starts it */
        close(lock);
        return;
    }
    struct stat there, here;
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 || fstat(lock, &here) != 0 || lstat(path, &there) != 0 ||
        here.st_ino != there.st_ino) { /* one is starting, or ending */
        close(lock);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        if (joins)
            setpgid(0, 0); /* in the session, but never in its foreground */
        else
            setsid();
        if (fork() != 0)
            _exit(0); /* the server has no parent in this process: the command that we become must not find a child */
        int null = open("/dev/null", O_RDWR);
        int high = fcntl(lock, F_DUPFD, 3);
        if (null < 0 || high < 0 || chdir("/") != 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
            dup2(high, 3) < 0)
            _exit(1);
        if (syscall(CLOSE_RANGE, 4u, ~0u, 0u) != 0)
            for (int file = 4; file < FILE_NUMBER_MAX; file++)
                close(file);
        for (int at = 1; at < NSIG; at++)
            signal(at, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        umask(077);
        char *few[sizeof kept / sizeof *kept], **next = few;
        for (int at = 0; kept[at] != NULL; at++)
            for (char **entry = environ; *entry != NULL; entry++)
                if (strncmp(*entry, kept[at], strlen(kept[at])) == 0 && (*entry)[strlen(kept[at])] == '=') {
                    *next++ = *entry;
                    break;
                }
        *next = NULL;
        environ = few;
        snprintf(number, sizeof number, "%d", 3);
        char *words[] = {(char *)folder, (char *)key, number};
        exec_python("from cli.commandserver.server import main; main()", words, 3);
        _exit(1);
    }
    if (child > 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    close(lock);
}

/* ---- the request */

static int connect_server(const char *folder, const char *key)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    snprintf(where.sun_path, sizeof where.sun_path, "%s/%s", folder, key);
    int wire = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (wire < 0)
        run_plain();
    if (connect(wire, (struct sockaddr *)&where, sizeof where) != 0) {
        int no_server = errno == ENOENT || errno == ECONNREFUSED;
        close(wire);
        if (no_server)
            start_server(folder, key);
        run_plain();
    }
    if (getsockopt(wire, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != getuid())
        run_plain();
    return wire;
}

static int await_wire(int wire, short what)
{
    struct pollfd one = {.fd = wire, .events = what};
    int ready;
    while ((ready = poll(&one, 1, PATIENCE_MS)) < 0 && errno == EINTR) {
    }
    return ready == 1 ? 0 : -1;
}

/* Every open file under its own number, so that `sbatch <(make-script)` finds /dev/fd/63. */
static int collect_files(int wire, int *files, int32_t *numbers, uint32_t *count)
{
    DIR *entries = opendir("/proc/self/fd");
    if (entries == NULL)
        return -1;
    *count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        int file = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || file == wire || file == dirfd(entries) || fcntl(file, F_GETFD) & FD_CLOEXEC)
            continue;
        if (*count == FILES_MAX - FILES_OWN) {
            closedir(entries);
            return -1;
        }
        files[*count] = numbers[*count] = file;
        ++*count;
    }
    closedir(entries);
    return 0;
}

static size_t pack_words(char **words, char *into, size_t at, uint32_t *count)
{
    for (*count = 0; words[*count] != NULL; ++*count) {
        size_t size = strlen(words[*count]) + 1;
        if (at + size > REQUEST_BYTES_MAX)
            run_plain();
        memcpy(into + at, words[*count], size);
        at += size;
    }
    return at;
}

static int send_request(int wire, uint64_t ignored)
{
    static char body[REQUEST_BYTES_MAX];
    struct request head = {.magic = MAGIC, .group = joins ? getpgrp() : 0, .has_terminal = has_terminal, .ignored = ignored};
    int files[FILES_MAX], life[2];
    if (pipe2(life, O_CLOEXEC) != 0) /* life[1] is closed by our end and by nothing else */
        return -1;
    if (collect_files(wire, files, head.numbers, &head.files) != 0)
        return -1;
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0)
        return -1;
    files[head.files] = life[0];
    head.numbers[head.files++] = -1;
    files[head.files] = here;
    head.numbers[head.files++] = -1;
    size_t size = pack_words(arguments, body, 0, &head.arguments);
    size = pack_words(environ, body, size, &head.variables);
    for (char **entry = environ; *entry != NULL; entry++)
        if (strchr(*entry, '=') == NULL || **entry == '=')
            return -1; /* not something that a Python dictionary gives back as it was */
    head.bytes = (uint32_t)size;
    head.umask = umask(0);
    umask(head.umask);

    union { char bytes[CMSG_SPACE(sizeof files)]; struct cmsghdr align; } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&head, sizeof head};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(head.files * sizeof(int))};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(head.files * sizeof(int));
    memcpy(CMSG_DATA(rights), files, head.files * sizeof(int));
    if (sendmsg(wire, &message, MSG_NOSIGNAL) != (ssize_t)sizeof head)
        return -1;
    close(here);
    close(life[0]);
    for (size_t sent = 0; sent < size;) {
        ssize_t step = send(wire, body + sent, size - sent, MSG_NOSIGNAL);
        if (step > 0)
            sent += (size_t)step;
        else if (step < 0 && errno != EINTR && (errno != EAGAIN || await_wire(wire, POLLOUT) != 0))
            return -1; /* not whole, so the child has not begun */
    }
    return 0;
}

/* ---- signals, and the end */

static int is_stop(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* What the kernel sends for a terminal goes to the whole group: a child in it has it already, and only stops are ours. */
static void catch(int number, siginfo_t *from, void *context)
{
    (void)context;
    int is_known = joins && (from->si_code == SI_KERNEL || from->si_pid == worker);
    if (!is_known || is_stop(number))
        caught[number] = 1 + is_known;
}

static void take_default(int number)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigaction(number, &plain, NULL);
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static void notify_child(int handle, pid_t child, int number)
{
#ifdef SYS_pidfd_send_signal
    if (handle >= 0 && (syscall(SYS_pidfd_send_signal, handle, number, NULL, 0) == 0 || errno != ENOSYS))
        return;
#endif
    if (handle < 0)
        kill(child, number);
}

static int stops_itself(void)
{
    return strcmp(name, "srun") == 0;
}

static void relay(int handle, pid_t child, uint64_t ignored)
{
    for (int at = 0; relayed[at] != 0; at++) {
        int number = relayed[at];
        if (!caught[number])
            continue;
        int is_known = caught[number] == 2; /* to the child, which is in our group */
        caught[number] = 0;
        if (is_stop(number)) {
            struct sigaction again = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO};
            if (!is_known) /* srun stops its tasks first; a group without a parent is stopped by nothing but SIGSTOP */
                notify_child(handle, child, joins || stops_itself() ? number : SIGSTOP);
            take_default(number); /* we stop here, and our shell sees it */
            if (!(ignored >> number & 1)) {
                sigset_t one;
                sigemptyset(&one);
                sigaddset(&one, number);
                sigprocmask(SIG_BLOCK, &one, NULL);
                sigaction(number, &again, NULL);
            }
            if (!is_known)
                notify_child(handle, child, SIGCONT);
        } else {
            notify_child(handle, child, number);
        }
    }
}

/* Until the report comes. Returns only if the child says that this command is not for it. */
static void await_end(int wire, pid_t child, int handle, const sigset_t *before, uint64_t ignored)
{
    struct report report = {0, 0, 0};
    struct pollfd one = {.fd = wire, .events = POLLIN};
    for (;;) {
        relay(handle, child, ignored);
        if (ppoll(&one, 1, NULL, before) < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        ssize_t length = recv(wire, &report, sizeof report, 0);
        if (length < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (length != (ssize_t)sizeof report || report.magic != MAGIC)
            break;
        if (report.kind == DECLINED)
            return;
        if (report.kind == EXITED)
            _exit(report.value);
        if (report.kind == SIGNALLED && report.value != SIGKILL) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none); /* if anything left a core, it was the child */
            take_default(report.value);
            _exit(128 + report.value);
        }
        break; /* SIGKILL of the child was not meant for the command: it was the kernel or the administrator, and is not our end */
    }
    dprintf(2, "%s: error: the process that ran it was killed: it is not known whether the command was carried out\n", name);
    _exit(1);
}

static int is_among(const char *const *names)
{
    for (int at = 0; names[at] != NULL; at++)
        if (strcmp(name, names[at]) == 0)
            return 1;
    return 0;
}

/* A size or count of the job; 0 = not given. No job has a number beyond 32 bits, so products do not overflow. */
static long number_in(const char *variable)
{
    const char *text = getenv(variable);
    long number = text == NULL ? 0 : strtol(text, NULL, 10);
    return number > 0 && number <= INT32_MAX ? number : 0;
}

/* A script or a task of a job on a node; a shell of salloc has no SLURMD_NODENAME, a site's prolog no SLURM_PROCID. */
static int is_batch_or_small(const char *setting)
{
    long memory_mb = number_in("SLURM_MEM_PER_NODE");
    if (memory_mb == 0)
        memory_mb = number_in("SLURM_MEM_PER_CPU") * number_in("SLURM_CPUS_ON_NODE");
    if (getenv("SLURM_JOB_ID") == NULL || getenv("SLURMD_NODENAME") == NULL)
        return 0;
    in_job = 1;
    if (setting != NULL && strcmp(setting, "1") == 0)
        return 0;
    return getenv("SLURM_PROCID") == NULL || (memory_mb > 0 && memory_mb < JOB_MEMORY_MB_MIN);
}

static int must_run_directly(void)
{
    const char *setting = getenv(SWITCH);
    sigset_t blocked;
    if (!is_among(served) || (setting != NULL && strcmp(setting, "0") == 0) || is_batch_or_small(setting))
        return 1;
    if (getauxval(AT_SECURE) || getuid() != geteuid() || getgid() != getegid())
        return 1;
    if (getenv("LD_PRELOAD") != NULL || getenv("LD_AUDIT") != NULL) /* they look into the process: let them */
        return 1;
    for (int file = 0; file < 3; file++)
        if (fcntl(file, F_GETFD) < 0)
            return 1;
    sigemptyset(&blocked);
    if (sigprocmask(SIG_BLOCK, NULL, &blocked) != 0 || !sigisemptyset(&blocked))
        return 1;
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    has_terminal = terminal >= 0 || isatty(0);
    if (terminal >= 0)
        close(terminal);
    joins = terminal >= 0 && is_among(on_terminals);
    return !joins && isatty(0) && tcgetpgrp(0) != getpgrp(); /* in the background a terminal must not be read */
}

int main(int argc, char **argv)
{
    static struct text context;
    char folder[PATH_MAX], key[33];
    struct greeting greeting;
    sigset_t ours, before;
    uint64_t ignored = 0;

    (void)argc;
    arguments = argv;
    name = argv[0] == NULL ? "" : strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    if (strlen(name) == 0 || strlen(name) > 32 || strspn(name, "abcdefghijklmnopqrstuvwxyz") != strlen(name)) {
        dprintf(2, "penstock: error: this program runs the command that it is called by\n");
        return 1;
    }
    if (find_python() != 0 || must_run_directly())
        run_plain();
    describe_context(&context);
    hash(&context, key);
    if (find_folder(folder, sizeof folder) != 0)
        run_plain();
    int wire = connect_server(folder, key);
    if (await_wire(wire, POLLIN) != 0 || recv(wire, &greeting, sizeof greeting, 0) != (ssize_t)sizeof greeting ||
        greeting.magic != MAGIC || greeting.word != READY || greeting.pid <= 1)
        run_plain();
    worker = greeting.pid;
    int handle = -1;
#ifdef SYS_pidfd_open
    handle = (int)syscall(SYS_pidfd_open, greeting.pid, 0); /* close-on-exec by itself */
#endif
    sigemptyset(&ours);
    for (int number = 1; number < 64; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            ignored |= (uint64_t)1 << number;
    }
    for (int at = 0; relayed[at] != 0; at++)
        if (!(ignored >> relayed[at] & 1))
            sigaddset(&ours, relayed[at]);
    sigprocmask(SIG_BLOCK, &ours, &before);
    if (send_request(wire, ignored) != 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        close(wire);
        run_plain();
    }
    for (int at = 0; relayed[at] != 0; at++) {
        struct sigaction now = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO};
        if (!(ignored >> relayed[at] & 1))
            sigaction(relayed[at], &now, NULL);
    }
    await_end(wire, greeting.pid, handle, &before, ignored);
    sigprocmask(SIG_SETMASK, &before, NULL);
    run_plain(); /* declined, and nothing was done */
}
