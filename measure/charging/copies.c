/* Has tcpdump wait for captures once it has started, which takes far longer in a guest than all else
 * that a short capture does, and make each in a copy of itself: a fork that has seen no other. It is
 * preloaded; tcpdump is as it is. QOP_COPIES_LINE is a descriptor: a socket by which captures come.
 *
 * A request is one message: two descriptors (standard output and error of the copy) and words, each
 * with a null byte behind it: the process in whose network and mounts to capture ("" for its own),
 * how many milliseconds at most packets are kept back (QOP_PROMPTLY_MS; "" if nothing is to be said
 * of that), and the arguments as main has them. The answer is the copy's number. It is a child of who
 * asks, as if that had started it, and ends with it.
 *
 * It is linked against no library; what it calls is the C library that tcpdump has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Declared here because newer headers replace atoi by a function that older C libraries lack. */
extern int atoi(const char *);
extern char *getenv(const char *);
extern int setenv(const char *, const char *, int);
extern int unsetenv(const char *);

#define ROOM 8192
#define WORDS 64
#define BEFORE_ARGUMENTS 2
#define PATH_ROOM 64
/* As in the guest's kernel: what is computed from now on is nobody's. Others refuse. */
#define SET_WORK_KIND 0x716f7001L
#define NOBODYS 4L

typedef int program(int, char **, char **);
typedef int begin(program *, int, char **, program *, void (*)(void), void (*)(void), void *);

struct request {
    char text[ROOM];
    char *words[WORDS + 1];
    int count;
    int files[2];
};

static program *tcpdump;

/* The next request; nobody to ask any more is the end. */
static void take(int line, struct request *asked)
{
    union {
        char bytes[CMSG_SPACE(sizeof asked->files)];
        struct cmsghdr header;
    } beside;
    struct iovec place = {asked->text, ROOM};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1, .msg_control = &beside,
                             .msg_controllen = sizeof beside};
    ssize_t bytes = recvmsg(line, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (bytes <= 0 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !header ||
        header->cmsg_len != CMSG_LEN(sizeof asked->files) || asked->text[bytes - 1])
        _exit(0);
    memcpy(asked->files, CMSG_DATA(header), sizeof asked->files);
    asked->count = 0;
    for (char *word = asked->text; word < asked->text + bytes; word += strlen(word) + 1) {
        if (asked->count == WORDS)
            _exit(0);
        asked->words[asked->count++] = word;
    }
    asked->words[asked->count] = NULL;
    if (asked->count <= BEFORE_ARGUMENTS)
        _exit(0);
}

static void enter(const char *process, const char *kind, int namespace)
{
    char path[PATH_ROOM];
    int there;

    snprintf(path, sizeof path, "/proc/%s/ns/%s", process, kind);
    there = open(path, O_RDONLY | O_CLOEXEC);
    if (there < 0 || setns(there, namespace)) {
        perror(path);
        _exit(1);
    }
    close(there);
}

/* The copy: where and how it was asked to be. */
static void become(int line, struct request *asked)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(line);
    for (int file = 0; file < 2; file++) {
        dup2(asked->files[file], file + 1);
        close(asked->files[file]);
    }
    syscall(SYS_prctl, SET_WORK_KIND, NOBODYS, 0L, 0L, 0L);
    if (*asked->words[0]) {
        enter(asked->words[0], "net", CLONE_NEWNET);
        enter(asked->words[0], "mnt", CLONE_NEWNS);
    }
    if (*asked->words[1])
        setenv("QOP_PROMPTLY_MS", asked->words[1], 1);
}

static int wait_then(int count, char **words, char **environment)
{
    static struct request asked;
    const char *said = getenv("QOP_COPIES_LINE");
    int line;

    if (!said)
        return tcpdump(count, words, environment);
    line = atoi(said);
    unsetenv("QOP_COPIES_LINE");
    for (;;) {
        long copy;

        take(line, &asked);
        copy = syscall(SYS_clone, (long)(CLONE_PARENT | SIGCHLD), 0L, 0L, 0L, 0L);
        if (copy == 0) {
            become(line, &asked);
            return tcpdump(asked.count - BEFORE_ARGUMENTS, asked.words + BEFORE_ARGUMENTS,
                           environ);
        }
        for (int file = 0; file < 2; file++)
            close(asked.files[file]);
        if (send(line, &copy, sizeof copy, MSG_NOSIGNAL) != sizeof copy)
            _exit(0);
    }
}

int __libc_start_main(program *main, int count, char **words, program *before,
                      void (*after)(void), void (*unload)(void), void *stack)
{
    tcpdump = main;
    return ((begin *)dlsym(RTLD_NEXT, "__libc_start_main"))(wait_then, count, words, before, after,
                                                            unload, stack);
}
