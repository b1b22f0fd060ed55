/* Notes who writes to what is a user's (LD_PRELOAD). For each write, change of mode, owner or length, and each entry that is
 * made, removed or renamed in a folder, of what does not belong to root, the file WHOWRITES_LOG gets a line
 *     CALL FSUID OWNER PATH
 * FSUID is the one with which the kernel judges the call, OWNER that of the file, or of the folder for CALLs on paths, both as
 * they are just before the call. Sockets and unnamed pipes are not files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void note(const char *call, unsigned owner, const char *path)
{
    const char *log = getenv("WHOWRITES_LOG");
    if (!log || owner == 0)
        return;
    unsigned fsuid = (unsigned)syscall(SYS_setfsuid, -1);
    char line[PIPE_BUF];
    int size = snprintf(line, sizeof line, "%s %u %u %s\n", call, fsuid, owner, path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, size < (int)sizeof line ? size : (int)sizeof line - 1);
        syscall(SYS_close, fd);
    }
}

static void note_fd(const char *call, int fd)
{
    struct stat status;
    char name[64], path[2048];
    if (!getenv("WHOWRITES_LOG") || fstat(fd, &status) != 0 || S_ISSOCK(status.st_mode) || status.st_uid == 0)
        return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    if (strncmp(path, "pipe:", 5) != 0)
        note(call, status.st_uid, path);
}

static void note_at(const char *call, int folder, const char *path)
{
    struct stat status;
    char copy[2048];
    snprintf(copy, sizeof copy, "%s", path ? path : "");
    if (getenv("WHOWRITES_LOG") && fstatat(folder, dirname(copy), &status, 0) == 0)
        note(call, status.st_uid, path);
}

#define SHOWN __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OF_DESCRIPTOR(type, name, parameters, arguments) \
    SHOWN type name parameters \
    { \
        note_fd(#name, fd); \
        return NEXT(name) arguments; \
    }

#define OF_PATH(name, parameters, arguments, folder, path) \
    SHOWN int name parameters \
    { \
        note_at(#name, folder, path); \
        return NEXT(name) arguments; \
    }

#define OPENS(name, parameters, arguments, folder) \
    SHOWN int name parameters \
    { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        if (flags & (O_CREAT | O_TRUNC)) \
            note_at(#name, folder, path); \
        return NEXT(name) arguments; \
    }

OF_DESCRIPTOR(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
OF_DESCRIPTOR(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OF_DESCRIPTOR(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
OF_DESCRIPTOR(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
OF_DESCRIPTOR(int, ftruncate, (int fd, off_t size), (fd, size))
OF_DESCRIPTOR(int, ftruncate64, (int fd, off64_t size), (fd, size))
OF_DESCRIPTOR(int, fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group))
OF_DESCRIPTOR(int, fchmod, (int fd, mode_t mode), (fd, mode))
OPENS(open, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)
OF_PATH(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
OF_PATH(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), folder, path)
OF_PATH(rmdir, (const char *path), (path), AT_FDCWD, path)
OF_PATH(unlink, (const char *path), (path), AT_FDCWD, path)
OF_PATH(unlinkat, (int folder, const char *path, int flags), (folder, path, flags), folder, path)
OF_PATH(rename, (const char *from, const char *to), (from, to), AT_FDCWD, to)
OF_PATH(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), b, to)
OF_PATH(symlink, (const char *to, const char *path), (to, path), AT_FDCWD, path)
OF_PATH(link, (const char *from, const char *path), (from, path), AT_FDCWD, path)
OF_PATH(chmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
OF_PATH(chown, (const char *path, uid_t owner, gid_t group), (path, owner, group), AT_FDCWD, path)
OF_PATH(lchown, (const char *path, uid_t owner, gid_t group), (path, owner, group), AT_FDCWD, path)
