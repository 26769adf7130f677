/* What the system answers a process into which this is loaded (LD_PRELOAD): as ever, until the words of the file that
   FAULTS names say otherwise. Another process writes them while this one runs.

   Only the disk on which that file lies is full or read-only: sockets, pipes and memory are what they were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct words {
    int64_t clock; /* seconds by which the clock is wrong */
    int32_t disk;  /* errno of whatever changes a file; 0: none */
    int32_t names; /* what getaddrinfo returns; 0: what it finds */
};

static const struct words none, *words = &none;
static dev_t disk;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat status;
    if (file < 0) return;
    if (fstat(file, &status) == 0 && status.st_size >= (off_t)sizeof *words) {
        void *at = mmap(NULL, sizeof *words, PROT_READ, MAP_SHARED, file, 0);
        if (at != MAP_FAILED) disk = status.st_dev, words = at;
    }
    close(file);
}

/* The errno with which a change of an open file fails now, 0 if it does not. */
static int fails(int file) {
    struct stat status;
    int now = ((const volatile struct words *)words)->disk;
    return now && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == disk ? now : 0;
}

/* The same of a name in a folder; a folder that is not there is the real call's to refuse. */
static int fails_at(int folder, const char *name) {
    char above[4096];
    struct stat status;
    size_t length = 0;
    int now = ((const volatile struct words *)words)->disk;
    if (!now) return 0;
    for (size_t i = 0; name[i]; i++)
        if (name[i] == '/') length = i + 1;
    if (length >= sizeof above) return 0;
    for (size_t i = 0; i < length; i++) above[i] = name[i];
    above[length] = 0;
    return fstatat(folder, length ? above : ".", &status, 0) == 0 && status.st_dev == disk ? now : 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE(why) \
    do { \
        int failure = (why); \
        if (failure) { \
            errno = failure; \
            return -1; \
        } \
    } while (0)

#define CHANGES(result, name, parameters, arguments) \
    result name parameters { \
        REFUSE(fails(file)); \
        return REAL(name) arguments; \
    }
CHANGES(ssize_t, write, (int file, const void *from, size_t size), (file, from, size))
CHANGES(ssize_t, writev, (int file, const struct iovec *from, int count), (file, from, count))
CHANGES(ssize_t, pwrite, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
CHANGES(ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
CHANGES(ssize_t, pwritev, (int file, const struct iovec *from, int count, off_t at), (file, from, count, at))
CHANGES(int, ftruncate, (int file, off_t size), (file, size))
CHANGES(int, ftruncate64, (int file, off64_t size), (file, size))
CHANGES(int, fsync, (int file), (file))
CHANGES(int, fdatasync, (int file), (file))

#define NAMES(name, parameters, folder, path, arguments) \
    int name parameters { \
        REFUSE(fails_at(folder, path)); \
        return REAL(name) arguments; \
    }
NAMES(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, (path, mode))
NAMES(mkdirat, (int folder, const char *path, mode_t mode), folder, path, (folder, path, mode))
NAMES(rename, (const char *path, const char *to), AT_FDCWD, to, (path, to))
NAMES(renameat, (int folder, const char *path, int other, const char *to), other, to, (folder, path, other, to))
NAMES(link, (const char *path, const char *to), AT_FDCWD, to, (path, to))
NAMES(linkat, (int folder, const char *path, int other, const char *to, int flags), other, to, (folder, path, other, to, flags))
NAMES(symlink, (const char *to, const char *path), AT_FDCWD, path, (to, path))

/* A full disk still takes away, and opens what is there; one that is read-only does neither. */
static int read_only(int folder, const char *path) {
    int now = fails_at(folder, path);
    return now == EROFS ? now : 0;
}

static int opens(int folder, const char *path, int flags) {
    int now = (flags & O_TMPFILE) == O_TMPFILE || flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR) ? fails_at(folder, path) : 0;
    return now && (now == EROFS || (flags & O_CREAT && faccessat(folder, path, F_OK, 0))) ? now : 0;
}

int unlink(const char *path) {
    REFUSE(read_only(AT_FDCWD, path));
    return REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    REFUSE(read_only(folder, path));
    return REAL(unlinkat)(folder, path, flags);
}

#define OPENS(name, parameters, folder, arguments) \
    int name parameters { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        REFUSE(opens(folder, path, flags)); \
        return REAL(name) arguments; \
    }
OPENS(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))

/* Of clocks the one alone that people set. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += words->clock;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = REAL(gettimeofday)(now, zone);
    if (result == 0) now->tv_sec += words->clock;
    return result;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found) {
    int numeric = hints && hints->ai_flags & AI_NUMERICHOST;
    int now = ((const volatile struct words *)words)->names;
    if (now && name && !numeric && name[0] != ':' && (name[0] < '0' || name[0] > '9')) return now;
    return REAL(getaddrinfo)(name, service, hints, found);
}
