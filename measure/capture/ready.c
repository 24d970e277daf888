/* Has tshark wait for captures once it has started, which takes far longer than to dissect one, and
 * dissect each in a copy of itself, a fork, that has never seen another. It is preloaded; tshark is
 * as it is. QOP_READY_LINE is a descriptor: a socket by which captures come, and word of their end.
 *
 * A request is one message: three descriptors (standard input, output and error of the copy) and
 * preferences as -o takes them, each with a null byte behind it. When the copy has ended, the answer
 * is its wait status and the microseconds of processor time that all of this has taken so far.
 *
 * Tshark calls wtap_open_offline where all it was told has been heeded and no capture opened yet.
 * What it frees at its end would be copied for that; nothing comes after it but the end itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 3
#define ROOM (1 << 16)

struct request {
    char preferences[ROOM];
    ssize_t bytes;
    int files[FILES];
};

struct answer {
    long status, used_us;
};

static long us(int whose)
{
    struct rusage used;

    getrusage(whose, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}

static void say(int line, long status)
{
    struct answer answer = {status, us(RUSAGE_SELF) + us(RUSAGE_CHILDREN)};

    if (send(line, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
        _exit(0);
}

/* The next request; nobody to ask any more is the end. */
static void take(int line, struct request *asked)
{
    union {
        char bytes[CMSG_SPACE(sizeof asked->files)];
        struct cmsghdr header;
    } beside;
    struct iovec place = {asked->preferences, ROOM};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1, .msg_control = &beside,
                             .msg_controllen = sizeof beside};
    struct cmsghdr *header;

    asked->bytes = recvmsg(line, &message, MSG_CMSG_CLOEXEC);
    header = CMSG_FIRSTHDR(&message);
    if (asked->bytes <= 0 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !header ||
        header->cmsg_len != CMSG_LEN(sizeof asked->files) ||
        asked->preferences[asked->bytes - 1])
        _exit(0);
    memcpy(asked->files, CMSG_DATA(header), sizeof asked->files);
}

/* The copy: files and preferences as asked, then on with tshark. */
static void become(int line, struct request *asked)
{
    int (*set)(char *, char **) = (int (*)(char *, char **))dlsym(RTLD_NEXT, "prefs_set_pref");
    void (*apply)(void) = (void (*)(void))dlsym(RTLD_NEXT, "prefs_apply_all");
    char *word = asked->preferences, *error = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(line);
    for (int file = 0; file < FILES; file++) {
        dup2(asked->files[file], file);
        close(asked->files[file]);
    }
    for (size_t size; word < asked->preferences + asked->bytes; word += size) {
        size = strlen(word) + 1;
        if (!set || !apply || set(word, &error)) {
            fprintf(stderr, "tshark: the preference \"%s\" cannot be set\n", word);
            exit(2);
        }
    }
    apply();
}

/* Its wait status; with it ends whatever it does if nobody waits for that any more. */
static int ended(int line, pid_t copy)
{
    struct pollfd either[] = {{.fd = (int)syscall(SYS_pidfd_open, copy, 0), .events = POLLIN},
                              {.fd = line, .events = POLLIN}};
    int status = 0;

    while (either[0].fd >= 0 && poll(either, 2, -1) < 0)
        ;
    if (either[1].revents && !either[0].revents) {
        kill(copy, SIGKILL);
        _exit(0);
    }
    close(either[0].fd);
    waitpid(copy, &status, 0);
    return status;
}

static void serve(int line)
{
    static struct request asked;
    pid_t copy;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (say(line, 0);; say(line, ended(line, copy))) {
        take(line, &asked);
        copy = fork();
        if (copy == 0) {
            become(line, &asked);
            return;
        }
        if (copy < 0)
            _exit(1);
        for (int file = 0; file < FILES; file++)
            close(asked.files[file]);
    }
}

void *wtap_open_offline(const char *name, unsigned type, int *error, char **info, int random)
{
    void *(*real)(const char *, unsigned, int *, char **, int) =
        (void *(*)(const char *, unsigned, int *, char **, int))dlsym(RTLD_NEXT,
                                                                      "wtap_open_offline");
    const char *line = getenv("QOP_READY_LINE");

    if (line) {
        int descriptor = atoi(line);
        unsetenv("QOP_READY_LINE");
        serve(descriptor);
    }
    return real(name, type, error, info, random);
}

void epan_cleanup(void)
{
}

void wtap_cleanup(void)
{
}
