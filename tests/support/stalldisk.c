/* A disk that stands still, for one process (LD_PRELOAD): while the file named by STALLDISK_GATE exists, whatever writes
 * to a regular file, or changes a folder, waits. Reading goes on. So it is where a file system's journal waits for its
 * device: write(2) itself then blocks, not only fsync(2). "GATE.waited" is made when something waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void stand_still(void)
{
    const char *gate = getenv("STALLDISK_GATE");
    char waited[4096];
    if (!gate || access(gate, F_OK) != 0)
        return;
    snprintf(waited, sizeof waited, "%s.waited", gate);
    close(open(waited, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (access(gate, F_OK) == 0)
        usleep(10000);
}

static void stand_still_for(int fd)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        stand_still();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OF_DESCRIPTOR(type, name, parameters, arguments) \
    __attribute__((visibility("default"))) type name parameters \
    { \
        stand_still_for(fd); \
        return NEXT(name) arguments; \
    }

#define OF_PATHS(name, parameters, arguments) \
    __attribute__((visibility("default"))) int name parameters \
    { \
        stand_still(); \
        return NEXT(name) arguments; \
    }

OF_DESCRIPTOR(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
OF_DESCRIPTOR(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OF_DESCRIPTOR(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
OF_DESCRIPTOR(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
OF_DESCRIPTOR(int, fsync, (int fd), (fd))
OF_DESCRIPTOR(int, fdatasync, (int fd), (fd))
OF_DESCRIPTOR(int, ftruncate, (int fd, off_t size), (fd, size))
OF_DESCRIPTOR(int, ftruncate64, (int fd, off64_t size), (fd, size))
OF_PATHS(rename, (const char *from, const char *to), (from, to))
OF_PATHS(unlink, (const char *path), (path))
OF_PATHS(mkdir, (const char *path, mode_t mode), (path, mode))
OF_PATHS(rmdir, (const char *path), (path))
OF_PATHS(chmod, (const char *path, mode_t mode), (path, mode))

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    if (address->sa_family == AF_UNIX && size > sizeof address->sa_family && address->sa_data[0])
        stand_still();
    return NEXT(bind)(fd, address, size);
}
